//! The team machine under seeded faults and virtual time: hosts that share one store and may crash between
//! any two steps, calls that are lost, delayed or acknowledged in vain, claims that end, members that are
//! late, ignore their signal or never return. Every step is held to the rules of teams.
//!
//! `SIM_SEEDS` says how many schedules run (default 2,000; `make soak SEEDS=n` for more), `SIM_FIRST` where
//! they begin; `SIM_SEED=n` replays one with its log. A failing seed prints that command.
//!
//! `plan` is drawn from the seed, `world` plays it, `host` is one process with the people who call it,
//! `member` is what members do, `shadow` reads the journal a second time, `checks` hold the machine to it,
//! and `distortion` shows that they can fail. Chance and the store are those of the conversations' simulation.

mod checks;
mod distortion;
mod host;
mod member;
mod plan;
#[path = "../../simulation/rng.rs"]
mod rng;
mod shadow;
#[path = "../../simulation/store.rs"]
#[allow(dead_code, reason = "teams have no snapshots and delete nothing")]
mod store;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use world::Verdict;

/// What must have happened in a thousand schedules, or they show little.
const SEEN: &[&str] = &[
    "completed",
    "paused",
    "limited",
    "cancelled",
    "TEAM_NODE_FAILED",
    "TEAM_TURN_LIMIT",
    "crash",
    "store down",
    "ack lost",
    "lands late",
    "claim ended",
    "hung store",
    "short read",
    "aborted",
    "given up",
    "late return",
    "stale-claim",
    "busy",
    "unavailable",
    "disposed",
    "two hosts",
    "uncertain",
    "repeated",
    "resumed",
    "answered",
    "admitted",
    "INPUT_LIMIT",
    "OUTPUT_LIMIT",
    "RESULT_INVALID",
    "PAUSE_INVALID",
    "WAIT_INVALID",
    "omitted",
    "newer messages",
    "reopened",
];

#[test]
fn t21_t22_no_schedule_of_hosts_faults_and_crashes_breaks_a_team() {
    if let Some(seed) = number("SIM_SEED") {
        let Verdict { failure, log, .. } = caught(seed, true);
        println!("{}\nseed {seed}: {failure:?}", log.join("\n"));
        assert!(failure.is_none(), "seed {seed} breaks a rule");
        return;
    }
    let (first, count) = (number("SIM_FIRST").unwrap_or(0), number("SIM_SEEDS").unwrap_or(2_000));
    let seen = run_all(first, count);
    println!("{seen:?}");
    if count >= 1_000 {
        let missing: Vec<_> = SEEN.iter().filter(|what| !seen.contains_key(*what)).collect();
        assert!(missing.is_empty(), "never occurred: {missing:?}");
    }
}

#[test]
fn t21_every_distortion_is_noticed() {
    distortion::are_noticed();
}

fn run_all(first: u64, count: u64) -> BTreeMap<&'static str, u64> {
    let next = AtomicU64::new(first);
    let (total, failed) = (Mutex::new(BTreeMap::new()), Mutex::new(BTreeMap::new()));
    let work = || {
        while failed.lock().unwrap().is_empty() {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                break;
            }
            let verdict = caught(seed, false);
            let mut total = total.lock().unwrap();
            verdict.seen.into_iter().for_each(|(what, times)| *total.entry(what).or_default() += times);
            if let Some(failure) = verdict.failure {
                failed.lock().unwrap().insert(seed, failure);
            }
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    if let Some((seed, failure)) = failed.into_inner().unwrap().first_key_value() {
        let log = caught(*seed, true).log;
        let steps = log[log.len().saturating_sub(40)..].join("\n");
        let command = format!("SIM_SEED={seed} cargo test --test team t21_t22 -- --nocapture");
        panic!("{steps}\nseed {seed} breaks a rule: {failure}\nreplay it: {command}");
    }
    total.into_inner().unwrap()
}

/// A panic of the engine is a failure of its seed like any other.
fn caught(seed: u64, logs: bool) -> Verdict {
    catch_unwind(AssertUnwindSafe(|| world::run(seed, None, logs))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let failure = Some(format!("panic: {}", text.unwrap_or_default()));
        Verdict { failure, seen: BTreeMap::new(), log: Vec::new() }
    })
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}
