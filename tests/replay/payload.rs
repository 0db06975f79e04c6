//! External payloads: acceptance rows 5 to 7, 30, 37 and 46 to 62, as far as no file system is involved.

use super::support::*;
use agent_roundtable::replay::*;
use serde_json::{Value, json};

/// A log of one tool result that holds this value.
fn holding(result: &Value) -> String {
    lines(&[entry("tool_execution_result", json!({"executionId": "x", "round": 1, "success": true, "result": result}))])
}

fn limits(max_depth: u64, max_total_bytes: u64) -> PayloadLimits {
    PayloadLimits { max_depth, max_total_bytes }
}

fn resolve(result: &Value, limits: PayloadLimits, source: &mut Memory) -> Result<Value, PayloadError> {
    match load_with(&holding(result), limits, source) {
        Ok(log) => Ok(entries(&log)[0]["result"].clone()),
        error => Err(payload_error(error)),
    }
}

#[test]
fn r05_a_reference_without_a_source_is_unresolved() {
    let mut said = message();
    said["content"] = reference("a.json", b"\"x\"");
    let error = payload_error(load(&lines(&[response("x", 1, said)])));
    assert_eq!(error.code, PayloadCode::UnresolvedReference);
    assert_eq!((error.metadata.relative_path.as_deref(), error.metadata.depth), (Some("a.json"), Some(0)));
}

#[test]
fn r07_a_reference_in_a_diagnostic_counts_too() {
    let log = lines(&[entry("user", json!({"content": reference("a.json", b"\"x\"")}))]);
    assert_eq!(payload_error(load(&log)).code, PayloadCode::UnresolvedReference);
}

#[test]
fn r30_an_externalised_message_is_hydrated() {
    let bytes = message().to_string();
    let log = lines(&[entry(
        "history_mutation",
        json!({"mutation": "append_message", "index": 0, "message": reference("m.json", bytes.as_bytes())}),
    )]);
    let log = load_with(&log, PayloadLimits::default(), &mut Memory::with(&[("m.json", bytes.as_bytes())])).unwrap();
    assert_eq!(entries(&log)[0]["message"], message());
}

#[test]
fn r37_the_source_sees_the_exact_budget() {
    let mut source = Memory::with(&[("a.json", b"[1,2]")]);
    assert_eq!(resolve(&reference("a.json", b"[1,2]"), limits(1, 5), &mut source).unwrap(), json!([1, 2]));
    assert_eq!(source.reads, [("a.json".to_owned(), 5)]);
}

#[test]
fn r46_r47_payloads_and_payloads_in_payloads_are_put_in_place() {
    let inner = b"{\"deep\":[true]}";
    let outer = json!({"kept": 1, "inner": reference("in.json", inner)}).to_string();
    let mut source = Memory::with(&[("in.json", inner), ("out.json", outer.as_bytes())]);
    let result = json!([reference("in.json", inner), {"at": reference("out.json", outer.as_bytes())}, 2]);
    assert_eq!(
        resolve(&result, PayloadLimits::default(), &mut source).unwrap(),
        json!([{"deep": [true]}, {"at": {"kept": 1, "inner": {"deep": [true]}}}, 2])
    );
    // Depth first, in order, and the same path twice costs twice.
    let total = 64 << 20;
    let (inner, outer) = (inner.len() as u64, outer.len() as u64);
    assert_eq!(
        source.reads,
        [("in.json", total), ("out.json", total - inner), ("in.json", total - inner - outer)]
            .map(|(path, left)| (path.to_owned(), left))
    );
}

#[test]
fn r48_a_reference_has_five_keys_and_no_others() {
    let good = reference("a.json", b"1");
    let broken = [
        ("extra", json!(1)),
        ("encoding", json!("utf8")),
        ("sha256", json!("0".repeat(63))),
        ("sha256", json!("z".repeat(64))),
        ("byteLength", json!(-1)),
        ("byteLength", json!(1.5)),
        ("byteLength", json!("1")),
        ("relativePath", json!(" \u{feff}")),
    ];
    for (key, value) in broken {
        let mut bad = good.clone();
        bad[key] = value;
        let error = resolve(&bad, PayloadLimits::default(), &mut Memory::with(&[("a.json", b"1")])).unwrap_err();
        assert_eq!(error.code, PayloadCode::InvalidReference, "{key}");
    }
    let mut upper = good;
    upper["sha256"] = json!(upper["sha256"].as_str().unwrap().to_uppercase());
    assert_eq!(resolve(&upper, PayloadLimits::default(), &mut Memory::with(&[("a.json", b"1")])).unwrap(), json!(1));
}

#[test]
fn r49_a_missing_payload_is_not_found() {
    let error = resolve(&reference("a.json", b"1"), PayloadLimits::default(), &mut Memory::default()).unwrap_err();
    assert_eq!((error.code, error.metadata.relative_path.as_deref()), (PayloadCode::PayloadNotFound, Some("a.json")));
}

#[test]
fn r55_length_and_digest_have_distinct_codes() {
    let error = resolve(&reference("a.json", b"12"), PayloadLimits::default(), &mut Memory::with(&[("a.json", b"1")]));
    let error = error.unwrap_err();
    assert_eq!(error.code, PayloadCode::ByteLengthMismatch);
    assert_eq!(
        (error.metadata.expected, error.metadata.actual),
        (Some(Detail::Number(2.0)), Some(Detail::Number(1.0)))
    );
    let error = resolve(&reference("a.json", b"2"), PayloadLimits::default(), &mut Memory::with(&[("a.json", b"1")]));
    let error = error.unwrap_err();
    assert_eq!(error.code, PayloadCode::Sha256Mismatch);
    let digest = reference("", b"1")["sha256"].as_str().unwrap().to_owned();
    assert_eq!(error.metadata.actual, Some(Detail::Text(digest)));
}

#[test]
fn r56_a_payload_that_is_no_json_is_named() {
    let deep = "[".repeat(100) + &"]".repeat(100);
    for bytes in [b"{".as_slice(), b"\xff", b"\"\\ud800\"", deep.as_bytes()] {
        let error =
            resolve(&reference("a.json", bytes), PayloadLimits::default(), &mut Memory::with(&[("a.json", bytes)]));
        let error = error.unwrap_err();
        assert_eq!((error.code, error.cause.is_some()), (PayloadCode::InvalidJson, true));
    }
}

#[test]
fn r57_depth_and_budget_are_limits() {
    let inner = b"1".as_slice();
    let outer = json!([reference("in.json", inner)]).to_string();
    let mut source = Memory::with(&[("in.json", inner), ("out.json", outer.as_bytes())]);
    let result = reference("out.json", outer.as_bytes());
    let both = outer.len() as u64 + 1;

    let error = resolve(&result, limits(1, both), &mut source).unwrap_err();
    assert_eq!((error.code, error.metadata.depth), (PayloadCode::MaxDepthExceeded, Some(1)));
    let error = resolve(&result, limits(2, both - 1), &mut source).unwrap_err();
    assert_eq!(
        (error.code, error.metadata.actual),
        (PayloadCode::MaxTotalBytesExceeded, Some(Detail::Number(both as f64)))
    );
    assert_eq!(resolve(&result, limits(2, both), &mut source).unwrap(), json!([1]));
    // Plain nesting is free; depth 0 forbids every reference.
    assert!(resolve(&json!([[[1]]]), limits(0, 0), &mut source).is_ok());
    assert_eq!(resolve(&result, limits(0, both), &mut source).unwrap_err().code, PayloadCode::MaxDepthExceeded);
}

#[test]
fn r58_reads_see_the_total_and_then_the_rest() {
    let mut source = Memory::with(&[("a.json", b"111"), ("b.json", b"22")]);
    let result = json!([reference("a.json", b"111"), reference("b.json", b"22")]);
    assert_eq!(resolve(&result, limits(1, 5), &mut source).unwrap(), json!([111, 22]));
    assert_eq!(source.reads, [("a.json".to_owned(), 5), ("b.json".to_owned(), 2)]);
}

#[test]
fn r62_cycles_in_memory_and_limits_that_are_none() {
    let broken = |kind| {
        let text = format!(
            r#"[{{"schemaVersion":1,"timestamp":"{AT}","sessionId":"s","event":"server_tool","tool":"t","at":{},"odd":null}}]"#,
            reference("a.json", b"1")
        );
        let node = Node::parse_live(&text, &[(13, Node::Foreign(kind))]).unwrap();
        let loader = LogLoader::from_entries(&node, PayloadLimits::default(), true).unwrap();
        payload_error(loader.run(Some(&mut Memory::with(&[("a.json", b"1")]))))
    };
    assert_eq!(broken(Foreign::Cycle).code, PayloadCode::CircularReference);
    assert_eq!(broken(Foreign::NonFinite).code, PayloadCode::InvalidJson);

    for bad in [-1.0, f64::NAN, f64::INFINITY, 1.5, 9_007_199_254_740_992.0] {
        for limits in [PayloadLimits::new(Some(bad), None), PayloadLimits::new(None, Some(bad))] {
            assert_eq!(limits.unwrap_err().code, PayloadCode::InvalidLimit);
        }
    }
    assert_eq!(PayloadLimits::new(Some(0.0), Some(3.0)).unwrap(), limits(0, 3));
}

#[test]
fn a_payload_that_refers_to_itself_is_circular_before_it_is_read() {
    let looped = fixture("loop.json");
    let mut source = Memory::with(&[("loop.json", looped.as_bytes())]);
    let error = payload_error(load_with(&fixture("invalid-5-cycle.jsonl"), PayloadLimits::default(), &mut source));
    assert_eq!((error.code, error.metadata.depth), (PayloadCode::CircularReference, Some(1)));
    assert_eq!(source.reads.len(), 1);
}

#[test]
fn the_external_sample_has_its_stated_outcomes() {
    let text = fixture("valid-3-external.jsonl");
    let path = "syn-3.payloads/42792723349a4e1a0835325d77ecd55393d11077293c0c6f90e517f9e71bd83c.json";
    let bytes = fixture(path);
    let mut source = Memory::with(&[(path, bytes.as_bytes())]);
    let log = load_with(&text, limits(1, 23), &mut source).unwrap();
    assert_eq!(entries(&log)[0]["response"]["content"], "kept outside the line");
    assert_eq!(payload_error(load(&text)).code, PayloadCode::UnresolvedReference);
    let code = |limits| payload_error(load_with(&text, limits, &mut Memory::with(&[(path, bytes.as_bytes())]))).code;
    assert_eq!(code(limits(0, 23)), PayloadCode::MaxDepthExceeded);
    assert_eq!(code(limits(1, 22)), PayloadCode::MaxTotalBytesExceeded);
}

#[test]
fn a_whole_entry_may_stand_outside_its_line() {
    let bytes = entry("user", json!({"content": "far"})).to_string();
    let text = format!("\n{}\n{}", reference("e.json", bytes.as_bytes()), entry("user", json!({"content": "near"})));
    let log = load_with(&text, limits(1, 1000), &mut Memory::with(&[("e.json", bytes.as_bytes())])).unwrap();
    assert_eq!(
        (entries(&log)[0]["content"].clone(), entries(&log)[1]["content"].clone()),
        (json!("far"), json!("near"))
    );
}

#[test]
fn hydrated_entries_are_decoded_and_issues_keep_their_order() {
    let text = lines(&[
        entry("user", json!({"content": 1})),
        entry("user", json!({"content": reference("n.json", b"2")})),
        entry("user", json!({"content": 3})),
    ]);
    match load_with(&text, PayloadLimits::default(), &mut Memory::with(&[("n.json", b"2")])) {
        Err(LoadError::Decode(error)) => {
            assert_eq!(paths(&error), ["line 1.content", "line 2.content", "line 3.content"])
        }
        other => panic!("{other:?}"),
    }
    // A reference that cannot be resolved is reported before any of them.
    assert_eq!(payload_error(load(&text)).code, PayloadCode::UnresolvedReference);
}

#[test]
fn a_host_may_await_each_payload() {
    let text = holding(&json!([reference("a.json", b"1"), reference("b.json", b"2")]));
    let mut loader = LogLoader::from_text(text, limits(1, 10), true).unwrap();
    let mut asked = Vec::new();
    let log = loop {
        match loader.step().unwrap() {
            LoadStep::Need(request) => {
                asked.push((request.relative_path.clone(), request.max_bytes));
                loader.supply(Some(if request.relative_path == "a.json" { b"1" } else { b"2" })).unwrap();
            }
            LoadStep::Done(log) => break log,
        }
    };
    assert_eq!(asked, [("a.json".to_owned(), 10), ("b.json".to_owned(), 9)]);
    assert_eq!(entries(&log)[0]["result"], json!([1, 2]));
}

#[test]
fn the_first_unsupported_version_is_told_wherever_it_stands() {
    let versioned = |version: u32, content: Value| {
        let mut line = entry("user", json!({"content": content}));
        line["schemaVersion"] = json!(version);
        line
    };
    let far = reference("n.json", b"\"x\"");
    for (log, first) in [
        ([versioned(2, json!("near")), versioned(3, far.clone())], 2.0),
        ([versioned(3, far.clone()), versioned(2, json!("near"))], 3.0),
        ([versioned(1, json!("near")), versioned(4, far.clone())], 4.0),
        ([versioned(1, far.clone()), versioned(5, json!("near"))], 5.0),
    ] {
        match load_with(&lines(&log), PayloadLimits::default(), &mut Memory::with(&[("n.json", b"\"x\"")])) {
            Err(LoadError::Decode(error)) => {
                assert_eq!((error.code, error.schema_version), (DecodeCode::UnsupportedVersion, Some(first)));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_codes_have_their_names() {
    assert_eq!(
        PayloadCode::ALL.map(PayloadCode::as_str).join(" "),
        "INVALID_REFERENCE MAX_DEPTH_EXCEEDED UNRESOLVED_REFERENCE CIRCULAR_REFERENCE PAYLOAD_NOT_FOUND \
         MAX_TOTAL_BYTES_EXCEEDED BYTE_LENGTH_MISMATCH SHA256_MISMATCH INVALID_JSON INVALID_LIMIT OUTSIDE_ROOT \
         PAYLOAD_UNREADABLE STABLE_PAYLOAD_READ_UNAVAILABLE"
    );
}
