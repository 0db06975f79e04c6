//! C50: a process dies at every append of a conversation, before it landed and after, with the
//! acknowledgement lost; another loads what is stored, its host says what became of turns that nobody saw
//! settle, and the conversation ends as if nothing had happened: the same messages in the same order, and
//! no effect twice.
//!
//! Everybody plays from a part that the seed wrote: what a member says follows from its private state, what
//! the selector decides from its place, what a person answers from the question.

use crate::executor::Step;
use crate::faults::Mix;
use crate::host::SimHost;
use crate::member::private_state_of;
use crate::plan::{CHECKPOINT_VERSION, Plan, Role, SelectorPlan};
use crate::rng::Rng;
use crate::schedule::{Watch, parsed};
use crate::shadow::Stage;
use crate::world::World;
use agent_roundtable::conversation::binding::bind;
use agent_roundtable::conversation::effect::Reply;
use agent_roundtable::conversation::error::{RoundtableError, UnsettledTurn};
use agent_roundtable::conversation::input::Request;
use agent_roundtable::conversation::{Config, Machine};
use agent_roundtable::driver::Driver;
use agent_roundtable::record::codec::decode;
use agent_roundtable::record::entry::Entry;
use agent_roundtable::record::model::{
    self, Decision, Id, InputResponse, Limits, ModelCalls, Outcome, ParticipantRequest, RequestKind, Response,
    RunOutcome, Selection,
};
use agent_roundtable::record::reading::Journal;
use agent_roundtable::record::snapshot;
use agent_roundtable::record::state::State;
use agent_roundtable::value::{CanonicalJson, Json};
use serde_json::json;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// When a process dies: at which write to the store, and on which side of it.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    pub write: u64,
    pub landed: bool,
}

/// The parts that everybody plays.
pub struct Script {
    seed: u64,
    decisions: Vec<Selection>,
    /// What was done in the world outside, by participant and private state: it survives every crash.
    pub effects: std::cell::RefCell<BTreeMap<(Id, u64), u32>>,
}

/// The steps of a member: tens count settled turns, units the waits of the present one.
pub type Steps = u64;

impl Script {
    pub fn decision(&self, place: u64) -> Selection {
        let finish = Selection::Finish { reason: "the script ends".into() };
        self.decisions.get(place as usize).cloned().unwrap_or(finish)
    }

    /// What an attempt from this state comes to, and the state after it.
    pub fn outcome(&self, role: &Role, steps: Steps, people: &[Id]) -> (Outcome, Steps) {
        let rng = Rng::new(self.seed ^ steps.wrapping_mul(0x1234_5677) ^ role.id.len() as u64);
        let (turn, waits) = (steps / 10, steps % 10);
        if waits < 2 && rng.chance(300) {
            let requests = (0..rng.between(1, 2)).map(|n| self.request(role, steps, n, people)).collect();
            return (Outcome::Wait { requests }, steps + 1);
        }
        let outcome = match rng.chance(150) {
            true => Outcome::Yield,
            false => Outcome::Speak { content: format!("{} in turn {turn} after {waits} waits", role.id).into() },
        };
        (outcome, (turn + 1) * 10)
    }

    fn request(&self, role: &Role, steps: Steps, n: u64, people: &[Id]) -> ParticipantRequest {
        let id: Id = format!("ask-{}-{steps}-{n}", role.id).into();
        let person = people.first().filter(|_| n == 0).cloned();
        let (kind, data) = match person {
            Some(_) => (RequestKind::Input, None),
            None => (RequestKind::Approval, Some(CanonicalJson::of(&Json::Bool(true)))),
        };
        ParticipantRequest { reason: id.clone(), id, kind, participant_id: person, data }
    }

    /// An effect in the world outside; whoever repeats one breaks C50.
    pub fn perform(&self, world: &World, role: &Role, steps: Steps) {
        let mut effects = self.effects.borrow_mut();
        let times = effects.entry((role.id.clone(), steps)).or_default();
        *times += 1;
        world.demand(*times == 1, || format!("C50: the effect of {} at {steps} happens {times} times", role.id));
    }

    fn has_happened(&self, role: &Id, steps: Steps) -> bool {
        self.effects.borrow().contains_key(&(role.clone(), steps))
    }
}

/// The steps that a private state holds.
pub fn steps_of(checkpoint: Option<&model::Checkpoint>) -> Steps {
    checkpoint.map_or(0, |checkpoint| checkpoint.data.as_str().parse().unwrap())
}

/// How many conversations are killed at each of their writes.
const CONVERSATIONS: u64 = 12;

pub fn at_every_write() {
    let (mut died, mut reconciled, mut retried) = (0, 0, 0);
    for seed in 0..CONVERSATIONS {
        let (expected, writes) = {
            let end = play(seed, &[]);
            (end.messages, end.writes)
        };
        assert!(expected.len() > 2, "seed {seed} says little: {expected:?}");
        for write in 0..writes {
            for landed in [false, true] {
                let second = Crash { write: write + 2 + seed % 3, landed: !landed };
                let crashes = [Crash { write, landed }, second];
                let count = if (write + seed) % 3 == 0 { 2 } else { 1 };
                let end = play(seed, &crashes[..count]);
                assert_eq!(end.messages, expected, "seed {seed}, {crashes:?}");
                died += end.died;
                reconciled += end.reconciled;
                retried += end.retried;
            }
        }
    }
    println!("{died} processes died, {reconciled} turns were reconciled, {retried} of them ran again");
    assert!(died > 500 && retried > 100 && reconciled > retried + 100);
}

/// How a conversation ended.
struct End {
    messages: Vec<(Id, Rc<str>)>,
    writes: u64,
    died: u64,
    reconciled: u64,
    retried: u64,
}

fn play(seed: u64, crashes: &[Crash]) -> End {
    let rng = Rc::new(Rng::new(seed));
    let (plan, script) = draw(seed, &rng);
    let mut options = plan.config(seed);
    options["recovery"] = json!("durable");
    options["storeDurability"] = json!("durable");
    let world =
        World::new(plan, options.clone(), rng, Watch { logs: std::env::var("SIM_LOG").is_ok(), ..Watch::default() });
    *world.script.borrow_mut() = Some(Rc::new(script));
    world.faults.silence();
    let mut end = End { messages: Vec::new(), writes: 0, died: 0, reconciled: 0, retried: 0 };
    let mut next = crashes.iter();
    loop {
        world.crash.set(next.next().copied());
        world.crashed.set(false);
        let name = format!("process-{}", end.died);
        let host = SimHost::new(&world, &name, false);
        let (machine, lost) = open(&world, &host, &options, &name);
        let driver = Driver::new(machine, host.clone());
        host.bind(&driver);
        let (done, counts) = (Rc::new(Cell::new(false)), Rc::new(Cell::new((0, 0))));
        let (player, flag, counted) = (host.clone(), done.clone(), counts.clone());
        world.executor.spawn(async move {
            counted.set(reconcile(&player, &lost).await);
            finish(&player).await;
            flag.set(true);
        });
        while world.failure().is_none() && !world.crashed.get() && world.executor.step() != Step::Idle {
            host.check.borrow_mut().step_ended();
        }
        if let Some(failure) = world.failure() {
            let log = crate::world::take_log();
            panic!("{}\nseed {seed}, {crashes:?}: {failure}", log[log.len().saturating_sub(60)..].join("\n"));
        }
        end.reconciled += counts.get().0;
        end.retried += counts.get().1;
        if done.get() {
            break;
        }
        assert!(world.crashed.get(), "seed {seed}: stuck: {}", host.check.borrow().describe());
        end.died += 1;
        world.executor.clear();
        // The claim of the dead is waited for.
        world.store.borrow_mut().expire();
    }
    end.writes = world.writes.get();
    end.messages =
        world.shadow.borrow().messages.iter().map(|m| (m.participant_id.clone(), m.content.clone())).collect();
    let left = world.shadow.borrow().last_word.clone();
    assert!(matches!(left, Some(RunOutcome::Completed { .. })), "seed {seed}: {left:?}");
    world.executor.clear();
    end
}

/// The machine of a fresh process: new where nothing is stored yet, else loaded; and the turns that nobody
/// saw settle, which are those that the last entries say.
pub fn open(
    world: &Rc<World>,
    host: &SimHost,
    options: &serde_json::Value,
    owner_id: &str,
) -> (Machine, Vec<UnsettledTurn>) {
    let owner: Id = owner_id.into();
    let Some(state) = stored(world) else {
        return (Machine::new(Config::read(&parsed(options)).unwrap(), owner).unwrap(), Vec::new());
    };
    let mut today = options.clone();
    if world.plan.host_selector.is_some() {
        today["selector"]["checkpointVersions"] = json!([CHECKPOINT_VERSION]);
    }
    let lost = match bind(state.clone(), &parsed(&today)) {
        Ok(_) => Vec::new(),
        Err(RoundtableError { turns, .. }) => turns,
    };
    let listed: BTreeSet<Id> = lost.iter().map(|turn| turn.turn_id.clone()).collect();
    assert_eq!(listed, left_running(world), "C48: exactly the turns that were left");
    for turn in &lost {
        let shadow = world.shadow.borrow();
        let settled = shadow.find_turn(&turn.turn_id).filter(|turn| turn.stage == Stage::Settled);
        let kept = settled.and_then(|turn| turn.outcome.clone());
        assert_eq!(turn.outcome, kept, "C48: a stored outcome is offered");
    }
    today["unsettled"] = json!("reconcile");
    host.restore(&state);
    let bound = bind(state, &parsed(&today)).unwrap();
    let model_calls = world.plan.host_selector.as_ref().filter(|s| s.is_metered).map(|_| ModelCalls::Metered);
    (bound.open(owner, Vec::new(), model_calls).unwrap(), lost)
}

/// What a load folds: the snapshot and the batches after it, which is what all batches fold into (C53).
fn stored(world: &World) -> Option<State> {
    let store = world.store.borrow();
    let fold = |mut journal: Journal, after: u64| {
        for batch in store.batches.iter().filter(|batch| batch.revision > after) {
            journal.add(batch.revision, batch.entries.iter().map(String::as_str), |_, _, _| {}).unwrap();
        }
        journal.into_state()
    };
    let whole = fold(Journal::default(), 0);
    let Some((revision, text)) = &store.snapshot else { return whole };
    let quick = fold(Journal::after(snapshot::decode(text).unwrap()), *revision);
    assert_eq!(quick, whole, "C53");
    quick
}

/// The turns whose last entry says that an attempt is under way.
pub fn left_running(world: &World) -> BTreeSet<Id> {
    let mut left = BTreeSet::new();
    for line in world.store.borrow().batches.iter().flat_map(|batch| &batch.entries) {
        match decode(line).unwrap() {
            Entry::TurnStarted(turn) => drop(left.insert(turn.turn_id)),
            Entry::TurnPrepared(turn) => drop(left.remove(&turn.turn_id)),
            Entry::TurnStopped(turn) => drop(left.remove(&turn.turn_id)),
            Entry::TurnFailed(turn) => drop(left.remove(&turn.turn_id)),
            Entry::Reconciled(turn) => drop(left.remove(&turn.turn_id)),
            _ => {}
        }
    }
    left
}

/// What happened outside has happened: it is settled with what came of it; the rest runs again.
async fn reconcile(host: &SimHost, lost: &[UnsettledTurn]) -> (u64, u64) {
    let (world, script) = (&host.world, host.world.script().unwrap());
    let (mut reconciled, mut retried) = (0, 0);
    for turn in lost {
        let role = world.plan.roles.iter().find(|role| role.id == turn.participant_id).unwrap();
        let steps = steps_of(world.shadow.borrow().saved_state(&role.id).as_ref());
        let (outcome, after) = script.outcome(role, steps, &world.people());
        world.demand(turn.outcome.is_none() || turn.outcome.as_ref() == Some(&outcome), || {
            format!("C48: {:?} is offered where {outcome:?} was returned", turn.outcome)
        });
        let decision = match script.has_happened(&role.id, steps) {
            true => Decision::Settle { outcome, checkpoint: Some(private_state_of(CHECKPOINT_VERSION, after)) },
            false => Decision::Retry,
        };
        retried += u64::from(decision == Decision::Retry);
        reconciled += 1;
        let expected_revision = host.mirror.borrow().revision;
        let (turn_id, by) = (turn.turn_id.clone(), "operator".into());
        let (_, settled) = host.call(Request::Reconcile { turn_id, expected_revision, by, decision });
        let result = settled.wait().await;
        world.demand(result.is_ok(), || format!("C49: {result:?}"));
    }
    (reconciled, retried)
}

/// Runs to the end, answering whatever is asked, the same answer whoever asks again.
async fn finish(host: &SimHost) {
    let world = &host.world;
    loop {
        let open: Vec<model::Request> = world.shadow.borrow().open_requests();
        for request in open {
            let response = match request.kind {
                RequestKind::Input => {
                    Response::Input(InputResponse::Said { content: format!("as to {}", request.reason).into() })
                }
                _ => Response::Approval { approved: true, reason: None },
            };
            let (_, settled) = host.call(Request::Resume {
                response_id: format!("to {}", request.id).into(),
                request_id: request.id,
                expected_revision: host.mirror.borrow().revision,
                response,
                by: None,
            });
            let result = settled.wait().await;
            world.demand(result.is_ok(), || format!("C50: an answer is refused: {result:?}"));
        }
        let (_, settled) = host.call(Request::Run { limits: None });
        match settled.wait().await {
            Ok(Reply::Ran { outcome: RunOutcome::Completed { .. }, .. }) => return,
            Ok(Reply::Ran { outcome: RunOutcome::Waiting, .. }) => {}
            other => return world.fail(format!("C50: the conversation goes on with {other:?}")),
        }
    }
}

pub fn draw(seed: u64, rng: &Rng) -> (Plan, Script) {
    let role = |n: u64| Role {
        id: format!("{}{n}", "member-".repeat(n as usize + 1)).into(),
        is_external: false,
        has_checkpoint: true,
        can_continue: true,
        is_metered: rng.chance(400),
        version: CHECKPOINT_VERSION,
    };
    let mut roles: Vec<Role> = (0..rng.between(2, 4)).map(role).collect();
    if rng.chance(700) {
        roles.push(Role {
            id: "pia".into(),
            is_external: true,
            has_checkpoint: false,
            can_continue: false,
            is_metered: false,
            version: CHECKPOINT_VERSION,
        });
    }
    let agents: Vec<Id> = roles.iter().filter(|role| !role.is_external).map(|role| role.id.clone()).collect();
    let person = roles.iter().find(|role| role.is_external).map(|role| role.id.clone());
    let decisions = (0..rng.between(3, 6)).map(|place| match (rng.below(4), &person) {
        (0, Some(person)) => Selection::Wait { participant_id: person.clone(), reason: format!("step {place}").into() },
        (1, _) => Selection::Speak { participant_id: rng.pick(&agents).clone() },
        _ => Selection::Parallel { participant_ids: agents[..rng.between(1, agents.len() as u64) as usize].into() },
    });
    let script = Script { seed, decisions: decisions.collect(), effects: Default::default() };
    let selector = SelectorPlan { has_reference: true, has_checkpoint: true, is_metered: false, finish_per_mille: 0 };
    let limits = Limits {
        max_turns_per_run: 100,
        timeout_ms: None,
        settle_timeout_ms: None,
        max_model_calls_per_run: None,
        max_model_calls_per_conversation: None,
        max_model_calls_per_participant: None,
        max_tokens_per_run: None,
    };
    let plan = Plan {
        mix: Mix::Calm,
        conversation_id: format!("crash-{seed}").into(),
        host_selector: Some(selector),
        limits,
        max_concurrent: rng.between(1, 3),
        lease_ms: 30_000,
        priced: false,
        runs: 1,
        pace_ms: 10,
        calls_per_attempt: 2,
        waits_per_mille: 0,
        aborts_per_mille: 0,
        roles,
    };
    (plan, script)
}
