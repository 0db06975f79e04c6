//! The published transcript as a text for people, or for other programs. It reads a snapshot and nothing
//! else, so what is private cannot get into it; the same snapshot gives the same bytes.

use crate::value::JsonError;
use crate::value::quote::{code_span, json_line, quoted_markdown};
use crate::value::read::read;
use crate::value::write::write;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::rc::Rc;

/// The forms a transcript has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people. The lines that start with `#` are headers of the transcript's own, whatever was said.
    Markdown,
    /// For programs: one line for the conversation, one for each message, one for each turn, told apart by
    /// `type`. Nothing is lost.
    JsonLines,
}

/// The transcript of a snapshot, given as JSON. Every line of it ends with LF. The error says what the
/// snapshot lacks.
pub fn transcript(snapshot: &str, format: Format) -> Result<String, JsonError> {
    let snapshot: Snapshot = read(snapshot)?;
    match format {
        Format::Markdown => Ok(markdown(&snapshot)),
        Format::JsonLines => json_lines(&snapshot),
    }
}

/// What is exported of a snapshot; whatever else it has is passed over.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot {
    conversation_id: Rc<str>,
    revision: u64,
    status: Rc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    purpose: Option<Rc<str>>,
    participants: Vec<Participant>,
    #[serde(skip_serializing)]
    messages: Vec<Message>,
    #[serde(skip_serializing)]
    turns: Vec<Turn>,
}

#[derive(Serialize, Deserialize)]
struct Participant {
    id: Rc<str>,
    kind: Rc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<Rc<str>>,
}

/// A message, as any kind of conversation shows it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    id: Rc<str>,
    participant_id: Rc<str>,
    content: Rc<str>,
    revision: u64,
    turn_id: Rc<str>,
    group_id: Rc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    room_id: Option<Rc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mentions: Option<Vec<Rc<str>>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Turn {
    id: Rc<str>,
    group_id: Rc<str>,
    participant_id: Rc<str>,
    outcome: Rc<str>,
    started_at: Rc<str>,
    settled_at: Rc<str>,
}

fn markdown(snapshot: &Snapshot) -> String {
    let Snapshot { conversation_id, revision, status, purpose, participants, messages, .. } = snapshot;
    let mut text = format!("# Conversation {}\n\n", code_span(conversation_id));
    let names: Vec<_> = participants.iter().map(|p| code_span(&p.id)).collect();
    let (status, names) = (code_span(status), names.join(", "));
    // Writing to a string cannot fail.
    let _ = write!(text, "- Revision: {revision}\n- Status: {status}\n- Participants: {names}\n");
    if let Some(purpose) = purpose {
        let _ = write!(text, "\nPurpose:\n\n{}\n", quoted_markdown(purpose));
    }
    for (index, message) in messages.iter().enumerate() {
        let _ = write!(text, "\n## {}. {}", index + 1, code_span(&message.participant_id));
        if let Some(room) = &message.room_id {
            let _ = write!(text, " in {}", code_span(room));
        }
        let _ = write!(text, "\n\n{}\n", quoted_markdown(&message.content));
    }
    text
}

fn json_lines(snapshot: &Snapshot) -> Result<String, JsonError> {
    let mut text = line("conversation", snapshot)?;
    for message in &snapshot.messages {
        text.push_str(&line("message", message)?);
    }
    for turn in &snapshot.turns {
        text.push_str(&line("turn", turn)?);
    }
    Ok(text)
}

/// One object with members, its type put before them.
fn line(kind: &str, object: &impl Serialize) -> Result<String, JsonError> {
    let json = write(object)?;
    Ok(format!("{{\"type\":\"{kind}\",{}\n", json_line(json.strip_prefix('{').unwrap_or(&json))))
}
