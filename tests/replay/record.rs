//! Writing and recording: acceptance rows 10, 29 and 39 to 42, as far as no file system is involved.

use super::support::*;
use agent_roundtable::replay::*;
use serde_json::{Value, json};
use std::rc::Rc;

const AT_MS: f64 = 1_799_136_001_000.0;

fn writer() -> LogWriter {
    LogWriter::new("s", Redaction::default()).unwrap()
}

fn log(writer: &mut LogWriter, event: &str, payload: &Value) -> WritePlan {
    writer.log(event, Node::parse(&payload.to_string()).unwrap(), AT_MS).unwrap()
}

fn parse(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn r10_a_long_response_comes_back_byte_for_byte_and_then_the_sentinel() {
    let long = "0123456789\u{e9}\n".repeat(3125);
    let mut writer = writer();
    let mut text = String::new();
    let mut source = Memory::default();
    for (round, content) in [(1, long.as_str()), (2, "sentinel")] {
        let payload = json!({"executionId": "x", "round": round, "response": said("a", content)});
        let plan = log(&mut writer, "provider_response_normalized", &payload);
        text.push_str(&plan.text);
        source.files.extend(plan.sidecars.into_iter().map(|s| (s.relative_path, s.text.into_bytes())));
    }
    assert_eq!(source.files.len(), 1);
    assert!(text.lines().all(|line| line.len() < 1000));
    let log = load_with(&text, PayloadLimits::default(), &mut source).unwrap();
    let mut provider = ReplayProvider::new(Rc::new(log), ReplayOptions::default());
    let mut content = || {
        let reply = provider.call(&Node::Null).unwrap().message.json;
        serde_json::from_str::<Value>(&reply).unwrap()["content"].as_str().unwrap().to_owned()
    };
    assert_eq!((content(), content()), (long, "sentinel".to_owned()));
}

#[test]
fn r29_secrets_are_redacted_and_long_values_leave_the_line_by_digest() {
    let args = r#"{"city":"Oslo", "api_key":"k1","n":1.0,"deep":[{"PASSWORD":1}]}"#;
    let plain = r#"{"city" : "Oslo","n":1.0}"#;
    let call = |args: &str| json!({"id": "c", "type": "function", "function": {"name": "n", "arguments": args}});
    let mut said = message();
    said["toolCalls"] = json!([call(args), call(plain), call("{\"secret\":\"k2"), call("{\"text\":\"a secret")]);
    let payload = json!({"executionId": "x", "round": 1, "response": said});
    let plan = log(&mut writer(), "provider_response_normalized", &payload);
    let written = parse(&plan.text).remove(0);
    let arguments =
        |at: usize| written["response"]["toolCalls"][at]["function"]["arguments"].as_str().unwrap().to_owned();
    assert_eq!(arguments(0), r#"{"city":"Oslo","api_key":"[REDACTED]","n":1,"deep":[{"PASSWORD":"[REDACTED]"}]}"#);
    assert_eq!((arguments(1).as_str(), arguments(2).as_str()), (plain, "[REDACTED]"));
    assert_eq!(arguments(3), "{\"text\":\"a secret");

    let long = "y".repeat(MAX_INLINE_BYTES - 2);
    let payload = json!({"tool": "t", "args": {"x-api-key": ["k3"], "Access_Token": 3, "refreshToken": "k4", "secrets": "kept",
        "authorization": {"bearer": "k5"}, "fits": long, "long": format!("{long}y"), "apikey2": "kept"}});
    let plan = log(&mut writer(), "tool_call", &payload);
    let written = parse(&plan.text).remove(0);
    for key in ["x-api-key", "Access_Token", "refreshToken", "authorization"] {
        let redacted = format!("\"{key}\":\"[REDACTED]\"");
        assert!(plan.text.contains(&redacted) || plan.sidecars.iter().any(|s| s.text.contains(&redacted)), "{key}");
    }
    // The arguments are long by the value that still fits, so they left too and refer to the other.
    assert_eq!(plan.sidecars.len(), 2);
    assert_eq!(plan.sidecars[0].text, format!("\"{long}y\""));
    let outer: Value = serde_json::from_str(&plan.sidecars[1].text).unwrap();
    assert_eq!((&outer["fits"], &outer["secrets"], &outer["apikey2"]), (&json!(long), &json!("kept"), &json!("kept")));
    for (sidecar, reference) in plan.sidecars.iter().zip([&outer["long"], &written["args"]]) {
        assert_eq!(*reference, super::support::reference(&sidecar.relative_path, sidecar.text.as_bytes()));
        let digest = reference["sha256"].as_str().unwrap();
        assert_eq!(sidecar.relative_path, format!("s.payloads/{digest}.json"));
    }
    for secret in ["k1", "k2", "k3", "k4", "k5"] {
        assert!(
            !plan.text.contains(&format!("\"{secret}"))
                && !plan.sidecars.iter().any(|s| s.text.contains(&format!("\"{secret}")))
        );
    }
}

#[test]
fn a_parameter_that_is_named_like_a_secret_stays_a_schema() {
    let tool = json!({"name": "login", "description": "", "parameters": {"type": "object", "properties": {"password": {"type": "string"}}}});
    let payload =
        json!({"executionId": "x", "round": 1, "provider": "p", "model": "m", "messages": [], "tools": [tool]});
    let plan = log(&mut writer(), "provider_request", &payload);
    assert_eq!(parse(&plan.text)[0]["tools"][0], tool);
}

#[test]
fn further_keys_are_redacted_too() {
    let mut writer = LogWriter::new("s", Redaction::with(["Ssn".to_owned()])).unwrap();
    let plan = log(&mut writer, "tool_call", &json!({"tool": "t", "args": {"ssn": "1", "secret": "2", "name": "n"}}));
    assert_eq!(parse(&plan.text)[0]["args"], json!({"ssn": "[REDACTED]", "secret": "[REDACTED]", "name": "n"}));
}

#[test]
fn r39_the_envelope_comes_last_and_wins() {
    let payload = json!({"sessionId": "evil", "schemaVersion": 9, "content": "hi", "event": "error", "timestamp": 0});
    let plan = log(&mut writer(), "user", &payload);
    assert_eq!(
        plan.text,
        format!(
            "{{\"content\":\"hi\",\"schemaVersion\":1,\"timestamp\":\"{AT}\",\"sessionId\":\"s\",\"event\":\"user\"}}\n"
        )
    );
}

#[test]
fn r40_r41_deltas_are_gathered_and_keep_their_order() {
    let mut writer = writer();
    let mut plans: Vec<_> =
        (0..200).map(|at| log(&mut writer, "text_delta", &json!({"delta": at.to_string()})).text).collect();
    assert!(plans.iter().all(String::is_empty));
    plans.push(log(&mut writer, "user", &json!({"content": "next"})).text);
    let written = parse(&plans.concat());
    assert_eq!((written.len(), &written[7]["delta"], &written[200]["event"]), (201, &json!("7"), &json!("user")));

    let long = "x".repeat(30_000);
    let writes = (0..6).filter(|_| !log(&mut writer, "text_delta", &json!({"delta": long})).text.is_empty()).count();
    assert_eq!(writes, 2);
    log(&mut writer, "text_delta", &json!({"delta": "rest"}));
    assert_eq!(parse(&writer.flush()).len(), 1);
    assert_eq!(writer.flush(), "");
}

#[test]
fn r42_a_shutdown_is_planned_at_once() {
    assert_eq!(parse(&log(&mut writer(), "session_shutdown", &json!({"reason": "done"})).text).len(), 1);
}

#[test]
fn what_is_written_is_accepted_and_what_would_not_be_is_refused() {
    for (event, payload, _) in payloads() {
        let mut writer = writer();
        let plan = log(&mut writer, event, &payload);
        assert_eq!(entries(&load(&(plan.text + &writer.flush())).unwrap()), [entry(event, payload)]);
    }
    let mut writer = writer();
    let refuse = |writer: &mut LogWriter, event: &str, payload: Value| {
        let error = writer.log(event, Node::parse(&payload.to_string()).unwrap(), AT_MS).unwrap_err();
        paths(&error).join(" ")
    };
    assert_eq!(refuse(&mut writer, "user", json!({"content": 1})), "entry.content");
    assert_eq!(refuse(&mut writer, "chatter", json!({})), "entry.event");
    assert_eq!(refuse(&mut writer, "user", json!([])), "entry");
    let disguised = json!({"tool": "t", "args": {"data": {"kind": "external-payload"}}});
    assert_eq!(refuse(&mut writer, "tool_call", disguised), "entry");
    let deep = |depth: usize| {
        let text = format!(r#"{{"tool":"t","args":{{"a":{}{}}}}}"#, "[".repeat(depth), "]".repeat(depth));
        LogWriter::new("s", Redaction::default()).unwrap().log(
            "tool_call",
            Node::parse_live(&text, &[]).unwrap(),
            AT_MS,
        )
    };
    assert!(load(&deep(98).unwrap().text).is_ok());
    assert_eq!(paths(&deep(99).unwrap_err()), ["entry"]);
    assert!(writer.log("user", Node::parse(r#"{"content":"x"}"#).unwrap(), f64::NAN).is_err());
    assert_eq!(writer.flush(), "");
}

#[test]
fn session_ids_are_names_of_files() {
    for good in ["a", "7.b_c-D", &"x".repeat(128)] {
        assert!(LogWriter::new(good, Redaction::default()).is_some(), "{good}");
    }
    for bad in ["", ".a", "-a", "a/b", "..", "a b", "\u{e9}", &"x".repeat(129)] {
        assert!(LogWriter::new(bad, Redaction::default()).is_none(), "{bad}");
    }
}

#[test]
fn live_dates_are_written_as_text() {
    let payload = Node::parse_live(r#"{"tool":"t","args":{"when":null}}"#, &[(3, Node::Date(AT_MS))]).unwrap();
    let plan = writer().log("tool_call", payload, AT_MS).unwrap();
    assert_eq!(parse(&plan.text)[0]["args"]["when"], AT);
}

#[test]
fn recorded_calls_are_complete_and_replay_strictly() {
    let tool = json!({"name": "Clock", "parameters": {"$schema": "x", "type": "object", "properties": {"city": {"type": ["string", "null"], "minLength": 1, "description": "d", "enum": ["a", null]}}}});
    let user = json!({"id": "u", "role": "user", "state": "complete", "timestamp": AT, "content": "time?"});
    let asked = json!({"callId": "call-7", "model": "m", "messages": [user], "tools": [tool, {"name": "Bare"}, {"name": "Odd", "parameters": {"type": "array"}}]});
    let mut answer = message();
    answer["toolCalls"] =
        json!([{"id": "c", "type": "function", "function": {"name": "Clock", "arguments": "{\"secret\":\"k\"}"}}]);
    answer["metadata"] = json!({"inputTokens": 3, "apiKey": "k"});

    let mut recorder = Recorder::new("s", Redaction::default(), 0);
    let node = |value: &Value| Node::parse(&value.to_string()).unwrap().into_owned();
    let (mut call, first) = recorder.request("acme", &node(&asked), AT_MS).unwrap();
    let (again, second) = recorder.request("acme", &node(&asked), AT_MS).unwrap();
    let mut log = vec![first, second, call.delta("o", AT_MS).unwrap(), call.delta("k", AT_MS).unwrap()];
    log.extend(call.response(&node(&answer), AT_MS).unwrap());
    log.extend(again.response(&node(&said("z", "late")), AT_MS).unwrap());
    let log = load(&log.join("\n")).unwrap();

    assert_eq!(completeness(&log), []);
    let recorded = entries(&log);
    let schema = |at: usize| recorded[0]["tools"][at]["parameters"].clone();
    assert_eq!(schema(0)["properties"]["city"], json!({"description": "d", "enum": ["a"]}));
    assert_eq!(
        (schema(1), schema(2)),
        (json!({"type": "object", "properties": {}}), json!({"type": "object", "properties": {}}))
    );
    assert!(!format!("{recorded:?}").contains("\"k\\"));

    let options = ReplayOptions { matching: Match::Strict, deltas: true };
    let mut provider = ReplayProvider::new(Rc::new(log), options);
    let reply = provider.call(&node(&asked)).unwrap();
    assert_eq!(reply.deltas, ["o", "k"]);
    let message: Value = serde_json::from_str(&reply.message.json).unwrap();
    assert_eq!(message["metadata"], json!({"inputTokens": 3, "apiKey": "[REDACTED]"}));
    assert_eq!(message["toolCalls"][0]["function"]["arguments"], "{\"secret\":\"[REDACTED]\"}");
    provider.call(&node(&asked)).unwrap();
    provider.assert_exhausted().unwrap();

    let bad = json!({"model": "m", "messages": [{"role": "user"}]});
    let error = recorder.request("acme", &node(&bad), AT_MS).unwrap_err();
    assert_eq!(paths(&error), ["entry.messages[0].id", "entry.messages[0].timestamp", "entry.messages[0].state"]);
}
