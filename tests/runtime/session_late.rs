//! What comes after its moment: replies to calls whose attempt is over, tools that end after their turn, an
//! abort when the turn is done.

use crate::session_host::{End, Rig, answer, options, policy, quote, replies, reply, tell, text};
use agent_roundtable::value::Json;

/// One call that must be approved, then words.
fn model(history: &[Json]) -> String {
    match replies(history) {
        0 => reply("", &[("t", "write", r#"{"n":1}"#)]),
        _ => reply("live", &[]),
    }
}

/// A session that was parked and, continued, died when its second model call had been requested.
fn dead() -> (Rig, String, Vec<String>) {
    let mut rig = Rig::new(&options(false), model);
    let End::Wait(requests) = rig.start() else { panic!("it should wait") };
    let checkpoint = rig.checkpoint();
    let answers = vec![answer(&requests[0], true)];
    rig.dies_at = Some(rig.journal.len() + 4); // answer, intent, result, request
    assert_eq!(rig.resume(&answers), End::Died);
    assert_eq!(text(rig.journal.last().unwrap(), "id"), "a2:call:2:request");
    (rig, checkpoint, answers)
}

/// A record of the execution, like one that is there.
fn like(record: &Json, id: &str, kind: &str, call_id: &str, rest: &str) -> Json {
    let (execution, session) = (quote(&text(record, "executionId")), quote(&text(record, "sessionId")));
    Json::parse(&format!(
        r#"{{"id":"{id}","kind":"{kind}","callId":"{call_id}","executionId":{execution},"sessionId":{session},{rest}}}"#
    ))
    .unwrap()
}

fn response(rig: &Rig, call_id: &str, reply: &str) -> Json {
    let rest = format!(r#""response":{reply}"#);
    like(&rig.journal[0], &format!("{call_id}:response"), "model-response", call_id, &rest)
}

fn request(rig: &Rig, call_id: &str) -> Json {
    let rest = r#""providerId":"p","modelId":"m""#;
    like(&rig.journal[0], &format!("{call_id}:request"), "model-request", call_id, rest)
}

/// What the next process does with these records added, and which calls it makes.
fn next(rig: &Rig, checkpoint: &str, answers: &[String], added: Vec<Json>) -> (End, Vec<String>) {
    let journal: Vec<Json> = rig.journal.iter().cloned().chain(added).collect();
    let mut next = rig.reopened(checkpoint, &journal, &rig.deeds);
    let end = next.resume(answers);
    assert_eq!(next.deeds, rig.deeds, "nothing runs again");
    (end, next.requested)
}

#[test]
fn a_late_reply_counts_while_no_other_call_has_taken_its_place() {
    let (rig, checkpoint, answers) = dead();
    let late = response(&rig, "a2:call:2", &reply("late", &[]));
    let (end, called) = next(&rig, &checkpoint, &answers, vec![late.clone()]);
    assert_eq!((end, called), (End::Speak("late".into()), vec![]), "what was paid for is kept");

    let (third, answered) = (request(&rig, "a3:call:3"), response(&rig, "a3:call:3", &reply("third", &[])));
    let (end, called) = next(&rig, &checkpoint, &answers, vec![third, late, answered]);
    assert_eq!((end, called), (End::Speak("third".into()), vec![]));
}

#[test]
fn a_late_reply_that_nobody_acted_on_gives_way_to_a_call_that_was_decided_on_before() {
    let (rig, checkpoint, answers) = dead();
    let calls = reply("", &[("t", "write", r#"{"n":1}"#)]);
    for late in [calls, reply("late", &[])] {
        let late = response(&rig, "a2:call:2", &late);
        let (third, answered) = (request(&rig, "a3:call:3"), response(&rig, "a3:call:3", &reply("third", &[])));
        let (end, _) = next(&rig, &checkpoint, &answers, vec![late, third, answered]);
        assert_eq!(end, End::Speak("third".into()));
    }
}

#[test]
fn a_call_without_a_reply_is_made_again_under_an_id_that_was_never_used() {
    let (rig, checkpoint, answers) = dead();
    let (end, called) = next(&rig, &checkpoint, &answers, vec![]);
    assert_eq!(end, End::Speak("live".into()));
    assert_eq!(called.len(), 1);
    assert!(called[0].ends_with(r#":call:3""#), "{called:?}: the requested one was the second");
}

#[test]
fn a_call_that_failed_is_made_again_under_an_id_that_was_never_used() {
    let (rig, checkpoint, answers) = dead();
    let failed = like(
        &rig.journal[0],
        "a2:call:2:failure",
        "model-failure",
        "a2:call:2",
        r#""message":"overloaded","cancelled":false"#,
    );
    let (end, called) = next(&rig, &checkpoint, &answers, vec![failed]);
    assert_eq!((end, called.len()), (End::Speak("live".into()), 1));
    assert!(called[0].ends_with(r#":call:3""#), "{called:?}");
}

#[test]
fn a_late_reply_that_gave_way_is_no_round() {
    let limited = options(false).replace(r#""session""#, r#""maxRounds":4,"session""#);
    let mut rig = Rig::new(&limited, |history| match replies(history) {
        0 => reply("", &[("t", "write", r#"{"n":1}"#)]),
        2 => reply("", &[("t", "read", r#"{"n":3}"#)]),
        _ => reply("live", &[]),
    });
    let End::Wait(requests) = rig.start() else { panic!("it should wait") };
    let (checkpoint, answers) = (rig.checkpoint(), [answer(&requests[0], true)]);
    rig.dies_at = Some(rig.journal.len() + 4); // answer, intent, result, request
    assert_eq!(rig.resume(&answers), End::Died);
    let late = response(&rig, "a2:call:2", &reply("late", &[]));
    let calls = reply("", &[("t", "read", r#"{"n":2}"#)]);
    let (third, answered) = (request(&rig, "a3:call:3"), response(&rig, "a3:call:3", &calls));
    let journal: Vec<Json> = rig.journal.iter().cloned().chain([late, third, answered]).collect();
    let mut next = rig.reopened(&checkpoint, &journal, &rig.deeds);
    assert_eq!(next.resume(&answers), End::Speak("live".into()), "the last of four rounds");
    assert_eq!((next.requested.len(), next.deeds.len()), (2, 3));
}

#[test]
fn no_further_call_follows_a_tool_that_was_begun_and_has_no_result() {
    let (first, checkpoint) = dead_at_first(4, false);
    let mut journal = first.journal.clone();
    journal.push(request(&first, "a1:call:2"));
    let mut next = first.reopened(&checkpoint, &journal, &first.deeds);
    let End::Fail(code, message) = next.go_on(true) else { panic!("its effect would be forgotten") };
    assert_eq!(code, "recovery-required");
    assert!(message.contains("a model call follows a tool call without a result"), "{message}");
    assert_eq!((next.requested.len(), next.deeds.len()), (0, 0));
}

#[test]
fn only_reached_results_let_a_further_call_follow() {
    let (rig, checkpoint, answers) = dead();
    let journal: Vec<Json> = rig.journal.iter().filter(|r| text(r, "kind") != "tool-result").cloned().collect();
    let mut next = rig.reopened(&checkpoint, &journal, &rig.deeds);
    assert!(matches!(next.resume(&answers), End::Fail(code, _) if code == "recovery-invalid"));
}

/// A turn that calls `read` and `write`, both allowed, up to where their intents are being written down.
fn intending() -> Rig {
    intending_of(false)
}

fn intending_of(idempotent: bool) -> Rig {
    let mut rig = Rig::new(&options(idempotent), model);
    tell(&mut rig, r#"{"kind":"start","turnId":"t","attemptId":"a","input":"hi","at":0}"#);
    tell(&mut rig, r#"{"kind":"appended","callId":"a:call:1","at":0}"#);
    let calls = reply("", &[("t1", "read", r#"{"n":1}"#), ("t2", "write", r#"{"n":2}"#)]);
    tell(&mut rig, &format!(r#"{{"kind":"model-replied","callId":"a:call:1","reply":{calls}}}"#));
    let (kinds, _) = tell(&mut rig, r#"{"kind":"appended","callId":"a:call:1","at":0}"#);
    assert_eq!(kinds, ["extend", "permit"]);
    let allowed = r#"{"kind":"permitted","callId":"a:call:1","verdicts":["allow","allow"],"at":0}"#;
    assert_eq!(tell(&mut rig, allowed).0, ["record", "record", "sync"]);
    rig
}

#[test]
fn a_call_that_was_stopped_before_it_ran_is_on_record_as_not_run() {
    let mut rig = intending();
    assert_eq!(tell(&mut rig, r#"{"kind":"aborted"}"#).0, ["fail"]);
    let (kinds, effects) = tell(&mut rig, r#"{"kind":"appended","callId":"a:call:1","at":0}"#);
    assert_eq!(kinds, ["record", "record"]);
    for (effect, id) in effects.iter().zip(["t1", "t2"]) {
        let record = effect.get("record").unwrap();
        assert_eq!((text(record, "kind"), text(record, "toolCallId")), ("tool-result".into(), id.into()));
        assert!(record.canonical().contains("not-run"));
    }
    assert_eq!(tell(&mut rig, r#"{"kind":"appended","callId":"a:call:1","at":0}"#).0, [""; 0], "and once");
}

#[test]
fn a_call_whose_intent_was_refused_has_no_result_afterwards() {
    let mut rig = intending();
    let (kinds, effects) = tell(&mut rig, r#"{"kind":"append-refused","callId":"a:call:1"}"#);
    assert_eq!((kinds, text(&effects[0], "code")), (vec!["fail".to_owned()], "journal-failed".to_owned()));
    assert_eq!(tell(&mut rig, r#"{"kind":"appended","callId":"a:call:1","at":0}"#).0, [""; 0]);
}

#[test]
fn what_a_turn_does_not_wait_for_changes_nothing() {
    let mut rig = intending();
    let reply = reply("no", &[]);
    for other in [
        r#"{"kind":"appended","callId":"x:call:1","at":0}"#,
        r#"{"kind":"append-refused","callId":"x:call:1"}"#,
        r#"{"kind":"cache-answered","callId":"a:call:1","reply":null}"#,
        r#"{"kind":"cache-failed","callId":"a:call:1"}"#,
        r#"{"kind":"permitted","callId":"a:call:1","verdicts":["deny","deny"],"at":0}"#,
        r#"{"kind":"permission-failed","callId":"a:call:1"}"#,
        &format!(r#"{{"kind":"model-replied","callId":"a:call:1","reply":{reply}}}"#),
        r#"{"kind":"model-failed","callId":"a:call:1","message":"no"}"#,
        r#"{"kind":"tool-returned","callId":"a:call:1","index":0,"at":0,"result":1}"#,
        r#"{"kind":"flushed"}"#,
    ] {
        assert_eq!(tell(&mut rig, other).0, [""; 0], "{other}");
    }
    assert_eq!(tell(&mut rig, r#"{"kind":"appended","callId":"a:call:1","at":0}"#).0, ["run-tools"]);
}

#[test]
fn a_stopped_turn_ends_when_the_tools_that_must_not_run_twice_have_their_results() {
    let mut rig = intending();
    let returned = |index: usize| {
        format!(r#"{{"kind":"tool-returned","callId":"a:call:1","index":{index},"at":0,"result":{{"late":{index}}}}}"#)
    };
    assert_eq!(tell(&mut rig, r#"{"kind":"appended","callId":"a:call:1","at":0}"#).0, ["run-tools"]);
    assert_eq!(tell(&mut rig, r#"{"kind":"aborted"}"#).0, [""; 0]);
    assert_eq!(tell(&mut rig, &returned(0)).0, ["record"]);
    assert_eq!(tell(&mut rig, &returned(0)).0, [""; 0], "once");
    let (kinds, effects) = tell(&mut rig, &returned(1));
    assert_eq!(kinds, ["record", "fail"], "and no further call is made");
    assert!(effects[0].canonical().contains(r#""result":{"late":1}"#));
    assert_eq!(text(&effects[1], "code"), "aborted");
    assert_eq!(tell(&mut rig, &returned(1)).0, [""; 0]);
}

#[test]
fn a_stopped_turn_that_is_told_again_waits_no_longer() {
    let mut rig = intending();
    assert_eq!(tell(&mut rig, r#"{"kind":"appended","callId":"a:call:1","at":0}"#).0, ["run-tools"]);
    assert_eq!(tell(&mut rig, r#"{"kind":"aborted"}"#).0, [""; 0]);
    let (kinds, effects) = tell(&mut rig, r#"{"kind":"delta-failed"}"#);
    assert_eq!((kinds, text(&effects[0], "code")), (vec!["fail".to_owned()], "aborted".to_owned()));
    let late = r#"{"kind":"tool-returned","callId":"a:call:1","index":0,"at":0,"result":1}"#;
    assert_eq!(tell(&mut rig, late).0, [""; 0], "another attempt may have made it again");
}

#[test]
fn a_stopped_turn_does_not_wait_for_a_tool_that_may_run_again() {
    let mut rig = intending_of(true);
    assert_eq!(tell(&mut rig, r#"{"kind":"appended","callId":"a:call:1","at":0}"#).0, ["run-tools"]);
    assert_eq!(tell(&mut rig, r#"{"kind":"aborted"}"#).0, ["fail"]);
}

/// A first attempt that reads, which is allowed, and died when the journal had so many records.
fn dead_at_first(records: usize, idempotent: bool) -> (Rig, String) {
    let mut rig = Rig::new(&options(idempotent), |history| match replies(history) {
        0 => reply("", &[("t", "read", r#"{"n":1}"#)]),
        _ => reply("live", &[]),
    });
    let checkpoint = rig.checkpoint();
    rig.dies_at = Some(records); // start, request, response, intent, result
    assert_eq!(rig.start(), End::Died);
    (rig, checkpoint)
}

#[test]
fn a_first_attempt_that_was_stopped_goes_on_from_its_records() {
    let (first, checkpoint) = dead_at_first(5, false);
    let mut next = first.reopened(&checkpoint, &first.journal, &first.deeds);
    assert_eq!(next.go_on(false), End::Speak("live".into()));
    assert_eq!((next.deeds.len(), next.requested.len()), (1, 1), "neither the call nor the tool is repeated");
    assert_eq!(next.history.len(), 4, "the input, the call, its result, the words");
}

#[test]
fn a_first_attempt_of_which_a_tool_has_no_result_goes_on_where_the_tool_or_the_host_allows_it() {
    for (idempotent, retried) in [(false, false), (true, false), (false, true)] {
        let (first, checkpoint) = dead_at_first(4, idempotent);
        let deeds = vec![("key".to_owned(), "{}".to_owned())];
        let mut next = first.reopened(&checkpoint, &first.journal, &deeds);
        let end = next.go_on(retried);
        if idempotent || retried {
            assert_eq!((end, next.deeds.len()), (End::Speak("live".into()), 2));
        } else {
            assert!(matches!(&end, End::Fail(code, why) if code == "recovery-required" && why.contains("read")));
            assert_eq!(next.deeds, deeds, "nothing runs");
        }
    }
}

/// A first attempt whose allowed tool has no result, and that another one takes up under a policy that asks.
fn begun_and_asked_about(idempotent: bool) -> (Rig, String, Vec<Json>) {
    let (first, checkpoint) = dead_at_first(4, idempotent);
    let mut next = first.reopened(&checkpoint, &first.journal, &first.deeds);
    next.policy = policy(r#"{"ask":["read"]}"#);
    let End::Wait(requests) = next.go_on(!idempotent) else { panic!("what nobody said yes to is asked about") };
    assert_eq!((requests.len(), next.deeds.len()), (1, 0));
    let parked = next.checkpoint();
    (next, parked, requests)
}

#[test]
fn a_tool_that_a_policy_allowed_and_a_later_one_asks_about_runs_again_when_a_person_says_yes() {
    for idempotent in [false, true] {
        let (parked, checkpoint, requests) = begun_and_asked_about(idempotent);
        let mut next = parked.reopened(&checkpoint, &parked.journal, &parked.deeds);
        assert_eq!(next.resume(&[]), End::Wait(requests.clone()), "and no sooner");
        assert_eq!(next.resume(&[answer(&requests[0], true)]), End::Speak("live".into()));
        assert_eq!(next.deeds.len(), 1);

        let mut denied = parked.reopened(&checkpoint, &parked.journal, &parked.deeds);
        assert_eq!(denied.resume(&[answer(&requests[0], false)]), End::Speak("live".into()));
        assert_eq!(denied.deeds.len(), 0);
        assert!(denied.journal.iter().any(|record| record.canonical().contains("denied")));
    }
}

#[test]
fn a_tool_that_runs_again_after_a_yes_is_unknown_again_until_it_has_its_result() {
    for idempotent in [false, true] {
        let (parked, checkpoint, requests) = begun_and_asked_about(idempotent);
        let mut dying = parked.reopened(&checkpoint, &parked.journal, &parked.deeds);
        dying.dies_at = Some(parked.journal.len() + 1); // the answer
        let yes = [answer(&requests[0], true)];
        assert_eq!(dying.resume(&yes), End::Died);
        let mut next = dying.reopened(&checkpoint, &dying.journal, &dying.deeds);
        match idempotent {
            true => assert_eq!((next.resume(&yes), next.deeds.len()), (End::Speak("live".into()), 1)),
            false => assert!(matches!(next.resume(&yes), End::Fail(code, _) if code == "recovery-required")),
        }
    }
}

#[test]
fn a_call_that_an_earlier_attempt_began_is_not_on_record_as_not_run() {
    let (first, checkpoint) = dead_at_first(4, false);
    let mut next = first.reopened(&checkpoint, &first.journal, &first.deeds);
    let input = next.going_on(true);
    let (kinds, effects) = tell(&mut next, &input);
    assert_eq!(kinds, ["extend", "permit"]);
    let call_id = text(&effects[1], "callId");
    let allowed = format!(r#"{{"kind":"permitted","callId":"{call_id}","verdicts":["allow"],"at":0}}"#);
    assert_eq!(tell(&mut next, &allowed).0, ["record", "sync"]);
    assert_eq!(tell(&mut next, r#"{"kind":"aborted"}"#).0, ["fail"]);
    let appended = format!(r#"{{"kind":"appended","callId":"{call_id}","at":0}}"#);
    assert_eq!(tell(&mut next, &appended).0, [""; 0], "it may have run");
}

#[test]
fn records_of_a_first_attempt_that_cannot_be_continued_are_for_the_host_to_judge() {
    let (first, checkpoint) = dead_at_first(5, false);
    let mut next = first.reopened(&checkpoint, &first.journal[1..], &first.deeds);
    assert!(matches!(next.go_on(true), End::Fail(code, _) if code == "recovery-required"));
    assert_eq!(next.deeds, first.deeds);
}

#[test]
fn k10_an_abort_does_not_take_back_a_finished_turn_or_a_saved_wait() {
    for (calls, end) in [(vec![], "speak"), (vec![("t", "write", r#"{"n":1}"#)], "wait")] {
        let mut rig = Rig::new(&options(false), model);
        tell(&mut rig, r#"{"kind":"start","turnId":"t","attemptId":"a","input":"hi","at":0}"#);
        tell(&mut rig, r#"{"kind":"appended","callId":"a:call:1","at":0}"#);
        let reply = reply("words", &calls);
        tell(&mut rig, &format!(r#"{{"kind":"model-replied","callId":"a:call:1","reply":{reply}}}"#));
        let (mut kinds, _) = tell(&mut rig, r#"{"kind":"appended","callId":"a:call:1","at":0}"#);
        if end == "wait" {
            tell(&mut rig, r#"{"kind":"permitted","callId":"a:call:1","verdicts":["ask"],"at":0}"#);
            (kinds, _) = tell(&mut rig, r#"{"kind":"appended","callId":"a:call:1","at":0}"#);
        }
        assert_eq!(kinds.last().unwrap(), "flush");
        assert_eq!(rig.agent.pending(), None, "nothing is parked before the turn returns");
        assert_eq!(tell(&mut rig, r#"{"kind":"aborted"}"#).0, [end]);
        assert_eq!(rig.agent.pending().is_some(), end == "wait");
    }
}

#[test]
fn a_session_id_fits_an_id_whatever_the_conversation_and_the_participant_are_called() {
    let long = options(false).replace(r#""conversationId":"c""#, &format!(r#""conversationId":"{}""#, "é".repeat(600)));
    let rig = Rig::new(&long, model);
    assert_eq!(rig.agent.session_id().unwrap().len(), 64);
    assert_eq!(Rig::new(&options(false), model).agent.session_id(), Some(r#"["c","bot"]"#));
}

#[test]
fn c52a_a_fork_takes_over_a_history_and_not_what_waits() {
    let mut rig = Rig::new(&options(false), model);
    let forked = options(false).replace(r#""forked":false"#, r#""forked":true"#);
    let forked = forked.replace(r#""conversationId":"c""#, r#""conversationId":"fork""#);
    let open = |checkpoint: &str| agent_roundtable::runtime::wire::open(&forked, Some(checkpoint));
    let settled = rig.checkpoint();
    assert_eq!(open(&settled).unwrap().agent.session_id(), Some(r#"["fork","bot"]"#));
    assert!(matches!(rig.start(), End::Wait(_)));
    let error = open(&rig.checkpoint()).unwrap_err().to_string();
    assert!(error.contains("data.pending"), "{error}");
}
