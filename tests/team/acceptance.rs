//! Order, delivery, batches, failures, pauses and limits.

use crate::support::*;
use agent_roundtable::record::codec::seal;
use agent_roundtable::team::event::{Ask, At, Completed, Event, Failed, Options, Order, Overflow, Paused, SelfMention};
use agent_roundtable::team::machine::{Input, Request};
use agent_roundtable::team::outcome::Outcome;
use agent_roundtable::team::turns::Returned;
use agent_roundtable::value::Json;

const PAIR: [&str; 2] = ["writer", "-reviewer"];

/// Writer asks, reviewer replies, writer concludes.
fn dialogue(run: &agent_roundtable::team::turns::Run) -> Returned {
    match &*run.position {
        "team/writer/1" => posts("draft", &["room|question|reviewer"]),
        "team/reviewer/1" => posts("checked", &["room|reply|writer"]),
        "team/writer/2" => posts("final", &[]),
        other => panic!("{other}"),
    }
}

fn messages(input: &Json) -> Vec<String> {
    let Some(Json::Array(messages)) = input.get("messages") else { panic!("no messages") };
    messages.iter().map(|m| m.get("text").unwrap().as_str().unwrap().to_owned()).collect()
}

#[test]
fn t01_t02_writer_reviewer_writer_with_both_answers_and_each_message_once() {
    let store = Shared::default();
    let mut team = Team::new(&definition(&PAIR, &["room:writer,reviewer"], 1, 5, 10), &store);
    let outcome = team.run(dialogue);
    assert_eq!(team.positions(), ["team/writer/1", "team/reviewer/1", "team/writer/2"]);
    let output = output(&outcome);
    assert!(output.contains(r#""summary":"final""#) && output.contains(r#""summary":"checked""#), "{output}");
    let input = team.input_of("team/writer/2");
    assert_eq!(input.get("result").unwrap().get("summary").unwrap().as_str(), Some("draft"));
    assert_eq!(messages(&input), ["question", "reply"]);
    let Json::Object(members) = &input else { panic!() };
    let mut keys: Vec<_> = members.iter().map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["brief", "messages", "result", "role", "task"]);
}

#[test]
fn t03_everyone_starts_where_nothing_is_said() {
    let store = Shared::default();
    let mut team = Team::new(&definition(&["a", "b"], &[], 1, 1, 1), &store);
    team.run(|_| result(r#"{"summary":"x"}"#));
    assert_eq!(team.positions(), ["team/a/1", "team/b/1"]);
}

#[test]
fn t04_an_unmentioned_waiting_member_has_no_result() {
    let store = Shared::default();
    let mut team = Team::new(&definition(&PAIR, &["room:writer,reviewer"], 1, 5, 1), &store);
    let outcome = team.run(|_| posts("x", &["room|hello|"]));
    assert!(output(&outcome).contains(r#""role":"r-reviewer","result":null"#));
    let none = Shared::default();
    let mut team = Team::new(&definition(&["-a"], &[], 1, 1, 1), &none);
    assert!(matches!(team.run(|_| panic!("called")), Outcome::Completed { .. }));
}

#[test]
fn t05_two_mentions_of_one_turn_make_one_turn_with_both_messages() {
    let store = Shared::default();
    let mut team = Team::new(&definition(&PAIR, &["room:writer,reviewer"], 1, 5, 1), &store);
    team.run(|run| match &*run.position {
        "team/writer/1" => posts("x", &["room|one|reviewer,reviewer", "room|two|reviewer"]),
        _ => posts("y", &[]),
    });
    assert_eq!(team.positions(), ["team/writer/1", "team/reviewer/1"]);
    assert_eq!(messages(&team.input_of("team/reviewer/1")), ["one", "two"]);
    let turn = team.machine.durable().members[1].turn.as_ref().unwrap();
    assert_eq!(turn.triggers, [0, 1], "mentioned twice in one message, asked for once");
}

#[test]
fn t06_a_mention_during_a_turn_asks_for_a_later_one() {
    let store = Shared::default();
    let mut team = Team::new(&definition(&["a", "b"], &["room:a,b"], 2, 5, 5), &store);
    team.run(|run| match &*run.position {
        "team/a/1" => posts("x", &["room|for b|b"]),
        _ => posts("y", &[]),
    });
    assert_eq!(team.positions(), ["team/a/1", "team/b/1", "team/b/2"]);
    assert_eq!(messages(&team.input_of("team/b/1")), Vec::<String>::new());
    assert_eq!(messages(&team.input_of("team/b/2")), ["for b"]);
}

#[test]
fn t07_a_batch_settles_before_the_next_begins() {
    let store = Shared::default();
    let mut team = Team::new(&definition(&["a", "b", "c"], &[], 2, 5, 5), &store);
    team.call(Request::Run);
    assert_eq!(team.positions(), ["team/a/1", "team/b/1"]);
    team.answer(result(r#"{"summary":"x"}"#));
    assert_eq!(team.positions().len(), 2);
    team.answer(result(r#"{"summary":"x"}"#));
    assert_eq!(team.positions()[2], "team/c/1");
}

#[test]
fn t08_no_member_sees_a_room_it_is_not_in() {
    let store = Shared::default();
    let rooms = ["all:a,b,c", "pair:a,b"];
    let mut team = Team::new(&definition(&["a", "-b", "-c"], &rooms, 1, 5, 5), &store);
    team.run(|run| match &*run.position {
        "team/a/1" => posts("sum-a", &["pair|secret|b", "all|open|c"]),
        _ => posts("x", &[]),
    });
    let seen = &team.called.iter().find(|(position, _)| position == "team/c/1").unwrap().1;
    assert!(seen.contains("open") && !seen.contains("secret") && !seen.contains("sum-a"), "{seen}");
}

#[test]
fn t09_one_bad_post_and_none_is_delivered() {
    for bad in ["pair|x|", "all|x|nobody", "all|x|c"] {
        let store = Shared::default();
        let rooms = ["all:a,b", "pair:b,c"];
        let mut team = Team::new(&definition(&["a", "-b", "-c"], &rooms, 1, 5, 5), &store);
        let outcome = team.run(|_| posts("x", &["all|good|b", bad]));
        assert_eq!(failed(&outcome), ("TEAM_NODE_FAILED", vec![("a".into(), "RESULT_INVALID".into())]), "{bad}");
        assert!(team.machine.durable().messages.is_empty() && team.called.len() == 1);
    }
}

#[test]
fn t11_t15_stale_duplicate_and_late_events_change_nothing() {
    let store = Shared::default();
    let mut team = Team::new(&definition(&["a", "b"], &["room:a,b"], 2, 5, 5), &store);
    team.call(Request::Run);
    team.answer(posts("x", &["room|m|"]));
    let state = team.machine.durable().clone();
    let at = |node: &str, position: &str| (node.into(), position.into());
    let completed = |node: &str, position: &str, body: &str| {
        let (node_id, position) = at(node, position);
        Event::Completed(Completed { node_id, position, result: canonical(body) })
    };
    let pause = |position: &str, reason: &str| {
        let (node_id, position) = at("b", position);
        Event::Paused(Paused { node_id, position, reason: reason.into(), request: Ask::Host(canonical("null")) })
    };
    let refused = [
        completed("b", "team/b/0", "null"),
        completed("b", "team/b/2", r#"{"summary":"x"}"#),
        completed("a", "team/a/1", r#"{"summary":"x"}"#),
        completed("nobody", "team/b/1", r#"{"summary":"x"}"#),
        Event::Failed(Failed { node_id: "a".into(), position: "team/a/1".into(), code: "X".into() }),
        Event::Failed(Failed { node_id: "b".into(), position: "team/b/1".into(), code: "".into() }),
        Event::Dispatched(At { node_id: "a".into(), position: "team/a/2".into() }),
        Event::Resumed(At { node_id: "a".into(), position: "team/a/1".into() }),
        pause("team/b/1", "a\nb"),
        pause("team/b/3", "x"),
    ];
    for event in refused {
        let mut after = state.clone();
        assert!(after.apply(&event, 9).is_err(), "{event:?}");
        assert_eq!(format!("{after:?}"), format!("{state:?}"), "{event:?}");
    }
    let mut failed = state.clone();
    failed
        .apply(&Event::Failed(Failed { node_id: "b".into(), position: "team/b/1".into(), code: "X".into() }), 9)
        .unwrap();
    assert!(failed.apply(&completed("b", "team/b/1", r#"{"summary":"x"}"#), 9).is_err());
}

#[test]
fn t12_an_invalid_saved_completion_is_a_replayed_failure() {
    let store = Shared::default();
    let mut team = Team::new(&definition(&["a", "b"], &["room:a,b"], 1, 5, 5), &store);
    team.call(Request::Run);
    team.answer(posts("x", &["room|kept|"]));
    let line = seal(r#"{"completed/1":{"nodeId":"b","position":"team/b/1","result":{"summary":7}}}"#.into());
    let mut batches = store.borrow().batches.clone();
    let revision = batches.len() as u64 + 1;
    batches.push(agent_roundtable::conversation::input::Batch {
        revision,
        operation_id: "x".into(),
        entries: vec![line],
    });
    let other = Shared::default();
    other.borrow_mut().batches = batches;
    let mut reopened = Team::new(&definition(&["a", "b"], &["room:a,b"], 1, 5, 5), &other);
    let outcome = reopened.run(|_| panic!("called"));
    assert_eq!(failed(&outcome), ("TEAM_NODE_FAILED", vec![("b".into(), "RESULT_INVALID".into())]));
    assert_eq!(reopened.machine.durable().messages.len(), 1);
    assert_eq!(other.borrow().batches.len() as u64, revision);
}

#[test]
fn t13_failure_beats_pause_in_either_order() {
    for first_fails in [true, false] {
        let store = Shared::default();
        let definition = definition(&["a", "b"], &[], 2, 5, 5);
        let mut team = Team::new(&definition, &store);
        let pause = || Returned::Pause { reason: "wait".into(), request: canonical("1") };
        team.call(Request::Run);
        team.answer(if first_fails { failure("X") } else { pause() });
        team.answer(if first_fails { pause() } else { failure("X") });
        let outcome = team.reply().unwrap();
        assert_eq!(failed(&outcome).0, "TEAM_NODE_FAILED");
        assert_eq!(Team::new(&definition, &store).run(|_| panic!("called")), outcome, "on replay");
    }
}

#[test]
fn t14_a_pause_waits_for_the_batch_and_keeps_its_position_and_input() {
    let store = Shared::default();
    let definition = definition(&["a", "b"], &["room:a,b"], 2, 5, 5);
    let mut team = Team::new(&definition, &store);
    team.call(Request::Run);
    let attempt = team.runs[0].attempt.clone();
    team.answer(Returned::Pause { reason: "ask".into(), request: canonical(r#"{"q":1}"#) });
    assert!(team.replies.is_empty(), "b is at work");
    team.answer(posts("y", &["room|newer|a"]));
    let Outcome::Paused { reason, requests, .. } = team.reply().unwrap() else { panic!() };
    assert_eq!((&*reason, requests.len(), &*requests[0].turn_id), ("ask", 1, "team/a/1"));
    let events = team.events().len();
    team.input(Input::Returned { attempt, outcome: posts("late", &[]) });
    assert_eq!(team.events().len(), events, "a late completion is ignored");
    let mut reopened = Team::new(&definition, &store);
    reopened.resume("team/a/1");
    assert_eq!(reopened.positions(), ["team/a/1"]);
    assert_eq!(messages(&reopened.input_of("team/a/1")), Vec::<String>::new(), "the original input");
    assert_eq!(reopened.runs[0].newer, 1);
    reopened.finish(|_| posts("done", &[]));
    assert_eq!(reopened.positions(), ["team/a/1", "team/a/2"]);
}

#[test]
fn t16_a_request_beyond_the_cap_fails_the_run_or_ends_it_softly() {
    let loops = |_: &agent_roundtable::team::turns::Run| posts("x", &["room|again|a"]);
    let definition = definition(&["a", "b"], &["room:a,b"], 1, 2, 5);
    let store = Shared::default();
    let mut team = Team::new(&definition, &store);
    let outcome = team.run(loops);
    assert_eq!(failed(&outcome), ("TEAM_TURN_LIMIT", vec![("a".into(), "TEAM_TURN_LIMIT".into())]));
    assert_eq!(team.positions(), ["team/a/1", "team/a/2"], "no turn beyond the cap, and nobody before it");
    let Outcome::Failed { pending, .. } = &outcome else { panic!() };
    assert_eq!(pending[0].messages.len(), 1);
    let soft = Shared::default();
    let options = Options { soft_turn_limit: true, ..Options::default() };
    let outcome = Team::with(&definition, &soft, options, false).run(loops);
    assert!(matches!(&outcome, Outcome::Limited { .. }) && output(&outcome).contains(r#""summary":"x""#));
    let ignoring = Shared::default();
    let options = Options { self_mention: SelfMention::Ignore, ..Options::default() };
    let outcome = Team::with(&self::definition(&["a"], &["room:a"], 1, 2, 5), &ignoring, options, false).run(loops);
    assert!(matches!(outcome, Outcome::Completed { .. }));
}

#[test]
fn t20_posts_need_communication() {
    let store = Shared::default();
    let outcome = Team::new(&definition(&["a"], &[], 1, 2, 5), &store).run(|_| result(r#"{"summary":"x","posts":[]}"#));
    assert_eq!(failed(&outcome).1[0].1, "RESULT_INVALID");
}

#[test]
fn t22_a_completed_run_reopened_gives_the_same_and_appends_nothing() {
    let store = Shared::default();
    let definition = definition(&PAIR, &["room:writer,reviewer"], 1, 5, 10);
    let first = Team::new(&definition, &store).run(dialogue);
    let batches = store.borrow().batches.len();
    let again = Team::new(&definition, &store).run(|_| panic!("called"));
    assert_eq!((again, store.borrow().batches.len()), (first, batches));
}

#[test]
fn t23_byte_limits_stop_a_call_before_it_or_its_posts_after() {
    let definition = definition(&["a"], &["room:a"], 1, 2, 5);
    let limited = |input, output| Options { input_bytes: input, output_bytes: output, ..Options::default() };
    let store = Shared::default();
    let mut team = Team::with(&definition, &store, limited(Some(1), None), false);
    let outcome = team.run(|_| panic!("called"));
    assert_eq!(failed(&outcome).1[0].1, "INPUT_LIMIT");
    let store = Shared::default();
    let mut team = Team::with(&definition, &store, limited(None, Some(1)), false);
    let outcome = team.run(|_| posts("x", &["room|m|"]));
    assert_eq!((failed(&outcome).1[0].1.as_str(), team.called.len()), ("OUTPUT_LIMIT", 1));
    assert!(team.machine.durable().messages.is_empty());
}

#[test]
fn t23_the_tail_gives_way_to_the_byte_budget_and_triggers_do_not() {
    let store = Shared::default();
    let definition = definition(&["a", "-b"], &["room:a,b"], 1, 5, 50);
    let options = Options { input_bytes: Some(420), input_overflow: Overflow::DropTail, ..Options::default() };
    let mut team = Team::with(&definition, &store, options, false);
    team.run(|run| match &*run.position {
        "team/a/1" => posts("x", &["room|one|", "room|two|", "room|three|", "room|four|b"]),
        _ => posts("y", &[]),
    });
    let input = team.input_of("team/b/1");
    assert!(team.called[1].1.len() <= 420);
    let shown = messages(&input);
    assert_eq!(shown.last().map(String::as_str), Some("four"));
    assert_eq!(input.get("omitted"), Some(&Json::Number((4 - shown.len()) as f64)));
    assert!(shown.len() < 4);
}

#[test]
fn f_oldest_trigger_order_is_first_come_first_served() {
    let order = |order| {
        let store = Shared::default();
        let options = Options { order, ..Options::default() };
        let definition = definition(&["a", "-b", "-c"], &["room:a,b,c"], 1, 5, 5);
        let mut team = Team::with(&definition, &store, options, false);
        team.run(|run| match &*run.position {
            "team/a/1" => posts("x", &["room|first|c", "room|second|b"]),
            _ => posts("y", &[]),
        });
        team.positions().join(" ")
    };
    assert_eq!(order(Order::OldestTrigger), "team/a/1 team/c/1 team/b/1");
    assert_eq!(order(Order::Declaration), "team/a/1 team/b/1 team/c/1");
}

#[test]
fn t22_another_definition_or_plan_is_refused_and_nothing_is_written() {
    let store = Shared::default();
    let definition = definition(&["a"], &[], 1, 5, 5);
    Team::new(&definition, &store).run(|_| result(r#"{"summary":"x"}"#));
    let batches = store.borrow().batches.len();
    let mut others = [
        Team::new(&self::definition(&["a"], &[], 1, 6, 5), &store),
        Team::with(&definition, &store, Options { soft_turn_limit: true, ..Options::default() }, false),
    ];
    for other in &mut others {
        other.call(Request::Run);
        assert_eq!(other.reply().unwrap_err().code(), Some("STORED_GRAPH_MISMATCH"));
        assert!(!store.borrow().held);
    }
    assert_eq!(store.borrow().batches.len(), batches);
}

#[test]
fn f_a_cancelled_run_stops_its_attempts_and_goes_on_with_the_same_positions() {
    let store = Shared::default();
    let definition = definition(&["a", "b"], &[], 2, 5, 5);
    let mut team = Team::new(&definition, &store);
    team.call(Request::Run);
    team.input(Input::Aborted { call: 1 });
    assert_eq!(team.aborted.len(), 2);
    let aborted = || {
        Returned::Thrown(agent_roundtable::conversation::error::Thrown {
            message: "stop".into(),
            code: None,
            value: None,
            is_abort: true,
            is_refused_admission: false,
        })
    };
    team.answer(aborted());
    assert!(team.replies.is_empty(), "the other is still at work");
    team.answer(result(r#"{"summary":"made it"}"#));
    assert_eq!(team.reply().unwrap(), Outcome::Cancelled);
    team.run(|_| result(r#"{"summary":"x"}"#));
    assert_eq!(team.positions(), ["team/a/1", "team/b/1", "team/a/1"]);
}
