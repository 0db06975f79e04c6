//! The journal's entries. Each is a member of one line of JSON (see `codec`), whose name is the
//! entry's kind and schema version and whose value holds its fields.

use super::execution::ExecutionRecord;
use super::model::{
    AgentTraits, Checkpoint, CompletedTurn, Decision, Id, Limits, Outcome, Participant, Recovery, Response, RunOutcome,
    RuntimeReference, Selection, Selector, StopReason,
};
use super::usage::{CallOutcome, Price, Provenance, Tokens};
use crate::value::CanonicalJson;
use serde::Serialize;
use std::rc::Rc;

/// What happened. Times are ISO 8601.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Entry {
    /// Always the first, never again.
    #[serde(rename = "created/1")]
    Created(Rc<Created>),
    /// A host called `run()`.
    #[serde(rename = "run-started/1")]
    RunStarted(RunStarted),
    /// A host selector is about to be asked.
    #[serde(rename = "selecting/1")]
    Selecting(Selecting),
    /// A checked decision, saved.
    #[serde(rename = "selected/1")]
    Selected(Selected),
    /// The decision's group is open.
    #[serde(rename = "group-started/1")]
    GroupStarted(GroupStarted),
    /// An attempt is about to reach its runtime.
    #[serde(rename = "turn-started/1")]
    TurnStarted(TurnStarted),
    /// An attempt returned a result, not yet public.
    #[serde(rename = "turn-settled/1")]
    TurnSettled(TurnSettled),
    /// A settled turn is ready for its group, its private state saved; a wait is parked by it.
    #[serde(rename = "turn-prepared/1")]
    TurnPrepared(TurnPrepared),
    /// A turn failed, and its group with it.
    #[serde(rename = "turn-failed/1")]
    TurnFailed(TurnFailed),
    /// An attempt ended without a result; the turn is pending again.
    #[serde(rename = "turn-stopped/1")]
    TurnStopped(TurnStopped),
    /// A signalled attempt did not settle in time.
    #[serde(rename = "turn-unsettled/1")]
    TurnUnsettled(TurnUnsettled),
    /// What an unsettled attempt returned after all: evidence, never published by itself.
    #[serde(rename = "late-result/1")]
    LateResult(LateResult),
    /// All members of the group are prepared and now public.
    #[serde(rename = "group-committed/1")]
    GroupCommitted(GroupCommitted),
    /// A request was answered.
    #[serde(rename = "answered/1")]
    Answered(Answered),
    /// A request was closed without an answer.
    #[serde(rename = "withdrawn/1")]
    Withdrawn(Withdrawn),
    /// An external participant spoke unprompted.
    #[serde(rename = "input-accepted/1")]
    InputAccepted(InputAccepted),
    /// A model call is reserved.
    #[serde(rename = "call-admitted/1")]
    CallAdmitted(CallAdmitted),
    /// A model call is settled.
    #[serde(rename = "usage-reported/1")]
    UsageReported(UsageReported),
    /// An attempt wrote a line of its execution's journal.
    #[serde(rename = "execution-recorded/1")]
    ExecutionRecorded(ExecutionRecorded),
    /// The host says what became of a turn that nobody saw settle.
    #[serde(rename = "reconciled/1")]
    Reconciled(Reconciled),
    /// A participant goes on under another version of its runtime.
    #[serde(rename = "migrated/1")]
    Migrated(Migrated),
    /// The run is over.
    #[serde(rename = "run-ended/1")]
    RunEnded(RunEnded),
    /// A fork has a completed turn of its origin.
    #[serde(rename = "turn-copied/1")]
    TurnCopied(TurnCopied),
    /// A fork has a published message of its origin.
    #[serde(rename = "message-copied/1")]
    MessageCopied(MessageCopied),
    /// A fork has a private state of its origin, or a part of it.
    #[serde(rename = "checkpoint-copied/1")]
    CheckpointCopied(CheckpointCopied),
}

/// How a conversation begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Created {
    /// The conversation's id.
    pub conversation_id: Id,
    /// When.
    pub at: Rc<str>,
    /// All later ids derive from it.
    pub seed: Rc<str>,
    /// What the conversation is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<Rc<str>>,
    /// In declared order.
    pub participants: Rc<[Participant]>,
    /// Who decides.
    pub selector: Selector,
    /// How a member's view is made; always `roundtable/increments`, version 1.
    pub context_policy: RuntimeReference,
    /// The caps, until a run replaces them.
    pub limits: Limits,
    /// How many members run at once.
    pub max_concurrent_participants: u64,
    /// How long a claim lasts unrenewed, in milliseconds.
    pub lease_ms: u64,
    /// What is promised.
    pub recovery: Recovery,
    /// The version of the price policy, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price_version: Option<Id>,
    /// Where a fork comes from. The entries that copy it follow at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// What a fork was made from, and what is small of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// The other conversation.
    pub conversation_id: Id,
    /// Its revision.
    pub revision: u64,
    /// How many entries copy it.
    pub entries: u64,
    /// How many of them are messages.
    pub messages: u64,
    /// How many decisions were saved: the place of the built-in policy in its round.
    pub decisions: u64,
    /// A saved decision whose group is not open yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Selection>,
    /// Each participant's progress, in declared order.
    pub members: Rc<[CopiedMember]>,
}

/// A participant's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopiedMember {
    /// Messages before this position are consumed.
    pub cursor: u64,
    /// Prepared results so far, waits included.
    pub prepared: u64,
}

/// A run begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunStarted {
    /// The run.
    pub run_id: Id,
    /// When.
    pub at: Rc<str>,
    /// New caps from here on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

/// A host selector is about to be asked.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Selecting {
    /// This asking.
    pub attempt_id: Id,
    /// When.
    pub at: Rc<str>,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Selected {
    /// When.
    pub at: Rc<str>,
    /// What was decided.
    pub selection: Selection,
    /// The selector's private state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

/// A group opens. Its base revision is that of the batch this entry is in.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupStarted {
    /// The group.
    pub group_id: Id,
    /// When.
    pub at: Rc<str>,
    /// The turn of each selected participant, in selection order.
    pub turn_ids: Rc<[Id]>,
    /// The request to the external participant, where the selection names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<Id>,
}

/// An attempt begins; it continues a wait where the turn has answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStarted {
    /// The turn.
    pub turn_id: Id,
    /// The attempt.
    pub attempt_id: Id,
    /// When.
    pub at: Rc<str>,
}

/// An attempt has a result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnSettled {
    /// The turn.
    pub turn_id: Id,
    /// When.
    pub at: Rc<str>,
    /// `speak`, `yield` or `wait`.
    pub outcome: Outcome,
}

/// A turn is ready.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnPrepared {
    /// The turn.
    pub turn_id: Id,
    /// When.
    pub at: Rc<str>,
    /// The participant's private state; absent where it keeps none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

/// A turn failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnFailed {
    /// The turn.
    pub turn_id: Id,
    /// When.
    pub at: Rc<str>,
    /// Why.
    pub message: Rc<str>,
    /// The stable code of the error it threw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Rc<str>>,
}

/// An attempt stopped without a result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStopped {
    /// The turn.
    pub turn_id: Id,
    /// When.
    pub at: Rc<str>,
    /// What stopped it.
    pub reason: StopReason,
}

/// A signalled attempt was given up.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnUnsettled {
    /// The turn.
    pub turn_id: Id,
    /// When.
    pub at: Rc<str>,
}

/// What came of an unsettled attempt. Exactly one of `outcome` and `error`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LateResult {
    /// The turn.
    pub turn_id: Id,
    /// When.
    pub at: Rc<str>,
    /// What it returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What it threw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Rc<str>>,
}

/// A group is public.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupCommitted {
    /// The group.
    pub group_id: Id,
    /// When.
    pub at: Rc<str>,
    /// The id of each speaking member's message, in selection order. Replies to a member's requests
    /// are published just before it under the ids they got when they were accepted.
    pub message_ids: Rc<[Id]>,
}

/// Through which call an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Door {
    /// `submitInput`
    SubmitInput,
    /// `resume`
    Resume,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answered {
    /// Which request.
    pub request_id: Id,
    /// The answer's own id, unique among inputs and answers.
    pub response_id: Id,
    /// Which call brought it.
    pub via: Door,
    /// When.
    pub at: Rc<str>,
    /// The answer.
    pub response: Response,
    /// Who gave it, as the host says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Rc<str>>,
    /// The id its message has, where it says something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<Id>,
}

/// A request is closed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Withdrawn {
    /// Which request.
    pub request_id: Id,
    /// The id of the declining answer that a member's turn is given.
    pub response_id: Id,
    /// When.
    pub at: Rc<str>,
    /// Who withdrew it.
    pub by: Rc<str>,
    /// Why.
    pub reason: Rc<str>,
}

/// Unprompted input, a group and a turn of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InputAccepted {
    /// The host's id for it, unique among inputs and answers.
    pub input_id: Id,
    /// Who speaks.
    pub participant_id: Id,
    /// When.
    pub at: Rc<str>,
    /// The words.
    pub content: Rc<str>,
    /// The message's id.
    pub message_id: Id,
    /// Its group.
    pub group_id: Id,
    /// Its turn.
    pub turn_id: Id,
    /// Who brought it, as the host says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Rc<str>>,
}

/// A model call is reserved.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallAdmitted {
    /// The call.
    pub call_id: Id,
    /// The attempt that pays; its turn or the selection is the principal.
    pub attempt_id: Id,
    /// When.
    pub at: Rc<str>,
    /// Who serves it.
    pub provider_id: Id,
    /// Which model.
    pub model_id: Id,
}

/// A model call is reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageReported {
    /// The call.
    pub call_id: Id,
    /// The attempt that reports.
    pub attempt_id: Id,
    /// When.
    pub at: Rc<str>,
    /// How it ended.
    pub outcome: CallOutcome,
    /// How far the numbers can be trusted.
    pub provenance: Provenance,
    /// Token counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// The provider's own report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<CanonicalJson>,
    /// Whether it may not be replaced.
    pub r#final: bool,
    /// The provider, with a cache hit only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<Id>,
    /// The model, with a cache hit only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<Id>,
    /// What it cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// A line of an execution's journal.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionRecorded {
    /// The attempt that writes it.
    pub attempt_id: Id,
    /// When.
    pub at: Rc<str>,
    /// What it wrote.
    pub record: ExecutionRecord,
}

/// What a host decided of a turn.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reconciled {
    /// The turn.
    pub turn_id: Id,
    /// When.
    pub at: Rc<str>,
    /// Who decided.
    pub by: Rc<str>,
    /// What.
    pub decision: Decision,
}

/// A participant's move to another version of its runtime.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Migrated {
    /// The participant.
    pub participant_id: Id,
    /// When.
    pub at: Rc<str>,
    /// What its factory declares now.
    pub agent: AgentTraits,
    /// Its saved private state in the new form, every append joined; absent where it had none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

/// A run is over.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunEnded {
    /// The run.
    pub run_id: Id,
    /// When.
    pub at: Rc<str>,
    /// How.
    pub outcome: RunOutcome,
}

/// A completed turn of the origin.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnCopied {
    /// The turn.
    pub turn: Rc<CompletedTurn>,
}

/// A message of the origin. It keeps its ids; its revision is that of the copy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageCopied {
    /// The message.
    pub message_id: Id,
    /// Its author.
    pub participant_id: Id,
    /// The text.
    pub content: Rc<str>,
    /// The turn it came from.
    pub turn_id: Id,
    /// The group it was published with.
    pub group_id: Id,
    /// The member that consumed it before it was public.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumed_by: Option<Id>,
}

/// A private state of the origin. Where it is long it comes in parts, which join like the checkpoints of
/// a participant: the last one has the head.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointCopied {
    /// Whose; absent for the selector's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participant_id: Option<Id>,
    /// The state.
    pub checkpoint: Checkpoint,
}
