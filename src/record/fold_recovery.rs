//! Folding what a host decides of a turn that nobody saw settle, and the move of a participant to
//! another version of its runtime.

use super::entry::{Migrated, Reconciled};
use super::execution::Records;
use super::fold::{Refusal, refuse};
use super::fold_turns::{check_version, check_wait, find, finish};
use super::model::{Decision, Id, Outcome, Participant};
use super::state::{Failure, Phase, ReconciledTurn, State, Turn};
use std::rc::Rc;

pub(super) fn reconciled(state: &mut State, entry: &Reconciled, revision: u64) -> Result<(), Refusal> {
    let Some(turn) = state.turn(&entry.turn_id) else {
        return refuse("the turn is not of the open group");
    };
    check_decision(state, turn, &entry.decision)?;
    // A wait that was stored and never parked asked nobody: its ids are free for the decision or the retry.
    for id in requested(turn.outcome.as_ref()) {
        state.used_ids.remove(&id);
    }
    if let Decision::Settle { outcome, .. } = &entry.decision {
        requested(Some(outcome)).iter().try_for_each(|id| state.use_id(id))?;
    }
    let (_, turn) = find(state, &entry.turn_id)?;
    turn.changed = revision;
    turn.evidence = None;
    let (by, decision) = (entry.by.clone(), entry.decision.clone());
    turn.reconciled = Some(ReconciledTurn { revision, by, decision });
    match &entry.decision {
        Decision::Retry => {
            turn.phase = if turn.asks.is_empty() { Phase::Pending } else { Phase::Parked };
            turn.outcome = None;
            turn.settled_at = None;
            Ok(())
        }
        Decision::Settle { outcome, checkpoint } => {
            turn.outcome = Some(outcome.clone());
            turn.settled_at = Some(entry.at.clone());
            finish(state, &entry.turn_id, checkpoint.as_ref(), revision)
        }
        Decision::Fail { message } => {
            turn.phase = Phase::Failed;
            turn.records = Records::default();
            turn.failure = Some(Failure { message: message.clone(), code: None });
            Ok(())
        }
    }
}

fn requested(outcome: Option<&Outcome>) -> Vec<Id> {
    match outcome {
        Some(Outcome::Wait { requests }) => requests.iter().map(|request| request.id.clone()).collect(),
        _ => Vec::new(),
    }
}

/// Why a decision does not fit the turn, if so.
pub fn check_decision(state: &State, turn: &Turn, decision: &Decision) -> Result<(), Refusal> {
    if state.ended.is_some() {
        return refuse("the conversation has ended");
    }
    if !matches!(turn.phase, Phase::Running | Phase::Settled | Phase::Unsettled) {
        return refuse("the turn is in no need of it");
    }
    let Decision::Settle { outcome, checkpoint } = decision else { return Ok(()) };
    match outcome {
        Outcome::Failed { .. } => return refuse("a failure is not settled, it fails"),
        Outcome::Wait { .. } if checkpoint.is_none() => return refuse("a wait is parked with a checkpoint"),
        // Its ids were used when it was stored.
        Outcome::Wait { requests } if turn.outcome.as_ref() != Some(outcome) => {
            check_wait(state, turn.participant, requests)?;
        }
        _ => {}
    }
    match checkpoint {
        Some(checkpoint) => check_version(state, turn.participant, checkpoint),
        None if state.members.get(turn.participant).is_some_and(|member| member.checkpoint.is_some()) => Ok(()),
        None => refuse("the participant would have taken part and have no checkpoint to open it from"),
    }
}

pub(super) fn migrated(state: &mut State, entry: &Migrated) -> Result<(), Refusal> {
    let Some(position) = state.position(&entry.participant_id).filter(|p| state.is_agent(*p)) else {
        return refuse("only an agent has a runtime");
    };
    let runtime = state.created.participants.get(position).and_then(|p| p.agent.as_ref()).map(|agent| &agent.runtime);
    let to = &entry.agent.runtime;
    if runtime.is_none_or(|from| from.id != to.id || from.version == to.version) {
        return refuse("a runtime moves to another version of its own");
    }
    let moved = |(at, known): (usize, &Participant)| {
        let agent = if at == position { Some(entry.agent.clone()) } else { known.agent.clone() };
        Participant { agent, ..known.clone() }
    };
    let participants = state.created.participants.iter().enumerate().map(moved).collect();
    Rc::make_mut(&mut state.created).participants = participants;
    let saved = state.members.get(position).is_some_and(|member| member.checkpoint.is_some());
    if saved != entry.checkpoint.is_some() {
        return refuse("a saved checkpoint, and nothing else, is migrated");
    }
    if let Some(checkpoint) = &entry.checkpoint {
        check_version(state, position, checkpoint)?;
    }
    if let Some(member) = state.members.get_mut(position) {
        member.checkpoint = entry.checkpoint.clone();
    }
    Ok(())
}
