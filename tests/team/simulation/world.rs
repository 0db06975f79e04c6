//! One schedule: virtual time, a store with its faults, hosts that come and go, and the order of it all.

use super::distortion::Distortion;
use super::host::Host;
use super::plan::Plan;
use super::rng::Rng;
use super::shadow::Shadow;
use super::store::{Store, unknown};
use agent_roundtable::conversation::effect::Effect as StoreEffect;
use agent_roundtable::conversation::error::StoreFailure;
use agent_roundtable::conversation::input::{Batch, Timer};
use agent_roundtable::team::fold::fold;
use agent_roundtable::team::machine::Input;
use std::collections::BTreeMap;
use std::rc::Rc;

pub type Check = Result<(), String>;

/// What came of one seed.
pub struct Verdict {
    pub failure: Option<String>,
    pub seen: BTreeMap<&'static str, u64>,
    pub log: Vec<String>,
}

/// Something that is to happen.
#[derive(Debug)]
pub enum Pending {
    /// A call reaches the store.
    Call(usize, StoreEffect),
    /// A call reaches the store whose caller has given it up.
    Land(StoreEffect),
    /// A host is told something.
    Tell(usize, Input),
    /// A timer of a host runs out, if it is still the same.
    Timer(usize, Timer, u64),
    /// A member's attempt returns.
    Return(usize, String),
    /// An attempt asks something of its services.
    Ask(usize, String, &'static str),
    /// The people at a host do something.
    People(usize),
    Crash(usize),
    Open,
}

pub struct World {
    pub rng: Rng,
    pub plan: Rc<Plan>,
    pub shadow: Shadow,
    pub store: Store,
    pub hosts: Vec<Host>,
    pub now: u64,
    /// Nothing goes wrong any more.
    pub quiet: bool,
    pub distortion: Option<Distortion>,
    pub drawn: u64,
    seen: BTreeMap<&'static str, u64>,
    log: Option<Vec<String>>,
    /// By time; what is due at the same time comes in any order.
    queue: BTreeMap<(u64, u64), Pending>,
}

/// More steps than this without an end are a livelock.
const MAX_STEPS: usize = 20_000;

pub fn run(seed: u64, distortion: Option<Distortion>, logs: bool) -> Verdict {
    let rng = Rng::new(seed);
    let plan = Rc::new(Plan::draw(&rng));
    let mut world = World {
        shadow: Shadow::new(plan.clone()),
        plan,
        rng,
        store: Store::new("run".into()),
        hosts: Vec::new(),
        now: 1_000,
        quiet: false,
        distortion,
        drawn: 0,
        seen: BTreeMap::new(),
        log: logs.then(Vec::new),
        queue: BTreeMap::new(),
    };
    let plan = world.plan.clone();
    world.log(|| format!("{} {} {:?} {:?}", plan.definition(), plan.options(), plan.lease_ms, plan.settle_ms));
    let failure = world.play().err();
    Verdict { failure, seen: world.seen, log: world.log.unwrap_or_default() }
}

impl World {
    fn play(&mut self) -> Check {
        for _ in 0..self.plan.hosts {
            self.open()?;
        }
        for _ in 0..20 + self.rng.below(500) {
            self.crash_somewhere();
            // What has ended is called again a few times and no more.
            let is_over = self.hosts.iter().any(|host| host.ended().is_some()) && self.rng.chance(100);
            if is_over || !self.step()? {
                break;
            }
        }
        // All processes end, nothing fails any more, and one that is new to all this brings it to an end.
        self.quiet = true;
        for host in 0..self.hosts.len() {
            self.crash(host);
        }
        self.queue.retain(|_, pending| matches!(pending, Pending::Land(_)));
        let outcome = self.finish()?;
        let revision = self.shadow.revision();
        let again = self.finish()?;
        self.saw("reopened");
        let unchanged = again == outcome && revision == self.shadow.revision();
        rule(unchanged, || format!("T22: {outcome} at {revision}, reopened {again} at {}", self.shadow.revision()))?;
        self.compare_fold()
    }

    /// A new host goes on to an end; what that is.
    fn finish(&mut self) -> Result<String, String> {
        self.open()?;
        let last = self.hosts.len() - 1;
        for _ in 0..MAX_STEPS {
            let is_idle = self.hosts[last].calls.is_empty();
            if let Some(outcome) = self.hosts[last].ended().filter(|_| is_idle) {
                let outcome = format!("{outcome:?}");
                self.crash(last);
                return Ok(outcome);
            }
            rule(self.step()?, || "stuck: nothing is to happen any more".into())?;
        }
        Err("stuck: no end is reached".into())
    }

    pub fn saw(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    pub fn log(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{:>8} {}", self.now, line().chars().take(600).collect::<String>()));
        }
    }

    /// Whether something goes wrong here and now; `weight` 10 is as often as the schedule is rough.
    pub fn strikes(&mut self, what: &'static str, weight: u32) -> bool {
        let strikes = !self.quiet && self.rng.chance(self.plan.roughness * weight / 10);
        if strikes {
            self.saw(what);
        }
        strikes
    }

    /// A time that calls and members take.
    pub fn pause(&self) -> u64 {
        self.rng.below(self.plan.pace_ms as usize) as u64
    }

    pub fn later(&mut self, delay_ms: u64, pending: Pending) {
        self.queue.insert((self.now + delay_ms, self.rng.next()), pending);
    }

    fn step(&mut self) -> Result<bool, String> {
        let Some(((at, _), pending)) = self.queue.pop_first() else { return Ok(false) };
        self.now = self.now.max(at);
        self.log(|| format!("{pending:?}"));
        match pending {
            Pending::Call(host, effect) => self.call(host, effect)?,
            Pending::Land(effect) => drop(self.perform(None, &effect)?),
            Pending::Tell(host, input) => self.tell(host, input)?,
            Pending::Timer(host, timer, token) => {
                let host_state = &mut self.hosts[host];
                let known = host_state.timers.iter().position(|one| *one == (timer, token));
                if let Some(known) = known {
                    host_state.timers.remove(known);
                    self.tell(host, Input::Timer(timer))?;
                }
            }
            Pending::Return(host, attempt) => self.return_attempt(host, &attempt)?,
            Pending::Ask(host, attempt, what) => self.ask(host, &attempt, what)?,
            Pending::People(host) => self.people(host)?,
            Pending::Crash(host) => {
                self.crash(host);
                self.later_pause(Pending::Open);
            }
            Pending::Open => self.open()?,
        }
        Ok(true)
    }

    pub fn later_pause(&mut self, pending: Pending) {
        let pause = self.pause();
        self.later(pause, pending);
    }

    fn crash_somewhere(&mut self) {
        let alive: Vec<usize> = (0..self.hosts.len()).filter(|host| self.hosts[*host].alive).collect();
        if !alive.is_empty() && self.strikes("crash", 3) {
            let host = *self.rng.pick(&alive);
            self.crash(host);
            self.later_pause(Pending::Open);
        }
        if alive.len() > 1 {
            self.saw("two hosts");
        }
    }

    /// A process is gone. What it had sent to the store may arrive or not.
    pub fn crash(&mut self, host: usize) {
        self.log(|| format!("host {host} is gone"));
        self.hosts[host].alive = false;
        let rng = &self.rng;
        let lost = |pending: &mut Pending| matches!(pending, Pending::Call(of, _) if *of == host) && rng.chance(500);
        self.queue.retain(|_, pending| !lost(pending));
    }

    /// A call on its way to the store and back.
    fn call(&mut self, host: usize, effect: StoreEffect) -> Check {
        if self.strikes("store down", 10) {
            return self.answer(host, refused(&effect));
        }
        if self.strikes("lands late", 5) {
            let delay = self.rng.below(3 * self.plan.lease_ms as usize) as u64;
            let refused = refused(&effect);
            self.later(delay, Pending::Land(effect));
            return self.answer(host, refused);
        }
        if matches!(effect, StoreEffect::Append { .. } | StoreEffect::Renew { .. }) && self.strikes("claim ended", 5) {
            self.store.expire();
            self.hosts.iter_mut().for_each(|host| host.is_disturbed = true);
        }
        let answered = self.perform(Some(host), &effect)?;
        if self.strikes("ack lost", 10) {
            return self.answer(host, refused(&effect));
        }
        if self.strikes("hung store", 2) {
            let delay = self.rng.below(4 * self.plan.lease_ms as usize) as u64;
            self.later(delay, Pending::Crash(host));
            return Ok(());
        }
        self.answer(host, answered)
    }

    fn answer(&mut self, host: usize, input: Input) -> Check {
        let delay = if self.strikes("store slow", 5) {
            self.rng.below(self.plan.lease_ms as usize) as u64
        } else {
            self.pause() / 4
        };
        self.later(delay, Pending::Tell(host, input));
        Ok(())
    }

    fn perform(&mut self, host: Option<usize>, effect: &StoreEffect) -> Result<Input, String> {
        let now = self.now;
        Ok(match effect {
            StoreEffect::Create { entries, summary } => {
                let created = self.store.create(entries, summary);
                self.read_store()?;
                Input::Created(created)
            }
            StoreEffect::Claim { owner_id, lease_ms } => Input::Claimed(self.store.claim(owner_id, *lease_ms, now)),
            StoreEffect::Renew { claim, lease_ms } => {
                Input::Renewed { fence: claim.fence, result: self.store.renew(claim, *lease_ms, now) }
            }
            StoreEffect::Release { claim } => {
                if let Some(host) = host {
                    self.hosts[host].released.insert(claim.fence);
                }
                if !Distortion::ClaimKept.is(self.distortion) {
                    self.store.release(claim);
                }
                Input::Released
            }
            StoreEffect::Read { after } => {
                let at_most = if self.strikes("short read", 30) { 1 } else { usize::MAX };
                Input::Read(Ok(self.store.read(*after, at_most)))
            }
            StoreEffect::Append { claim, expected_revision, operation_id, entries, .. } => {
                let appended = self.store.append(claim, *expected_revision, operation_id, entries, now);
                self.read_store()?;
                Input::Appended(appended)
            }
            other => return Err(format!("teams do not ask for {other:?}")),
        })
    }

    /// The shadow reads what was written.
    fn read_store(&mut self) -> Check {
        let known = self.shadow.revision() as usize;
        for (batch, fence) in self.store.batches.iter().zip(&self.store.fences).skip(known) {
            let Batch { operation_id, entries, .. } = batch;
            let lines = self.distortion.map_or_else(|| entries.clone(), |distortion| distortion.lines(entries));
            self.shadow.read(operation_id, *fence, &lines)?;
            if Distortion::BatchTwice.is(self.distortion) {
                self.shadow.read(operation_id, *fence, &lines)?;
            }
            let text = entries.concat();
            for what in ["INPUT_LIMIT", "OUTPUT_LIMIT", "RESULT_INVALID", "PAUSE_INVALID", "WAIT_INVALID"] {
                if text.contains(what) {
                    *self.seen.entry(what).or_default() += 1;
                }
            }
            for (what, mark) in
                [("uncertain", "\"uncertain\""), ("answered", "\"answered/1\""), ("resumed", "\"resumed/1\"")]
            {
                if text.contains(mark) {
                    *self.seen.entry(what).or_default() += 1;
                }
            }
        }
        Ok(())
    }

    /// The engine's own fold of all bytes says what the shadow says.
    fn compare_fold(&mut self) -> Check {
        let (state, revision) = fold(&self.store.batches).map_err(|error| format!("T28: {error}"))?;
        super::checks::state(&self.shadow, &state, revision)
    }
}

pub fn rule(holds: bool, otherwise: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// Nobody knows what became of a call.
fn refused(effect: &StoreEffect) -> Input {
    let failure: StoreFailure = unknown("the store cannot be reached");
    match effect {
        StoreEffect::Create { .. } => Input::Created(Err(failure)),
        StoreEffect::Claim { .. } => Input::Claimed(Err(failure)),
        StoreEffect::Renew { claim, .. } => Input::Renewed { fence: claim.fence, result: Err(failure) },
        StoreEffect::Read { .. } => Input::Read(Err(failure)),
        StoreEffect::Append { .. } => Input::Appended(Err(failure)),
        _ => Input::Released,
    }
}
