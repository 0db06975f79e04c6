//! The world outside of a conversation of sessions: what tools did there, which nothing takes back, what the
//! policy said before, and what people and the operator allowed. Every deed is held to the rules when it is done.

use super::order::Order;
use crate::world::World;
use agent_roundtable::record::entry::Entry;
use agent_roundtable::record::execution::ExecutionRecord;
use agent_roundtable::record::model::{Decision, Id, Response};
use agent_roundtable::runtime::session::permission::{Permissions, Verdict};
use agent_roundtable::value::Json;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// A tool: its name, whether it says that it may run twice.
pub const TOOLS: [(&str, bool); 5] =
    [("look", true), ("note", false), ("pay", false), ("send", true), ("erase", false)];

/// What a host may have set: the first is what it begins with.
const POLICIES: [&str; 4] = [
    r#"{"allow":["look","note"],"deny":["erase"]}"#,
    r#"{"allow":["look","note"],"deny":["erase","pay"]}"#,
    r#"{"default":"allow","deny":["erase"]}"#,
    r#"{"allow":["look"],"ask":["note"],"deny":["erase"],"default":"ask"}"#,
];

/// A way in which an engine or a host could be broken, to show that the rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    DeedTwice,
    IntentUnsaved,
    DenialTurned,
    PolicyIgnored,
    ApprovalReused,
    HistoryOpen,
    ResponseForged,
    ResultTwice,
    TurnStuck,
    AskedOtherwise,
    UnknownRepeated,
    RetryForgotten,
}

/// One run of one tool.
pub struct Deed<'a> {
    pub turn_id: &'a Id,
    pub execution_id: &'a Id,
    /// The model call that asked for it, and which of its calls it is.
    pub call_id: &'a str,
    pub index: usize,
    pub tool: usize,
    pub key: &'a str,
    pub arguments: &'a Json,
}

#[derive(Default)]
pub struct Outside {
    /// What the model's replies follow from.
    pub seed: u64,
    pub planted: Option<Planted>,
    /// Records go to a journal that ends with its process.
    pub forgets: bool,
    policy: Cell<usize>,
    /// How often each idempotency key was used, by turn.
    done: RefCell<BTreeMap<(Id, String), u32>>,
    /// The deeds that each approval let happen, by request.
    granted: RefCell<BTreeMap<String, BTreeSet<String>>>,
    /// What the policy last said of each action, by the id its request has or would have.
    verdicts: RefCell<BTreeMap<String, Verdict>>,
    /// How often the operator said `retry`, by turn.
    retries: RefCell<BTreeMap<Id, u32>>,
    /// Turns of which that was the last that happened, and the attempts that followed.
    wanted: RefCell<BTreeSet<Id>>,
    /// Executions as their records tell them.
    orders: RefCell<BTreeMap<Id, Order>>,
    /// The journal of the present process.
    memory: RefCell<Vec<ExecutionRecord>>,
}

impl Outside {
    pub fn new(seed: u64, planted: Option<Planted>) -> Self {
        Outside { seed, planted, forgets: seed % 4 == 2, ..Outside::default() }
    }

    /// How long a turn that was stopped waits for its tools; some wait as long as it takes.
    pub fn patience_ms(&self) -> Option<u64> {
        (self.seed % 3 != 1).then_some(12)
    }

    /// What the policy says of a call now.
    pub fn verdict(&self, call_id: &str, index: usize, tool: &str) -> Verdict {
        let (action, verdict) = (action(call_id, index), self.permissions().verdict(tool));
        self.verdicts.borrow_mut().insert(action, verdict);
        if self.planted == Some(Planted::PolicyIgnored) { Verdict::Allow } else { verdict }
    }

    pub fn change_policy(&self, world: &World) {
        self.policy.set(world.rng.below(POLICIES.len()));
        world.coverage.borrow_mut().note("policy changed");
    }

    fn permissions(&self) -> Permissions {
        Permissions::read(&Json::parse(POLICIES[self.policy.get()]).unwrap()).unwrap()
    }

    /// How often the operator wanted the turn again.
    pub fn retries(&self, turn: &Id) -> u32 {
        self.retries.borrow().get(turn).copied().unwrap_or(0)
    }

    /// Whether this attempt is what the operator wanted.
    pub fn is_wanted(&self, attempt: &Id) -> bool {
        self.wanted.borrow().contains(attempt)
    }

    /// A tool is called: its intent is stored, and it may run.
    pub fn check_call(&self, world: &World, deed: &Deed<'_>) {
        let name = TOOLS[deed.tool].0;
        world.demand(self.is_intended(world, deed), || {
            format!("S2: {name} of {} runs without a stored intent", deed.call_id)
        });
        self.check_permission(world, deed);
    }

    /// It does what it does.
    pub fn perform(&self, world: &World, deed: &Deed<'_>) {
        let (name, idempotent) = TOOLS[deed.tool];
        let times = {
            let mut done = self.done.borrow_mut();
            let times = done.entry((deed.turn_id.clone(), deed.key.to_owned())).or_default();
            *times += 1;
            *times
        };
        let allowed = 1 + self.retries(deed.turn_id);
        world.demand(idempotent || times <= allowed, || {
            format!("S1: {name} under {} happens {times} times, {allowed} allowed", deed.key)
        });
        if times > 1 {
            world.coverage.borrow_mut().note(if idempotent { "idempotent deed again" } else { "deed again" });
        }
        world.coverage.borrow_mut().note(&format!("deed {name}"));
    }

    /// A yes of the policy, or of a person to this very action; never a no of either.
    pub fn check_permission(&self, world: &World, deed: &Deed<'_>) {
        let name = TOOLS[deed.tool].0;
        let action = action(deed.call_id, deed.index);
        let shadow = world.shadow.borrow();
        let ask = shadow.requests.get(action.as_str());
        let answer = ask.and_then(|ask| ask.answer.as_ref()).map(|(_, response)| response);
        let approved = matches!(answer, Some(Response::Approval { approved: true, .. }));
        world.demand(!matches!(answer, Some(Response::Approval { approved: false, .. })), || {
            format!("S4: {name} runs, and {action} was denied")
        });
        let verdict = self.verdicts.borrow().get(&action).copied();
        world.demand(verdict != Some(Verdict::Deny) && verdict.is_some(), || {
            format!("S4: {name} of {action} runs where the policy says {verdict:?}")
        });
        world.demand(verdict != Some(Verdict::Ask) || approved, || {
            format!("S3: {name} of {action} runs without an approval")
        });
        if !approved {
            return;
        }
        let asked = ask.and_then(|ask| ask.request.data.as_ref()).map(|data| Json::parse(data.as_str()).unwrap());
        let about = |key: &str| asked.as_ref().and_then(|data| data.get(key)).map(Json::canonical);
        let same = about("arguments") == Some(deed.arguments.canonical())
            && about("toolName") == Some(Json::String(name.to_owned()).canonical());
        world.demand(same, || format!("S3: {action} was approved for another action"));
        let mut granted = self.granted.borrow_mut();
        let deeds = granted.entry(action.clone()).or_default();
        deeds.insert(deed.key.to_owned());
        world.demand(deeds.len() == 1, || format!("S3: {action} lets {} deeds happen", deeds.len()));
        world.coverage.borrow_mut().note("approved deed");
    }

    /// Follows the journal.
    pub fn follow(&self, world: &World, entry: &Entry) {
        match entry {
            Entry::ExecutionRecorded(entry) => self.recorded(world, &entry.record),
            Entry::Reconciled(entry) if entry.decision == Decision::Retry => {
                *self.retries.borrow_mut().entry(entry.turn_id.clone()).or_default() += 1;
                self.wanted.borrow_mut().insert(entry.turn_id.clone());
            }
            Entry::TurnStarted(entry) => {
                let mut wanted = self.wanted.borrow_mut();
                if wanted.remove(&entry.turn_id) {
                    wanted.insert(entry.attempt_id.clone());
                }
            }
            _ => {}
        }
    }

    fn recorded(&self, world: &World, record: &ExecutionRecord) {
        let mut orders = self.orders.borrow_mut();
        // The policy may have changed again by the time that the answer is stored.
        let asked = |action: &str| {
            world.coverage.borrow_mut().note("begun deed asked about");
            world.shadow.borrow().requests.contains_key(action)
        };
        if let Err(rule) = orders.entry(record.execution_id.clone()).or_default().follow(record, asked) {
            world.fail(format!("S7: {rule}"));
        }
    }

    pub fn order<T>(&self, execution: &str, look: impl FnOnce(&Order) -> T) -> Option<T> {
        self.orders.borrow().get(execution).map(look)
    }

    /// Writes a record into the journal of the process; the same again is no news.
    pub fn remember(&self, world: &World, record: ExecutionRecord) {
        if self.memory.borrow().iter().all(|known| known.id != record.id) {
            self.recorded(world, &record);
            self.memory.borrow_mut().push(record);
        }
    }

    pub fn remembered(&self, execution: &str) -> Vec<ExecutionRecord> {
        self.memory.borrow().iter().filter(|record| &*record.execution_id == execution).cloned().collect()
    }

    /// Drops the records of executions that are over.
    pub fn forget(&self, executions: &[Id]) {
        self.memory.borrow_mut().retain(|record| !executions.contains(&record.execution_id));
    }

    /// The process is gone, and what it kept to itself.
    pub fn process_ended(&self) {
        if self.forgets {
            self.memory.borrow_mut().clear();
            self.orders.borrow_mut().clear();
        }
    }

    /// Whether the intent of this very run is on record.
    fn is_intended(&self, world: &World, deed: &Deed<'_>) -> bool {
        let records = match self.forgets {
            true => self.remembered(deed.execution_id),
            false => world.shadow.borrow().records(deed.turn_id).to_vec(),
        };
        let id = format!("{}:intent:{}", deed.call_id, deed.index);
        let json = records.iter().find(|record| *record.id == *id).map(|record| Json::parse(record.json.as_str()));
        let json = json.map(Result::unwrap);
        json.is_some_and(|json| json.get("idempotencyKey").and_then(Json::as_str) == Some(deed.key))
    }
}

/// The id that the request for a call has or would have.
pub fn action(call_id: &str, index: usize) -> String {
    format!("{call_id}:approval:{index}")
}
