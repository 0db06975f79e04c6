//! What is wrong with a value, and where.

use serde::Serialize;

/// One finding. Messages name rules and bounds, never contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Issue {
    /// The stable code.
    pub code: &'static str,
    /// A JSON pointer whose steps into lists are indexes, such as `/nodes/0/id`.
    pub path: String,
    /// The rule, for a person.
    pub message: String,
}

impl Issue {
    /// A finding.
    pub fn new(code: &'static str, path: impl Into<String>, message: impl Into<String>) -> Issue {
        Issue { code, path: path.into(), message: message.into() }
    }
}

/// A definition or result that breaks a rule of teams.
pub const INVALID_TEAM: &str = "INVALID_TEAM";
/// An id that is empty, padded, too long or holds a control character.
pub const INVALID_ID: &str = "INVALID_ID";
