//! From the text a run ended with to what the participant does with its turn.

use crate::value::text::ecmascript_trim;

/// What a finished turn contributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The trimmed text is published.
    Speak(String),
    /// Nothing is published.
    Yield,
}

/// Trims by the rules of ECMAScript: text that is left is spoken, a blank yields.
#[must_use]
pub fn outcome_of(final_text: &str) -> TurnOutcome {
    match ecmascript_trim(final_text) {
        "" => TurnOutcome::Yield,
        text => TurnOutcome::Speak(text.to_owned()),
    }
}
