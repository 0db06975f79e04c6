//! Sessions: the gate, the waits, and an execution that is rebuilt from any prefix of its records.

use crate::session_host::{Deed, End, RULES, Rig, answer, answer_with, options, policy, quote, replies, reply, text};
use agent_roundtable::runtime::session::permission::{Permissions, Verdict};
use agent_roundtable::value::Json;
use proptest::prelude::*;
use std::collections::HashMap;

/// Two rounds of calls, a call id used again in the second, then words.
fn busy_model(history: &[Json]) -> String {
    match replies(history) {
        0 => reply(
            "",
            &[
                ("t1", "write", r#"{"n":1}"#),
                ("t2", "read", r#"{"n":2}"#),
                ("t3", "write", r#"{"n":3}"#),
                ("t4", "erase", r#"{"n":4}"#),
                ("t5", "ghost", "{}"),
                ("t6", "read", "no json"),
            ],
        ),
        1 => reply("on", &[("t1", "write", r#"{"n":1}"#)]),
        _ => reply("done", &[]),
    }
}

fn waits(end: End) -> Vec<Json> {
    match end {
        End::Wait(requests) => requests,
        other => panic!("it should wait: {other:?}"),
    }
}

fn fails(end: End, code: &str) -> String {
    match end {
        End::Fail(found, message) if found == code => message,
        other => panic!("it should fail with {code}: {other:?}"),
    }
}

fn results(rig: &Rig) -> Vec<(String, String)> {
    let tools = rig.history.iter().filter(|message| text(message, "role") == "tool");
    tools.map(|message| (text(message, "toolCallId"), text(message, "content"))).collect()
}

#[test]
fn a68_siblings_finish_and_each_call_to_be_approved_is_one_request() {
    let mut rig = Rig::new(&options(false), busy_model);
    let requests = waits(rig.start());
    let data = |request: &Json, key: &str| text(request.get("data").unwrap(), key);
    let asked: Vec<_> = requests.iter().map(|r| (data(r, "toolCallId"), data(r, "toolName"))).collect();
    assert_eq!(asked, [("t1".into(), "write".into()), ("t3".into(), "write".into())]);
    assert_eq!(
        requests[0].get("data").unwrap().canonical(),
        concat!(
            r#"{"actionId":"a1:call:1:action:0","arguments":{"n":1},"executionId":"a1","parentCallId":"a1:call:1","#,
            r#""toolCallId":"t1","toolName":"write"}"#
        )
    );
    assert_eq!(rig.deeds.iter().map(|(_, arguments)| arguments.as_str()).collect::<Vec<_>>(), [r#"{"n":2}"#]);
    let kinds: Vec<_> = rig.journal.iter().map(|record| text(record, "kind")).collect();
    assert_eq!(
        kinds,
        [
            "execution-start",
            "model-request",
            "model-response",
            "tool-result", // the unknown tool
            "tool-result", // the malformed arguments
            "tool-result", // the denied call
            "tool-intent",
            "tool-result",
        ]
    );
}

#[test]
fn a69_a70_every_call_has_one_result_and_only_what_was_approved_ran() {
    let mut rig = Rig::new(&options(false), busy_model);
    let requests = waits(rig.start());
    let no = answer_with(&requests[1], r#""approved":false,"reason":"not now""#, "bot", "g", "t");
    let again = waits(rig.resume(&[answer(&requests[0], true), no]));
    assert_eq!(again.len(), 1, "the same call in a later round asks anew");
    assert_ne!(text(&again[0], "id"), text(&requests[0], "id"));
    assert_eq!(rig.resume(&[answer(&again[0], false)]), End::Speak("done".into()));
    let results = results(&rig);
    let ids: Vec<_> = results.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["t1", "t2", "t3", "t4", "t5", "t6", "t1"]);
    let expected = [
        r#"{"did":"t1"}"#,
        r#"{"did":"t2"}"#,
        r#"{"error":{"code":"denied","message":"the call was denied: not now"}}"#,
        r#"{"error":{"code":"denied","message":"the call was denied"}}"#,
    ];
    for (result, expected) in results.iter().zip(expected) {
        assert_eq!(result.1, expected);
    }
    assert!(results[4].1.contains("unknown-tool") && results[5].1.contains("invalid-arguments"));
    assert!(results[6].1.contains("denied"));
    assert_eq!(rig.deeds.len(), 2);
    assert_eq!(rig.agent.pending(), None);
}

#[test]
fn a_partial_answer_runs_what_it_covers_and_waits_for_the_rest() {
    let mut rig = Rig::new(&options(false), busy_model);
    let requests = waits(rig.start());
    assert_eq!(waits(rig.resume(&[])), requests);
    assert_eq!(waits(rig.resume(&[answer(&requests[1], true)])), requests[..1], "the same request, not a new one");
    assert_eq!(rig.deeds.len(), 2);
    assert_eq!(waits(rig.resume(&[answer(&requests[0], true)])).len(), 1);
    assert_eq!(rig.deeds.len(), 3);
}

#[test]
fn k5_an_answer_that_differs_in_any_part_is_refused_and_the_right_one_still_counts() {
    let mut rig = Rig::new(&options(false), busy_model);
    let requests = waits(rig.start());
    let yes = r#""approved":true"#;
    let right = answer(&requests[0], true);
    let other_arguments = right.replace(r#"{"n":1}"#, r#"{"n":9}"#);
    let crossed = right.replace("approval:0", "approval:2");
    for (bad, says) in [
        (answer_with(&requests[0], yes, "other", "g", "t"), "participant"),
        (answer_with(&requests[0], yes, "bot", "g2", "t"), "group"),
        (answer_with(&requests[0], yes, "bot", "g", "t2"), "turn"),
        (right.replace(r#""memberId":"bot""#, r#""memberId":"other""#), "member"),
        (right.replace(r#""kind":"approval","participantId""#, r#""kind":"input","participantId""#), "kind"),
        (right.replace(r#""kind":"approval","approved""#, r#""kind":"input","approved""#), "kind"),
        (right.replace(":approval:0", ":approval:7"), "not waiting"),
        (right.replace(r#""approved":true"#, r#""approved":"yes""#), "yes nor no"),
        (right.replace(r#","data":{"#, r#","dota":{"#), "to what"),
        (right.replace(r#""responseId":"answer to "#, r#""responseId":"","x":""#), "no id"),
        (format!("{right},{right}"), "twice"),
        (other_arguments, "another action"),
        (crossed, "another action"),
        (right.replace(r#""toolName":"write""#, r#""toolName":"read""#), "another action"),
        (right.replace(r#""executionId":"a1""#, r#""executionId":"a2""#), "another action"),
        ("{}".into(), "kind"),
        ("7".into(), "kind"),
    ] {
        let message = fails(rig.resume(std::slice::from_ref(&bad)), "identity-mismatch");
        assert!(message.contains(says), "{message} should name {says}");
    }
    for (member, value) in [("conversationId", "c"), ("participantId", "bot")] {
        let input = concat!(
            r#"{"kind":"resume","conversationId":"c","participantId":"bot","turnId":"t","groupId":"g","#,
            r#""attemptId":"x","records":[],"responses":[],"at":0}"#
        );
        let input = input.replace(&format!(r#""{member}":"{value}""#), &format!(r#""{member}":"else""#));
        fails(rig.run(&input), "identity-mismatch");
    }
    assert_eq!(rig.deeds.len(), 1);
    assert_eq!(waits(rig.resume(&[right, answer(&requests[1], true)])).len(), 1);
}

#[test]
fn a_recorded_answer_repeats_and_is_never_contradicted() {
    let mut rig = Rig::new(&options(false), busy_model);
    let requests = waits(rig.start());
    let checkpoint = rig.checkpoint();
    let yes = [answer(&requests[0], true), answer(&requests[1], false)];
    waits(rig.resume(&yes));
    // The process died before the second wait was saved: the first checkpoint counts.
    let reopen = |rig: &Rig| rig.reopened(&checkpoint, &rig.journal, &rig.deeds);
    let mut same = reopen(&rig);
    assert_eq!(waits(same.resume(&yes)).len(), 1, "the same answers change nothing");
    assert_eq!(same.deeds, rig.deeds);
    assert_eq!(waits(reopen(&rig).resume(&[])).len(), 1, "what was answered is not asked for again");
    let other = [answer(&requests[0], false), answer(&requests[1], false)];
    fails(reopen(&rig).resume(&other), "recovery-conflict");
    let renamed = yes[0].replace("answer to", "a new answer to");
    fails(reopen(&rig).resume(&[renamed]), "recovery-conflict");
    let mut rig = Rig::new(&options(false), busy_model);
    let requests = waits(rig.start());
    let one_id = answer(&requests[1], true).replace(
        &format!("answer to {}", text(&requests[1], "id")),
        &format!("answer to {}", text(&requests[0], "id")),
    );
    fails(rig.resume(&[answer(&requests[0], true), one_id]), "recovery-conflict");
}

#[test]
fn a_later_deny_beats_a_stored_yes_and_nothing_turns_a_no_into_a_yes() {
    for (rules, approved, runs) in [
        (RULES, true, true),
        (r#"{"allow":["*"]}"#, true, true),
        (r#"{"deny":["write"]}"#, true, false),
        (r#"{"allow":["*"]}"#, false, false),
        (r#"{"default":"allow"}"#, false, false),
    ] {
        let mut rig = Rig::new(&options(false), |history| match replies(history) {
            0 => reply("", &[("t", "write", r#"{"n":1}"#)]),
            _ => reply("done", &[]),
        });
        let requests = waits(rig.start());
        let before = rig.asked_policy;
        rig.policy = policy(rules);
        assert_eq!(rig.resume(&[answer(&requests[0], approved)]), End::Speak("done".into()));
        assert_eq!(rig.deeds.len(), usize::from(runs), "{rules} {approved}");
        assert_eq!(rig.asked_policy - before, usize::from(approved), "read once more when an approval returns");
        assert_eq!(results(&rig).len(), 1);
    }
}

#[test]
fn k6_a_session_that_waits_takes_no_other_turn_live_or_restored() {
    let mut rig = Rig::new(&options(false), busy_model);
    waits(rig.start());
    fails(rig.start(), "recovery-required");
    let checkpoint = rig.checkpoint();
    let mut restored = rig.reopened(&checkpoint, &rig.journal, &rig.deeds);
    fails(restored.start(), "recovery-required");
    assert_eq!(restored.journal.len(), rig.journal.len());
}

#[test]
fn earlier_turns_are_in_a_rebuilt_history() {
    let model = |history: &[Json]| match history.len() {
        1 => reply("one", &[]),
        3 => reply("two", &[]),
        5 => reply("", &[("t", "write", r#"{"n":1}"#)]),
        _ => reply("three", &[]),
    };
    let mut rig = Rig::new(&options(false), model);
    assert_eq!((rig.start(), rig.start()), (End::Speak("one".into()), End::Speak("two".into())));
    let settled = Json::parse(&rig.checkpoint()).unwrap();
    let requests = waits(rig.start());
    let parked = Json::parse(&rig.checkpoint()).unwrap();
    assert_eq!(parked.get("append").unwrap().canonical(), "[]", "a receipt holds no history");
    let joined = format!(
        r#"{{"version":"session/1","data":{},"append":{}}}"#,
        parked.get("data").unwrap().canonical(),
        settled.get("append").unwrap().canonical()
    );
    let mut restored = rig.reopened(&joined, &rig.journal, &[]);
    assert_eq!(restored.resume(&[answer(&requests[0], true)]), End::Speak("three".into()));
    assert_eq!(restored.history.len(), 8);
    assert_eq!(restored.history[..4], rig.history[..4]);
    let appended = Json::parse(&restored.checkpoint()).unwrap();
    let Some(Json::Array(appended)) = appended.get("append").cloned() else { panic!() };
    assert_eq!(appended.len(), 4, "the turn that waited is saved once, whole");
}

#[test]
fn requests_beyond_one_wait_are_asked_after_it() {
    let mut rig = Rig::new(&options(false), |history| match replies(history) {
        0 => {
            let ids: Vec<String> = (0..100).map(|i| format!("t{i}")).collect();
            let calls: Vec<_> = ids.iter().map(|id| (id.as_str(), "write", r#"{"n":1}"#)).collect();
            reply("", &calls)
        }
        _ => reply("done", &[]),
    });
    let first = waits(rig.start());
    assert_eq!(first.len(), 64);
    let yes = |requests: &[Json]| requests.iter().map(|r| answer(r, true)).collect::<Vec<_>>();
    let second = waits(rig.resume(&yes(&first)));
    assert_eq!(second.len(), 36);
    assert_eq!(rig.resume(&yes(&second)), End::Speak("done".into()));
    assert_eq!(rig.deeds.len(), 100);
    let keys: std::collections::HashSet<_> = rig.deeds.iter().map(|(key, _)| key).collect();
    assert_eq!(keys.len(), 100, "equal calls have keys of their own");
}

/// A whole turn with two waits, and what was on record at each.
struct Story {
    rig: Rig,
    /// Checkpoint, answers, and the length of the journal at each wait.
    waits: Vec<(String, Vec<String>, usize)>,
}

fn story(idempotent: bool, dies_at: Option<usize>) -> (Story, End) {
    let mut rig = Rig::new(&options(idempotent), busy_model);
    rig.dies_at = dies_at;
    let mut waits = Vec::new();
    let mut end = rig.start();
    while let End::Wait(requests) = &end {
        let answers: Vec<String> = requests.iter().map(|request| answer(request, true)).collect();
        assert!(waits.len() < 10, "it asks for ever");
        waits.push((rig.checkpoint(), answers.clone(), rig.journal.len()));
        end = rig.resume(&answers);
    }
    (Story { rig, waits }, end)
}

/// Approves whatever is asked; an engine that asks for ever is left waiting.
fn approve_all(rig: &mut Rig, mut end: End) -> End {
    for _ in 0..10 {
        let End::Wait(requests) = &end else { break };
        let answers: Vec<String> = requests.iter().map(|request| answer(request, true)).collect();
        end = rig.resume(&answers);
    }
    end
}

fn count(deeds: &[Deed]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for (key, _) in deeds {
        *counts.entry(key.as_str()).or_default() += 1;
    }
    counts
}

#[test]
fn c50_a_crash_after_any_record_continues_or_is_refused_and_no_effect_happens_twice() {
    let (whole, end) = story(false, None);
    assert_eq!(end, End::Speak("done".into()));
    let (mut continued, mut refused) = (0, 0);
    for dies_at in 1..=whole.rig.journal.len() {
        let (dead, end) = story(false, Some(dies_at));
        assert_eq!(end, End::Died, "after {dies_at}");
        // Before the first wait is saved, a retry begins a new execution; nothing is continued.
        let Some((checkpoint, answers, _)) = dead.waits.last() else { continue };
        let in_doubt = {
            let of = |kind: &'static str| dead.rig.journal.iter().filter(move |r| text(r, "kind") == kind);
            let tail = |record: &Json| text(record, "id").replace(":intent:", ":").replace(":result:", ":");
            let done: Vec<String> = of("tool-result").map(tail).collect();
            of("tool-intent").map(tail).any(|intent| !done.contains(&intent))
        };
        let mut next = dead.rig.reopened(checkpoint, &dead.rig.journal, &dead.rig.deeds);
        let end = next.resume(answers);
        if in_doubt {
            assert!(fails(end, "recovery-required").contains("write"));
            assert_eq!(next.deeds, dead.rig.deeds, "nothing was run");
            refused += 1;
            continue;
        }
        assert_eq!(approve_all(&mut next, end), End::Speak("done".into()), "after {dies_at}");
        assert!(count(&next.deeds).values().all(|n| *n == 1), "after {dies_at}: {:?}", next.deeds);
        assert_eq!(count(&next.deeds), count(&whole.rig.deeds), "after {dies_at}: the same effects");
        assert_eq!(results(&next), results(&whole.rig), "after {dies_at}: the same results");
        continued += 1;
    }
    assert!(continued >= 6 && refused >= 3, "{continued} continued, {refused} refused");
}

#[test]
fn c49_an_unfinished_idempotent_tool_runs_again_under_the_same_key() {
    let (whole, _) = story(true, None);
    for dies_at in 1..=whole.rig.journal.len() {
        let (dead, _) = story(true, Some(dies_at));
        let Some((checkpoint, answers, _)) = dead.waits.last() else { continue };
        let mut next = dead.rig.reopened(checkpoint, &dead.rig.journal, &dead.rig.deeds);
        let end = next.resume(answers);
        assert_eq!(approve_all(&mut next, end), End::Speak("done".into()), "after {dies_at}");
        let keys =
            |rig: &Rig| count(&rig.deeds).into_keys().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(keys(&next), keys(&whole.rig), "after {dies_at}: no key beside those of the plain story");
    }
}

#[test]
fn records_that_are_not_this_sessions_are_refused() {
    let (whole, _) = story(false, None);
    let (checkpoint, answers, length) = &whole.waits[0];
    let records: Vec<String> = whole.rig.journal[..*length].iter().map(Json::canonical).collect();
    let resume = |records: &[String]| {
        let journal: Vec<Json> = records.iter().map(|record| Json::parse(record).unwrap()).collect();
        whole.rig.reopened(checkpoint, &journal, &[]).resume(answers)
    };
    waits(resume(&records));
    let doubled: Vec<String> = records.iter().flat_map(|record| [record.clone(), record.clone()]).collect();
    waits(resume(&doubled));
    fails(resume(&[]), "journal-missing");
    let edited = |index: usize, from: &str, to: &str| {
        let mut edited = records.clone();
        assert!(edited[index].contains(from), "{}", edited[index]);
        edited[index] = edited[index].replace(from, to);
        edited
    };
    let mut reused = records.clone();
    reused.push(records[2].replace("\"m\"", "\"n\"").replace("1970", "1971"));
    for (records, says) in [
        (records[1..].to_vec(), "begin"),
        (records[..2].to_vec(), "waiting"),
        (edited(0, r#"[\"c\",\"bot\"]"#, r#"[\"d\",\"bot\"]"#), "records[0].sessionId"),
        (edited(1, r#""modelId":"m""#, r#""modelId":"n""#), "another provider or model"),
        (edited(1, r#""providerId":"p""#, r#""providerId":"q""#), "another provider or model"),
        (edited(1, r#""kind":"model-request""#, r#""kind":"model-what""#), "records[1].kind"),
        (edited(2, r#""role":"assistant""#, r#""role":"user""#), "only an assistant message"),
        (edited(6, r#"{"n":2}"#, r#"{"n":3}"#), "something else"),
        (edited(6, r#""toolName":"read""#, r#""toolName":"write""#), "something else"),
        (edited(7, r#""toolCallId":"t2""#, r#""toolCallId":"t9""#), "no reply asked for"),
        (reused, "another record has it"),
    ] {
        let message = fails(resume(&records), "recovery-invalid");
        assert!(message.contains(says), "{message} should name {says}");
    }
    fails(resume(&edited(0, r#""turnId":"t""#, r#""turnId":"u""#)), "identity-mismatch");
}

#[test]
fn no_part_of_a_name_is_covered_twice() {
    for (pattern, name, fits) in [
        ("*a*a", "a", false),
        ("*a*a", "aa", true),
        ("*ab*b*", "ab", false),
        ("*ab*b*", "xabxb", true),
        ("*bcd*", "aabcd", true),
        ("a*a", "a", false),
        ("**", "", true),
    ] {
        let rules = policy(&format!(r#"{{"deny":["{pattern}"],"default":"allow"}}"#));
        assert_eq!(rules.verdict(name), if fits { Verdict::Deny } else { Verdict::Allow }, "{pattern} {name}");
    }
}

/// What a pattern covers, by trying everything.
fn covers(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skip| covers(rest, &name[skip..])),
        Some((c, rest)) => name.first() == Some(c) && covers(rest, &name[1..]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_strictest_pattern_that_covers_a_whole_name_decides(
        lists in prop::array::uniform3(prop::collection::vec("[ab*]{1,6}", 0..3)),
        default in prop::option::of(prop::sample::select(vec!["allow", "ask", "deny"])),
        name in "[abAé]{0,8}",
    ) {
        let quoted = |list: &[String]| list.iter().map(|p| format!("{p:?}")).collect::<Vec<_>>().join(",");
        let [allow, ask, deny] = &lists;
        let tail = default.map(|word| format!(r#","default":"{word}""#)).unwrap_or_default();
        let rules = format!(
            r#"{{"allow":[{}],"ask":[{}],"deny":[{}]{tail}}}"#, quoted(allow), quoted(ask), quoted(deny)
        );
        let fits = |list: &[String]| list.iter().any(|p| covers(p.as_bytes(), name.as_bytes()));
        let expected = if fits(deny) {
            Verdict::Deny
        } else if fits(ask) {
            Verdict::Ask
        } else if fits(allow) {
            Verdict::Allow
        } else {
            default.and_then(Verdict::parse).unwrap_or(Verdict::Ask)
        };
        prop_assert_eq!(policy(&rules).verdict(&name), expected, "{} {}", rules, name);
    }

    /// Any rules, answers and moment of death: what continues ends, in a closed history, and no effect
    /// happens twice; what cannot be known is refused.
    #[test]
    fn c50_no_schedule_of_deaths_repeats_an_effect(
        rules in prop::sample::select(vec![
            RULES, "{}", r#"{"default":"allow"}"#, r#"{"allow":["*"],"ask":["w*e"]}"#, r#"{"deny":["*"]}"#,
            r#"{"allow":["*"],"deny":["r*"]}"#,
        ]),
        later in prop::sample::select(vec![RULES, "{}", r#"{"default":"allow"}"#, r#"{"deny":["write"]}"#]),
        yes in prop::collection::vec(any::<bool>(), 1..8),
        deaths in prop::collection::vec(1_usize..40, 0..4),
        idempotent in any::<bool>(),
    ) {
        let mut rig = Rig::new(&options(idempotent), busy_model);
        rig.policy = policy(rules);
        let mut deaths = deaths.into_iter();
        let mut choices = yes.iter().cycle();
        let mut given: HashMap<String, bool> = HashMap::new();
        let mut parked: Option<(String, Vec<String>)> = None;
        rig.dies_at = deaths.next();
        let mut end = rig.start();
        for _ in 0..30 {
            match &end {
                End::Wait(requests) => {
                    let answers: Vec<String> = requests.iter().map(|request| {
                        let approved = *given.entry(text(request, "id")).or_insert_with(|| *choices.next().unwrap());
                        answer(request, approved)
                    }).collect();
                    parked = Some((rig.checkpoint(), answers.clone()));
                    rig.policy = policy(later);
                    end = rig.resume(&answers);
                }
                End::Died => {
                    // A first attempt is retried from the start, under a new id; its effects are the host's.
                    let Some((checkpoint, answers)) = &parked else { break };
                    let (journal, deeds) = (rig.journal.clone(), rig.deeds.clone());
                    rig = rig.reopened(checkpoint, &journal, &deeds);
                    rig.dies_at = deaths.next().filter(|at| *at > journal.len());
                    end = rig.resume(answers);
                }
                End::Speak(_) => break,
                End::Fail(code, _) => {
                    prop_assert_eq!(code, "recovery-required");
                    prop_assert!(!idempotent);
                    break;
                }
                End::Yield => prop_assert!(false, "it never yields"),
            }
        }
        let ended = matches!(end, End::Speak(_) | End::Fail(..)) || parked.is_none();
        prop_assert!(ended, "{:?}", end);
        if !idempotent {
            prop_assert!(count(&rig.deeds).values().all(|n| *n == 1), "{:?}", rig.deeds);
        }
        let denied = given.iter().filter(|(_, yes)| !**yes).map(|(id, _)| id.replace(":approval:", ":intent:"));
        for intent in denied {
            prop_assert!(!rig.journal.iter().any(|record| text(record, "id") == intent), "a no became a yes");
        }
    }
}

#[test]
fn a_policy_that_is_none_is_refused_with_its_path() {
    for (rules, says) in [
        ("7", "permissions: expected an object"),
        (r#"{"allow":"x"}"#, "permissions.allow: expected an array"),
        (r#"{"deny":["x",""]}"#, "permissions.deny[1]"),
        (r#"{"ask":[1]}"#, "permissions.ask[0]"),
        (r#"{"default":"maybe"}"#, "permissions.default"),
        (r#"{"allows":[]}"#, "permissions.allows: not a known member"),
    ] {
        let error = Permissions::read(&Json::parse(rules).unwrap()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let many = |count: usize| format!(r#"{{"allow":[{}]}}"#, vec![quote(&"x".repeat(512)); count].join(","));
    assert!(Permissions::read(&Json::parse(&many(1024)).unwrap()).is_ok(), "the bounds themselves");
    let many = many(1025);
    assert!(Permissions::read(&Json::parse(&many).unwrap()).unwrap_err().to_string().contains("1024"));
    let long = format!(r#"{{"allow":["{}"]}}"#, "x".repeat(513));
    assert!(Permissions::read(&Json::parse(&long).unwrap()).unwrap_err().to_string().contains("512"));
}
