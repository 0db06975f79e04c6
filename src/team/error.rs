//! What a team's call can be refused with.

use super::issue::Issue;
use crate::conversation::RoundtableError;
use serde::Serialize;

/// A refusal: of the team's own rules, or of the engine that teams share with conversations.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[serde(untagged)]
pub enum TeamError {
    /// `INVALID_TEAM`, `INVALID_EVENT` or `STORED_GRAPH_MISMATCH`.
    #[error("{message}")]
    Team {
        /// The stable code.
        code: &'static str,
        /// What is wrong, for a person.
        message: String,
        /// All findings.
        issues: Vec<Issue>,
    },
    /// Claims, stores, arguments.
    #[error(transparent)]
    Engine(#[from] RoundtableError),
}

/// The record holds something else than this team.
pub const STORED_GRAPH_MISMATCH: &str = "STORED_GRAPH_MISMATCH";
/// A line of the record is none that the engine could have written there.
pub const INVALID_EVENT: &str = "INVALID_EVENT";

impl TeamError {
    /// A definition with these findings.
    #[must_use]
    pub fn invalid_team(issues: Vec<Issue>) -> TeamError {
        let first = issues.first().map(|issue| format!("{}: {}", issue.path, issue.message)).unwrap_or_default();
        let more = if issues.len() > 1 { format!(" (and {} more)", issues.len() - 1) } else { String::new() };
        TeamError::Team { code: super::issue::INVALID_TEAM, message: format!("{first}{more}"), issues }
    }

    /// One finding of this code.
    #[must_use]
    pub fn of(code: &'static str, path: impl Into<String>, message: impl Into<String>) -> TeamError {
        let message = message.into();
        TeamError::Team { code, issues: vec![Issue::new(code, path, message.clone())], message }
    }

    /// The stable code of a team's own refusal.
    #[must_use]
    pub fn code(&self) -> Option<&'static str> {
        match self {
            TeamError::Team { code, .. } => Some(code),
            TeamError::Engine(_) => None,
        }
    }
}
