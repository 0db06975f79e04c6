//! Decoding of session logs: acceptance rows 11 to 27 and the samples.

use super::support::*;
use agent_roundtable::replay::*;
use serde_json::json;

#[test]
fn r11_forced_summary_is_a_boolean() {
    let request = |flag| {
        json!([entry(
            "provider_request",
            json!({"executionId": "x", "round": 0, "provider": "p", "model": "m", "messages": [], "forcedSummary": flag})
        )])
    };
    assert_eq!(entries(&decode(&request(json!(true))).unwrap())[0]["forcedSummary"], true);
    assert_eq!(paths(&decode_error(&request(json!("true")))), ["[0].forcedSummary"]);
}

#[test]
fn r12_every_event_decodes_and_decoding_again_changes_nothing() {
    let given = json!(every_event());
    let once = entries(&decode(&given).unwrap());
    assert_eq!(json!(once), given);
    assert_eq!(json!(entries(&decode(&json!(once)).unwrap())), given);
    let names: Vec<_> = payloads().iter().map(|(event, ..)| *event).collect();
    assert_eq!(names, EventKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>());
    // A live date and a text without offset stand for the same instant.
    let live = SessionLog::decode(
        &Node::parse_live(
            r#"[{"schemaVersion":1,"timestamp":"2027-01-05","sessionId":"s","event":"tool_message_committed","executionId":"x","round":1,
                "message":{"id":"m","role":"user","state":"complete","timestamp":null,"content":"2027-01-05"}}]"#,
            &[(12, Node::Date(1_799_136_001_000.0))],
        )
        .unwrap(),
    );
    let live = entries(&live.unwrap());
    assert_eq!(live[0]["message"]["timestamp"], AT);
    assert_eq!((&live[0]["timestamp"], &live[0]["message"]["content"]), (&json!("2027-01-05"), &json!("2027-01-05")));
    let mut local = message();
    local["timestamp"] = json!("2027-01-05T08:00:01");
    assert_eq!(entries(&decode(&json!([response("x", 1, local)])).unwrap())[0]["response"]["timestamp"], AT);
}

#[test]
fn r13_a_null_field_is_named_for_each_event() {
    for (event, mut payload, field) in payloads() {
        payload[field] = json!(null);
        let error = decode_error(&json!([entry(event, payload)]));
        assert_eq!((error.code, paths(&error)), (DecodeCode::InvalidEvent, vec![format!("[0].{field}").as_str()]));
    }
}

#[test]
fn r14_a_forced_summary_text_and_abnormal_history_fields_are_accepted() {
    let log = json!([
        entry("assistant_message_committed", json!({"executionId": "x", "round": 1, "message": "summary"})),
        entry(
            "history_mutation",
            json!({"executionId": "x", "round": 1, "index": 0, "mutation": "append_message", "message": message(),
                "providerError": true, "contextOverflow": false, "usageObservationId": "u", "providerId": "p", "modelId": "m"})
        ),
    ]);
    let decoded = entries(&decode(&log).unwrap());
    assert_eq!((&decoded[0]["message"], &decoded[1]["providerError"]), (&json!("summary"), &json!(true)));
}

#[test]
fn r15_nested_defects_are_named_at_the_leaf() {
    let mut role = message();
    role["role"] = json!("robot");
    let mut date = message();
    date["timestamp"] = json!("yesterday");
    let group = |ids| {
        let mut group = payloads().into_iter().find(|(event, ..)| *event == "background_job_group_event").unwrap().1;
        group["backgroundJobGroupEvent"]["group"]["taskIds"] = ids;
        group
    };
    for (event, change, path) in [
        ("session_init", json!({"toolSchemas": [null]}), "[0].toolSchemas[0]"),
        ("provider_request", json!({"messages": [role]}), "[0].messages[0].role"),
        ("provider_response_normalized", json!({"response": date}), "[0].response.timestamp"),
        (
            "assistant",
            json!({"historyStructure": [{"role": "user", "contentLength": "2", "hasToolCalls": false, "toolCallNames": []}]}),
            "[0].historyStructure[0].contentLength",
        ),
        (
            "background_task_event",
            json!({"backgroundEvent": {"type": "background_task_text_delta", "taskId": "t", "delta": 2}}),
            "[0].backgroundEvent.delta",
        ),
        ("background_job_group_event", group(json!([3])), "[0].backgroundJobGroupEvent.group.taskIds[0]"),
        ("memory_event", json!({"memoryEvent": {"type": "memory_retrieved", "at": "never"}}), "[0].memoryEvent.at"),
    ] {
        let mut payload = payloads().into_iter().find(|(name, ..)| *name == event).unwrap().1;
        change.as_object().unwrap().iter().for_each(|(key, value)| payload[key] = value.clone());
        assert_eq!(paths(&decode_error(&json!([entry(event, payload)]))), [path]);
    }
    let opaque = live_payload(Foreign::Instance);
    assert_eq!(paths(&opaque), ["[0].payload.nested"]);
}

/// A native payload with something in it that is no JSON.
fn live_payload(kind: Foreign) -> DecodeError {
    let text = r#"[{"payload":{"nested":null},"executionId":"x","round":1,"provider":"p","payloadKind":"response","sequence":0,
        "schemaVersion":1,"timestamp":"2027-01-05","sessionId":"s","event":"provider_native_raw_payload"}]"#;
    SessionLog::decode(&Node::parse_live(text, &[(3, Node::Foreign(kind))]).unwrap()).unwrap_err()
}

#[test]
fn r16_unknown_events_and_versions_are_located_and_show_no_content() {
    let error = decode_error(&json!([entry("secret-prompt", json!({"content": "secret-prompt"}))]));
    assert_eq!((error.code, paths(&error)), (DecodeCode::InvalidEvent, vec!["[0].event"]));
    assert!(!format!("{error:?}").contains("secret-prompt"));

    let mut second = entry("user", json!({"content": 7}));
    second["schemaVersion"] = json!(2);
    let mut third = second.clone();
    third["schemaVersion"] = json!(3);
    let error = decode_error(&json!([second, third]));
    assert_eq!((error.code, error.schema_version), (DecodeCode::UnsupportedVersion, Some(2.0)));
    assert_eq!(paths(&error), ["[0].schemaVersion", "[0].content", "[1].schemaVersion", "[1].content"]);
}

#[test]
fn r17_rebuilding_and_validating_decode_first() {
    let mut bad = message();
    bad.as_object_mut().unwrap().remove("id");
    let log = json!([entry("history_mutation", json!({"mutation": "append_message", "index": 0, "message": bad}))]);
    assert_eq!(paths(&decode_error(&log)), ["[0].message.id"]);
}

#[test]
fn r18_sparse_arrays_and_values_that_are_no_json_are_refused_whole() {
    let text = format!("[null,{}]", entry("user", json!({"content": "ok"})));
    let sparse = Node::parse_live(&text, &[(1, Node::Foreign(Foreign::Hole))]).unwrap();
    assert_eq!(paths(&SessionLog::decode(&sparse).unwrap_err()), ["[0]"]);
    for kind in [
        Foreign::Instance,
        Foreign::Function,
        Foreign::Symbol,
        Foreign::BigInt,
        Foreign::NonFinite,
        Foreign::Undefined,
        Foreign::Hole,
        Foreign::TooDeep,
        Foreign::LoneSurrogate,
    ] {
        assert_eq!(paths(&live_payload(kind)), ["[0].payload.nested"], "{kind:?}");
    }
}

#[test]
fn r19_missing_version_empty_session_and_missing_date_are_named() {
    let mut unversioned = entry("user", json!({"content": "ok"}));
    unversioned.as_object_mut().unwrap().remove("schemaVersion");
    let mut nameless = entry("user", json!({"content": "ok"}));
    nameless["sessionId"] = json!("");
    let mut dateless = message();
    dateless.as_object_mut().unwrap().remove("timestamp");
    let error = decode_error(&json!([unversioned, nameless, response("x", 1, dateless)]));
    assert_eq!(error.code, DecodeCode::InvalidEvent);
    assert_eq!(paths(&error), ["[0].schemaVersion", "[1].sessionId", "[2].response.timestamp"]);
    for version in [json!("1"), json!(-1), json!(1.5), json!(null)] {
        let mut odd = entry("user", json!({"content": "ok"}));
        odd["schemaVersion"] = version;
        assert_eq!(decode_error(&json!([odd])).code, DecodeCode::InvalidEvent);
    }
}

#[test]
fn r20_compaction_snapshots_are_checked() {
    let good = json!({"maxTokens": 100, "usedTokens": 80, "usedPercentage": 80, "remainingPercentage": 20});
    let mut text = good.clone();
    text["usedTokens"] = json!("80");
    let mut short = good.clone();
    short.as_object_mut().unwrap().remove("remainingPercentage");
    let error = decode_error(&json!([
        entry("context_compact", json!({"trigger": "auto", "before": text, "after": good})),
        entry("context_compact", json!({"trigger": "auto", "before": good, "after": short})),
    ]));
    assert_eq!(paths(&error), ["[0].before.usedTokens", "[1].after.remainingPercentage"]);
}

#[test]
fn r21_owner_segments_are_checked() {
    for segment in
        [json!({"type": "agent"}), json!({"type": "agent", "id": 1}), json!({"type": "a", "id": "b", "c": 1})]
    {
        let payload = json!({"executionId": "x", "round": 1, "toolName": "t", "toolCallId": "c", "parameters": {}, "ownerPath": [segment]});
        let error = decode_error(&json!([entry("tool_execution_request", payload)]));
        assert_eq!(error.issues.len(), 1);
        assert!(paths(&error)[0].starts_with("[0].ownerPath[0]."));
    }
}

#[test]
fn r22_a_cyclic_tool_schema_stops_with_its_path() {
    let text = r#"[{"toolSchemas":[{"name":"C","description":"d","parameters":{"type":"object","properties":{"again":null}}}],
        "schemaVersion":1,"timestamp":"2027-01-05","sessionId":"s","event":"session_init"}]"#;
    let node = Node::parse_live(text, &[(9, Node::Foreign(Foreign::Cycle))]).unwrap();
    let error = SessionLog::decode(&node).unwrap_err();
    assert_eq!(paths(&error), ["[0].toolSchemas[0].parameters.properties.again"]);
}

#[test]
fn r23_a_class_instance_is_no_entry() {
    let node = Node::parse_live("[null]", &[(1, Node::Foreign(Foreign::Instance))]).unwrap();
    let error = SessionLog::decode(&node).unwrap_err();
    assert_eq!((paths(&error), error.issues[0].message.contains("class instance")), (vec!["[0]"], true));
    assert_eq!(paths(&decode_error(&json!({}))), ["entries"]);
}

#[test]
fn r24_lines_are_counted_physically() {
    let text =
        format!("\n{}\n \r\n{}\n", entry("user", json!({"content": "ok"})), entry("text_delta", json!({"delta": 2})));
    assert_eq!(paths(&load_error(&text)), ["line 4.delta"]);
}

#[test]
fn r25_a_bad_role_in_a_history_is_never_dropped() {
    let mut bad = message();
    bad["role"] = json!("robot");
    bad["extra"] = json!(1);
    let log = json!([
        entry("user", json!({"content": "hello"})),
        entry("history_mutation", json!({"mutation": "append_message", "index": 0, "message": bad})),
    ]);
    assert_eq!(paths(&decode_error(&log)), ["[1].message.role"]);
}

#[test]
fn r26_truncated_json_is_located_and_its_cause_kept() {
    let error = load_error("\n{\"schemaVersion\":1,\"event\":\n");
    assert_eq!((error.code, paths(&error)), (DecodeCode::InvalidJson, vec!["line 2"]));
    assert!(error.cause.is_some());
    // The parse phase comes first, whatever else is wrong before it.
    let later = format!("{}\n{{", entry("nonsense", json!({})));
    assert_eq!(paths(&load_error(&later)), ["line 2"]);
}

#[test]
fn r27_event_names_are_written_nowhere_but_in_the_vocabulary() {
    let source = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/replay")).unwrap();
    for file in source.map(|file| file.unwrap().path()).filter(|path| !path.ends_with("vocabulary.rs")) {
        let text = std::fs::read_to_string(&file).unwrap();
        for kind in EventKind::ALL.iter().filter(|kind| kind.name().contains('_')) {
            assert!(!text.contains(&format!("\"{}\"", kind.name())), "{} in {}", kind.name(), file.display());
        }
    }
}

#[test]
fn samples_have_their_stated_outcomes() {
    assert_eq!(load(&fixture("valid-1-minimal.jsonl")).unwrap().len(), 1);
    assert_eq!(load(&fixture("valid-2-tool-turn.jsonl")).unwrap().len(), 5);
    for (name, code, version, expected) in [
        ("invalid-1-legacy.jsonl", DecodeCode::InvalidEvent, None, vec!["line 1.schemaVersion"]),
        ("invalid-2-version.jsonl", DecodeCode::UnsupportedVersion, Some(2.0), vec!["line 2.schemaVersion"]),
        ("invalid-3-truncated.jsonl", DecodeCode::InvalidJson, None, vec!["line 3"]),
        ("invalid-4-role.jsonl", DecodeCode::InvalidEvent, None, vec!["line 2.response.role"]),
        (
            "invalid-6-unknown-field.jsonl",
            DecodeCode::InvalidEvent,
            None,
            vec!["line 2.delta", "line 2.note", "line 3.event"],
        ),
    ] {
        let error = load_error(&fixture(name));
        assert_eq!((error.code, error.schema_version, paths(&error)), (code, version, expected), "{name}");
    }
}

#[test]
fn message_members_follow_the_role() {
    let with = |role: &str, rest: serde_json::Value| {
        let mut message = json!({"id": "m", "role": role, "state": "complete", "timestamp": AT, "content": "x"});
        rest.as_object().unwrap().iter().for_each(|(key, value)| message[key] = value.clone());
        json!([response("x", 1, message)])
    };
    let call = json!({"id": "c", "type": "function", "function": {"name": "n", "arguments": "{"}});
    for good in [
        with("user", json!({"name": "ann"})),
        with(
            "system",
            json!({"name": "ann", "parts": [{"type": "image_uri", "uri": "u"}, {"type": "text", "text": "t"}]}),
        ),
        with(
            "assistant",
            json!({"content": null, "toolCalls": [call], "metadata": {"a": [1, 2], "b": ["x"], "c": {"d": 1}, "e": []}}),
        ),
        with("tool", json!({"toolCallId": "c", "name": "n"})),
    ] {
        decode(&good).unwrap();
    }
    for (bad, expected) in [
        (with("user", json!({"toolCallId": "c"})), vec!["toolCallId"]),
        (with("user", json!({"content": null})), vec!["content"]),
        (with("assistant", json!({"name": "n"})), vec!["name"]),
        (with("tool", json!({})), vec!["toolCallId"]),
        (
            with(
                "assistant",
                json!({"toolCalls": [{"id": "c", "type": "function", "function": {"name": "n", "arguments": {}}}]}),
            ),
            vec!["toolCalls[0].function.arguments"],
        ),
        (
            with("assistant", json!({"metadata": {"a": null, "b": [1, "x"], "c": {"d": "x"}}})),
            vec!["metadata.a", "metadata.b", "metadata.c.d"],
        ),
        (
            with("assistant", json!({"parts": [{"type": "video"}, {"type": "text", "text": "t", "uri": "u"}]})),
            vec!["parts[0].type", "parts[1].uri"],
        ),
        // A bad identity skips what follows it; bad content skips what is optional.
        (with("assistant", json!({"id": 1, "state": "done", "content": 3, "extra": 1})), vec!["extra", "id", "state"]),
        (with("assistant", json!({"content": 3, "metadata": 4})), vec!["content"]),
    ] {
        let error = decode_error(&bad);
        let expected: Vec<_> = expected.iter().map(|path| format!("[0].response.{path}")).collect();
        assert_eq!(paths(&error), expected);
    }
}

#[test]
fn task_members_follow_the_kind() {
    let task = |change: serde_json::Value| {
        let mut payload = payloads().into_iter().find(|(event, ..)| *event == "background_task_event").unwrap().1;
        let task = &mut payload["backgroundEvent"]["task"];
        change.as_object().unwrap().iter().for_each(|(key, value)| task[key] = value.clone());
        json!([entry("background_task_event", payload)])
    };
    let result = |kind: &str, rest: serde_json::Value| {
        let mut result = json!({"taskId": "t1", "kind": kind, "output": ""});
        rest.as_object().unwrap().iter().for_each(|(key, value)| result[key] = value.clone());
        result
    };
    for (change, expected) in [
        (json!({"commandPreview": "x"}), vec!["commandPreview"]),
        (json!({"schedule": {"cronExpression": "* * * * *"}}), vec!["schedule"]),
        (json!({"result": result("process", json!({"exitCode": 0}))}), vec!["result.kind"]),
        (
            json!({"result": result("agent", json!({"exitCode": 0, "taskId": "t2"}))}),
            vec!["result.exitCode", "result.taskId"],
        ),
        (json!({"kind": "robot"}), vec!["kind"]),
        (json!({"unread": 1, "depth": 1.5}), vec!["depth", "unread"]),
    ] {
        let error = decode_error(&task(change));
        let expected: Vec<_> = expected.iter().map(|path| format!("[0].backgroundEvent.task.{path}")).collect();
        assert_eq!(paths(&error), expected);
    }
}

#[test]
fn counts_are_integers_without_upper_bound() {
    for (count, good) in
        [("1.0", true), ("1e300", true), ("-1", false), ("1.5", false), ("-0.0", true), ("\"1\"", false)]
    {
        let line = entry("error", json!({"message": "", "stack": "", "historyLength": 7})).to_string();
        assert_eq!(load(&line.replace(":7", &format!(":{count}"))).is_ok(), good, "{count}");
    }
}

#[test]
fn at_least_one_of_the_auxiliary_payloads_must_be_there() {
    let error = decode_error(&json!([
        entry("memory_event", json!({})),
        entry("background_task_event", json!({"taskId": "t"}))
    ]));
    assert_eq!(paths(&error), ["[0]", "[1]"]);
}

#[test]
fn repeated_keys_keep_the_last_value_and_repeated_entries_stay() {
    let line =
        r#"{"schemaVersion":1,"timestamp":"2027-01-05","sessionId":"s","event":"user","content":3,"content":"last"}"#;
    let log = load(&format!("{line}\n{line}")).unwrap();
    assert_eq!(entries(&log).iter().map(|entry| entry["content"].clone()).collect::<Vec<_>>(), ["last", "last"]);
    let many: String = (0..100).map(|at| format!("\"k{}\":{at},", at % 50)).collect();
    let log =
        load(&line.replace("user", "server_tool").replace("\"content\":3", &format!("{many}\"tool\":\"t\""))).unwrap();
    assert_eq!((entries(&log)[0]["k0"].clone(), entries(&log)[0]["k49"].clone()), (json!(50), json!(99)));
}

#[test]
fn escapes_in_keys_and_values_are_read() {
    let line = entry("server_tool", json!({"tool": "t", "@": {"@@": 1}})).to_string();
    let log = load(&line.replace("@@", "\\u006bey\\n").replace("\"@\"", "\"o\\u0064d\"")).unwrap();
    assert_eq!(entries(&log)[0]["odd"], json!({"key\n": 1}));
    let hidden =
        reference("a.json", b"1").to_string().replace("kind", "\\u006bind").replace("external-", "ext\\u0065rnal-");
    let log = entry("server_tool", json!({"tool": "t", "x": "@"})).to_string().replace("\"@\"", &hidden);
    assert!(matches!(load(&log), Err(LoadError::Payload(_))));
}

#[test]
fn text_comes_back_exactly() {
    let odd = "2027-01-05T08:00:01Z \u{0} \u{2028} \u{1f600} \\u0041 1e5 </script>";
    let mut said = message();
    said["toolCalls"] = json!([{"id": "c", "type": "function", "function": {"name": "n", "arguments": "{ \"a\" : 1.0, \"when\":\"2027-01-05\" }"}}]);
    said["content"] = json!(odd);
    let log = load(&lines(&[response("x", 1, said.clone())])).unwrap();
    assert_eq!(entries(&log)[0]["response"], said);
}

#[test]
fn bounds_are_kept() {
    let nested = |depth: usize| {
        let inner = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        entry("server_tool", json!({"tool": "t"})).to_string().replacen('{', &format!("{{\"x\":{inner},"), 1)
    };
    assert!(load(&nested(99)).is_ok());
    assert_eq!(paths(&load_error(&nested(100))), ["line 1"]);
    assert_eq!(paths(&load_error(&nested(100_000))), ["line 1"]);

    let many: Vec<_> = (0..1500).map(|_| entry("user", json!({}))).collect();
    let error = load_error(&lines(&many));
    assert_eq!((error.issues.len(), paths(&error)[999]), (MAX_ISSUES, "line 1000.content"));

    let long = entry("user", json!({"content": "x".repeat(MAX_LINE_UNITS)})).to_string();
    let error = load_error(&format!("\n{long}"));
    assert_eq!((error.code, paths(&error)), (DecodeCode::InvalidJson, vec!["line 2"]));
}

#[test]
fn lone_surrogates_and_broken_utf8_are_no_json() {
    for escape in ["\\ud800", "\\udc00x", "\\ud800\\u0041"] {
        let line = entry("user", json!({"content": "@"})).to_string().replace('@', escape);
        let error = load_error(&line);
        assert_eq!((error.code, paths(&error)), (DecodeCode::InvalidJson, vec!["line 1"]));
    }
    let error = LogLoader::from_bytes(b"\n\n{\"a\":\"\xff\"}".to_vec(), PayloadLimits::default(), false).unwrap_err();
    assert_eq!((error.code, paths(&error)), (DecodeCode::InvalidJson, vec!["line 3"]));
}

#[test]
fn an_empty_log_has_no_entries() {
    assert!(load("").unwrap().is_empty());
    assert!(load("\n \n\r\n").unwrap().is_empty());
}
