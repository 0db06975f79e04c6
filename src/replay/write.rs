//! Writes entries that the decoder accepts: redacted, checked, envelope last, long values outside the line.

use super::entry::{ENVELOPE, EntryChecks};
use super::error::DecodeError;
use super::hydrate::{hex_sha256, holds_references};
use super::issue::Place;
use super::node::{Node, REFERENCE_KIND};
use super::redact::Redaction;
use super::vocabulary::EventKind;
use crate::value::instant::format_iso;
use crate::value::json::{MAX_DEPTH, write_string};
use std::borrow::Cow;

/// The longest JSON text of one value, in bytes, that stays in its line.
pub const MAX_INLINE_BYTES: usize = 32_768;

/// How much of `text_delta` entries is held back at most, in bytes.
pub const DELTA_BUFFER_BYTES: usize = 64 << 10;

/// What a host is to write, in this order: the sidecars, then the text at the end of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WritePlan {
    /// Files beside the log; their names are digests, so one that is there already is right.
    pub sidecars: Vec<Sidecar>,
    /// Whole lines; may be empty.
    pub text: String,
}

/// A value outside its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sidecar {
    /// Where it goes, relative to the log's directory.
    pub relative_path: String,
    /// Its JSON text.
    pub text: String,
}

/// Turns the events of one session into what is to be written.
#[derive(Debug)]
pub struct LogWriter {
    session_id: String,
    redaction: Redaction,
    held_back: String,
}

impl LogWriter {
    /// A writer for that session; `None` where the id is no 1 to 128 of `A-Za-z0-9._-`, the first of them a
    /// letter or digit: it becomes the name of a file.
    #[must_use]
    pub fn new(session_id: &str, redaction: Redaction) -> Option<LogWriter> {
        let rest = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let safe = session_id.len() <= 128
            && session_id.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
            && session_id.bytes().all(rest);
        safe.then(|| LogWriter { session_id: session_id.to_owned(), redaction, held_back: String::new() })
    }

    /// Plans one event that happened at `at_ms`. Streamed text is held back until another event, a flush or
    /// [`DELTA_BUFFER_BYTES`]. The path of an issue begins with `entry`; nothing is planned then.
    pub fn log(&mut self, event: &str, payload: Node<'_>, at_ms: f64) -> Result<WritePlan, DecodeError> {
        let mut sidecars = Vec::new();
        let node = entry(event, payload, &self.session_id, at_ms, &self.redaction)?;
        write_entry(&node, &self.session_id, &mut self.held_back, &mut sidecars);
        let hold = event == EventKind::TextDelta.name() && self.held_back.len() < DELTA_BUFFER_BYTES;
        Ok(WritePlan { sidecars, text: if hold { String::new() } else { self.flush() } })
    }

    /// Lines that were held back.
    pub fn flush(&mut self) -> String {
        std::mem::take(&mut self.held_back)
    }
}

/// Makes a checked entry of a payload. Its envelope comes last and wins over members of the same names.
pub(super) fn entry<'a>(
    event: &str,
    mut payload: Node<'a>,
    session_id: &str,
    at_ms: f64,
    redaction: &Redaction,
) -> Result<Node<'a>, DecodeError> {
    let place = Place::root("entry");
    let mut checks = EntryChecks::default();
    settle_dates(&mut payload);
    redaction.payload(&mut payload);
    if holds_references(&payload) {
        checks.issues.add(&place, "expected plain data, found an object that looks like an external payload");
    }
    if payload.depth() > MAX_DEPTH {
        checks.issues.add(&place, format!("expected a value nested at most {MAX_DEPTH} deep"));
    }
    if let Node::Object(members) = &mut payload {
        members.retain(|(key, _)| !ENVELOPE.contains(&key.as_ref()));
        let owned = |text: &str| Node::String(Cow::Owned(text.to_owned()));
        let timestamp = format_iso(at_ms).map_or(Node::Null, |text| owned(&text));
        let values = [Node::Number(1.0), timestamp, owned(session_id), owned(event)];
        members.extend(ENVELOPE.into_iter().map(Cow::Borrowed).zip(values));
    }
    checks.entry(0, &payload, &place);
    checks.verdict(EntryChecks::default())?;
    Ok(payload)
}

/// Live dates become ISO 8601 text; an invalid one stays and is refused.
fn settle_dates(node: &mut Node<'_>) {
    match node {
        Node::Date(ms) => {
            if let Some(text) = format_iso(*ms) {
                *node = Node::String(Cow::Owned(text));
            }
        }
        Node::Array(items) => items.iter_mut().for_each(settle_dates),
        Node::Object(members) => members.iter_mut().for_each(|(_, value)| settle_dates(value)),
        _ => {}
    }
}

fn write_entry(entry: &Node<'_>, session_id: &str, out: &mut String, sidecars: &mut Vec<Sidecar>) {
    let Node::Object(members) = entry else { return };
    out.push('{');
    for (index, (key, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(key, out);
        out.push(':');
        write_value(value, session_id, out, sidecars);
    }
    out.push_str("}\n");
}

/// Writes a value, or a reference to it where its text is too long. The values in it go first, so that only
/// what is long by itself, or by the number of its parts, leaves the line.
fn write_value(value: &Node<'_>, session_id: &str, out: &mut String, sidecars: &mut Vec<Sidecar>) {
    let start = out.len();
    match value {
        Node::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item, session_id, out, sidecars);
            }
            out.push(']');
        }
        Node::Object(members) => {
            out.push('{');
            for (index, (key, item)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_value(item, session_id, out, sidecars);
            }
            out.push('}');
        }
        leaf => leaf.write(out),
    }
    if out.len() - start > MAX_INLINE_BYTES {
        let text = out.split_off(start);
        let digest = hex_sha256(text.as_bytes());
        let relative_path = format!("{session_id}.payloads/{digest}.json");
        out.push_str(&format!(
            "{{\"kind\":\"{REFERENCE_KIND}\",\"encoding\":\"json\",\"sha256\":\"{digest}\",\"byteLength\":{},\
             \"relativePath\":\"{relative_path}\"}}",
            text.len()
        ));
        sidecars.push(Sidecar { relative_path, text });
    }
}
