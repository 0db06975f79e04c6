//! Signals, time limits, members that ignore them, and disposal.

use crate::group::{aborted, aborts, group, outcome};
use crate::support::{Instant, config, speak, thrown};
use agent_roundtable::conversation::effect::Reply;
use agent_roundtable::conversation::error::Thrown;
use agent_roundtable::conversation::input::{Request, Timer};
use agent_roundtable::conversation::{Code, Effect, Input, LimitsPatch};
use agent_roundtable::record::model::{LimitReason, RunOutcome, Selection};

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
