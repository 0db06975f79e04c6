//! What goes into a team's machine and what comes out.

use super::error::TeamError;
use super::event::Event;
use super::outcome::Outcome;
use super::turns::{Returned, Run};
use crate::conversation::effect::{Effect as StoreEffect, ServiceRefusal};
use crate::conversation::error::StoreFailure;
use crate::conversation::input::{CallId, Claim, ReadBatches, Ticket, Timer};
use crate::record::execution::ExecutionRecord;
use crate::record::model::{Id, Response, RuntimeReference, StopReason};
use crate::record::usage::{ModelCall, UsageReport};
use serde::Deserialize;
use std::rc::Rc;

/// What a member's runtime is like.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Traits {
    /// Whether a turn that nobody saw end may be repeated unasked.
    pub retry_safe: bool,
    /// What restores it; absent for functions, which keep nothing.
    pub runtime: Option<RuntimeReference>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Input {
    /// The host calls.
    Called {
        /// Its number.
        call: CallId,
        /// What it wants.
        request: Request,
    },
    /// The signal of a call fired.
    Aborted {
        /// Which.
        call: CallId,
    },
    /// The record was created.
    Created(Result<(), StoreFailure>),
    /// The record was claimed.
    Claimed(Result<Claim, StoreFailure>),
    /// The claim was renewed.
    Renewed {
        /// Of which claim.
        fence: u64,
        /// The answer.
        result: Result<Claim, StoreFailure>,
    },
    /// The claim was given back.
    Released,
    /// Batches were read.
    Read(Result<Option<ReadBatches>, StoreFailure>),
    /// A batch was appended.
    Appended(Result<u64, StoreFailure>),
    /// A timer ran out.
    Timer(Timer),
    /// An attempt came back.
    Returned {
        /// Which.
        attempt: Id,
        /// With what.
        outcome: Returned,
    },
    /// An attempt wants to call a model.
    Admit {
        /// Its question.
        ticket: Ticket,
        /// Which attempt.
        attempt: Id,
        /// The call.
        call: ModelCall,
    },
    /// An attempt reports a model call.
    Report {
        /// Its question.
        ticket: Ticket,
        /// Which attempt.
        attempt: Id,
        /// The report.
        report: UsageReport,
    },
    /// An attempt writes a line of its execution's journal.
    Record {
        /// Its question.
        ticket: Ticket,
        /// Which attempt.
        attempt: Id,
        /// The line.
        record: ExecutionRecord,
    },
}

/// What the host wants.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Request {
    /// Go on until an outcome.
    Run,
    /// Take up a turn that has not ended, then go on.
    Resume(Resume),
    /// Stop everything.
    Dispose,
}

/// Which turn is taken up, and with what.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resume {
    /// By its position.
    pub position: Option<Id>,
    /// By one of its requests.
    pub request_id: Option<Id>,
    /// The answer's own id.
    pub response_id: Option<Id>,
    /// The answer.
    pub response: Option<Response>,
    /// At which revision the host decided.
    pub expected_revision: Option<u64>,
    /// Who answers.
    pub by: Option<Rc<str>>,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// With the store, or with a timer.
    Store(StoreEffect),
    /// Call a member.
    Run(Box<Run>),
    /// Fire an attempt's signal.
    Abort {
        /// Which.
        attempt: Id,
        /// Why.
        reason: StopReason,
    },
    /// An attempt is awaited no longer; nothing it does counts.
    GiveUp {
        /// Which.
        attempt: Id,
        /// Position of its member.
        member: usize,
    },
    /// Settle a call.
    Reply {
        /// Which.
        call: CallId,
        /// The revision and the outcome; no outcome for a disposal.
        result: Result<(u64, Option<Outcome>), TeamError>,
    },
    /// Settle a question of an attempt.
    Answer {
        /// Which.
        ticket: Ticket,
        /// How.
        result: Result<(), ServiceRefusal>,
    },
    /// Events are durable.
    Emit {
        /// Their revision.
        revision: u64,
        /// The events.
        events: Vec<Event>,
    },
}
