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
//! Then `Flush` (streamed text reaches its observer before the outcome does) and `Finish`.
//!
//! A turn that fails or is stopped leaves no trace in the history, so every tool call in it has its
//! result and a retry sees what a freshly restored runtime sees. A model call that was under way is
//! not forgotten: when it settles later, its late record goes out so that the ledger knows.

mod coded;
mod protocol;
mod turn;

pub use protocol::{
    Effect, ExecutionRecord, Input, ModelCall, RecordBody, ToolOutcome, ToolRun, TurnFailure, TurnStart,
};

use super::checkpoint::{self, Checkpoint, CheckpointError, Restored};
use super::codec::Value;
use super::config::AgentConfig;
use crate::value::Json;
use coded::CodedMessage;
use std::collections::HashMap;
use turn::{Phase, Turn};

/// One agent's private history and the turn it is in.
#[derive(Debug)]
pub struct AgentLoop {
    config: AgentConfig,
    /// Settled messages that no checkpoint holds yet, coded.
    unsaved: Vec<Json>,
    first_turn: bool,
    turn: Option<Turn>,
    /// Calls of turns that are over, still to settle.
    late: HashMap<String, LateCall>,
}

/// How far a call had come when its turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LateCall {
    Admitting,
    Calling,
}

impl AgentLoop {
    /// An agent without history.
    #[must_use]
    pub fn new(config: AgentConfig) -> Self {
        AgentLoop { config, unsaved: Vec::new(), first_turn: true, turn: None, late: HashMap::new() }
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
        checkpoint::write(&self.config, std::mem::take(&mut self.unsaved))
    }

    /// Takes one input and says what is to be done.
    pub fn handle(&mut self, input: Input) -> Vec<Effect> {
        match input {
            Input::Start(start) => self.start(start),
            Input::CacheAnswered { call_id, reply } => self.cache_answered(call_id, reply),
            Input::CacheFailed { call_id } => match self.turn_in(|phase| asks_cache(phase, &call_id)) {
                Some(_) => self.fail(TurnFailure::ModelFailed),
                None => Vec::new(),
            },
            Input::Appended { call_id, at } => self.appended(call_id, at),
            Input::AppendRefused { call_id } => self.append_refused(&call_id),
            Input::ModelReplied { call_id, reply } => self.model_replied(&call_id, &reply),
            Input::ModelFailed { call_id, message } => self.model_failed(&call_id, message, TurnFailure::ModelFailed),
            Input::ToolSettled { call_id, index, outcome, at } => self.tool_settled(&call_id, index, outcome, at),
            Input::Flushed => self.flushed(),
            Input::DeltaFailed => self.stop(TurnFailure::DeltaFailed),
            Input::Aborted => self.stop(TurnFailure::Aborted),
        }
    }

    fn start(&mut self, start: TurnStart) -> Vec<Effect> {
        if self.turn.is_some() {
            return vec![Effect::Fail(TurnFailure::Busy)];
        }
        match Turn::start(start, &self.config) {
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
            return self.late_admission(&call_id);
        };
        match std::mem::replace(&mut turn.phase, Phase::Stepping) {
            Phase::RecordingReply(_, reply) => match turn.take_reply(&self.config, &call_id, *reply, at) {
                Ok(effects) => effects,
                Err(failure) => self.fail(failure),
            },
            Phase::RecordingFailure(_, failure) => self.fail(failure),
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
        let cancelled = self.late.contains_key(call_id);
        let body = RecordBody::ModelFailure { message, cancelled };
        self.record_call(call_id, body, |call_id| Phase::RecordingFailure(call_id, failure))
    }

    /// Journals what became of a call, be its turn still there or over.
    fn record_call(&mut self, call_id: &str, body: RecordBody, phase: impl FnOnce(String) -> Phase) -> Vec<Effect> {
        let is_calling = |phase: &Phase| matches!(phase, Phase::Calling(id) if id == call_id);
        if let Some(turn) = self.turn_in(is_calling) {
            turn.phase = phase(call_id.to_owned());
        } else if self.late.remove(call_id).is_none() {
            return Vec::new();
        }
        vec![Effect::Append(ExecutionRecord::new(call_id, body))]
    }

    fn tool_settled(&mut self, call_id: &str, index: usize, outcome: ToolOutcome, at: f64) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else {
            return Vec::new();
        };
        match std::mem::replace(&mut turn.phase, Phase::Stepping) {
            Phase::RunningTools(mut round) if round.call_id == call_id => {
                round.settle(index, outcome, at);
                if !round.is_settled() {
                    turn.phase = Phase::RunningTools(round);
                    return Vec::new();
                }
                if round.suspended {
                    return self.fail(TurnFailure::UnsupportedWait);
                }
                turn.next_round(&self.config, round.into_results())
            }
            other => {
                turn.phase = other;
                Vec::new()
            }
        }
    }

    fn flushed(&mut self) -> Vec<Effect> {
        match self.turn.take() {
            Some(Turn { phase: Phase::Flushing(outcome), coded, .. }) => {
                self.unsaved.extend(coded);
                self.first_turn = false;
                vec![Effect::Finish(outcome)]
            }
            other => {
                self.turn = other;
                Vec::new()
            }
        }
    }

    fn stop(&mut self, failure: TurnFailure) -> Vec<Effect> {
        if self.turn.is_none() { Vec::new() } else { self.fail(failure) }
    }

    /// Ends the turn; a call under way is remembered until it settles.
    fn fail(&mut self, failure: TurnFailure) -> Vec<Effect> {
        match self.turn.take().map(|turn| turn.phase) {
            Some(Phase::Admitting(call_id)) if failure != TurnFailure::JournalFailed => {
                self.late.insert(call_id, LateCall::Admitting);
            }
            Some(Phase::Calling(call_id)) => {
                self.late.insert(call_id, LateCall::Calling);
            }
            _ => {}
        }
        vec![Effect::Fail(failure)]
    }

    /// An admission that came through after its turn ended is settled, since nothing will be called.
    fn late_admission(&mut self, call_id: &str) -> Vec<Effect> {
        if self.late.get(call_id) != Some(&LateCall::Admitting) {
            return Vec::new();
        }
        self.late.remove(call_id);
        let message = "the turn ended before the call was made".to_owned();
        vec![Effect::Append(ExecutionRecord::new(call_id, RecordBody::ModelFailure { message, cancelled: true }))]
    }

    /// The turn, where it is in such a phase.
    fn turn_in(&mut self, is_wanted: impl Fn(&Phase) -> bool) -> Option<&mut Turn> {
        self.turn.as_mut().filter(|turn| is_wanted(&turn.phase))
    }
}

fn asks_cache(phase: &Phase, call_id: &str) -> bool {
    matches!(phase, Phase::AskingCache(id) if id == call_id)
}

fn records(phase: &Phase, call_id: &str) -> bool {
    matches!(phase, Phase::Admitting(id) | Phase::RecordingReply(id, _) | Phase::RecordingFailure(id, _) if id == call_id)
}
