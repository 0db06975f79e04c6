//! Forks: what their first batch holds, and that the fold takes nothing else for one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use agent_roundtable::conversation::input::Batch;
use agent_roundtable::record::codec::{MAX_ENTRY_LEN, decode, encode, seal};
use agent_roundtable::record::entry::Entry;
use agent_roundtable::record::fork;
use agent_roundtable::record::ids::IdSource;
use agent_roundtable::record::model::{Checkpoint, Outcome, ParticipantRequest, RequestKind, Selection};
use agent_roundtable::record::reading::RecordError;
use agent_roundtable::record::state::{Ledger, Member, State};
use agent_roundtable::value::{CanonicalJson, Json};
use std::collections::BTreeSet;
use std::rc::Rc;
use support::{Instant, config, mutations, read_journal, said, speak};

const AT: &str = "2027-02-01T00:00:00.000Z";

/// A parallel group, a wait whose private reply is published with the group, unprompted input, and an end.
fn journal() -> Vec<Batch> {
    let mut turns = 0;
    let mut host = Instant::new(
        config(r#","purpose":"agree","selector":{"reference":{"id":"sel","version":"1"}}"#),
        Box::new(move |_| {
            turns += 1;
            let asked = ParticipantRequest {
                id: "q".into(),
                reason: "why".into(),
                kind: RequestKind::Input,
                participant_id: Some("pia".into()),
                data: None,
            };
            match turns {
                3 => Ok(Outcome::Wait { requests: vec![asked] }),
                5 => Ok(Outcome::Yield),
                _ => speak("hello"),
            }
        }),
    );
    host.traits.can_checkpoint = true;
    let speak_of = |who: &str| Selection::Speak { participant_id: who.into() };
    host.decisions.extend([
        Selection::Parallel { participant_ids: ["ana".into(), "bo".into()].into() },
        speak_of("ana"),
        speak_of("bo"),
        Selection::Finish { reason: "done".into() },
    ]);
    host.run();
    host.resume("q", "a", said("secretly"), host.revision()).unwrap();
    host.run();
    host.batches
}

fn fold(batches: &[Batch]) -> Result<State, RecordError> {
    read_journal(batches).map(|(state, _)| state)
}

fn read(lines: &[String]) -> Result<State, RecordError> {
    fold(&[Batch { revision: 1, operation_id: "create".into(), entries: lines.to_vec() }])
}

fn forked(state: &State, id: &str) -> Vec<String> {
    fork::lines(state, id.into(), AT.into()).unwrap()
}

/// The whole conversation, which has ended.
fn ended() -> State {
    fold(&journal()).unwrap()
}

#[test]
fn c52a_a_fork_has_what_was_published_and_everybodys_private_state_and_nothing_else() {
    let batches = journal();
    let mut tried = 0;
    for revision in 1..=batches.len() {
        let origin = fold(&batches[..revision]).unwrap();
        if origin.group.is_some() {
            let refusal = fork::lines(&origin, "f".into(), AT.into()).unwrap_err();
            assert!(refusal.contains(&format!("revision {revision}")), "{refusal}");
            continue;
        }
        tried += 1;
        let fork = read(&forked(&origin, "f")).unwrap();
        let unrevised = |state: &State| {
            let plain = |m: &Rc<_>| {
                let message: &agent_roundtable::record::model::Message = m;
                let mut message = message.clone();
                message.revision = 0;
                message
            };
            state.messages.iter().map(plain).collect::<Vec<_>>()
        };
        assert_eq!(unrevised(&fork), unrevised(&origin));
        assert!(fork.messages.iter().all(|m| m.revision == 1));
        assert_eq!(fork.consumed_by, origin.consumed_by);
        assert_eq!(fork.turns, origin.turns);
        let copied = |m: &Member| Member { calls: 0, ..m.clone() };
        assert_eq!(fork.members, origin.members.iter().map(copied).collect::<Vec<_>>());
        assert_eq!(fork.selector_checkpoint, origin.selector_checkpoint);
        assert_eq!((&fork.decision, fork.decisions), (&origin.decision, origin.decisions));
        let told = fork.created.origin.as_ref().unwrap();
        assert_eq!((&*told.conversation_id, told.revision), ("c", origin.revision));
        // Runs, requests, answers, the ledger and the end stay behind.
        assert!(fork.receipts.is_empty() && fork.run.is_none() && fork.ended.is_none() && fork.group.is_none());
        assert_eq!(fork.ledger, Ledger::default());
        assert_eq!(fork.revision, 1);
        assert_eq!((&*fork.created.conversation_id, &*fork.created.at), ("f", AT));
        assert_eq!(fork.created.purpose, origin.created.purpose);
        assert_eq!(fork.created.participants, origin.created.participants);
    }
    assert!(tried > 3, "{tried}");
    assert!(ended().consumed_by.iter().any(Option::is_some), "a private reply is among the messages");
}

#[test]
fn c52a_the_same_fork_has_the_same_bytes_and_its_ids_are_its_own() {
    let origin = ended();
    assert_eq!(forked(&origin, "f"), forked(&origin, "f"));
    let seed = |lines: Vec<String>| read(&lines).unwrap().created.seed.clone();
    let seeds = [origin.created.seed.clone(), seed(forked(&origin, "f")), seed(forked(&origin, "g"))];
    let ids: BTreeSet<_> = seeds.iter().map(|seed| IdSource::new(seed).derive("turn", 1, 1)).collect();
    assert_eq!(ids.len(), 3);
    let of_fork = read(&forked(&read(&forked(&origin, "f")).unwrap(), "g")).unwrap();
    assert_eq!(&*of_fork.created.origin.as_ref().unwrap().conversation_id, "f");
    assert_eq!(of_fork.turns, origin.turns);
}

#[test]
fn c52a_ids_that_were_copied_are_used() {
    let fork = read(&forked(&ended(), "f")).unwrap();
    for message in &fork.messages {
        assert!([&message.id, &message.turn_id, &message.group_id].iter().all(|id| fork.is_used(id)));
    }
    assert!(fork.turns.iter().all(|turn| fork.is_used(&turn.id) && fork.is_used(&turn.group_id)));
    assert!(!fork.is_used("q"), "a request of the origin is not one of the fork");
}

#[test]
fn c52a_a_long_private_state_is_copied_in_parts() {
    let mut origin = ended();
    let value = |text: &str| CanonicalJson::parse(&format!("\"{text}\"")).unwrap();
    let append = (0..9).map(|n| value(&format!("{n}").repeat(3_900_000))).chain([value("end")]).collect();
    let checkpoint = Checkpoint { version: "v".into(), data: value("head"), append: Some(append) };
    origin.members[0].checkpoint = Some(checkpoint.clone());
    origin.members[1].checkpoint = Some(Checkpoint { append: None, ..checkpoint.clone() });
    let refusal = fork::lines(&origin, "f".into(), AT.into()).unwrap_err();
    assert!(refusal.contains("33554432"), "{refusal}");
    origin.members[0].checkpoint.as_mut().unwrap().append.as_mut().unwrap().drain(..3);
    let lines = forked(&origin, "f");
    assert!(lines.iter().all(|line| line.len() <= MAX_ENTRY_LEN));
    let fork = read(&lines).unwrap();
    assert!(fork.members == origin.members);
}

#[test]
fn c43_a_copy_with_an_entry_missing_repeated_or_moved_is_refused() {
    let lines = forked(&ended(), "f");
    for at in 0..lines.len() {
        let mut missing = lines.clone();
        missing.remove(at);
        read(&missing).unwrap_err();
        let mut twice = lines.clone();
        twice.insert(at, lines[at].clone());
        read(&twice).unwrap_err();
    }
    let selecting = seal(r#"{"run-started/1":{"runId":"r","at":"2027-01-01T00:00:00.000Z"}}"#.to_owned());
    let batch = |revision, entries: Vec<String>| Batch { revision, operation_id: "o".into(), entries };
    let after = fold(&[batch(1, lines.clone()), batch(2, vec![selecting.clone()])]).unwrap();
    assert!(after.run.is_some());
    for at in 1..lines.len() {
        let mut early = lines.clone();
        early.insert(at, selecting.clone());
        read(&early).unwrap_err();
        let mut late = lines.clone();
        let moved = late.split_off(at);
        fold(&[batch(1, late), batch(2, moved)]).unwrap_err();
        // A copy has no place in a conversation that is no fork.
        let mut plain = journal();
        plain[0].entries.push(lines[at].clone());
        fold(&plain).unwrap_err();
    }
}

/// The text of an entry, to be changed and sealed again.
fn unsealed(line: &str) -> String {
    format!("{}}}", line.rsplit_once(",\"sum\":").unwrap().0)
}

/// Members the fold cannot know to be wrong: opaque data, and what may be left unsaid.
const FREE: [&str; 6] = ["data", "checkpoint", "purpose", "reference", "limits", "consumedBy"];

#[test]
fn c43_a_changed_member_of_a_copy_is_refused() {
    let lines = forked(&ended(), "f");
    let original = read(&lines).unwrap();
    let mut refused = 0;
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(encode(&decode(line).unwrap()).unwrap(), *line);
        let body = unsealed(line);
        for (member, mutated) in mutations(&Json::parse(&body).unwrap()) {
            if mutated == body {
                continue;
            }
            let mut changed = lines.clone();
            changed[at] = seal(mutated.clone());
            match read(&changed) {
                Err(error) => {
                    refused += 1;
                    assert!(error.index <= lines.len() as u64);
                }
                Ok(state) if state == original => {}
                // A private state without an owner is the selector's.
                Ok(_) if member == "participantId" && line.starts_with("{\"checkpoint-copied") => {}
                Ok(_) => assert!(FREE.contains(&&*member), "accepted: {mutated}\n    was: {line}"),
            }
        }
    }
    println!("{refused} refused");
    assert!(refused > 500, "{refused}");
}

#[test]
fn c43_an_origin_that_cannot_be_is_refused() {
    let lines = forked(&fold(&journal()[..1]).unwrap(), "f");
    assert_eq!(lines.len(), 1, "nothing was there to copy");
    for (from, to) in [
        (r#""origin":{"conversationId":"c""#, r#""origin":{"conversationId":"f""#),
        (r#""revision":1"#, r#""revision":0"#),
        (r#""entries":0"#, r#""entries":1"#),
        (r#""messages":0"#, r#""messages":1"#),
        (r#"{"cursor":0,"prepared":0}"#, r#"{"cursor":1,"prepared":0}"#),
        (r#"{"cursor":0,"prepared":0}]"#, r#"{"cursor":0,"prepared":1}]"#),
        (r#",{"cursor":0,"prepared":0}]"#, "]"),
        (r#""decisions":0"#, r#""decisions":0,"decision":{"kind":"speak","participantId":"ana"}"#),
        (r#""decisions":0"#, r#""decisions":1,"decision":{"kind":"speak","participantId":"nobody"}"#),
    ] {
        let changed = seal(unsealed(&lines[0]).replacen(from, to, 1));
        assert_ne!(changed, lines[0], "{from}");
        decode(&changed).unwrap();
        read(&[changed]).unwrap_err();
    }
    let Entry::Created(created) = decode(&lines[0]).unwrap() else { panic!() };
    assert!(created.origin.is_some());
}
