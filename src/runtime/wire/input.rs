//! The agent loop's inputs as JSON.

use crate::runtime::agent::{Input, ToolOutcome, TurnContinue, TurnResume, TurnStart};
use crate::runtime::codec;
use crate::runtime::session::permission::Verdict;
use crate::runtime::tool::ToolFault;
use crate::value::{Json, JsonError};
use serde::Deserialize;

/// An input; its JSON names the variant in the member `kind`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
pub(super) enum WireInput {
    Start {
        turn_id: String,
        attempt_id: String,
        input: String,
        at: f64,
    },
    Resume {
        conversation_id: String,
        participant_id: String,
        turn_id: String,
        group_id: String,
        attempt_id: String,
        records: Vec<Json>,
        responses: Vec<Json>,
        #[serde(default)]
        retried: bool,
        at: f64,
    },
    Continue {
        turn_id: String,
        attempt_id: String,
        execution_id: String,
        records: Vec<Json>,
        #[serde(default)]
        retried: bool,
        at: f64,
    },
    CacheAnswered {
        call_id: String,
        reply: Option<Json>,
    },
    CacheFailed {
        call_id: String,
    },
    Appended {
        call_id: String,
        at: f64,
    },
    AppendRefused {
        call_id: String,
    },
    ModelReplied {
        call_id: String,
        reply: Json,
    },
    ModelFailed {
        call_id: String,
        message: String,
    },
    Permitted {
        call_id: String,
        verdicts: Vec<String>,
        at: f64,
    },
    PermissionFailed {
        call_id: String,
    },
    ToolReturned {
        call_id: String,
        index: usize,
        at: f64,
        result: Json,
    },
    ToolFailed {
        call_id: String,
        index: usize,
        at: f64,
        message: String,
    },
    ToolResultInvalid {
        call_id: String,
        index: usize,
        at: f64,
        message: String,
    },
    ToolSuspended {
        call_id: String,
        index: usize,
        at: f64,
    },
    Flushed,
    DeltaFailed,
    Aborted,
}

impl WireInput {
    pub(super) fn into_input(self) -> Result<Input, JsonError> {
        let settled = |call_id, index, at, outcome| Input::ToolSettled { call_id, index, outcome, at };
        let value =
            |coded: Json| codec::decode(&coded, "reply").map_err(|error| JsonError { message: error.to_string() });
        Ok(match self {
            WireInput::Start { turn_id, attempt_id, input, at } => {
                Input::Start(TurnStart { turn_id, attempt_id, input, at })
            }
            WireInput::Resume {
                conversation_id,
                participant_id,
                turn_id,
                group_id,
                attempt_id,
                records,
                responses,
                retried,
                at,
            } => Input::Resume(TurnResume {
                conversation_id,
                participant_id,
                turn_id,
                group_id,
                attempt_id,
                records,
                responses,
                retried,
                at,
            }),
            WireInput::Continue { turn_id, attempt_id, execution_id, records, retried, at } => {
                Input::Continue(TurnContinue { turn_id, attempt_id, execution_id, records, retried, at })
            }
            WireInput::CacheAnswered { call_id, reply } => {
                Input::CacheAnswered { call_id, reply: reply.map(value).transpose()? }
            }
            WireInput::CacheFailed { call_id } => Input::CacheFailed { call_id },
            WireInput::Appended { call_id, at } => Input::Appended { call_id, at },
            WireInput::AppendRefused { call_id } => Input::AppendRefused { call_id },
            WireInput::ModelReplied { call_id, reply } => Input::ModelReplied { call_id, reply: value(reply)? },
            WireInput::ModelFailed { call_id, message } => Input::ModelFailed { call_id, message },
            WireInput::Permitted { call_id, verdicts, at } => {
                // A word that is no verdict denies.
                let verdicts = verdicts.iter().map(|word| Verdict::parse(word).unwrap_or(Verdict::Deny)).collect();
                Input::Permitted { call_id, verdicts, at }
            }
            WireInput::PermissionFailed { call_id } => Input::PermissionFailed { call_id },
            WireInput::ToolReturned { call_id, index, at, result } => {
                settled(call_id, index, at, ToolOutcome::Returned(result))
            }
            WireInput::ToolFailed { call_id, index, at, message } => {
                settled(call_id, index, at, ToolOutcome::Fault(ToolFault::Failed(message)))
            }
            WireInput::ToolResultInvalid { call_id, index, at, message } => {
                settled(call_id, index, at, ToolOutcome::Fault(ToolFault::InvalidResult(message)))
            }
            WireInput::ToolSuspended { call_id, index, at } => settled(call_id, index, at, ToolOutcome::Suspended),
            WireInput::Flushed => Input::Flushed,
            WireInput::DeltaFailed => Input::DeltaFailed,
            WireInput::Aborted => Input::Aborted,
        })
    }
}
