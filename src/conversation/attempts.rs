//! The life of an attempt: announced, its session opened, run, settled, its checkpoint taken. And the
//! sessions themselves, which outlive their attempts.

use super::effect::{Effect, TurnView};
use super::error::{Code, RoundtableError, Thrown};
use super::fields::{MAX_CONTENT, MAX_ID, MAX_TEXT};
use super::input::Timer;
use super::machine::Machine;
use super::sessions::SessionStage;
use super::writer::Gate;
use crate::record::entry::{
    Entry, LateResult, TurnFailed, TurnPrepared, TurnSettled, TurnStarted, TurnStopped, TurnUnsettled,
};
use crate::record::fold_turns::{check_version, check_wait};
use crate::record::model::{Checkpoint, Decision, Id, LimitReason, Outcome, StopReason};
use crate::record::state::{Failure, Phase, State, Turn};
use crate::value::text::utf16_len;
use std::rc::Rc;

/// One execution of a turn on this handle.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) turn_id: Id,
    pub(super) participant: usize,
    /// It continues a wait.
    resumed: bool,
    /// A host has decided that the turn is tried again.
    retried: bool,
    pub(super) phase: AttemptPhase,
    /// What it returned, until its turn is prepared.
    pub(super) result: Option<Outcome>,
    /// Why it failed, until that is durable.
    failure: Option<Failure>,
    /// What it came to after it was given up.
    late: Option<Result<Outcome, Thrown>>,
    pub(super) signalled: Option<StopReason>,
    /// The cap for which an admission was refused to it.
    pub(super) refused: Option<LimitReason>,
}

/// Where an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptPhase {
    /// Announced; its entry is on its way, or the observers are.
    Announced,
    /// Waiting for its session.
    Opening,
    /// In the hands of its runtime.
    Running,
    /// Its result is saved or on its way, its checkpoint is due.
    Settling,
    /// Its checkpoint was asked for.
    Checkpointing,
    /// Given up; what it returns is evidence.
    Unsettled,
    /// Back.
    Over,
}

impl Attempt {
    /// Whether the run must wait for it.
    pub(super) fn is_busy(&self) -> bool {
        !matches!(self.phase, AttemptPhase::Unsettled | AttemptPhase::Over)
    }

    /// Whether it is its participant that the run waits for.
    fn is_awaited(&self) -> bool {
        matches!(self.phase, AttemptPhase::Opening | AttemptPhase::Running | AttemptPhase::Checkpointing)
    }
}

impl Machine {
    /// Announces an attempt; its runtime is called once that is durable.
    pub(super) fn dispatch(&mut self, turn_id: &Id) -> bool {
        let Some(turn) = self.head.turn(turn_id) else { return false };
        let attempt = Attempt {
            turn_id: turn_id.clone(),
            participant: turn.participant,
            resumed: turn.phase == Phase::Parked,
            retried: turn.reconciled.as_ref().is_some_and(|known| known.decision == Decision::Retry),
            phase: AttemptPhase::Announced,
            result: None,
            failure: None,
            late: None,
            signalled: None,
            refused: None,
        };
        let attempt_id = self.new_id("attempt", 0);
        let entry = TurnStarted { turn_id: turn_id.clone(), attempt_id: attempt_id.clone(), at: self.at() };
        self.attempts.insert(attempt_id.clone(), attempt);
        if self.push(Entry::TurnStarted(entry), Gate::Dispatch(attempt_id.clone())).is_err() {
            self.attempts.remove(&attempt_id);
            return false;
        }
        true
    }

    /// The attempt is durable and observers know: bring its session up to date and run it.
    pub(super) fn open_or_run(&mut self, attempt_id: &Id) {
        let Some(attempt) = self.attempts.get_mut(attempt_id) else { return };
        if !matches!(attempt.phase, AttemptPhase::Announced | AttemptPhase::Opening) {
            return;
        }
        if attempt.signalled.is_some() || !self.calls.is_working() {
            return self.stopped(attempt_id);
        }
        attempt.phase = AttemptPhase::Opening;
        let participant = attempt.participant;
        let prepared = self.head.members.get(participant).map_or(0, |m| m.prepared);
        match self.sessions.get_mut(&participant) {
            Some(session) if session.stage != SessionStage::Live => {}
            Some(session) if session.prepared == prepared && !session.abandoned => self.run_turn(attempt_id),
            Some(session) => {
                session.stage = SessionStage::Releasing;
                let session = session.id;
                self.effect(Effect::ReleaseSession { session });
            }
            None => self.open_session(participant, prepared),
        }
    }

    fn run_turn(&mut self, attempt_id: &Id) {
        let (Some(attempt), Some(group)) = (self.attempts.get(attempt_id), &self.head.group) else { return };
        let (Some(session), Some(turn)) = (self.sessions.get(&attempt.participant), self.head.turn(&attempt.turn_id))
        else {
            return;
        };
        let session_id = session.id;
        if attempt.resumed && !session.traits.can_resume {
            return self.fail_turn(attempt_id, "its session has no resumeTurn", None);
        }
        let view = Rc::new(TurnView {
            participant: attempt.participant,
            turn_id: attempt.turn_id.clone(),
            attempt_id: attempt_id.clone(),
            group_id: group.id.clone(),
            base_revision: group.base_revision,
            messages: self.head.increment(group, attempt.participant),
            earlier: turn.earlier.as_slice().into(),
            retried: attempt.retried,
        });
        let effect = match attempt.resumed {
            false => Effect::RunTurn { session: session_id, turn: view },
            true => Effect::ResumeTurn { session: session_id, turn: view, responses: turn.responses() },
        };
        self.effect(effect);
        if let Some(attempt) = self.attempts.get_mut(attempt_id) {
            attempt.phase = AttemptPhase::Running;
        }
    }

    pub(super) fn turn_returned(&mut self, attempt_id: &Id, result: Result<Outcome, Thrown>) {
        let Some(attempt) = self.attempts.get_mut(attempt_id) else { return };
        match attempt.phase {
            AttemptPhase::Running => {}
            AttemptPhase::Unsettled => {
                attempt.phase = AttemptPhase::Over;
                return self.returned_late(attempt_id, result);
            }
            _ => return,
        }
        self.effect(Effect::CloseAttempt { attempt: attempt_id.clone() });
        match result {
            Ok(outcome) => {
                if let Some(attempt) = self.attempts.get_mut(attempt_id) {
                    attempt.result = Some(outcome);
                }
                self.settle(attempt_id);
            }
            Err(thrown) => self.rejected(attempt_id, &thrown),
        }
    }

    /// An attempt that was given up came back. Where the journal says so, what it came to is evidence;
    /// where the store failed before it could, the next run saves a result as if nothing had been given
    /// up, and takes a rejection as a stop, for the store's failure may be behind it.
    fn returned_late(&mut self, attempt_id: &Id, result: Result<Outcome, Thrown>) {
        let Some(attempt) = self.attempts.get(attempt_id) else { return };
        let (participant, turn_id) = (attempt.participant, attempt.turn_id.clone());
        let stopped = result.is_err();
        if let Some(session) = self.sessions.get_mut(&participant).filter(|s| stopped && s.traits.can_checkpoint) {
            session.abandoned = true;
        }
        if let Some(attempt) = self.attempts.get_mut(attempt_id) {
            attempt.result = result.as_ref().ok().cloned();
            attempt.late = Some(result.clone());
        }
        let unsettled = |state: &State| {
            let of_attempt = |t: &Turn| t.phase == Phase::Unsettled && t.attempt.as_ref() == Some(attempt_id);
            state.turn(&turn_id).is_some_and(of_attempt)
        };
        if unsettled(&self.durable) || (!self.head_is_stale && unsettled(&self.head)) {
            self.keep_evidence(attempt_id.clone(), result);
        }
    }

    /// Saves evidence that the store did not take when it came.
    pub(super) fn save_missed_evidence(&mut self) {
        let missed = |(id, a): (&Id, &Attempt)| Some((id.clone(), a.late.clone()?));
        let missed: Vec<_> = self.attempts.iter().filter_map(missed).collect();
        for (attempt, result) in missed {
            self.save_evidence(&attempt, result);
        }
    }

    /// Saves the result of an attempt, or keeps it until the store can be written to again.
    pub(super) fn settle(&mut self, attempt_id: &Id) {
        let working = self.calls.is_working();
        let Some(attempt) = self.attempts.get_mut(attempt_id) else { return };
        attempt.phase = if working { AttemptPhase::Settling } else { AttemptPhase::Over };
        let (participant, turn_id, result) = (attempt.participant, attempt.turn_id.clone(), attempt.result.clone());
        let (Some(outcome), true) = (result, working) else { return };
        if let Some(reason) = self.refusal(participant, &outcome) {
            return self.fail_turn(attempt_id, &reason, None);
        }
        let settled = TurnSettled { turn_id: turn_id.clone(), at: self.at(), outcome };
        let can_checkpoint = self.sessions.get(&participant).is_some_and(|s| s.traits.can_checkpoint);
        let gate = if can_checkpoint { Gate::Checkpoint(attempt_id.clone()) } else { Gate::None };
        match self.push(Entry::TurnSettled(settled), gate) {
            Ok(_) if can_checkpoint => {}
            Ok(_) => self.prepare(attempt_id, None),
            Err(error) => self.fail_turn(attempt_id, &error.message, None),
        }
    }

    /// Why an outcome cannot be saved, if so.
    fn refusal(&self, participant: usize, outcome: &Outcome) -> Option<String> {
        match outcome {
            Outcome::Failed { message } => Some(message.to_string()),
            Outcome::Yield => None,
            Outcome::Speak { content } => {
                let len = utf16_len(content);
                (len > MAX_CONTENT)
                    .then(|| format!("content must have at most {MAX_CONTENT} UTF-16 units, it has {len}"))
            }
            Outcome::Wait { requests } => {
                let traits = self.sessions.get(&participant).map(|s| s.traits)?;
                if !traits.can_resume || !traits.can_checkpoint {
                    return Some("it waits, but its session has no resumeTurn or no checkpoint".to_owned());
                }
                check_wait(&self.head, participant, requests).err()
            }
        }
    }

    /// The result is durable: ask for the private state.
    pub(super) fn take_checkpoint(&mut self, attempt_id: &Id) {
        let settling = |a: &&mut Attempt| a.phase == AttemptPhase::Settling;
        let Some(attempt) = self.attempts.get_mut(attempt_id).filter(settling) else { return };
        let Some(session) = self.sessions.get(&attempt.participant) else { return };
        attempt.phase = AttemptPhase::Checkpointing;
        let (session, signalled) = (session.id, attempt.signalled.is_some());
        self.effect(Effect::TakeCheckpoint { session, attempt: attempt_id.clone() });
        if signalled && !self.timers.contains_key(&Timer::Settle) {
            self.bound_settling();
        }
    }

    pub(super) fn checkpoint_returned(&mut self, attempt_id: &Id, result: Result<Checkpoint, Thrown>) {
        let Some(attempt) = self.attempts.get_mut(attempt_id) else { return };
        if attempt.phase != AttemptPhase::Checkpointing {
            return;
        }
        if !self.calls.is_working() {
            // The result is stored; the checkpoint is asked for again by the next run.
            attempt.phase = AttemptPhase::Over;
            return;
        }
        match result {
            Ok(checkpoint) => self.prepare(attempt_id, Some(checkpoint)),
            Err(thrown) => {
                self.fail_turn(attempt_id, &format!("its checkpoint failed: {}", thrown.message), thrown.code)
            }
        }
    }

    fn prepare(&mut self, attempt_id: &Id, checkpoint: Option<Checkpoint>) {
        let Some(attempt) = self.attempts.get(attempt_id) else { return };
        let (participant, turn_id) = (attempt.participant, attempt.turn_id.clone());
        if let Some(Err(reason)) = checkpoint.as_ref().map(|c| check_version(&self.head, participant, c)) {
            return self.fail_turn(attempt_id, &reason, None);
        }
        let entry = Entry::TurnPrepared(TurnPrepared { turn_id, at: self.at(), checkpoint });
        match self.push(entry, Gate::None) {
            Ok(_) => {
                if let Some(attempt) = self.attempts.get_mut(attempt_id) {
                    attempt.phase = AttemptPhase::Over;
                }
            }
            Err(error) => self.fail_turn(attempt_id, &error.message, None),
        }
    }

    /// Its session did not open, so the turn has not begun: this run is refused, the next one tries again.
    pub(super) fn not_opened(&mut self, attempt_id: &Id, thrown: &Thrown) {
        let Some(attempt) = self.attempts.get(attempt_id) else { return };
        let name = self.head.participant_id(attempt.participant).cloned().unwrap_or_default();
        let message = shortened(&format!("the session of participant {name:?} did not open: {}", thrown.message));
        let error = RoundtableError::new(Code::Unavailable, &*message).caused_by(thrown.value);
        if let Some(run) = self.run.as_mut().filter(|run| run.stop.is_none()) {
            run.refusal.get_or_insert(error);
        }
        self.stopped(attempt_id);
    }

    /// The attempt threw.
    fn rejected(&mut self, attempt_id: &Id, thrown: &Thrown) {
        let Some(attempt) = self.attempts.get(attempt_id) else { return };
        if thrown.is_outcome_unknown() && self.calls.is_working() {
            return self.unsettled(attempt_id, thrown.clone());
        }
        if attempt.refused.is_some() && thrown.is_refused_admission {
            return self.stopped_because(attempt_id, StopReason::ModelCalls);
        }
        if (attempt.signalled.is_some() && thrown.is_abort) || !self.calls.is_working() {
            return self.stopped(attempt_id);
        }
        self.fail_turn(attempt_id, &thrown.message, thrown.code.clone());
    }

    /// The participant says that nobody knows what its attempt came to: a host must decide.
    fn unsettled(&mut self, attempt_id: &Id, thrown: Thrown) {
        let Some(attempt) = self.attempts.get_mut(attempt_id) else { return };
        attempt.phase = AttemptPhase::Over;
        let (participant, turn_id) = (attempt.participant, attempt.turn_id.clone());
        if let Some(session) = self.sessions.get_mut(&participant).filter(|s| s.traits.can_checkpoint) {
            session.abandoned = true;
        }
        // A refused entry has failed the call already; the next attempt finds the same.
        if self.push(Entry::TurnUnsettled(TurnUnsettled { turn_id, at: self.at() }), Gate::None).is_ok() {
            self.save_evidence(attempt_id, Err(thrown));
        }
    }

    fn fail_turn(&mut self, attempt_id: &Id, reason: &str, code: Option<Rc<str>>) {
        let Some(attempt) = self.attempts.get(attempt_id) else { return };
        let failure = self.failure_of(attempt.participant, reason, code);
        let Some(attempt) = self.attempts.get_mut(attempt_id) else { return };
        attempt.phase = AttemptPhase::Over;
        attempt.failure = Some(failure.clone());
        self.save_failure(attempt_id, failure);
    }

    fn failure_of(&self, participant: usize, reason: &str, code: Option<Rc<str>>) -> Failure {
        let name = self.head.participant_id(participant).cloned().unwrap_or_default();
        let message = shortened(&format!("participant {name:?} failed: {reason}"));
        Failure { message, code: code.filter(|code| utf16_len(code) <= MAX_ID) }
    }

    fn save_failure(&mut self, attempt_id: &Id, failure: Failure) {
        let Some(attempt) = self.attempts.get(attempt_id).filter(|_| self.calls.is_working()) else { return };
        let Failure { message, code } = failure;
        let entry = TurnFailed { turn_id: attempt.turn_id.clone(), at: self.at(), message, code };
        // A refused entry has failed the call already; the next run tries again.
        let _ = self.push(Entry::TurnFailed(entry), Gate::None);
    }

    fn stopped(&mut self, attempt_id: &Id) {
        let reason = self.attempts.get(attempt_id).and_then(|a| a.signalled).unwrap_or(StopReason::Interrupted);
        self.stopped_because(attempt_id, reason);
    }

    /// The attempt ended without a result; its turn is pending again.
    fn stopped_because(&mut self, attempt_id: &Id, reason: StopReason) {
        let Some(attempt) = self.attempts.get_mut(attempt_id) else { return };
        let ran = attempt.phase == AttemptPhase::Running;
        attempt.phase = AttemptPhase::Over;
        let (participant, turn_id) = (attempt.participant, attempt.turn_id.clone());
        if let Some(session) = self.sessions.get_mut(&participant).filter(|s| ran && s.traits.can_checkpoint) {
            session.abandoned = true;
        }
        if !self.calls.is_working() {
            return;
        }
        // A refused entry has failed the call already; the next run tries again.
        let _ = self.push(Entry::TurnStopped(TurnStopped { turn_id, at: self.at(), reason }), Gate::None);
    }

    /// The call failed before the attempt could go on: the next run takes it up.
    pub(super) fn interrupted(&mut self, attempt_id: &Id) {
        if let Some(attempt) = self.attempts.get_mut(attempt_id) {
            attempt.phase = AttemptPhase::Over;
        }
    }

    /// Fires an attempt's signal, or takes it back where it has not reached its runtime.
    pub(super) fn signal(&mut self, attempt_id: &Id, reason: StopReason) -> bool {
        let Some(attempt) = self.attempts.get_mut(attempt_id).filter(|a| a.signalled.is_none()) else { return false };
        attempt.signalled = Some(reason);
        match attempt.phase {
            AttemptPhase::Announced => {
                self.stopped(attempt_id);
                false
            }
            AttemptPhase::Running => {
                self.effect(Effect::Abort { attempt: attempt_id.clone(), reason });
                true
            }
            AttemptPhase::Opening | AttemptPhase::Settling | AttemptPhase::Checkpointing => true,
            AttemptPhase::Unsettled | AttemptPhase::Over => false,
        }
    }

    /// Signalled work has had its time: a participant that has not come back is not awaited any longer.
    /// One that has, and waits for the store, is not given up.
    pub(super) fn give_up_unsettled(&mut self) {
        if let Some(asking) = self.asking.take_if(|asking| asking.signalled) {
            self.effect(Effect::CloseAttempt { attempt: asking.attempt });
        }
        let overdue: Vec<Id> = self
            .attempts
            .iter()
            .filter(|(_, a)| a.is_awaited() && a.signalled.is_some())
            .map(|(id, _)| id.clone())
            .collect();
        for attempt_id in overdue {
            let Some(attempt) = self.attempts.get_mut(&attempt_id) else { continue };
            if attempt.phase == AttemptPhase::Opening {
                // Its runtime was never called, so there is nothing to be uncertain of.
                self.stopped(&attempt_id);
                continue;
            }
            attempt.phase = AttemptPhase::Unsettled;
            let turn_id = attempt.turn_id.clone();
            self.effect(Effect::CloseAttempt { attempt: attempt_id });
            if self.calls.is_working() {
                // A refused entry has failed the call already.
                let _ = self.push(Entry::TurnUnsettled(TurnUnsettled { turn_id, at: self.at() }), Gate::None);
            }
        }
        if self.calls.is_disposed() && self.calls.active.is_none() {
            self.disposal_overdue();
        }
    }

    /// What an unsettled attempt came to, for whoever reconciles it.
    pub(super) fn save_evidence(&mut self, attempt: &Id, result: Result<Outcome, Thrown>) {
        let mut turns = self.head.group.iter().flat_map(|g| &g.turns);
        let unsettled =
            |t: &&Turn| t.phase == Phase::Unsettled && t.evidence.is_none() && t.attempt.as_ref() == Some(attempt);
        let Some(turn_id) = turns.find(unsettled).map(|t| t.id.clone()) else { return };
        let (outcome, error) = match result {
            Ok(outcome) => (Some(outcome), None),
            Err(thrown) => (None, Some(shortened(&thrown.message))),
        };
        // An outcome too long to keep is dropped: the turn stays unsettled, as it was.
        let _ = self.push(Entry::LateResult(LateResult { turn_id, at: self.at(), outcome, error }), Gate::None);
    }

    /// Goes on with attempts that an earlier call of this handle could not save the end of.
    pub(super) fn take_up_interrupted(&mut self) {
        let turns: Vec<_> =
            self.head.group.iter().flat_map(|g| &g.turns).map(|t| (t.phase, t.attempt.clone())).collect();
        for (phase, attempt_id) in turns {
            let Some(attempt_id) = attempt_id else { continue };
            let Some(attempt) = self.attempts.get_mut(&attempt_id) else { continue };
            // Signals and refusals were those of the run before.
            (attempt.signalled, attempt.refused) = (None, None);
            match (phase, attempt.failure.clone()) {
                (Phase::Running | Phase::Settled, Some(failure)) => self.save_failure(&attempt_id, failure),
                (Phase::Running, None) if attempt.result.is_some() => self.settle(&attempt_id),
                (Phase::Running, None) => self.stopped_because(&attempt_id, StopReason::Interrupted),
                (Phase::Settled, None) => {
                    attempt.phase = AttemptPhase::Settling;
                    self.take_checkpoint(&attempt_id);
                }
                _ => {}
            }
        }
    }

    /// Forgets attempts whose end is durable.
    pub(super) fn forget_settled_attempts(&mut self) {
        let durable = &self.durable;
        self.attempts.retain(|id, attempt| {
            let open = |turn: &Turn| {
                let open = matches!(turn.phase, Phase::Running | Phase::Settled)
                    || (turn.phase == Phase::Unsettled && turn.evidence.is_none());
                turn.attempt.as_ref() != Some(id) || open
            };
            attempt.phase != AttemptPhase::Over || durable.turn(&attempt.turn_id).is_some_and(open)
        });
    }
}

/// A message cut to what a record holds.
fn shortened(message: &str) -> Rc<str> {
    let mut units = 0;
    let end = message.char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > MAX_TEXT
    });
    end.and_then(|(at, _)| message.get(..at)).unwrap_or(message).into()
}
