//! Whether a log recorded everything that belongs to its requests.

use super::log::SessionLog;
use super::node::Node;
use super::payload::{Reference, is_reference};
use super::vocabulary::EventKind;
use std::collections::HashMap;

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

/// What the entries of one round, or of one tool call, are about.
struct Subject {
    execution_id: String,
    round: Option<f64>,
    tool_call_id: Option<String>,
    /// The last request, if there was one.
    request: Option<usize>,
    native: bool,
    raw: bool,
    normalized: bool,
    result: bool,
}

#[derive(Default)]
struct Found {
    subjects: Vec<Subject>,
    by_key: HashMap<String, usize>,
    /// Subjects in the order of their first requests: rounds, then tool calls.
    rounds: Vec<usize>,
    tools: Vec<usize>,
}

impl Found {
    fn note(&mut self, index: usize, kind: EventKind, node: &Node<'_>) {
        let of_tool = matches!(kind, EventKind::ToolExecutionRequest | EventKind::ToolExecutionResult);
        let Some((place, subject)) = self.subject(node, of_tool) else { return };
        let first = subject.request.is_none();
        match kind {
            EventKind::ProviderRequest | EventKind::ToolExecutionRequest => {
                subject.request = Some(index);
                if first {
                    let order = if of_tool { &mut self.tools } else { &mut self.rounds };
                    order.push(place);
                }
            }
            EventKind::ProviderNativeRawPayload => {
                subject.native |= node.get("payloadKind").and_then(Node::as_str) != Some("request");
            }
            EventKind::ProviderResponseRaw => subject.raw = true,
            EventKind::ProviderResponseNormalized => subject.normalized = true,
            EventKind::ToolExecutionResult => subject.result = true,
            _ => {}
        }
    }

    fn subject(&mut self, node: &Node<'_>, of_tool: bool) -> Option<(usize, &mut Subject)> {
        let execution_id = node.get("executionId")?.as_str()?;
        let tool = if of_tool { Some(node.get("toolCallId")?.as_str()?) } else { None };
        let key = match tool {
            Some(id) => format!("t{}:{execution_id}{id}", execution_id.len()),
            None => round_key(node)?,
        };
        let next = self.subjects.len();
        let place = *self.by_key.entry(key).or_insert(next);
        if place == next {
            self.subjects.push(Subject {
                execution_id: execution_id.to_owned(),
                round: if of_tool { None } else { node.get("round").and_then(Node::as_number) },
                tool_call_id: tool.map(str::to_owned),
                request: None,
                native: false,
                raw: false,
                normalized: false,
                result: false,
            });
        }
        Some((place, self.subjects.get_mut(place)?))
    }

    fn report(self, mut issues: Vec<CompletenessIssue>) -> Vec<CompletenessIssue> {
        for subject in self.rounds.iter().chain(&self.tools).filter_map(|place| self.subjects.get(*place)) {
            let of_round = subject.tool_call_id.is_none();
            for (missing, code, message) in [
                (
                    of_round && !subject.native,
                    CompletenessCode::NativePayloadMissing,
                    "a provider request has no native response or stream event",
                ),
                (
                    of_round && !subject.raw,
                    CompletenessCode::ResponseRawMissing,
                    "a provider request has no raw response",
                ),
                (
                    of_round && !subject.normalized,
                    CompletenessCode::ResponseNormalizedMissing,
                    "a provider request has no normalized response",
                ),
                (!of_round && !subject.result, CompletenessCode::ToolResultMissing, "a tool request has no result"),
            ] {
                if missing {
                    issues.push(CompletenessIssue {
                        code,
                        message: message.to_owned(),
                        event_index: subject.request.unwrap_or_default(),
                        execution_id: Some(subject.execution_id.clone()),
                        round: subject.round,
                        tool_call_id: subject.tool_call_id.clone(),
                    });
                }
            }
        }
        issues
    }
}

/// A text that tells apart the rounds of executions.
pub(super) fn round_key(node: &Node<'_>) -> Option<String> {
    // Adding zero makes one round of 0 and -0.
    let round = node.get("round")?.as_number()? + 0.0;
    Some(format!("{:x}:{}", round.to_bits(), node.get("executionId")?.as_str()?))
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
