//! Whether a log recorded everything that belongs to its requests.

use super::log::SessionLog;
use super::node::Node;
use super::payload::{Reference, is_reference};
use super::vocabulary::EventKind;
use std::collections::{HashMap, HashSet};

/// What a log lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletenessCode {
    /// A request without the provider's own response or stream events.
    NativePayloadMissing,
    /// A request without its raw response.
    ResponseRawMissing,
    /// A request without the response that a replay answers with.
    ResponseNormalizedMissing,
    /// A tool request without a result.
    ToolResultMissing,
    /// An object that says it is a reference and has another shape.
    PayloadReferenceInvalid,
    /// A reference that was never resolved.
    UnresolvedPayload,
}

impl CompletenessCode {
    /// The code as hosts see it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            CompletenessCode::NativePayloadMissing => "PROVIDER_NATIVE_RAW_PAYLOAD_MISSING",
            CompletenessCode::ResponseRawMissing => "PROVIDER_RESPONSE_RAW_MISSING",
            CompletenessCode::ResponseNormalizedMissing => "PROVIDER_RESPONSE_NORMALIZED_MISSING",
            CompletenessCode::ToolResultMissing => "TOOL_RESULT_MISSING",
            CompletenessCode::PayloadReferenceInvalid => "PAYLOAD_REFERENCE_INVALID",
            CompletenessCode::UnresolvedPayload => "UNRESOLVED_REPLAY_PAYLOAD",
        }
    }
}

/// One thing a log lacks.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletenessIssue {
    /// What is missing.
    pub code: CompletenessCode,
    /// The same in words.
    pub message: String,
    /// The entry that misses it.
    pub event_index: usize,
    /// The execution it belongs to.
    pub execution_id: Option<String>,
    /// The round of that execution.
    pub round: Option<f64>,
    /// The tool call that has no result.
    pub tool_call_id: Option<String>,
}

/// Lists what a decoded log lacks; empty where it is complete.
#[must_use]
pub fn completeness(log: &SessionLog) -> Vec<CompletenessIssue> {
    let mut issues = Vec::new();
    let mut found = Found::default();
    for (index, kind, node) in log.nodes(EventKind::ALL) {
        references(&node, index, &mut issues);
        found.note(index, kind, &node);
    }
    found.report(issues)
}

type RoundKey = (String, u64);

#[derive(Default)]
struct Found {
    /// Requests by round, in the order in which their rounds first came up.
    requests: Vec<(RoundKey, usize)>,
    request_at: HashMap<RoundKey, usize>,
    native: HashSet<RoundKey>,
    raw: HashSet<RoundKey>,
    normalized: HashSet<RoundKey>,
    tools: Vec<((String, String), usize)>,
    tool_at: HashMap<(String, String), usize>,
    results: HashSet<(String, String)>,
}

impl Found {
    fn note(&mut self, index: usize, kind: EventKind, node: &Node<'_>) {
        let Some((execution, round)) = round_key(node) else { return };
        let key = (execution.clone(), round.to_bits());
        let tool = node.get("toolCallId").and_then(Node::as_str).map(|id| (execution, id.to_owned()));
        match kind {
            EventKind::ProviderRequest => put(&mut self.requests, &mut self.request_at, key, index),
            EventKind::ProviderNativeRawPayload
                if node.get("payloadKind").and_then(Node::as_str) != Some("request") =>
            {
                self.native.insert(key);
            }
            EventKind::ProviderResponseRaw => {
                self.raw.insert(key);
            }
            EventKind::ProviderResponseNormalized => {
                self.normalized.insert(key);
            }
            EventKind::ToolExecutionRequest => {
                if let Some(tool) = tool {
                    put(&mut self.tools, &mut self.tool_at, tool, index);
                }
            }
            EventKind::ToolExecutionResult => self.results.extend(tool),
            _ => {}
        }
    }

    fn report(self, mut issues: Vec<CompletenessIssue>) -> Vec<CompletenessIssue> {
        for (key, index) in &self.requests {
            for (code, there, what) in [
                (CompletenessCode::NativePayloadMissing, &self.native, "native response or stream event"),
                (CompletenessCode::ResponseRawMissing, &self.raw, "raw response"),
                (CompletenessCode::ResponseNormalizedMissing, &self.normalized, "normalized response"),
            ] {
                if !there.contains(key) {
                    issues.push(CompletenessIssue {
                        code,
                        message: format!("a provider request has no {what}"),
                        event_index: *index,
                        execution_id: Some(key.0.clone()),
                        round: Some(f64::from_bits(key.1)),
                        tool_call_id: None,
                    });
                }
            }
        }
        for (key, index) in self.tools.iter().filter(|(key, _)| !self.results.contains(key)) {
            issues.push(CompletenessIssue {
                code: CompletenessCode::ToolResultMissing,
                message: "a tool request has no result".to_owned(),
                event_index: *index,
                execution_id: Some(key.0.clone()),
                round: None,
                tool_call_id: Some(key.1.clone()),
            });
        }
        issues
    }
}

/// Keeps the first place of a key and the last index under it.
fn put<K: Clone + Eq + std::hash::Hash>(
    list: &mut Vec<(K, usize)>,
    places: &mut HashMap<K, usize>,
    key: K,
    index: usize,
) {
    match places.get(&key).and_then(|at| list.get_mut(*at)) {
        Some(known) => known.1 = index,
        None => {
            places.insert(key.clone(), list.len());
            list.push((key, index));
        }
    }
}

/// The execution and the round that an entry belongs to.
pub(super) fn round_key(node: &Node<'_>) -> Option<(String, f64)> {
    let execution = node.get("executionId")?.as_str()?.to_owned();
    // Adding zero makes one round of 0 and -0.
    Some((execution, node.get("round")?.as_number()? + 0.0))
}

fn references(node: &Node<'_>, index: usize, issues: &mut Vec<CompletenessIssue>) {
    match node {
        Node::Object(_) if is_reference(node) => {
            let (code, message) = match Reference::read(node) {
                Some(_) => (CompletenessCode::UnresolvedPayload, "an external payload was not resolved"),
                None => (CompletenessCode::PayloadReferenceInvalid, "an external payload reference has another shape"),
            };
            issues.push(CompletenessIssue {
                code,
                message: message.to_owned(),
                event_index: index,
                execution_id: None,
                round: None,
                tool_call_id: None,
            });
        }
        Node::Object(members) => members.iter().for_each(|(_, value)| references(value, index, issues)),
        Node::Array(items) => items.iter().for_each(|value| references(value, index, issues)),
        _ => {}
    }
}
