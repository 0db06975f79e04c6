//! Holds a value against a rule and collects everything that is wrong with it.

use super::issue::{Issues, Place};
use super::message;
use super::node::{Foreign, Node};
use super::schema::{Field, Rule, Variant};
use super::shapes::{TASK, TASK_KINDS, TASK_RESULT, TaskField};
use crate::value::instant::parse_iso;

/// Checks `node` against `rule`.
pub(super) fn check(rule: &Rule, node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    match rule {
        Rule::Text => expect(matches!(node, Node::String(_)), "a string", node, place, issues),
        Rule::Finite => expect(matches!(node, Node::Number(_)), "a finite number", node, place, issues),
        Rule::Whole => expect(is_integer(node), "an integer", node, place, issues),
        Rule::Count => count(node, place, issues),
        Rule::Flag => expect(matches!(node, Node::Bool(_)), "a boolean", node, place, issues),
        Rule::TextOrNull => {
            expect(matches!(node, Node::String(_) | Node::Null), "a string or null", node, place, issues);
        }
        Rule::Instant => instant(node, place, issues),
        Rule::Date => match node {
            Node::Date(ms) if ms.is_finite() => {}
            _ => instant(node, place, issues),
        },
        Rule::OneOf(names) => one_of(names, node, place, issues),
        Rule::Scalar => expect(is_scalar(node), "a string, number or boolean", node, place, issues),
        Rule::ScalarOrNull => expect(
            is_scalar(node) || matches!(node, Node::Null),
            "a string, number, boolean or null",
            node,
            place,
            issues,
        ),
        Rule::Json => json(node, place, issues),
        Rule::Record => match node {
            Node::Object(_) => json(node, place, issues),
            _ => expect(false, "an object", node, place, issues),
        },
        Rule::Is(rule) => check(rule, node, place, issues),
        Rule::FlagOr(rule) => {
            if !matches!(node, Node::Bool(_)) {
                check(rule, node, place, issues);
            }
        }
        Rule::List(rule) => match node {
            Node::Array(items) => {
                items.iter().enumerate().for_each(|(index, item)| check(rule, item, &place.index(index), issues));
            }
            _ => expect(false, "an array", node, place, issues),
        },
        Rule::Map(rule) => {
            if let Some(members) = object(node, place, issues) {
                members.iter().for_each(|(key, value)| check(rule, value, &place.key(key), issues));
            }
        }
        Rule::Closed(fields) => closed(fields, node, place, issues),
        Rule::Variants(variants) => variant(variants, node, place, issues),
        Rule::Task => task(node, place, issues),
        Rule::MetadataValue => message::metadata_value(node, place, issues),
        Rule::Message => message::message(node, place, issues),
        Rule::MessageOrText => {
            if !matches!(node, Node::String(_)) {
                message::message(node, place, issues);
            }
        }
    }
}

/// Adds an issue unless `holds`.
fn expect(holds: bool, expected: &str, node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    if !holds {
        issues.add(place, format!("expected {expected}, found {}", node.found()));
    }
}

/// The members, or an issue where this is no object.
pub(super) fn object<'n, 'a>(
    node: &'n Node<'a>,
    place: &Place<'_>,
    issues: &mut Issues,
) -> Option<&'n [(std::borrow::Cow<'a, str>, Node<'a>)]> {
    match node {
        Node::Object(members) => Some(members),
        _ => {
            expect(false, "an object", node, place, issues);
            None
        }
    }
}

/// Whether this is an array whose elements all hold.
pub(super) fn list_all(node: &Node<'_>, holds: impl Fn(&Node<'_>) -> bool) -> bool {
    matches!(node, Node::Array(items) if items.iter().all(holds))
}

/// Checks the declared members in their order: what is required must be there.
pub(super) fn fields(fields: &[Field], node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    for field in fields {
        match node.get(field.name) {
            Some(value) => check(&field.rule, value, &place.key(field.name), issues),
            None if field.required => missing(&field.rule, &place.key(field.name), issues),
            None => {}
        }
    }
}

/// An object with these members and no others; what is undeclared is named first.
fn closed(declared: &[Field], node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    if let Some(members) = object(node, place, issues) {
        unknown_keys(members, place, issues, |key| declared.iter().any(|field| field.name == key));
        fields(declared, node, place, issues);
    }
}

/// Adds an issue for each key that is not known.
pub(super) fn unknown_keys(
    members: &[(std::borrow::Cow<'_, str>, Node<'_>)],
    place: &Place<'_>,
    issues: &mut Issues,
    known: impl Fn(&str) -> bool,
) {
    for (key, _) in members {
        if !known(key) {
            issues.add(&place.key(key), "unknown key");
        }
    }
}

/// Any JSON under each key that is not known.
pub(super) fn unknown_json(
    members: &[(std::borrow::Cow<'_, str>, Node<'_>)],
    place: &Place<'_>,
    issues: &mut Issues,
    known: impl Fn(&str) -> bool,
) {
    for (key, value) in members {
        if !known(key) {
            json(value, &place.key(key), issues);
        }
    }
}

fn missing(rule: &Rule, place: &Place<'_>, issues: &mut Issues) {
    let expected = match rule {
        Rule::Text | Rule::TextOrNull => "a string",
        Rule::Finite => "a finite number",
        Rule::Whole | Rule::Count => "an integer",
        Rule::Flag => "a boolean",
        Rule::Instant | Rule::Date => "an ISO 8601 timestamp",
        Rule::OneOf(_) => "a declared name",
        Rule::List(_) => "an array",
        Rule::Message | Rule::MessageOrText => "a message",
        Rule::Map(_) | Rule::Closed(_) | Rule::Variants(_) | Rule::Task | Rule::Record => "an object",
        Rule::Is(inner) => return missing(inner, place, issues),
        Rule::Scalar | Rule::ScalarOrNull | Rule::Json | Rule::FlagOr(_) | Rule::MetadataValue => "a value",
    };
    issues.add(place, format!("expected {expected}, found nothing"));
}

fn is_scalar(node: &Node<'_>) -> bool {
    matches!(node, Node::String(_) | Node::Number(_) | Node::Bool(_))
}

fn is_integer(node: &Node<'_>) -> bool {
    node.as_number().is_some_and(|number| number.fract() == 0.0)
}

fn count(node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    if !is_integer(node) {
        expect(false, "an integer", node, place, issues);
    } else if node.as_number().is_some_and(|number| number < 0.0) {
        issues.add(place, "expected an integer that is not negative");
    }
}

fn instant(node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    match node {
        Node::String(text) if parse_iso(text).is_some() => {}
        Node::String(_) => issues.add(place, "expected an ISO 8601 timestamp, found other text"),
        _ => expect(false, "an ISO 8601 timestamp", node, place, issues),
    }
}

fn one_of(names: &[&str], node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    if !node.as_str().is_some_and(|text| names.contains(&text)) {
        let found = if node.as_str().is_some() { "another string" } else { node.found() };
        issues.add(place, format!("expected one of {}, found {found}", names.join(", ")));
    }
}

/// Any JSON: adds an issue at everything in it that is none.
fn json(node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    match node {
        Node::Foreign(_) | Node::Date(_) => expect(false, "JSON", node, place, issues),
        Node::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| json(item, &place.index(index), issues));
        }
        Node::Object(members) => members.iter().for_each(|(key, value)| json(value, &place.key(key), issues)),
        Node::Null | Node::Bool(_) | Node::Number(_) | Node::String(_) => {}
    }
}

/// Finds what would make a walk over a host value senseless: cycles, holes, excessive depth.
pub(super) fn integrity(node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    match node {
        Node::Foreign(Foreign::Cycle | Foreign::Hole | Foreign::TooDeep) => {
            issues.add(place, format!("expected a value, found {}", node.found()));
        }
        Node::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| integrity(item, &place.index(index), issues));
        }
        Node::Object(members) => members.iter().for_each(|(key, value)| integrity(value, &place.key(key), issues)),
        _ => {}
    }
}

fn variant(variants: &[Variant], node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    let Some(members) = object(node, place, issues) else { return };
    let found = node.get("type").and_then(Node::as_str).unwrap_or_default();
    match variants.iter().find(|variant| variant.types.contains(&found)) {
        Some(variant) => {
            unknown_keys(members, place, issues, |key| {
                key == "type" || variant.fields.iter().any(|field| field.name == key)
            });
            fields(variant.fields, node, place, issues);
        }
        None => issues.add(&place.key("type"), "expected a declared type"),
    }
}

fn task(node: &Node<'_>, place: &Place<'_>, issues: &mut Issues) {
    let Some(kind) = task_members(TASK, &["result"], node, place, issues) else { return };
    let Some(result) = node.get("result") else { return };
    let place = place.key("result");
    let Some(result_kind) = task_members(TASK_RESULT, &[], result, &place, issues) else { return };
    if kind != 0 && result_kind != 0 && kind != result_kind {
        issues.add(&place.key("kind"), "expected the kind of the task");
    }
    if let (Some(id), Some(task_id)) = (node.get("id").and_then(Node::as_str), result.get("taskId"))
        && task_id.as_str().is_some_and(|found| found != id)
    {
        issues.add(&place.key("taskId"), "expected the id of the task");
    }
}

/// Checks members that depend on `kind`; its bit, or 0 where it is none. `None` where this is no object.
fn task_members(
    table: &[TaskField],
    also: &[&str],
    node: &Node<'_>,
    place: &Place<'_>,
    issues: &mut Issues,
) -> Option<u8> {
    let members = object(node, place, issues)?;
    let name = node.get("kind").and_then(Node::as_str).unwrap_or_default();
    let kind = TASK_KINDS.iter().position(|known| *known == name).map_or(0, |at| 1 << at);
    // Where the kind itself is wrong, the members of every kind are let through.
    let belongs = |field: &&TaskField| kind == 0 || field.kinds & kind != 0;
    unknown_keys(members, place, issues, |key| {
        also.contains(&key) || table.iter().filter(belongs).any(|member| member.field.name == key)
    });
    for member in table.iter().filter(belongs) {
        fields(std::slice::from_ref(&member.field), node, place, issues);
    }
    Some(kind)
}
