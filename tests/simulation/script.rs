//! The caller: makes runs, aborts them, answers what they wait for, and talks out of turn.

use crate::answers;
use crate::executor::{First, Promise, race};
use crate::faults::Fault;
use crate::host::{CallResult, SimHost};
use crate::world::World;
use crate::{member, rival, schedule};
use agent_roundtable::conversation::effect::Reply;
use agent_roundtable::conversation::error::{Code, UnsettledTurn};
use agent_roundtable::conversation::input::{CallId, Input, Request};
use agent_roundtable::conversation::{Config, LimitsPatch, Machine};
use agent_roundtable::driver::Driver;
use agent_roundtable::record::model::{Decision, Limits, RunOutcome};
use std::rc::Rc;

/// The rough part of a schedule.
pub async fn play(host: &SimHost) {
    let world = &host.world;
    for _ in 0..world.plan.runs {
        disturb(host);
        if world.rng.chance(80) {
            come_late(host).await;
        }
        if world.rng.chance(300) {
            answers::speak_up(host).await;
        }
        let result = run(host).await;
        match &result {
            Ok(Reply::Ran { outcome: RunOutcome::Waiting, .. }) => answers::give(host).await,
            Ok(_) => {}
            Err(error) if error.code == Code::Disposed => break,
            Err(_) => world.executor.sleep(world.pause_ms()).await,
        }
        if world.rng.chance(150) {
            answers::give(host).await;
        }
    }
}

/// The calm end: the same handle must be able to finish, or to say for good why not.
pub async fn finish(host: &SimHost) {
    let world = &host.world;
    world.faults.silence();
    world.executor.slow_per_mille.set(0);
    await_rest(host).await;
    // People are asked again and again where the built-in policy goes round: some rounds will do.
    for _ in 0..8 {
        let (_, settled) = host.call(Request::Run { limits: Some(generous(world)) });
        match settled.wait().await {
            Ok(Reply::Ran {
                outcome: outcome @ (RunOutcome::Completed { .. } | RunOutcome::Failed { .. }), ..
            }) => {
                return repeat_last_word(host, &outcome).await;
            }
            Ok(Reply::Ran { outcome: RunOutcome::Limited { .. }, .. }) => return,
            Ok(Reply::Ran { outcome: RunOutcome::Waiting, .. }) => answers::give_all(host).await,
            Err(error) if !error.turns.is_empty() => reconcile(host, &error.turns).await,
            Err(error) if matches!(error.code, Code::Disposed | Code::RecoveryRequired | Code::InvalidRecord) => return,
            Err(error) if error.code == Code::NotFound && world.store.borrow().is_deleted => return,
            // What looked like another's record when it was read back, garbled, stays one.
            Err(error) if error.code == Code::Conflict && world.excuses.corrupted.get().is_some() => return,
            other => return world.fail(format!("the calm end gives {other:?}")),
        }
    }
    world.coverage.borrow_mut().note("still waiting at the end");
}

/// C49: says what became of each turn; where it cannot be saved, that it failed.
pub async fn reconcile(host: &SimHost, turns: &[UnsettledTurn]) {
    for turn in turns {
        let decided = member::decision(host, turn);
        for decision in [decided, Decision::Fail { message: "given up".into() }] {
            host.world.may_fail.set(host.world.may_fail.get() || matches!(decision, Decision::Fail { .. }));
            let expected_revision = host.mirror.borrow().revision;
            let (turn_id, by) = (turn.turn_id.clone(), "operator".into());
            let (_, settled) = host.call(Request::Reconcile { turn_id, expected_revision, by, decision });
            match settled.wait().await {
                Ok(_) => break,
                // What an attempt gave late changes what a host must have seen.
                Err(error) => host.world.demand(error.code == Code::Conflict, || format!("C49: {error:?}")),
            }
        }
    }
}

/// The end of the handle.
pub async fn leave(host: &SimHost) {
    for _ in 0..2 {
        let (_, settled) = host.call(Request::Dispose { inside: false });
        let result = settled.wait().await;
        host.world.demand(matches!(result, Ok(Reply::Disposed { .. })), || format!("C37: dispose gives {result:?}"));
    }
    let (_, settled) = host.call(Request::Run { limits: None });
    let result = settled.wait().await;
    let refused = result.as_ref().is_err_and(|error| error.code == Code::Disposed);
    host.world.demand(refused, || format!("C37: a run after dispose gives {result:?}"));
}

/// A second run, which is refused where the first still works.
pub async fn run_unless_busy(host: &SimHost) {
    let (call, settled) = host.call(Request::Run { limits: None });
    watch(host, call, &settled);
    settled.wait().await.err();
}

async fn run(host: &SimHost) -> CallResult {
    let world = &host.world;
    if world.rng.chance(50) {
        misconfigure(host).await;
    }
    let limits = world.rng.chance(150).then(|| generous(world));
    let (call, settled) = host.call(Request::Run { limits });
    if world.rng.chance(world.plan.aborts_per_mille) {
        abort_later(host, call);
    }
    if world.strikes(Fault::DisposedInRun) {
        let host = host.clone();
        world.executor.clone().spawn(async move {
            host.world.executor.sleep(host.world.pause_ms()).await;
            let (_, settled) = host.call(Request::Dispose { inside: false });
            settled.wait().await.err();
        });
    }
    if world.rng.chance(200) {
        answers::interrupt(host);
    }
    if world.rng.chance(50) {
        let visitor = world.clone();
        world.executor.spawn(async move {
            visitor.executor.sleep(visitor.pause_ms()).await;
            rival::visit(&visitor);
        });
    }
    watch(host, call, &settled);
    settled.wait().await
}

/// C3: a cap on tokens asks everybody to say whether they call models.
async fn misconfigure(host: &SimHost) {
    if host.world.plan.is_declared() {
        return;
    }
    let limits = LimitsPatch { max_tokens_per_run: Some(5), ..LimitsPatch::default() };
    let (_, settled) = host.call(Request::Run { limits: Some(limits) });
    let result = settled.wait().await;
    let declared = host.world.plan.roles.iter().all(|role| role.is_external || role.is_metered);
    host.world.demand(declared || result.is_err(), || format!("C3: {limits:?} is taken: {result:?}"));
}

fn abort_later(host: &SimHost, call: CallId) {
    let host = host.clone();
    host.world.executor.clone().spawn(async move {
        let world = &host.world;
        world.coverage.borrow_mut().note("signal fired");
        for _ in 0..world.rng.between(1, 2) {
            world.executor.sleep(world.pause_ms() * world.rng.between(0, 4)).await;
            host.input(Input::Aborted { call });
        }
    });
}

/// Whatever hangs is aborted in the end: the caller's patience is finite.
fn watch(host: &SimHost, call: CallId, settled: &Rc<Promise<CallResult>>) {
    let (host, settled) = (host.clone(), settled.clone());
    let patience = match host.world.shadow.borrow().limits.and_then(|limits| limits.timeout_ms) {
        Some(ms) if ms > 1_000_000 && host.world.plan.lease_ms > ms => 2 * ms,
        _ => 3_000 * host.world.plan.pace_ms,
    };
    host.world.executor.clone().spawn(async move {
        if let First::Right(()) = race(settled.wait(), host.world.executor.sleep(patience)).await {
            host.world.coverage.borrow_mut().note("patience ran out");
            host.input(Input::Aborted { call });
        }
    });
}

/// C46: another handle that means to create the same conversation is told that it exists.
async fn come_late(host: &SimHost) {
    let world = &host.world;
    if world.store.borrow().revision() == 0 || world.store.borrow().is_deleted {
        return;
    }
    let owner_id = format!("late-{}", world.number());
    let mut options = world.options.clone();
    options["seed"] = "another".into();
    let config = Config::read(&schedule::parsed(&options)).unwrap();
    let late = SimHost::new(world, &owner_id, true);
    let driver = Driver::new(Machine::new(config, owner_id.as_str().into()).unwrap(), late.clone());
    late.bind(&driver);
    let (_, settled) = late.call(Request::Run { limits: None });
    let result = settled.wait().await;
    let refused =
        result.as_ref().is_err_and(|error| matches!(error.code, Code::Conflict | Code::Unavailable | Code::NotFound));
    world.demand(refused, || format!("C46: a second creation gives {result:?}"));
    world.coverage.borrow_mut().note("created again");
}

fn disturb(host: &SimHost) {
    let world = &host.world;
    if world.strikes(Fault::WallClockSet) {
        world.executor.shift_wall(world.rng.between(0, 20_000_000) as i64 - 10_000_000);
    }
    if world.rng.chance(100) {
        rival::visit(world);
    }
}

/// Nothing is under way any more, here or at the store: the last late write has landed, the last claim
/// was given back or has run out.
async fn await_rest(host: &SimHost) {
    let world = &host.world;
    world.executor.sleep(101 * world.plan.pace_ms).await;
    while host.check.borrow().calls.are_open() || world.is_held() {
        world.executor.sleep(world.plan.lease_ms.max(1_000)).await;
    }
}

/// Caps that let a run go on; those that were never set stay unset.
fn generous(world: &World) -> LimitsPatch {
    let now: Limits = world.shadow.borrow().limits.unwrap_or(world.plan.limits);
    LimitsPatch {
        max_turns_per_run: Some(now.max_turns_per_run.max(12)),
        timeout_ms: now.timeout_ms.map(|_| 1_000_000_000_000),
        settle_timeout_ms: None,
        max_model_calls_per_run: now.max_model_calls_per_run.map(|_| 100_000),
        max_model_calls_per_conversation: now.max_model_calls_per_conversation.map(|_| 100_000),
        max_model_calls_per_participant: now.max_model_calls_per_participant.map(|_| 100_000),
        max_tokens_per_run: now.max_tokens_per_run.map(|_| 100_000_000),
    }
}

async fn repeat_last_word(host: &SimHost, last_word: &RunOutcome) {
    let (_, settled) = host.call(Request::Run { limits: None });
    let again = settled.wait().await;
    let same = matches!(&again, Ok(Reply::Ran { outcome, .. }) if outcome == last_word);
    host.world.demand(same, || format!("a final {last_word:?} is followed by {again:?}"));
}
