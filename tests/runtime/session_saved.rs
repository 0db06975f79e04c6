//! What a saved session is when it comes back: what it still waits for, whom it asks, and which checkpoints
//! it refuses.

use crate::session_host::{End, Rig, answer, options, policy, quote, replies, reply, text};
use agent_roundtable::runtime::wire::open;
use agent_roundtable::value::Json;

/// A call that must be approved, then one that is allowed, then words.
fn model(history: &[Json]) -> String {
    match replies(history) {
        0 => reply("", &[("t", "write", r#"{"n":1}"#)]),
        1 => reply("", &[("t", "read", r#"{"n":2}"#)]),
        _ => reply("live", &[]),
    }
}

/// A session that waits, its requests and its checkpoint.
fn parked(idempotent: bool) -> (Rig, Vec<Json>, String) {
    let mut rig = Rig::new(&options(idempotent), model);
    let End::Wait(requests) = rig.start() else { panic!("it should wait") };
    let checkpoint = rig.checkpoint();
    (rig, requests, checkpoint)
}

#[test]
fn what_was_asked_waits_for_its_answer_whatever_the_policy_says_by_then() {
    for rules in [r#"{"default":"allow"}"#, r#"{"deny":["*"]}"#] {
        let (rig, requests, checkpoint) = parked(false);
        let mut next = rig.reopened(&checkpoint, &rig.journal, &rig.deeds);
        next.policy = policy(rules);
        assert_eq!(next.resume(&[]), End::Wait(requests), "{rules}");
        assert_eq!((next.deeds.len(), next.asked_policy), (0, 0), "{rules}");
        assert_eq!(next.journal.len(), rig.journal.len(), "{rules}");
    }
}

#[test]
fn a_yes_to_one_call_is_none_to_another_that_was_begun() {
    for (rules, asks) in [(r#"{"ask":["*"]}"#, true), (r#"{"allow":["*"]}"#, false)] {
        let (mut rig, requests, checkpoint) = parked(true);
        let yes = [answer(&requests[0], true)];
        rig.dies_at = Some(rig.journal.len() + 6); // answer, intent, result, request, response, intent
        assert_eq!(rig.resume(&yes), End::Died);
        assert_eq!(rig.deeds.len(), 1, "the write");
        let mut next = rig.reopened(&checkpoint, &rig.journal, &rig.deeds);
        next.policy = policy(rules);
        let end = next.resume(&yes);
        match asks {
            true => assert!(matches!(end, End::Wait(requests) if requests.len() == 1), "nobody said yes to the read"),
            false => assert_eq!(end, End::Speak("live".into())),
        }
        assert_eq!(next.deeds.len(), if asks { 1 } else { 2 });
    }
}

#[test]
fn a_reply_of_the_cache_counts_among_the_calls_of_a_rebuilt_turn() {
    let cached = options(false).replace(r#""providerHasCache":false"#, r#""providerHasCache":true"#);
    let mut rig = Rig::new(&cached, model);
    rig.cached = 1;
    let End::Wait(requests) = rig.start() else { panic!("it should wait") };
    assert_eq!(rig.requested.len(), 0);
    let checkpoint = rig.checkpoint();
    let mut next = rig.reopened(&checkpoint, &rig.journal, &[]);
    assert_eq!(next.resume(&[answer(&requests[0], true)]), End::Speak("live".into()));
    let ordinals: Vec<_> = next.requested.iter().map(|id| id.rsplit(':').next().unwrap()).collect();
    assert_eq!(ordinals, [r#"2""#, r#"3""#]);
}

#[test]
fn a_session_has_had_its_first_turn_when_one_has_returned_an_outcome() {
    let mut rig = Rig::new(&options(false), model);
    rig.dies_at = Some(1);
    assert_eq!(rig.start(), End::Died);
    let fresh = rig.checkpoint();
    assert!(rig.reopened(&fresh, &[], &[]).agent.first_turn());
    let (rig, _, checkpoint) = parked(false);
    assert!(!rig.agent.first_turn() && !rig.reopened(&checkpoint, &[], &[]).agent.first_turn());
}

#[test]
fn a_checkpoint_of_another_shape_is_refused_with_its_path() {
    let (_, requests, checkpoint) = parked(false);
    let request = quote(&text(&requests[0], "id"));
    let session = r#""sessionId":"[\"c\",\"bot\"]""#;
    let execution = r#""executionId":"a1""#;
    let long = "é".repeat(513);
    let many = (0..65).map(|i| format!(r#""r{i}""#)).collect::<Vec<_>>().join(",");
    for (from, to, path) in [
        (session, r#""sessionId":"""#, "data.sessionId"),
        (session, &format!(r#""sessionId":"{long}""#), "data.sessionId"),
        (session, r#""session":"c""#, "data.sessionId"),
        (execution, r#""executionId":"""#, "data.pending.executionId"),
        (execution, &format!(r#""executionId":"{long}""#), "data.pending.executionId"),
        (execution, r#""executionId":1"#, "data.pending.executionId"),
        (&request, r#""""#, "data.pending.requestIds[0]"),
        (&request, &format!(r#"{request},"{long}""#), "data.pending.requestIds[1]"),
        (&request, &format!("{request},{request}"), "data.pending.requestIds[1]: named twice"),
        (&request, "", "data.pending.requestIds: expected 1 to 64 ids"),
        (&request, &many, "data.pending.requestIds: expected 1 to 64 ids"),
        (r#""environment":"""#, r#""environment":null"#, "data.environment"),
        (r#""environment":"""#, r#""environment":"/other""#, "the environment differs"),
        (r#""firstTurnDone":true"#, r#""firstTurnDone":1"#, "data.firstTurnDone"),
        (r#""pending":"#, r#""parked":"#, "data.pending: missing"),
    ] {
        assert!(checkpoint.contains(from), "{from} in {checkpoint}");
        let error = open(&options(false), Some(&checkpoint.replacen(from, to, 1))).unwrap_err().to_string();
        assert!(error.contains(path), "{error} should name {path}");
    }
    let most = (0..64).map(|i| format!(r#""r{i}""#)).collect::<Vec<_>>().join(",");
    let longest = checkpoint.replace(execution, &format!(r#""executionId":"{}""#, "é".repeat(512)));
    let opened = open(&options(false), Some(&longest.replace(&request, &most))).unwrap();
    assert_eq!(opened.agent.pending().unwrap().request_ids.len(), 64, "the bounds themselves");
}
