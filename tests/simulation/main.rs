//! Deterministic simulation: the shipped machine and the shipped driver run together over virtual time,
//! with faults at every effect, and every step is checked against the rules.
//!
//! `SIM_SEEDS` says how many schedules run (default 3,000; `make soak SEEDS=n` for more) and `SIM_FIRST`
//! where they begin; `SIM_ALL=1` surveys all failures instead of stopping at the first; `SIM_SEED=n`
//! replays one schedule with its full log. A failing seed prints the command that does that.
//!
//! `schedule` makes a `world` from a seed: a `plan` (who, which limits, how rough), an `executor` (virtual
//! time, seeded polling), a `store` behind a `wire` that loses things, a `rival` host. `script`, `answers`,
//! `member`, `selector` and `metering` play the people and the host code; `host` implements the driver's
//! ports. `shadow`, `ledger` and `events` read the journal a second time, written from the rules, and
//! `forks` copies it; `crash` kills a process at every write and lets another go on.
//! `check` and `calls` hold the machine to them at every step, and `distortion` shows that they can fail.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod answers;
mod calls;
mod check;
mod coverage;
mod crash;
mod distortion;
mod events;
mod executor;
mod faults;
mod forks;
mod host;
mod ledger;
mod marks;
mod member;
mod metering;
mod plan;
mod recording;
mod rival;
mod rng;
mod schedule;
mod script;
mod selector;
mod sessions;
mod shadow;
mod store;
mod traces;
mod wire;
mod world;

use coverage::Coverage;
use schedule::{Verdict, Watch};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// C50 and every rule named in a failure: no schedule breaks any of them, and every kind of entry,
/// outcome, fault and code occurs.
#[test]
fn c50_no_schedule_breaks_a_rule() {
    if let Some(seed) = number("SIM_SEED") {
        return replay(seed);
    }
    let (first, count) = (number("SIM_FIRST").unwrap_or(0), number("SIM_SEEDS").unwrap_or(3_000));
    let started = Instant::now();
    let coverage = run_all(first, count);
    println!("{}", coverage.table());
    println!("{count} schedules in {:.1} s", started.elapsed().as_secs_f64());
    if count >= 1_000 {
        let (missing, forbidden) = (coverage.missing(), coverage.forbidden());
        assert!(missing.is_empty(), "never occurred: {missing:?}");
        assert!(forbidden.is_empty(), "occurred: {forbidden:?}");
    }
}

/// C50: a process that dies at any write is followed by one that ends the conversation as it would have.
#[test]
fn c50_a_crash_at_every_write_loses_nothing_and_repeats_nothing() {
    crash::at_every_write();
}

/// C50, and the rules of sessions (`sessions`): a process that dies before or after any record, answer or deed.
#[test]
fn c50_sessions_keep_their_rules_at_every_crash() {
    sessions::at_every_point();
}

/// The rules of sessions: whoever broke one would be noticed.
#[test]
fn c50_every_breach_of_a_session_is_noticed() {
    sessions::breaches_are_noticed();
}

/// C51: the same inputs give the same effects.
#[test]
fn c51_recorded_traces_replay_to_the_same_effects() {
    traces::record_and_replay();
}

/// The checks themselves: a machine that broke a rule would not get past them.
#[test]
fn c50_every_distortion_is_noticed() {
    distortion::are_noticed();
}

/// Runs schedules on two threads; the first failure ends them all, unless `SIM_ALL` asks for a survey.
fn run_all(first: u64, count: u64) -> Coverage {
    let (next, total) = (AtomicU64::new(first), Mutex::new(Coverage::default()));
    let failed: Mutex<BTreeMap<u64, String>> = Mutex::default();
    let surveys = number("SIM_ALL").is_some();
    let work = || {
        let mut own = Coverage::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count || (!surveys && !failed.lock().unwrap().is_empty()) {
                break;
            }
            if (seed - first) % 10_000 == 9_999 {
                println!("{} schedules", seed - first + 1);
            }
            let verdict = run_caught(seed, false);
            own.add(&verdict.coverage);
            if let Some(failure) = verdict.failure {
                failed.lock().unwrap().insert(seed, failure);
            }
        }
        total.lock().unwrap().add(&own);
    };
    std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().unwrap();
    if let Some(seed) = failed.keys().next() {
        report(*seed, &failed);
    }
    total.into_inner().unwrap()
}

/// Tells of the first failing seed in full and of the others by name.
fn report(seed: u64, failed: &BTreeMap<u64, String>) {
    for (seed, failure) in failed {
        println!("seed {seed}: {}", failure.chars().take(200).collect::<String>());
    }
    let verdict = run_caught(seed, true);
    let log = world::take_log();
    let steps = log[log.len().saturating_sub(40)..].join("\n");
    let failure = verdict.failure.unwrap_or_else(|| "not reproduced".to_owned());
    panic!("{steps}\nseed {seed} ({:?}) breaks a rule: {failure}\nreplay it: {}", verdict.mix, command(seed));
}

fn replay(seed: u64) {
    let verdict = run_caught(seed, true);
    println!("{}", world::take_log().join("\n"));
    println!("seed {seed} ({:?}): {} steps, {:?}", verdict.mix, verdict.steps, verdict.failure);
    assert!(verdict.failure.is_none(), "seed {seed} breaks a rule");
}

/// A panic of the engine is a failure of its seed like any other.
fn run_caught(seed: u64, logs: bool) -> Verdict {
    catch_unwind(AssertUnwindSafe(|| schedule::run(seed, Watch { logs, ..Watch::default() }))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Verdict::panicked(&text.unwrap_or_default())
    })
}

fn command(seed: u64) -> String {
    format!("SIM_SEED={seed} cargo test --test simulation c50 -- --nocapture")
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}
