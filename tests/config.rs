//! A conversation's options, at each bound and one beyond; every refusal names its field.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use agent_roundtable::conversation::{Code, Config, LimitsPatch};
use agent_roundtable::record::model::{ModelCalls, Recovery, Selector};
use agent_roundtable::value::Json;

fn text(value: impl Into<String>) -> Json {
    Json::String(value.into())
}

fn object(members: &[(&str, Json)]) -> Json {
    Json::Object(members.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect())
}

fn set(value: &Json, path: &[&str], new: Option<Json>) -> Json {
    let Some((key, rest)) = path.split_first() else { return new.unwrap() };
    match value {
        Json::Object(members) => {
            let mut members = members.clone();
            let old = members.iter().find(|(k, _)| k == key).map_or(object(&[]), |(_, v)| v.clone());
            members.retain(|(k, _)| k != key);
            if !rest.is_empty() || new.is_some() {
                members.push(((*key).to_owned(), set(&old, rest, new)));
            }
            Json::Object(members)
        }
        Json::Array(items) => {
            let mut items = items.clone();
            let at: usize = key.parse().unwrap();
            items[at] = set(&items[at], rest, new);
            Json::Array(items)
        }
        _ => panic!("no member {key}"),
    }
}

fn agent(id: &str) -> Json {
    object(&[
        ("kind", text("agent")),
        ("id", text(id)),
        ("runtime", object(&[("id", text("r")), ("version", text("1"))])),
    ])
}

fn options() -> Json {
    object(&[
        ("conversationId", text("c")),
        ("seed", text("s")),
        ("participants", Json::Array(vec![agent("ana"), object(&[("kind", text("external")), ("id", text("pia"))])])),
        ("limits", object(&[("maxTurnsPerRun", Json::Number(3.0))])),
    ])
}

/// Refused as `invalid-config` with this field at the head of the message.
fn refuses(path: &[&str], value: Option<Json>, field: &str) {
    let error = Config::read(&set(&options(), path, value)).unwrap_err();
    assert_eq!(error.code, Code::InvalidConfig);
    assert!(error.message.contains(field), "{field}: {}", error.message);
}

fn accepts(path: &[&str], value: Json) -> Config {
    Config::read(&set(&options(), path, Some(value))).unwrap()
}

#[test]
fn c1_ids_are_present_bounded_unique_and_printable() {
    for (path, field) in [
        (&["conversationId"][..], "conversationId"),
        (&["participants", "0", "id"], "participants[0].id"),
        (&["participants", "0", "runtime", "id"], "participants[0].runtime.id"),
        (&["participants", "0", "runtime", "version"], "participants[0].runtime.version"),
    ] {
        for bad in [None, Some(text("")), Some(text("x".repeat(513))), Some(Json::Null), Some(Json::Number(1.0))] {
            refuses(path, bad, field);
        }
        accepts(path, text("x".repeat(512)));
        accepts(path, text("\u{1f600}".repeat(256)));
        refuses(path, Some(text("\u{1f600}".repeat(257))), field);
    }
    for bad in ["a\nb", "a\rb", "\u{0}", "a\u{85}b", "\u{2028}", "\u{2029}", "\u{7f}", "\u{1b}"] {
        refuses(&["participants", "0", "id"], Some(text(bad)), "participants[0].id");
    }
    for good in ["with space", "K\u{e9}vin", "#!", "\u{1f600}"] {
        accepts(&["participants", "0", "id"], text(good));
    }
    refuses(&["participants", "1", "id"], Some(text("ana")), "participants[1].id");
    refuses(&["participants"], Some(Json::Array(vec![])), "participants must have 1 to 1000");
    let many = |n: usize| Json::Array((0..n).map(|i| agent(&format!("a{i}"))).collect());
    refuses(&["participants"], Some(many(1001)), "participants must have 1 to 1000");
    assert_eq!(accepts(&["participants"], many(1000)).participants.len(), 1000);
    refuses(&["participants", "0", "kind"], Some(text("robot")), "participants[0].kind");
    refuses(&["participants", "0"], Some(text("ana")), "participants[0] must be an object");
}

#[test]
fn c1_texts_are_bounded() {
    for (path, field) in [(&["purpose"][..], "purpose"), (&["participants", "1", "description"], "description")] {
        accepts(path, text("x".repeat(8192)));
        refuses(path, Some(text("x".repeat(8193))), field);
        refuses(path, Some(Json::Bool(true)), field);
    }
}

#[test]
fn c2_every_count_is_a_positive_safe_integer() {
    let limits = [
        "maxTurnsPerRun",
        "timeoutMs",
        "settleTimeoutMs",
        "maxModelCallsPerRun",
        "maxModelCallsPerConversation",
        "maxModelCallsPerParticipant",
        "maxTokensPerRun",
    ];
    let bad = [0.0, -1.0, 1.5, f64::NAN, f64::INFINITY, 9_007_199_254_740_992.0];
    for limit in limits {
        for number in bad {
            refuses(&["limits", limit], Some(Json::Number(number)), &format!("limits.{limit}"));
        }
        refuses(&["limits", limit], Some(text("7")), &format!("limits.{limit}"));
        let patch = object(&[(limit, Json::Number(0.0))]);
        assert!(LimitsPatch::read(&patch).unwrap_err().message.contains(limit));
    }
    for field in ["maxConcurrentParticipants", "leaseMs"] {
        for number in bad {
            refuses(&[field], Some(Json::Number(number)), field);
        }
        accepts(&[field], Json::Number(9_007_199_254_740_991.0));
    }
    refuses(&["limits", "maxTurnsPerRun"], None, "limits.maxTurnsPerRun");
    refuses(&["limits"], None, "limits");
}

#[test]
fn c2_a_limit_of_another_name_is_refused() {
    refuses(&["limits", "maxTokenPerRun"], Some(Json::Number(1.0)), "limits.maxTokenPerRun");
    let patch = object(&[("maxTurns", Json::Number(1.0))]);
    assert!(LimitsPatch::read(&patch).unwrap_err().message.contains("limits.maxTurns"));
}

#[test]
fn c2_defaults() {
    let config = Config::read(&options()).unwrap();
    assert_eq!((config.max_concurrent_participants, config.lease_ms), (1, 30_000));
    assert_eq!((config.recovery, config.selector), (Recovery::None, Selector::RoundRobin));
}

#[test]
fn c10_the_built_in_policy_is_called_by_its_name() {
    assert_eq!(accepts(&["selector"], text("round-robin")).selector, Selector::RoundRobin);
    refuses(&["selector"], Some(text("at-random")), "selector");
}

#[test]
fn c25_whether_a_factory_continues_waits_is_what_it_says() {
    let path = ["participants", "0", "supportsContinuation"];
    for (said, continues) in [(Some(true), true), (Some(false), false), (None, false)] {
        let config = Config::read(&set(&options(), &path, said.map(Json::Bool))).unwrap();
        assert_eq!(config.participants[0].agent.as_ref().unwrap().supports_continuation, continues, "{said:?}");
    }
    refuses(&path, Some(text("yes")), "participants[0].supportsContinuation");
}

#[test]
fn c3_caps_and_prices_need_everyone_to_say_whether_they_call_models() {
    let metered = set(&options(), &["participants", "0", "modelCalls"], Some(text("metered")));
    for cap in ["maxModelCallsPerRun", "maxModelCallsPerConversation", "maxModelCallsPerParticipant", "maxTokensPerRun"]
    {
        refuses(&["limits", cap], Some(Json::Number(5.0)), cap);
        let capped = set(&metered, &["limits", cap], Some(Json::Number(5.0)));
        Config::read(&capped).unwrap();
        let with_selector = set(&capped, &["selector"], Some(object(&[])));
        assert!(Config::read(&with_selector).unwrap_err().message.contains("selector.modelCalls"));
        let config = Config::read(&options()).unwrap();
        let patch = LimitsPatch::read(&object(&[(cap, Json::Number(5.0))])).unwrap();
        assert!(config.check_patch(&patch, &config.limits).unwrap_err().message.contains(cap));
    }
    refuses(&["priceVersion"], Some(text("2027")), "pricing");
    refuses(&["priceVersion"], Some(text("")), "priceVersion");
    let none = set(&options(), &["participants", "0", "modelCalls"], Some(text("none")));
    let config = Config::read(&set(&none, &["priceVersion"], Some(text("2027")))).unwrap();
    assert_eq!(config.participants[0].agent.as_ref().unwrap().model_calls, Some(ModelCalls::None));
    refuses(&["participants", "0", "modelCalls"], Some(text("some")), "modelCalls");
}

#[test]
fn c4_durable_recovery_is_refused_where_it_cannot_be_kept() {
    let durable = set(&options(), &["recovery"], Some(text("durable")));
    let stored = set(&durable, &["storeDurability"], Some(text("durable")));
    let versions = Some(Json::Array(vec![text("v1")]));
    let listed = set(&stored, &["participants", "0", "checkpointVersions"], versions.clone());
    let reason = |options: &Json| Config::read(options).unwrap_err().message;
    assert!(reason(&durable).contains("store"));
    assert!(reason(&stored).contains("participants[0].factory.checkpointVersions"));
    assert_eq!(Config::read(&listed).unwrap().recovery, Recovery::Durable);
    assert!(reason(&set(&listed, &["selector"], Some(object(&[])))).contains("selector.reference"));
    let memory = set(&listed, &["storeDurability"], Some(text("memory")));
    assert!(reason(&memory).contains("store"));
    refuses(&["recovery"], Some(text("some")), "recovery");
}

#[test]
fn c2_a_patch_replaces_only_what_it_names() {
    let config = Config::read(&options()).unwrap();
    let patch = LimitsPatch::read(&object(&[("timeoutMs", Json::Number(9.0))])).unwrap();
    let merged = config.check_patch(&patch, &config.limits).unwrap();
    assert_eq!((merged.max_turns_per_run, merged.timeout_ms, merged.settle_timeout_ms), (3, Some(9), None));
}
