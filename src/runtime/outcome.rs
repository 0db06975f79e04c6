//! From the text a run ended with to what the participant does with its turn.

use super::session::approval::ApprovalRequest;
use crate::record::model::Selection;
use crate::value::Json;
use crate::value::text::ecmascript_trim;

/// What a turn comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnOutcome {
    /// The trimmed text is published.
    Speak(String),
    /// Nothing is published.
    Yield,
    /// It goes on when these are answered; of a session only.
    Wait(Vec<ApprovalRequest>),
    /// A selector has decided.
    Decide(Selection),
    /// A tool of the host's was called to decide with; its arguments.
    Call(Json),
}

/// Trims by the rules of ECMAScript: text that is left is spoken, a blank yields.
#[must_use]
pub fn outcome_of(final_text: &str) -> TurnOutcome {
    match ecmascript_trim(final_text) {
        "" => TurnOutcome::Yield,
        text => TurnOutcome::Speak(text.to_owned()),
    }
}
