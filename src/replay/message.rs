//! Messages: members by role, and the one thing a reader changes in them, their dates.

use super::check::{fields, list_all, object, unknown_keys};
use super::issue::{Issues, Place};
use super::node::Node;
use super::schema::Rule::{Closed, Date, List, Map, MetadataValue, OneOf, Text, TextOrNull, Variants};
use super::schema::{Field, Rule, Variant, opt, req, shape};
use super::shapes::ROLES;
use crate::value::instant::{format_iso, parse_iso};
use std::borrow::Cow;

static ROLE: &[Field] = &[req("role", OneOf(ROLES))];

static IDENTITY: &[Field] =
    &[req("id", Text), req("timestamp", Date), req("state", OneOf(&["complete", "interrupted"]))];

/// What a message of any role may have.
pub(super) static OPTIONAL: &[Field] = &[opt("metadata", Map(&MetadataValue)), opt("parts", List(&PART))];

/// What goes with a role beside that.
struct Shape {
    required: &'static [Field],
    own: &'static [Field],
}

static ASSISTANT: Shape = Shape {
    required: &[req("content", TextOrNull)],
    own: &[opt(
        "toolCalls",
        List(&Closed(shape![
            req("id", Text),
            req("type", OneOf(&["function"])),
            req("function", Closed(shape![req("name", Text), req("arguments", Text)])),
        ])),
    )],
};

static TOOL: Shape = Shape { required: &[req("content", Text), req("toolCallId", Text)], own: &[opt("name", Text)] };

static SPEAKER: Shape = Shape { required: &[req("content", Text)], own: &[opt("name", Text)] };

static PART: Rule = Variants(&[
    Variant { types: &["text"], fields: shape![req("text", Text)] },
    Variant { types: &["image_inline"], fields: shape![req("mimeType", Text), req("data", Text)] },
    Variant { types: &["image_uri"], fields: shape![req("uri", Text), opt("mimeType", Text)] },
]);

/// Checks a message. A bad role ends it; a bad id, timestamp or state skips its content and what follows;
/// bad content skips what is optional.
pub(super) fn message(node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    let Some(members) = object(node, place, issues) else { return };
    let start = issues.total();
    fields(ROLE, node, place, issues);
    if issues.total() > start {
        return;
    }
    let shape = match node.get("role").and_then(Node::as_str) {
        Some("assistant") => &ASSISTANT,
        Some("tool") => &TOOL,
        _ => &SPEAKER,
    };
    unknown_keys(members, place, issues, |key| {
        [ROLE, IDENTITY, shape.required, OPTIONAL, shape.own]
            .iter()
            .any(|part| part.iter().any(|field| field.name == key))
    });
    for part in [IDENTITY, shape.required] {
        let start = issues.total();
        fields(part, node, place, issues);
        if issues.total() > start {
            return;
        }
    }
    fields(OPTIONAL, node, place, issues);
    fields(shape.own, node, place, issues);
}

/// Checks one value of a metadata map: a string, number, boolean, an array of only strings or only
/// numbers, or a map of numbers.
pub(super) fn metadata_value(node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    match node {
        Node::String(_) | Node::Number(_) | Node::Bool(_) => {}
        Node::Array(_) if list_all(node, |item| matches!(item, Node::String(_))) => {}
        Node::Array(_) if list_all(node, |item| matches!(item, Node::Number(_))) => {}
        Node::Array(_) => issues.add(place, "expected an array of only strings or only numbers"),
        Node::Object(members) => {
            for (key, value) in members {
                if !matches!(value, Node::Number(_)) {
                    issues.add(&place.key(key), format!("expected a number, found {}", value.found()));
                }
            }
        }
        _ => issues.add(place, format!("expected a metadata value, found {}", node.found())),
    }
}

/// Rewrites the dates of the messages that stand under `rule` in ISO 8601 with milliseconds and `Z`, so
/// that no host has to read any other form.
pub(super) fn settle_dates(rule: &Rule, node: &mut Node<'_>) {
    match rule {
        Rule::Message | Rule::MessageOrText => {
            if let Some(date) = node.get_mut("timestamp")
                && let Some(text) = epoch_ms(date).and_then(format_iso)
            {
                *date = Node::String(Cow::Owned(text));
            }
        }
        Rule::List(rule) => {
            if let Node::Array(items) = node {
                items.iter_mut().for_each(|item| settle_dates(rule, item));
            }
        }
        _ => {}
    }
}

/// The instant that a checked `timestamp` stands for, in epoch milliseconds.
pub(super) fn epoch_ms(date: &Node<'_>) -> Option<f64> {
    match date {
        Node::String(text) => parse_iso(text),
        Node::Date(ms) if ms.is_finite() => Some(*ms),
        _ => None,
    }
}
