//! Records provider calls as log lines that this decoder accepts and this provider replays.

use super::check::check;
use super::error::DecodeError;
use super::issue::{Issues, Place};
use super::message::OPTIONAL;
use super::node::Node;
use super::redact::Redaction;
use super::schema::{Field, Rule};
use super::shapes::TOOL_SCHEMA;
use super::vocabulary::EventKind;
use super::write::entry;
use std::borrow::Cow;

/// Numbers the calls of one session.
#[derive(Debug)]
pub struct Recorder {
    session_id: String,
    redaction: Redaction,
    calls: u64,
}

/// A call whose response is awaited.
#[derive(Debug)]
pub struct RecordedCall {
    session_id: String,
    redaction: Redaction,
    execution_id: String,
    round: u64,
    provider: String,
    deltas: u64,
}

impl Recorder {
    /// A recorder that has seen this many calls.
    #[must_use]
    pub fn new(session_id: &str, redaction: Redaction, calls: u64) -> Recorder {
        Recorder { session_id: session_id.to_owned(), redaction, calls }
    }

    /// Records a request: an object with `model`, `messages`, `tools` and `callId` (all but the first two may
    /// be missing). Schemas of tools, and metadata and parts of messages, are cut to what a log can hold;
    /// what else it cannot hold is refused with its path, which begins with `entry`.
    pub fn request(
        &mut self,
        provider: &str,
        request: &Node<'_>,
        at_ms: f64,
    ) -> Result<(RecordedCall, String), DecodeError> {
        self.calls += 1;
        let call_id = request.get("callId").and_then(Node::as_str).unwrap_or_default();
        let call = RecordedCall {
            session_id: self.session_id.clone(),
            redaction: self.redaction.clone(),
            execution_id: if call_id.is_empty() { self.session_id.clone() } else { call_id.to_owned() },
            // One number for each call of the session: a call id that comes back is another call.
            round: self.calls,
            provider: provider.to_owned(),
            deltas: 0,
        };
        let member = |key: &str| request.get(key).cloned().unwrap_or(Node::Null);
        let mut payload = vec![
            ("provider", text(provider)),
            ("model", member("model")),
            ("messages", messages(request.get("messages"))),
        ];
        if let Some(Node::Array(tools)) = request.get("tools") {
            payload.push(("tools", Node::Array(tools.iter().filter_map(tool).collect())));
        }
        let line = call.line(EventKind::ProviderRequest, payload, at_ms)?;
        Ok((call, line))
    }
}

impl RecordedCall {
    /// Records one streamed piece of text.
    pub fn delta(&mut self, delta: &str, at_ms: f64) -> Result<String, DecodeError> {
        let payload = vec![("sequence", Node::Number(self.deltas as f64)), ("delta", text(delta))];
        self.deltas += 1;
        self.line(EventKind::ProviderStreamRawDelta, payload, at_ms)
    }

    /// Records the response, in every form that completeness asks for.
    pub fn response(&self, message: &Node<'_>, at_ms: f64) -> Result<Vec<String>, DecodeError> {
        let calls = match message.get("toolCalls") {
            Some(Node::Array(calls)) => calls.len(),
            _ => 0,
        };
        // Beneath this interface there may be a native payload; it never comes up to it.
        let native = vec![
            ("provider", text(&self.provider)),
            ("payloadKind", text("response")),
            ("sequence", Node::Number(0.0)),
            ("apiSurface", text("chat")),
        ];
        let raw = vec![("response", cut(message)), ("responseKind", text("message"))];
        let normalized = vec![("response", cut(message)), ("toolCallsCount", Node::Number(calls as f64))];
        Ok(vec![
            self.line(EventKind::ProviderNativeRawPayload, native, at_ms)?,
            self.line(EventKind::ProviderResponseRaw, raw, at_ms)?,
            self.line(EventKind::ProviderResponseNormalized, normalized, at_ms)?,
        ])
    }

    fn line(&self, kind: EventKind, payload: Vec<(&str, Node<'_>)>, at_ms: f64) -> Result<String, DecodeError> {
        let mut members = vec![("executionId", text(&self.execution_id)), ("round", Node::Number(self.round as f64))];
        members.extend(payload);
        let members = members.into_iter().map(|(key, value)| (Cow::Borrowed(key), value)).collect();
        let entry = entry(kind.name(), Node::Object(members), &self.session_id, at_ms, &self.redaction)?;
        Ok(entry.to_json())
    }
}

fn text(value: &str) -> Node<'_> {
    Node::String(Cow::Borrowed(value))
}

fn messages<'a>(list: Option<&Node<'a>>) -> Node<'a> {
    match list {
        Some(Node::Array(items)) => Node::Array(items.iter().map(cut).collect()),
        other => other.cloned().unwrap_or(Node::Null),
    }
}

/// A message without what a log cannot hold of its metadata and parts.
fn cut<'a>(message: &Node<'a>) -> Node<'a> {
    let Node::Object(members) = message else { return message.clone() };
    let kept = members.iter().filter_map(|(key, value)| {
        let rule = OPTIONAL.iter().find(|field| field.name == key).map(|field| &field.rule);
        Some((key.clone(), rule.map_or_else(|| Some(value.clone()), |rule| fit(rule, value))?))
    });
    Node::Object(kept.collect())
}

/// A tool as a log can hold it; `None` where it has no name.
fn tool<'a>(tool: &Node<'a>) -> Option<Node<'a>> {
    let parameters = tool.get("parameters").cloned().unwrap_or_else(|| Node::Object(Vec::new()));
    let bare = [("type", text("object")), ("properties", Node::Object(Vec::new()))];
    let root = |mut members: Vec<(Cow<'a, str>, Node<'a>)>| {
        for (key, value) in &bare {
            if !members.iter().any(|(known, _)| known == key) {
                members.push((Cow::Borrowed(key), value.clone().into_owned()));
            }
        }
        Node::Object(members)
    };
    let described = |parameters: Node<'a>| {
        let description = tool.get("description").cloned().unwrap_or(Node::String(Cow::Borrowed("")));
        let members = [("name", tool.get("name").cloned()?), ("description", description), ("parameters", parameters)];
        fit(&TOOL_SCHEMA, &Node::Object(members.map(|(key, value)| (Cow::Borrowed(key), value)).into()))
    };
    match parameters {
        Node::Object(members) => described(root(members)).or_else(|| described(root(Vec::new()))),
        _ => described(root(Vec::new())),
    }
}

/// What of a value the rule accepts; `None` where nothing of it, or not all that is required.
fn fit<'a>(rule: &Rule, node: &Node<'a>) -> Option<Node<'a>> {
    match (rule, node) {
        (Rule::Is(rule), node) => fit(rule, node),
        (Rule::Closed(fields), Node::Object(members)) => {
            let kept: Vec<_> = members
                .iter()
                .filter_map(|(key, value)| {
                    let field = fields.iter().find(|field| field.name == key)?;
                    Some((key.clone(), fit(&field.rule, value)?))
                })
                .collect();
            let there = |field: &Field| kept.iter().any(|(key, _)| key == field.name);
            fields.iter().all(|field| !field.required || there(field)).then_some(Node::Object(kept))
        }
        (Rule::Map(rule), Node::Object(members)) => Some(Node::Object(
            members.iter().filter_map(|(key, value)| Some((key.clone(), fit(rule, value)?))).collect(),
        )),
        (Rule::List(rule), Node::Array(items)) => {
            Some(Node::Array(items.iter().filter_map(|item| fit(rule, item)).collect()))
        }
        (Rule::FlagOr(rule), Node::Object(_)) => fit(rule, node),
        (rule, node) => {
            let mut issues = Issues::default();
            check(rule, node, &Place::root(""), &mut issues);
            (issues.total() == 0).then(|| node.clone())
        }
    }
}
