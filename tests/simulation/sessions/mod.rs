//! Conversations whose members are the engine's own sessions: rounds of model calls and tools behind a permission
//! gate, with their records in the conversation's journal or in one that ends with its process. A process dies before
//! and after writes and deeds; people approve, deny, withdraw and keep silent, two hosts answer at once, policies
//! change, runs are cancelled while tools run; then another process loads what is stored, and its host says what
//! became of turns that nobody saw settle.
//!
//! The rules: (S1) a deed happens once, unless the operator said `retry` or its tool is idempotent; (S2) never before
//! its intent is on record; (S3) what the policy asks about runs with an approval alone, which grants the one action it
//! was given for; (S4) what was denied never runs; (S5) a model is shown one result for each call; (S6) every turn ends,
//! is parked, or waits for the operator; (S7) the records of an execution stand in order; (S8) a session asks for
//! approvals and nothing else; (S9) a turn is left to the operator exactly where nobody knows what a tool did that must
//! not run twice.
//!
//! `SIM_EVERY=1` kills a process at each write and deed; the default is one of seven.

mod life;
mod model;
mod order;
pub mod outside;
mod records;
mod tools;
pub mod turn;

use crate::coverage::Coverage;
use crate::crash::{self, Crash};
use crate::executor::Step;
use crate::host::SimHost;
use crate::rng::Rng;
use crate::schedule::Watch;
use crate::world::{World, take_log};
use agent_roundtable::conversation::error::Thrown;
use agent_roundtable::driver::Driver;
use agent_roundtable::record::model::Checkpoint;
use outside::{Outside, Planted};
use serde_json::json;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;
use turn::Live;

/// How many conversations are played and killed.
const CONVERSATIONS: u64 = 16;
/// More steps of one process than this are a turn that does not end.
const MAX_STEPS: u64 = 50_000;

pub fn at_every_point() {
    let (started, stride) = (Instant::now(), crate::number("SIM_EVERY").unwrap_or(7).max(1));
    let mut coverage = Coverage::default();
    let (mut plays, mut died) = (0, 0);
    for seed in 0..CONVERSATIONS {
        let mut take = |crashes: &[Crash]| {
            let end = play(seed, crashes, None);
            coverage.add(&end.coverage);
            plays += 1;
            died += end.died;
            if let Some(failure) = end.failure {
                panic!("{}\nseed {seed}, {crashes:?}: {failure}", end.log.join("\n"));
            }
            (end.writes, end.model_failures)
        };
        // Each write has two sides; a stride that is odd comes by both.
        let (writes, model_failures) = take(&[]);
        for write in model_failures {
            take(&[Crash { write, landed: false }]);
            take(&[Crash { write, landed: true }]);
        }
        let sides = 2 * writes;
        for side in (seed % stride..sides).step_by(stride as usize) {
            let (write, landed) = (side / 2, side % 2 == 1);
            let crashes = [Crash { write, landed }, Crash { write: write + 1 + (write + seed) % 3, landed: !landed }];
            take(&crashes[..if (side / stride) % 3 == 0 { 2 } else { 1 }]);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{}{plays} conversations of sessions, {died} processes died, {seconds:.1} s", coverage.table());
    let missing = coverage.missing_crashes();
    assert!(missing.is_empty(), "nobody died {missing:?}");
    let missing = coverage.missing_notes(NOTES);
    assert!(missing.is_empty(), "never occurred: {missing:?}");
}

/// What must happen to sessions, beside the deaths of their processes.
const NOTES: &[&str] = &[
    "answered by another host of two",
    "answered by this host of two",
    "approved deed",
    "begun deed asked about",
    "continued after a stop",
    "deed again",
    "idempotent deed again",
    "journal gone",
    "policy changed",
    "result after the end",
    "run cancelled",
    "run completed",
    "run given up",
    "run recovery required",
    "run retried",
    "run waiting",
    "stop waits for tools",
    "stop waits no longer",
    "turn failed: recovery-required",
];

/// Each with the start of what the rules must say.
const EXPECTED: &[(Planted, &str)] = &[
    (Planted::DeedTwice, "S1"),
    (Planted::IntentUnsaved, "S2"),
    (Planted::PolicyIgnored, "S3"),
    (Planted::ApprovalReused, "S3"),
    (Planted::DenialTurned, "S4"),
    (Planted::HistoryOpen, "S5"),
    (Planted::TurnStuck, "S6"),
    (Planted::ResponseForged, "S7"),
    (Planted::ResultTwice, "S7"),
    (Planted::AskedOtherwise, "S8"),
    (Planted::UnknownRepeated, "S9"),
    (Planted::RetryForgotten, "S9"),
];

pub fn breaches_are_noticed() {
    for (planted, expected) in EXPECTED {
        let mut found = Vec::new();
        let noticed = (0..8 * CONVERSATIONS).any(|seed| {
            // Some breaches need an attempt that follows another: from here on a process dies.
            let crash = Crash { write: 5 + seed * 7 % 60, landed: true };
            let crashes: &[Crash] = if seed < 2 * CONVERSATIONS { &[] } else { &[crash] };
            found.extend(play(seed, crashes, Some(*planted)).failure);
            found.last().is_some_and(|failure| failure.starts_with(expected))
        });
        assert!(noticed, "{planted:?} should be noticed as {expected}: {found:?}");
    }
}

struct End {
    failure: Option<String>,
    coverage: Coverage,
    log: Vec<String>,
    writes: u64,
    model_failures: Vec<u64>,
    died: u64,
}

fn play(seed: u64, crashes: &[Crash], planted: Option<Planted>) -> End {
    let rng = Rc::new(Rng::new(seed));
    let (mut plan, script) = crash::draw(seed, &rng);
    for role in plan.roles.iter_mut().filter(|role| !role.is_external) {
        (role.is_metered, role.version) = (true, "session/1");
    }
    let mut options = plan.config(seed);
    let outside = Rc::new(Outside::new(seed, planted));
    if !outside.forgets {
        options["recovery"] = json!("durable");
        options["storeDurability"] = json!("durable");
    }
    let logs = std::env::var("SIM_LOG").is_ok();
    let world = World::new(plan, options.clone(), rng, Watch { logs, ..Watch::default() });
    *world.script.borrow_mut() = Some(Rc::new(script));
    *world.outside.borrow_mut() = Some(outside.clone());
    world.faults.silence();
    let (mut next, mut died) = (crashes.iter(), 0);
    loop {
        world.crash.set(next.next().copied());
        world.crashed.set(false);
        let name = format!("process-{died}");
        let host = SimHost::new(&world, &name, false);
        let (machine, lost) = crash::open(&world, &host, &options, &name);
        let driver = Driver::new(machine, host.clone());
        host.bind(&driver);
        let done = Rc::new(Cell::new(false));
        let (player, flag, rough) = (host.clone(), done.clone(), seed % 2 == 1);
        world.executor.spawn(async move {
            life::live(&player, &lost, rough).await;
            flag.set(true);
        });
        let mut steps = 0;
        while world.failure().is_none()
            && !world.crashed.get()
            && steps < MAX_STEPS
            && world.executor.step() != Step::Idle
        {
            host.check.borrow_mut().step_ended();
            steps += 1;
        }
        world.demand(done.get() || world.crashed.get(), || {
            format!("S6: a turn does not end: {}", host.check.borrow().describe())
        });
        if done.get() || world.failure().is_some() {
            break;
        }
        died += 1;
        world.executor.clear();
        outside.process_ended();
        // The claim of the dead is waited for.
        world.store.borrow_mut().expire();
    }
    world.executor.clear();
    let log = take_log();
    let log = log[log.len().saturating_sub(80)..].to_vec();
    End {
        failure: world.failure(),
        coverage: world.coverage.take(),
        log,
        writes: world.writes.get(),
        model_failures: world.model_failures.take(),
        died,
    }
}

/// Opens the engine's own session where the conversation is made of such.
pub async fn open(
    host: &SimHost,
    participant: usize,
    checkpoint: Option<&Checkpoint>,
) -> Result<Option<Rc<Live>>, Thrown> {
    let world = &host.world;
    if world.outside().is_none() {
        return Ok(None);
    }
    world.executor.sleep(world.pause_ms()).await;
    let opened = turn::open(&world.plan.conversation_id, &world.plan.roles[participant].id, checkpoint);
    world.demand(opened.is_ok(), || format!("S6: a saved session does not open: {:?}", opened.as_ref().err()));
    opened.map(|live| Some(Rc::new(live)))
}
