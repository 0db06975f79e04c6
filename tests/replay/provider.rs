//! The replay provider and what is read off a log beside it: acceptance rows 1 to 8, 17 and 31 to 35, matching,
//! deltas, usage and exhaustion.

use super::support::*;
use agent_roundtable::replay::*;
use serde_json::{Value, json};
use std::rc::Rc;

fn provider(entries: &[Value], options: ReplayOptions) -> ReplayProvider {
    ReplayProvider::new(Rc::new(load(&lines(entries)).unwrap()), options)
}

fn ordered(entries: &[Value]) -> ReplayProvider {
    provider(entries, ReplayOptions::default())
}

fn ask(provider: &mut ReplayProvider, request: &Value) -> Result<Value, ReplayError> {
    let reply = provider.call(&Node::parse(&request.to_string()).unwrap())?;
    Ok(serde_json::from_str(&reply.message.json).unwrap())
}

fn request(execution: &str, round: u32, model: &str, content: &str) -> Value {
    let message = json!({"id": "u", "role": "user", "state": "complete", "timestamp": AT, "content": content});
    let payload =
        json!({"executionId": execution, "round": round, "provider": "p", "model": model, "messages": [message]});
    entry("provider_request", payload)
}

/// A live request: other ids and dates than the recorded one.
fn live(model: &str, content: &str) -> Value {
    json!({"model": model, "messages": [{"id": "other", "role": "user", "state": "complete", "content": content}], "tools": []})
}

#[test]
fn r01_one_response_and_then_exhaustion() {
    let mut one = message();
    one["timestamp"] = json!("2027-01-05T09:00:01+01:00");
    let mut provider = ordered(&[response("x", 1, one)]);
    let reply = provider.call(&Node::Null).unwrap();
    assert_eq!(reply.message.timestamp_ms, 1_799_136_001_000.0);
    assert_eq!(serde_json::from_str::<Value>(&reply.message.json).unwrap(), message());
    let error = provider.call(&Node::Null).unwrap_err();
    assert_eq!(error, ReplayError::LogExhausted { call: 2, total: 1 });
    assert!(error.to_string().contains("exhausted"));
    assert_eq!(provider.call(&Node::Null).unwrap_err(), error);
}

#[test]
fn r02_tool_call_and_text_come_in_order() {
    let log = load(&fixture("valid-2-tool-turn.jsonl")).unwrap();
    let mut provider = ReplayProvider::new(Rc::new(log), ReplayOptions::default());
    assert_eq!(provider.recorded_response_count(), 2);
    let first = ask(&mut provider, &Value::Null).unwrap();
    assert_eq!(first["toolCalls"][0]["function"]["arguments"], "{\"city\":\"Oslo\"}");
    assert_eq!(first["content"], Value::Null);
    assert_eq!(ask(&mut provider, &Value::Null).unwrap()["content"], "It is 09:00.");
}

#[test]
fn r03_diagnostics_alone_hold_no_response() {
    let log: Vec<_> = every_event().into_iter().filter(|e| e["event"] != "provider_response_normalized").collect();
    assert_eq!(ordered(&log).recorded_response_count(), 0);
}

#[test]
fn r06_hydrated_content_is_replayed() {
    let mut said = message();
    said["content"] = reference("a.json", b"\"far away\"");
    let text = lines(&[response("x", 1, said)]);
    let log = load_with(&text, PayloadLimits::default(), &mut Memory::with(&[("a.json", b"\"far away\"")])).unwrap();
    let mut provider = ReplayProvider::new(Rc::new(log), ReplayOptions::default());
    assert_eq!(ask(&mut provider, &Value::Null).unwrap()["content"], "far away");
}

#[test]
fn r08_an_unknown_role_is_refused_not_skipped() {
    let mut bad = message();
    bad["role"] = json!("robot");
    let error = load_error(&lines(&[response("x", 1, bad), response("x", 2, message())]));
    assert_eq!((error.code, paths(&error)), (DecodeCode::InvalidEvent, vec!["line 1.response.role"]));
}

#[test]
fn r31_history_is_rebuilt_in_order() {
    let append = |at: u32, id: &str, when: &str| {
        let mut line =
            entry("history_mutation", json!({"mutation": "append_message", "index": at, "message": said(id, id)}));
        line["timestamp"] = json!(when);
        line
    };
    let mut all = vec![append(0, "a", "2027-01-05T08:00:00"), append(1, "b", "2027-01-05T08:00:09")];
    all.splice(1..1, every_event());
    let history = rebuild_history(&load(&lines(&all)).unwrap());
    let ids: Vec<_> =
        history.messages.iter().map(|m| serde_json::from_str::<Value>(&m.json).unwrap()["id"].clone()).collect();
    assert_eq!(ids, ["a", "m1", "b"]);
    assert_eq!((history.session_id.as_deref(), history.cwd.as_deref()), (Some("s"), Some("/w")));
    assert_eq!(history.created_at.as_deref(), Some("2027-01-05T08:00:00"));
    assert_eq!(history.updated_at.as_deref(), Some("2027-01-05T08:00:09"));
    let counts =
        (history.background_task_events.len(), history.background_job_group_events.len(), history.memory_events.len());
    assert_eq!(counts, (1, 1, 1));
    let data = entry("memory_event", json!({"data": {"type": "memory_retrieved", "at": AT}}));
    assert!(rebuild_history(&load(&lines(&[data])).unwrap()).memory_events[0].contains("memory_retrieved"));
}

fn codes(entries: &[Value]) -> Vec<&'static str> {
    completeness(&load(&lines(entries)).unwrap()).iter().map(|issue| issue.code.as_str()).collect()
}

fn native(execution: &str, kind: &str) -> Value {
    let payload = json!({"executionId": execution, "round": 1, "provider": "p", "payloadKind": kind, "sequence": 0});
    entry("provider_native_raw_payload", payload)
}

#[test]
fn r32_a_lonely_request_and_tool_call_miss_everything() {
    let tool = json!({"executionId": "x", "round": 1, "toolName": "t", "toolCallId": "c", "parameters": {}});
    let log = [request("x", 1, "m", "a"), native("x", "request"), entry("tool_execution_request", tool)];
    assert_eq!(
        codes(&log),
        [
            "PROVIDER_NATIVE_RAW_PAYLOAD_MISSING",
            "PROVIDER_RESPONSE_RAW_MISSING",
            "PROVIDER_RESPONSE_NORMALIZED_MISSING",
            "TOOL_RESULT_MISSING"
        ]
    );
    let issues = completeness(&load(&lines(&log)).unwrap());
    assert_eq!((issues[0].event_index, issues[0].execution_id.as_deref(), issues[0].round), (0, Some("x"), Some(1.0)));
    assert_eq!((issues[3].event_index, issues[3].tool_call_id.as_deref()), (2, Some("c")));
}

#[test]
fn r33_stream_events_and_both_responses_are_complete() {
    let raw = entry(
        "provider_response_raw",
        json!({"executionId": "x", "round": 1, "response": message(), "responseKind": "k"}),
    );
    let log = [request("x", 1, "m", "a"), native("x", "stream_event"), raw, response("x", 1, message())];
    assert_eq!(codes(&log), [""; 0]);
    assert_eq!(codes(&[request("y", 1, "m", "a"), log[1].clone(), log[2].clone(), log[3].clone()]).len(), 3);
}

#[test]
fn r34_an_unresolved_response_does_not_decode() {
    let error = decode_error(&json!([response("x", 1, reference("a.json", b"1"))]));
    assert_eq!(paths(&error), ["[0].response.role"]);
}

#[test]
fn r35_references_left_in_free_values_are_told_apart() {
    let result = |value| {
        entry("tool_execution_result", json!({"executionId": "x", "round": 1, "success": true, "result": value}))
    };
    let log = json!([result(reference("a.json", b"1")), result(json!([{"kind": "external-payload"}]))]);
    let issues = completeness(&decode(&log).unwrap());
    let found: Vec<_> = issues.iter().map(|issue| (issue.code.as_str(), issue.event_index)).collect();
    assert_eq!(found, [("UNRESOLVED_REPLAY_PAYLOAD", 0), ("PAYLOAD_REFERENCE_INVALID", 1)]);
}

#[test]
fn consumption_is_counted_asserted_and_reset() {
    let mut provider = ordered(&[response("x", 1, said("a", "one")), response("x", 2, said("b", "two"))]);
    ask(&mut provider, &Value::Null).unwrap();
    assert_eq!((provider.recorded_response_count(), provider.consumed(), provider.remaining()), (2, 1, 1));
    let error = provider.assert_exhausted().unwrap_err();
    assert_eq!((error.code(), error), ("LOG_NOT_EXHAUSTED", ReplayError::NotExhausted { remaining: 1, total: 2 }));
    ask(&mut provider, &Value::Null).unwrap();
    provider.assert_exhausted().unwrap();
    provider.reset();
    assert_eq!((provider.consumed(), ask(&mut provider, &Value::Null).unwrap()["content"].clone()), (0, json!("one")));
}

const STRICT: ReplayOptions = ReplayOptions { matching: Match::Strict, deltas: false };
const HASH: ReplayOptions = ReplayOptions { matching: Match::Hash, deltas: false };

/// Two requests with their responses; a forced summary without one stands between them.
fn recorded() -> Vec<Value> {
    vec![
        request("x", 1, "m", "first"),
        response("x", 1, said("a", "one")),
        request("x", 2, "m", "summary"),
        request("x", 3, "m", "second"),
        response("x", 3, said("b", "two")),
    ]
}

#[test]
fn strict_compares_in_order_and_leaves_the_cursor_on_a_mismatch() {
    let mut provider = provider(&recorded(), STRICT);
    let wrong = ask(&mut provider, &live("m", "second")).unwrap_err();
    let ReplayError::RequestMismatch { call, path, expected, actual } = wrong.clone() else { panic!("{wrong:?}") };
    assert_eq!((call, path.as_str(), provider.consumed()), (1, "messages[0].content", 0));
    assert_ne!(expected.unwrap(), actual);
    assert!(!wrong.to_string().contains("second"));
    assert_eq!(ask(&mut provider, &live("m", "first")).unwrap()["content"], "one");
    assert_eq!(ask(&mut provider, &live("m", "second")).unwrap()["content"], "two");
    assert_eq!(ask(&mut provider, &live("m", "second")).unwrap_err().code(), "LOG_EXHAUSTED");
}

#[test]
fn strict_names_the_first_difference() {
    let call = json!([{"id": "c", "type": "function", "function": {"name": "n", "arguments": "{\"a\":1}"}}]);
    let mut asked = request("x", 1, "m", "q");
    asked["messages"] = json!([
        {"id": "1", "role": "user", "state": "complete", "timestamp": AT, "content": "q"},
        {"id": "2", "role": "assistant", "state": "complete", "timestamp": AT, "content": null, "toolCalls": call}
    ]);
    asked["tools"] = json!([{"name": "n", "description": "", "parameters": {"type": "object", "properties": {}}}]);
    let mut provider = provider(&[asked.clone(), response("x", 1, message())], STRICT);
    let good = json!({"model": "m", "messages": asked["messages"], "tools": ["n"]});
    for (pointer, value, expected) in [
        ("/model", json!("k"), "model"),
        ("/tools", json!([]), "tools[0]"),
        ("/tools/0", json!({"name": "o"}), "tools[0]"),
        ("/messages/0/role", json!("system"), "messages[0].role"),
        ("/messages/1/content", json!(""), "messages[1].content"),
        ("/messages/1/toolCalls/0/function/arguments", json!("{\"a\": 1}"), "messages[1].toolCalls[0].arguments"),
        ("/messages/1/toolCalls", json!([]), "messages[1].toolCalls"),
        ("/messages", json!([good["messages"][0]]), "messages[1]"),
    ] {
        let mut other = good.clone();
        *other.pointer_mut(pointer).unwrap() = value;
        match ask(&mut provider, &other) {
            Err(ReplayError::RequestMismatch { path, .. }) => assert_eq!(path, expected),
            other => panic!("{pointer}: {other:?}"),
        }
    }
    ask(&mut provider, &good).unwrap();
}

#[test]
fn hash_answers_alike_requests_in_any_order() {
    let mut provider = provider(&recorded(), HASH);
    assert_eq!(ask(&mut provider, &live("m", "second")).unwrap()["content"], "two");
    let error = ask(&mut provider, &live("m", "second")).unwrap_err();
    assert!(matches!(error, ReplayError::RequestMismatch { call: 2, .. }), "{error:?}");
    assert_eq!(ask(&mut provider, &live("m", "first")).unwrap()["content"], "one");
    assert_eq!(ask(&mut provider, &live("m", "first")).unwrap_err().code(), "LOG_EXHAUSTED");
}

#[test]
fn a_response_without_a_recorded_request_matches_nothing() {
    for options in [STRICT, HASH] {
        let mut provider = provider(&[response("x", 1, message()), request("x", 1, "m", "late")], options);
        match ask(&mut provider, &live("m", "late")) {
            Err(ReplayError::RequestMismatch { path, expected, .. }) => {
                assert_eq!((path.as_str(), expected), ("request", None))
            }
            other => panic!("{other:?}"),
        }
    }
}

fn delta(execution: &str, round: u32, sequence: u32, text: &str) -> Value {
    entry(
        "provider_stream_raw_delta",
        json!({"executionId": execution, "round": round, "sequence": sequence, "delta": text}),
    )
}

#[test]
fn deltas_are_replayed_where_they_make_up_the_text() {
    let mut silent = message();
    silent["content"] = json!(null);
    let log = [
        delta("x", 1, 1, "lo"),
        delta("y", 1, 0, "other"),
        delta("x", 1, 0, "hel"),
        response("x", 1, said("a", "hello")),
        delta("x", 2, 0, "par"),
        response("x", 2, said("b", "partial")),
        delta("x", 3, 0, "thought"),
        response("x", 3, silent),
        delta("x", 1, 0, "again"),
        response("x", 1, said("c", "again")),
    ];
    let replay = |options| {
        let mut provider = provider(&log, options);
        (0..4).map(|_| provider.call(&Node::Null).unwrap().deltas).collect::<Vec<_>>()
    };
    let with = replay(ReplayOptions { matching: Match::Order, deltas: true });
    assert_eq!(with, [vec!["hel", "lo"], vec!["partial"], vec![], vec!["again"]]);
    assert!(replay(ReplayOptions::default()).iter().all(Vec::is_empty));
}

#[test]
fn usage_comes_back_in_the_metadata() {
    let mut provider =
        ReplayProvider::new(Rc::new(load(&fixture("valid-2-tool-turn.jsonl")).unwrap()), ReplayOptions::default());
    let metadata = ask(&mut provider, &Value::Null).unwrap()["metadata"].clone();
    assert_eq!(metadata, json!({"inputTokens": 12, "outputTokens": 7}));
}
