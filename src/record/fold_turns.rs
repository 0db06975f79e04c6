//! Folding the life of a turn and the commit of its group.

use super::entry::{
    GroupCommitted, LateResult, TurnFailed, TurnPrepared, TurnSettled, TurnStarted, TurnStopped, TurnUnsettled,
};
use super::execution::Records;
use super::fold::{Refusal, refuse};
use super::model::{
    Checkpoint, CompletedOutcome, CompletedTurn, Id, InputResponse, Message, Outcome, ParticipantRequest, RequestKind,
    Response,
};
use super::state::{Ask, Failure, IdSet, Payer, Phase, Reply, State, Turn};
use std::rc::Rc;

/// The most requests of one turn.
pub const MAX_REQUESTS: usize = 64;

pub(super) fn started(state: &mut State, entry: &TurnStarted, revision: u64) -> Result<(), Refusal> {
    let run = state.active_run()?;
    if run.turns >= state.limits.max_turns_per_run {
        return refuse("no turn is left in this run");
    }
    let run_id = run.id.clone();
    state.use_id(&entry.attempt_id)?;
    let (group_id, turn) = find(state, &entry.turn_id)?;
    if !turn.is_dispatchable() {
        return refuse("the turn cannot start now");
    }
    turn.phase = Phase::Running;
    turn.earlier.extend(turn.attempt.replace(entry.attempt_id.clone()));
    turn.changed = revision;
    turn.reconciled = None;
    turn.started_at.get_or_insert_with(|| entry.at.clone());
    let member = Some((turn.participant, turn.id.clone(), group_id));
    state.ledger.attempts.insert(entry.attempt_id.clone(), Payer { run: run_id, member });
    if let Some(run) = &mut state.run {
        run.turns += 1;
    }
    Ok(())
}

pub(super) fn settled(state: &mut State, entry: &TurnSettled, revision: u64) -> Result<(), Refusal> {
    state.active_run()?;
    let participant = find(state, &entry.turn_id)?.1.participant;
    match &entry.outcome {
        Outcome::Speak { .. } | Outcome::Yield => {}
        Outcome::Wait { requests } => check_wait(state, participant, requests)?,
        Outcome::Failed { .. } => return refuse("a failure does not settle"),
    }
    if let Outcome::Wait { requests } = &entry.outcome {
        // From here on: a sibling may settle a wait of its own before this one is parked.
        requests.iter().try_for_each(|request| state.use_id(&request.id))?;
    }
    let turn = find_in(state, &entry.turn_id, &[Phase::Running])?;
    turn.phase = Phase::Settled;
    turn.changed = revision;
    turn.settled_at = Some(entry.at.clone());
    turn.outcome = Some(entry.outcome.clone());
    Ok(())
}

/// Why a member's wait cannot be parked, if so.
pub fn check_wait(state: &State, participant: usize, requests: &[ParticipantRequest]) -> Result<(), Refusal> {
    let agent = state.created.participants.get(participant).and_then(|p| p.agent.as_ref());
    if !agent.is_some_and(|a| a.supports_continuation) {
        return refuse("it waits but does not support continuation");
    }
    if requests.is_empty() || requests.len() > MAX_REQUESTS {
        return Err(format!("a wait has 1 to {MAX_REQUESTS} requests, this one has {}", requests.len()));
    }
    let mut ids = IdSet::default();
    for request in requests {
        if request.id.is_empty() || state.is_used(&request.id) || !ids.insert(request.id.clone()) {
            return Err(format!("the request id {:?} is empty or was used before", request.id));
        }
        match (request.kind, &request.participant_id, &request.data) {
            (RequestKind::Input, Some(person), None) => {
                if state.position(person).is_none_or(|p| state.is_agent(p)) {
                    return Err(format!("the input request names {person:?}, which is no external participant"));
                }
            }
            (RequestKind::Approval | RequestKind::Reconciliation, None, Some(_)) => {}
            _ => return refuse("a request has the members of another kind"),
        }
    }
    Ok(())
}

pub(super) fn prepared(state: &mut State, entry: &TurnPrepared, revision: u64) -> Result<(), Refusal> {
    let turn = find_in(state, &entry.turn_id, &[Phase::Settled])?;
    let participant = turn.participant;
    let waits = matches!(turn.outcome, Some(Outcome::Wait { .. }));
    match &entry.checkpoint {
        Some(checkpoint) => check_version(state, participant, checkpoint)?,
        None if waits => return refuse("a wait is parked with a checkpoint"),
        None => {}
    }
    finish(state, &entry.turn_id, entry.checkpoint.as_ref(), revision)
}

/// A settled turn is ready, or parked where it waits; its checks are done.
pub(super) fn finish(
    state: &mut State,
    turn_id: &Id,
    checkpoint: Option<&Checkpoint>,
    revision: u64,
) -> Result<(), Refusal> {
    let participant = find(state, turn_id)?.1.participant;
    if let Some(member) = state.members.get_mut(participant) {
        member.prepared += 1;
        if let Some(checkpoint) = checkpoint {
            member.checkpoint = Some(Checkpoint::joined(member.checkpoint.take(), checkpoint));
        }
    }
    let member_id = state.participant_id(participant).cloned().unwrap_or_default();
    let (group_id, turn) = find(state, turn_id)?;
    turn.keep_replies();
    let Some(Outcome::Wait { requests }) = &turn.outcome else {
        turn.phase = Phase::Prepared;
        turn.records = Records::default();
        return Ok(());
    };
    turn.phase = Phase::Parked;
    turn.asks = requests.iter().map(|r| Ask::of(r, turn, &group_id, &member_id, revision)).collect();
    turn.outcome = None;
    Ok(())
}

/// Why a checkpoint could not be restored by what the factory declares, if so.
pub fn check_version(state: &State, participant: usize, checkpoint: &Checkpoint) -> Result<(), Refusal> {
    let agent = state.created.participants.get(participant).and_then(|p| p.agent.as_ref());
    if agent.is_some_and(|a| a.checkpoint_versions.contains(&checkpoint.version)) {
        return Ok(());
    }
    Err(format!("its checkpoint version {:?} is not among checkpointVersions", checkpoint.version))
}

pub(super) fn failed(state: &mut State, entry: &TurnFailed) -> Result<(), Refusal> {
    state.active_run()?;
    let turn = find_in(state, &entry.turn_id, &[Phase::Running, Phase::Settled])?;
    turn.phase = Phase::Failed;
    turn.records = Records::default();
    turn.failure = Some(Failure { message: entry.message.clone(), code: entry.code.clone() });
    Ok(())
}

pub(super) fn stopped(state: &mut State, entry: &TurnStopped) -> Result<(), Refusal> {
    state.active_run()?;
    let turn = find_in(state, &entry.turn_id, &[Phase::Running])?;
    turn.phase = if turn.asks.is_empty() { Phase::Pending } else { Phase::Parked };
    Ok(())
}

pub(super) fn unsettled(state: &mut State, entry: &TurnUnsettled, revision: u64) -> Result<(), Refusal> {
    state.active_run()?;
    let turn = find_in(state, &entry.turn_id, &[Phase::Running, Phase::Settled])?;
    turn.phase = Phase::Unsettled;
    turn.changed = revision;
    Ok(())
}

pub(super) fn late_result(state: &mut State, entry: &LateResult, revision: u64) -> Result<(), Refusal> {
    let turn = find_in(state, &entry.turn_id, &[Phase::Unsettled])?;
    if turn.evidence.is_some() {
        return refuse("the attempt returned once already");
    }
    turn.changed = revision;
    turn.evidence = Some(match (&entry.outcome, &entry.error) {
        (Some(outcome), None) => Ok(outcome.clone()),
        (None, Some(error)) => Err(error.clone()),
        _ => return refuse("a late result has an outcome or an error"),
    });
    Ok(())
}

pub(super) fn committed(state: &mut State, entry: &GroupCommitted, revision: u64) -> Result<(), Refusal> {
    let Some(group) = state.group.take_if(|g| g.id == entry.group_id) else {
        return refuse("that group is not open");
    };
    if !group.external {
        state.active_run()?;
    }
    if group.turns.iter().any(|t| t.phase != Phase::Prepared) {
        return refuse("a member is not prepared");
    }
    let mut message_ids = entry.message_ids.iter();
    for turn in &group.turns {
        let Some(author) = state.participant_id(turn.participant).cloned() else {
            return refuse("a turn has no participant");
        };
        for reply in &turn.replies {
            let consumer = Some(turn.participant);
            state.publish(
                turn,
                &group.id,
                &reply.message_id,
                &reply.participant_id,
                &reply.content,
                revision,
                consumer,
            );
        }
        if let Some(Outcome::Speak { content }) = &turn.outcome {
            let Some(message_id) = message_ids.next() else {
                return refuse("a message has no id");
            };
            if !group.external {
                state.use_id(message_id)?;
            } else if turn.answer_message() != Some(message_id) {
                return refuse("a person's message keeps the id it was accepted under");
            }
            state.publish(turn, &group.id, message_id, &author, content, revision, None);
        }
        state.turns.push(Rc::new(turn.completed(&group.id, &author)?));
        if let Some(member) = state.members.get_mut(turn.participant).filter(|_| !group.external) {
            member.cursor = group.base_messages;
        }
    }
    if message_ids.next().is_some() {
        return refuse("there are more message ids than messages");
    }
    Ok(())
}

impl State {
    #[allow(clippy::too_many_arguments, reason = "one argument for each field of a message")]
    pub(super) fn publish(
        &mut self,
        turn: &Turn,
        group_id: &Id,
        message_id: &Id,
        author: &Id,
        content: &Rc<str>,
        revision: u64,
        consumed_by: Option<usize>,
    ) {
        self.messages.push(Rc::new(Message {
            id: message_id.clone(),
            participant_id: author.clone(),
            content: content.clone(),
            revision,
            turn_id: turn.id.clone(),
            group_id: group_id.clone(),
        }));
        self.consumed_by.push(consumed_by);
        self.messages_revision = revision;
    }
}

impl Turn {
    /// Moves answered words from the asks to the replies that are published with the group.
    fn keep_replies(&mut self) {
        for ask in std::mem::take(&mut self.asks) {
            let Some(answer) = ask.answer else { continue };
            if let (Response::Input(InputResponse::Said { content }), Some(message_id)) =
                (answer.response, answer.message_id)
            {
                self.replies.push(Reply { message_id, participant_id: ask.request.participant_id, content });
            }
        }
    }

    fn answer_message(&self) -> Option<&Id> {
        self.asks.first()?.answer.as_ref()?.message_id.as_ref()
    }

    fn completed(&self, group_id: &Id, author: &Id) -> Result<CompletedTurn, Refusal> {
        let outcome = match &self.outcome {
            Some(Outcome::Speak { .. }) => CompletedOutcome::Speak,
            Some(Outcome::Yield) => CompletedOutcome::Yield,
            _ => return refuse("a member has no result to publish"),
        };
        let (Some(started_at), Some(settled_at)) = (self.started_at.clone(), self.settled_at.clone()) else {
            return refuse("a turn has no times");
        };
        Ok(CompletedTurn {
            id: self.id.clone(),
            group_id: group_id.clone(),
            participant_id: author.clone(),
            outcome,
            started_at,
            settled_at,
        })
    }
}

pub(super) fn find<'a>(state: &'a mut State, turn_id: &Id) -> Result<(Id, &'a mut Turn), Refusal> {
    let Some(group) = &mut state.group else {
        return refuse("no group is open");
    };
    let id = group.id.clone();
    match group.turns.iter_mut().find(|t| t.id == *turn_id) {
        Some(turn) => Ok((id, turn)),
        None => refuse("the turn is not of the open group"),
    }
}

fn find_in<'a>(state: &'a mut State, turn_id: &Id, phases: &[Phase]) -> Result<&'a mut Turn, Refusal> {
    let (_, turn) = find(state, turn_id)?;
    if !phases.contains(&turn.phase) {
        return Err(format!("the turn {turn_id} is {:?}", turn.phase));
    }
    Ok(turn)
}
