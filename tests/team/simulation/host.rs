//! One process with a handle on the team, and the people who call it.

use super::checks;
use super::distortion::Distortion;
use super::world::{Check, Pending, World, rule};
use agent_roundtable::conversation::effect::Effect as StoreEffect;
use agent_roundtable::conversation::input::{CallId, Now, Ticket, Timer};
use agent_roundtable::record::model::{Request as Asked, RequestKind, RuntimeReference};
use agent_roundtable::team::event::Created;
use agent_roundtable::team::machine::{Effect, Input, Traits};
use agent_roundtable::team::outcome::Outcome;
use agent_roundtable::team::turns::Run;
use agent_roundtable::team::{Definition, Machine};
use agent_roundtable::value::{Json, read::read};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub struct Host {
    pub machine: Machine,
    pub alive: bool,
    pub timers: Vec<(Timer, u64)>,
    /// Members under way, by attempt.
    pub runs: BTreeMap<String, Running>,
    pub given_up: BTreeSet<String>,
    /// Attempts that returned during the present call.
    pub returned: Vec<String>,
    /// Questions by ticket: the attempt, what it asked, and whether it was running.
    pub tickets: BTreeMap<Ticket, (String, &'static str, bool)>,
    /// Calls that have no reply so far, and what they are.
    pub calls: BTreeMap<CallId, Call>,
    pub last: Option<Outcome>,
    pub emitted: u64,
    /// Somebody took its claim away although it had renewed it.
    pub is_disturbed: bool,
    /// Fences of the claims it gave back.
    pub released: BTreeSet<u64>,
    pub compared: u64,
    owner: String,
    is_disposed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Run,
    Resume,
    /// While another is at work.
    Second,
    Dispose,
}

pub struct Running {
    pub member: usize,
    pub aborted: bool,
    pub answers: usize,
}

impl Host {
    /// The outcome after which nothing follows.
    pub fn ended(&self) -> Option<&Outcome> {
        let is_end = |outcome: &&Outcome| !matches!(outcome, Outcome::Paused { .. } | Outcome::Cancelled);
        self.last.as_ref().filter(is_end)
    }

    pub fn holds(&self, owner: &str) -> bool {
        self.owner == owner
    }
}

impl World {
    pub fn open(&mut self) -> Check {
        let text = |message: String| format!("the team is refused: {message}");
        let definition = Json::parse(&self.plan.definition()).map_err(|error| text(error.message))?;
        let definition = Rc::new(Definition::compile(&definition).map_err(|issues| text(format!("{issues:?}")))?);
        let options = read(&self.plan.options().to_string()).map_err(|error| text(error.message))?;
        let json = definition.json.clone();
        let created = Created { run_id: "run".into(), at: "".into(), seed: "seed".into(), definition: json, options };
        let reference = || RuntimeReference { id: "agent".into(), version: "1".into() };
        let traits = |m: &super::plan::Member| Traits { retry_safe: m.retry_safe, runtime: m.is_agent.then(reference) };
        let traits: Vec<Traits> = self.plan.members.iter().map(traits).collect();
        let owner = format!("host-{}", self.hosts.len());
        let (id, lease_ms) = (owner.as_str().into(), self.plan.lease_ms);
        let loads = !self.store.batches.is_empty() && self.rng.chance(500);
        let machine = if loads {
            Machine::load(&self.store.batches, traits, id, lease_ms).map_err(|error| format!("T28: {error}"))?
        } else {
            Machine::new(created, definition, traits, id, lease_ms)
        };
        let machine = machine.settling_within(self.plan.settle_ms);
        self.hosts.push(Host {
            emitted: machine.revision(),
            machine,
            alive: true,
            timers: Vec::new(),
            runs: BTreeMap::new(),
            given_up: BTreeSet::new(),
            returned: Vec::new(),
            tickets: BTreeMap::new(),
            calls: BTreeMap::new(),
            last: None,
            is_disturbed: false,
            released: BTreeSet::new(),
            compared: 0,
            owner,
            is_disposed: false,
        });
        self.later_pause(Pending::People(self.hosts.len() - 1));
        Ok(())
    }

    pub fn people(&mut self, host: usize) -> Check {
        if !self.hosts[host].alive || self.hosts[host].is_disposed {
            return Ok(());
        }
        let delay = 1 + 8 * self.pause();
        self.later(delay, Pending::People(host));
        let working = self.hosts[host].calls.keys().next().copied();
        match working {
            None if self.quiet || self.rng.chance(800) => self.call_for_work(host),
            Some(call) if !self.quiet => match self.rng.below(16) {
                0 | 1 => {
                    self.saw("aborted");
                    self.tell(host, Input::Aborted { call })
                }
                2 => self.request(host, Call::Second, &json!("run")),
                3 if self.rng.chance(300) => {
                    self.hosts[host].is_disposed = true;
                    self.request(host, Call::Dispose, &json!("dispose"))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn call_for_work(&mut self, host: usize) -> Check {
        let asked: Vec<Asked> = match &self.hosts[host].last {
            Some(Outcome::Paused { requests, .. }) if self.quiet || self.rng.chance(800) => requests.clone(),
            _ => Vec::new(),
        };
        if asked.is_empty() {
            return self.request(host, Call::Run, &json!("run"));
        }
        let asked = self.rng.pick(&asked).clone();
        let by_position = asked.id.ends_with("/pause") && self.rng.chance(400);
        let mut resume = json!({});
        if by_position {
            resume["position"] = json!(&*asked.turn_id);
        } else {
            resume["requestId"] = json!(&*asked.id);
            if !asked.id.ends_with("/pause") || self.rng.chance(500) {
                resume["response"] = response(asked.kind);
            }
        }
        if self.strikes("bad resume", 30) {
            let wrong = self.rng.below(3);
            match wrong {
                0 => resume = json!({ "position": "team/nobody/1" }),
                1 => resume["expectedRevision"] = json!(9_999),
                _ => resume["response"] = json!({ "kind": "input", "content": "of another kind" }),
            }
        }
        self.request(host, Call::Resume, &json!({ "resume": resume }))
    }

    fn request(&mut self, host: usize, kind: Call, request: &Value) -> Check {
        self.drawn += 1;
        let call = self.drawn as CallId;
        if matches!(kind, Call::Run | Call::Resume) {
            self.hosts[host].returned.clear();
        }
        self.hosts[host].calls.insert(call, kind);
        self.tell_json(host, &json!({ "called": { "call": call, "request": request } }))
    }

    /// A host's machine takes an input, and what it wants done begins.
    pub fn tell(&mut self, host: usize, input: Input) -> Check {
        if !self.hosts[host].alive {
            return Ok(());
        }
        let now = self.now as f64;
        self.hosts[host].machine.handle_input(Now { wall: 1_700_000_000_000.0 + now, mono: now }, input);
        while let Some(effect) = self.hosts[host].machine.poll_effect() {
            self.log(|| format!("    host {host}: {effect:?}"));
            self.effect(host, effect)?;
        }
        checks::durable(self, host)
    }

    fn effect(&mut self, host: usize, effect: Effect) -> Check {
        match effect {
            Effect::Store(StoreEffect::StartTimer { timer, delay_ms }) => {
                self.drawn += 1;
                let token = self.drawn;
                self.hosts[host].timers.retain(|(other, _)| *other != timer);
                self.hosts[host].timers.push((timer, token));
                let late = if self.strikes("timer late", 20) { self.pause() } else { 0 };
                self.later(delay_ms.ceil() as u64 + late, Pending::Timer(host, timer, token));
            }
            Effect::Store(StoreEffect::StopTimer { timer }) => {
                self.hosts[host].timers.retain(|(other, _)| *other != timer);
            }
            Effect::Store(call) => {
                let delay = self.pause() / 4;
                self.later(delay, Pending::Call(host, call));
            }
            Effect::Run(run) => return self.called(host, *run),
            Effect::Abort { attempt, .. } => {
                for _ in 0..1 + usize::from(Distortion::AbortTwice.is(self.distortion)) {
                    let running = self.hosts[host].runs.get_mut(&*attempt).filter(|running| !running.aborted);
                    let running = running.ok_or_else(|| format!("signal: {attempt} is not running, or was told"))?;
                    running.aborted = true;
                }
                self.signalled(host, &attempt);
            }
            Effect::GiveUp { attempt, member } => {
                let running = self.hosts[host].runs.remove(&*attempt);
                let fits = running.is_some_and(|running| running.aborted && running.member == member);
                rule(fits && self.plan.settle_ms.is_some(), || format!("signal: {attempt} is given up"))?;
                self.hosts[host].given_up.insert(attempt.to_string());
                self.saw("given up");
                let delay = self.rng.below(2 * self.plan.lease_ms as usize) as u64;
                self.later(delay, Pending::Return(host, attempt.to_string()));
            }
            Effect::Reply { call, result } => {
                for _ in 0..1 + usize::from(Distortion::ReplyTwice.is(self.distortion)) {
                    let kind =
                        self.hosts[host].calls.remove(&call).ok_or_else(|| format!("reply: call {call} twice"))?;
                    let mut result = result.clone();
                    if let (Ok((_, Some(outcome))), Some(distortion)) = (&mut result, self.distortion) {
                        distortion.outcome(outcome);
                    }
                    checks::reply(self, host, kind, &result)?;
                    if let Ok((_, Some(outcome))) = result {
                        self.hosts[host].last = Some(outcome);
                    }
                    if kind == Call::Dispose {
                        self.crash(host);
                        self.later_pause(Pending::Open);
                    }
                }
            }
            Effect::Answer { ticket, result } => {
                let asked = self.hosts[host].tickets.remove(&ticket);
                let (attempt, what, ran) = asked.ok_or_else(|| format!("reply: ticket {ticket} twice"))?;
                rule(ran || result.is_err(), || format!("T15: {what} of {attempt}, which was over"))?;
                if result.is_ok() && what == "admit" {
                    self.saw("admitted");
                    self.later_pause(Pending::Ask(host, attempt.clone(), "report"));
                    self.later_pause(Pending::Ask(host, attempt, "record"));
                }
            }
            Effect::Emit { revision, events } => {
                if !Distortion::EmissionMissing.is(self.distortion) || self.rng.chance(500) {
                    checks::emission(self, host, revision, &events)?;
                }
                if Distortion::EmissionTwice.is(self.distortion) {
                    checks::emission(self, host, revision, &events)?;
                }
            }
        }
        Ok(())
    }

    fn called(&mut self, host: usize, mut run: Run) -> Check {
        if let Some(distortion) = self.distortion {
            distortion.run(&mut run);
        }
        for _ in 0..1 + usize::from(Distortion::RunTwice.is(self.distortion)) {
            checks::run(self, host, &run)?;
            let running = Running { member: run.member, aborted: false, answers: run.answers.len() };
            self.hosts[host].runs.insert(run.attempt.to_string(), running);
        }
        self.begin(host, &run.attempt);
        Ok(())
    }
}

fn response(kind: RequestKind) -> Value {
    match kind {
        RequestKind::Input => json!({ "kind": "input", "content": "words" }),
        RequestKind::Approval => json!({ "kind": "approval", "approved": true }),
        RequestKind::Reconciliation => json!({ "kind": "reconciliation", "data": null }),
    }
}
