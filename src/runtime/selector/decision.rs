//! From a model's reply to a decision. Only one call of the decision tool, and nothing beside it, counts.

use crate::record::model::Selection;
use crate::runtime::message::{ChatMessage, ToolCall};
use crate::runtime::outcome::TurnOutcome;
use crate::value::Json;
use crate::value::bounds::MAX_TEXT;
use crate::value::text::{ecmascript_trim, utf16_len};
use std::collections::HashSet;
use std::rc::Rc;

/// The only tool a selector's model is offered.
pub const DECISION_TOOL: &str = "decide_next_speaker";
/// The reason of a decision to finish that gives none.
pub const DEFAULT_REASON: &str = "done";

/// The one tool that a turn must call once, and what of it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionTool {
    /// [`DECISION_TOOL`].
    NextSpeaker(DecisionRules),
    /// A tool of the host's, which reads the arguments itself.
    Named(String),
}

/// What a decision on who speaks next may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionRules {
    /// Who can be named.
    pub participant_ids: Vec<String>,
    /// The most participants of one decision.
    pub max_parallel: usize,
}

/// Why a reply is no decision.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecisionFault {
    /// The decision tool was not called.
    #[error("the model did not call {0}")]
    NoDecision(String),
    /// It was called more than once.
    #[error("the model called {0} {1} times")]
    MultipleDecisions(String, usize),
    /// The call is ambiguous, or its arguments are not what the tool takes.
    #[error("the decision is not acceptable: {0}")]
    InvalidDecision(String),
    /// It names someone who does not take part.
    #[error("participantIds[{0}] names nobody in this conversation")]
    UnknownParticipant(usize),
}

impl DecisionFault {
    /// The stable code of this fault.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            DecisionFault::NoDecision(_) => "no-decision",
            DecisionFault::MultipleDecisions(..) => "multiple-decisions",
            DecisionFault::InvalidDecision(_) => "invalid-decision",
            DecisionFault::UnknownParticipant(_) => "unknown-participant",
        }
    }
}

impl DecisionTool {
    fn name(&self) -> &str {
        match self {
            DecisionTool::NextSpeaker(_) => DECISION_TOOL,
            DecisionTool::Named(name) => name,
        }
    }

    /// Reads a reply. A call of any other tool beside the decision makes it ambiguous.
    pub fn read(&self, reply: &ChatMessage) -> Result<TurnOutcome, DecisionFault> {
        let decisions: Vec<&ToolCall> = reply.tool_calls.iter().filter(|call| call.name == self.name()).collect();
        match decisions.as_slice() {
            [] => Err(DecisionFault::NoDecision(self.name().to_owned())),
            [_] if reply.tool_calls.len() > 1 => invalid("another tool was called beside it"),
            [decision] => self.read_arguments(&decision.arguments),
            _ => Err(DecisionFault::MultipleDecisions(self.name().to_owned(), decisions.len())),
        }
    }

    fn read_arguments(&self, text: &str) -> Result<TurnOutcome, DecisionFault> {
        let arguments = match Json::parse(text) {
            Ok(arguments @ Json::Object(_)) => arguments,
            Ok(other) => return invalid(format!("the arguments are {}, not an object", other.type_name())),
            Err(error) => return invalid(format!("the arguments are not valid JSON: {error}")),
        };
        match self {
            DecisionTool::NextSpeaker(rules) => rules.read(&arguments).map(TurnOutcome::Decide),
            DecisionTool::Named(_) => Ok(TurnOutcome::Call(arguments)),
        }
    }
}

impl DecisionRules {
    fn read(&self, arguments: &Json) -> Result<Selection, DecisionFault> {
        match arguments.get("action").and_then(Json::as_str) {
            Some("finish") => finish(arguments.get("reason")),
            Some("speak") => self.read_ids(arguments.get("participantIds")),
            _ => invalid("action must be 'speak' or 'finish'"),
        }
    }

    fn read_ids(&self, value: Option<&Json>) -> Result<Selection, DecisionFault> {
        let Some(Json::Array(items)) = value else {
            return invalid("participantIds must be an array");
        };
        let ids: Option<Vec<Rc<str>>> = items.iter().map(|item| item.as_str().map(Rc::from)).collect();
        let Some(ids) = ids.filter(|ids| !ids.is_empty()) else {
            return invalid("participantIds must hold strings, at least one");
        };
        let mut seen = HashSet::new();
        if let Some(at) = ids.iter().position(|id| !seen.insert(id)) {
            return invalid(format!("participantIds[{at}] repeats an earlier one"));
        }
        if ids.len() > self.max_parallel {
            return invalid(format!("{} participants are more than {} (maxParallel)", ids.len(), self.max_parallel));
        }
        let is_present = |id: &Rc<str>| self.participant_ids.iter().any(|present| **present == **id);
        if let Some(at) = ids.iter().position(|id| !is_present(id)) {
            return Err(DecisionFault::UnknownParticipant(at));
        }
        Ok(match ids.as_slice() {
            [only] => Selection::Speak { participant_id: only.clone() },
            _ => Selection::Parallel { participant_ids: ids.into() },
        })
    }
}

fn finish(reason: Option<&Json>) -> Result<Selection, DecisionFault> {
    let given = reason.and_then(Json::as_str).filter(|reason| !ecmascript_trim(reason).is_empty());
    let reason = given.unwrap_or(DEFAULT_REASON);
    if utf16_len(reason) > MAX_TEXT {
        return invalid(format!("reason is longer than {MAX_TEXT} UTF-16 units"));
    }
    Ok(Selection::Finish { reason: reason.into() })
}

fn invalid<T>(problem: impl Into<String>) -> Result<T, DecisionFault> {
    Err(DecisionFault::InvalidDecision(problem.into()))
}
