//! One schedule from its seed: the world is made, played to its end and judged.

use crate::coverage::Coverage;
use crate::distortion::Distortion;
use crate::executor::Step;
use crate::faults::Mix;
use crate::host::SimHost;
use crate::plan::Plan;
use crate::rng::Rng;
use crate::world::World;
use crate::{forks, script, traces};
use agent_roundtable::conversation::{Code, Config, Machine};
use agent_roundtable::driver::Driver;
use agent_roundtable::value::Json;
use serde_json::{Value, json};
use std::cell::Cell;
use std::rc::Rc;

/// What is kept of a schedule beside its verdict.
#[derive(Clone, Copy, Default)]
pub struct Watch {
    /// Every step, for a person.
    pub logs: bool,
    /// Every input and the hash over all effects, for a replay.
    pub records: bool,
    /// What the checks are shown instead of the truth.
    pub distortion: Option<Distortion>,
}

/// What came of one seed.
pub struct Verdict {
    pub failure: Option<String>,
    pub coverage: Coverage,
    pub steps: u64,
    pub mix: Mix,
    /// The recorded inputs, as `replay_trace` reads them.
    pub trace: Vec<String>,
    /// The hash over the effects that followed from them.
    pub digest: String,
}

/// More steps than this are a livelock.
const MAX_STEPS: u64 = 400_000;

pub fn run(seed: u64, watch: Watch) -> Verdict {
    let rng = Rc::new(Rng::new(seed));
    let plan = Plan::draw(seed, &rng);
    let options = plan.config(seed);
    let world = World::new(plan, options.clone(), rng, watch);
    world.coverage.borrow_mut().note(&format!("{:?}", world.plan.mix));
    world.log(|| format!("OPTIONS {options}"));
    if world.plan.mix == Mix::Hostile {
        world.executor.slow_per_mille.set(10);
    }
    refuse_broken_options(&world, &options);
    let owner_id = format!("host-{seed}");
    let host = SimHost::new(&world, &owner_id, false);
    let mut steps = 0;
    match Config::read(&parsed(&options)).and_then(|config| Machine::new(config, owner_id.as_str().into())) {
        Ok(machine) => steps = play(&world, &host, machine),
        Err(error) => world.fail(format!("the options are refused: {error}")),
    }
    world.executor.clear();
    Verdict {
        failure: world.failure(),
        coverage: world.coverage.take(),
        steps,
        mix: world.plan.mix,
        trace: std::iter::once(traces::header(&options, &owner_id)).chain(host.trace.take()).collect(),
        digest: host.digest.take().finish(),
    }
}

/// Plays a schedule until nothing moves, judges it and gives the number of its steps.
fn play(world: &Rc<World>, host: &SimHost, machine: Machine) -> u64 {
    let driver = Driver::new(machine, host.clone());
    host.bind(&driver);
    let done = Rc::new(Cell::new(false));
    let (player, flag) = (host.clone(), done.clone());
    world.executor.spawn(async move {
        script::play(&player).await;
        script::finish(&player).await;
        script::leave(&player).await;
        flag.set(true);
    });
    let (mut steps, mut compared) = (0, 0);
    while world.failure().is_none() && world.executor.step() != Step::Idle {
        steps += 1;
        host.check.borrow_mut().step_ended();
        compared = compare_fold(world, &driver, compared);
        world.demand(steps < MAX_STEPS, || "the schedule does not come to an end".to_owned());
    }
    if world.failure().is_none() {
        world.demand(done.get(), || format!("stuck: {}", host.check.borrow().describe()));
        host.check.borrow().finished(driver.with_machine(|machine| machine.durable().revision));
    }
    steps
}

/// C43: the state in hand is the fold of the store's bytes. Compared once for each revision, which it gives.
fn compare_fold(world: &World, driver: &Driver<SimHost>, compared: u64) -> u64 {
    let fold = world.fold.borrow();
    driver.with_machine(|machine| {
        let own = machine.durable();
        if let Some(stored) = fold.as_ref().filter(|fold| fold.revision == own.revision && own.revision > compared) {
            world.demand(own == stored, || format!("C43: revision {} is not the fold of its bytes", own.revision));
            forks::check(world, stored);
        }
        own.revision
    })
}

/// C1, C2: options with one member broken are refused, before anything is stored or called.
fn refuse_broken_options(world: &World, options: &Value) {
    let broken = [
        ("conversationId", json!("")),
        ("participants", json!([])),
        ("limits", json!({ "maxTurnsPerRun": 0 })),
        ("limits", json!({ "maxTurnsPerRun": 1.5 })),
        ("maxConcurrentParticipants", json!(-1)),
        ("leaseMs", json!(9_007_199_254_740_992_u64)),
        ("recovery", json!("durable")),
    ];
    let (member, value) = world.rng.pick(&broken).clone();
    let mut options = options.clone();
    options[member] = value;
    let result = Config::read(&parsed(&options));
    let refused = result.as_ref().is_err_and(|error| error.code == Code::InvalidConfig);
    world.demand(refused, || format!("C2: {member} of {} is taken", options[member]));
    world.coverage.borrow_mut().code(Code::InvalidConfig);
}

pub fn parsed(options: &Value) -> Json {
    Json::parse(&options.to_string()).unwrap()
}

impl Verdict {
    /// Of a schedule that ended in a panic.
    pub fn panicked(message: &str) -> Verdict {
        Verdict {
            failure: Some(format!("panic: {message}")),
            coverage: Coverage::default(),
            steps: 0,
            mix: Mix::Calm,
            trace: Vec::new(),
            digest: String::new(),
        }
    }
}
