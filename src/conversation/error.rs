//! What a call can be refused with.

use crate::record::model::{Id, Outcome};
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// The stable codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// An option is missing, of the wrong type or out of bounds.
    InvalidConfig,
    /// A selector decided something that no run could do.
    InvalidSelection,
    /// Another call, or another host, is at work.
    Busy,
    /// The call does not fit the state: a stale revision, a used id, an existing record.
    Conflict,
    /// The handle was disposed.
    Disposed,
    /// The claim was lost to another host.
    StaleClaim,
    /// A turn is stored as running that no process saw settle.
    RecoveryRequired,
    /// A model-call or token limit is spent.
    ModelCallLimit,
    /// The journal does not fold.
    InvalidRecord,
    /// There is no such conversation or request.
    NotFound,
    /// The store did not answer in a way that says whether it wrote.
    Unavailable,
    /// A fault of the engine.
    Internal,
}

/// A refused call. Nothing was stored on its behalf, unless the code is `unavailable`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RoundtableError {
    /// The stable code.
    pub code: Code,
    /// Names the field or id and the rule, for a person.
    pub message: String,
    /// The host value that caused it, by the number the host gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<u32>,
    /// With `recovery-required`: the turns whose outcome is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<UnsettledTurn>,
}

/// A turn that is stored as running and that no process saw settle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnsettledTurn {
    /// The turn.
    pub turn_id: Id,
    /// Whose.
    pub participant_id: Id,
    /// Its group.
    pub group_id: Id,
    /// The attempt that did not settle.
    pub attempt_id: Id,
    /// When its first attempt began, ISO 8601.
    pub started_at: Rc<str>,
    /// A result that is known all the same: stored without its checkpoint, or returned too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What it threw too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Rc<str>>,
}

impl RoundtableError {
    /// An error without a host cause.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        RoundtableError { code, message: message.into(), cause: None, turns: Vec::new() }
    }

    /// The same error, naming the host value behind it.
    #[must_use]
    pub fn caused_by(mut self, cause: Option<u32>) -> Self {
        self.cause = cause;
        self
    }
}

/// What host code threw, or how its promise rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Thrown {
    /// The error's message.
    pub message: Rc<str>,
    /// The error's own stable code, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Rc<str>>,
    /// The value itself, by the number the host gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u32>,
    /// It is the signal's reason, has it in its cause chain, or is an abort or timeout error.
    #[serde(default)]
    pub is_abort: bool,
    /// Its cause chain holds the refusal of an admission.
    #[serde(default)]
    pub is_refused_admission: bool,
}

/// The code of an error that says: nobody knows what an effect of the turn came to.
const OUTCOME_UNKNOWN: &str = "EXECUTION_RECOVERY_REQUIRED";

impl Thrown {
    /// A failure that no host code threw.
    pub(super) fn told(message: &str) -> Thrown {
        Thrown { message: message.into(), code: None, value: None, is_abort: false, is_refused_admission: false }
    }

    /// Whether it says that the turn can go on neither forwards nor from its start before a host has decided.
    #[must_use]
    pub fn is_outcome_unknown(&self) -> bool {
        self.code.as_deref() == Some(OUTCOME_UNKNOWN)
    }
}

/// How a store call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreFailure {
    /// `conflict`, `busy`, `stale-claim` or `not-found` say that nothing was written; absent, it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The store's message.
    pub message: Rc<str>,
    /// The value itself, by the number the host gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u32>,
}
