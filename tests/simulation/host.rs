//! The host of one handle: implements the driver's ports over virtual time, and keeps what a shell keeps
//! (pending calls, signals, timers, a mirror of what was published).

use crate::check::Check;
use crate::executor::{First, Promise, race};
use crate::faults::Fault;
use crate::sessions::turn::Live;
use crate::world::World;
use crate::{crash, member, selector, sessions, traces, wire};
use agent_roundtable::conversation::effect::{Effect, Emission, Reply, Restore, ServiceRefusal, Summary, TurnView};
use agent_roundtable::conversation::error::{RoundtableError, StoreFailure, Thrown};
use agent_roundtable::conversation::event::EventKind;
use agent_roundtable::conversation::input::{
    CallId, Claim, Decision, Input, Now, ReadBatches, Request, SessionId, SessionTraits, Ticket, Timer,
};
use agent_roundtable::conversation::trace::EffectDigest;
use agent_roundtable::driver::host::Task;
use agent_roundtable::driver::{Driver, Host};
use agent_roundtable::record::execution::ExecutionRecord;
use agent_roundtable::record::model::{
    self, Checkpoint, CompletedTurn, Id, Message, Outcome, ParticipantResponse, StopReason,
};
use agent_roundtable::record::state::State;
use agent_roundtable::record::usage::{ModelCall, Money, UsageRecord, UsageReport};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

pub type CallResult = Result<Reply, RoundtableError>;
pub type TicketResult = Result<(), ServiceRefusal>;

#[derive(Clone)]
pub struct SimHost(Rc<Inner>);

pub struct Inner {
    pub world: Rc<World>,
    pub owner_id: Id,
    pub check: RefCell<Check>,
    pub mirror: RefCell<Mirror>,
    /// Every input with its time, as JSON lines.
    pub trace: RefCell<Vec<String>>,
    /// Over all effects.
    pub digest: RefCell<EffectDigest>,
    /// How far the selector at hand is in its script.
    pub selector_place: Cell<u64>,
    driver: RefCell<Weak<Driver<SimHost>>>,
    attempts: RefCell<BTreeMap<Id, Rc<Attempt>>>,
    sessions: RefCell<BTreeMap<SessionId, Rc<Session>>>,
    calls: RefCell<BTreeMap<CallId, Rc<Promise<CallResult>>>>,
    tickets: RefCell<BTreeMap<Ticket, Rc<Promise<TicketResult>>>>,
    timers: RefCell<BTreeMap<Timer, Rc<Promise<()>>>>,
    next_id: Cell<u32>,
}

/// What the host knows from what it was told.
#[derive(Default)]
pub struct Mirror {
    pub revision: u64,
    pub messages: Vec<Rc<Message>>,
    pub completed: Vec<Rc<CompletedTurn>>,
    pub requests: Vec<model::Request>,
}

/// An attempt with its signal.
pub struct Attempt {
    pub id: Id,
    pub signal: Rc<Promise<StopReason>>,
    pub is_closed: Cell<bool>,
}

/// A live session.
pub struct Session {
    pub participant: usize,
    pub steps: Cell<u64>,
    /// The engine's own session, where its participant is one.
    pub live: Option<Rc<Live>>,
}

impl std::ops::Deref for SimHost {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl SimHost {
    /// `is_late`: another handle has created the record.
    pub fn new(world: &Rc<World>, owner_id: &str, is_late: bool) -> SimHost {
        SimHost(Rc::new(Inner {
            world: world.clone(),
            owner_id: owner_id.into(),
            check: RefCell::new(Check::new(world.clone(), is_late)),
            mirror: RefCell::default(),
            trace: RefCell::default(),
            digest: RefCell::default(),
            selector_place: Cell::default(),
            driver: RefCell::default(),
            attempts: RefCell::default(),
            sessions: RefCell::default(),
            calls: RefCell::default(),
            tickets: RefCell::default(),
            timers: RefCell::default(),
            next_id: Cell::new(0),
        }))
    }

    /// What a shell takes over from a loaded record.
    pub fn restore(&self, state: &State) {
        *self.mirror.borrow_mut() = Mirror {
            revision: state.revision,
            messages: state.messages.clone(),
            completed: state.turns.clone(),
            requests: state.open_requests().map(|ask| ask.request.clone()).collect(),
        };
        self.selector_place.set(state.selector_checkpoint.as_ref().map_or(0, |saved| crash::steps_of(Some(saved))));
        self.check.borrow_mut().restored(state.revision);
    }

    pub fn bind(&self, driver: &Rc<Driver<SimHost>>) {
        *self.driver.borrow_mut() = Rc::downgrade(driver);
    }

    /// Makes a call; the promise is its settlement.
    pub fn call(&self, request: Request) -> (CallId, Rc<Promise<CallResult>>) {
        let call = self.fresh_id();
        let promise = Promise::new();
        self.calls.borrow_mut().insert(call, promise.clone());
        self.input(Input::Called { call, request });
        (call, promise)
    }

    pub fn admit(&self, attempt: &Id, call: ModelCall) -> Rc<Promise<TicketResult>> {
        let (ticket, promise) = self.ticket();
        self.input(Input::AdmissionAsked { ticket, attempt: attempt.clone(), call });
        promise
    }

    pub fn report(&self, attempt: &Id, report: UsageReport) -> Rc<Promise<TicketResult>> {
        let (ticket, promise) = self.ticket();
        self.input(Input::UsageReported { ticket, attempt: attempt.clone(), report });
        promise
    }

    pub fn record(&self, attempt: &Id, record: ExecutionRecord) -> Rc<Promise<TicketResult>> {
        let (input, promise) = self.asked(|ticket| Input::RecordAsked { ticket, attempt: attempt.clone(), record });
        self.input(input);
        promise
    }

    /// What a member reads back of an execution, and the revision that the engine knows to be stored.
    pub fn records(&self, attempt: &Id, execution: &str) -> (Result<Vec<ExecutionRecord>, RoundtableError>, u64) {
        let driver = self.driver.borrow().upgrade().unwrap();
        driver.with_machine(|machine| {
            let records = machine.records(attempt, execution);
            (records.map(|records| records.into_iter().cloned().collect()), machine.durable().revision)
        })
    }

    /// An input with a ticket of its own, and the promise of its answer.
    pub fn asked(&self, make: impl FnOnce(Ticket) -> Input) -> (Input, Rc<Promise<TicketResult>>) {
        let (ticket, promise) = self.ticket();
        (make(ticket), promise)
    }

    pub fn input(&self, input: Input) {
        if let Some(driver) = self.driver.borrow().upgrade() {
            driver.input(input);
        }
    }

    pub fn attempt(&self, id: &Id) -> Rc<Attempt> {
        let make = || Rc::new(Attempt { id: id.clone(), signal: Promise::new(), is_closed: Cell::new(false) });
        self.attempts.borrow_mut().entry(id.clone()).or_insert_with(make).clone()
    }

    pub fn session(&self, id: SessionId) -> Option<Rc<Session>> {
        self.sessions.borrow().get(&id).cloned()
    }

    fn live(&self, id: SessionId) -> Option<Rc<Live>> {
        self.session(id)?.live.clone()
    }

    fn ticket(&self) -> (Ticket, Rc<Promise<TicketResult>>) {
        let (ticket, promise) = (self.fresh_id(), Promise::new());
        self.tickets.borrow_mut().insert(ticket, promise.clone());
        (ticket, promise)
    }

    fn fresh_id(&self) -> u32 {
        self.next_id.set(self.next_id.get() + 1);
        self.next_id.get()
    }
}

impl Host for SimHost {
    fn now(&self) -> Now {
        Now { wall: self.world.executor.wall_ms(), mono: self.world.executor.now_ms() as f64 }
    }

    fn spawn(&self, task: Task) {
        self.world.executor.spawn_boxed(task);
    }

    fn received(&self, now: Now, input: &Input) {
        self.world.log(|| format!("{} <- {input:?}", self.owner_id));
        if self.world.watch.records {
            self.trace.borrow_mut().push(traces::line(now, input));
        }
        self.check.borrow_mut().input(now, input);
    }

    fn decided(&self, now: Now, effect: &Effect) {
        self.world.log(|| format!("{} -> {effect:?}", self.owner_id));
        if self.world.watch.records {
            self.digest.borrow_mut().add(effect).unwrap();
        }
        match self.world.watch.distortion {
            None => self.check.borrow_mut().effect(now, effect),
            Some(distortion) => {
                let shown = distortion.apply(effect);
                shown.iter().for_each(|effect| self.check.borrow_mut().effect(now, effect));
            }
        }
    }

    async fn create(&self, entries: Rc<[String]>, summary: Summary) -> Result<(), StoreFailure> {
        wire::create(&self.world, entries, summary).await
    }

    async fn claim(&self, owner_id: Id, lease_ms: u64) -> Result<Claim, StoreFailure> {
        wire::claim(&self.world, owner_id, lease_ms).await
    }

    async fn renew(&self, claim: Claim, lease_ms: u64) -> Result<Claim, StoreFailure> {
        wire::renew(&self.world, claim, lease_ms).await
    }

    async fn release(&self, claim: Claim) {
        wire::release(&self.world, claim).await;
    }

    async fn read(&self, after: u64) -> Result<Option<ReadBatches>, StoreFailure> {
        wire::read(&self.world, after).await
    }

    async fn append(
        &self,
        claim: Claim,
        expected_revision: u64,
        operation_id: String,
        entries: Rc<[String]>,
        _summary: Summary,
        snapshot: Option<Rc<str>>,
    ) -> Result<u64, StoreFailure> {
        wire::append(&self.world, claim, expected_revision, operation_id, entries, snapshot).await
    }

    async fn select(
        &self,
        attempt: Id,
        messages: usize,
        turns: usize,
        remaining: u64,
        restore: Option<Restore>,
    ) -> Result<Decision, Thrown> {
        let saved = self.world.shadow.borrow().selector_state.clone();
        self.world.demand(restore.is_none_or(|restore| restore.checkpoint == saved), || {
            "C48: a selector made again from another state than the saved one".to_owned()
        });
        let mirror = (self.mirror.borrow().messages.len(), self.mirror.borrow().completed.len());
        self.world.demand((messages, turns) == mirror, || {
            format!("C11: the selector sees {messages} messages and {turns} turns of {mirror:?}")
        });
        selector::select(self, self.attempt(&attempt), remaining).await
    }

    async fn open_session(
        &self,
        session: SessionId,
        participant: usize,
        checkpoint: Option<Checkpoint>,
    ) -> Result<SessionTraits, Thrown> {
        let live = sessions::open(self, participant, checkpoint.as_ref()).await?;
        let (traits, steps) = match live {
            None => member::open(self, participant, checkpoint).await?,
            Some(_) => (SessionTraits { can_resume: true, can_checkpoint: true }, 0),
        };
        let made = Session { participant, steps: Cell::new(steps), live };
        self.sessions.borrow_mut().insert(session, Rc::new(made));
        Ok(traits)
    }

    async fn run_turn(&self, session: SessionId, turn: Rc<TurnView>) -> Result<Outcome, Thrown> {
        match self.live(session) {
            None => member::contribute(self, session, turn, None).await,
            Some(live) => sessions::turn::run(self, &live, &turn, None).await,
        }
    }

    async fn resume_turn(
        &self,
        session: SessionId,
        turn: Rc<TurnView>,
        responses: Vec<ParticipantResponse>,
    ) -> Result<Outcome, Thrown> {
        match self.live(session) {
            None => member::contribute(self, session, turn, Some(responses)).await,
            Some(live) => sessions::turn::run(self, &live, &turn, Some(responses)).await,
        }
    }

    async fn take_checkpoint(&self, session: SessionId) -> Result<Checkpoint, Thrown> {
        match self.live(session) {
            None => member::checkpoint(self, session).await,
            Some(live) => Ok(sessions::turn::checkpoint(&live)),
        }
    }

    async fn release_session(&self, session: SessionId) -> Result<(), Thrown> {
        self.world.executor.sleep(self.world.pause_ms()).await;
        let known = self.sessions.borrow_mut().remove(&session).is_some();
        self.world.demand(known, || format!("C37: session {session} is released twice or was never open"));
        if self.world.strikes(Fault::ReleaseFailed) {
            return Err(member::thrown("the release failed"));
        }
        Ok(())
    }

    fn abort(&self, attempt: &Id, reason: StopReason) {
        self.attempt(attempt).signal.set(reason);
    }

    fn close_attempt(&self, attempt: &Id) {
        self.attempt(attempt).is_closed.set(true);
    }

    fn price(&self, record: &UsageRecord) -> Option<Money> {
        let failed = self.world.strikes(Fault::PriceFailed);
        let cost = crate::ledger::cost_of(&record.call_id, record.status.tokens()).filter(|_| !failed);
        self.world.shadow.borrow_mut().ledger.quoted.insert(record.call_id.clone(), cost.clone());
        cost
    }

    fn emit(&self, emission: Emission) -> Option<Task> {
        self.mirror.borrow_mut().follow(&emission);
        if self.world.strikes(Fault::ObserverHung) {
            return Some(Box::pin(std::future::pending()));
        }
        if self.world.strikes(Fault::ObserverSlow) {
            return Some(Box::pin(self.world.executor.sleep(self.world.pause_ms())));
        }
        None
    }

    fn start_timer(&self, timer: Timer, delay_ms: f64) {
        self.stop_timer(timer);
        let stopped = Promise::new();
        self.timers.borrow_mut().insert(timer, stopped.clone());
        self.world.demand((0.0..=2_147_483_647.0).contains(&delay_ms), || format!("C2a: a timer of {delay_ms} ms"));
        let mut wait_ms = delay_ms.ceil() as u64;
        if self.world.strikes(Fault::TimerLate) {
            self.world.excuse(&self.world.excuses.claim_lost);
            wait_ms += self.world.rng.between(1, 2 * self.world.plan.pace_ms);
        } else if self.world.strikes(Fault::TimerEarly) {
            wait_ms = wait_ms.saturating_sub(1);
        }
        let host = self.clone();
        self.world.executor.spawn(async move {
            let sleep = host.world.executor.sleep(wait_ms);
            if let First::Right(()) = race(stopped.wait(), sleep).await {
                host.timers.borrow_mut().remove(&timer);
                host.input(Input::TimerFired { timer });
            }
        });
    }

    fn stop_timer(&self, timer: Timer) {
        if let Some(stopped) = self.timers.borrow_mut().remove(&timer) {
            stopped.set(());
        }
    }

    fn reply(&self, call: CallId, result: CallResult) {
        self.mirror.borrow_mut().note_reply(&result);
        let promise = self.calls.borrow_mut().remove(&call);
        let first = promise.is_some_and(|promise| promise.set(result));
        self.world.demand(first, || format!("call {call} is answered twice or was never made"));
    }

    fn answer(&self, ticket: Ticket, result: TicketResult) {
        let promise = self.tickets.borrow_mut().remove(&ticket);
        let first = promise.is_some_and(|promise| promise.set(result));
        self.world.demand(first, || format!("ticket {ticket} is answered twice or was never made"));
    }
}

impl Mirror {
    fn follow(&mut self, emission: &Emission) {
        self.revision = self.revision.max(emission.revision);
        for event in &emission.events {
            match &event.kind {
                EventKind::Published { messages, .. } => self.messages.extend(messages.iter().cloned()),
                EventKind::Requested { requests } => self.requests.extend(requests.iter().cloned()),
                EventKind::Answered { request_id } => self.requests.retain(|request| request.id != *request_id),
                _ => {}
            }
        }
        self.completed.extend(emission.completed.iter().cloned());
    }

    fn note_reply(&mut self, result: &CallResult) {
        let revision = match result {
            Ok(Reply::Ran { revision, .. } | Reply::Submitted { revision, .. } | Reply::Resumed { revision, .. }) => {
                *revision
            }
            Ok(Reply::Withdrawn { revision } | Reply::Reconciled { revision }) => *revision,
            Ok(Reply::Disposed { .. }) | Err(_) => 0,
        };
        self.revision = self.revision.max(revision);
    }
}
