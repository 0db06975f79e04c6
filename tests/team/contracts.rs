//! Definitions and results: what is refused, where, and all of it at once.

use crate::support::*;
use agent_roundtable::team::Definition;

fn issues(text: &str) -> Vec<(String, String)> {
    match Definition::compile(&json(text)) {
        Ok(_) => Vec::new(),
        Err(issues) => issues.into_iter().map(|issue| (issue.code.to_owned(), issue.path)).collect(),
    }
}

fn has(found: &[(String, String)], code: &str, path: &str) -> bool {
    found.iter().any(|(c, p)| c == code && p == path)
}

#[test]
fn t10_each_malformed_result_is_named_by_its_path() {
    let team = Definition::compile(&json(&definition(&["a", "b"], &["room:a,b"], 1, 1, 1))).unwrap();
    let post = |post: &str| format!(r#"{{"summary":"x","posts":[{post}]}}"#);
    let cases = [
        ("null".to_owned(), ""),
        ("[]".to_owned(), ""),
        ("\"x\"".to_owned(), ""),
        ("{}".to_owned(), "/summary"),
        (r#"{"summary":1}"#.to_owned(), "/summary"),
        (r#"{"summary":"x","posts":null}"#.to_owned(), "/posts"),
        (r#"{"summary":"x","posts":{}}"#.to_owned(), "/posts"),
        (post("null"), "/posts/0"),
        (post(r#"{"roomId":1,"text":"x","mentions":[]}"#), "/posts/0/roomId"),
        (post(r#"{"roomId":" room","text":"x","mentions":[]}"#), "/posts/0/roomId"),
        (post(r#"{"roomId":"room","text":1,"mentions":[]}"#), "/posts/0/text"),
        (post(r#"{"roomId":"none","text":"x","mentions":[]}"#), "/posts/0/roomId"),
        (post(r#"{"roomId":"room","text":"x","mentions":{}}"#), "/posts/0/mentions"),
        (post(r#"{"roomId":"room","text":"x"}"#), "/posts/0/mentions"),
        (post(r#"{"roomId":"room","text":"x","mentions":["b",7]}"#), "/posts/0/mentions/1"),
        (post(r#"{"roomId":"room","text":"x","mentions":["c"]}"#), "/posts/0/mentions/0"),
    ];
    for (text, path) in cases {
        let issue = team.validate_result(0, &json(&text)).unwrap_or_else(|| panic!("{text} passed"));
        assert_eq!((issue.code, issue.path.as_str()), ("INVALID_TEAM", path), "{text}");
    }
    let good =
        r#"{"summary":"","extra":1,"data":null,"posts":[{"roomId":"room","text":"","mentions":["a"],"more":2}]}"#;
    assert_eq!(team.validate_result(0, &json(good)), None);
    let text = |units: usize| format!(r#"{{"summary":"{}"}}"#, "x".repeat(units));
    assert!(team.validate_result(0, &json(&text(1024 * 1024))).is_none());
    assert!(team.validate_result(0, &json(&text(1024 * 1024 + 1))).is_some());
}

#[test]
fn t17_limits_are_positive_safe_integers_and_so_is_their_product() {
    let with = |key: &str, value: &str| {
        let text = definition(&["a"], &["room:a"], 1, 1, 1);
        text.replace(&format!("\"{key}\":1"), &format!("\"{key}\":{value}"))
    };
    let limits = [
        ("globalConcurrency", "/data/globalConcurrency"),
        ("maxTurnsPerMember", "/data/maxTurnsPerMember"),
        ("tailMessages", "/data/communication/tailMessages"),
    ];
    for (key, path) in limits {
        for bad in ["0", "-1", "1.5", "9007199254740992", "\"1\"", "null"] {
            assert!(has(&issues(&with(key, bad)), "INVALID_TEAM", path), "{key} {bad}");
        }
        assert!(issues(&with(key, "9007199254740991")).is_empty(), "{key}");
    }
    for bad in ["0", "1.5", "9007199254740992"] {
        assert!(has(&issues(&with("definitionVersion", bad)), "INVALID_VERSION", "/definitionVersion"));
    }
    let two = definition(&["a", "b"], &[], 1, 4503599627370496, 1);
    assert!(has(&issues(&two), "INVALID_TEAM", "/data/maxTurnsPerMember"));
    assert!(issues(&definition(&["a", "b"], &[], 1, 4503599627370495, 1)).is_empty());
}

#[test]
fn t18_ids_are_trimmed_plain_and_unique_and_edges_are_none() {
    for bad in ["", " x", "x ", "x\\n", "x\\u007f", "\\ufeffx", "x\\u0000y"] {
        let member = definition(&["a"], &[], 1, 1, 1).replace(r#""id":"a""#, &format!(r#""id":"{bad}""#));
        assert!(has(&issues(&member), "INVALID_ID", "/nodes/0/id"), "{bad}");
        let room = definition(&["a"], &["room:a"], 1, 1, 1).replace(r#""id":"room""#, &format!(r#""id":"{bad}""#));
        assert!(has(&issues(&room), "INVALID_ID", "/data/communication/rooms/0/id"), "{bad}");
        let team = definition(&["a"], &[], 1, 1, 1).replace(r#""id":"t""#, &format!(r#""id":"{bad}""#));
        assert!(has(&issues(&team), "INVALID_ID", "/id"), "{bad}");
    }
    // U+0085 is no white space for the language the ids come from.
    assert!(issues(&definition(&["x\u{85}"], &[], 1, 1, 1)).is_empty());
    assert!(has(&issues(&definition(&["a", "a"], &[], 1, 1, 1)), "DUPLICATE_NODE_ID", "/nodes/1/id"));
    let rooms = issues(&definition(&["a"], &["r:a,a", "r:b"], 1, 1, 1));
    assert!(has(&rooms, "INVALID_TEAM", "/data/communication/rooms/0/members/1"));
    assert!(has(&rooms, "INVALID_TEAM", "/data/communication/rooms/1/id"));
    assert!(has(&rooms, "INVALID_TEAM", "/data/communication/rooms/1/members/0"), "all at once");
    let edge = definition(&["a"], &[], 1, 1, 1).replace(r#""edges":[]"#, r#""edges":[{}]"#);
    assert!(has(&issues(&edge), "INVALID_TEAM", "/edges"));
    let long = "x".repeat(512);
    assert!(issues(&definition(&[&long], &[], 1, 1, 1)).is_empty());
    assert!(has(&issues(&definition(&[&format!("{long}x")], &[], 1, 1, 1)), "INVALID_ID", "/nodes/0/id"));
}

#[test]
fn f_everything_wrong_is_listed() {
    let found = issues(
        r#"{"id":"","definitionVersion":0,"nodes":[{"id":"a","data":{"role":1,"initialTurn":"no"}}],"edges":null,"data":{}}"#,
    );
    for (code, path) in [
        ("INVALID_ID", "/id"),
        ("INVALID_VERSION", "/definitionVersion"),
        ("INVALID_TEAM", "/nodes/0/data/role"),
        ("INVALID_TEAM", "/nodes/0/data/brief"),
        ("INVALID_TEAM", "/nodes/0/data/initialTurn"),
        ("INVALID_DEFINITION", "/edges"),
        ("INVALID_TEAM", "/data/task"),
        ("INVALID_TEAM", "/data/globalConcurrency"),
    ] {
        assert!(has(&found, code, path), "{code} {path} in {found:?}");
    }
    for other in ["null", "[]", "1"] {
        assert!(has(&issues(other), "INVALID_DEFINITION", ""));
    }
}

#[test]
fn f_members_of_one_lane_declare_it_alike() {
    let lanes = |second: &str| {
        let text = definition(&["a", "b"], &[], 1, 1, 1);
        text.replace(r#""brief":"b-a""#, r#""brief":"b-a","lane":{"id":"l","n":1}"#)
            .replace(r#""brief":"b-b""#, &format!(r#""brief":"b-b","lane":{second}"#))
    };
    assert!(issues(&lanes(r#"{"n":1,"id":"l"}"#)).is_empty());
    assert!(issues(&lanes(r#"{"n":2,"id":"m"}"#)).is_empty());
    assert!(has(&issues(&lanes(r#"{"n":2,"id":"l"}"#)), "INVALID_TEAM", "/nodes/1/data/lane"));
}

#[test]
fn f_a_reader_sees_posts_of_its_rooms_alone() {
    let team = Definition::compile(&json(&definition(&["a", "b", "c"], &["all:a,b,c", "pair:a,b"], 1, 1, 1))).unwrap();
    let output = r#"{"task":"t","agents":[{"name":"a","role":"r","result":{"summary":"s","posts":[{"roomId":"pair","text":"p","mentions":[]},{"roomId":"all","text":"q","mentions":[]}]}},{"name":"b","role":"r","result":null}]}"#;
    let redacted = team.redacted(2, json(output)).canonical();
    assert!(
        !redacted.contains("pair") && redacted.contains("all") && redacted.contains("\"summary\":\"s\""),
        "{redacted}"
    );
    assert_eq!(team.redacted(1, json(output)), json(output));
}
