//! Members, their order and what they come to.

use crate::group::{aborted, aborts, group, group_of, outcome};
use crate::support::{Instant, config, config_of, speak, thrown};
use agent_roundtable::conversation::effect::Reply;
use agent_roundtable::conversation::error::Thrown;
use agent_roundtable::conversation::input::{Request, SessionTraits};
use agent_roundtable::conversation::{Code, Effect, Input};
use agent_roundtable::record::model::{Decision, Outcome, ParticipantRequest, RequestKind, RunOutcome, Selection};
use agent_roundtable::record::state::Phase;

#[test]
fn c16_members_publish_in_selection_order_whoever_is_first() {
    let (mut host, _, bo, ana) = group("");
    host.returns(&ana, speak("from ana"));
    assert!(host.transcript().is_empty(), "nothing is public before the group is");
    host.returns(&bo, speak("from bo"));
    let texts: Vec<_> = host.transcript().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["from bo", "from ana"]);
    assert_eq!(host.entries("group-committed").len(), 1);
}

#[test]
fn c17_a_failed_member_ends_the_group_and_keeps_its_siblings_result() {
    let (mut host, call, bo, ana) = group("");
    host.returns(&bo, Err(Thrown { code: Some("boom".into()), ..thrown("broke") }));
    assert_eq!(aborts(&host), 1, "the sibling is signalled");
    assert!(!host.replies.contains_key(&call), "and awaited");
    host.returns(&ana, speak("too late"));
    let RunOutcome::Failed { message, code } = outcome(&mut host, call) else { panic!() };
    assert!(message.contains("\"bo\"") && message.contains("broke"), "{message}");
    assert_eq!(code.as_deref(), Some("boom"));
    assert!(host.transcript().is_empty());
    let phases: Vec<_> = host.machine.durable().group.as_ref().unwrap().turns.iter().map(|t| t.phase).collect();
    assert_eq!(phases, [Phase::Failed, Phase::Prepared]);
    let Reply::Ran { outcome, .. } = host.run() else { panic!() };
    assert!(matches!(outcome, RunOutcome::Failed { .. }), "failure is final");
}

#[test]
fn c14_a_returned_failure_fails_the_turn_too() {
    let (mut host, call, bo, ana) = group("");
    host.returns(&bo, Ok(Outcome::Failed { message: "cannot".into() }));
    host.returns(&ana, aborted());
    assert!(matches!(outcome(&mut host, call), RunOutcome::Failed { message, .. } if message.contains("cannot")));
    assert_eq!(host.entries("turn-stopped").len(), 1);
}

#[test]
fn c7_a_bad_decision_fails_the_run_and_saves_nothing() {
    let names = |ids: &[&str]| Selection::Parallel { participant_ids: ids.iter().map(|id| (*id).into()).collect() };
    let one = |id: &str| Selection::Speak { participant_id: id.into() };
    let wait = |id: &str| Selection::Wait { participant_id: id.into(), reason: "r".into() };
    let long = Selection::Finish { reason: "x".repeat(8193).into() };
    for bad in [
        one("nobody"),
        names(&[]),
        names(&["ana", "ana"]),
        names(&["ana", "pia"]),
        names(&["ana", "zed"]),
        wait("ana"),
        wait("zed"),
        long,
    ] {
        let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("x")));
        host.decisions.push_back(bad);
        let Reply::Ran { outcome: RunOutcome::Failed { message, code }, .. } = host.run() else { panic!() };
        assert!(message.contains("invalid-selection"));
        assert_eq!(code.as_deref(), Some("invalid-selection"));
        assert!(host.entries("selected").is_empty());
    }
    let mut host = Instant::new(config_of(1, r#","selector":{}"#), Box::new(|_| speak("x")));
    host.decisions.push_back(names(&["ana", "bo"]));
    assert!(matches!(host.run(), Reply::Ran { outcome: RunOutcome::Failed { .. }, .. }), "larger than any run");
}

#[test]
fn c9_a_selector_stopped_before_its_decision_runs_again() {
    let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("x")));
    host.decisions.push_back(Selection::Speak { participant_id: "ana".into() });
    host.hold = true;
    let call = host.start(Request::Run { limits: None });
    let selection = host.running.remove(0);
    host.input(Input::Aborted { call });
    assert_eq!(aborts(&host), 1);
    host.input(Input::SelectorReturned { attempt: selection, result: Err(aborted().unwrap_err()) });
    assert_eq!(outcome(&mut host, call), RunOutcome::Cancelled);
    host.hold = false;
    assert!(matches!(host.run(), Reply::Ran { outcome: RunOutcome::Completed { .. }, .. }));
    assert_eq!((host.entries("selecting").len(), host.transcript().len()), (3, 1));
}

#[test]
fn c9_a_saved_decision_survives_cancellation() {
    let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("x")));
    host.decisions.push_back(Selection::Speak { participant_id: "ana".into() });
    let call = host.start_held(Request::Run { limits: None });
    let attempt = host.running[0].clone();
    host.input(Input::Aborted { call });
    host.returns(&attempt, aborted());
    host.hold = false;
    host.run();
    assert_eq!((host.entries("selected").len(), host.transcript().len()), (2, 1));
}

#[test]
fn c13_no_more_members_run_at_once_than_allowed() {
    let (host, ..) = group("");
    assert_eq!(host.running.len(), 2);
    let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("x")));
    host.decisions.push_back(Selection::Parallel { participant_ids: ["bo".into(), "ana".into()].into() });
    host.start_held(Request::Run { limits: None });
    assert_eq!(host.running.len(), 1);
    let first = host.running[0].clone();
    host.returns(&first, speak("x"));
    assert_eq!(host.running.len(), 1);
}

#[test]
fn c15_a_checkpoint_that_fails_keeps_the_result_and_fails_the_turn() {
    let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("x")));
    host.traits.can_checkpoint = true;
    host.checkpoint_version = "unlisted";
    host.decisions.push_back(Selection::Speak { participant_id: "ana".into() });
    let Reply::Ran { outcome: RunOutcome::Failed { message, .. }, .. } = host.run() else { panic!() };
    assert!(message.contains("checkpoint version"), "{message}");
    assert_eq!((host.entries("turn-settled").len(), host.entries("turn-prepared").len()), (1, 0));
}

#[test]
fn c44_every_call_of_host_code_is_announced_by_a_durable_entry() {
    let (host, _, bo, ana) = group("");
    for attempt in [bo, ana] {
        assert!(host.entries("turn-started").iter().any(|line| line.contains(&*attempt)));
    }
    assert_eq!(host.entries("selecting").len(), 1);
}

#[test]
fn c14_content_is_bounded_and_the_participant_named() {
    let (mut host, call, bo, ana) = group("");
    host.returns(&bo, speak(&"x".repeat(1024 * 1024)));
    host.returns(&ana, speak(&"x".repeat(1024 * 1024 + 1)));
    let RunOutcome::Failed { message, .. } = outcome(&mut host, call) else { panic!() };
    assert!(message.contains("\"ana\"") && message.contains("1048576"), "{message}");
}

#[test]
fn c25_two_members_that_wait_at_once_cannot_share_a_request_id() {
    let ask = || ParticipantRequest {
        id: "q".into(),
        reason: "why".into(),
        kind: RequestKind::Input,
        participant_id: Some("pia".into()),
        data: None,
    };
    let (mut host, call, bo, ana) = group_of("", SessionTraits { can_resume: true, can_checkpoint: true });
    // Checkpoints are slow: neither wait is parked when the second comes.
    host.hold_checkpoints = true;
    host.returns(&bo, Ok(Outcome::Wait { requests: vec![ask()] }));
    host.returns(&ana, Ok(Outcome::Wait { requests: vec![ask()] }));
    host.gives_checkpoint(&bo);
    let RunOutcome::Failed { message, .. } = outcome(&mut host, call) else { panic!() };
    assert!(message.contains("\"ana\"") && message.contains("\"q\""), "{message}");
}

#[test]
fn c14_a_failure_s_message_is_cut_to_what_a_record_holds_at_a_whole_character() {
    for message in ["a", "😀"].map(|text| text.repeat(9_000)).into_iter().chain([format!("a{}", "😀".repeat(9_000))])
    {
        let (mut host, call, bo, ana) = group("");
        host.returns(&bo, Err(thrown(&message)));
        host.returns(&ana, aborted());
        assert!(matches!(outcome(&mut host, call), RunOutcome::Failed { .. }));
        let group = host.machine.durable().group.as_ref().unwrap();
        let kept = &group.turns[0].failure.as_ref().unwrap().message;
        assert!((8_191..=8_192).contains(&kept.encode_utf16().count()), "{}", kept.encode_utf16().count());
        assert!(format!("participant \"bo\" failed: {message}").starts_with(&**kept));
    }
}

#[test]
fn c9_a_selector_that_throws_something_else_after_its_signal_has_failed() {
    for (signalled, error) in [(true, thrown("broken")), (false, aborted().unwrap_err())] {
        let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("x")));
        host.hold = true;
        let call = host.start(Request::Run { limits: None });
        let selection = host.running.remove(0);
        if signalled {
            host.input(Input::Aborted { call });
        }
        host.input(Input::SelectorReturned { attempt: selection, result: Err(error) });
        let RunOutcome::Failed { message, .. } = outcome(&mut host, call) else { panic!("{signalled}") };
        assert!(message.contains("invalid-selection"), "{message}");
    }
}

#[test]
fn c49_a_turn_whose_participant_does_not_know_what_it_did_is_left_to_the_host() {
    let (mut host, call, bo, ana) = group("");
    let unknown = Thrown { code: Some("EXECUTION_RECOVERY_REQUIRED".into()), ..thrown("the tool was started") };
    host.returns(&bo, Err(unknown));
    assert_eq!(aborts(&host), 0, "its sibling goes on");
    host.returns(&ana, speak("from ana"));
    let Some(Err(error)) = host.replies.remove(&call) else { panic!("{:?}", host.replies) };
    assert_eq!((error.code, error.turns.len()), (Code::RecoveryRequired, 1));
    assert_eq!(error.turns[0].error.as_deref(), Some("the tool was started"));
    assert_eq!(host.machine.durable().ended, None, "the conversation has not failed");
    assert_eq!(host.call(Request::Run { limits: None }).unwrap_err().code, Code::RecoveryRequired);

    let turn_id = error.turns[0].turn_id.clone();
    let (by, expected_revision) = ("host".into(), host.revision());
    host.call(Request::Reconcile { turn_id, expected_revision, by, decision: Decision::Retry }).unwrap();
    host.hold = false;
    host.run();
    let texts: Vec<_> = host.transcript().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["again", "from ana"], "what its sibling had finished is kept");
    let view = host.effects.iter().rev().find_map(|effect| match effect {
        Effect::RunTurn { turn, .. } => Some(turn.clone()),
        _ => None,
    });
    let view = view.unwrap();
    assert_eq!((view.earlier.to_vec(), view.retried), (vec![bo], true));
}
