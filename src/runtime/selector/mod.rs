//! A model as a selector: it is shown the conversation, has one tool to decide with, and one call to do so.
//!
//! [`prompt`] renders what it is shown, [`decision`] reads its reply. The call between them is a turn of
//! [`super::agent::AgentLoop`] whose configuration has a [`decision::DecisionRules`].

pub mod decision;
pub mod prompt;
