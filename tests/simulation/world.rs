//! What all parts of one schedule share: time, chance, the store, the reference and the first violation.

use crate::coverage::Coverage;
use crate::crash::{Crash, Script};
use crate::events::expected_events;
use crate::executor::Executor;
use crate::faults::{Fault, Faults};
use crate::marks;
use crate::plan::Plan;
use crate::rng::Rng;
use crate::schedule::Watch;
use crate::sessions::outside::Outside;
use crate::shadow::Shadow;
use crate::store::Store;
use agent_roundtable::record::State;
use agent_roundtable::record::codec;
use agent_roundtable::record::entry::Entry;
use agent_roundtable::record::model::{Id, RunOutcome};
use agent_roundtable::record::snapshot;
use serde_json::Value;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

thread_local! {
    /// Survives a panic of the engine, which takes its world along.
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// The log of the last schedule on this thread.
pub fn take_log() -> Vec<String> {
    LOG.take()
}

pub struct World {
    pub plan: Plan,
    /// The plan as options.
    pub options: Value,
    pub rng: Rc<Rng>,
    pub executor: Rc<Executor>,
    pub faults: Faults,
    pub store: RefCell<Store>,
    pub shadow: RefCell<Shadow>,
    /// The engine's own fold of the store's bytes.
    pub fold: RefCell<Option<State>>,
    /// What observers must be told of each batch, by revision - 1.
    pub expected: RefCell<Vec<Vec<String>>>,
    pub coverage: Rc<RefCell<Coverage>>,
    /// When something last went wrong that excuses a refusal, on the monotonic clock.
    pub excuses: Excuses,
    /// Set once something happened that may end the conversation as `failed`.
    pub may_fail: Cell<bool>,
    /// What everybody plays, where nothing is left to chance.
    pub script: RefCell<Option<Rc<Script>>>,
    /// What members that are sessions of the engine do outside, where there are such.
    pub outside: RefCell<Option<Rc<Outside>>>,
    /// When the present process dies.
    pub crash: Cell<Option<Crash>>,
    pub crashed: Cell<bool>,
    /// Writes that reached the store or died on the way.
    pub writes: Cell<u64>,
    /// Those writes of a conversation of sessions that say that a model failed: too few for a stride to meet.
    pub model_failures: RefCell<Vec<u64>>,
    failure: RefCell<Option<String>>,
    pub watch: Watch,
    counter: Cell<u64>,
}

/// Times of the latest troubles.
#[derive(Default)]
pub struct Excuses {
    pub store_failed: Cell<Option<u64>>,
    /// A session did not open.
    pub session_refused: Cell<Option<u64>>,
    pub claim_lost: Cell<Option<u64>>,
    pub rival_held: Cell<Option<u64>>,
    pub rival_wrote: Cell<Option<u64>>,
    pub corrupted: Cell<Option<u64>>,
}

impl World {
    pub fn new(plan: Plan, options: Value, rng: Rc<Rng>, watch: Watch) -> Rc<World> {
        let executor = Executor::new(rng.clone());
        let coverage = Rc::new(RefCell::new(Coverage::default()));
        let faults = Faults::new(plan.mix, rng.clone(), coverage.clone());
        Rc::new(World {
            store: RefCell::new(Store::new(plan.conversation_id.clone())),
            plan,
            options,
            rng,
            executor,
            faults,
            shadow: RefCell::default(),
            fold: RefCell::default(),
            expected: RefCell::default(),
            coverage,
            excuses: Excuses::default(),
            may_fail: Cell::new(false),
            script: RefCell::default(),
            outside: RefCell::default(),
            crash: Cell::default(),
            crashed: Cell::default(),
            writes: Cell::default(),
            model_failures: RefCell::default(),
            failure: RefCell::default(),
            watch,
            counter: Cell::new(0),
        })
    }

    /// Records the first broken rule; the schedule stops there.
    pub fn fail(&self, what: impl Into<String>) {
        let what = what.into();
        self.log(|| format!("VIOLATION {what}"));
        self.failure.borrow_mut().get_or_insert(what);
    }

    pub fn demand(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(what());
        }
    }

    pub fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    pub fn log(&self, line: impl FnOnce() -> String) {
        if self.watch.logs {
            LOG.with_borrow_mut(|log| log.push(format!("{:>9} {}", self.executor.now_ms(), line())));
        }
    }

    /// A number never given before in this schedule.
    pub fn number(&self) -> u64 {
        self.counter.set(self.counter.get() + 1);
        self.counter.get()
    }

    /// Text that must stay private until an entry makes it public.
    pub fn secret(&self) -> String {
        marks::mark(self.number())
    }

    /// Some part of this schedule's unit of time; now and then nothing, now and then much.
    pub fn pause_ms(&self) -> u64 {
        let pace = self.plan.pace_ms;
        match self.rng.below(10) {
            0..=2 => 0,
            3..=8 => self.rng.between(1, 2 * pace),
            _ => self.rng.between(1, 20 * pace),
        }
    }

    /// Every batch that the store has taken reaches the references at once, acknowledged or not.
    pub fn follow_store(&self) {
        loop {
            let next = self.shadow.borrow().revision;
            let Some(batch) = self.store.borrow().batches.get(next as usize).cloned() else { return };
            let mut entries = Vec::new();
            for line in &batch.entries {
                match codec::decode(line) {
                    Ok(entry) => entries.push(entry),
                    Err(error) => return self.fail(format!("C43: a stored line does not decode: {error}: {line}")),
                }
            }
            self.log(|| format!("STORED {} {:?}", batch.revision, batch.entries));
            let known_ended = self.shadow.borrow().run.is_none();
            for entry in &entries {
                self.coverage.borrow_mut().entry(entry);
                if let Some(outside) = self.outside() {
                    outside.follow(self, entry);
                }
                if let Err(rule) = self.shadow.borrow_mut().apply(batch.revision, entry) {
                    return self.fail(format!("{rule}: {entry:?}"));
                }
                self.follow_fold(entry, batch.revision);
            }
            if let Err(rule) = self.shadow.borrow_mut().batch_ended() {
                return self.fail(rule);
            }
            self.follow_snapshot(batch.revision);
            let expected = expected_events(&entries, &self.shadow.borrow(), known_ended);
            self.expected.borrow_mut().push(expected);
        }
    }

    /// C53: a snapshot is the state of its revision, no more and no less; and every state is saved and
    /// restored to itself.
    fn follow_snapshot(&self, revision: u64) {
        let (store, fold) = (self.store.borrow(), self.fold.borrow());
        let Some(state) = &*fold else { return };
        if let Some((_, text)) = store.snapshot.as_ref().filter(|(kept, _)| *kept == revision) {
            let restored = snapshot::decode(text);
            self.demand(restored.as_ref() == Ok(state), || format!("C53: revision {revision} is kept as {restored:?}"));
            self.coverage.borrow_mut().note("snapshot");
        }
        if revision.is_multiple_of(16) {
            let text = snapshot::encode(state).unwrap();
            let restored = snapshot::decode(&text);
            let again = restored.as_ref().map(|state| snapshot::encode(state).unwrap());
            let same = restored.as_ref() == Ok(state) && again.as_ref() == Ok(&text);
            self.demand(same, || format!("C53: revision {revision} is restored as {restored:?}"));
        }
    }

    fn follow_fold(&self, entry: &Entry, revision: u64) {
        let mut fold = self.fold.borrow_mut();
        let result = match (&mut *fold, entry) {
            (None, Entry::Created(created)) => State::create(created.clone()).map(|state| *fold = Some(state)),
            (Some(state), _) => state.apply(entry, revision),
            (None, _) => Err("the first entry is not `created`".to_owned()),
        };
        if let Err(error) = result {
            self.fail(format!("C43: the engine's fold refuses what it wrote: {error}: {entry:?}"));
        }
    }

    pub fn script(&self) -> Option<Rc<Script>> {
        self.script.borrow().clone()
    }

    pub fn outside(&self) -> Option<Rc<Outside>> {
        self.outside.borrow().clone()
    }

    /// The external participants.
    pub fn people(&self) -> Vec<Id> {
        self.plan.roles.iter().filter(|role| role.is_external).map(|role| role.id.clone()).collect()
    }

    /// Whether the process dies here: nothing comes back to it any more. `points` names what it dies before or after.
    pub fn dies(&self, landed: bool, points: impl Fn() -> Vec<String>) -> bool {
        let here = self.crash.get().is_some_and(|crash| crash.landed == landed && crash.write == self.writes.get());
        if landed {
            if self.outside().is_some() && points().iter().any(|point| point == "model-failure") {
                self.model_failures.borrow_mut().push(self.writes.get());
            }
            self.writes.set(self.writes.get() + 1);
        }
        if here {
            self.log(|| format!("CRASH {:?}", self.crash.get()));
            self.crash.set(None);
            self.crashed.set(true);
            for point in points() {
                self.coverage.borrow_mut().crash(if landed { "after" } else { "before" }, &point);
            }
        }
        here
    }

    /// Whether the batch of this revision holds an entry of this kind about this id.
    pub fn brought(&self, revision: u64, kind: &str, id: &str) -> bool {
        let store = self.store.borrow();
        let batch = (revision as usize).checked_sub(1).and_then(|index| store.batches.get(index));
        batch.is_some_and(|batch| batch.entries.iter().any(|line| line.contains(kind) && line.contains(id)))
    }

    /// How the run ended that the batch of this revision ends, if it does.
    pub fn run_end(&self, revision: u64) -> Option<RunOutcome> {
        let store = self.store.borrow();
        let batch = store.batches.get((revision as usize).checked_sub(1)?)?;
        batch.entries.iter().rev().find_map(|line| match codec::decode(line) {
            Ok(Entry::RunEnded(ended)) => Some(ended.outcome),
            _ => None,
        })
    }

    /// Whether there is nothing to tell after one revision up to another.
    pub fn is_told(&self, told: u64, revision: u64) -> bool {
        let expected = self.expected.borrow();
        let upto = (revision as usize).min(expected.len());
        expected.get(told as usize..upto).unwrap_or_default().iter().all(Vec::is_empty)
    }

    /// Whether anybody holds the record.
    pub fn is_held(&self) -> bool {
        self.store.borrow().holder(self.executor.now_ms()).is_some()
    }

    /// One excuse more: it happened now.
    pub fn excuse(&self, which: &Cell<Option<u64>>) {
        which.set(Some(self.executor.now_ms()));
    }

    pub fn strikes(&self, fault: Fault) -> bool {
        let strikes = self.faults.strikes(fault);
        if strikes {
            self.log(|| format!("FAULT {fault:?}"));
            self.may_fail.set(self.may_fail.get() || fault.may_fail_the_conversation());
        }
        strikes
    }
}
