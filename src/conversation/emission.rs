//! What observers are told of an entry.

use super::event::{Event, EventKind, RunEnd};
use crate::record::entry::Entry;
use crate::record::model::{Decision, Id, Request, RunOutcome, StopReason};
use crate::record::state::{Ask, Phase, State};
use std::rc::Rc;

/// Adds the events of an entry, given the state after it and how many messages there were before.
pub fn events_of(entry: &Entry, state: &State, messages_before: usize, events: &mut Vec<Event>) {
    let mut tell = |at: &Rc<str>, kind: EventKind| {
        events.push(Event {
            conversation_id: state.created.conversation_id.clone(),
            run_id: state.last_run.clone(),
            at: at.clone(),
            revision: state.revision,
            kind,
        });
    };
    let published = |group_id: &Id| EventKind::Published {
        group_id: group_id.clone(),
        messages: state.messages.get(messages_before..).unwrap_or_default().to_vec(),
    };
    match entry {
        Entry::Created(_) | Entry::Selecting(_) | Entry::TurnSettled(_) | Entry::TurnFailed(_) => {}
        Entry::TurnUnsettled(_) | Entry::LateResult(_) | Entry::ExecutionRecorded(_) => {}
        Entry::TurnCopied(_) | Entry::MessageCopied(_) | Entry::CheckpointCopied(_) | Entry::Migrated(_) => {}
        Entry::RunStarted(e) => tell(&e.at, EventKind::RunStarted),
        Entry::Selected(e) => tell(&e.at, EventKind::Selected { selection: e.selection.clone() }),
        Entry::GroupStarted(e) => {
            let Some(group) = &state.group else { return };
            let participants = group.turns.iter().filter_map(|t| state.participant_id(t.participant).cloned());
            tell(
                &e.at,
                EventKind::GroupStarted {
                    group_id: group.id.clone(),
                    participant_ids: participants.collect(),
                    base_revision: group.base_revision,
                },
            );
            if group.external {
                tell(&e.at, EventKind::Requested { requests: open_requests(state) });
            }
        }
        Entry::TurnStarted(e) => {
            let Some(participant_id) = participant_of(state, &e.turn_id) else { return };
            let (turn_id, attempt_id) = (e.turn_id.clone(), e.attempt_id.clone());
            tell(&e.at, EventKind::TurnStarted { turn_id, attempt_id, participant_id });
        }
        Entry::TurnStopped(e) => stopped(state, &e.turn_id, e.reason, &e.at, tell),
        Entry::TurnPrepared(e) => prepared(state, &e.turn_id, &e.at, tell),
        Entry::Reconciled(e) => match &e.decision {
            Decision::Retry => stopped(state, &e.turn_id, StopReason::Interrupted, &e.at, tell),
            Decision::Settle { .. } => prepared(state, &e.turn_id, &e.at, tell),
            Decision::Fail { .. } => {}
        },
        Entry::GroupCommitted(e) => tell(&e.at, published(&e.group_id)),
        Entry::InputAccepted(e) => tell(&e.at, published(&e.group_id)),
        Entry::Answered(e) => tell(&e.at, EventKind::Answered { request_id: e.request_id.clone() }),
        Entry::Withdrawn(e) => tell(&e.at, EventKind::Answered { request_id: e.request_id.clone() }),
        Entry::CallAdmitted(e) => usage(state, &e.call_id, &e.at, tell),
        Entry::UsageReported(e) => usage(state, &e.call_id, &e.at, tell),
        Entry::RunEnded(e) => {
            let waiting = e.outcome == RunOutcome::Waiting;
            let requests = waiting.then(|| open_requests(state));
            let result = RunEnd { revision: state.revision, outcome: e.outcome.clone(), requests };
            tell(&e.at, EventKind::RunEnded { result });
        }
    }
}

/// A turn is ready, or waits.
fn prepared(state: &State, turn_id: &Id, at: &Rc<str>, mut tell: impl FnMut(&Rc<str>, EventKind)) {
    let (Some(group), Some(turn)) = (&state.group, state.turn(turn_id)) else { return };
    if turn.phase == Phase::Parked {
        let requests = turn.open_asks().map(|ask| ask.request.clone()).collect();
        return tell(at, EventKind::Requested { requests });
    }
    let Some(participant_id) = participant_of(state, turn_id) else { return };
    tell(at, EventKind::Prepared { group_id: group.id.clone(), turn_id: turn_id.clone(), participant_id });
}

fn stopped(state: &State, turn_id: &Id, reason: StopReason, at: &Rc<str>, mut tell: impl FnMut(&Rc<str>, EventKind)) {
    let attempt = state.turn(turn_id).and_then(|t| t.attempt.clone());
    let (Some(participant_id), Some(attempt_id)) = (participant_of(state, turn_id), attempt) else { return };
    tell(at, EventKind::TurnStopped { turn_id: turn_id.clone(), attempt_id, participant_id, reason });
}

/// A ledger change is told while its run lasts; a late report is saved in silence.
fn usage(state: &State, call_id: &Id, at: &Rc<str>, mut tell: impl FnMut(&Rc<str>, EventKind)) {
    let Some(record) = state.ledger.records.get(call_id) else { return };
    if state.run.as_ref().is_some_and(|run| run.id == record.run_id) {
        tell(at, EventKind::Usage { record: record.clone() });
    }
}

fn open_requests(state: &State) -> Vec<Request> {
    state.open_requests().map(|ask: &Ask| ask.request.clone()).collect()
}

fn participant_of(state: &State, turn_id: &Id) -> Option<Id> {
    state.participant_id(state.turn(turn_id)?.participant).cloned()
}
