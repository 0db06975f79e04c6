//! How the host's selector decides: mostly well, sometimes what no run could do.

use crate::executor::{First, race};
use crate::faults::Fault;
use crate::host::{Attempt, SimHost};
use crate::member::{private_state, private_state_of, thrown};
use crate::metering;
use crate::plan::CHECKPOINT_VERSION;
use agent_roundtable::conversation::error::Thrown;
use agent_roundtable::conversation::input::Decision;
use agent_roundtable::record::model::{Id, Selection};
use std::rc::Rc;

pub async fn select(host: &SimHost, attempt: Rc<Attempt>, remaining: u64) -> Result<Decision, Thrown> {
    let world = &host.world;
    world.demand(remaining > 0, || "C34: no selector is asked with no turn remaining".to_owned());
    if world.strikes(Fault::SelectorHung) {
        attempt.signal.wait().await;
    }
    match race(decide(host, &attempt), attempt.signal.wait()).await {
        First::Left(decision) => decision,
        First::Right(_) => {
            world.executor.sleep(world.pause_ms()).await;
            Err(Thrown { is_abort: true, ..thrown("the selector was stopped") })
        }
    }
}

async fn decide(host: &SimHost, attempt: &Rc<Attempt>) -> Result<Decision, Thrown> {
    let world = &host.world;
    let plan = world.plan.host_selector.as_ref().ok_or_else(|| thrown("the built-in policy is not asked"))?;
    world.executor.sleep(world.pause_ms()).await;
    if let Some(script) = world.script() {
        let selection = script.decision(host.selector_place.get());
        host.selector_place.set(host.selector_place.get() + 1);
        let checkpoint = Some(private_state_of(CHECKPOINT_VERSION, host.selector_place.get()));
        return Ok(Decision { selection, checkpoint });
    }
    if world.strikes(Fault::SelectorThrew) {
        return Err(thrown("the selector fell over"));
    }
    if plan.is_metered {
        metering::spend(host, attempt, 1).await?;
    }
    let selection = if world.strikes(Fault::BadSelection) { bad(host) } else { good(host, plan.finish_per_mille) };
    let checkpoint = plan.has_checkpoint.then(|| private_state(host, CHECKPOINT_VERSION, 1));
    Ok(Decision { selection, checkpoint })
}

fn good(host: &SimHost, finish_per_mille: u32) -> Selection {
    let (world, rng) = (&host.world, &host.world.rng);
    if rng.chance(finish_per_mille) {
        return Selection::Finish { reason: format!("Enough {}", world.secret()).into() };
    }
    let roles = &world.plan.roles;
    let most = world.shadow.borrow().limits.map_or(1, |limits| limits.max_turns_per_run) as usize;
    let mut agents: Vec<Id> = roles.iter().filter(|role| !role.is_external).map(|role| role.id.clone()).collect();
    if rng.chance(500) && !agents.is_empty() {
        for position in (1..agents.len()).rev() {
            agents.swap(position, rng.below(position + 1));
        }
        agents.truncate(rng.between(1, agents.len() as u64) as usize);
        agents.truncate(most.max(1));
        return Selection::Parallel { participant_ids: agents.into() };
    }
    let role = rng.pick(roles);
    if role.is_external && rng.chance(500) {
        let reason = format!("Asks {}", world.secret()).into();
        return Selection::Wait { participant_id: role.id.clone(), reason };
    }
    Selection::Speak { participant_id: role.id.clone() }
}

fn bad(host: &SimHost) -> Selection {
    let (world, roles) = (&host.world, &host.world.plan.roles);
    let first = roles[0].id.clone();
    match world.rng.below(5) {
        0 => Selection::Speak { participant_id: "nobody".into() },
        1 => Selection::Parallel { participant_ids: [].into() },
        2 => Selection::Parallel { participant_ids: [first.clone(), first].into() },
        3 if !roles[0].is_external => Selection::Wait { participant_id: first, reason: "not a person".into() },
        _ => Selection::Parallel { participant_ids: [first, "nobody".into()].into() },
    }
}
