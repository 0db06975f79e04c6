//! The journal's text and its fold: one text for each entry, and nothing that could not have happened.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use agent_roundtable::conversation::Input;
use agent_roundtable::conversation::effect::Reply;
use agent_roundtable::conversation::error::Thrown;
use agent_roundtable::conversation::input::{Batch, Request};
use agent_roundtable::record::codec::{decode, encode, seal};
use agent_roundtable::record::entry::{Entry, RunEnded};
use agent_roundtable::record::model::{
    InputResponse, Outcome, ParticipantRequest, RequestKind, Response, RunOutcome, Selection,
};
use agent_roundtable::record::reading::RecordError;
use agent_roundtable::record::snapshot;
use agent_roundtable::record::state::State;
use agent_roundtable::record::usage::{CallOutcome, ModelCall, Provenance, Tokens, UsageReport};
use agent_roundtable::value::Json;
use proptest::prelude::*;
use std::collections::BTreeSet;
use support::{Instant, config, mutations, read_journal, speak};

/// A journal with a group, a wait, an answer, unprompted input, a withdrawal and a failure.
fn journal() -> Vec<Batch> {
    let mut turns = 0;
    let mut host = Instant::new(
        config(r#","purpose":"agree","selector":{"reference":{"id":"sel","version":"1"}}"#),
        Box::new(move |_| {
            turns += 1;
            let ask = |id: &str, kind, person: Option<&str>| ParticipantRequest {
                id: id.into(),
                reason: "why".into(),
                kind,
                participant_id: person.map(Into::into),
                data: person
                    .is_none()
                    .then(|| agent_roundtable::value::CanonicalJson::parse("{\"a\":[1,null]}").unwrap()),
            };
            match turns {
                1 | 2 => speak("hello"),
                3 => Ok(Outcome::Wait {
                    requests: vec![ask("q1", RequestKind::Input, Some("pia")), ask("q2", RequestKind::Approval, None)],
                }),
                4 => Ok(Outcome::Yield),
                5 => Err(Thrown {
                    message: "broke".into(),
                    code: None,
                    value: None,
                    is_abort: false,
                    is_refused_admission: false,
                }),
                _ => speak("more"),
            }
        }),
    );
    host.traits.can_checkpoint = true;
    let speak_of = |who: &str| Selection::Speak { participant_id: who.into() };
    host.decisions.extend([
        Selection::Parallel { participant_ids: ["ana".into(), "bo".into()].into() },
        speak_of("ana"),
        Selection::Wait { participant_id: "pia".into(), reason: "your view".into() },
    ]);
    let Reply::Ran { revision, .. } = host.run() else { panic!() };
    let resume = |host: &mut Instant, request: &str, response| {
        let (request_id, response_id) = (request.into(), format!("a-{request}").into());
        host.call(Request::Resume { request_id, response_id, expected_revision: revision, response, by: None })
            .unwrap();
    };
    resume(&mut host, "q1", Response::Input(InputResponse::Said { content: "yes\u{2028}".into() }));
    resume(&mut host, "q2", Response::Approval { approved: true, reason: Some("fine".into()) });
    let Reply::Ran { requests, revision, .. } = host.run() else { panic!() };
    let request_id = requests[0].id.clone();
    let (by, reason) = ("desk".into(), "away".into());
    host.call(Request::Withdraw { request_id, expected_revision: revision, by, reason }).unwrap();
    host.call(Request::SubmitInput {
        participant_id: "pia".into(),
        input_id: "i".into(),
        expected_revision: host.machine.durable().revision,
        content: "by the way".into(),
        reply_to: None,
        by: None,
    })
    .unwrap();
    host.decisions.push_back(speak_of("bo"));
    host.run();
    host.batches
}

fn fold(batches: &[Batch]) -> Result<State, RecordError> {
    read_journal(batches).map(|(state, _)| state)
}

#[test]
fn c43_two_folds_of_the_same_bytes_are_equal() {
    let batches = journal();
    assert_eq!(fold(&batches).unwrap(), fold(&batches).unwrap());
}

#[test]
fn c53_what_is_saved_is_restored_at_every_revision() {
    let batches = journal();
    for revision in 1..=batches.len() {
        let state = fold(&batches[..revision]).unwrap();
        let saved = snapshot::encode(&state).unwrap();
        let mut restored = snapshot::decode(&saved).unwrap();
        for _ in 0..3 {
            assert_eq!(restored, state, "revision {revision}");
            let again = snapshot::encode(&restored).unwrap();
            assert_eq!(again, saved, "revision {revision}");
            restored = snapshot::decode(&again).unwrap();
        }
    }
}

/// The text of an entry; sealed again when it is changed, it is read as strictly as shapes and the fold are.
fn unsealed(line: &str) -> String {
    format!("{}}}", line.rsplit_once(",\"sum\":").unwrap().0)
}

#[test]
fn c43_every_line_is_the_one_text_of_its_entry() {
    for line in journal().iter().flat_map(|b| &b.entries) {
        assert_eq!(encode(&decode(line).unwrap()).unwrap(), *line);
        assert_eq!(seal(unsealed(line)), *line);
        assert!(decode(&unsealed(line)).is_err());
        assert!(decode(&format!(" {line}")).is_err());
        assert!(decode(&line.replace("/1\":", "/2\":")).is_err());
        assert!(decode(&line.replacen(':', ": ", 1)).is_err());
    }
}

#[test]
fn c43_a_changed_member_is_refused_or_changes_nothing() {
    let batches = journal();
    let original = fold(&batches).unwrap();
    let (mut refused, mut equal, mut free) = (0, 0, 0);
    for (b, batch) in batches.iter().enumerate() {
        for (e, line) in batch.entries.iter().enumerate() {
            let line = &unsealed(line);
            for (member, mutated) in mutations(&Json::parse(line).unwrap()) {
                if mutated == *line {
                    continue;
                }
                let mut changed = batches.clone();
                changed[b].entries[e] = seal(mutated.clone());
                match fold(&changed) {
                    Err(_) => refused += 1,
                    Ok(state) if state == original => equal += 1,
                    Ok(_) => {
                        assert!(FREE.contains(&&*member), "accepted: {mutated}\n    was: {line}");
                        free += 1;
                    }
                }
            }
        }
    }
    println!("{refused} refused, {equal} equal, {free} of what a host may say freely");
    assert!(refused > 500, "{refused}");
}

/// Members the fold cannot know to be wrong: opaque data, and what a host may leave unsaid.
const FREE: [&str; 8] = ["data", "a", "reason", "purpose", "checkpoint", "reference", "limits", "by"];

#[test]
fn c43_an_entry_twice_missing_or_out_of_place_is_refused() {
    let batches = journal();
    let original = fold(&batches).unwrap();
    for (b, batch) in batches.iter().enumerate() {
        for e in 0..batch.entries.len() {
            let mut twice = batches.clone();
            let line = twice[b].entries[e].clone();
            twice[b].entries.insert(e, line.clone());
            assert!(fold(&twice).is_err(), "twice: {line}");
            let mut missing = batches.clone();
            missing[b].entries.remove(e);
            if let Ok(state) = fold(&missing) {
                // The last entries of a journal may be missing: that is an earlier state.
                assert!(state.entries < original.entries);
            }
        }
    }
}

#[test]
fn c43_a_refused_entry_is_named_by_its_index() {
    let mut batches = journal();
    let at = batches[0].entries.len() + batches[1].entries.len();
    batches[2].entries.insert(0, "{\"unheard/1\":{}}".to_owned());
    let error = fold(&batches).unwrap_err();
    assert_eq!(error.index, at as u64);
    assert!(error.to_string().starts_with(&format!("entry {at} ")), "{error}");
}

#[test]
fn c54_no_event_holds_a_checkpoint_or_an_unpublished_word() {
    let events = serde_json::to_string(&read_journal(&journal()).unwrap().1).unwrap();
    assert!(!events.contains("checkpoint") && events.contains("hello"));
}

#[test]
fn c42_counters_are_state_not_a_scan() {
    let mut host = Instant::new(config(r#","selector":{"modelCalls":"metered"}"#), Box::new(|_| speak("x")));
    host.decisions.push_back(Selection::Speak { participant_id: "ana".into() });
    host.run();
    let attempt = host.machine.durable().ledger.attempts.keys().next().cloned().unwrap();
    let call = ModelCall { call_id: "m".into(), provider_id: "p".into(), model_id: "m".into() };
    host.input(Input::AdmissionAsked { ticket: 1, attempt: attempt.clone(), call });
    assert!(host.answers[&1].is_err(), "an attempt that is over is admitted nothing");
    let report = UsageReport {
        call_id: "m".into(),
        outcome: CallOutcome::CacheHit,
        provenance: Provenance::Reported,
        tokens: Some(Tokens { input: Some(3), ..Tokens::default() }),
        raw: None,
        r#final: true,
        provider_id: Some("p".into()),
        model_id: Some("m".into()),
    };
    host.input(Input::UsageReported { ticket: 2, attempt, report });
    assert_eq!(host.answers[&2], Ok(()));
    let state = host.machine.durable();
    assert_eq!((state.ledger.calls, state.ledger.order.len()), (0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100_000, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn c43_no_bytes_make_the_decoder_or_the_fold_panic(at in any::<u16>(), flips in prop::collection::vec((any::<u16>(), any::<u8>()), 1..6)) {
        thread_local!(static JOURNAL: Vec<Batch> = journal());
        JOURNAL.with(|batches| {
            let b = usize::from(at) % batches.len();
            let e = usize::from(at) / batches.len() % batches[b].entries.len();
            let mut bytes = unsealed(&batches[b].entries[e]).into_bytes();
            for (at, byte) in flips {
                let at = usize::from(at) % bytes.len();
                bytes[at] = byte;
            }
            let Some(line) = String::from_utf8(bytes).ok().map(seal) else { return };
            if decode(&line).is_ok() {
                let mut changed = batches.clone();
                changed[b].entries[e] = line;
                let _ = fold(&changed);
            }
        });
    }
}

#[test]
fn c51_ids_are_unique_and_repeat_for_the_same_seed() {
    let ids = |batches: Vec<Batch>| fold(&batches).unwrap().messages.iter().map(|m| m.id.clone()).collect::<Vec<_>>();
    let first = ids(journal());
    assert_eq!(first, ids(journal()));
    assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), first.len());
}

#[test]
fn c43_no_selector_is_asked_while_a_decision_or_a_group_waits() {
    let batches = journal();
    let lines = batches.iter().flat_map(|batch| batch.entries.iter().map(|line| (batch.revision, line)));
    let lines: Vec<_> = lines.map(|(revision, line)| (revision, decode(line).unwrap())).collect();
    let Entry::Created(created) = &lines[0].1 else { panic!() };
    let mut state = State::create(created.clone()).unwrap();
    let mut refused = 0;
    for (index, (revision, entry)) in lines.iter().enumerate().skip(1) {
        state.apply(entry, *revision).unwrap();
        let selecting = format!(r#"{{"selecting/1":{{"attemptId":"again-{index}","at":"2027-01-01T00:00:00.000Z"}}}}"#);
        let again = state.clone().apply(&decode(&seal(selecting)).unwrap(), *revision);
        if state.decision.is_some() || state.group.is_some() || state.selecting.is_some() {
            assert!(again.is_err(), "after {entry:?}");
            refused += 1;
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn c43_no_run_ends_waiting_for_nobody() {
    let batches = journal();
    let mut lines = batches.iter().flat_map(|batch| batch.entries.iter().map(|line| decode(line).unwrap()));
    let Some(Entry::Created(created)) = lines.next() else { panic!() };
    let mut state = State::create(created).unwrap();
    let started = lines.find(|entry| matches!(entry, Entry::RunStarted(_))).unwrap();
    state.apply(&started, 2).unwrap();
    let Entry::RunStarted(run) = started else { panic!() };
    let ended = |outcome| Entry::RunEnded(RunEnded { run_id: run.run_id.clone(), at: run.at.clone(), outcome });
    assert!(state.clone().apply(&ended(RunOutcome::Waiting), 3).unwrap_err().contains("nothing is waited for"));
    state.apply(&ended(RunOutcome::Cancelled), 3).unwrap();
}
