//! Rendering: what a participant has not read yet, as the text of its runtime's next input.
//!
//! Whatever peers wrote stays data. A header is the only line that starts with `### `; every
//! line of content, and every line of the purpose but its first, starts with `> `, and ids are
//! printed on one line whatever they hold.

use crate::value::json::write_string;
use crate::value::quote::{continued, quoted, single_line};

/// What is shown when there is nothing new to show, so that a runtime is never called with a blank.
pub const NOTHING_NEW: &str = "(There are no new messages since your last turn.)";

/// One message of an increment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncrementMessage<'a> {
    /// Who wrote it.
    pub participant_id: &'a str,
    /// Its text, untouched.
    pub content: &'a str,
}

/// Renders the blocks (purpose on the first turn, then one per message), parted by one blank line;
/// [`NOTHING_NEW`] where there is none.
#[must_use]
pub fn render_shared_increment(purpose: Option<&str>, messages: &[IncrementMessage<'_>], first_turn: bool) -> String {
    let messages: Vec<_> = messages.iter().map(|message| (None, *message)).collect();
    render_in_rooms(purpose, &messages, first_turn)
}

/// The same for messages that stand in rooms: `### ROOM From AUTHOR`. A room's id that holds white space is
/// quoted, so that it cannot name an author.
#[must_use]
pub fn render_in_rooms(
    purpose: Option<&str>,
    messages: &[(Option<&str>, IncrementMessage<'_>)],
    first_turn: bool,
) -> String {
    let mut blocks = Vec::with_capacity(messages.len() + 1);
    if let Some(purpose) = purpose.filter(|text| first_turn && !text.is_empty()) {
        blocks.push(format!("Purpose: {}", continued(purpose)));
    }
    blocks.extend(messages.iter().map(|(room, message)| {
        let room = room.map_or_else(String::new, |room| format!("{} ", shown_room(room)));
        format!("### {room}From {}\n{}", single_line(message.participant_id), quoted(message.content))
    }));
    if blocks.is_empty() { NOTHING_NEW.to_owned() } else { blocks.join("\n\n") }
}

fn shown_room(id: &str) -> String {
    let id = single_line(id);
    if !id.chars().any(|c| c.is_whitespace() || c == '"') {
        return id;
    }
    let mut shown = String::with_capacity(id.len() + 2);
    write_string(&id, &mut shown);
    shown
}
