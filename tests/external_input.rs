//! Input, answers and withdrawals: who may say what, when, and what a repetition gets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use agent_roundtable::conversation::Code;
use agent_roundtable::conversation::effect::Reply;
use agent_roundtable::conversation::input::Request;
use agent_roundtable::record::model::{
    InputResponse, Outcome, ParticipantRequest, RequestKind, Response, RunOutcome, Selection,
};
use agent_roundtable::value::{CanonicalJson, Json};
use support::{Instant, config, said, speak};

const HOST_SELECTOR: &str = r#","selector":{}"#;

fn ask(id: &str, kind: RequestKind) -> ParticipantRequest {
    let input = kind == RequestKind::Input;
    ParticipantRequest {
        id: id.into(),
        reason: "why".into(),
        kind,
        participant_id: input.then(|| "pia".into()),
        data: (!input).then(|| CanonicalJson::of(&Json::Null)),
    }
}

/// `ana` waits on these requests, then speaks.
fn waiting(requests: Vec<ParticipantRequest>) -> (Instant, u64) {
    let mut first = Some(requests);
    let turn = move |_: &_| match first.take() {
        Some(requests) => Ok(Outcome::Wait { requests }),
        None => speak("thanks"),
    };
    let mut host = Instant::new(config(HOST_SELECTOR), Box::new(turn));
    host.traits.can_checkpoint = true;
    host.decisions.push_back(Selection::Speak { participant_id: "ana".into() });
    let Reply::Ran { outcome: RunOutcome::Waiting, revision, .. } = host.run() else { panic!() };
    (host, revision)
}

/// `pia` was asked by the selection itself.
fn asked() -> (Instant, u64, String) {
    let mut host = Instant::new(config(HOST_SELECTOR), Box::new(|_| speak("x")));
    host.decisions.push_back(Selection::Wait { participant_id: "pia".into(), reason: "your view".into() });
    let Reply::Ran { requests, revision, .. } = host.run() else { panic!() };
    assert_eq!((&*requests[0].reason, requests[0].member_id.clone()), ("your view", None));
    (host, revision, requests[0].id.to_string())
}

fn code<T: std::fmt::Debug>(result: Result<T, agent_roundtable::conversation::RoundtableError>) -> Code {
    result.unwrap_err().code
}

#[test]
fn c20_input_comes_from_a_registered_external_participant_and_executes_no_one() {
    let mut host = Instant::new(config(""), Box::new(|_| panic!("nobody runs")));
    for who in ["ana", "nobody"] {
        let request = Request::SubmitInput {
            participant_id: who.into(),
            input_id: "i".into(),
            expected_revision: 0,
            content: "x".into(),
            reply_to: None,
            by: None,
        };
        assert_eq!(code(host.call(request)), Code::Conflict);
        assert!(host.batches.is_empty(), "nothing is stored");
    }
    let Reply::Submitted { revision, message_id } = host.submit("i", "hello", None, 0).unwrap() else { panic!() };
    let state = host.machine.durable();
    assert_eq!((revision, &state.messages[0].id, state.turns.len()), (2, &message_id, 0));
    assert_eq!(state.messages[0].revision, revision);
}

#[test]
fn c21_a_repeated_input_gets_its_receipt_and_a_changed_one_a_conflict() {
    let mut host = Instant::new(config(""), Box::new(|_| speak("x")));
    let receipt = host.submit("i", "hello", None, 0).unwrap();
    let appends = host.appends;
    assert_eq!(host.submit("i", "hello", None, 77).unwrap(), receipt);
    assert_eq!(code(host.submit("i", "other", None, 2)), Code::Conflict);
    assert_eq!(code(host.submit("i", "hello", Some("q"), 2)), Code::Conflict);
    assert_eq!(host.appends, appends);
    host.run();
    assert_eq!(host.submit("i", "hello", None, 0).unwrap(), receipt);
}

#[test]
fn c21_after_completion_the_old_receipt_is_given_and_new_input_refused() {
    let mut host = Instant::new(config(HOST_SELECTOR), Box::new(|_| speak("x")));
    let receipt = host.submit("i", "hello", None, 0).unwrap();
    assert!(matches!(host.run(), Reply::Ran { outcome: RunOutcome::Completed { .. }, .. }));
    assert_eq!(host.submit("i", "hello", None, 0).unwrap(), receipt);
    let at = host.revision();
    assert_eq!(code(host.submit("j", "hello", None, at)), Code::Conflict);
}

#[test]
fn c22_the_expected_revision_lies_between_the_last_message_and_now() {
    let mut host = Instant::new(config(""), Box::new(|_| speak("x")));
    assert_eq!(code(host.submit("i", "a", None, 1)), Code::Conflict);
    let Reply::Submitted { revision, .. } = host.submit("i", "a", None, 0).unwrap() else { panic!() };
    assert_eq!(code(host.submit("j", "b", None, revision - 1)), Code::Conflict);
    assert_eq!(code(host.submit("j", "b", None, revision + 1)), Code::Conflict);
    host.submit("j", "b", None, revision).unwrap();
}

#[test]
fn c22_answers_to_other_requests_do_not_make_one_stale() {
    let (mut host, at) = waiting(vec![ask("q1", RequestKind::Input), ask("q2", RequestKind::Input)]);
    host.submit("a1", "one", Some("q1"), at).unwrap();
    host.submit("a2", "two", Some("q2"), at).unwrap();
    assert_eq!(host.transcript().len(), 0, "private until the group commits");
    host.run();
    let words: Vec<_> = host.transcript().into_iter().map(|(_, text)| text).collect();
    assert_eq!(words, ["one", "two", "thanks"]);
}

#[test]
fn c22_while_requests_are_open_only_an_answer_by_its_own_participant_is_taken() {
    let (mut host, at) = waiting(vec![ask("q1", RequestKind::Input), ask("q2", RequestKind::Approval)]);
    assert_eq!(code(host.submit("i", "bare", None, at)), Code::Conflict);
    assert_eq!(code(host.submit("i", "x", Some("q2"), at)), Code::Conflict);
    assert_eq!(code(host.submit("i", "x", Some("nothing"), at)), Code::Conflict);
    assert_eq!(host.machine.durable().open_requests().count(), 2);
}

#[test]
fn c23_a_started_group_keeps_its_view() {
    let (mut host, at) = waiting(vec![ask("q1", RequestKind::Input)]);
    host.submit("a", "yes", Some("q1"), at).unwrap();
    let at = host.revision();
    assert_eq!(code(host.submit("i", "by the way", None, at)), Code::Conflict);
}

#[test]
fn c24_inputs_and_answers_share_one_id_space() {
    let (mut host, at) = waiting(vec![ask("q1", RequestKind::Input), ask("q2", RequestKind::Input)]);
    host.submit("same", "one", Some("q1"), at).unwrap();
    assert_eq!(code(host.resume("q1", "same", said("one"), at)), Code::Conflict);
    let receipt = host.resume("q2", "other", said("two"), at).unwrap();
    assert_eq!(host.resume("q2", "other", said("two"), at).unwrap(), receipt);
    assert_eq!(code(host.submit("other", "two", Some("q2"), at)), Code::Conflict);
}

#[test]
fn c27_the_response_is_of_the_request_s_kind() {
    let kinds = [RequestKind::Input, RequestKind::Approval, RequestKind::Reconciliation];
    let responses = || {
        [
            said("x"),
            Response::Approval { approved: false, reason: None },
            Response::Reconciliation { data: CanonicalJson::of(&Json::Null) },
        ]
    };
    for (k, kind) in kinds.into_iter().enumerate() {
        let (mut host, at) = waiting(vec![ask("q", kind)]);
        for (r, response) in responses().into_iter().enumerate().filter(|(r, _)| *r != k) {
            assert_eq!(code(host.resume("q", &format!("a{r}"), response, at)), Code::Conflict);
        }
        host.resume("q", "right", responses()[k].clone(), at).unwrap();
    }
}

#[test]
fn c27_a_member_continues_once_all_its_requests_are_answered() {
    let (mut host, at) = waiting(vec![ask("q1", RequestKind::Input), ask("q2", RequestKind::Approval)]);
    host.submit("a1", "one", Some("q1"), at).unwrap();
    let Reply::Ran { outcome, requests, .. } = host.run() else { panic!() };
    assert_eq!((outcome, requests.len()), (RunOutcome::Waiting, 1), "an answered request is not listed again");
    let at = host.revision();
    host.resume("q2", "a2", Response::Approval { approved: true, reason: None }, at).unwrap();
    assert!(matches!(host.run(), Reply::Ran { outcome: RunOutcome::Completed { .. }, .. }));
}

#[test]
fn c28_a_consumed_request_takes_no_second_answer() {
    let (mut host, at) = waiting(vec![ask("q", RequestKind::Approval)]);
    let yes = || Response::Approval { approved: true, reason: None };
    let receipt = host.resume("q", "a", yes(), at).unwrap();
    assert_eq!(host.resume("q", "a", yes(), 0).unwrap(), receipt);
    let no = Response::Approval { approved: false, reason: None };
    assert_eq!(code(host.resume("q", "a", no, at)), Code::Conflict);
    assert_eq!(code(host.resume("q", "b", yes(), at)), Code::Conflict);
    assert_eq!(code(host.resume("other", "a", yes(), at)), Code::Conflict);
}

#[test]
fn c30a_an_asked_person_speaks_at_once_and_costs_no_turn() {
    let (mut host, at, request) = asked();
    let Reply::Submitted { message_id, .. } = host.submit("a", "my view", Some(&request), at).unwrap() else {
        panic!()
    };
    let state = host.machine.durable();
    assert_eq!((&state.messages[0].id, state.turns.len()), (&message_id, 1));
    assert_eq!(
        (&state.messages[0].turn_id, &state.messages[0].group_id),
        (&state.turns[0].id, &state.turns[0].group_id)
    );
    assert!(state.group.is_none() && host.entries("turn-started").is_empty());
}

#[test]
fn c30b_a_declined_or_withdrawn_question_counts_as_a_yield() {
    for withdraw in [false, true] {
        let (mut host, at, request) = asked();
        if withdraw {
            let call = Request::Withdraw {
                request_id: request.as_str().into(),
                expected_revision: at,
                by: "desk".into(),
                reason: "away".into(),
            };
            host.call(call.clone()).unwrap();
            assert_eq!(code(host.call(call)), Code::Conflict);
        } else {
            let no = InputResponse::Declined { declined: true, reason: Some("busy".into()) };
            host.resume(&request, "a", Response::Input(no), at).unwrap();
        }
        let state = host.machine.durable();
        assert_eq!((state.messages.len(), state.turns.len()), (0, 1));
        assert!(matches!(host.run(), Reply::Ran { outcome: RunOutcome::Completed { .. }, .. }));
    }
}

#[test]
fn c30b_a_member_is_told_that_its_request_was_withdrawn() {
    for kind in [RequestKind::Input, RequestKind::Approval, RequestKind::Reconciliation] {
        let (mut host, at) = waiting(vec![ask("q", kind)]);
        let (by, reason) = ("desk".into(), "away".into());
        host.call(Request::Withdraw { request_id: "q".into(), expected_revision: at, by, reason }).unwrap();
        let response = host.machine.durable().group.as_ref().unwrap().turns[0].responses().remove(0).response;
        match (kind, response) {
            (RequestKind::Approval, Response::Approval { approved, reason }) => {
                assert_eq!((approved, reason.as_deref()), (false, Some("away")));
            }
            (_, Response::Input(InputResponse::Declined { declined, reason })) => {
                assert_eq!((declined, reason.as_deref()), (true, Some("away")));
            }
            other => panic!("{other:?}"),
        }
        host.run();
        assert_eq!(host.transcript().len(), 1);
    }
}

#[test]
fn c20_bounds_are_named_and_nothing_is_stored() {
    let mut host = Instant::new(config(""), Box::new(|_| speak("x")));
    let long = "x".repeat(513);
    let mut refused = |request: Request, field: &str| {
        let error = host.call(request).unwrap_err();
        assert_eq!(error.code, Code::InvalidConfig);
        assert!(error.message.starts_with(field), "{}", error.message);
        assert!(host.batches.is_empty());
    };
    let submit = |input_id: &str, content: String, reply_to: Option<&str>, by: Option<&str>| Request::SubmitInput {
        participant_id: "pia".into(),
        input_id: input_id.into(),
        expected_revision: 0,
        content: content.into(),
        reply_to: reply_to.map(Into::into),
        by: by.map(Into::into),
    };
    refused(submit("", String::new(), None, None), "inputId");
    refused(submit(&long, String::new(), None, None), "inputId");
    refused(submit("i", "x".repeat(1024 * 1024 + 1), None, None), "content");
    refused(submit("i", String::new(), Some(&long), None), "replyToRequestId");
    refused(submit("i", String::new(), None, Some("")), "by");
    let resume = |request: &str, id: &str, response| Request::Resume {
        request_id: request.into(),
        response_id: id.into(),
        expected_revision: 0,
        response,
        by: None,
    };
    refused(resume("", "a", said("x")), "requestId");
    refused(resume("q", &long, said("x")), "responseId");
    refused(resume("q", "a", said(&"x".repeat(1024 * 1024 + 1))), "response.content");
    let reason = Some("x".repeat(8193).into());
    refused(resume("q", "a", Response::Approval { approved: true, reason: reason.clone() }), "response.reason");
    let declined = InputResponse::Declined { declined: true, reason };
    refused(resume("q", "a", Response::Input(declined)), "response.reason");
    let withdraw = |request: &str, by: &str, reason: String| Request::Withdraw {
        request_id: request.into(),
        expected_revision: 0,
        by: by.into(),
        reason: reason.into(),
    };
    refused(withdraw("", "b", String::new()), "requestId");
    refused(withdraw("q", "", String::new()), "by");
    refused(withdraw("q", "b", "x".repeat(8193)), "reason");
    assert_eq!(code(host.resume("q", "a", said("x"), 0)), Code::Conflict);
    host.submit("i", &"x".repeat(1024 * 1024), None, 0).unwrap();
}
