//! One text for each entry, nothing that could not have happened, and no panic on any input.

use super::support::{Answer, MINUTE, START, Table, command, created};
use agent_roundtable::deliberation::creation::Origin;
use agent_roundtable::deliberation::wire::{Chore, Session, open, plan, query};
use agent_roundtable::deliberation::{Entry, State};
use agent_roundtable::record::codec::{decode_as, encode, seal};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// A journal with every kind of entry but those that close.
fn open_journal() -> Table {
    let mut table = Table::new(r#","timeoutMinutes":60,"reminderMinutes":10,"quorum":1,"idempotencyKey":"k""#);
    table.ask("speak", "ana", r#","message":"hello","idempotencyKey":"one""#);
    table.ask("speak", "fac", r#","message":"two\nlines \u0000""#);
    table.ask("position", "ana", r#","stance":"against","note":"costly""#);
    table.ask("handOver", "fac", r#","to":"bo""#);
    table.ask("decline", "fac", r#","note":"busy""#);
    table.ask("extend", "bo", r#","minutes":30"#);
    table.now += 51.0 * MINUTE;
    let swept = Answer::of(&table.session.chore(Chore::Sweep, table.now));
    table.land(swept);
    let done = Answer::of(&table.session.chore(Chore::Settle(&[1, 3]), table.now));
    table.land(done);
    table
}

/// The three journals that it may become.
static JOURNALS: LazyLock<Vec<Vec<String>>> = LazyLock::new(journals);

fn journals() -> Vec<Vec<String>> {
    let mut resolved = open_journal();
    resolved.ask("resolve", "bo", r#","outcome":"O","decision":"approved","note":"n""#);
    let mut closed = open_journal();
    closed.ask("close", "bo", r#","reason":"moot""#);
    let mut expired = open_journal();
    expired.now = START + 91.0 * MINUTE;
    let swept = Answer::of(&expired.session.chore(Chore::Sweep, expired.now));
    expired.land(swept);
    vec![resolved.lines, closed.lines, expired.lines]
}

fn load(lines: &[String]) -> Result<Session, String> {
    Session::load(lines.iter().map(String::as_str))
}

#[test]
fn d30_every_line_is_the_one_text_of_its_entry() {
    let kinds: BTreeSet<String> = journals()
        .into_iter()
        .flatten()
        .map(|line| {
            let entry: Entry = decode_as(&line).unwrap();
            assert_eq!(encode(&entry).unwrap(), line);
            assert!(decode_as::<Entry>(&format!(" {line}")).is_err());
            assert!(decode_as::<Entry>(&line.replacen("/1\":", "/2\":", 1)).is_err());
            let text = format!("{}}}", line.rsplit_once(",\"sum\":").unwrap().0);
            assert!(decode_as::<Entry>(&text).is_err(), "a line has a sum");
            for (from, to) in [("/1\":{", "/1\":{\"more\":1,"), ("\"at\":\"", "\"at\":\"x"), ("/1\":", "/2\":")] {
                assert!(decode_as::<Entry>(&seal(text.replacen(from, to, 1))).is_err(), "{text}");
            }
            line.split('"').nth(1).unwrap().to_owned()
        })
        .collect();
    assert_eq!(kinds.len(), 11, "{kinds:?}");
}

#[test]
fn d30_a_journal_folds_into_what_was_decided_entry_by_entry() {
    for lines in JOURNALS.iter() {
        let whole = load(lines).unwrap();
        let mut stepped = load(&lines[..1]).unwrap();
        for line in &lines[1..] {
            stepped.follow(line).unwrap();
        }
        assert_eq!(whole.state(), stepped.state());
    }
}

#[test]
fn d30_a_line_left_out_repeated_or_swapped_is_noticed() {
    // Positions and settled items are the only entries that another order or number of may tell as well.
    for lines in JOURNALS.iter() {
        for at in 0..lines.len() {
            let mut repeated = lines.clone();
            repeated.insert(at, lines[at].clone());
            let is_idempotent = lines[at].contains("positioned/1");
            assert_eq!(load(&repeated).is_err(), !is_idempotent, "{}", lines[at]);
        }
        let spoken: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].contains("spoke/1")).collect();
        let mut without = lines.clone();
        without.remove(spoken[0]);
        assert!(load(&without).is_err(), "the hash chain holds the thread together");
        let mut swapped = lines.clone();
        swapped.swap(spoken[0], spoken[1]);
        assert!(load(&swapped).is_err());
    }
}

#[test]
fn d30_a_changed_thread_is_refused() {
    let lines = open_journal().lines;
    let line = lines.iter().find(|line| line.contains("hello")).unwrap();
    let entry: Entry = decode_as(line).unwrap();
    let Entry::Spoke { at, id, from, key, hash, .. } = entry else { panic!("{line}") };
    let forged = Entry::Spoke { at, id, from, message: "hullo".into(), key, hash };
    let mut changed = lines.clone();
    let place = lines.iter().position(|one| one == line).unwrap();
    changed[place] = encode(&forged).unwrap();
    assert!(load(&changed).is_err_and(|error| error.contains("hash")));
}

#[test]
fn d17_at_the_deadline_there_is_time_and_a_millisecond_later_there_is_none() {
    let mut table = Table::new("");
    table.now = START + 30.0 * MINUTE;
    assert_eq!(table.ask("speak", "ana", r#","message":"m""#).refusal(), None);
    table.now += 1.0;
    let late = table.ask("speak", "ana", r#","message":"m""#);
    assert_eq!(late.refusal().as_deref(), Some("conflict SPEAK_FAILED"));
    assert_eq!(late.lines().len(), 1, "the deadline is noted by whoever meets it");
    assert!(table.session.chore(Chore::Sweep, table.now).contains("\"entries\":[]"));
}

#[test]
fn d17_a_clock_that_goes_back_makes_no_older_entry() {
    let mut table = Table::new("");
    table.now += MINUTE;
    table.ask("speak", "ana", r#","message":"m""#);
    for now in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
        table.now = now;
        assert_eq!(table.ask("speak", "ana", r#","message":"m""#).refusal(), None, "{now}");
    }
    for now in [f64::INFINITY, 8.64e15, 1e300] {
        table.now = now;
        let late = table.ask("get", "ana", "");
        assert_eq!(late.refusal(), None);
        load(&table.lines).unwrap();
    }
}

#[test]
fn d15_the_201st_entry_is_refused_by_the_decision_and_by_the_fold() {
    let mut table = Table::new("");
    for _ in 0..200 {
        assert_eq!(table.ask("speak", "ana", r#","message":"m""#).refusal(), None);
    }
    assert_eq!(table.ask("speak", "ana", r#","message":"m""#).refusal().as_deref(), Some("conflict SPEAK_FAILED"));
    assert_eq!(table.session.state().thread_length(), 200);
    // Four thousand owed notices, and all of them are done at once.
    let items: Vec<u64> = table.session.state().owed().iter().map(|item| item.number).collect();
    assert_eq!(items.len(), 3 + 400);
    let done = Answer::of(&table.session.chore(Chore::Settle(&items), table.now));
    table.land(done);
    assert!(table.session.state().owed().is_empty());
    load(&table.lines).unwrap();
}

#[test]
fn d12_ids_of_keyed_sessions_are_the_same_on_every_host_and_others_differ() {
    let id = |seed, counter, more: &str| {
        let input = format!(r#"{{"caller":"fac","topic":"T","goal":"G","participants":["ana"]{more}}}"#);
        Answer::of(&plan(&input, seed, counter)).0.get("id").unwrap().as_str().unwrap().to_owned()
    };
    let key = r#","idempotencyKey":"k""#;
    assert_eq!(id("a", 0, key), id("b", 7, key));
    let all: BTreeSet<String> =
        [id("a", 0, ""), id("a", 1, ""), id("b", 0, ""), id("a", 0, key), id("a", 0, r#","idempotencyKey":"l""#)]
            .into();
    assert_eq!(all.len(), 5);
}

fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("-1".to_owned()),
        Just("1.5".to_owned()),
        Just("1e300".to_owned()),
        Just("3".to_owned()),
        Just("\"\"".to_owned()),
        Just("\"ana\"".to_owned()),
        Just("\"fac\"".to_owned()),
        Just("\"for\"".to_owned()),
        Just("\"approved\"".to_owned()),
        Just("\" \\u0000 \"".to_owned()),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop::collection::vec(inner, 0..3).prop_map(|items| format!("[{}]", items.join(",")))
    })
}

fn any_command() -> impl Strategy<Value = String> {
    let kinds = ["get", "speak", "position", "decline", "handOver", "extend", "resolve", "close", "nothing"];
    let names = [
        "message",
        "idempotencyKey",
        "stance",
        "note",
        "to",
        "minutes",
        "outcome",
        "decision",
        "reason",
        "since",
        "expectedVersion",
        "maxEntriesPerSpeaker",
        "maxThreadBytes",
    ];
    let members = prop::collection::btree_map(prop::sample::select(names.to_vec()), any_json(), 0..names.len());
    let caller = prop::sample::select(vec!["fac", "ana", "bo", "eve", "", " ana"]);
    (prop::sample::select(kinds.to_vec()), caller, members).prop_map(|(kind, caller, members)| {
        let members: String = members.iter().map(|(name, value)| format!(",\"{name}\":{value}")).collect();
        command(kind, caller, &members)
    })
}

proptest! {
    /// Whatever is asked, what is decided folds, and the whole journal does again.
    #[test]
    fn d30_any_commands_leave_a_journal_that_folds(commands in prop::collection::vec((any_command(), 0_u32..20), 0..40)) {
        let mut table = Table::new(r#","timeoutMinutes":60,"reminderMinutes":10"#);
        for (command, minutes) in commands {
            table.now += f64::from(minutes) * MINUTE / 4.0;
            let answer = Answer::of(&table.session.decide(&command, table.now));
            table.land(answer);
            let swept = Answer::of(&table.session.chore(Chore::Sweep, table.now));
            table.land(swept);
        }
        let again = load(&table.lines).unwrap();
        prop_assert_eq!(again.state(), table.session.state());
    }

    #[test]
    fn d30_no_text_makes_it_panic(text in ".{0,200}", json in any_json(), now in any::<f64>()) {
        for input in [text.as_str(), json.as_str()] {
            let _ = (plan(input, input, 0), query(input), Session::load([input]));
            let _ = open(input, &[true], Origin { seed: input, counter: u64::MAX, now });
            let _ = open(r#"{"caller":"f","topic":"T","goal":"G","participants":["a"]}"#, &[true], Origin { seed: "", counter: 0, now });
            let mut session = load(&created("s", "")).unwrap();
            let _ = (session.decide(input, now), session.follow(input), session.chore(Chore::Settle(&[0, 9, 1]), now));
            let _ = session.work(0..u64::MAX, now, 10, now);
        }
    }

    /// A line with any change is refused, or says the same.
    #[test]
    fn d30_no_change_of_a_line_makes_it_panic(place in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), put in ".{0,3}") {
        let lines = &JOURNALS[0];
        let line_at = place.index(lines.len());
        let mut changed = lines.clone();
        let mut chars: Vec<char> = lines[line_at].chars().collect();
        let from = at.index(chars.len());
        chars.splice(from..(from + 1).min(chars.len()), put.chars());
        changed[line_at] = chars.into_iter().collect();
        let _ = load(&changed);
        let entry = decode_as::<Entry>(&changed[line_at]);
        if let Ok(entry) = entry {
            let _ = State::begin(entry);
        }
    }
}
