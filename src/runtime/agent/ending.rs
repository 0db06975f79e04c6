//! Turns that end before the model has answered in words: stopped or failed. What was under way then
//! settles later, and the records say so.

use super::round::ToolRound;
use super::turn::{Phase, result_record};
use super::{AgentLoop, Effect, ExecutionRecord, RecordBody, ToolOutcome, TurnFailure};
use crate::runtime::tool::ToolFault;

/// How far a call had come when its turn ended.
#[derive(Debug)]
pub(super) enum LateCall {
    Admitting,
    Calling,
    /// Its tools were about to run, and will not.
    Intending(ToolRound),
}

impl AgentLoop {
    /// Ends the turn, at once or, in a session, when the tools that must not run twice have their results. Told
    /// again, it waits for them no longer.
    pub(super) fn stop(&mut self, failure: TurnFailure) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        if let Some(first) = turn.stopping.take() {
            return self.fail(first);
        }
        if let Phase::RunningTools(round) = &turn.phase
            && turn.execution_id.is_some()
            && !round.running_once(&self.config).is_empty()
        {
            turn.stopping = Some(failure);
            return Vec::new();
        }
        self.fail(failure)
    }

    /// Ends the turn; a call under way is remembered until it settles.
    pub(super) fn fail(&mut self, failure: TurnFailure) -> Vec<Effect> {
        match self.turn.take().map(|turn| turn.phase) {
            Some(Phase::Admitting(call_id)) if failure != TurnFailure::JournalFailed => {
                self.late.insert(call_id, LateCall::Admitting);
            }
            Some(Phase::Calling(call_id)) => {
                self.late.insert(call_id, LateCall::Calling);
            }
            Some(Phase::RecordingIntents(round)) if failure != TurnFailure::JournalFailed => {
                self.late.insert(round.call_id.clone(), LateCall::Intending(round));
            }
            _ => {}
        }
        // What can never be answered is given up, with what waited before it: the session is free for other turns.
        if let Some(session) = self.session.as_mut().filter(|_| failure == TurnFailure::UnsupportedWait) {
            session.pending = None;
        }
        vec![Effect::Fail(failure)]
    }

    /// Gives up what waits, where no turn runs: its own turn has been ended from outside.
    pub fn give_up_wait(&mut self) {
        if self.turn.is_none()
            && let Some(session) = &mut self.session
        {
            session.pending = None;
        }
    }

    /// What came through after its turn ended is settled: nothing will be called, and nothing will run.
    pub(super) fn late_append(&mut self, call_id: &str, at: f64) -> Vec<Effect> {
        match self.late.remove(call_id) {
            Some(LateCall::Admitting) => {
                let message = "the turn ended before the call was made".to_owned();
                let body = RecordBody::ModelFailure { message, cancelled: true };
                vec![Effect::Append(ExecutionRecord::new(call_id, body))]
            }
            Some(LateCall::Intending(mut round)) => {
                let intended = round.running_first();
                let not_run = |index| {
                    let result = round.settle(index, ToolOutcome::Fault(ToolFault::NotRun), at)?;
                    result_record(&round, index, result)
                };
                intended.into_iter().filter_map(not_run).collect()
            }
            Some(other) => {
                self.late.insert(call_id.to_owned(), other);
                Vec::new()
            }
            None => Vec::new(),
        }
    }
}
