//! A process that dies between any two steps of the store, and another that goes on.

use crate::support::*;
use agent_roundtable::conversation::error::{Code, StoreFailure};
use agent_roundtable::record::usage::ModelCall;
use agent_roundtable::team::machine::{Input, Request, Resume};
use agent_roundtable::team::outcome::Outcome;
use agent_roundtable::team::turns::{Returned, Run};
use std::panic::AssertUnwindSafe;

/// What a member says depends on its input alone, so that every way to the end says the same.
fn member(run: &Run) -> Returned {
    let count = run.input.matches("\"id\":").count();
    match &*run.position {
        "team/a/1" => posts("a1", &["room|ask b|b", "side|ask c|c"]),
        "team/b/1" => posts(&format!("b1 saw {count}"), &["room|to a|a"]),
        "team/c/1" => posts(&format!("c1 saw {count}"), &["side|to a|a"]),
        "team/a/2" => posts(&format!("a2 saw {count}"), &["room|once more|b"]),
        _ => posts(&format!("{} saw {count}", run.position), &[]),
    }
}

fn team(store: &Shared, retry_safe: bool) -> Team {
    let definition = definition(&["a", "-b", "-c"], &["room:a,b", "side:a,c"], 2, 9, 9);
    Team::with(&definition, store, Default::default(), retry_safe)
}

/// Goes on until it is completed, answering that uncertain attempts may be repeated.
fn complete(store: &Shared, retry_safe: bool) -> (Outcome, Vec<String>) {
    let mut team = team(store, retry_safe);
    let mut outcome = team.run(member);
    while let Outcome::Paused { requests, .. } = &outcome {
        assert!(!retry_safe, "what may be repeated is repeated unasked");
        let request_id = Some(requests[0].id.clone());
        team.call(Request::Resume(Resume {
            position: None,
            request_id,
            response_id: None,
            response: None,
            expected_revision: None,
            by: None,
        }));
        outcome = team.finish(member);
    }
    (outcome, team.called.iter().map(|(position, _)| position.clone()).collect())
}

#[test]
fn t21_after_a_crash_between_any_two_steps_only_the_remaining_turns_run() {
    let whole = Shared::default();
    let (expected, order) = complete(&whole, true);
    for retry_safe in [true, false] {
        for done_and_lost in [false, true] {
            for fuse in 1.. {
                let store = Shared::default();
                store.borrow_mut().fuse = Some(fuse);
                store.borrow_mut().done_and_lost = done_and_lost;
                let mut dying = team(&store, retry_safe);
                // A handle whose store is silent never replies.
                let ended = std::panic::catch_unwind(AssertUnwindSafe(|| dying.run(member))).is_ok();
                let saved = dying.events().len();
                store.borrow_mut().fuse = None;
                store.borrow_mut().held = false;
                let completed: Vec<String> = completed(&dying);
                let (outcome, called) = complete(&store, retry_safe);
                assert_eq!(outcome, expected, "fuse {fuse}");
                assert!(called.iter().all(|position| !completed.contains(position)), "fuse {fuse}: {called:?}");
                assert_eq!(completed.len() + called.len(), order.len(), "fuse {fuse}: each turn once more at most");
                if ended {
                    assert_eq!(team(&store, retry_safe).events().len(), saved, "nothing is added to an ended run");
                    break;
                }
                let (left, right) = (messages(&store), messages(&whole));
                assert_eq!(left, right, "fuse {fuse}: equal messages, ids and order");
            }
        }
    }
}

fn completed(team: &Team) -> Vec<String> {
    let positions = team.events().into_iter().filter_map(|event| match event {
        agent_roundtable::team::Event::Completed(completed) => Some(completed.position.to_string()),
        _ => None,
    });
    positions.collect()
}

fn messages(store: &Shared) -> Vec<String> {
    let (state, _) = agent_roundtable::team::fold::fold(&store.borrow().batches).unwrap();
    state.messages.iter().map(|message| format!("{} {}", message.id, message.text)).collect()
}

#[test]
fn t21_an_uncertain_attempt_is_not_repeated_unasked() {
    let store = Shared::default();
    team(&store, false).call(Request::Run);
    store.borrow_mut().held = false;
    let mut second = team(&store, false);
    let Outcome::Paused { requests, .. } = second.run(member) else { panic!() };
    assert!(second.called.is_empty());
    assert_eq!(requests[0].kind, agent_roundtable::record::model::RequestKind::Reconciliation);
    assert_eq!(&*requests[0].turn_id, "team/a/1");
}

#[test]
fn f_a_rival_that_takes_the_claim_stops_the_first_owner() {
    let store = Shared::default();
    let mut first = team(&store, true);
    first.call(Request::Run);
    store.borrow_mut().held = false;
    complete(&store, true);
    first.answer(posts("late", &[]));
    let error = first.reply().unwrap_err();
    assert!(format!("{error:?}").contains("StaleClaim"), "{error:?}");
    let batches = store.borrow().batches.len();
    assert!(matches!(first.run(member), Outcome::Completed { .. }), "it reads what the other wrote");
    assert_eq!(store.borrow().batches.len(), batches);
}

#[test]
fn f_a_question_that_was_refused_on_its_way_is_not_answered_again() {
    let store = Shared::default();
    let mut team = team(&store, true);
    team.call(Request::Run);
    let call = ModelCall { call_id: "c".into(), provider_id: "p".into(), model_id: "m".into() };
    let attempt = team.runs[0].attempt.clone();
    store.borrow_mut().fuse = Some(0);
    team.input(Input::Admit { ticket: 7, attempt, call });
    assert_eq!(team.answers, [], "its append is under way");
    let lost = StoreFailure { code: Some(Code::StaleClaim), message: "lost".into(), value: None };
    team.input(Input::Renewed { fence: 1, result: Err(lost) });
    assert_eq!(team.answers, [(7, false)]);
    let revision = team.machine.revision() + 1;
    team.input(Input::Appended(Ok(revision)));
    assert_eq!((team.machine.revision(), &team.answers[..]), (revision, &[(7, false)][..]));
}
