//! The agent loop: one turn is rounds of a model call and the tools it asks for, until the model
//! answers in words.
//!
//! **[`AgentLoop::handle`] is synchronous: perform its effects, feed back what came of them, never
//! call it from inside itself.** The order of one round:
//!
//! 1. `Extend` hands the host the messages that are new; the host keeps the history it shows a model.
//! 2. `AskCache`, where the provider has a cache. A hit is journaled and costs no admission.
//! 3. `Append(ModelRequest)` is the admission: refused, nothing is called.
//! 4. `CallModel`, then `Append(ModelResponse)` or `Append(ModelFailure)`, which report the usage.
//! 5. `RunTools`, siblings together; their results in call order open the next round.
//!
//! In a session, `Permit` comes before 5: what the policy allows is written down (`Record`, `Sync`) before
//! it runs, and each result when it is there. Where a call must be approved, its siblings finish, and the
//! turn ends with `Finish(Wait)`. It is continued from its records alone, by this loop or a new one.
//!
//! Then `Flush` (streamed text reaches its observer before the outcome does) and `Finish`.
//!
//! A turn that fails or is stopped leaves no trace in the history, so every tool call in it has its
//! result and a retry sees what a freshly restored runtime sees. A model call that was under way is
//! not forgotten: when it settles later, its late record goes out so that the ledger knows.

mod coded;
mod ending;
mod protocol;
mod resume;
mod round;
mod turn;

pub use protocol::{
    Effect, ExecutionRecord, Input, ModelCall, PermitCall, RecordBody, ToolOutcome, ToolRun, TurnContinue, TurnFailure,
    TurnResume, TurnStart,
};

use super::checkpoint::{self, Checkpoint, CheckpointError, Restored};
use super::codec::Value;
use super::config::AgentConfig;
use super::outcome::TurnOutcome;
use super::session::permission::Verdict;
use super::session::{self, Pending, Session, SessionIdentity};
use crate::value::Json;
use coded::CodedMessage;
use ending::LateCall;
use std::collections::HashMap;
use turn::{Phase, Turn, result_record};

/// One agent's private history and the turn it is in.
#[derive(Debug)]
pub struct AgentLoop {
    config: AgentConfig,
    /// Whose permission gate it has; none where it is a plain agent.
    session: Option<Session>,
    /// Settled messages that no checkpoint holds yet, coded.
    unsaved: Vec<Json>,
    first_turn: bool,
    turn: Option<Turn>,
    /// Calls of turns that are over, still to settle.
    late: HashMap<String, LateCall>,
}

impl AgentLoop {
    /// An agent without history.
    #[must_use]
    pub fn new(config: AgentConfig) -> Self {
        AgentLoop { config, session: None, unsaved: Vec::new(), first_turn: true, turn: None, late: HashMap::new() }
    }

    /// A session without history: an agent behind a permission gate.
    #[must_use]
    pub fn session(config: AgentConfig, identity: SessionIdentity) -> Self {
        AgentLoop { session: Some(Session::new(identity)), ..AgentLoop::new(config) }
    }

    /// An agent with the history of a checkpoint.
    pub fn restore(
        config: AgentConfig,
        version: &str,
        data: &Json,
        append: &[Json],
    ) -> Result<(Self, Restored), CheckpointError> {
        let restored = checkpoint::read(&config, version, data, append)?;
        Ok((AgentLoop { first_turn: false, ..AgentLoop::new(config) }, restored))
    }

    /// A session with the state of a checkpoint.
    pub fn restore_session(
        config: AgentConfig,
        identity: SessionIdentity,
        version: &str,
        data: &Json,
        append: &[Json],
    ) -> Result<(Self, Restored), CheckpointError> {
        let read = session::checkpoint::read(&config, identity, version, data, append)?;
        let restored =
            AgentLoop { session: Some(read.session), first_turn: !read.first_turn_done, ..AgentLoop::new(config) };
        Ok((restored, read.restored))
    }

    /// The id of the session, where it is one.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_ref().map(|session| session.id.as_str())
    }

    /// The execution that waits for answers.
    #[must_use]
    pub fn pending(&self) -> Option<&Pending> {
        self.session.as_ref().and_then(|session| session.pending.as_ref())
    }

    /// What the agent is made of.
    #[must_use]
    pub fn config(&self) -> &AgentConfig {
        &self.config
    }

    /// Whether the next turn is the one that announces the purpose.
    #[must_use]
    pub fn first_turn(&self) -> bool {
        self.first_turn
    }

    /// The head and every settled message that no earlier checkpoint took.
    pub fn take_checkpoint(&mut self) -> Checkpoint {
        let append = std::mem::take(&mut self.unsaved);
        match &self.session {
            None => checkpoint::write(&self.config, append),
            Some(session) => session::checkpoint::write(&self.config, session, !self.first_turn, append),
        }
    }

    /// Takes one input and says what is to be done.
    pub fn handle(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Start(start) => self.start(start),
            Input::Resume(resume) => self.resume(&resume),
            Input::Continue(stopped) => self.continue_turn(&stopped),
            Input::CacheAnswered { call_id, reply } => self.cache_answered(call_id, reply),
            Input::CacheFailed { call_id } => match self.turn_in(|phase| asks_cache(phase, &call_id)) {
                Some(_) => self.fail(TurnFailure::ModelFailed),
                None => Vec::new(),
            },
            Input::Appended { call_id, at } => self.appended(call_id, at),
            Input::AppendRefused { call_id } => self.append_refused(&call_id),
            Input::ModelReplied { call_id, reply } => self.model_replied(&call_id, &reply),
            Input::ModelFailed { call_id, message } => self.model_failed(&call_id, message, TurnFailure::ModelFailed),
            Input::Permitted { call_id, verdicts, at } => self.permitted(&call_id, &verdicts, at),
            Input::PermissionFailed { call_id } => match self.turn_in(|phase| permits(phase, &call_id)) {
                Some(_) => self.fail(TurnFailure::PermissionFailed),
                None => Vec::new(),
            },
            Input::ToolSettled { call_id, index, outcome, at } => self.tool_settled(&call_id, index, outcome, at),
            Input::Flushed => self.flushed(),
            Input::DeltaFailed => self.stop(TurnFailure::DeltaFailed),
            // A session's finished turn, or its saved wait, is not taken back.
            Input::Aborted if self.session.is_some() && self.turn_in(flushes).is_some() => self.flushed(),
            Input::Aborted => self.stop(TurnFailure::Aborted),
        }
    }

    fn start(&mut self, start: TurnStart) -> Vec<Effect> {
        if let Err(failure) = self.check_not_waiting() {
            return vec![Effect::Fail(failure)];
        }
        let started = Turn::start(start, &self.config, self.session.is_some());
        self.begin(started)
    }

    fn check_not_waiting(&self) -> Result<(), TurnFailure> {
        match self.pending() {
            None => Ok(()),
            Some(_) => {
                let reason = "an execution of this session waits for answers, so no other turn can start";
                Err(TurnFailure::RecoveryRequired(reason.to_owned()))
            }
        }
    }

    /// Takes up a turn, unless there is one already.
    fn begin(&mut self, made: Result<(Turn, Vec<Effect>), TurnFailure>) -> Vec<Effect> {
        if self.turn.is_some() {
            return vec![Effect::Fail(TurnFailure::Busy)];
        }
        match made {
            Ok((turn, effects)) => {
                self.turn = Some(turn);
                effects
            }
            Err(failure) => vec![Effect::Fail(failure)],
        }
    }

    fn cache_answered(&mut self, call_id: String, reply: Option<Value>) -> Vec<Effect> {
        let Some(turn) = self.turn_in(|phase| asks_cache(phase, &call_id)) else {
            return Vec::new();
        };
        let Some(reply) = reply else {
            return vec![turn.admit(call_id)];
        };
        match CodedMessage::reply(&reply, &call_id) {
            Ok(reply) => {
                let body = RecordBody::ModelCacheHit(Box::new(reply.message.clone()));
                let record = ExecutionRecord::new(&call_id, body);
                turn.phase = Phase::RecordingReply(call_id, Box::new(reply));
                vec![Effect::Append(record)]
            }
            Err(error) => self.fail(TurnFailure::InvalidReply(error.to_string())),
        }
    }

    fn appended(&mut self, call_id: String, at: f64) -> Vec<Effect> {
        let Some(turn) = self.turn.as_mut().filter(|turn| records(&turn.phase, &call_id)) else {
            return self.late_append(&call_id, at);
        };
        match std::mem::replace(&mut turn.phase, Phase::Stepping) {
            Phase::RecordingReply(_, reply) => match turn.take_reply(&self.config, &call_id, *reply, at) {
                Ok(effects) => effects,
                Err(failure) => self.fail(failure),
            },
            Phase::RecordingFailure(_, failure) => self.fail(failure),
            Phase::RecordingIntents(round) => {
                let runs = round.running().into_iter().cloned().collect();
                turn.phase = Phase::RunningTools(round);
                vec![Effect::RunTools(runs)]
            }
            Phase::Parking(_, requests) => {
                turn.phase = Phase::Flushing(TurnOutcome::Wait(requests));
                vec![Effect::Flush]
            }
            _ => {
                let call = turn.model_call(&self.config, call_id.clone());
                turn.phase = Phase::Calling(call_id);
                vec![Effect::CallModel(call)]
            }
        }
    }

    fn append_refused(&mut self, call_id: &str) -> Vec<Effect> {
        if self.turn_in(|phase| records(phase, call_id)).is_some() {
            return self.fail(TurnFailure::JournalFailed);
        }
        self.late.remove(call_id);
        Vec::new()
    }

    fn model_replied(&mut self, call_id: &str, reply: &Value) -> Vec<Effect> {
        let reply = match CodedMessage::reply(reply, call_id) {
            Ok(reply) => reply,
            Err(error) => {
                let failure = TurnFailure::InvalidReply(error.to_string());
                return self.model_failed(call_id, error.to_string(), failure);
            }
        };
        let body = RecordBody::ModelResponse(Box::new(reply.message.clone()));
        self.record_call(call_id, body, |call_id| Phase::RecordingReply(call_id, Box::new(reply)))
    }

    fn model_failed(&mut self, call_id: &str, message: String, failure: TurnFailure) -> Vec<Effect> {
        let cancelled = matches!(self.late.get(call_id), Some(LateCall::Calling));
        let body = RecordBody::ModelFailure { message, cancelled };
        self.record_call(call_id, body, |call_id| Phase::RecordingFailure(call_id, failure))
    }

    /// Journals what became of a call, be its turn still there or over.
    fn record_call(&mut self, call_id: &str, body: RecordBody, phase: impl FnOnce(String) -> Phase) -> Vec<Effect> {
        let is_calling = |phase: &Phase| matches!(phase, Phase::Calling(id) if id == call_id);
        if let Some(turn) = self.turn_in(is_calling) {
            turn.phase = phase(call_id.to_owned());
        } else if matches!(self.late.get(call_id), Some(LateCall::Calling)) {
            self.late.remove(call_id);
        } else {
            return Vec::new();
        }
        vec![Effect::Append(ExecutionRecord::new(call_id, body))]
    }

    fn permitted(&mut self, call_id: &str, verdicts: &[Verdict], at: f64) -> Vec<Effect> {
        let Some(turn) = self.turn.as_mut().filter(|turn| permits(&turn.phase, call_id)) else {
            return Vec::new();
        };
        match std::mem::replace(&mut turn.phase, Phase::Stepping) {
            Phase::Permitting(round) => match turn.permitted(&self.config, round, verdicts, at) {
                Ok(effects) => effects,
                Err(failure) => self.fail(failure),
            },
            other => {
                turn.phase = other;
                Vec::new()
            }
        }
    }

    fn tool_settled(&mut self, call_id: &str, index: usize, outcome: ToolOutcome, at: f64) -> Vec<Effect> {
        let runs = |phase: &Phase| matches!(phase, Phase::RunningTools(round) if round.call_id == call_id);
        let Some(turn) = self.turn.as_mut().filter(|turn| runs(&turn.phase)) else {
            return Vec::new();
        };
        let Phase::RunningTools(mut round) = std::mem::replace(&mut turn.phase, Phase::Stepping) else {
            return Vec::new();
        };
        let result = round.settle(index, outcome, at).filter(|_| turn.execution_id.is_some());
        let mut effects: Vec<Effect> =
            result.and_then(|result| result_record(&round, index, result)).into_iter().collect();
        if let Some(failure) = turn.stopping.clone()
            && round.running_once(&self.config).is_empty()
        {
            effects.extend(self.fail(failure));
            return effects;
        }
        if !round.running().is_empty() {
            turn.phase = Phase::RunningTools(round);
            return effects;
        }
        match turn.close_round(&self.config, round) {
            Ok(next) => effects.extend(next),
            Err(failure) => effects.extend(self.fail(failure)),
        }
        effects
    }

    fn flushed(&mut self) -> Vec<Effect> {
        match self.turn.take() {
            Some(Turn { phase: Phase::Flushing(outcome), coded, execution_id, .. }) => {
                let pending = match &outcome {
                    TurnOutcome::Wait(requests) => execution_id.map(|execution_id| Pending {
                        execution_id,
                        request_ids: requests.iter().map(|request| request.id.clone()).collect(),
                    }),
                    _ => None,
                };
                // The messages of a turn that waits are rebuilt from its records.
                if pending.is_none() {
                    self.unsaved.extend(coded);
                }
                if let Some(session) = &mut self.session {
                    session.pending = pending;
                }
                self.first_turn = false;
                vec![Effect::Finish(outcome)]
            }
            other => {
                self.turn = other;
                Vec::new()
            }
        }
    }

    /// The turn, where it is in such a phase.
    fn turn_in(&mut self, is_wanted: impl Fn(&Phase) -> bool) -> Option<&mut Turn> {
        self.turn.as_mut().filter(|turn| is_wanted(&turn.phase))
    }
}

fn asks_cache(phase: &Phase, call_id: &str) -> bool {
    matches!(phase, Phase::AskingCache(id) if id == call_id)
}

fn permits(phase: &Phase, call_id: &str) -> bool {
    matches!(phase, Phase::Permitting(round) if round.call_id == call_id)
}

fn flushes(phase: &Phase) -> bool {
    matches!(phase, Phase::Flushing(_))
}

fn records(phase: &Phase, call_id: &str) -> bool {
    match phase {
        Phase::Admitting(id)
        | Phase::RecordingReply(id, _)
        | Phase::RecordingFailure(id, _)
        | Phase::Parking(id, _) => id == call_id,
        Phase::RecordingIntents(round) => round.call_id == call_id,
        _ => false,
    }
}
