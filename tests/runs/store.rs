//! A store that fails, and a claim that runs out.

use crate::group::{aborted, aborts, group, outcome};
use crate::support::{Instant, config, lost, speak};
use agent_roundtable::conversation::effect::Status;
use agent_roundtable::conversation::error::StoreFailure;
use agent_roundtable::conversation::input::{Request, Timer};
use agent_roundtable::conversation::{Code, Effect, Input};
use agent_roundtable::record::model::{RunOutcome, Selection};

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
