//! The JSON in which outcomes reach a host.

use super::support::*;
use agent_roundtable::replay::*;
use serde_json::{Value, json};
use std::rc::Rc;

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn decode_errors_carry_code_message_issues_version_and_cause() {
    let mut old = entry("user", json!({"content": "x"}));
    old["schemaVersion"] = json!(2);
    let error = load_error(&lines(&[old]));
    assert_eq!(
        parse(&wire::decode_error(&error)),
        json!({"decode": {"code": "UNSUPPORTED_VERSION", "schemaVersion": 2,
            "message": "session log refused: UNSUPPORTED_VERSION at line 1.schemaVersion: expected schema version 1, found another version",
            "issues": [{"path": "line 1.schemaVersion", "message": "expected schema version 1, found another version"}]}})
    );
    let told = parse(&wire::load_error(&LoadError::Decode(load_error("{"))));
    assert_eq!(told["decode"]["code"], "INVALID_JSON");
    assert!(told["decode"]["cause"].as_str().unwrap().contains("EOF"));
    assert_eq!(parse(&wire::decode_error(&load_error("{}")))["decode"]["code"], "INVALID_EVENT");
}

#[test]
fn payload_errors_carry_what_is_known() {
    let log = lines(&[entry("user", json!({"content": reference("a.json", b"12")}))]);
    let error = payload_error(load_with(&log, PayloadLimits::default(), &mut Memory::with(&[("a.json", b"1")])));
    assert_eq!(
        parse(&wire::load_error(&LoadError::Payload(error))),
        json!({"payload": {"code": "BYTE_LENGTH_MISMATCH",
            "message": "BYTE_LENGTH_MISMATCH: the payload has another length than its reference says",
            "metadata": {"relativePath": "a.json", "depth": 0, "expected": 2, "actual": 1}}})
    );
    let limit = PayloadLimits::new(Some(f64::NAN), None).unwrap_err();
    assert_eq!(parse(&wire::payload_error(&limit))["payload"]["metadata"], json!({"actual": "NaN"}));
    let log = lines(&[entry("user", json!({"content": reference("a.json", b"{")}))]);
    let error = payload_error(load_with(&log, PayloadLimits::default(), &mut Memory::with(&[("a.json", b"{")])));
    assert!(parse(&wire::payload_error(&error))["payload"]["cause"].is_string());
    let request = PayloadRequest { relative_path: "a".to_owned(), max_bytes: 7 };
    assert_eq!(parse(&wire::need(&request)), json!({"need": {"path": "a", "maxBytes": 7}}));
}

#[test]
fn replies_and_their_refusals() {
    let delta =
        entry("provider_stream_raw_delta", json!({"executionId": "x", "round": 1, "sequence": 0, "delta": "ok"}));
    let log = Rc::new(load(&lines(&[delta, response("x", 1, message())])).unwrap());
    let mut provider = ReplayProvider::new(log.clone(), ReplayOptions { matching: Match::Order, deltas: true });
    assert!(!provider.compares_requests());
    let left = parse(&wire::replay_error(&provider.assert_exhausted().unwrap_err()));
    assert_eq!(
        left,
        json!({"replay": {"code": "LOG_NOT_EXHAUSTED", "message": "1 of 1 recorded responses were not used", "remaining": 1, "total": 1}})
    );
    let reply = provider.call(&Node::Null).unwrap();
    assert_eq!(
        parse(&wire::reply(&reply)),
        json!({"message": message(), "timestamp": 1_799_136_001_000_u64, "deltas": ["ok"]})
    );
    let spent = parse(&wire::replay_error(&provider.call(&Node::Null).unwrap_err()));
    assert_eq!(
        (&spent["replay"]["code"], &spent["replay"]["call"], &spent["replay"]["total"]),
        (&json!("LOG_EXHAUSTED"), &json!(2), &json!(1))
    );

    let mut strict = ReplayProvider::new(log, ReplayOptions { matching: Match::Strict, deltas: false });
    assert!(strict.compares_requests());
    let told = parse(&wire::replay_error(&strict.call(&Node::Null).unwrap_err()));
    assert_eq!((&told["replay"]["code"], &told["replay"]["path"]), (&json!("REQUEST_MISMATCH"), &json!("request")));
    assert_eq!((told["replay"]["actual"].as_str().unwrap().len(), &told["replay"]["expected"]), (64, &Value::Null));
    assert_eq!(
        told["replay"]["message"],
        format!(
            "call 1 differs from the recorded request at request: expected digest of no recorded request, found {}",
            told["replay"]["actual"].as_str().unwrap()
        )
    );
}

#[test]
fn completeness_and_history() {
    let log = load(&lines(&every_event())).unwrap();
    let issues = parse(&wire::completeness(&completeness(&load(&lines(&every_event()[7..8])).unwrap())));
    assert_eq!(issues.as_array().unwrap().len(), 3);
    assert_eq!(
        issues[0],
        json!({"code": "PROVIDER_NATIVE_RAW_PAYLOAD_MISSING", "message": "a provider request has no native response or stream event",
            "eventIndex": 0, "executionId": "x", "round": 1})
    );
    let history = parse(&wire::history(&rebuild_history(&log)));
    assert_eq!(history["messages"], json!([message()]));
    assert_eq!(
        (&history["sessionId"], &history["cwd"], &history["createdAt"], &history["updatedAt"]),
        (&json!("s"), &json!("/w"), &json!(AT), &json!(AT))
    );
    for key in ["backgroundTaskEvents", "backgroundJobGroupEvents", "memoryEvents"] {
        assert_eq!(history[key].as_array().unwrap().len(), 1, "{key}");
    }
    assert_eq!(
        parse(&wire::history(&rebuild_history(&load("").unwrap()))),
        json!({"messages": [], "backgroundTaskEvents": [], "backgroundJobGroupEvents": [], "memoryEvents": []})
    );
}

#[test]
fn plans_and_lines() {
    let plan = WritePlan {
        sidecars: vec![Sidecar { relative_path: "p".to_owned(), text: "1".to_owned() }],
        text: "a\n".to_owned(),
    };
    assert_eq!(parse(&wire::plan(&plan)), json!({"sidecars": [{"path": "p", "text": "1"}], "text": "a\n"}));
    assert_eq!(parse(&wire::lines(&["a".to_owned(), "b".to_owned()])), json!({"lines": ["a", "b"]}));
}

#[test]
fn marks_name_each_kind_of_what_is_no_json() {
    let kinds = [
        "a circular value",
        "a hole",
        "a class instance",
        "a function",
        "a symbol",
        "a big integer",
        "a number that is not finite",
        "undefined",
        "a value nested too deeply",
        "text with a lone surrogate",
    ];
    for (at, found) in kinds.iter().enumerate() {
        let node = wire::live("[1,null]", &[2.0, at as f64 + 1.0, 0.0]).unwrap();
        let Node::Array(items) = &node else { panic!("{node:?}") };
        assert_eq!((items[0].found(), items[1].found()), ("a number", *found));
    }
    let dates = wire::live("[null,null,null]", &[1.0, 0.0, 5.0, 2.0, 0.0, f64::NAN, 3.0, 11.0, 0.0]).unwrap();
    let Node::Array(items) = &dates else { panic!("{dates:?}") };
    assert_eq!(
        (&items[0], items[0].found(), items[1].found(), &items[2]),
        (&Node::Date(5.0), "a date", "an invalid date", &Node::Null)
    );
    assert_eq!(dates.to_json(), "[\"1970-01-01T00:00:00.005Z\",null,null]");
    assert!(wire::live("[", &[]).is_err());
}
