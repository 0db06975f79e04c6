//! What goes into the agent loop and what comes out of it.

use crate::runtime::codec::Value;
use crate::runtime::message::ChatMessage;
use crate::runtime::outcome::TurnOutcome;
use crate::runtime::tool::ToolFault;
use crate::value::Json;

/// What happened. Inputs about a model call name it; one that is no longer expected is ignored.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A turn begins with its rendered text.
    Start(TurnStart),
    /// The cache was asked: its reply, unchecked, or none.
    CacheAnswered {
        /// The call.
        call_id: String,
        /// The cached reply.
        reply: Option<Value>,
    },
    /// The cache failed; the host keeps the error.
    CacheFailed {
        /// The call.
        call_id: String,
    },
    /// The journal took the record.
    Appended {
        /// The call the record is about.
        call_id: String,
        /// Now, in epoch milliseconds.
        at: f64,
    },
    /// The journal, or the admission it stands for, refused the record; the host keeps the error.
    AppendRefused {
        /// The call the record is about.
        call_id: String,
    },
    /// The model replied.
    ModelReplied {
        /// The call.
        call_id: String,
        /// The reply, unchecked.
        reply: Value,
    },
    /// The provider failed; the host keeps the error.
    ModelFailed {
        /// The call.
        call_id: String,
        /// The error's message.
        message: String,
    },
    /// A tool has settled.
    ToolSettled {
        /// The model call that asked for it.
        call_id: String,
        /// Which of its tool calls.
        index: usize,
        /// What came of it.
        outcome: ToolOutcome,
        /// Now, in epoch milliseconds.
        at: f64,
    },
    /// Every streamed text was delivered.
    Flushed,
    /// The observer of streamed text failed; the host keeps the error.
    DeltaFailed,
    /// The turn's signal fired.
    Aborted,
}

/// What came of running a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolOutcome {
    /// It returned JSON.
    Returned(Json),
    /// It failed, or what it returned is not JSON.
    Fault(ToolFault),
    /// It asked to suspend the turn, which a plain agent cannot.
    Suspended,
}

/// What the host is to do. Effects of one input are performed in their order.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Add these to the history shown to the model; `Fail` takes back those of its turn.
    Extend(Vec<ChatMessage>),
    /// Ask the provider's cache; answer with `CacheAnswered` or `CacheFailed`.
    AskCache(ModelCall),
    /// Append to the metered journal; answer with `Appended` or `AppendRefused`.
    Append(ExecutionRecord),
    /// Call the model; answer with `ModelReplied` or `ModelFailed`.
    CallModel(ModelCall),
    /// Run these at the same time; answer each with `ToolSettled`.
    RunTools(Vec<ToolRun>),
    /// Deliver what was streamed; answer with `Flushed` or `DeltaFailed`.
    Flush,
    /// The turn is over and its messages are history.
    Finish(TurnOutcome),
    /// The turn is over and left nothing.
    Fail(TurnFailure),
}

/// A turn to run.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnStart {
    /// Stays the same over retries.
    pub turn_id: String,
    /// One per execution; call ids and record ids derive from it.
    pub attempt_id: String,
    /// The rendered increment.
    pub input: String,
    /// Now, in epoch milliseconds.
    pub at: f64,
}

/// One call of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCall {
    /// Unique among all calls: the attempt and an ordinal.
    pub call_id: String,
    /// Whether the tools are offered; they are not in the last round.
    pub offer_tools: bool,
}

/// One tool to run.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRun {
    /// The model call that asked for it.
    pub call_id: String,
    /// Which of its tool calls.
    pub index: usize,
    /// The position of the tool among the agent's tools.
    pub tool: usize,
    /// The id of the tool call.
    pub tool_call_id: String,
    /// Arguments that fit the tool's schema.
    pub arguments: Json,
    /// The same for the same call of a retried attempt.
    pub idempotency_key: String,
}

/// A record of the execution journal.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecutionRecord {
    /// Unique; derives from the call id.
    pub id: String,
    /// The call the record is about.
    pub call_id: String,
    /// What is recorded.
    pub body: RecordBody,
}

impl ExecutionRecord {
    pub(super) fn new(call_id: &str, body: RecordBody) -> Self {
        let kind = match &body {
            RecordBody::ModelRequest => "request",
            RecordBody::ModelResponse(_) => "response",
            RecordBody::ModelFailure { .. } => "failure",
            RecordBody::ModelCacheHit(_) => "cache-hit",
        };
        ExecutionRecord { id: format!("{call_id}:{kind}"), call_id: call_id.to_owned(), body }
    }
}

/// What an execution record says.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordBody {
    /// A call is about to be made.
    ModelRequest,
    /// The model replied.
    ModelResponse(Box<ChatMessage>),
    /// The call gave no acceptable reply.
    ModelFailure {
        /// Why.
        message: String,
        /// Whether the turn had been stopped by then.
        cancelled: bool,
    },
    /// The cache replied.
    ModelCacheHit(Box<ChatMessage>),
}

/// Why a turn has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TurnFailure {
    /// The signal fired: its reason is thrown.
    #[error("the turn was cancelled")]
    Aborted,
    /// The observer of streamed text failed: its error is thrown.
    #[error("the observer of streamed text failed")]
    DeltaFailed,
    /// The journal or an admission refused: its error is the cause.
    #[error("the execution journal did not take a record")]
    JournalFailed,
    /// The provider or its cache failed: its error is thrown.
    #[error("the provider failed")]
    ModelFailed,
    /// The provider replied with something that is no reply.
    #[error("the provider's reply is not acceptable: {0}")]
    InvalidReply(String),
    /// The rendered input is longer than a history can hold.
    #[error("the turn's input is not acceptable: {0}")]
    InvalidInput(String),
    /// A tool asked to suspend.
    #[error("a tool asked to suspend the turn, which a plain agent does not support")]
    UnsupportedWait,
    /// The model still called tools in its last round.
    #[error("the model still called tools in round {max_rounds} of {max_rounds} (maxRounds)")]
    RoundLimit {
        /// `maxRounds`.
        max_rounds: u32,
    },
    /// A turn is already running on this agent.
    #[error("a turn is already running on this session")]
    Busy,
}

impl TurnFailure {
    /// A stable code, kebab-case.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            TurnFailure::Aborted => "aborted",
            TurnFailure::DeltaFailed => "delta-failed",
            TurnFailure::JournalFailed => "journal-failed",
            TurnFailure::ModelFailed => "model-failed",
            TurnFailure::InvalidReply(_) => "invalid-reply",
            TurnFailure::InvalidInput(_) => "invalid-input",
            TurnFailure::UnsupportedWait => "unsupported-wait",
            TurnFailure::RoundLimit { .. } => "round-limit",
            TurnFailure::Busy => "busy",
        }
    }
}
