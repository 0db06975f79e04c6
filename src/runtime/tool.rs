//! Tool calls: from the text a model wrote to arguments a tool can take, and from what came of it to
//! the result the model reads. A call that cannot be carried out costs the model a round, never the
//! conversation its turn.

use super::codec::ValueError;
use super::config::{AgentConfig, ToolDefinition};
use super::message::ToolCall;
use super::schema;
use crate::value::Json;
use crate::value::bounds::{MAX_CONTENT, MAX_TEXT};
use crate::value::hash::sha256_hex;
use crate::value::text::utf16_len;
use std::collections::HashMap;
use std::collections::HashSet;

/// Why a call has no result of its tool's own. The code is what the model is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolFault {
    /// No tool of the agent has that name.
    #[error("there is no tool of this name; the tools are: {0}")]
    UnknownTool(String),
    /// The arguments are not JSON or do not fit the tool's schema.
    #[error("{0}")]
    InvalidArguments(String),
    /// The tool failed; the text is its error's message.
    #[error("{0}")]
    Failed(String),
    /// The tool returned something that is not JSON, or too long.
    #[error("{0}")]
    InvalidResult(String),
    /// The call was not permitted; where a person said so, with what they said.
    #[error("the call was denied{}", .0.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    Denied(Option<String>),
    /// The turn was stopped when the call was about to be made.
    #[error("the turn was stopped before the tool was run")]
    NotRun,
}

impl ToolFault {
    /// The stable code of this fault.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            ToolFault::UnknownTool(_) => "unknown-tool",
            ToolFault::InvalidArguments(_) => "invalid-arguments",
            ToolFault::Failed(_) => "tool-failed",
            ToolFault::InvalidResult(_) => "invalid-result",
            ToolFault::Denied(_) => "denied",
            ToolFault::NotRun => "not-run",
        }
    }

    /// Whether a result says that its tool was never run.
    #[must_use]
    pub fn is_refusal(result: &Json) -> bool {
        let code = result.get("error").and_then(|error| error.get("code")).and_then(Json::as_str);
        matches!(code, Some("unknown-tool" | "invalid-arguments" | "denied"))
    }

    /// What the model reads, as canonical JSON: `{"error":{"code","message"}}`.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let text = |text: &str| Json::String(text.to_owned());
        let message = truncated(&self.to_string(), MAX_TEXT);
        let error = Json::Object(vec![("code".to_owned(), text(self.code())), ("message".to_owned(), text(&message))]);
        Json::Object(vec![("error".to_owned(), error)])
    }
}

/// Finds the tool a call names and reads its arguments. Blank arguments count as `{}`.
pub fn resolve(config: &AgentConfig, call: &ToolCall) -> Result<(usize, Json), ToolFault> {
    let Some((index, tool)) = config.tool(&call.name) else {
        let names: Vec<&str> = config.tools.iter().map(|tool| tool.name.as_str()).collect();
        return Err(ToolFault::UnknownTool(names.join(", ")));
    };
    Ok((index, read_arguments(tool, &call.arguments)?))
}

fn read_arguments(tool: &ToolDefinition, text: &str) -> Result<Json, ToolFault> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let arguments = Json::parse(text)
        .map_err(|error| ToolFault::InvalidArguments(format!("the arguments are not valid JSON: {error}")))?;
    let invalid = |error: ValueError| ToolFault::InvalidArguments(error.to_string());
    schema::check(&arguments, &tool.parameters, "arguments").map_err(invalid)?;
    Ok(arguments)
}

/// What the model reads of a tool's result: a string as it is, anything else as canonical JSON.
pub fn result_content(result: &Json) -> Result<String, ToolFault> {
    let content = match result {
        Json::String(text) => text.clone(),
        other => other.canonical(),
    };
    if utf16_len(&content) > MAX_CONTENT {
        return Err(ToolFault::InvalidResult(format!("the result is longer than {MAX_CONTENT} UTF-16 units")));
    }
    Ok(content)
}

/// Counts the calls of one turn, so that the same call of a retried attempt has the same key.
#[derive(Clone, Debug, Default)]
pub struct IdempotencyKeys {
    seen: HashMap<String, u32>,
}

impl IdempotencyKeys {
    /// The key of the next call of `tool` with `arguments`: a hash of turn, tool, canonical arguments
    /// and how often this very call was made before in the turn.
    pub fn next(&mut self, turn_id: &str, tool: &str, arguments: &Json) -> String {
        let text = |text: &str| Json::String(text.to_owned());
        let call = Json::Array(vec![text(turn_id), text(tool), arguments.clone()]).canonical();
        let ordinal = self.seen.entry(call.clone()).or_default();
        *ordinal += 1;
        sha256_hex(&format!("{ordinal}:{call}"))
    }
}

/// The calls with ids that are present and unique within the reply; `call_id` names the reply.
#[must_use]
pub fn with_unique_ids(calls: Vec<ToolCall>, call_id: &str) -> Vec<ToolCall> {
    let mut seen = HashSet::new();
    let mut unique = |(index, mut call): (usize, ToolCall)| {
        if call.id.is_empty() || !seen.insert(call.id.clone()) {
            call.id = format!("{call_id}:tool:{index}");
            // Who knows how ids are made can have made one already.
            while !seen.insert(call.id.clone()) {
                call.id.push('+');
            }
        }
        call
    };
    calls.into_iter().enumerate().map(&mut unique).collect()
}

fn truncated(text: &str, max: usize) -> String {
    if utf16_len(text) <= max {
        return text.to_owned();
    }
    let mut units = 0;
    let kept = text.chars().take_while(|c| {
        units += c.len_utf16();
        units < max
    });
    kept.chain(['\u{2026}']).collect()
}
