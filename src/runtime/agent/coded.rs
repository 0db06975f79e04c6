//! Messages that a history can hold: checked, and already in the form a checkpoint has them in.

use crate::runtime::codec::{Value, ValueError};
use crate::runtime::message::{ChatMessage, MessageState, Role};
use crate::runtime::tool::with_unique_ids;
use crate::value::Json;
use crate::value::bounds::MAX_CONTENT;
use crate::value::text::utf16_len;

/// A message and its coded form.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CodedMessage {
    pub(super) message: ChatMessage,
    pub(super) coded: Json,
}

impl CodedMessage {
    /// Codes a message; refused where that is longer than one JSON value may be.
    pub(super) fn of(message: ChatMessage, path: &str) -> Result<Self, ValueError> {
        let coded = message.encode(path)?;
        Ok(CodedMessage { message, coded })
    }

    /// Reads a provider's reply to the call `call_id`: an assistant message, complete, its tool-call
    /// ids made unique. The error names the member that is wrong.
    pub(super) fn reply(value: &Value, call_id: &str) -> Result<Self, ValueError> {
        let mut message = ChatMessage::from_value(value, "reply")?;
        if message.role != Role::Assistant {
            let found = format!("expected 'assistant', found '{}'", message.role.as_str());
            return Err(ValueError::new("reply.role", found));
        }
        if message.state != MessageState::Complete {
            return Err(ValueError::new("reply.state", "the reply was interrupted before its end"));
        }
        if message.content.as_deref().is_some_and(|text| utf16_len(text) > MAX_CONTENT) {
            return Err(ValueError::new("reply.content", format!("longer than {MAX_CONTENT} UTF-16 units")));
        }
        (message.tool_call_id, message.name) = (None, None);
        message.tool_calls = with_unique_ids(message.tool_calls, call_id);
        CodedMessage::of(message, "reply")
    }

    /// The text; empty where there is none.
    pub(super) fn text(&self) -> &str {
        self.message.content.as_deref().unwrap_or_default()
    }

    pub(super) fn calls_tools(&self) -> bool {
        !self.message.tool_calls.is_empty()
    }
}
