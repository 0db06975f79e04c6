//! What the machine wants done. The driver performs effects in the order they come and decides nothing.

use super::error::{RoundtableError, Thrown};
use super::event::Event;
use super::input::{CallId, Claim, SessionId, Ticket, Timer};
use crate::record::model::{Checkpoint, CompletedTurn, Id, ParticipantResponse, Request, RunOutcome, StopReason};
use crate::record::usage::UsageRecord;
use serde::Serialize;
use std::rc::Rc;

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Effect {
    /// Create the record; answered by [`super::Input::RecordCreated`].
    Create {
        /// The first entries.
        entries: Rc<[String]>,
        /// For listings.
        summary: Summary,
    },
    /// Claim the record; answered by [`super::Input::Claimed`].
    Claim {
        /// This handle.
        owner_id: Id,
        /// How long.
        lease_ms: u64,
    },
    /// Renew the claim; answered by [`super::Input::Renewed`].
    Renew {
        /// The claim.
        claim: Claim,
        /// How long.
        lease_ms: u64,
    },
    /// Give the claim back; answered by [`super::Input::Released`].
    Release {
        /// The claim.
        claim: Claim,
    },
    /// Read what was written after a revision; answered by [`super::Input::BatchesRead`].
    Read {
        /// That revision.
        after: u64,
    },
    /// Append a batch; answered by [`super::Input::Appended`].
    Append {
        /// The proof of ownership.
        claim: Claim,
        /// The revision it builds on.
        expected_revision: u64,
        /// Repeated with the same id, it is the same append.
        operation_id: String,
        /// One line each.
        entries: Rc<[String]>,
        /// For listings.
        summary: Summary,
        /// The state after this batch, where it is worth keeping.
        #[serde(skip_serializing_if = "Option::is_none")]
        snapshot: Option<Rc<str>>,
    },
    /// Ask the host's selector; answered by [`super::Input::SelectorReturned`].
    Select {
        /// This asking.
        attempt: Id,
        /// How many published messages it sees.
        messages: usize,
        /// How many completed turns it sees.
        turns: usize,
        /// Turns left in this run.
        remaining_turns: u64,
        /// Set where the selector at hand is behind: it is made again from this before it is asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        restore: Option<Restore>,
    },
    /// Open a session; answered by [`super::Input::SessionOpened`].
    OpenSession {
        /// Its number from now on.
        session: SessionId,
        /// Position in declared order.
        participant: usize,
        /// What to restore: the last head with every append joined.
        checkpoint: Option<Checkpoint>,
    },
    /// Run a turn; answered by [`super::Input::TurnReturned`].
    RunTurn {
        /// The session.
        session: SessionId,
        /// The turn.
        turn: Rc<TurnView>,
    },
    /// Continue a turn after its wait; answered by [`super::Input::TurnReturned`].
    ResumeTurn {
        /// The session.
        session: SessionId,
        /// The turn, with the same shared view as before.
        turn: Rc<TurnView>,
        /// All answers, in request order.
        responses: Vec<ParticipantResponse>,
    },
    /// Ask for the private state; answered by [`super::Input::CheckpointReturned`].
    TakeCheckpoint {
        /// The session.
        session: SessionId,
        /// The attempt it follows.
        attempt: Id,
    },
    /// Give a session back to its factory; answered by [`super::Input::SessionReleased`].
    ReleaseSession {
        /// The session.
        session: SessionId,
    },
    /// Fire the signal of a member's or selector's attempt.
    Abort {
        /// The attempt.
        attempt: Id,
        /// Why.
        reason: StopReason,
    },
    /// The attempt is over: its services refuse, its late deltas are dropped.
    CloseAttempt {
        /// The attempt.
        attempt: Id,
    },
    /// Ask the price policy; answered by [`super::Input::Priced`] at once.
    Price {
        /// The report's ticket.
        ticket: Ticket,
        /// The settled record, its price absent.
        record: Box<UsageRecord>,
    },
    /// A batch is durable: publish what it made public and tell the observers in order, each awaited;
    /// answered by [`super::Input::Delivered`].
    Emit(Emission),
    /// Set a timer.
    StartTimer {
        /// Which; a running one is replaced.
        timer: Timer,
        /// In how many milliseconds, at most 2^31 - 1.
        delay_ms: f64,
    },
    /// Clear a timer.
    StopTimer {
        /// Which.
        timer: Timer,
    },
    /// A call settles.
    Reply {
        /// The call.
        call: CallId,
        /// Its result.
        result: Result<Reply, RoundtableError>,
    },
    /// An admission or a report settles.
    Answer {
        /// Which.
        ticket: Ticket,
        /// Its result; a refusal because the attempt was signalled has no code of its own.
        result: Result<(), ServiceRefusal>,
    },
}

/// What a selector is made again from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restore {
    /// The last saved private state, every append joined; absent where it saved none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

/// What became durable with one batch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Emission {
    /// Its number, to be delivered in order.
    pub emission: u64,
    /// The batch's revision.
    pub revision: u64,
    /// For observers.
    pub events: Vec<Event>,
    /// The turns it completed, in selection order.
    pub completed: Vec<Rc<CompletedTurn>>,
}

/// A turn as its runtime sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnView {
    /// Position in declared order.
    pub participant: usize,
    /// The turn; a retry keeps it.
    pub turn_id: Id,
    /// The attempt.
    pub attempt_id: Id,
    /// The group.
    pub group_id: Id,
    /// What all members of the group see.
    pub base_revision: u64,
    /// The increment, as positions in the published transcript.
    pub messages: Rc<[usize]>,
    /// The turn's attempts before this one, oldest first; none of them has a result.
    #[serde(skip_serializing_if = "<[Id]>::is_empty")]
    pub earlier: Rc<[Id]>,
    /// A host has decided that what is uncertain of them is done again.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub retried: bool,
}

/// For a store's listings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Where the conversation stands.
    pub status: Status,
    /// The participants' ids.
    pub members: Rc<[Id]>,
    /// ISO 8601.
    pub created_at: Rc<str>,
    /// ISO 8601.
    pub updated_at: Rc<str>,
}

/// Where a conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// A run can go on.
    Open,
    /// Requests are open.
    Waiting,
    /// Final.
    Completed,
    /// Final.
    Failed,
    /// A turn must be reconciled first.
    RecoveryRequired,
}

/// What a call gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Reply {
    /// Of `run()`.
    Ran {
        /// The revision of its end.
        revision: u64,
        /// How it ended.
        outcome: RunOutcome,
        /// All open requests, where it waits.
        requests: Vec<Request>,
    },
    /// Of `submitInput()`.
    Submitted {
        /// The revision that accepted it.
        revision: u64,
        /// The message it is or will be.
        message_id: Id,
    },
    /// Of `resume()`.
    Resumed {
        /// The revision that accepted it.
        revision: u64,
        /// The request.
        request_id: Id,
        /// The answer.
        response_id: Id,
    },
    /// Of `withdraw()`.
    Withdrawn {
        /// The revision that closed it.
        revision: u64,
    },
    /// Of `reconcile()`.
    Reconciled {
        /// The revision that took it.
        revision: u64,
    },
    /// Of `dispose()`.
    Disposed {
        /// Releases that failed, of this and of earlier discarded sessions.
        failures: Vec<Thrown>,
        /// How long the host has for what it releases itself; none where it may take for ever.
        #[serde(skip_serializing_if = "Option::is_none")]
        release_within_ms: Option<u64>,
    },
}

/// Why a service refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceRefusal {
    /// The attempt's signal fired: the host rejects with the signal's reason.
    Aborted,
    /// With a code.
    Refused(RoundtableError),
}
