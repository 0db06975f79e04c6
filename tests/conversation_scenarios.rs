//! The scheduler's main paths, driven natively through the machine's public interface.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use agent_roundtable::conversation::effect::Reply;
use agent_roundtable::conversation::input::Request;
use agent_roundtable::conversation::{Code, LimitsPatch};
use agent_roundtable::record::model::{
    InputResponse, LimitReason, Outcome, ParticipantRequest, RequestKind, Response, RunOutcome, Selection,
};
use agent_roundtable::record::state::State;
use support::{Instant, config, read_journal, speak};

const HOST_SELECTOR: &str = r#","selector":{"reference":{"id":"sel","version":"1"}}"#;

fn fold(host: &Instant) -> State {
    read_journal(&host.batches).unwrap().0
}

#[test]
fn c10_round_robin_asks_everyone_in_declared_order() {
    let mut host = Instant::new(config(""), Box::new(|turn| speak(&format!("turn of {}", turn.participant))));
    let Reply::Ran { outcome, requests, .. } = host.run() else { panic!() };
    assert_eq!(outcome, RunOutcome::Waiting);
    assert_eq!(requests.len(), 1);
    let revision = host.machine.durable().revision;
    let reply = host
        .call(Request::SubmitInput {
            participant_id: "pia".into(),
            input_id: "i1".into(),
            expected_revision: revision,
            content: "hello".into(),
            reply_to: Some(requests[0].id.clone()),
            by: None,
        })
        .unwrap();
    assert!(matches!(reply, Reply::Submitted { .. }));
    let names: Vec<_> = host.transcript().into_iter().map(|(who, _)| who).collect();
    assert_eq!(names, ["ana", "bo", "pia"]);
    assert_eq!(read_journal(&host.batches).unwrap(), (host.machine.durable().clone(), host.events));
}

#[test]
fn c34_the_turn_limit_ends_the_run_and_the_next_goes_on() {
    let mut host = Instant::new(config(""), Box::new(|_| speak("x")));
    for _ in 0..3 {
        host.run();
        let revision = host.machine.durable().revision;
        let open = host.machine.durable().open_requests().next().map(|ask| ask.request.clone());
        if let Some(request) = open {
            host.call(Request::Resume {
                request_id: request.id,
                response_id: format!("r{revision}").into(),
                expected_revision: revision,
                response: Response::Input(InputResponse::Said { content: "hi".into() }),
                by: None,
            })
            .unwrap();
        }
    }
    assert_eq!(host.transcript().len(), 9);
    let patch = LimitsPatch { max_turns_per_run: Some(1), ..LimitsPatch::default() };
    let reply = host.call(Request::Run { limits: Some(patch) }).unwrap();
    assert!(matches!(reply, Reply::Ran { outcome: RunOutcome::Limited { reason: LimitReason::Turns }, .. }));
    assert_eq!(fold(&host), *host.machine.durable());
}

#[test]
fn c16_a_parallel_group_publishes_in_selection_order_in_few_appends() {
    let mut host =
        Instant::new(config(HOST_SELECTOR), Box::new(|turn| speak(&format!("sees {}", turn.messages.len()))));
    let parallel = Selection::Parallel { participant_ids: ["bo".into(), "ana".into()].into() };
    host.decisions.extend([parallel.clone(), parallel]);
    let Reply::Ran { outcome, .. } = host.run() else { panic!() };
    assert_eq!(outcome, RunOutcome::Limited { reason: LimitReason::Turns });
    let say = |who: &str, what: &str| (who.to_owned(), what.to_owned());
    assert_eq!(
        host.transcript(),
        [say("bo", "sees 0"), say("ana", "sees 0"), say("bo", "sees 1"), say("ana", "sees 1")]
    );
    assert_eq!(fold(&host), *host.machine.durable());
}

#[test]
fn c26_a_member_parks_and_continues_with_all_answers() {
    let mut asked = false;
    let mut host = Instant::new(
        config(HOST_SELECTOR),
        Box::new(move |_| {
            if std::mem::replace(&mut asked, true) {
                return speak("thanks");
            }
            let request = ParticipantRequest {
                id: "q1".into(),
                reason: "need".into(),
                kind: RequestKind::Input,
                participant_id: Some("pia".into()),
                data: None,
            };
            Ok(Outcome::Wait { requests: vec![request] })
        }),
    );
    host.traits.can_checkpoint = true;
    host.decisions.push_back(Selection::Speak { participant_id: "ana".into() });
    let Reply::Ran { outcome, requests, revision } = host.run() else { panic!() };
    assert_eq!((outcome, requests.len()), (RunOutcome::Waiting, 1));
    let answer = |id: &str| Request::Resume {
        request_id: "q1".into(),
        response_id: id.into(),
        expected_revision: revision,
        response: Response::Input(InputResponse::Said { content: "here".into() }),
        by: Some("desk".into()),
    };
    let receipt = host.call(answer("a1")).unwrap();
    assert_eq!(host.call(answer("a1")).unwrap(), receipt);
    assert_eq!(host.call(answer("a2")).unwrap_err().code, Code::Conflict);
    let Reply::Ran { outcome, .. } = host.run() else { panic!() };
    assert_eq!(outcome, RunOutcome::Completed { reason: "done".into() });
    let texts: Vec<_> = host.transcript().into_iter().map(|(who, what)| format!("{who}: {what}")).collect();
    assert_eq!(texts, ["pia: here", "ana: thanks"]);
    assert_eq!(read_journal(&host.batches).unwrap(), (host.machine.durable().clone(), host.events));
}
