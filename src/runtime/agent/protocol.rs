//! What goes into the agent loop and what comes out of it.

use crate::runtime::codec::Value;
use crate::runtime::message::ChatMessage;
use crate::runtime::outcome::TurnOutcome;
use crate::runtime::selector::decision::DecisionFault;
use crate::runtime::session::permission::Verdict;
use crate::runtime::session::records::RecordedAnswer;
use crate::runtime::tool::ToolFault;
use crate::value::Json;

/// What happened. Inputs about a model call name it; one that is no longer expected is ignored.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// A turn begins with its rendered text.
    Start(TurnStart),
    /// A turn that waited goes on; of a session only.
    Resume(TurnResume),
    /// A turn whose first attempt was stopped when it had begun to run tools goes on; of a session only.
    Continue(TurnContinue),
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
    /// The journal took the record, or all of them, and every `Record` before.
    Appended {
        /// The call the record is about.
        call_id: String,
        /// Now, in epoch milliseconds.
        at: f64,
    },
    /// The journal, or the admission it stands for, refused a record; the host keeps the error.
    AppendRefused {
        /// The call the record is about.
        call_id: String,
    },
    /// The policy decided, one verdict for each call that was asked for.
    Permitted {
        /// The model call that asked for the tools.
        call_id: String,
        /// In the order of the calls; a call without one is denied.
        verdicts: Vec<Verdict>,
        /// Now, in epoch milliseconds.
        at: f64,
    },
    /// The policy could not be read; the host keeps the error.
    PermissionFailed {
        /// The model call that asked for the tools.
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
    /// Append to the journal and go on; the next `Append` or `Sync` is answered when it has settled too.
    Record(ExecutionRecord),
    /// Answer with `Appended` or `AppendRefused` when every `Record` so far has settled.
    Sync {
        /// The model call it is about.
        call_id: String,
    },
    /// Read the policy for each of these calls; answer with `Permitted` or `PermissionFailed`.
    Permit {
        /// The model call that asked for them.
        call_id: String,
        /// The calls.
        calls: Vec<PermitCall>,
    },
    /// Call the model; answer with `ModelReplied` or `ModelFailed`.
    CallModel(ModelCall),
    /// Run these at the same time; answer each with `ToolSettled`.
    RunTools(Vec<ToolRun>),
    /// Deliver what was streamed; answer with `Flushed` or `DeltaFailed`.
    Flush,
    /// The turn is over and its messages are history; those of one that waits are in the journal.
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
    /// The rendered increment. Ignored where a decision is made: the host puts the prompt into the history.
    pub input: String,
    /// Now, in epoch milliseconds.
    pub at: f64,
}

/// A turn that waited, with the answers and what its execution wrote down.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnResume {
    /// The conversation the turn is of.
    pub conversation_id: String,
    /// The participant whose turn it is.
    pub participant_id: String,
    /// The turn.
    pub turn_id: String,
    /// Its group.
    pub group_id: String,
    /// The attempt that continues it; new call ids derive from it.
    pub attempt_id: String,
    /// The records of the execution in their order, coded.
    pub records: Vec<Json>,
    /// The answers, as `{request, responseId, response}`.
    pub responses: Vec<Json>,
    /// A host has decided that a tool of which nobody knows what it did runs again.
    pub retried: bool,
    /// Now, in epoch milliseconds.
    pub at: f64,
}

/// A turn that was stopped, and what its execution wrote down.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnContinue {
    /// The turn.
    pub turn_id: String,
    /// The attempt that continues it; new call ids derive from it.
    pub attempt_id: String,
    /// The attempt that began the execution.
    pub execution_id: String,
    /// The records of the execution in their order, coded.
    pub records: Vec<Json>,
    /// As in [`TurnResume`].
    pub retried: bool,
    /// Now, in epoch milliseconds.
    pub at: f64,
}

/// A tool call that the policy is read for.
#[derive(Clone, Debug, PartialEq)]
pub struct PermitCall {
    /// The tool.
    pub tool_name: String,
    /// The id of the tool call.
    pub tool_call_id: String,
    /// Arguments that fit the tool's schema.
    pub arguments: Json,
}

/// One call of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCall {
    /// Unique among all calls: the attempt and an ordinal.
    pub call_id: String,
    /// Whether tools are offered; the agent's own are not in the last round.
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
    /// The model call the record is about: it, a tool it asked for, or an answer to such a request. The
    /// start of an execution names the first.
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
            RecordBody::Start { .. } => "start",
            RecordBody::ToolIntent { .. } => "intent",
            RecordBody::ToolResult { .. } => "result",
            RecordBody::Answer(_) => "answer",
        };
        ExecutionRecord { id: format!("{call_id}:{kind}"), call_id: call_id.to_owned(), body }
    }

    /// A record of one of the tools that a call asked for.
    pub(super) fn of_tool(call_id: &str, index: usize, body: RecordBody) -> Self {
        let record = ExecutionRecord::new(call_id, body);
        ExecutionRecord { id: format!("{}:{index}", record.id), ..record }
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
    /// An execution begins.
    Start {
        /// The turn it is an attempt of.
        turn_id: String,
        /// The rendered increment.
        input: String,
    },
    /// A tool is about to run.
    ToolIntent {
        /// The tool's name.
        tool_name: String,
        /// What is run.
        run: Box<ToolRun>,
    },
    /// A tool call has its result.
    ToolResult {
        /// The id of the tool call.
        tool_call_id: String,
        /// What the model is told.
        result: Json,
    },
    /// A request was answered.
    Answer(RecordedAnswer),
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
    #[error("a tool asked to suspend the turn; only a session's own permission gate can")]
    UnsupportedWait,
    /// The model still called tools in its last round.
    #[error("the model still called tools in round {max_rounds} of {max_rounds} (maxRounds)")]
    RoundLimit {
        /// `maxRounds`.
        max_rounds: u32,
    },
    /// The reply is no decision.
    #[error(transparent)]
    NoDecision(#[from] DecisionFault),
    /// A turn is already running on this agent.
    #[error("a turn is already running on this session")]
    Busy,
    /// The policy could not be read: its error is thrown.
    #[error("the permission policy could not be read")]
    PermissionFailed,
    /// An answer does not belong to what is waiting, or nothing is.
    #[error("{0}")]
    IdentityMismatch(String),
    /// The execution that waits has no records.
    #[error("the execution journal has no records of the execution that waits")]
    JournalMissing,
    /// What an unfinished execution did is unknown, or one is in the way.
    #[error("{0}")]
    RecoveryRequired(String),
    /// An answer contradicts one on record.
    #[error("{0}")]
    RecoveryConflict(String),
    /// The records are not those of this session's execution.
    #[error("the execution's records cannot be continued: {0}")]
    RecoveryInvalid(String),
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
            TurnFailure::NoDecision(fault) => fault.code(),
            TurnFailure::Busy => "busy",
            TurnFailure::PermissionFailed => "permission-failed",
            TurnFailure::IdentityMismatch(_) => "identity-mismatch",
            TurnFailure::JournalMissing => "journal-missing",
            TurnFailure::RecoveryRequired(_) => "recovery-required",
            TurnFailure::RecoveryConflict(_) => "recovery-conflict",
            TurnFailure::RecoveryInvalid(_) => "recovery-invalid",
        }
    }
}
