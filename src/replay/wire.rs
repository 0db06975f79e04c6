//! The JSON in which outcomes reach a host, and the marks in which a host's values reach this module.

use super::completeness::CompletenessIssue;
use super::error::{DecodeError, LoadError};
use super::history::History;
use super::hydrate::PayloadRequest;
use super::node::{Foreign, Node};
use super::payload::{Detail, PayloadError};
use super::provider::{ReplayError, Reply};
use super::write::WritePlan;
use crate::value::json::write_string;
use std::borrow::Cow;

/// Reads a host value: JSON text, and for each value that is no JSON three numbers: its preorder position,
/// the number of its kind (0 a date, then the kinds of [`Foreign`] from 1 on), and a date's milliseconds.
pub fn live<'a>(json: &'a str, marks: &[f64]) -> Result<Node<'a>, String> {
    const KINDS: [Foreign; 10] = [
        Foreign::Cycle,
        Foreign::Hole,
        Foreign::Instance,
        Foreign::Function,
        Foreign::Symbol,
        Foreign::BigInt,
        Foreign::NonFinite,
        Foreign::Undefined,
        Foreign::TooDeep,
        Foreign::LoneSurrogate,
    ];
    let foreign: Vec<(u32, Node<'static>)> = marks
        .chunks_exact(3)
        .filter_map(|mark| match mark {
            [at, kind, ms] if *kind == 0.0 => Some((*at as u32, Node::Date(*ms))),
            [at, kind, _] => {
                let kind = KINDS.get((*kind as usize).checked_sub(1)?)?;
                Some((*at as u32, Node::Foreign(*kind)))
            }
            _ => None,
        })
        .collect();
    Node::parse_live(json, &foreign)
}

/// `{"need":{"path","maxBytes"}}`
#[must_use]
pub fn need(request: &PayloadRequest) -> String {
    let members = vec![("path", text(&request.relative_path)), ("maxBytes", number(request.max_bytes))];
    object(vec![("need", node(members))])
}

/// `{"decode":{"code","message","issues":[{"path","message"}],"schemaVersion"?,"cause"?}}`
#[must_use]
pub fn decode_error(error: &DecodeError) -> String {
    let message = error.to_string();
    let issues =
        error.issues.iter().map(|issue| node(vec![("path", text(&issue.path)), ("message", text(&issue.message))]));
    let mut members = vec![
        ("code", text(error.code.as_str())),
        ("message", text(&message)),
        ("issues", Node::Array(issues.collect())),
    ];
    members.extend(error.schema_version.map(|version| ("schemaVersion", Node::Number(version))));
    members.extend(error.cause.as_deref().map(|cause| ("cause", text(cause))));
    object(vec![("decode", node(members))])
}

/// `{"payload":{"code","message","metadata":{"relativePath"?,"depth"?,"expected"?,"actual"?},"cause"?}}`
#[must_use]
pub fn payload_error(error: &PayloadError) -> String {
    let message = error.to_string();
    let detail = |detail: &Detail| match detail {
        // JSON has no number for what is not finite.
        Detail::Number(number) if number.is_finite() => Node::Number(*number),
        Detail::Number(number) => Node::String(Cow::Owned(number.to_string())),
        Detail::Text(text) => Node::String(Cow::Owned(text.clone())),
    };
    let mut metadata = Vec::new();
    metadata.extend(error.metadata.relative_path.as_deref().map(|path| ("relativePath", text(path))));
    metadata.extend(error.metadata.depth.map(|depth| ("depth", number(depth))));
    metadata.extend(error.metadata.expected.as_ref().map(|value| ("expected", detail(value))));
    metadata.extend(error.metadata.actual.as_ref().map(|value| ("actual", detail(value))));
    let mut members =
        vec![("code", text(error.code.as_str())), ("message", text(&message)), ("metadata", node(metadata))];
    members.extend(error.cause.as_deref().map(|cause| ("cause", text(cause))));
    object(vec![("payload", node(members))])
}

/// What [`decode_error`] or [`payload_error`] gives.
#[must_use]
pub fn load_error(error: &LoadError) -> String {
    match error {
        LoadError::Decode(error) => decode_error(error),
        LoadError::Payload(error) => payload_error(error),
    }
}

/// `[{"code","message","eventIndex","executionId"?,"round"?,"toolCallId"?}]`
#[must_use]
pub fn completeness(issues: &[CompletenessIssue]) -> String {
    let issues = issues.iter().map(|issue| {
        let mut members = vec![
            ("code", text(issue.code.as_str())),
            ("message", text(&issue.message)),
            ("eventIndex", Node::Number(issue.event_index as f64)),
        ];
        members.extend(issue.execution_id.as_deref().map(|id| ("executionId", text(id))));
        members.extend(issue.round.map(|round| ("round", Node::Number(round))));
        members.extend(issue.tool_call_id.as_deref().map(|id| ("toolCallId", text(id))));
        node(members)
    });
    Node::Array(issues.collect()).to_json()
}

/// `{"sessionId"?,"cwd"?,"createdAt"?,"updatedAt"?,"messages","backgroundTaskEvents",
/// "backgroundJobGroupEvents","memoryEvents"}`
#[must_use]
pub fn history(history: &History) -> String {
    let mut out = String::from("{");
    for (key, value) in [
        ("sessionId", &history.session_id),
        ("cwd", &history.cwd),
        ("createdAt", &history.created_at),
        ("updatedAt", &history.updated_at),
    ] {
        if let Some(value) = value {
            write_string(key, &mut out);
            out.push(':');
            write_string(value, &mut out);
            out.push(',');
        }
    }
    let messages: Vec<&str> = history.messages.iter().map(|message| message.json.as_str()).collect();
    let list = |key: &str, texts: &[String]| format!(",\"{key}\":[{}]", texts.join(","));
    out.push_str(&format!("\"messages\":[{}]", messages.join(",")));
    out.push_str(&list("backgroundTaskEvents", &history.background_task_events));
    out.push_str(&list("backgroundJobGroupEvents", &history.background_job_group_events));
    out.push_str(&list("memoryEvents", &history.memory_events));
    out.push('}');
    out
}

/// `{"message","timestamp","deltas"}`
#[must_use]
pub fn reply(reply: &Reply) -> String {
    let deltas = Node::Array(reply.deltas.iter().map(|delta| text(delta)).collect()).to_json();
    let timestamp = Node::Number(reply.message.timestamp_ms).to_json();
    format!("{{\"message\":{},\"timestamp\":{timestamp},\"deltas\":{deltas}}}", reply.message.json)
}

/// `{"replay":{"code","message","call"?,"total"?,"path"?,"expected"?,"actual"?,"remaining"?}}`
#[must_use]
pub fn replay_error(error: &ReplayError) -> String {
    let message = error.to_string();
    let count = |count: &usize| Node::Number(*count as f64);
    let mut members = vec![("code", text(error.code())), ("message", text(&message))];
    match error {
        ReplayError::LogExhausted { call, total } => members.extend([("call", count(call)), ("total", count(total))]),
        ReplayError::RequestMismatch { call, path, expected, actual } => {
            members.extend([("call", count(call)), ("path", text(path)), ("actual", text(actual))]);
            members.extend(expected.as_deref().map(|digest| ("expected", text(digest))));
        }
        ReplayError::NotExhausted { remaining, total } => {
            members.extend([("remaining", count(remaining)), ("total", count(total))]);
        }
    }
    object(vec![("replay", node(members))])
}

/// `{"sidecars":[{"path","text"}],"text"}`
#[must_use]
pub fn plan(plan: &WritePlan) -> String {
    let sidecars =
        plan.sidecars.iter().map(|file| node(vec![("path", text(&file.relative_path)), ("text", text(&file.text))]));
    object(vec![("sidecars", Node::Array(sidecars.collect())), ("text", text(&plan.text))])
}

/// `{"lines":[...]}`
#[must_use]
pub fn lines(lines: &[String]) -> String {
    object(vec![("lines", Node::Array(lines.iter().map(|line| text(line)).collect()))])
}

fn text(value: &str) -> Node<'_> {
    Node::String(Cow::Borrowed(value))
}

fn number(value: u64) -> Node<'static> {
    Node::Number(value as f64)
}

fn node<'a>(members: Vec<(&'a str, Node<'a>)>) -> Node<'a> {
    Node::Object(members.into_iter().map(|(key, value)| (Cow::Borrowed(key), value)).collect())
}

fn object(members: Vec<(&str, Node<'_>)>) -> String {
    node(members).to_json()
}
