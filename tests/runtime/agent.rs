//! The agent loop, turn by turn.

use crate::host::{Host, agent, calling, object, options, options_with_tool, reply, string, tool, turn};
use agent_roundtable::runtime::agent::{Effect, Input, RecordBody, ToolOutcome, TurnFailure};
use agent_roundtable::runtime::codec::Value;
use agent_roundtable::runtime::config::{AgentConfig, AgentOptions};
use agent_roundtable::runtime::message::{Role, check_closed};
use agent_roundtable::runtime::outcome::TurnOutcome;

fn speak(text: &str) -> Effect {
    Effect::Finish(TurnOutcome::Speak(text.into()))
}

#[test]
fn a80_a_reply_is_spoken_trimmed_after_the_flush() {
    let mut host = Host::new(agent(options())).replying([reply("  hello \n", &[])]);
    assert_eq!(host.run("a1"), speak("hello"));
    assert_eq!(
        host.log,
        ["append a1:call:1:request", "call a1:call:1", "append a1:call:1:response", "flush"].map(String::from)
    );
    assert_eq!(host.requests[0].len(), 1);
    assert_eq!(host.requests[0][0].content.as_deref(), Some("### From ana\n> hi"));
}

#[test]
fn a80_a_blank_reply_yields() {
    let null = object(&[
        ("id", string("r")),
        ("role", string("assistant")),
        ("content", Value::Null),
        ("timestamp", Value::Date(0.0)),
        ("state", string("complete")),
    ]);
    let mut host = Host::new(agent(options())).replying([reply(" \u{feff}", &[]), null]);
    assert_eq!(host.run("a1"), Effect::Finish(TurnOutcome::Yield));
    assert_eq!(host.run("a2"), Effect::Finish(TurnOutcome::Yield));
}

#[test]
fn a80_a_second_turn_sees_the_first() {
    let mut host = Host::new(agent(options())).replying([reply("one", &[]), reply("two", &[])]);
    assert!(host.agent.first_turn());
    host.run("a1");
    assert!(!host.agent.first_turn());
    host.run("a2");
    let roles: Vec<_> = host.requests[1].iter().map(|m| m.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
}

#[test]
fn a47_a48_a_refused_admission_calls_nothing() {
    let mut agent = agent(options());
    let effects = agent.handle(turn("a1"));
    let [Effect::Extend(_), Effect::Append(request)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!((request.id.as_str(), &request.body), ("a1:call:1:request", &RecordBody::ModelRequest));
    let refused = agent.handle(Input::AppendRefused { call_id: "a1:call:1".into() });
    assert_eq!(refused, [Effect::Fail(TurnFailure::JournalFailed)]);
    assert_eq!(agent.handle(Input::Appended { call_id: "a1:call:1".into(), at: 0.0 }), []);
}

#[test]
fn a54_a_cache_hit_is_journaled_and_neither_admitted_nor_called() {
    let mut host = Host::new(agent(AgentOptions { provider_has_cache: true, ..options() }));
    host.cached.push_back(Some(reply("kept", &[])));
    assert_eq!(host.run("a1"), speak("kept"));
    assert_eq!(host.log, ["ask a1:call:1", "append a1:call:1:cache-hit", "flush"].map(String::from));
}

#[test]
fn a54_a_cache_miss_is_admitted_and_called() {
    let options = AgentOptions { provider_has_cache: true, ..options() };
    let mut host = Host::new(agent(options)).replying([reply("fresh", &[])]);
    assert_eq!(host.run("a1"), speak("fresh"));
    assert_eq!(host.log[..3], ["ask a1:call:1", "append a1:call:1:request", "call a1:call:1"].map(String::from));
}

#[test]
fn a50_a_provider_failure_is_journaled_before_it_is_thrown() {
    let mut host = Host::new(agent(options())).replying([reply("later", &[])]);
    host.replies.push_front(Err("overloaded".into()));
    assert_eq!(host.run("a1"), Effect::Fail(TurnFailure::ModelFailed));
    assert_eq!(host.log.last().unwrap(), "append a1:call:1:failure");
    assert!(host.agent.first_turn(), "a turn that throws leaves the first turn to come");
    assert_eq!(host.run("a2"), speak("later"));
    assert_eq!(host.requests[1].len(), 1, "the failed turn left nothing in the history");
}

#[test]
fn a_reply_that_is_none_fails_the_turn_and_names_the_member() {
    let without = |key: &str| match reply("x", &[]) {
        Value::Object(members) => Value::Object(members.into_iter().filter(|(k, _)| k != key).collect()),
        other => other,
    };
    let with = |key: &str, value: Value| match without(key) {
        Value::Object(mut members) => {
            members.push((key.into(), value));
            Value::Object(members)
        }
        other => other,
    };
    let cases = [
        (Value::Null, "reply: expected an object, found null"),
        (without("id"), "reply.id: missing"),
        (with("id", string("")), "reply.id: empty"),
        (with("role", string("tool")), "reply.toolCallId: missing from a tool message"),
        (with("role", string("user")), "reply.role: expected 'assistant', found 'user'"),
        (with("content", Value::Number(1.0)), "reply.content: expected a string, found number"),
        (with("content", string(&"x".repeat(1_048_577))), "reply.content: longer than 1048576 UTF-16 units"),
        (with("timestamp", string("2027-01-05")), "reply.timestamp: expected a date, found string"),
        (with("timestamp", Value::Date(f64::NAN)), "reply.timestamp: an invalid date"),
        (with("state", string("interrupted")), "reply.state: the reply was interrupted before its end"),
        (with("metadata", object(&[("n", Value::Number(f64::NAN))])), "reply.metadata.n: a number that is not finite"),
        (with("toolCalls", Value::Array(vec![string("x")])), "reply.toolCalls[0]: expected an object, found string"),
    ];
    for (bad, message) in cases {
        let mut host = Host::new(agent(options())).replying([bad]);
        assert_eq!(host.run("a1"), Effect::Fail(TurnFailure::InvalidReply(message.into())));
        assert_eq!(host.log.last().unwrap(), "append a1:call:1:failure", "{message}");
    }
}

#[test]
fn a_reply_may_be_as_long_as_a_content_may() {
    let words = "x".repeat(1_048_576);
    let mut host = Host::new(agent(options())).replying([reply(&words, &[])]);
    assert_eq!(host.run("a1"), speak(&words));
}

#[test]
fn siblings_of_one_round_run_together_and_answer_in_call_order() {
    let calls = calling(&[("t1", "add", r#"{"a":1,"b":2}"#), ("t2", "add", r#"{"a":3,"b":4}"#)]);
    let mut host = Host::new(agent(options_with_tool())).replying([calls, reply("done", &[])]);
    assert_eq!(host.run("a1"), speak("done"));
    assert_eq!(host.log[3..5], ["run t2", "run t1"].map(String::from), "this host settles them backwards");
    let second = &host.requests[1];
    let answers: Vec<_> =
        second[2..].iter().map(|m| (m.tool_call_id.clone().unwrap(), m.content.clone().unwrap())).collect();
    assert_eq!(answers, [("t1".into(), "ran t1".into()), ("t2".into(), "ran t2".into())]);
    assert!(host.log.contains(&"append a1:call:2:request".to_owned()), "each round is a call of its own");
}

#[test]
fn repeated_and_empty_tool_call_ids_are_made_unique() {
    let arguments = r#"{"a":1,"b":2}"#;
    let calls = calling(&[("t", "add", arguments), ("t", "add", arguments), ("", "add", arguments)]);
    let mut host = Host::new(agent(options_with_tool())).replying([calls, reply("done", &[])]);
    host.run("a1");
    let ids: Vec<_> = host.requests[1][1].tool_calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["t", "a1:call:1:tool:1", "a1:call:1:tool:2"]);
    assert_eq!(check_closed(&host.history, "history"), Ok(()));
}

#[test]
fn a_retried_attempt_repeats_its_idempotency_keys() {
    let mut keys = Vec::new();
    for attempt in ["a1", "a2"] {
        let calls = calling(&[("x", "add", r#"{"a":1,"b":2}"#), ("y", "add", r#"{"b":2.0,"a":1}"#)]);
        let mut agent = agent(options_with_tool());
        agent.handle(match turn(attempt) {
            Input::Start(start) => {
                Input::Start(agent_roundtable::runtime::agent::TurnStart { turn_id: "t".into(), ..start })
            }
            other => other,
        });
        let call_id = format!("{attempt}:call:1");
        agent.handle(Input::Appended { call_id: call_id.clone(), at: 0.0 });
        agent.handle(Input::ModelReplied { call_id: call_id.clone(), reply: calls });
        let effects = agent.handle(Input::Appended { call_id, at: 0.0 });
        let Some(Effect::RunTools(runs)) = effects.last() else { panic!("{effects:?}") };
        keys.push(runs.iter().map(|run| run.idempotency_key.clone()).collect::<Vec<_>>());
    }
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0][0], keys[0][1], "the same call twice in one turn is two effects");
}

#[test]
fn the_last_round_offers_no_tools_and_a_model_that_still_calls_one_is_named() {
    let call = || calling(&[("t", "add", r#"{"a":1,"b":2}"#)]);
    let limited = || agent(AgentOptions { max_rounds: Some(2.0), ..options_with_tool() });
    let mut host = Host::new(limited()).replying([call(), reply("in words", &[])]);
    assert_eq!(host.run("a1"), speak("in words"));
    assert!(host.log.contains(&"call a1:call:2 without tools".to_owned()));
    let mut host = Host::new(limited()).replying([call(), call()]);
    let Effect::Fail(failure) = host.run("a1") else { panic!("a turn beyond its rounds") };
    assert_eq!(failure, TurnFailure::RoundLimit { max_rounds: 2 });
    assert!(failure.to_string().contains("maxRounds"));
    assert_eq!(host.requests.len(), 2);
    assert!(host.history.is_empty());
}

#[test]
fn sixteen_rounds_are_the_default() {
    let replies = (0..16).map(|i| calling(&[(&format!("t{i}"), "add", r#"{"a":1,"b":2}"#)]));
    let mut host = Host::new(agent(options_with_tool())).replying(replies);
    assert_eq!(host.run("a1"), Effect::Fail(TurnFailure::RoundLimit { max_rounds: 16 }));
    assert_eq!(host.requests.len(), 16);
}

#[test]
fn a83_a_tool_that_suspends_fails_the_turn_once_its_siblings_are_done() {
    let arguments = r#"{"a":1,"b":2}"#;
    let calls = calling(&[("t1", "add", arguments), ("t2", "add", arguments)]);
    let mut host = Host::new(agent(options_with_tool())).replying([calls, reply("next", &[])]);
    host.tool = Box::new(|run| match run.index {
        0 => ToolOutcome::Returned(agent_roundtable::value::Json::Null),
        _ => ToolOutcome::Suspended,
    });
    assert_eq!(host.run("a1"), Effect::Fail(TurnFailure::UnsupportedWait));
    assert!(host.log.contains(&"run t1".to_owned()), "{:?}", host.log);
    assert_eq!(host.run("a2"), speak("next"));
    assert_eq!(host.requests[1].len(), 1);
}

#[test]
fn a85_an_abort_in_a_tool_round_ends_the_turn_and_late_results_change_nothing() {
    let mut agent = agent(options_with_tool());
    let call_id = || "a1:call:1".to_owned();
    agent.handle(turn("a1"));
    agent.handle(Input::Appended { call_id: call_id(), at: 0.0 });
    let calls = calling(&[("t", "add", r#"{"a":1,"b":2}"#)]);
    agent.handle(Input::ModelReplied { call_id: call_id(), reply: calls });
    agent.handle(Input::Appended { call_id: call_id(), at: 0.0 });
    assert_eq!(agent.handle(Input::Aborted), [Effect::Fail(TurnFailure::Aborted)]);
    let outcome = ToolOutcome::Returned(agent_roundtable::value::Json::Null);
    assert_eq!(agent.handle(Input::ToolSettled { call_id: call_id(), index: 0, outcome, at: 0.0 }), []);
    assert_eq!(agent.handle(Input::Aborted), []);
    assert!(agent.take_checkpoint().append.is_empty());
}

#[test]
fn a_result_of_an_earlier_turn_answers_no_call_of_this_one() {
    let mut agent = agent(options_with_tool());
    for attempt in ["a1", "a2"] {
        let call_id = || format!("{attempt}:call:1");
        agent.handle(turn(attempt));
        agent.handle(Input::Appended { call_id: call_id(), at: 0.0 });
        let calls = calling(&[("t", "add", r#"{"a":1,"b":2}"#)]);
        agent.handle(Input::ModelReplied { call_id: call_id(), reply: calls });
        let effects = agent.handle(Input::Appended { call_id: call_id(), at: 0.0 });
        assert!(matches!(effects.last(), Some(Effect::RunTools(_))));
        if attempt == "a1" {
            agent.handle(Input::Aborted);
        }
    }
    let settled = |call_id: &str| Input::ToolSettled {
        call_id: call_id.into(),
        index: 0,
        outcome: ToolOutcome::Returned(agent_roundtable::value::Json::Null),
        at: 0.0,
    };
    assert_eq!(agent.handle(settled("a1:call:1")), []);
    assert!(!agent.handle(settled("a2:call:1")).is_empty());
}

fn record_kinds(effects: &[Effect]) -> Vec<String> {
    let kind = |effect: &Effect| match effect {
        Effect::Append(record) => record.id.clone(),
        other => format!("{other:?}"),
    };
    effects.iter().map(kind).collect()
}

#[test]
fn k3_a_call_that_settles_after_its_turn_was_aborted_is_still_journaled() {
    for (late, expected) in [
        (Input::ModelReplied { call_id: "a1:call:1".into(), reply: reply("paid", &[]) }, "a1:call:1:response"),
        (Input::ModelFailed { call_id: "a1:call:1".into(), message: "aborted".into() }, "a1:call:1:failure"),
    ] {
        let mut agent = agent(options());
        agent.handle(turn("a1"));
        agent.handle(Input::Appended { call_id: "a1:call:1".into(), at: 0.0 });
        assert_eq!(agent.handle(Input::Aborted), [Effect::Fail(TurnFailure::Aborted)]);
        let effects = agent.handle(late.clone());
        assert_eq!(record_kinds(&effects), [expected]);
        if let [Effect::Append(record)] = effects.as_slice()
            && let RecordBody::ModelFailure { cancelled, .. } = &record.body
        {
            assert!(cancelled);
        }
        assert_eq!(agent.handle(late), [], "once");
    }
}

#[test]
fn k3_an_admission_that_comes_through_after_the_abort_is_settled_as_cancelled() {
    let mut agent = agent(options());
    agent.handle(turn("a1"));
    assert_eq!(agent.handle(Input::DeltaFailed), [Effect::Fail(TurnFailure::DeltaFailed)]);
    let effects = agent.handle(Input::Appended { call_id: "a1:call:1".into(), at: 0.0 });
    let [Effect::Append(record)] = effects.as_slice() else { panic!("{effects:?}") };
    assert!(matches!(record.body, RecordBody::ModelFailure { cancelled: true, .. }));
    assert_eq!(agent.handle(Input::Appended { call_id: "a1:call:1".into(), at: 0.0 }), []);
}

#[test]
fn k10_a_failed_flush_takes_the_turn_back() {
    let mut agent = agent(options());
    agent.handle(turn("a1"));
    agent.handle(Input::Appended { call_id: "a1:call:1".into(), at: 0.0 });
    agent.handle(Input::ModelReplied { call_id: "a1:call:1".into(), reply: reply("x", &[]) });
    let effects = agent.handle(Input::Appended { call_id: "a1:call:1".into(), at: 0.0 });
    assert_eq!(effects.last(), Some(&Effect::Flush));
    assert_eq!(agent.handle(Input::DeltaFailed), [Effect::Fail(TurnFailure::DeltaFailed)]);
    assert_eq!(agent.handle(Input::Flushed), []);
    assert!(agent.first_turn() && agent.take_checkpoint().append.is_empty());
}

#[test]
fn a_second_turn_while_one_runs_is_busy_and_leaves_the_first_alone() {
    let mut agent = agent(options());
    agent.handle(turn("a1"));
    assert_eq!(agent.handle(turn("a2")), [Effect::Fail(TurnFailure::Busy)]);
    let effects = agent.handle(Input::Appended { call_id: "a1:call:1".into(), at: 0.0 });
    assert!(matches!(effects.as_slice(), [Effect::CallModel(_)]));
}

#[test]
fn long_attempt_ids_keep_every_id_within_its_bound() {
    let attempt = "x".repeat(512);
    let mut host = Host::new(agent(options_with_tool()))
        .replying([calling(&[("", "add", r#"{"a":1,"b":2}"#)]), reply("done", &[])]);
    host.run(&attempt);
    assert!(host.history.iter().all(|message| message.id.len() <= 512));
    let checkpoint = host.agent.take_checkpoint();
    let config = AgentConfig::new(options_with_tool()).unwrap();
    let restored =
        agent_roundtable::runtime::checkpoint::read(&config, "agent/1", &checkpoint.data, &checkpoint.append);
    assert_eq!(restored.unwrap().history, host.history);
}

#[test]
fn every_option_is_checked_and_named() {
    let schema = |schema: &str| AgentOptions { tools: vec![tool("t", schema)], ..options() };
    let named = |name: &str| AgentOptions { tools: vec![tool(name, "{}")], ..options() };
    let rounds = |n: f64| AgentOptions { max_rounds: Some(n), ..options() };
    let cases = [
        (AgentOptions { provider_name: String::new(), ..options() }, "provider.name: empty"),
        (AgentOptions { model: "m".repeat(513), ..options() }, "model: longer than 512 UTF-16 units"),
        (named(""), "tools[0].name: empty"),
        (AgentOptions { tools: vec![tool("t", "{}"); 2], ..options() }, "tools[1].name: another tool has this name"),
        (schema("[]"), "tools[0].parameters: expected a JSON schema, found array"),
        (
            schema(r#"{"properties":{"x":{"minimum":"1"}}}"#),
            "tools[0].parameters.properties.x.minimum: expected a number, found string",
        ),
        (AgentOptions { temperature: Some(f64::NAN), ..options() }, "temperature: not a finite number"),
        (AgentOptions { max_tokens: Some(0.0), ..options() }, "maxTokens: not a positive safe integer"),
    ];
    for (bad, message) in cases {
        assert_eq!(AgentConfig::new(bad).unwrap_err().to_string(), message);
    }
    for n in [0.0, -1.0, 1.5, f64::NAN, f64::INFINITY, 9e15] {
        assert_eq!(AgentConfig::new(rounds(n)).unwrap_err().field, "maxRounds", "{n}");
    }
    let many = AgentOptions { tools: (0..257).map(|i| tool(&format!("t{i}"), "{}")).collect(), ..options() };
    assert_eq!(AgentConfig::new(many).unwrap_err().field, "tools");
    let long = AgentOptions { system_message: Some("x".repeat(1_048_577)), ..options() };
    assert_eq!(AgentConfig::new(long).unwrap_err().field, "systemMessage");
}
