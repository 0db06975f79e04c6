//! The records of an execution, read back strictly: of this session and execution, each id once.

use crate::runtime::codec::{self, Value};
use crate::value::Json;
use std::collections::HashMap;

/// One record as far as rebuilding needs it.
#[derive(Clone, Debug, PartialEq)]
pub enum Recorded {
    /// The execution began with this input.
    Start {
        /// The turn.
        turn_id: String,
        /// The rendered increment.
        input: String,
    },
    /// A model call was about to be made.
    Request {
        /// The call.
        call_id: String,
        /// The provider it was admitted under.
        provider_id: String,
        /// The model.
        model_id: String,
    },
    /// A model call gave no reply.
    Failure,
    /// The model or its cache replied.
    Reply {
        /// The call.
        call_id: String,
        /// The message, unchecked.
        response: Value,
        /// Whether it is the cache's, which has no request before it.
        cached: bool,
    },
    /// A tool was about to run.
    Intent {
        /// The call.
        tool_call_id: String,
        /// The tool.
        tool_name: String,
        /// What it was called with.
        arguments: Json,
        /// The key it was given.
        idempotency_key: String,
    },
    /// A tool call has its result.
    Result {
        /// The call.
        tool_call_id: String,
        /// The result.
        result: Json,
    },
    /// A request was answered.
    Answer(RecordedAnswer),
}

/// An answer on record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedAnswer {
    /// The request.
    pub request_id: String,
    /// The answer's own id.
    pub response_id: String,
    /// Whether the call may be made.
    pub approved: bool,
    /// What the approver said.
    pub reason: Option<String>,
}

impl RecordedAnswer {
    /// Whether a request would have two answers, or two requests one.
    #[must_use]
    pub fn excludes(&self, other: &RecordedAnswer) -> bool {
        self.request_id == other.request_id || self.response_id == other.response_id
    }
}

/// Reads coded records in their order. A record that is there twice counts once; the error says which
/// record is wrong, and how, without showing it.
pub fn read_records(session_id: &str, execution_id: &str, records: &[Json]) -> Result<Vec<Recorded>, String> {
    let mut seen: HashMap<String, String> = HashMap::new();
    let mut read = Vec::with_capacity(records.len());
    for (index, coded) in records.iter().enumerate() {
        let path = format!("records[{index}]");
        let record = codec::decode(coded, &path).map_err(|error| error.to_string())?;
        let fields = Fields { record: &record, path: &path };
        let (id, text) = (fields.text("id")?, coded.canonical());
        match seen.get(&id) {
            Some(earlier) if *earlier == text => continue,
            Some(_) => return Err(format!("{path}.id: another record has it")),
            None => seen.insert(id, text),
        };
        if fields.text("executionId")? != execution_id {
            return Err(format!("{path}.executionId: another execution"));
        }
        if fields.text("sessionId")? != session_id {
            return Err(format!("{path}.sessionId: another session"));
        }
        read.push(fields.recorded()?);
    }
    Ok(read)
}

struct Fields<'a> {
    record: &'a Value,
    path: &'a str,
}

impl Fields<'_> {
    fn recorded(&self) -> Result<Recorded, String> {
        Ok(match self.text("kind")?.as_str() {
            "execution-start" => Recorded::Start { turn_id: self.text("turnId")?, input: self.text("input")? },
            "model-request" => Recorded::Request {
                call_id: self.text("callId")?,
                provider_id: self.text("providerId")?,
                model_id: self.text("modelId")?,
            },
            "model-failure" => Recorded::Failure,
            kind @ ("model-response" | "model-cache-hit") => Recorded::Reply {
                call_id: self.text("callId")?,
                response: self.value("response")?.clone(),
                cached: kind == "model-cache-hit",
            },
            "tool-intent" => Recorded::Intent {
                tool_call_id: self.text("toolCallId")?,
                tool_name: self.text("toolName")?,
                arguments: self.json("arguments")?,
                idempotency_key: self.text("idempotencyKey")?,
            },
            "tool-result" => Recorded::Result { tool_call_id: self.text("toolCallId")?, result: self.json("result")? },
            "answer" => Recorded::Answer(RecordedAnswer {
                request_id: self.text("requestId")?,
                response_id: self.text("responseId")?,
                approved: match self.value("approved")? {
                    Value::Bool(approved) => *approved,
                    _ => return self.refuse("approved", "expected true or false"),
                },
                reason: self.record.get("reason").map(|_| self.text("reason")).transpose()?,
            }),
            _ => return self.refuse("kind", "not a known kind"),
        })
    }

    fn value(&self, key: &str) -> Result<&Value, String> {
        self.record.get(key).map_or_else(|| self.refuse(key, "missing"), Ok)
    }

    fn text(&self, key: &str) -> Result<String, String> {
        match self.value(key)? {
            Value::String(text) => Ok(text.clone()),
            _ => self.refuse(key, "expected a string"),
        }
    }

    fn json(&self, key: &str) -> Result<Json, String> {
        let plain = self.value(key)?.to_plain();
        plain.map_or_else(|| self.refuse(key, "a date where JSON is expected"), Ok)
    }

    fn refuse<T>(&self, key: &str, problem: &str) -> Result<T, String> {
        Err(format!("{}.{key}: {problem}", self.path))
    }
}
