//! How a run stops, fails, and goes on: signals, time, siblings, sessions, and a store that fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use agent_roundtable::conversation::effect::{Reply, Status};
use agent_roundtable::conversation::error::{StoreFailure, Thrown};
use agent_roundtable::conversation::input::{CallId, Request, SessionTraits, Timer};
use agent_roundtable::conversation::{Code, Effect, Input, LimitsPatch};
use agent_roundtable::record::model::{
    Decision, Id, LimitReason, Outcome, ParticipantRequest, RequestKind, RunOutcome, Selection,
};
use agent_roundtable::record::state::Phase;
use support::{Instant, config, config_of, lost, speak, thrown};

/// Both agents in one group, running; the call of that run and the two attempts, `bo`'s first.
fn group(extra: &str) -> (Instant, CallId, Id, Id) {
    group_of(extra, SessionTraits { can_resume: true, can_checkpoint: false })
}

fn group_of(extra: &str, traits: SessionTraits) -> (Instant, CallId, Id, Id) {
    let concurrent = r#","selector":{},"maxConcurrentParticipants":2"#;
    let mut host = Instant::new(config(&format!("{concurrent}{extra}")), Box::new(|_| speak("again")));
    host.traits = traits;
    host.decisions.push_back(Selection::Parallel { participant_ids: ["bo".into(), "ana".into()].into() });
    // The selector answers at once, the members wait for the test.
    let call = host.start_held(Request::Run { limits: None });
    let (bo, ana) = (host.running[0].clone(), host.running[1].clone());
    (host, call, bo, ana)
}

fn outcome(host: &mut Instant, call: CallId) -> RunOutcome {
    let Some(Ok(Reply::Ran { outcome, .. })) = host.replies.remove(&call) else { panic!("{:?}", host.replies) };
    outcome
}

fn aborted() -> Result<Outcome, Thrown> {
    Err(Thrown { is_abort: true, ..thrown("aborted") })
}

fn aborts(host: &Instant) -> usize {
    host.count(|e| matches!(e, Effect::Abort { .. }))
}

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
fn c31_cancellation_fires_every_signal_awaits_and_loses_nothing() {
    let (mut host, call, bo, ana) = group("");
    host.input(Input::Aborted { call });
    assert_eq!(aborts(&host), 2);
    host.returns(&bo, speak("after the signal"));
    assert!(!host.replies.contains_key(&call));
    host.returns(&ana, aborted());
    assert_eq!(outcome(&mut host, call), RunOutcome::Cancelled);
    assert!(host.transcript().is_empty());
    host.hold = false;
    host.run();
    let texts: Vec<_> = host.transcript().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["after the signal", "again"]);
    assert_eq!(host.entries("turn-started").len(), 3, "only the stopped attempt ran again");
}

#[test]
fn c32_a_group_that_settles_after_the_signal_is_published_by_the_next_run() {
    let (mut host, call, bo, ana) = group("");
    host.input(Input::Aborted { call });
    host.returns(&bo, speak("one"));
    host.returns(&ana, speak("two"));
    assert_eq!(outcome(&mut host, call), RunOutcome::Cancelled);
    assert!(host.transcript().is_empty(), "a cancelled run publishes nothing");
    host.hold = false;
    host.run();
    assert_eq!((host.transcript().len(), host.entries("turn-started").len()), (2, 2));
}

#[test]
fn c32_an_error_that_is_not_the_signal_s_is_a_failure_even_after_it() {
    let (mut host, call, bo, ana) = group("");
    host.input(Input::Aborted { call });
    host.returns(&bo, Err(thrown("a bug")));
    host.returns(&ana, aborted());
    assert!(matches!(outcome(&mut host, call), RunOutcome::Failed { .. }), "failure comes before cancellation");
}

#[test]
fn c32_an_abort_error_without_a_signal_is_a_failure() {
    let (mut host, call, bo, ana) = group("");
    host.returns(&ana, speak("x"));
    host.returns(&bo, aborted());
    assert!(matches!(outcome(&mut host, call), RunOutcome::Failed { .. }));
}

#[test]
fn c31_the_time_limit_stops_like_a_signal_and_the_next_run_has_its_own() {
    let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("x")));
    let patch = LimitsPatch { timeout_ms: Some(100), ..LimitsPatch::default() };
    host.decisions.push_back(Selection::Speak { participant_id: "ana".into() });
    let call = host.start_held(Request::Run { limits: Some(patch) });
    let attempt = host.running[0].clone();
    assert_eq!(aborts(&host), 0);
    // The timer is believed, though this clock stands still.
    host.input(Input::TimerFired { timer: Timer::RunTimeout });
    assert_eq!(aborts(&host), 1);
    host.returns(&attempt, aborted());
    assert_eq!(outcome(&mut host, call), RunOutcome::Limited { reason: LimitReason::Time });
}

#[test]
fn c2a_long_waits_are_armed_in_parts() {
    let month = 2_678_400_000;
    let mut host = Instant::new(config(r#","leaseMs":9007199254740991"#), Box::new(|_| speak("x")));
    host.hold = true;
    let patch = LimitsPatch { timeout_ms: Some(month), ..LimitsPatch::default() };
    host.start(Request::Run { limits: Some(patch) });
    let delays = |host: &Instant| {
        let timers = host.effects.iter().filter_map(|e| match e {
            Effect::StartTimer { timer: Timer::RunTimeout, delay_ms } => Some(*delay_ms),
            _ => None,
        });
        timers.collect::<Vec<_>>()
    };
    assert_eq!(delays(&host), [2_147_483_647.0]);
    host.now.mono += 2_147_483_647.0;
    host.input(Input::TimerFired { timer: Timer::RunTimeout });
    assert_eq!(delays(&host), [2_147_483_647.0, 530_916_353.0]);
}

#[test]
fn c36_a_member_that_ignores_its_signal_is_given_up_where_the_host_sets_a_bound() {
    let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("x")));
    let patch = LimitsPatch { settle_timeout_ms: Some(50), ..LimitsPatch::default() };
    host.decisions.push_back(Selection::Speak { participant_id: "ana".into() });
    let call = host.start_held(Request::Run { limits: Some(patch) });
    let attempt = host.running[0].clone();
    host.input(Input::Aborted { call });
    host.now.mono += 50.0;
    host.input(Input::TimerFired { timer: Timer::Settle });
    assert_eq!(outcome(&mut host, call), RunOutcome::Cancelled);
    let error = host.call(Request::Run { limits: None }).unwrap_err();
    assert_eq!(error.code, Code::RecoveryRequired);
    host.returns(&attempt, speak("at last"));
    assert_eq!(host.entries("late-result").len(), 1, "kept as evidence");
    assert!(host.transcript().is_empty(), "never published by itself");
}

#[test]
fn c33_a_retry_opens_a_fresh_session_where_there_are_checkpoints() {
    for can_checkpoint in [true, false] {
        let (mut host, call, bo, ana) = group("");
        host.input(Input::Aborted { call });
        host.returns(&bo, aborted());
        host.returns(&ana, aborted());
        assert_eq!(outcome(&mut host, call), RunOutcome::Cancelled);
        assert_eq!(host.count(|e| matches!(e, Effect::ReleaseSession { .. })), 0);
        drop(host);
        let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("again")));
        host.traits.can_checkpoint = can_checkpoint;
        host.decisions.push_back(Selection::Speak { participant_id: "ana".into() });
        let call = host.start_held(Request::Run { limits: None });
        let attempt = host.running[0].clone();
        host.input(Input::Aborted { call });
        host.returns(&attempt, aborted());
        host.hold = false;
        host.run();
        let opened = host.count(|e| matches!(e, Effect::OpenSession { .. }));
        let released = host.count(|e| matches!(e, Effect::ReleaseSession { .. }));
        assert_eq!((opened, released), if can_checkpoint { (2, 1) } else { (1, 0) });
        assert_eq!(host.transcript().len(), 1);
    }
}

#[test]
fn c37_one_call_at_a_time_and_dispose_ends_it() {
    let (mut host, call, bo, ana) = group("");
    assert_eq!(host.call(Request::Run { limits: None }).unwrap_err().code, Code::Busy);
    assert_eq!(host.submit("i", "x", None, 0).unwrap_err().code, Code::Busy);
    let dispose = host.start(Request::Dispose { inside: false });
    assert_eq!(host.submit("i", "x", None, 0).unwrap_err().code, Code::Disposed);
    host.returns(&bo, aborted());
    assert!(!host.replies.contains_key(&dispose), "running work is awaited");
    host.returns(&ana, speak("kept"));
    assert_eq!(outcome(&mut host, call), RunOutcome::Cancelled);
    assert!(matches!(host.replies[&dispose], Ok(Reply::Disposed { .. })));
    assert_eq!(host.count(|e| matches!(e, Effect::ReleaseSession { .. })), 2);
    assert!(matches!(host.call(Request::Dispose { inside: false }), Ok(Reply::Disposed { .. })), "idempotent");
    assert_eq!(host.count(|e| matches!(e, Effect::ReleaseSession { .. })), 2);
}

#[test]
fn c37_dispose_from_inside_a_callback_resolves_at_once() {
    let (mut host, call, bo, ana) = group("");
    assert!(matches!(host.call(Request::Dispose { inside: true }), Ok(Reply::Disposed { .. })));
    assert_eq!(aborts(&host), 2);
    host.returns(&bo, aborted());
    host.returns(&ana, aborted());
    assert_eq!(outcome(&mut host, call), RunOutcome::Cancelled);
    assert_eq!(host.count(|e| matches!(e, Effect::ReleaseSession { .. })), 2);
}

#[test]
fn c45_a_lost_acknowledgement_is_asked_for_again_with_the_same_operation() {
    for landed in [false, true] {
        let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("x")));
        host.decisions.push_back(Selection::Speak { participant_id: "ana".into() });
        host.append_failures.extend([(lost(), landed), (lost(), false), (lost(), false)]);
        let call = host.start(Request::Run { limits: None });
        for pause in [50.0, 250.0, 1250.0] {
            host.now.mono += pause;
            host.input(Input::TimerFired { timer: Timer::Retry });
        }
        assert!(matches!(outcome(&mut host, call), RunOutcome::Completed { .. }));
        assert_eq!(host.transcript().len(), 1);
    }
}

#[test]
fn c45_after_three_repeats_the_call_is_unavailable_and_a_kept_result_is_saved_by_the_next() {
    let (mut host, call, bo, ana) = group("");
    host.append_failures.extend((0..4).map(|_| (lost(), false)));
    host.returns(&bo, speak("one"));
    for pause in [50.0, 250.0, 1250.0] {
        assert!(!host.replies.contains_key(&call));
        host.now.mono += pause;
        host.input(Input::TimerFired { timer: Timer::Retry });
    }
    assert!(!host.replies.contains_key(&call), "running work is awaited");
    host.returns(&ana, speak("two"));
    assert_eq!(host.replies.remove(&call).unwrap().unwrap_err().code, Code::Unavailable);
    host.hold = false;
    host.run();
    let texts: Vec<_> = host.transcript().into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["one", "two"]);
    assert_eq!(host.entries("turn-started").len(), 2, "nobody ran twice");
}

#[test]
fn c46_a_lost_claim_stops_everything_and_nothing_more_is_written() {
    let (mut host, call, bo, ana) = group("");
    let stale = StoreFailure { code: Some(Code::StaleClaim), ..lost() };
    host.append_failures.push_back((stale, false));
    let written = host.batches.len();
    host.returns(&bo, speak("one"));
    assert_eq!(aborts(&host), 1);
    host.returns(&ana, aborted());
    assert_eq!(host.replies.remove(&call).unwrap().unwrap_err().code, Code::StaleClaim);
    assert_eq!(host.batches.len(), written);
    assert_eq!(host.count(|e| matches!(e, Effect::Release { .. })), 0, "there is no claim to give back");
}

#[test]
fn c2a_a_claim_is_trusted_for_two_thirds_of_its_lease() {
    let (mut host, call, bo, ana) = group(r#","leaseMs":300"#);
    host.now.mono = 199.0;
    host.returns(&bo, speak("in time"));
    host.now.mono = 200.0;
    host.returns(&ana, speak("too late"));
    assert_eq!(host.replies.remove(&call).unwrap().unwrap_err().code, Code::StaleClaim);
}

#[test]
fn c46_a_claim_is_renewed_at_a_third_of_its_lease() {
    let (mut host, call, bo, ana) = group(r#","leaseMs":300"#);
    for _ in 0..5 {
        host.now.mono += 100.0;
        host.input(Input::TimerFired { timer: Timer::Lease });
    }
    assert_eq!(host.count(|e| matches!(e, Effect::Renew { .. })), 5);
    host.returns(&bo, speak("x"));
    host.returns(&ana, speak("y"));
    assert!(matches!(outcome(&mut host, call), RunOutcome::Completed { .. }));
}

#[test]
fn c46_the_first_writing_call_creates_the_record_and_an_existing_one_is_a_conflict() {
    let mut host = Instant::new(config(""), Box::new(|_| speak("x")));
    assert_eq!((host.revision(), host.batches.len()), (0, 0), "a handle stores nothing");
    host.submit("i", "x", None, 0).unwrap();
    let mut other = Instant::new(config(""), Box::new(|_| speak("x")));
    other.batches = host.batches.clone();
    assert_eq!(other.submit("i", "x", None, 0).unwrap_err().code, Code::Conflict);
}

#[test]
fn c45_a_wrong_receipt_is_not_believed() {
    let mut host = Instant::new(config(""), Box::new(|_| speak("x")));
    host.submit("i", "x", None, 0).unwrap();
    let revision = host.revision();
    host.start_held(Request::Run { limits: None });
    let attempt = host.running[0].clone();
    host.wrong_receipts = 1;
    let call = host.last_call();
    host.returns(&attempt, speak("y"));
    let error = host.replies.remove(&call).unwrap().unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    let due = host.batches.len();
    let message = format!("acknowledged revision {} where {due} was due", due + 1);
    assert!(error.message.contains(&message), "{}", error.message);
    assert!(host.revision() >= revision);
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
fn c31_a_signal_fires_once_whatever_else_goes_wrong() {
    let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("x")));
    host.hold = true;
    let call = host.start(Request::Run { limits: None });
    host.input(Input::Aborted { call });
    // The claim is no longer trusted: everything under way would be signalled.
    host.now.mono += 30_000.0;
    host.input(Input::Aborted { call });
    assert_eq!(aborts(&host), 1);
}

#[test]
fn c36_the_bound_for_settling_waits_for_a_signal() {
    let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("x")));
    host.traits.can_checkpoint = true;
    host.decisions.push_back(Selection::Speak { participant_id: "ana".into() });
    let patch = LimitsPatch { settle_timeout_ms: Some(50), ..LimitsPatch::default() };
    host.call(Request::Run { limits: Some(patch) }).unwrap();
    assert_eq!(host.transcript().len(), 1);
    assert_eq!(host.count(|e| matches!(e, Effect::StartTimer { timer: Timer::Settle, .. })), 0);
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
fn c46_the_summary_says_when_a_conversation_waits_for_somebody() {
    let mut host = Instant::new(config(r#","selector":{}"#), Box::new(|_| speak("x")));
    host.decisions.push_back(Selection::Speak { participant_id: "pia".into() });
    host.run();
    let statuses = host.effects.iter().filter_map(|effect| match effect {
        Effect::Append { summary, .. } => Some(summary.status),
        _ => None,
    });
    let statuses: Vec<_> = statuses.collect();
    assert_eq!((statuses.first(), statuses.last()), (Some(&Status::Open), Some(&Status::Waiting)));
}

#[test]
fn c45_a_claim_that_gets_no_answer_is_repeated_three_times() {
    let mut host = Instant::new(config(""), Box::new(|_| speak("x")));
    host.lost_claims = 4;
    let call = host.start(Request::Run { limits: None });
    for pause in [50.0, 250.0, 1250.0] {
        assert!(!host.replies.contains_key(&call));
        host.now.mono += pause;
        host.input(Input::TimerFired { timer: Timer::Retry });
    }
    assert_eq!(host.replies.remove(&call).unwrap().unwrap_err().code, Code::Unavailable);
    assert_eq!(host.count(|e| matches!(e, Effect::Claim { .. })), 4);
    let pauses = host.effects.iter().filter_map(|effect| match effect {
        Effect::StartTimer { timer: Timer::Retry, delay_ms } => Some(*delay_ms),
        _ => None,
    });
    assert_eq!(pauses.collect::<Vec<_>>(), [50.0, 250.0, 1250.0]);
}

#[test]
fn c46_a_refused_renewal_is_a_stale_claim_whatever_the_store_calls_it() {
    let (mut host, call, bo, ana) = group(r#","leaseMs":300"#);
    let fence = host.fence;
    let refusal = StoreFailure { code: Some(Code::NotFound), ..lost() };
    host.input(Input::Renewed { fence, result: Err(refusal) });
    host.returns(&bo, aborted());
    host.returns(&ana, aborted());
    assert_eq!(host.replies.remove(&call).unwrap().unwrap_err().code, Code::StaleClaim);
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

#[test]
fn c32_a_cancelled_run_ends_cancelled_whatever_a_participant_does_not_know() {
    let (mut host, call, bo, ana) = group("");
    host.input(Input::Aborted { call });
    let unknown = Thrown { code: Some("EXECUTION_RECOVERY_REQUIRED".into()), ..thrown("the tool was started") };
    host.returns(&bo, Err(unknown));
    host.returns(&ana, aborted());
    assert_eq!(outcome(&mut host, call), RunOutcome::Cancelled);
    let refused = host.call(Request::Run { limits: None }).unwrap_err();
    assert_eq!((refused.code, refused.turns.len()), (Code::RecoveryRequired, 1));
}

#[test]
fn c31_a_session_that_does_not_open_refuses_the_run_and_not_the_conversation() {
    let concurrent = r#","selector":{},"maxConcurrentParticipants":2"#;
    let mut host = Instant::new(config(concurrent), Box::new(|_| speak("said")));
    let both = || Selection::Parallel { participant_ids: ["bo".into(), "ana".into()].into() };
    host.decisions.push_back(both());
    host.refused_openings = 1;
    let refused = host.call(Request::Run { limits: None }).unwrap_err();
    assert_eq!(refused.code, Code::Unavailable);
    assert!(refused.message.contains("\"bo\"") && refused.message.contains("no seat"), "{refused}");
    assert_eq!((host.machine.durable().ended.clone(), host.transcript()), (None, vec![]));
    host.run();
    assert_eq!(host.transcript().len(), 2);
    assert_eq!(host.entries("turn-started").len(), 3, "the sibling's result was kept");
}
