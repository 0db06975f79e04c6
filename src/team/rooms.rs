//! Rooms as files: one line for each message, from which no text, id or control character can make
//! another. A twin in JSON Lines says the same to programs, and an index names them.

use super::state::{Message, State};
use crate::value::json::write_string;
use crate::value::write::write;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// One room, rendered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoomFile {
    /// The room.
    pub room_id: String,
    /// Its file's name without an ending; nothing of an id is in it.
    pub name: String,
    /// One line for each message; empty for an empty room.
    pub text: String,
    /// The same as JSON Lines.
    pub jsonl: String,
}

/// All rooms of a team, in declared order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rooms {
    /// The revision they show.
    pub revision: u64,
    /// The name of the file that lists them, without an ending.
    pub index: String,
    /// The rooms.
    pub rooms: Vec<RoomFile>,
}

impl State {
    /// Renders the rooms. `identity` tells the store from every other.
    #[must_use]
    pub fn render_rooms(&self, revision: u64, identity: &str) -> Rooms {
        let run_id = &*self.created.run_id;
        let rooms = self.definition.rooms().iter().zip(&self.rooms).map(|(room, messages)| {
            let (mut text, mut jsonl) = (String::new(), String::new());
            for message in messages.iter().filter_map(|at| self.messages.get(*at)) {
                text.push_str(&line(message));
                // The engine's own shapes cannot fail to be written.
                jsonl.push_str(&escaped_json(&write(&**message).unwrap_or_default()));
                jsonl.push('\n');
            }
            let name = format!("room-{}", digest(&[identity, run_id, &room.id]));
            RoomFile { room_id: room.id.to_string(), name, text, jsonl }
        });
        Rooms { revision, index: format!("rooms-{}", digest(&[identity, run_id])), rooms: rooms.collect() }
    }
}

/// `sender [messageId] @m1 @m2: text` and a line end.
#[must_use]
pub fn line(message: &Message) -> String {
    let mut line = format!("{} [{}]", shown_id(&message.sender), shown_id(&message.id));
    for mention in &message.mentions {
        line.push_str(" @");
        line.push_str(&shown_id(mention));
    }
    line.push_str(": ");
    line.push_str(&escaped(&message.text));
    line.push('\n');
    line
}

/// An id as it is, or in quotes where it could be taken for part of the line around it.
fn shown_id(id: &str) -> String {
    if id.chars().all(|c| !c.is_whitespace() && !matches!(c, '[' | ']' | '@' | ':' | '"')) {
        return escaped(id);
    }
    format!("\"{}\"", escaped(id).replace('"', "\\\""))
}

/// A text on one line, with nothing in it that a terminal obeys or a reader cannot see.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_hidden(c) => push_unicode(c, &mut out),
            c => out.push(c),
        }
    }
    out
}

/// JSON text with the same characters escaped in its strings; they stand nowhere else in it.
fn escaped_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) { push_unicode(c, &mut out) } else { out.push(c) }
    }
    out
}

/// Controls, line separators, and characters that turn the reading direction or show as nothing.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{61c}' | '\u{feff}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}')
}

fn push_unicode(c: char, out: &mut String) {
    // Writing to a string cannot fail.
    let _ = write!(out, "\\u{:04x}", c as u32);
}

/// The hexadecimal SHA-256 of a JSON list of texts.
fn digest(parts: &[&str]) -> String {
    let mut json = String::from("[");
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            json.push(',');
        }
        write_string(part, &mut json);
    }
    json.push(']');
    Sha256::digest(json.as_bytes()).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
