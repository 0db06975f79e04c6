//! The turn an agent is in: its phase, and the step from one round to the next.

use super::coded::CodedMessage;
use super::protocol::{Effect, ExecutionRecord, ModelCall, RecordBody, ToolOutcome, ToolRun, TurnFailure, TurnStart};
use crate::runtime::config::AgentConfig;
use crate::runtime::fingerprint::sha256_hex;
use crate::runtime::message::{ChatMessage, Role, ToolCall};
use crate::runtime::outcome::{TurnOutcome, outcome_of};
use crate::runtime::tool::{self, IdempotencyKeys, ToolFault};
use crate::value::Json;
use crate::value::text::utf16_len;

/// The longest attempt id that call and message ids are built from as it is; it leaves room for
/// their endings within the bound of an id.
const MAX_ID_BASE: usize = 448;

#[derive(Debug)]
pub(super) struct Turn {
    turn_id: String,
    /// What call and message ids begin with.
    id_base: String,
    rounds: u32,
    /// The messages of this turn as a checkpoint holds them.
    pub(super) coded: Vec<Json>,
    keys: IdempotencyKeys,
    pub(super) phase: Phase,
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
    RunningTools(ToolRound),
    Flushing(TurnOutcome),
}

impl Turn {
    /// A turn at its first model call. Refused where the input is longer than a history can hold.
    pub(super) fn start(start: TurnStart, config: &AgentConfig) -> Result<(Self, Vec<Effect>), TurnFailure> {
        let fits = utf16_len(&start.attempt_id) <= MAX_ID_BASE;
        let id_base = if fits { start.attempt_id } else { sha256_hex(&start.attempt_id) };
        let input = ChatMessage::text(format!("{id_base}:input"), Role::User, start.input, start.at);
        let input = CodedMessage::of(input, "input").map_err(|error| TurnFailure::InvalidInput(error.to_string()))?;
        let mut turn = Turn {
            turn_id: start.turn_id,
            id_base,
            rounds: 0,
            coded: Vec::new(),
            keys: IdempotencyKeys::default(),
            phase: Phase::Stepping,
        };
        let effects = turn.next_round(config, vec![input]);
        Ok((turn, effects))
    }

    /// Adds `messages` to the history and makes the next model call.
    pub(super) fn next_round(&mut self, config: &AgentConfig, messages: Vec<CodedMessage>) -> Vec<Effect> {
        self.rounds += 1;
        let call_id = format!("{}:call:{}", self.id_base, self.rounds);
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

    /// In the last round no tools are offered, so that the model answers in words.
    pub(super) fn model_call(&self, config: &AgentConfig, call_id: String) -> ModelCall {
        ModelCall { call_id, offer_tools: self.rounds < config.max_rounds }
    }

    /// Goes on from a journaled reply: ends with its text, or runs its tools while rounds are left.
    pub(super) fn take_reply(
        &mut self,
        config: &AgentConfig,
        call_id: &str,
        reply: CodedMessage,
        at: f64,
    ) -> Result<Vec<Effect>, TurnFailure> {
        if !reply.calls_tools() {
            self.phase = Phase::Flushing(outcome_of(reply.text()));
            return Ok(vec![self.extend(vec![reply]), Effect::Flush]);
        }
        let max_rounds = config.max_rounds;
        if self.rounds >= max_rounds {
            return Err(TurnFailure::RoundLimit { max_rounds });
        }
        let (round, runs) = self.open_tool_round(config, call_id, &reply.message.tool_calls, at);
        let mut effects = vec![self.extend(vec![reply])];
        if runs.is_empty() {
            effects.extend(self.next_round(config, round.into_results()));
        } else {
            effects.push(Effect::RunTools(runs));
            self.phase = Phase::RunningTools(round);
        }
        Ok(effects)
    }

    fn extend(&mut self, messages: Vec<CodedMessage>) -> Effect {
        let (messages, coded): (Vec<_>, Vec<_>) = messages.into_iter().map(|m| (m.message, m.coded)).unzip();
        self.coded.extend(coded);
        Effect::Extend(messages)
    }

    /// Calls that cannot be carried out have their result at once; the others are to be run.
    fn open_tool_round(
        &mut self,
        config: &AgentConfig,
        call_id: &str,
        calls: &[ToolCall],
        at: f64,
    ) -> (ToolRound, Vec<ToolRun>) {
        let mut round = ToolRound::new(call_id, calls);
        let mut runs = Vec::new();
        for (index, call) in calls.iter().enumerate() {
            match tool::resolve(config, call) {
                Ok((tool, arguments)) => runs.push(ToolRun {
                    call_id: call_id.to_owned(),
                    index,
                    tool,
                    tool_call_id: call.id.clone(),
                    idempotency_key: self.keys.next(&self.turn_id, &call.name, &arguments),
                    arguments,
                }),
                Err(fault) => round.settle(index, ToolOutcome::Fault(fault), at),
            }
        }
        (round, runs)
    }
}

/// The tool calls of one reply and the results so far, in call order.
#[derive(Debug)]
pub(super) struct ToolRound {
    pub(super) call_id: String,
    calls: Vec<ToolCall>,
    results: Vec<Option<CodedMessage>>,
    /// Whether a tool asked to suspend.
    pub(super) suspended: bool,
}

impl ToolRound {
    fn new(call_id: &str, calls: &[ToolCall]) -> Self {
        let results = calls.iter().map(|_| None).collect();
        ToolRound { call_id: call_id.to_owned(), calls: calls.to_vec(), results, suspended: false }
    }

    /// Notes what came of one call; a second outcome for it is ignored.
    pub(super) fn settle(&mut self, index: usize, outcome: ToolOutcome, at: f64) {
        let id = format!("{}:result:{index}", self.call_id);
        let (Some(call), Some(slot @ None)) = (self.calls.get(index), self.results.get_mut(index)) else {
            return;
        };
        let content = match outcome {
            ToolOutcome::Returned(result) => tool::result_content(&result),
            ToolOutcome::Fault(fault) => Ok(fault.content()),
            ToolOutcome::Suspended => {
                self.suspended = true;
                Ok(String::new())
            }
        };
        let message = |content| CodedMessage::of(ChatMessage::tool_result(id.clone(), call, content, at), "result");
        *slot = content
            .and_then(|content| message(content).map_err(|error| ToolFault::InvalidResult(error.to_string())))
            .or_else(|fault| message(fault.content()))
            .ok();
    }

    pub(super) fn is_settled(&self) -> bool {
        self.results.iter().all(Option::is_some)
    }

    pub(super) fn into_results(self) -> Vec<CodedMessage> {
        self.results.into_iter().flatten().collect()
    }
}
