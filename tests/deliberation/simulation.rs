//! Many hosts on one store, under faults that a seed decides: any two of their steps may be anybody's, an
//! acknowledgement may be lost, and a host may stop for good between any two steps. Whatever happens, one
//! closing wins, every notice is owed until it was delivered, and nothing is delivered that is not owed.

use super::support::{Answer, MINUTE, START, command, created};
use agent_roundtable::deliberation::wire::{Chore, Session};
use agent_roundtable::value::Json;
use std::collections::{BTreeMap, BTreeSet};

const SEEDS: u64 = 400;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

/// A rule that is broken on purpose, to see that the checks notice.
#[derive(Clone, Copy, PartialEq)]
enum Distortion {
    None,
    /// The store takes what was decided on a state that it no longer has.
    NoCompare,
    /// What was not delivered is called done.
    DoneUnsent,
    /// Each host that delivers a notice gives it a key of its own.
    OwnKeys,
    /// Where a host stops, what it had decided to append is appended twice by the next one.
    Repeats,
}

/// The store: batches of lines, appended where the revision matches.
struct Store {
    batches: Vec<Vec<String>>,
}

/// A process with a session open, in the middle of something.
struct Host {
    session: Session,
    revision: usize,
    doing: Doing,
}

enum Doing {
    Nothing,
    /// Decided, and not appended so far.
    Appending {
        lines: Vec<String>,
    },
    /// Notices, and the items that are done by now.
    Delivering {
        left: Vec<Json>,
        done: Vec<u64>,
    },
}

/// What everybody outside of the store sees.
struct World {
    /// How often each notice arrived, by its key.
    inbox: BTreeMap<String, usize>,
    has_group: bool,
    /// Thread lengths that speakers were told.
    lengths: BTreeSet<u64>,
    seen: Seen,
    distortion: Distortion,
}

fn open(store: &Store) -> Host {
    let session = Session::load(store.batches.iter().flatten().map(String::as_str)).expect("the journal folds");
    Host { session, revision: store.batches.len(), doing: Doing::Nothing }
}

fn refresh(host: &mut Host, store: &Store) {
    for line in store.batches[host.revision..].iter().flatten() {
        host.session.follow(line).expect("what others appended folds");
    }
    host.revision = store.batches.len();
}

/// One thing that somebody may ask of a host.
fn ask(rng: &mut Rng, host: &mut Host, now: f64) -> Answer {
    let callers = ["fac", "ana", "bo", "eve"];
    let caller = callers[rng.below(4)];
    let text = match rng.below(12) {
        0..5 => command("speak", caller, &format!(r#","message":"m","idempotencyKey":"k{}""#, rng.below(6))),
        5 => command("position", caller, r#","stance":"for""#),
        6 => command("resolve", caller, r#","outcome":"o","decision":"approved""#),
        7 => command("close", caller, r#","reason":"moot""#),
        8 => command("handOver", caller, r#","to":"bo""#),
        9 => command("extend", caller, r#","minutes":5"#),
        10 => return Answer::of(&host.session.chore(Chore::Sweep, now)),
        _ => command("get", caller, ""),
    };
    Answer::of(&host.session.decide(&text, now))
}

fn work(host: &Host, now: f64) -> Vec<Json> {
    match Json::parse(&host.session.work(0..u64::MAX, f64::MAX, 8, now)).unwrap() {
        Json::Array(items) => items,
        _ => panic!("work is a list"),
    }
}

fn number(item: &Json) -> u64 {
    match item.get("item") {
        Some(Json::Number(number)) => *number as u64,
        _ => panic!("an item has a number"),
    }
}

/// One step of a host. `None` where it stopped for good.
fn step(rng: &mut Rng, mut host: Host, store: &mut Store, world: &mut World, now: f64) -> Option<Host> {
    if rng.chance(4) {
        world.seen.crashes += 1;
        if let Doing::Appending { lines } = host.doing
            && world.distortion == Distortion::Repeats
        {
            store.batches.extend([lines.clone(), lines]);
        }
        return None;
    }
    match std::mem::replace(&mut host.doing, Doing::Nothing) {
        Doing::Nothing if rng.chance(40) => {
            refresh(&mut host, store);
            let left = work(&host, now);
            host.doing = Doing::Delivering { left, done: Vec::new() };
        }
        Doing::Nothing => {
            if rng.chance(50) {
                refresh(&mut host, store);
            }
            let answer = ask(rng, &mut host, now);
            if !answer.lines().is_empty() {
                if let Some(Json::Number(length)) = answer.reply("threadLength") {
                    world.lengths.insert(*length as u64);
                }
                host.doing = Doing::Appending { lines: answer.lines() };
            }
        }
        Doing::Appending { lines } => {
            let is_overtaken = store.batches.len() != host.revision;
            if is_overtaken && world.distortion != Distortion::NoCompare {
                // Somebody was faster: it is decided again, or forgotten.
                let others = store.batches[host.revision..].iter().flatten();
                world.seen.lost_closings += usize::from(closings(&lines).count() > 0 && closings(others).count() > 0);
                refresh(&mut host, store);
                return Some(host);
            }
            world.seen.expiries += usize::from(is_expiry(&lines));
            store.batches.push(lines);
            if rng.chance(5) {
                world.seen.crashes += 1; // the acknowledgement is lost with its host
                return None;
            }
            host.session.confirm();
            host.revision += 1;
        }
        Doing::Delivering { mut left, mut done } => match left.pop() {
            Some(item) => {
                let arrives = !rng.chance(20);
                if arrives {
                    deliver(&item, world, host.revision);
                }
                if arrives || world.distortion == Distortion::DoneUnsent {
                    // What the shell does after it put a group, in which another host may have been faster. A
                    // host that stops in between leaves a group that ends with its deadline.
                    refresh(&mut host, store);
                    if item.get("put").is_some() && !host.session.state().is_open() {
                        world.has_group = false;
                    }
                    done.push(number(&item));
                }
                host.doing = Doing::Delivering { left, done };
            }
            None => {
                refresh(&mut host, store);
                let lines = Answer::of(&host.session.chore(Chore::Settle(&done), now)).lines();
                if !lines.is_empty() {
                    host.doing = Doing::Appending { lines };
                }
            }
        },
    }
    Some(host)
}

/// The lines that end a session.
fn closings<'a>(lines: impl IntoIterator<Item = &'a String>) -> impl Iterator<Item = &'a String> {
    const KINDS: [&str; 3] = ["resolved/1", "expired/1", "closed/1"];
    lines.into_iter().filter(|line| KINDS.iter().any(|kind| line.contains(kind)))
}

fn is_expiry(lines: &[String]) -> bool {
    lines.iter().any(|line| line.contains("expired/1"))
}

fn deliver(item: &Json, world: &mut World, revision: usize) {
    if let Some(notice) = item.get("notice") {
        let key = notice.get("idempotencyKey").and_then(Json::as_str).unwrap();
        let own = if world.distortion == Distortion::OwnKeys { format!("{key} {revision}") } else { key.to_owned() };
        *world.inbox.entry(own).or_default() += 1;
    }
    if item.get("put").is_some() {
        world.has_group = true;
    }
    if item.get("delete").is_some() {
        world.has_group = false;
    }
}

/// How many schedules ended how.
#[derive(Default)]
struct Seen {
    resolved: usize,
    expired: usize,
    /// Stopped between two steps.
    crashes: usize,
    /// Notices that arrived more than once.
    repeated: usize,
    /// Closings that were decided and overtaken by another one.
    lost_closings: usize,
    /// Expiries that a host of the schedule noted, which the last host then did not.
    expiries: usize,
    /// Sweeps that found a deadline passed long ago.
    late_sweeps: usize,
}

fn schedule(seed: u64, distortion: Distortion) -> Seen {
    let rng = &mut Rng(seed);
    let mut store = Store { batches: vec![created(&format!("{seed}"), r#","timeoutMinutes":10,"reminderMinutes":3"#)] };
    let mut world =
        World { inbox: BTreeMap::new(), has_group: false, lengths: BTreeSet::new(), seen: Seen::default(), distortion };
    let mut hosts: Vec<Host> = (0..3).map(|_| open(&store)).collect();
    let mut now = START;
    for _ in 0..60 + rng.below(200) {
        let at = rng.below(hosts.len());
        let host = hosts.swap_remove(at);
        // Each host's clock is its own.
        let skewed = now + rng.below(2_000) as f64;
        hosts.push(step(rng, host, &mut store, &mut world, skewed).unwrap_or_else(|| open(&store)));
        now += rng.below(8_000) as f64;
    }
    // The faults stop, the deadline passes, and one host that is new to all this does what is left.
    now += 20.0 * MINUTE;
    let mut last = open(&store);
    let swept = Answer::of(&last.session.chore(Chore::Sweep, now)).lines();
    if !swept.is_empty() {
        world.seen.late_sweeps += 1;
        store.batches.push(swept);
        refresh(&mut last, &store);
    }
    loop {
        let left = work(&last, now);
        if left.is_empty() {
            break;
        }
        left.iter().for_each(|item| deliver(item, &mut world, last.revision));
        let done: Vec<u64> = left.iter().map(number).collect();
        store.batches.push(Answer::of(&last.session.chore(Chore::Settle(&done), now)).lines());
        refresh(&mut last, &store);
    }
    check(seed, &store, &last, &mut world);
    world.seen
}

fn check(seed: u64, store: &Store, last: &Host, world: &mut World) {
    let lines: Vec<&String> = store.batches.iter().flatten().collect();
    let closings: Vec<&String> = closings(lines.iter().copied()).collect();
    assert_eq!(closings.len(), 1, "seed {seed}: one closing");
    assert!(last.session.state().owed().is_empty(), "seed {seed}: nothing is owed any more");
    assert!(!world.has_group, "seed {seed}: the group is gone");
    let spoken = lines.iter().filter(|line| line.contains("spoke/1")).count();
    assert_eq!(last.session.state().thread_length(), spoken);
    assert!(world.lengths.iter().all(|length| *length <= 200));
    let of = |step: &str| world.inbox.keys().filter(|key| key.contains(step)).count();
    let is_resolved = closings[0].contains("resolved/1");
    assert_eq!(of("/resolution/"), if is_resolved { 2 } else { 0 }, "seed {seed}: one set of notices");
    assert_eq!(of("/expiry/"), if is_resolved { 0 } else { 3 }, "seed {seed}: one set of notices");
    assert_eq!(of("/entry-"), 2 * spoken, "seed {seed}: every entry reached both others");
    assert!(of("/invitation/") <= 2 && of("/reminder/") <= 3);
    world.seen.resolved += usize::from(is_resolved);
    world.seen.expired += usize::from(!is_resolved);
    world.seen.repeated += world.inbox.values().filter(|times| **times > 1).count();
}

#[test]
fn d19_d20_d21_no_schedule_of_hosts_and_crashes_breaks_a_session() {
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let one = schedule(seed, Distortion::None);
        seen.resolved += one.resolved;
        seen.expired += one.expired;
        seen.crashes += one.crashes;
        seen.repeated += one.repeated;
        seen.lost_closings += one.lost_closings;
        seen.expiries += one.expiries;
        seen.late_sweeps += one.late_sweeps;
    }
    let Seen { resolved, expired, crashes, repeated, lost_closings, expiries, late_sweeps } = seen;
    assert!(
        resolved > 100 && expired > 100 && crashes > 500 && repeated > 100 && lost_closings > 10 && expiries > 10,
        "{resolved} {expired} {crashes} {repeated} {lost_closings} {expiries} {late_sweeps}"
    );
    assert!(late_sweeps > 10, "{late_sweeps}");
}

#[test]
fn d19_d20_d21_the_simulation_notices_each_distortion() {
    use Distortion::{DoneUnsent, NoCompare, OwnKeys, Repeats};
    for distortion in [NoCompare, DoneUnsent, OwnKeys, Repeats] {
        let failed = (0..SEEDS / 4).filter(|seed| {
            let seed = *seed;
            std::panic::catch_unwind(move || schedule(seed, distortion)).is_err()
        });
        assert!(failed.count() > 10);
    }
}
