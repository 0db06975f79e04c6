//! What observers must be told of a batch, derived from its entries: one line for each event, in order.

use crate::shadow::{Shadow, Stage};
use agent_roundtable::conversation::event::EventKind;
use agent_roundtable::record::entry::Entry;
use agent_roundtable::record::model::{Decision, Id, Message, RunOutcome, StopReason};
use agent_roundtable::record::usage::UsageStatus;
use std::rc::Rc;

/// The events of one batch. `shadow` is the state after it; `ended_before` says that no run was active
/// when it was written, so that a late report brings no event (C40).
pub fn expected_events(entries: &[Entry], shadow: &Shadow, ended_before: bool) -> Vec<String> {
    let mut events = Vec::new();
    let mut is_running = !ended_before;
    for entry in entries {
        match entry {
            Entry::RunStarted(_) => {
                is_running = true;
                events.push("run-started".to_owned());
            }
            Entry::Selected(selected) => events.push(format!("selected {:?}", selected.selection)),
            Entry::GroupStarted(group) => {
                events.push(format!("group-started {} {}", group.group_id, shadow.revision));
                events.extend(group.request_id.iter().map(|id| format!("requested {id}")));
            }
            Entry::TurnStarted(turn) => events.push(format!("turn-started {} {}", turn.turn_id, turn.attempt_id)),
            Entry::TurnStopped(turn) => events.push(format!("turn-stopped {} {:?}", turn.turn_id, turn.reason)),
            Entry::TurnPrepared(turn) => events.push(prepared(shadow, &turn.turn_id)),
            Entry::Reconciled(turn) => match turn.decision {
                Decision::Retry => events.push(format!("turn-stopped {} {:?}", turn.turn_id, StopReason::Interrupted)),
                Decision::Settle { .. } => events.push(prepared(shadow, &turn.turn_id)),
                Decision::Fail { .. } => {}
            },
            Entry::GroupCommitted(group) => {
                let of_group = shadow.messages.iter().filter(|message| message.group_id == group.group_id);
                events.push(published(&group.group_id, of_group));
            }
            Entry::Answered(answered) => events.push(format!("answered {}", answered.request_id)),
            Entry::Withdrawn(withdrawn) => events.push(format!("answered {}", withdrawn.request_id)),
            Entry::InputAccepted(input) => {
                let own = shadow.messages.iter().filter(|message| message.id == input.message_id);
                events.push(published(&input.group_id, own));
            }
            Entry::CallAdmitted(call) => events.push(format!("usage {} reserved", call.call_id)),
            Entry::UsageReported(report) if is_running && shadow.ledger.is_of_present_run(&report.call_id) => {
                events.push(format!("usage {} settled", report.call_id))
            }
            Entry::RunEnded(ended) => {
                is_running = false;
                events.push(run_ended(&ended.outcome));
            }
            _ => {}
        }
    }
    events
}

fn prepared(shadow: &Shadow, turn_id: &Id) -> String {
    let parked = shadow.find_turn(turn_id).filter(|turn| turn.stage == Stage::Parked);
    parked.map_or_else(|| format!("prepared {turn_id}"), |turn| format!("requested {}", join(&turn.waits_on)))
}

/// The same line for an event that was sent.
pub fn describe(event: &EventKind) -> String {
    match event {
        EventKind::RunStarted => "run-started".to_owned(),
        EventKind::Selected { selection } => format!("selected {selection:?}"),
        EventKind::GroupStarted { group_id, base_revision, .. } => format!("group-started {group_id} {base_revision}"),
        EventKind::TurnStarted { turn_id, attempt_id, .. } => format!("turn-started {turn_id} {attempt_id}"),
        EventKind::TurnStopped { turn_id, reason, .. } => format!("turn-stopped {turn_id} {reason:?}"),
        EventKind::Prepared { turn_id, .. } => format!("prepared {turn_id}"),
        EventKind::Published { group_id, messages } => published(group_id, messages.iter()),
        EventKind::Requested { requests } => {
            format!("requested {}", join(&requests.iter().map(|request| request.id.clone()).collect::<Vec<_>>()))
        }
        EventKind::Answered { request_id } => format!("answered {request_id}"),
        EventKind::Usage { record } => {
            let status = if record.status == UsageStatus::Reserved { "reserved" } else { "settled" };
            format!("usage {} {status}", record.call_id)
        }
        EventKind::RunEnded { result } => run_ended(&result.outcome),
    }
}

fn published<'a>(group: &Id, messages: impl Iterator<Item = &'a Rc<Message>>) -> String {
    let ids: Vec<Id> = messages.map(|message| message.id.clone()).collect();
    format!("published {group} {}", join(&ids))
}

fn run_ended(outcome: &RunOutcome) -> String {
    format!("run-ended {outcome:?}")
}

fn join(ids: &[Id]) -> String {
    ids.iter().map(|id| &**id).collect::<Vec<_>>().join(" ")
}
