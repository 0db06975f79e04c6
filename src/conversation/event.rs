//! What observers are told. Every event is durable when it is sent.

use crate::record::model::{Id, Message, Request, RunOutcome, Selection, StopReason};
use crate::record::usage::UsageRecord;
use serde::Serialize;
use std::rc::Rc;

/// One event with its place in the journal.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// The conversation.
    pub conversation_id: Id,
    /// The run it belongs to, or the last one; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_id: Option<Id>,
    /// When, ISO 8601.
    pub at: Rc<str>,
    /// The revision at which it became durable.
    pub revision: u64,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum EventKind {
    /// A run began.
    RunStarted,
    /// A decision was saved.
    Selected {
        /// The decision.
        selection: Selection,
    },
    /// A group opened; its members are about to be dispatched.
    GroupStarted {
        /// The group.
        group_id: Id,
        /// In selection order.
        participant_ids: Vec<Id>,
        /// What its members see.
        base_revision: u64,
    },
    /// An attempt began.
    TurnStarted {
        /// The turn.
        turn_id: Id,
        /// The attempt.
        attempt_id: Id,
        /// Whose.
        participant_id: Id,
    },
    /// An attempt ended without a result.
    TurnStopped {
        /// The turn.
        turn_id: Id,
        /// The attempt.
        attempt_id: Id,
        /// Whose.
        participant_id: Id,
        /// What stopped it.
        reason: StopReason,
    },
    /// A member is ready for its group.
    Prepared {
        /// The group.
        group_id: Id,
        /// The turn.
        turn_id: Id,
        /// Whose.
        participant_id: Id,
    },
    /// Messages are public, in transcript order; none where all members yielded.
    Published {
        /// The group.
        group_id: Id,
        /// The messages.
        messages: Vec<Rc<Message>>,
    },
    /// Requests are open.
    Requested {
        /// The requests.
        requests: Vec<Request>,
    },
    /// A request is closed.
    Answered {
        /// The request.
        request_id: Id,
    },
    /// The ledger changed.
    Usage {
        /// The record as it is now.
        record: Rc<UsageRecord>,
    },
    /// A run is over.
    RunEnded {
        /// How.
        result: RunEnd,
    },
}

/// A run's result as an event shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunEnd {
    /// The revision of its end.
    pub revision: u64,
    /// How it ended.
    #[serde(flatten)]
    pub outcome: RunOutcome,
    /// All open requests, where it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Vec<Request>>,
}
