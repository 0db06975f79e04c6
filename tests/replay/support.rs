//! What the replay tests share: one payload for each event, and short ways to decode.

use agent_roundtable::replay::{
    DecodeError, EventKind, LoadError, LogLoader, Node, PayloadError, PayloadLimits, PayloadSource, SessionLog,
};
use serde_json::{Value, json};
use std::collections::HashMap;

pub const AT: &str = "2027-01-05T08:00:01.000Z";

/// The envelope of an entry of that event, with the payload's members.
pub fn entry(event: &str, payload: Value) -> Value {
    let mut entry = json!({"schemaVersion": 1, "timestamp": AT, "sessionId": "s", "event": event});
    for (key, value) in payload.as_object().unwrap() {
        entry[key] = value.clone();
    }
    entry
}

pub fn message() -> Value {
    json!({"id": "m1", "role": "assistant", "state": "complete", "timestamp": AT, "content": "ok"})
}

pub fn response(execution: &str, round: u32, message: Value) -> Value {
    entry("provider_response_normalized", json!({"executionId": execution, "round": round, "response": message}))
}

pub fn said(id: &str, content: &str) -> Value {
    json!({"id": id, "role": "assistant", "state": "complete", "timestamp": AT, "content": content})
}

pub fn lines(entries: &[Value]) -> String {
    entries.iter().map(|entry| format!("{entry}\n")).collect()
}

/// One valid payload for each event, and a field of it that must not be null.
pub fn payloads() -> Vec<(&'static str, Value, &'static str)> {
    let context = json!({"maxTokens": 100, "usedTokens": 20, "usedPercentage": 20.5, "remainingPercentage": 79.5});
    let tool = json!({"name": "Clock", "description": "time", "parameters": {"type": "object",
        "properties": {"city": {"type": "string", "enum": ["a", 1, true], "default": null}, "list": {"type": "array", "items": {"type": "integer"}}},
        "additionalProperties": {"anyOf": [{"type": "null"}]}, "required": ["city"]}, "outputSchema": {"type": "string"}});
    let task = json!({"id": "t1", "kind": "agent", "label": "l", "status": "running", "mode": "background", "parentSessionId": "s",
        "depth": 1, "cwd": "/w", "updatedAt": AT, "unread": false, "isolation": "worktree", "metadata": {"a": 1},
        "result": {"taskId": "t1", "kind": "agent", "output": "o", "usage": {"promptTokens": 1, "completionTokens": 2, "totalTokens": 3},
            "deniedToolCalls": {"total": 1, "byReason": {"policy": 1}}}});
    let group = json!({"type": "background_job_group_created", "group": {"id": "g1", "parentSessionId": "s", "waitPolicy": "manual",
        "taskIds": ["t1"], "status": "running", "createdAt": AT, "updatedAt": AT,
        "results": [{"taskId": "t1", "label": "l", "status": "failed", "error": {"category": "crash", "message": "m", "recoverable": true}}]}});
    let call = |rest: Value| {
        let mut call = json!({"executionId": "x", "conversationId": "c", "round": 1});
        rest.as_object().unwrap().iter().for_each(|(key, value)| call[key] = value.clone());
        call
    };
    vec![
        (
            "session_init",
            json!({"cwd": "/w", "systemPromptLength": 1, "systemPrompt": "x", "toolSchemas": [tool], "model": "m", "provider": "p"}),
            "toolSchemas",
        ),
        ("session_shutdown", json!({"reason": "done"}), "reason"),
        ("session_shutdown_step_error", json!({"step": "persist", "error": "failed"}), "step"),
        ("context", context.clone(), "maxTokens"),
        ("context_compact", json!({"trigger": "auto", "before": context, "after": context}), "before"),
        ("error", json!({"message": "failed", "stack": "", "historyLength": 0}), "historyLength"),
        (
            "history_mutation",
            json!({"mutation": "append_message", "index": 0, "message": message(), "providerError": true, "round": 2}),
            "message",
        ),
        (
            "provider_request",
            call(
                json!({"provider": "p", "model": "m", "messages": [message()], "tools": [tool], "forcedSummary": true}),
            ),
            "messages",
        ),
        (
            "provider_native_raw_payload",
            call(
                json!({"provider": "p", "payloadKind": "response", "sequence": 0, "payload": {"sdk": [1, true, null]}}),
            ),
            "payloadKind",
        ),
        ("provider_stream_raw_delta", call(json!({"sequence": 0, "delta": "x"})), "sequence"),
        ("provider_response_raw", call(json!({"response": message(), "responseKind": "message"})), "response"),
        ("provider_response_normalized", call(json!({"response": message(), "toolCallsCount": 0})), "response"),
        (
            "structured_output_transport",
            call(
                json!({"provider": "p", "model": "m", "mechanism": "response_schema", "provenance": "catalog", "sent": true, "schemaInPrompt": false}),
            ),
            "mechanism",
        ),
        (
            "provider_fallback",
            call(json!({"fromProvider": "p", "fromModel": "m", "toProvider": "q", "toModel": "n", "reason": "busy"})),
            "reason",
        ),
        ("assistant_message_committed", call(json!({"message": message()})), "message"),
        (
            "tool_execution_request",
            call(
                json!({"toolName": "Clock", "toolCallId": "c1", "parameters": {"path": "a"}, "ownerPath": [{"type": "agent", "id": "root"}]}),
            ),
            "parameters",
        ),
        (
            "tool_execution_result",
            call(json!({"toolName": "Clock", "toolCallId": "c1", "success": true, "result": {"ok": true}})),
            "success",
        ),
        (
            "tool_batch_started",
            call(json!({"mode": "parallel", "maxConcurrency": 5, "requestCount": 1, "tools": ["Clock"]})),
            "tools",
        ),
        (
            "tool_message_committed",
            call(
                json!({"message": {"id": "t", "role": "tool", "state": "complete", "timestamp": AT, "content": "x", "toolCallId": "c1"}}),
            ),
            "message",
        ),
        (
            "background_task_event",
            json!({"backgroundEvent": {"type": "background_task_updated", "task": task}}),
            "backgroundEvent",
        ),
        ("background_job_group_event", json!({"backgroundJobGroupEvent": group}), "backgroundJobGroupEvent"),
        (
            "memory_event",
            json!({"memoryEvent": {"type": "memory_candidate_queued", "at": AT, "data": {"any": []}}}),
            "memoryEvent",
        ),
        ("user", json!({"content": "hello"}), "content"),
        (
            "pre_run",
            json!({"historyLength": 1, "historyChars": 100, "historyEstTokens": 25, "input": "hello", "history": [message()], "model": "m", "provider": "p", "maxTokens": 1000,
            "nativeWebSearchSupported": false, "nativeWebSearchEnabled": false, "nativeWebFetchSupported": false, "nativeWebFetchEnabled": false}),
            "history",
        ),
        ("text_delta", json!({"delta": "x"}), "delta"),
        (
            "assistant",
            json!({"content": "ok", "historyLength": 1, "estimatedChars": 100, "history": [message()],
            "historyStructure": [{"role": "assistant", "contentLength": 2, "hasToolCalls": false, "toolCallNames": [], "metadata": {"any": null}}]}),
            "historyStructure",
        ),
        ("tool_call", json!({"tool": "Clock", "args": {"path": "a"}}), "args"),
        ("tool_result", json!({"tool": "Clock", "success": true, "dataChars": 1, "truncated": false}), "dataChars"),
        ("tool_blocked", json!({"tool": "Clock", "reason": "hook"}), "reason"),
        ("tool_denied", json!({"tool": "Clock", "reason": "permission"}), "reason"),
        ("server_tool", json!({"tool": "web", "query": "find", "depth": [1]}), "tool"),
    ]
}

pub fn every_event() -> Vec<Value> {
    assert_eq!(payloads().len(), EventKind::ALL.len());
    payloads().into_iter().map(|(event, payload, _)| entry(event, payload)).collect()
}

pub fn load(text: &str) -> Result<SessionLog, LoadError> {
    LogLoader::from_text(text.to_owned(), PayloadLimits::default(), false)?.run(None)
}

pub fn load_error(text: &str) -> DecodeError {
    match load(text) {
        Err(LoadError::Decode(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Decodes a list of entries directly.
pub fn decode(entries: &Value) -> Result<SessionLog, DecodeError> {
    SessionLog::decode(&Node::parse(&entries.to_string()).unwrap())
}

pub fn decode_error(entries: &Value) -> DecodeError {
    decode(entries).expect_err("must be refused")
}

pub fn paths(error: &DecodeError) -> Vec<&str> {
    error.issues.iter().map(|issue| issue.path.as_str()).collect()
}

pub fn entries(log: &SessionLog) -> Vec<Value> {
    (0..log.len()).map(|at| serde_json::from_str(&log.json(at).unwrap()).unwrap()).collect()
}

/// Payloads in memory; notes what it was asked for.
#[derive(Default)]
pub struct Memory {
    pub files: HashMap<String, Vec<u8>>,
    pub reads: Vec<(String, u64)>,
}

impl Memory {
    pub fn with(files: &[(&str, &[u8])]) -> Memory {
        let files = files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect();
        Memory { files, reads: Vec::new() }
    }
}

impl PayloadSource for Memory {
    fn read_bytes(&mut self, relative_path: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, PayloadError> {
        self.reads.push((relative_path.to_owned(), max_bytes));
        Ok(self.files.get(relative_path).cloned())
    }
}

/// A reference to a payload of those bytes.
pub fn reference(path: &str, bytes: &[u8]) -> Value {
    use sha2::Digest;
    let digest: String = sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"kind": "external-payload", "encoding": "json", "sha256": digest, "byteLength": bytes.len(), "relativePath": path})
}

pub fn load_with(text: &str, limits: PayloadLimits, source: &mut Memory) -> Result<SessionLog, LoadError> {
    LogLoader::from_text(text.to_owned(), limits, true)?.run(Some(source))
}

pub fn payload_error(result: Result<SessionLog, LoadError>) -> PayloadError {
    match result {
        Err(LoadError::Payload(error)) => error,
        other => panic!("{other:?}"),
    }
}

pub fn fixture(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/fixtures/session-logs/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}
