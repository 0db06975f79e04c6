//! The way to the store and back: where calls and acknowledgements are delayed, lost and repeated.

use crate::coverage;
use crate::faults::Fault;
use crate::store::{Store, unknown};
use crate::world::World;
use agent_roundtable::conversation::effect::Summary;
use agent_roundtable::conversation::error::{Code, StoreFailure};
use agent_roundtable::conversation::input::{Claim, ReadBatches};
use agent_roundtable::record::model::Id;
use std::rc::Rc;

type Answer<T> = Result<T, StoreFailure>;

pub async fn create(world: &Rc<World>, entries: Rc<[String]>, summary: Summary) -> Answer<()> {
    write(world, &entries.clone(), move |store, _| store.create(&entries, &summary)).await
}

pub async fn claim(world: &Rc<World>, owner_id: Id, lease_ms: u64) -> Answer<Claim> {
    if !world.is_held() && world.store.borrow().revision() > 0 && world.strikes(Fault::RecordDeleted) {
        world.store.borrow_mut().is_deleted = true;
    }
    call(world, move |store, now| store.claim(&owner_id, lease_ms, now)).await
}

pub async fn renew(world: &Rc<World>, claim: Claim, lease_ms: u64) -> Answer<Claim> {
    break_claim(world);
    call(world, move |store, now| store.renew(&claim, lease_ms, now)).await
}

pub async fn release(world: &Rc<World>, claim: Claim) {
    let released = call(world, move |store, _| {
        store.release(&claim);
        Ok(())
    });
    if released.await.is_err() {
        world.log(|| "a release failed; the claim expires".to_owned());
    }
}

pub async fn read(world: &Rc<World>, after: u64) -> Answer<Option<ReadBatches>> {
    let at_most = if world.strikes(Fault::ShortRead) { 1 } else { usize::MAX };
    let mut read = call(world, move |store, _| Ok(store.read(after, at_most))).await?;
    let line = read.iter_mut().flat_map(|read| &mut read.batches).flat_map(|batch| &mut batch.entries).next();
    if let Some(line) = line
        && world.strikes(Fault::CorruptRead)
    {
        world.excuse(&world.excuses.corrupted);
        line.insert(world.rng.below(2), ' ');
    }
    Ok(read)
}

pub async fn append(
    world: &Rc<World>,
    claim: Claim,
    expected_revision: u64,
    operation_id: String,
    entries: Rc<[String]>,
    snapshot: Option<Rc<str>>,
) -> Answer<u64> {
    break_claim(world);
    let written = entries.clone();
    let append = move |store: &mut Store, now| {
        let revision = store.append(&claim, expected_revision, &operation_id, &entries, now)?;
        store.keep(revision, snapshot);
        Ok(revision)
    };
    let revision = write(world, &written, append).await?;
    if world.strikes(Fault::WrongReceipt) {
        world.excuse(&world.excuses.store_failed);
        return Ok(revision + world.rng.between(1, 3));
    }
    Ok(revision)
}

/// A call that writes: the process may die before it or after.
async fn write<T: 'static>(
    world: &Rc<World>,
    entries: &[String],
    act: impl FnOnce(&mut Store, u64) -> Answer<T> + 'static,
) -> Answer<T> {
    if world.dies(false, || coverage::crash_points(entries)) {
        return std::future::pending().await;
    }
    let answer = call(world, act).await;
    if world.dies(true, || coverage::crash_points(entries)) {
        return std::future::pending().await;
    }
    answer
}

/// One call: it may be lost on the way, its acknowledgement may be lost on the way back, and it may
/// reach the store when its caller has long given up.
async fn call<T: 'static>(world: &Rc<World>, act: impl FnOnce(&mut Store, u64) -> Answer<T> + 'static) -> Answer<T> {
    pause(world).await;
    if world.strikes(Fault::StoreDown) {
        world.excuse(&world.excuses.store_failed);
        return Err(unknown("the store cannot be reached"));
    }
    if world.strikes(Fault::LandsLate) {
        world.excuse(&world.excuses.store_failed);
        let later = world.clone();
        world.executor.spawn(async move {
            later.executor.sleep(later.rng.between(1, 100 * later.plan.pace_ms)).await;
            let _ = perform(&later, act);
        });
        return Err(unknown("no answer in time"));
    }
    let answer = perform(world, act);
    pause(world).await;
    if world.strikes(Fault::AckLost) {
        world.excuse(&world.excuses.store_failed);
        return Err(unknown("the connection broke"));
    }
    answer
}

fn perform<T>(world: &Rc<World>, act: impl FnOnce(&mut Store, u64) -> Answer<T>) -> Answer<T> {
    let answer = act(&mut world.store.borrow_mut(), world.executor.now_ms());
    match &answer {
        Err(StoreFailure { code: Some(Code::StaleClaim), .. }) => world.excuse(&world.excuses.claim_lost),
        Err(StoreFailure { code: Some(Code::Busy), .. }) => world.excuse(&world.excuses.rival_held),
        _ => {}
    }
    world.follow_store();
    answer
}

async fn pause(world: &Rc<World>) {
    let ms = if world.strikes(Fault::StoreSlow) {
        world.excuse(&world.excuses.claim_lost);
        world.rng.between(1, world.plan.lease_ms.min(100_000))
    } else {
        world.pause_ms().min(world.plan.lease_ms / 20)
    };
    world.executor.sleep(ms).await;
}

/// Ends the claim under its holder's feet, with or without another host taking it.
fn break_claim(world: &Rc<World>) {
    let expires = world.strikes(Fault::ClaimExpired);
    let stolen = world.strikes(Fault::ClaimStolen);
    if expires || stolen {
        world.excuse(&world.excuses.claim_lost);
        world.store.borrow_mut().expire();
    }
    if stolen {
        crate::rival::visit(world);
    }
}
