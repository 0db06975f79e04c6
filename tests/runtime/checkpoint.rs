//! The `agent/1` checkpoint and its codec.

use crate::host::{Host, agent, calling, object, options, options_with_tool, reply, string, tool};
use agent_roundtable::runtime::agent::AgentLoop;
use agent_roundtable::runtime::checkpoint::{Checkpoint, read};
use agent_roundtable::runtime::codec::{Value, decode, encode};
use agent_roundtable::runtime::config::{AgentConfig, AgentOptions};
use agent_roundtable::runtime::fingerprint::ConstructionInput;
use agent_roundtable::value::Json;
use proptest::prelude::*;

fn config(options: AgentOptions) -> AgentConfig {
    AgentConfig::new(options).unwrap()
}

/// A settled agent that used a tool, its checkpoint and its history.
fn settled() -> (Host, Checkpoint) {
    let metadata = object(&[("odd", object(&[("$date", string("no"))])), ("seen", Value::Date(5.0))]);
    let replies = [calling(&[("t1", "add", r#"{"a":1,"b":2}"#)]), reply("three", &[("metadata", metadata)])];
    let mut host = Host::new(agent(options_with_tool())).replying(replies);
    host.run("a1");
    let checkpoint = host.agent.take_checkpoint();
    (host, checkpoint)
}

#[test]
fn a44_an_agent_history_is_restored_equal_with_real_dates() {
    let (host, checkpoint) = settled();
    let json = Json::Array(checkpoint.append.clone()).canonical();
    let Json::Array(append) = Json::parse(&json).unwrap() else { panic!() };
    let (mut restored, history) =
        AgentLoop::restore(config(options_with_tool()), &checkpoint.version, &checkpoint.data, &append).unwrap();
    assert_eq!(history.history, host.history);
    assert_eq!(history.changed, []);
    assert!(!restored.first_turn());
    let again = restored.take_checkpoint();
    assert_eq!((again.data, again.append.len()), (checkpoint.data, 0), "an equal head and nothing to append");
}

#[test]
fn a_checkpoint_appends_only_what_its_turn_added() {
    let (mut host, first) = settled();
    host.replies.push_back(Ok(reply("again", &[])));
    host.run("a2");
    let second = host.agent.take_checkpoint();
    assert_eq!((first.append.len(), second.append.len()), (4, 2));
    assert_eq!(first.data, second.data);
}

#[test]
fn a43_a_checkpoint_holds_hashes_of_the_construction_and_not_a_word_of_it() {
    let options = AgentOptions { system_message: Some("secret instructions".into()), ..options_with_tool() };
    let mut host = Host::new(agent(options)).replying([reply("hello", &[])]);
    host.run("a1");
    let checkpoint = host.agent.take_checkpoint();
    let text = checkpoint.data.canonical() + &Json::Array(checkpoint.append).canonical();
    for word in ["secret", "\"add\"", "\"p\"", "\"m\"", "number"] {
        assert!(!text.contains(word), "{word} in {text}");
    }
}

#[test]
fn a_settled_checkpoint_refuses_another_provider_or_model_and_reports_the_rest() {
    let (_, checkpoint) = settled();
    let restore = |options| read(&config(options), &checkpoint.version, &checkpoint.data, &checkpoint.append);
    let provider = restore(AgentOptions { provider_name: "q".into(), ..options_with_tool() });
    assert!(provider.unwrap_err().to_string().contains("the provider differs"));
    let model = restore(AgentOptions { model: "n".into(), ..options_with_tool() });
    assert!(model.unwrap_err().to_string().contains("the model differs"));
    let changed = restore(AgentOptions { system_message: Some("new".into()), ..options() }).unwrap().changed;
    assert_eq!(changed, [ConstructionInput::SystemMessage, ConstructionInput::Tools]);
    let schema = AgentOptions { tools: vec![tool("add", "{}")], ..options_with_tool() };
    assert_eq!(restore(schema).unwrap().changed, [ConstructionInput::Tools]);
    let more_rounds = AgentOptions { max_rounds: Some(3.0), temperature: Some(0.5), ..options_with_tool() };
    assert_eq!(restore(more_rounds).unwrap().changed, []);
}

#[test]
fn the_order_of_tools_is_no_difference() {
    let two = |a, b| AgentOptions { tools: vec![tool(a, "{}"), tool(b, "{}")], ..options() };
    let checkpoint = agent(two("x", "y")).take_checkpoint();
    let restored = read(&config(two("y", "x")), "agent/1", &checkpoint.data, &[]).unwrap();
    assert_eq!(restored.changed, []);
}

#[test]
fn a45_another_version_is_refused() {
    let (_, checkpoint) = settled();
    for version in ["agent/2", "session/1", "agent/1 ", ""] {
        assert!(read(&config(options_with_tool()), version, &checkpoint.data, &checkpoint.append).is_err());
    }
}

#[test]
fn a46_malformed_data_is_refused_with_its_path() {
    let (_, checkpoint) = settled();
    let head = |text: &str| read(&config(options_with_tool()), "agent/1", &Json::parse(text).unwrap(), &[]);
    assert!(head("null").unwrap_err().reason.contains("data.fingerprint"));
    assert!(head(r#"{"fingerprint":{}}"#).unwrap_err().reason.contains("data.fingerprint.tools"));
    let data = checkpoint.data.canonical();
    let upper = data.replacen("\"model\":\"", "\"model\":\"G", 1);
    assert!(head(&upper).unwrap_err().reason.contains("data.fingerprint.model"));
    let model = checkpoint.data.get("fingerprint").and_then(|f| f.get("model")).and_then(Json::as_str).unwrap();
    for no_hash in [&model[1..], &model.replace(&model[..1], "g"), &"A".repeat(64), ""] {
        let error = head(&data.replace(model, no_hash)).unwrap_err();
        assert!(error.reason.contains("data.fingerprint.model: not a SHA-256"), "{error}");
    }

    let message =
        r#"{"id":"m","role":"user","content":"x","timestamp":{"$date":"1970-01-01T00:00:00.000Z"},"state":"complete"}"#;
    let restore = |messages: &[String]| {
        let append: Vec<_> = messages.iter().map(|text| Json::parse(text).unwrap()).collect();
        read(&config(options_with_tool()), "agent/1", &checkpoint.data, &append)
    };
    assert!(restore(&[message.to_owned()]).is_ok());
    let assistant = message.replace("user", "assistant");
    let with_call = assistant.replace(
        "\"state\"",
        r#""toolCalls":[{"id":"t","type":"function","function":{"name":"add","arguments":"{}"}}],"state""#,
    );
    let result = message.replace("user", "tool").replace("\"state\"", "\"toolCallId\":\"t\",\"state\"");
    assert!(restore(&[with_call.clone(), result.clone()]).is_ok());
    let cases: [(Vec<String>, &str); 11] = [
        (vec!["{}".into()], "append[0].id: missing"),
        (vec![message.replace("\"m\"", "7")], "append[0].id: expected a string, found number"),
        (vec![message.replace("user", "system")], "append[0].role: a history holds no system message"),
        (vec![message.replace("user", "admin")], "append[0].role: expected 'user'"),
        (vec![message.replace("complete", "done")], "append[0].state"),
        (
            vec![message.replace("{\"$date\":\"1970-01-01T00:00:00.000Z\"}", "\"1970\"")],
            "append[0].timestamp: expected a date",
        ),
        (vec![message.replace("1970-01-01T00:00:00.000Z", "1970-01-01")], "append[0].timestamp: not a date"),
        (vec![message.replace("\"x\"", "{\"$escaped\":{\"a\":1}}")], "append[0].content: an escape"),
        (vec![with_call.clone()], "append: ends with a tool call without a result"),
        (vec![with_call, message.into()], "append[1]: follows a tool call without a result"),
        (vec![message.into(), result], "append[1]: a tool result that answers no open call"),
    ];
    for (messages, reason) in cases {
        let error = restore(&messages).unwrap_err();
        assert!(error.reason.contains(reason), "{} should hold {reason}", error.reason);
    }
}

#[test]
fn a40_a41_a42_data_shaped_like_a_tag_stays_data_beside_a_real_date() {
    let date_like = object(&[("$date", string("2027-01-05T08:00:01.000Z"))]);
    let escape_like = object(&[("$escaped", date_like.clone())]);
    let nested = object(&[("$escaped", escape_like.clone())]);
    let proto = object(&[("__proto__", object(&[("$date", Value::Date(1.0))])), ("when", Value::Date(1.0))]);
    for value in [date_like, escape_like, nested, proto, object(&[("$date", Value::Null), ("b", Value::Null)])] {
        let coded = encode(&value, "v").unwrap();
        let text = Json::parse(&coded.canonical()).unwrap();
        assert_eq!(decode(&text, "v").unwrap(), value);
    }
    assert_eq!(encode(&Value::Date(0.0), "v").unwrap().canonical(), r#"{"$date":"1970-01-01T00:00:00.000Z"}"#);
}

#[test]
fn k11_what_json_cannot_hold_is_refused_with_its_path() {
    let bad = |value| object(&[("a", Value::Array(vec![Value::Null, value]))]);
    for value in [Value::Number(f64::NAN), Value::Number(f64::INFINITY), Value::Date(f64::NAN), Value::Date(8.65e15)] {
        assert_eq!(encode(&bad(value), "v").unwrap_err().path, "v.a[1]");
    }
}

#[test]
fn k11_depth_is_bounded_as_where_it_is_read_back() {
    let nest = |levels: usize| (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
    // A record holds a message, and that a value of full depth.
    let text = encode(&nest(102), "v").unwrap().canonical();
    assert!(Json::parse_enclosing(&text).is_ok());
    assert!(encode(&nest(103), "v").is_err());
    let tagged = (0..52).fold(Value::Null, |inner, _| object(&[("$date", inner)]));
    assert!(encode(&tagged, "v").is_err(), "an escape counts as a level");
    // An object at the last level, and one whose escape is at it.
    let within = |levels: usize, inner: Value| (0..levels).fold(inner, |inner, _| Value::Array(vec![inner]));
    let (plain, escaped) = (object(&[("a", Value::Null)]), object(&[("$date", Value::Null)]));
    for (value, levels) in [(plain, 101), (escaped, 100)] {
        let text = encode(&within(levels, value.clone()), "v").unwrap().canonical();
        assert!(Json::parse_enclosing(&text).is_ok());
        let error = encode(&within(levels + 1, value), "v").unwrap_err();
        assert_eq!(error.message, "nested deeper than 102");
    }
}

#[test]
fn k11_only_what_encode_writes_is_read() {
    for text in [
        r#"{"$date":1}"#,
        r#"{"$date":"2027-01-05T08:00:01Z"}"#,
        r#"{"$date":"5 Jan 2027"}"#,
        r#"{"$escaped":1}"#,
        r#"{"$escaped":{}}"#,
        r#"{"$escaped":{"$date":1,"b":2}}"#,
    ] {
        assert!(decode(&Json::parse(text).unwrap(), "v").is_err(), "{text}");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-1e9..1e9).prop_map(Value::Number),
        any::<String>().prop_map(Value::String),
        (-8.64e15..8.64e15).prop_map(|ms: f64| Value::Date(ms.trunc())),
    ];
    let key = prop_oneof![
        Just("$date".to_owned()),
        Just("$escaped".to_owned()),
        Just("__proto__".to_owned()),
        any::<String>()
    ];
    leaf.prop_recursive(5, 32, 3, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::Array),
            prop::collection::btree_map(key.clone(), inner, 0..3).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a42_any_value_survives_the_codec(value in any_value()) {
        let text = encode(&value, "v").unwrap().canonical();
        let back = decode(&Json::parse(&text).unwrap(), "v").unwrap();
        prop_assert_eq!(encode(&back, "v").unwrap().canonical(), text);
        prop_assert_eq!(dates(&back), dates(&value));
    }
}

/// The dates of a value, in the order of its canonical text; plain data must not become one.
fn dates(value: &Value) -> Vec<i64> {
    match value {
        Value::Date(ms) => vec![*ms as i64],
        Value::Array(items) => items.iter().flat_map(dates).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            members.into_iter().flat_map(|(_, v)| dates(v)).collect()
        }
        _ => Vec::new(),
    }
}
