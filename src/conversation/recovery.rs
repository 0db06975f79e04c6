//! Turns that no process saw settle, private states that are lost, and what a host decides of the former.

use super::attempts::{Attempt, AttemptPhase};
use super::error::{Code, RoundtableError, UnsettledTurn};
use super::external::{check_len, conflict};
use super::fields::{MAX_CONTENT, MAX_ID, MAX_TEXT};
use super::machine::Machine;
use super::writer::Gate;
use crate::record::entry::{Entry, Reconciled};
use crate::record::fold_recovery::check_decision;
use crate::record::model::{Decision, Id, Outcome};
use crate::record::state::{Phase, State, Turn};
use std::rc::Rc;

impl Machine {
    /// What a run cannot go on from: a turn whose outcome no one knows, or a private state that is lost.
    pub(super) fn check_recovery(&self) -> Result<(), RoundtableError> {
        check_unsettled(&self.head, |turn| self.is_known(turn))?;
        check_private_states(&self.head, |position, prepared| {
            self.sessions.get(&position).is_some_and(|session| session.prepared == prepared)
        })
    }

    /// Whether this process saw how the turn's last attempt ended, or goes on with it.
    pub(super) fn is_known(&self, turn: &Turn) -> bool {
        let attempt = turn.attempt.as_ref().and_then(|id| self.attempts.get(id));
        match turn.phase {
            Phase::Running => attempt.is_some_and(|a| matches!(a.phase, AttemptPhase::Over)),
            Phase::Settled => attempt.is_some_and(|a| a.result.is_some()),
            Phase::Unsettled => false,
            _ => true,
        }
    }

    /// Whether the stored state waits for a host's decision: at rest, and some turn's outcome is unknown.
    #[must_use]
    pub fn needs_recovery(&self) -> bool {
        let at_rest = self.calls.active.is_none() && self.durable.ended.is_none();
        at_rest && check_unsettled(&self.durable, |turn| self.is_known(turn)).is_err()
    }

    pub(super) fn check_reconcile(by: &str, turn_id: &str, decision: &Decision) -> Result<(), RoundtableError> {
        check_len("turnId", turn_id, 1, MAX_ID)?;
        check_len("by", by, 1, MAX_ID)?;
        match decision {
            Decision::Fail { message } => check_len("decision.message", message, 0, MAX_TEXT),
            Decision::Settle { outcome: Outcome::Speak { content }, .. } => {
                check_len("decision.outcome.content", content, 0, MAX_CONTENT)
            }
            _ => Ok(()),
        }
    }

    /// Saves a decision and gives its revision.
    pub(super) fn reconcile(
        &mut self,
        turn_id: &Id,
        expected_revision: u64,
        by: &Rc<str>,
        decision: &Decision,
    ) -> Result<u64, RoundtableError> {
        let turn = self.head.turn(turn_id).filter(|turn| !self.is_known(turn));
        let turn = turn.ok_or_else(|| conflict("turnId names no turn whose outcome is unknown"))?;
        self.check_revision(expected_revision, turn.changed)?;
        check_decision(&self.head, turn, decision).map_err(|reason| conflict(&format!("decision: {reason}")))?;
        let participant = turn.participant;
        self.leave_session(participant, decision)?;
        let entry = Reconciled { turn_id: turn_id.clone(), at: self.at(), by: by.clone(), decision: decision.clone() };
        self.push(Entry::Reconciled(entry), Gate::None)
    }

    /// The turn goes on from what is saved, in another session; one without checkpoints keeps its own,
    /// unless the attempt that was given up still holds it.
    fn leave_session(&mut self, participant: usize, decision: &Decision) -> Result<(), RoundtableError> {
        let is_out = |a: &Attempt| a.participant == participant && a.phase == AttemptPhase::Unsettled;
        let held = self.attempts.values().any(is_out);
        let Some(session) = self.sessions.get_mut(&participant) else { return Ok(()) };
        if held && *decision == Decision::Retry && session.prepared > 0 && !session.traits.can_checkpoint {
            return Err(conflict("decision: the attempt has not returned, and its session cannot be opened again"));
        }
        session.abandoned |= held || session.traits.can_checkpoint;
        Ok(())
    }
}

/// `recovery-required`, listing the turns whose outcome is unknown, where there are any.
pub(super) fn check_unsettled(state: &State, is_known: impl Fn(&Turn) -> bool) -> Result<(), RoundtableError> {
    let Some(group) = &state.group else { return Ok(()) };
    let lost = |turn: &&Turn| matches!(turn.phase, Phase::Running | Phase::Settled | Phase::Unsettled);
    let listed = |turn: &Turn| {
        let (late, error) = match turn.evidence.clone() {
            Some(Ok(outcome)) => (Some(outcome), None),
            Some(Err(error)) => (None, Some(error)),
            None => (None, None),
        };
        UnsettledTurn {
            turn_id: turn.id.clone(),
            participant_id: state.participant_id(turn.participant).cloned().unwrap_or_default(),
            group_id: group.id.clone(),
            attempt_id: turn.attempt.clone().unwrap_or_default(),
            started_at: turn.started_at.clone().unwrap_or_default(),
            outcome: late.or_else(|| turn.outcome.clone()),
            error,
        }
    };
    let turns: Vec<_> = group.turns.iter().filter(lost).filter(|turn| !is_known(turn)).map(listed).collect();
    if turns.is_empty() {
        return Ok(());
    }
    let ids: Vec<&str> = turns.iter().map(|turn| &*turn.turn_id).collect();
    let message = format!("stored as running, and no process saw it settle: {}", ids.join(", "));
    Err(RoundtableError { turns, ..RoundtableError::new(Code::RecoveryRequired, message) })
}

/// `recovery-required` where an agent has taken part and can be opened from nothing.
pub(super) fn check_private_states(state: &State, is_live: impl Fn(usize, u64) -> bool) -> Result<(), RoundtableError> {
    for (position, member) in state.members.iter().enumerate().filter(|(_, m)| m.prepared > 0) {
        if member.checkpoint.is_none() && state.is_agent(position) && !is_live(position, member.prepared) {
            let id = state.participant_id(position).map_or("", |id| id);
            let message = format!("participant {id:?} has taken part and left no checkpoint to open it from");
            return Err(RoundtableError::new(Code::RecoveryRequired, message));
        }
    }
    Ok(())
}
