//! Why a command is refused, for code to act on.

use super::fields::{object, text};
use crate::value::Json;

/// What kind of refusal it is; an edge maps it to a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// A field is missing, of the wrong type or out of bounds.
    Invalid,
    /// The caller is no identity.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// The session is closed, full, or not in the state that the command needs.
    Conflict,
}

impl Code {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Invalid => "invalid",
            Code::Unauthenticated => "unauthenticated",
            Code::Forbidden => "forbidden",
            Code::Conflict => "conflict",
        }
    }
}

/// A refused command. The message names fields and bounds, never contents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What kind.
    pub code: Code,
    /// What was refused, in capitals, such as `TOPIC_TOO_LONG` or `SPEAK_FAILED`.
    pub reason: &'static str,
    /// The field that is wrong, as the JavaScript interface names it.
    pub field: Option<&'static str>,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// A field that is wrong.
    pub(super) fn invalid(reason: &'static str, field: &'static str, problem: &str) -> Self {
        Refusal { code: Code::Invalid, reason, field: Some(field), message: format!("{field} {problem}") }
    }

    /// A command that does not fit.
    pub(super) fn of(code: Code, reason: &'static str, message: &str) -> Self {
        Refusal { code, reason, field: None, message: message.to_owned() }
    }

    /// JSON `{code, reason, field, message}`.
    pub(super) fn to_json(&self) -> Json {
        object([
            ("code", Some(text(self.code.as_str()))),
            ("reason", Some(text(self.reason))),
            ("field", self.field.map(text)),
            ("message", Some(text(&self.message))),
        ])
    }
}
