//! The turn an agent is in: its phase, and the step from one round to the next.

use super::coded::CodedMessage;
use super::protocol::{Effect, ExecutionRecord, ModelCall, RecordBody, TurnFailure, TurnStart};
use super::round::ToolRound;
use crate::runtime::config::AgentConfig;
use crate::runtime::message::{ChatMessage, Role};
use crate::runtime::outcome::{TurnOutcome, outcome_of};
use crate::runtime::session::approval::ApprovalRequest;
use crate::runtime::session::permission::Verdict;
use crate::runtime::tool::IdempotencyKeys;
use crate::value::Json;
use crate::value::hash::sha256_hex;
use crate::value::text::utf16_len;

/// The longest attempt id that call and message ids are built from as it is; it leaves room for
/// their endings within the bound of an id.
const MAX_ID_BASE: usize = 448;

#[derive(Debug)]
pub(super) struct Turn {
    pub(super) turn_id: String,
    /// Of a session: the execution that the journal knows the turn as.
    pub(super) execution_id: Option<String>,
    /// What call and message ids begin with.
    pub(super) id_base: String,
    /// Replies so far, and the one that is awaited.
    pub(super) rounds: u32,
    /// Model calls so far, those without a reply included.
    pub(super) calls: u32,
    /// The messages of this turn as a checkpoint holds them.
    pub(super) coded: Vec<Json>,
    pub(super) keys: IdempotencyKeys,
    pub(super) phase: Phase,
    /// It was stopped while tools ran that must not run again: it ends when they have their results.
    pub(super) stopping: Option<TurnFailure>,
}

/// What the turn waits for.
#[derive(Debug)]
pub(super) enum Phase {
    /// Nothing: a step is being worked out.
    Stepping,
    AskingCache(String),
    /// The request record, which is the admission, is being appended.
    Admitting(String),
    Calling(String),
    RecordingReply(String, Box<CodedMessage>),
    RecordingFailure(String, TurnFailure),
    /// The policy is being read.
    Permitting(ToolRound),
    /// What is about to run is being written down.
    RecordingIntents(ToolRound),
    RunningTools(ToolRound),
    /// Every result is being written down before the turn waits.
    Parking(String, Vec<ApprovalRequest>),
    Flushing(TurnOutcome),
}

impl Turn {
    /// A turn at its first model call; `recorded` where it belongs to a session. Refused where the input
    /// is longer than a history can hold.
    pub(super) fn start(
        start: TurnStart,
        config: &AgentConfig,
        recorded: bool,
    ) -> Result<(Self, Vec<Effect>), TurnFailure> {
        let TurnStart { turn_id, attempt_id, input, at } = start;
        let message = input_message(&attempt_id, input.clone(), at)?;
        let mut turn = Turn {
            id_base: id_base(&attempt_id),
            execution_id: recorded.then_some(attempt_id),
            turn_id,
            rounds: 0,
            calls: 0,
            coded: Vec::new(),
            keys: IdempotencyKeys::default(),
            phase: Phase::Stepping,
            stopping: None,
        };
        let mut effects = Vec::new();
        if recorded {
            let body = RecordBody::Start { turn_id: turn.turn_id.clone(), input };
            effects.push(Effect::Record(ExecutionRecord::new(&turn.call_id(1), body)));
        }
        let messages = if config.decision.is_some() { Vec::new() } else { vec![message] };
        effects.extend(turn.next_round(config, messages));
        Ok((turn, effects))
    }

    fn call_id(&self, ordinal: u32) -> String {
        format!("{}:call:{ordinal}", self.id_base)
    }

    /// Adds `messages` to the history and makes the next model call.
    pub(super) fn next_round(&mut self, config: &AgentConfig, messages: Vec<CodedMessage>) -> Vec<Effect> {
        self.rounds += 1;
        self.calls += 1;
        let call_id = self.call_id(self.calls);
        let extend = self.extend(messages);
        if !config.provider_has_cache {
            return vec![extend, self.admit(call_id)];
        }
        self.phase = Phase::AskingCache(call_id.clone());
        vec![extend, Effect::AskCache(self.model_call(config, call_id))]
    }

    pub(super) fn admit(&mut self, call_id: String) -> Effect {
        let record = ExecutionRecord::new(&call_id, RecordBody::ModelRequest);
        self.phase = Phase::Admitting(call_id);
        Effect::Append(record)
    }

    /// In the last round no tools are offered, so that the model answers in words. A decision has its tool.
    pub(super) fn model_call(&self, config: &AgentConfig, call_id: String) -> ModelCall {
        ModelCall { call_id, offer_tools: config.decision.is_some() || self.rounds < config.max_rounds }
    }

    /// Goes on from a journaled reply: ends with its text, or runs its tools while rounds are left.
    pub(super) fn take_reply(
        &mut self,
        config: &AgentConfig,
        call_id: &str,
        reply: CodedMessage,
        at: f64,
    ) -> Result<Vec<Effect>, TurnFailure> {
        if let Some(tool) = &config.decision {
            self.phase = Phase::Flushing(tool.read(&reply.message)?);
            return Ok(vec![self.extend(vec![reply]), Effect::Flush]);
        }
        if !reply.calls_tools() {
            self.phase = Phase::Flushing(outcome_of(reply.text()));
            return Ok(vec![self.extend(vec![reply]), Effect::Flush]);
        }
        let max_rounds = config.max_rounds;
        if self.rounds >= max_rounds {
            return Err(TurnFailure::RoundLimit { max_rounds });
        }
        let round = ToolRound::open(config, &mut self.keys, &self.turn_id, call_id, &reply.message.tool_calls);
        let mut effects = vec![self.extend(vec![reply])];
        effects.extend(self.continue_round(config, round, at)?);
        Ok(effects)
    }

    pub(super) fn extend(&mut self, messages: Vec<CodedMessage>) -> Effect {
        let (messages, coded): (Vec<_>, Vec<_>) = messages.into_iter().map(|m| (m.message, m.coded)).unzip();
        self.coded.extend(coded);
        Effect::Extend(messages)
    }

    /// Goes on with a round as far as it can: to the policy, to the tools, to the next round, or to wait.
    pub(super) fn continue_round(
        &mut self,
        config: &AgentConfig,
        mut round: ToolRound,
        at: f64,
    ) -> Result<Vec<Effect>, TurnFailure> {
        let mut effects = self.settle_decided(&mut round, at);
        let calls = round.ready();
        if calls.is_empty() {
            effects.extend(self.close_round(config, round)?);
        } else if self.execution_id.is_some() {
            effects.push(Effect::Permit { call_id: round.call_id.clone(), calls });
            self.phase = Phase::Permitting(round);
        } else {
            effects.push(Effect::RunTools(round.decide(&vec![Verdict::Allow; calls.len()])));
            self.phase = Phase::RunningTools(round);
        }
        Ok(effects)
    }

    /// What the policy allows is written down, so that it can run.
    pub(super) fn permitted(
        &mut self,
        config: &AgentConfig,
        mut round: ToolRound,
        verdicts: &[Verdict],
        at: f64,
    ) -> Result<Vec<Effect>, TurnFailure> {
        let runs = round.decide(verdicts);
        let mut effects = self.settle_decided(&mut round, at);
        if runs.is_empty() {
            effects.extend(self.close_round(config, round)?);
            return Ok(effects);
        }
        for run in runs {
            let tool_name = round.run(run.index).map(|(_, name)| name.to_owned()).unwrap_or_default();
            let (index, body) = (run.index, RecordBody::ToolIntent { tool_name, run: Box::new(run) });
            effects.push(Effect::Record(ExecutionRecord::of_tool(&round.call_id, index, body)));
        }
        effects.push(Effect::Sync { call_id: round.call_id.clone() });
        self.phase = Phase::RecordingIntents(round);
        Ok(effects)
    }

    /// Leaves a round in which nothing runs any more.
    pub(super) fn close_round(&mut self, config: &AgentConfig, round: ToolRound) -> Result<Vec<Effect>, TurnFailure> {
        if round.suspended {
            return Err(TurnFailure::UnsupportedWait);
        }
        if round.is_settled() {
            return Ok(self.next_round(config, round.into_results()));
        }
        let requests = round.requests(self.execution_id.as_deref().unwrap_or_default());
        self.phase = Phase::Parking(round.call_id.clone(), requests);
        Ok(vec![Effect::Sync { call_id: round.call_id }])
    }

    fn settle_decided(&self, round: &mut ToolRound, at: f64) -> Vec<Effect> {
        let results = round.settle_decided(at);
        let recorded = results.into_iter().filter(|_| self.execution_id.is_some());
        recorded.filter_map(|(index, result)| result_record(round, index, result)).collect()
    }
}

/// The record of a call's result.
pub(super) fn result_record(round: &ToolRound, index: usize, result: Json) -> Option<Effect> {
    let tool_call_id = round.tool_call_id(index)?.to_owned();
    let body = RecordBody::ToolResult { tool_call_id, result };
    Some(Effect::Record(ExecutionRecord::of_tool(&round.call_id, index, body)))
}

/// What ids begin with that derive from an attempt.
pub(super) fn id_base(attempt_id: &str) -> String {
    if utf16_len(attempt_id) <= MAX_ID_BASE { attempt_id.to_owned() } else { sha256_hex(attempt_id) }
}

/// The message that a turn begins with.
pub(super) fn input_message(attempt_id: &str, input: String, at: f64) -> Result<CodedMessage, TurnFailure> {
    let message = ChatMessage::text(format!("{}:input", id_base(attempt_id)), Role::User, input, at);
    CodedMessage::of(message, "input").map_err(|error| TurnFailure::InvalidInput(error.to_string()))
}
