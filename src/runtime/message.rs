//! Chat messages: what a model reads and writes, checked member by member.

use super::codec::{self, Value, ValueError};
use super::config::MAX_TOOLS;
use crate::value::Json;
use crate::value::bounds::{MAX_ID, MAX_MESSAGE, MAX_VALUE};
use crate::value::text::utf16_len;

/// Who speaks in a private history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The rendered increments.
    User,
    /// The model.
    Assistant,
    /// The host's instructions.
    System,
    /// A tool's result.
    Tool,
}

/// Whether a message arrived whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// It did.
    Complete,
    /// It stopped before its end.
    Interrupted,
}

/// A tool call as the model asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Unique within its message.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// Its arguments, which should be JSON text and may be anything.
    pub arguments: String,
}

/// One message of a private history.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatMessage {
    /// Not empty.
    pub id: String,
    /// Who speaks.
    pub role: Role,
    /// The text; absent where the message only calls tools.
    pub content: Option<String>,
    /// When it was made, in epoch milliseconds.
    pub timestamp: f64,
    /// Whether it arrived whole.
    pub state: MessageState,
    /// The tools an assistant message calls.
    pub tool_calls: Vec<ToolCall>,
    /// Of a tool message: the call it answers.
    pub tool_call_id: Option<String>,
    /// Of a tool message: the tool's name.
    pub name: Option<String>,
    /// What the provider says about the message; usage is read from here.
    pub metadata: Option<Value>,
    /// What the provider needs to see again.
    pub parts: Option<Value>,
}

impl ChatMessage {
    /// A complete message of text.
    #[must_use]
    pub fn text(id: String, role: Role, content: String, timestamp: f64) -> Self {
        ChatMessage {
            id,
            role,
            content: Some(content),
            timestamp,
            state: MessageState::Complete,
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
            metadata: None,
            parts: None,
        }
    }

    /// The complete result of a tool call.
    #[must_use]
    pub fn tool_result(id: String, call: &ToolCall, content: String, timestamp: f64) -> Self {
        ChatMessage {
            tool_call_id: Some(call.id.clone()),
            name: Some(call.name.clone()),
            ..ChatMessage::text(id, Role::Tool, content, timestamp)
        }
    }

    /// Reads a message strictly; members it does not know are ignored.
    pub fn from_value(value: &Value, path: &str) -> Result<Self, ValueError> {
        let fields = Fields::of(value, path)?;
        let message = ChatMessage {
            id: fields.required("id", Fields::name)?,
            role: fields.required("role", Role::parse)?,
            content: fields.nullable("content", Fields::content)?,
            timestamp: fields.required("timestamp", Fields::date)?,
            state: fields.required("state", MessageState::parse)?,
            tool_calls: fields.optional("toolCalls", tool_calls)?.unwrap_or_default(),
            tool_call_id: fields.optional("toolCallId", Fields::text)?,
            name: fields.optional("name", Fields::text)?,
            metadata: fields.optional("metadata", |value, path| match value {
                Value::Object(_) => Ok(value.clone()),
                other => Err(expected("an object", other, path)),
            })?,
            parts: fields.optional("parts", |value, _| Ok(value.clone()))?,
        };
        if message.role != Role::Assistant && message.content.is_none() {
            return Err(ValueError::new(fields.path_of("content"), "missing"));
        }
        if message.role == Role::Tool && message.tool_call_id.is_none() {
            return Err(ValueError::new(fields.path_of("toolCallId"), "missing from a tool message"));
        }
        if message.role != Role::Assistant && !message.tool_calls.is_empty() {
            return Err(ValueError::new(fields.path_of("toolCalls"), "only an assistant message calls tools"));
        }
        Ok(message)
    }

    /// The message as a value; members without a value are left out, `content` excepted.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let string = |text: &str| Value::String(text.to_owned());
        let mut members = vec![
            ("id", string(&self.id)),
            ("role", string(self.role.as_str())),
            ("content", self.content.as_deref().map_or(Value::Null, string)),
            ("timestamp", Value::Date(self.timestamp)),
            ("state", string(self.state.as_str())),
        ];
        if !self.tool_calls.is_empty() {
            members.push(("toolCalls", Value::Array(self.tool_calls.iter().map(ToolCall::to_value).collect())));
        }
        let rest = [
            ("toolCallId", self.tool_call_id.as_deref().map(string)),
            ("name", self.name.as_deref().map(string)),
            ("metadata", self.metadata.clone()),
            ("parts", self.parts.clone()),
        ];
        members.extend(rest.into_iter().filter_map(|(key, value)| Some((key, value?))));
        object(members)
    }

    /// The message as a checkpoint holds it.
    pub fn encode(&self, path: &str) -> Result<Json, ValueError> {
        let coded = codec::encode(&self.to_value(), path)?;
        if utf16_len(&coded.canonical()) > MAX_MESSAGE {
            return Err(ValueError::new(path, format!("longer than {MAX_MESSAGE} UTF-16 units as JSON")));
        }
        Ok(coded)
    }

    /// Reads what [`ChatMessage::encode`] wrote.
    pub fn decode(coded: &Json, path: &str) -> Result<Self, ValueError> {
        ChatMessage::from_value(&codec::decode(coded, path)?, path)
    }
}

impl ToolCall {
    fn to_value(&self) -> Value {
        let string = |text: &str| Value::String(text.to_owned());
        let function = object(vec![("name", string(&self.name)), ("arguments", string(&self.arguments))]);
        object(vec![("id", string(&self.id)), ("type", string("function")), ("function", function)])
    }

    fn parse(value: &Value, path: &str) -> Result<Self, ValueError> {
        let fields = Fields::of(value, path)?;
        fields.required("type", |value, path| match value {
            Value::String(kind) if kind == "function" => Ok(()),
            other => Err(expected("'function'", other, path)),
        })?;
        let function = fields.required("function", |value, _| Ok(value.clone()))?;
        let at = fields.path_of("function");
        let inner = Fields::of(&function, &at)?;
        Ok(ToolCall {
            id: fields.required("id", Fields::text)?,
            name: inner.required("name", Fields::text)?,
            arguments: inner.required("arguments", Fields::content)?,
        })
    }
}

fn tool_calls(value: &Value, path: &str) -> Result<Vec<ToolCall>, ValueError> {
    let Value::Array(calls) = value else {
        return Err(expected("an array", value, path));
    };
    if calls.len() > MAX_TOOLS {
        return Err(ValueError::new(path, format!("more than {MAX_TOOLS} calls in one reply")));
    }
    calls.iter().enumerate().map(|(i, call)| ToolCall::parse(call, &format!("{path}[{i}]"))).collect()
}

/// Whether every tool call is answered exactly once, in order, before anyone speaks again.
pub fn check_closed(messages: &[ChatMessage], path: &str) -> Result<(), ValueError> {
    let mut open: std::collections::VecDeque<&str> = std::collections::VecDeque::new();
    for (index, message) in messages.iter().enumerate() {
        let at = || format!("{path}[{index}]");
        if message.role == Role::Tool {
            if open.pop_front() != message.tool_call_id.as_deref() {
                return Err(ValueError::new(at(), "a tool result that answers no open call"));
            }
            continue;
        }
        if !open.is_empty() {
            return Err(ValueError::new(at(), "follows a tool call without a result"));
        }
        open.extend(message.tool_calls.iter().map(|call| call.id.as_str()));
    }
    if open.is_empty() { Ok(()) } else { Err(ValueError::new(path, "ends with a tool call without a result")) }
}

impl Role {
    /// The name in messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::System => "system",
            Role::Tool => "tool",
        }
    }

    fn parse(value: &Value, path: &str) -> Result<Self, ValueError> {
        match value {
            Value::String(text) if text == "user" => Ok(Role::User),
            Value::String(text) if text == "assistant" => Ok(Role::Assistant),
            Value::String(text) if text == "system" => Ok(Role::System),
            Value::String(text) if text == "tool" => Ok(Role::Tool),
            other => Err(expected("'user', 'assistant', 'system' or 'tool'", other, path)),
        }
    }
}

impl MessageState {
    /// The name in messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            MessageState::Complete => "complete",
            MessageState::Interrupted => "interrupted",
        }
    }

    fn parse(value: &Value, path: &str) -> Result<Self, ValueError> {
        match value {
            Value::String(text) if text == "complete" => Ok(MessageState::Complete),
            Value::String(text) if text == "interrupted" => Ok(MessageState::Interrupted),
            other => Err(expected("'complete' or 'interrupted'", other, path)),
        }
    }
}

/// The members of an object and where it stands.
struct Fields<'a> {
    object: &'a Value,
    path: &'a str,
}

impl<'a> Fields<'a> {
    fn of(object: &'a Value, path: &'a str) -> Result<Self, ValueError> {
        match object {
            Value::Object(_) => Ok(Fields { object, path }),
            other => Err(expected("an object", other, path)),
        }
    }

    fn path_of(&self, key: &str) -> String {
        format!("{}.{key}", self.path)
    }

    fn required<T>(&self, key: &str, read: impl Fn(&Value, &str) -> Result<T, ValueError>) -> Result<T, ValueError> {
        self.optional(key, read)?.ok_or_else(|| ValueError::new(self.path_of(key), "missing"))
    }

    fn optional<T>(
        &self,
        key: &str,
        read: impl Fn(&Value, &str) -> Result<T, ValueError>,
    ) -> Result<Option<T>, ValueError> {
        self.object.get(key).map(|value| read(value, &self.path_of(key))).transpose()
    }

    fn nullable<T>(
        &self,
        key: &str,
        read: impl Fn(&Value, &str) -> Result<T, ValueError>,
    ) -> Result<Option<T>, ValueError> {
        let value = self.object.get(key).filter(|value| **value != Value::Null);
        value.map(|value| read(value, &self.path_of(key))).transpose()
    }

    /// A text of the length of an id that is not empty.
    fn name(value: &Value, path: &str) -> Result<String, ValueError> {
        match Fields::text(value, path)? {
            text if text.is_empty() => Err(ValueError::new(path, "empty")),
            text => Ok(text),
        }
    }

    fn text(value: &Value, path: &str) -> Result<String, ValueError> {
        bounded(value, path, MAX_ID)
    }

    fn content(value: &Value, path: &str) -> Result<String, ValueError> {
        bounded(value, path, MAX_VALUE)
    }

    fn date(value: &Value, path: &str) -> Result<f64, ValueError> {
        match value {
            Value::Date(ms) if ms.is_finite() => Ok(*ms),
            Value::Date(_) => Err(ValueError::new(path, "an invalid date")),
            other => Err(expected("a date", other, path)),
        }
    }
}

fn bounded(value: &Value, path: &str, max: usize) -> Result<String, ValueError> {
    match value {
        Value::String(text) if utf16_len(text) <= max => Ok(text.clone()),
        Value::String(_) => Err(ValueError::new(path, format!("longer than {max} UTF-16 units"))),
        other => Err(expected("a string", other, path)),
    }
}

fn expected(what: &str, found: &Value, path: &str) -> ValueError {
    let found = match found {
        Value::String(_) if what.starts_with('\'') => "another string",
        other => other.type_name(),
    };
    ValueError::new(path, format!("expected {what}, found {found}"))
}

fn object(members: Vec<(&str, Value)>) -> Value {
    Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}
