//! Checks one entry: envelope, payload, and nothing else.

use super::check::{fields, integrity, unknown_json, unknown_keys};
use super::error::{DecodeCode, DecodeError};
use super::issue::{Issues, Place};
use super::message::settle_dates;
use super::node::Node;
use super::payload::is_safe_count;
use super::schema::Rule::{Instant, Text};
use super::schema::{Field, payload, req};
use super::vocabulary::EventKind;

/// The envelope, in the order in which a decoder looks at it. A writer puts it after the payload.
pub(super) const ENVELOPE: [&str; 4] = ["schemaVersion", "timestamp", "sessionId", "event"];

static IDENTITY: &[Field] = &[req("timestamp", Instant), req("sessionId", Text)];

/// Collects what is wrong with the entries of one log.
#[derive(Debug, Default)]
pub(super) struct EntryChecks {
    pub issues: Issues,
    /// The first entry with an unsupported version, and that version.
    unsupported: Option<(usize, f64)>,
}

impl EntryChecks {
    /// Checks the entry at `index`. Its event, where that can be told; it is valid if no issue was added.
    pub fn entry(&mut self, index: usize, node: &Node<'_>, place: &Place<'_>) -> Option<EventKind> {
        let issues = &mut self.issues;
        issues.at_entry(index);
        let Node::Object(members) = node else {
            issues.add(place, format!("expected an object, found {}", node.found()));
            return None;
        };
        let start = issues.total();
        integrity(node, place, issues);
        if issues.total() > start {
            return None;
        }
        self.version(index, node, place);
        let issues = &mut self.issues;
        fields(IDENTITY, node, place, issues);
        if node.get("sessionId").and_then(Node::as_str) == Some("") {
            issues.add(&place.key("sessionId"), "expected a session id that is not empty");
        }
        let event = place.key("event");
        let Some(kind) = node.get("event").and_then(Node::as_str).and_then(EventKind::from_name) else {
            let found = node.get("event").map_or("nothing", Node::found);
            issues.add(&event, format!("expected the name of an event, found {found}"));
            return None;
        };
        let payload = payload(kind);
        fields(payload.fields, node, place, issues);
        let declared = |key: &str| ENVELOPE.contains(&key) || payload.fields.iter().any(|field| field.name == key);
        if payload.open {
            unknown_json(members, place, issues, declared);
        } else {
            unknown_keys(members, place, issues, declared);
        }
        if !payload.at_least_one.is_empty() && payload.at_least_one.iter().all(|key| node.get(key).is_none()) {
            issues.add(place, format!("expected one of {}", payload.at_least_one.join(", ")));
        }
        Some(kind)
    }

    fn version(&mut self, index: usize, node: &Node<'_>, place: &Place<'_>) {
        let version = node.get("schemaVersion");
        match version.and_then(Node::as_number) {
            Some(1.0) => {}
            Some(other) if is_safe_count(other) => {
                self.unsupported.get_or_insert((index, other));
                self.issues.add(&place.key("schemaVersion"), "expected schema version 1, found another version");
            }
            _ => {
                let found = version.map_or("nothing", Node::found);
                self.issues.add(&place.key("schemaVersion"), format!("expected schema version 1, found {found}"));
            }
        }
    }

    /// The verdict over these entries and those of `later`, which were checked apart from them.
    pub fn verdict(self, later: EntryChecks) -> Result<(), DecodeError> {
        if self.issues.total() + later.issues.total() == 0 {
            return Ok(());
        }
        let unsupported = match (self.unsupported, later.unsupported) {
            (Some(a), Some(b)) => Some(if a.0 < b.0 { a } else { b }),
            (a, b) => a.or(b),
        };
        Err(DecodeError {
            code: if unsupported.is_some() { DecodeCode::UnsupportedVersion } else { DecodeCode::InvalidEvent },
            issues: self.issues.merge(later.issues),
            schema_version: unsupported.map(|(_, version)| version),
            cause: None,
        })
    }
}

/// Rewrites the dates of the messages in a valid entry, see [`settle_dates`].
pub(super) fn settle_entry(kind: EventKind, node: &mut Node<'_>) {
    for field in payload(kind).fields {
        if let Some(value) = node.get_mut(field.name) {
            settle_dates(&field.rule, value);
        }
    }
}
