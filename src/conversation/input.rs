//! What reaches the machine: host calls and the results of effects.

use super::config::LimitsPatch;
use super::error::{StoreFailure, Thrown};
use crate::record::execution::ExecutionRecord;
use crate::record::model::{self as record, Checkpoint, Id, Outcome, Response, Selection};
use crate::record::usage::{ModelCall, Money, UsageReport};
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// When an input arrives, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Now {
    /// Epoch time, for the record.
    pub wall: f64,
    /// A clock that never goes back, for waits and leases.
    pub mono: f64,
}

/// One call of a host, until its reply.
pub type CallId = u32;
/// One session of a participant, until its release.
pub type SessionId = u32;
/// One asking of a turn's services, until its answer.
pub type Ticket = u32;

/// Everything that can happen to a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Input {
    /// A host calls.
    Called {
        /// Answered by exactly one [`super::Effect::Reply`].
        call: CallId,
        /// What it asks.
        request: Request,
    },
    /// The signal of a `run()` fired.
    Aborted {
        /// That run's call.
        call: CallId,
    },
    /// [`super::Effect::Create`] returned.
    RecordCreated(Result<(), StoreFailure>),
    /// [`super::Effect::Claim`] returned.
    Claimed(Result<Claim, StoreFailure>),
    /// [`super::Effect::Renew`] returned.
    Renewed {
        /// The fence of the claim it was asked for.
        fence: u64,
        /// The renewed claim.
        result: Result<Claim, StoreFailure>,
    },
    /// [`super::Effect::Release`] returned; a failed release is forgotten, the claim expires.
    Released,
    /// [`super::Effect::Read`] returned: the batches after the revision asked for, oldest first;
    /// `None` where the store has no such record.
    BatchesRead(Result<Option<ReadBatches>, StoreFailure>),
    /// [`super::Effect::Append`] returned the revision of its batch.
    Appended(Result<u64, StoreFailure>),
    /// [`super::Effect::Select`] returned.
    SelectorReturned {
        /// The asking.
        attempt: Id,
        /// The decision, not yet checked.
        result: Result<Decision, Thrown>,
    },
    /// [`super::Effect::OpenSession`] returned.
    SessionOpened {
        /// The session.
        session: SessionId,
        /// What it can do.
        result: Result<SessionTraits, Thrown>,
    },
    /// [`super::Effect::RunTurn`] returned.
    TurnReturned {
        /// The attempt.
        attempt: Id,
        /// Its outcome, checked for shape by the host.
        result: Result<Outcome, Thrown>,
    },
    /// [`super::Effect::TakeCheckpoint`] returned.
    CheckpointReturned {
        /// The attempt.
        attempt: Id,
        /// The checkpoint.
        result: Result<Checkpoint, Thrown>,
    },
    /// [`super::Effect::ReleaseSession`] returned.
    SessionReleased {
        /// The session.
        session: SessionId,
        /// Whether its factory released it.
        result: Result<(), Thrown>,
    },
    /// A member or the selector wants to call a model.
    AdmissionAsked {
        /// Answered by exactly one [`super::Effect::Answer`].
        ticket: Ticket,
        /// On whose account.
        attempt: Id,
        /// The call.
        call: ModelCall,
    },
    /// A member or the selector reports a call.
    UsageReported {
        /// Answered by exactly one [`super::Effect::Answer`].
        ticket: Ticket,
        /// On whose account.
        attempt: Id,
        /// The report.
        report: UsageReport,
    },
    /// A member writes a line of its execution's journal.
    RecordAsked {
        /// Answered by exactly one [`super::Effect::Answer`], once the line is durable.
        ticket: Ticket,
        /// Whose.
        attempt: Id,
        /// The line.
        record: ExecutionRecord,
    },
    /// Several at the same moment: what they bring leaves in one batch.
    Together {
        /// In order.
        inputs: Vec<Input>,
    },
    /// [`super::Effect::Price`] returned; `None` where the policy gave no amount.
    Priced {
        /// The report's ticket.
        ticket: Ticket,
        /// The amount.
        cost: Option<Money>,
    },
    /// Every observer is done with an [`super::Effect::Emit`].
    Delivered {
        /// Which.
        emission: u64,
    },
    /// A timer ran out.
    TimerFired {
        /// Which.
        timer: Timer,
    },
}

/// What a host can ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Request {
    /// `run()`
    Run {
        /// Caps to replace from here on.
        limits: Option<LimitsPatch>,
    },
    /// `submitInput()`
    SubmitInput {
        /// Who speaks.
        participant_id: Id,
        /// The input's own id.
        input_id: Id,
        /// What the host has seen.
        expected_revision: u64,
        /// The words.
        content: Rc<str>,
        /// The request it answers.
        reply_to: Option<Id>,
        /// Who brought it.
        by: Option<Rc<str>>,
    },
    /// `resume()`
    Resume {
        /// The request it answers.
        request_id: Id,
        /// The answer's own id.
        response_id: Id,
        /// What the host has seen.
        expected_revision: u64,
        /// The answer.
        response: Response,
        /// Who gave it.
        by: Option<Rc<str>>,
    },
    /// `withdraw()`
    Withdraw {
        /// The request to close.
        request_id: Id,
        /// What the host has seen.
        expected_revision: u64,
        /// Who closes it.
        by: Rc<str>,
        /// Why.
        reason: Rc<str>,
    },
    /// `reconcile()`
    Reconcile {
        /// The turn whose outcome is unknown.
        turn_id: Id,
        /// What the host has seen.
        expected_revision: u64,
        /// Who decides.
        by: Rc<str>,
        /// What became of it.
        decision: record::Decision,
    },
    /// `dispose()`
    Dispose {
        /// Called from inside a callback of this conversation: reply at once, finish in the background.
        inside: bool,
    },
}

/// Exclusive ownership of a stored conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The conversation.
    pub conversation_id: Id,
    /// The handle that holds it.
    pub owner_id: Id,
    /// Grows with each claim.
    pub fence: u64,
    /// When the store lets it go, by the store's clock; informative.
    pub expires_at: f64,
}

/// What a store has after a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadBatches {
    /// The record's present revision.
    pub revision: u64,
    /// Oldest first; a store may return fewer than there are.
    pub batches: Vec<Batch>,
}

/// One committed batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Batch {
    /// Its revision.
    pub revision: u64,
    /// The id of the append that brought it.
    pub operation_id: String,
    /// Its entries, one line each.
    pub entries: Vec<String>,
}

/// A selector's decision with its private state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The decision.
    pub selection: Selection,
    /// The state to save with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

/// What an opened session can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionTraits {
    /// It has `resumeTurn`.
    pub can_resume: bool,
    /// It has `checkpoint`.
    pub can_checkpoint: bool,
}

/// The machine's timers; each runs at most once at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Timer {
    /// Fires when the claim must be renewed or is no longer trusted.
    Lease,
    /// Fires when the run's time is up.
    RunTimeout,
    /// Fires when signalled work has had its time to settle.
    Settle,
    /// Fires when a failed store call is to be repeated.
    Retry,
}
