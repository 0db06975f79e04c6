//! The decision protocol of a model-backed selector.

use crate::host::{Host, calling, options, reply};
use crate::render::{Line, hostile, parse};
use agent_roundtable::record::model::Selection;
use agent_roundtable::runtime::agent::{AgentLoop, Effect, Input, TurnFailure};
use agent_roundtable::runtime::codec::Value;
use agent_roundtable::runtime::config::AgentConfig;
use agent_roundtable::runtime::outcome::TurnOutcome;
use agent_roundtable::runtime::render::{IncrementMessage, render_shared_increment};
use agent_roundtable::runtime::selector::decision::{DECISION_TOOL, DecisionRules, DecisionTool};
use agent_roundtable::runtime::selector::prompt::{self, DecisionContext, RecentTurn, RosterEntry};
use agent_roundtable::value::Json;
use agent_roundtable::value::bounds::MAX_TEXT;
use proptest::prelude::*;

/// The end of one decision between `ana` and `bo` from this reply.
fn decide(reply: Value) -> (Effect, Vec<String>) {
    let rules = DecisionRules { participant_ids: vec!["ana".into(), "bo".into()], max_parallel: 2 };
    decide_with(DecisionTool::NextSpeaker(rules), reply)
}

fn decide_with(tool: DecisionTool, reply: Value) -> (Effect, Vec<String>) {
    let config = AgentConfig { decision: Some(tool), ..AgentConfig::new(options()).unwrap() };
    let mut host = Host::new(AgentLoop::new(config)).replying([reply]);
    let end = host.run("s1");
    assert_eq!(host.requests[0].len(), 0, "the prompt is the host's to show");
    (end, host.log)
}

fn decided(arguments: &str) -> Effect {
    decide(calling(&[("d", DECISION_TOOL, arguments)])).0
}

fn code(end: &Effect) -> &'static str {
    match end {
        Effect::Fail(TurnFailure::NoDecision(fault)) => fault.code(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a98_a_decision_is_one_call_and_its_reply_is_not_answered() {
    let (end, log) = decide(calling(&[("d", DECISION_TOOL, r#"{"action":"speak","participantIds":["bo"]}"#)]));
    assert_eq!(end, Effect::Finish(TurnOutcome::Decide(Selection::Speak { participant_id: "bo".into() })));
    let steps = ["append s1:call:1:request", "call s1:call:1", "append s1:call:1:response", "flush"];
    assert_eq!(log, steps.map(String::from));
}

#[test]
fn a97_several_ids_keep_their_order() {
    let both = Selection::Parallel { participant_ids: ["bo", "ana"].map(Into::into).into() };
    let end = decided(r#"{"action":"speak","participantIds":["bo","ana"]}"#);
    assert_eq!(end, Effect::Finish(TurnOutcome::Decide(both)));
}

#[test]
fn a92_a93_a94_a95_a96_k13_each_fault_has_its_code() {
    let yes = r#"{"action":"finish"}"#;
    assert_eq!(code(&decide(reply("ana", &[])).0), "no-decision");
    assert_eq!(code(&decide(calling(&[("x", "other", yes)])).0), "no-decision");
    assert_eq!(code(&decide(calling(&[("a", DECISION_TOOL, yes), ("b", DECISION_TOOL, yes)])).0), "multiple-decisions");
    assert_eq!(code(&decide(calling(&[("a", DECISION_TOOL, yes), ("b", "other", yes)])).0), "invalid-decision");
    let invalid = ["null", "", "7", "{}", r#"{"action":"speak"}"#, r#"{"action":"speak","participantIds":[null]}"#];
    for arguments in invalid {
        assert_eq!(code(&decided(arguments)), "invalid-decision", "{arguments}");
    }
    assert_eq!(code(&decided(r#"{"action":"speak","participantIds":["ana",""]}"#)), "unknown-participant");
}

#[test]
fn a_decision_to_finish_keeps_its_reason_up_to_the_bound_of_a_text() {
    let finish = |reason: &str| Effect::Finish(TurnOutcome::Decide(Selection::Finish { reason: reason.into() }));
    for (arguments, reason) in [
        (r#"{"action":"finish","reason":"all is said"}"#, "all is said"),
        (r#"{"action":"finish"}"#, "done"),
        (r#"{"action":"finish","reason":" \ufeff"}"#, "done"),
        (r#"{"action":"finish","reason":7}"#, "done"),
    ] {
        assert_eq!(decided(arguments), finish(reason), "{arguments}");
    }
    let of = |length: usize| decided(&format!(r#"{{"action":"finish","reason":"{}"}}"#, "x".repeat(length)));
    assert_eq!(of(MAX_TEXT), finish(&"x".repeat(MAX_TEXT)));
    assert_eq!(code(&of(MAX_TEXT + 1)), "invalid-decision");
}

#[test]
fn a98_a_decision_has_its_tool_whatever_the_rounds() {
    let rules = DecisionRules { participant_ids: vec!["ana".into()], max_parallel: 1 };
    let decision = Some(DecisionTool::NextSpeaker(rules));
    let config = AgentConfig { decision, max_rounds: 1, ..AgentConfig::new(options()).unwrap() };
    let mut agent = AgentLoop::new(config);
    agent.handle(crate::host::turn("s1"));
    let effects = agent.handle(Input::Appended { call_id: "s1:call:1".into(), at: 0.0 });
    assert!(matches!(effects.as_slice(), [Effect::CallModel(call)] if call.offer_tools), "{effects:?}");
}

#[test]
fn a98_a_host_s_own_tool_decides_by_the_same_rules() {
    let named = |reply| decide_with(DecisionTool::Named("rule".into()), reply).0;
    let end = named(calling(&[("d", "rule", r#"{"yes":[1]}"#)]));
    assert_eq!(end, Effect::Finish(TurnOutcome::Call(Json::parse(r#"{"yes":[1]}"#).unwrap())));
    assert_eq!(code(&named(reply("yes", &[]))), "no-decision");
    assert_eq!(code(&named(calling(&[("d", DECISION_TOOL, "{}")]))), "no-decision");
    assert_eq!(code(&named(calling(&[("a", "rule", "{}"), ("b", "rule", "{}")]))), "multiple-decisions");
    for arguments in ["[]", "", "null"] {
        assert_eq!(code(&named(calling(&[("d", "rule", arguments)]))), "invalid-decision", "{arguments}");
    }
}

fn context(participants: Vec<RosterEntry>, turns: Vec<RecentTurn>, shown: usize) -> DecisionContext {
    DecisionContext { participants, shown: shown as f64, left_out: 0.0, turns, remaining_turns: 4.0, max_parallel: 9 }
}

fn entry(id: &str, description: Option<&str>) -> RosterEntry {
    RosterEntry { id: id.into(), kind: "agent".into(), description: description.map(Into::into) }
}

#[test]
fn a95_the_tool_names_the_participants_whatever_they_are_called() {
    let ids = ["ana", "IDS WHO \"}", "\u{2028}"];
    let context = context(ids.iter().map(|id| entry(id, None)).collect(), Vec::new(), 0);
    let tool = Json::parse(&prompt::tool_json(&context)).unwrap();
    let parameters = tool.get("parameters").and_then(|p| p.get("properties")).unwrap();
    let listed = parameters.get("participantIds").and_then(|p| p.get("items")).and_then(|p| p.get("enum")).unwrap();
    assert_eq!(listed, &Json::Array(ids.iter().map(|id| Json::String((*id).into())).collect()));
    assert_eq!(tool.get("name"), Some(&Json::String(DECISION_TOOL.into())));
}

#[test]
fn a95_the_roster_says_what_the_host_says_of_a_participant() {
    let roster = vec![entry("ana", Some("sums\nthings")), entry("bo", Some("")), entry("cy", None)];
    let opening = prompt::render(&context(roster, Vec::new(), 0)).opening;
    assert!(
        opening.contains("Participants:\n- ana (agent: sums\\u000Athings)\n- bo (agent)\n- cy (agent)\n"),
        "{opening}"
    );
}

proptest! {
    /// Whatever ids, descriptions and messages hold, the prompt has each section once and at its place, a
    /// line for each participant and turn, a header for each message, and no line that is none of these.
    #[test]
    fn k1_nothing_written_parses_as_structure_of_the_prompt(
        roster in prop::collection::vec((hostile(), prop::option::of(hostile())), 1..4),
        messages in prop::collection::vec((hostile(), hostile()), 0..4),
        turns in prop::collection::vec(hostile(), 0..4),
    ) {
        let participants: Vec<_> = roster.iter().map(|(id, text)| entry(id, text.as_deref())).collect();
        let recent: Vec<_> =
            turns.iter().map(|id| RecentTurn { participant_id: id.clone(), outcome: "speak".into() }).collect();
        let rendered = prompt::render(&context(participants, recent, messages.len()));
        let block = |(id, content): &(String, String)| {
            render_shared_increment(None, &[IncrementMessage { participant_id: id, content }], false)
        };
        let blocks = std::iter::once(rendered.opening).chain(messages.iter().map(block));
        let prompt = blocks.chain([rendered.closing]).collect::<Vec<_>>().join("\n\n");
        let lines = parse(&prompt);
        let items = |from: usize| lines[from..].iter().take_while(|line| **line == Line::Item).count();
        let mut expected = vec![Line::Other, Line::Blank, Line::Other];
        prop_assert_eq!(items(3), roster.len());
        expected.extend((0..roster.len()).map(|_| Line::Item));
        expected.extend([Line::Blank, Line::Other, Line::Blank]);
        prop_assert_eq!(&lines[..expected.len()], &expected[..]);
        prop_assert_eq!(lines.iter().filter(|line| **line == Line::Header).count(), messages.len());
        prop_assert_eq!(lines.iter().filter(|line| **line == Line::Item).count(), roster.len() + turns.len());
        prop_assert_eq!(lines.iter().filter(|line| **line == Line::Other).count(), 5);
        prop_assert_eq!(lines.iter().filter(|line| **line == Line::Blank).count(), messages.len() + 4);
        prop_assert!(lines.iter().all(|line| *line != Line::Purpose));
        let end = lines.len() - 3 - turns.len();
        prop_assert_eq!(items(end + 1), turns.len());
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| **line == Line::Header) {
            prop_assert!(lines[index - 1] == Line::Blank && lines[index + 1] == Line::Quoted, "{:?}", line);
        }
    }
}
