//! Why a session log is refused.

use super::issue::Issue;
use super::payload::PayloadError;
use std::fmt;

/// What kind of defect a log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeCode {
    /// A line is no JSON text within the bounds.
    InvalidJson,
    /// An entry names a schema version other than 1.
    UnsupportedVersion,
    /// Anything else.
    InvalidEvent,
}

impl DecodeCode {
    /// The code as hosts see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            DecodeCode::InvalidJson => "INVALID_JSON",
            DecodeCode::UnsupportedVersion => "UNSUPPORTED_VERSION",
            DecodeCode::InvalidEvent => "INVALID_EVENT",
        }
    }
}

/// A log that does not decode. The text names the first issue; no value of the log is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodeError {
    /// What kind of defect it is.
    pub code: DecodeCode,
    /// All issues in the order of their entries, at most [`super::MAX_ISSUES`]; at least one.
    pub issues: Vec<Issue>,
    /// The first unsupported version, with [`DecodeCode::UnsupportedVersion`].
    pub schema_version: Option<f64>,
    /// What the parser said, with [`DecodeCode::InvalidJson`].
    pub cause: Option<String>,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session log refused: {}", self.code.as_str())?;
        match self.issues.first() {
            Some(issue) => write!(f, " at {}: {}", issue.path, issue.message),
            None => Ok(()),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Why a log could not be loaded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LoadError {
    /// It does not decode.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// A reference in it could not be resolved.
    #[error(transparent)]
    Payload(#[from] PayloadError),
}
