//! What a driver needs of its host. Implemented by the wasm bindings over JavaScript ports and by the
//! simulator over virtual time; the machine and the driver are the same in both.

use crate::conversation::effect::{Effect, Emission, Reply, Restore, ServiceRefusal, Summary, TurnView};
use crate::conversation::error::{RoundtableError, StoreFailure, Thrown};
use crate::conversation::input::{
    CallId, Claim, Decision, Input, Now, ReadBatches, SessionId, SessionTraits, Ticket, Timer,
};
use crate::record::model::{Checkpoint, Id, Outcome, ParticipantResponse, StopReason};
use crate::record::usage::{Money, UsageRecord};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// Work the driver hands to the host's executor. It is never polled inside [`Host::spawn`].
pub type Task = Pin<Box<dyn Future<Output = ()>>>;

/// The ports of one conversation. No method may panic; every future completes or is dropped with the host.
#[allow(async_fn_in_trait, reason = "single-threaded by design: wasm and the simulator")]
pub trait Host: 'static {
    /// The time of the next input.
    fn now(&self) -> Now;
    /// Runs a task on the host's single thread.
    fn spawn(&self, task: Task);

    /// An input is about to reach the machine; for recorders, which can replay it.
    fn received(&self, now: Now, input: &Input) {
        let _ = (now, input);
    }
    /// The machine wants this done in answer to it; called before it is.
    fn decided(&self, now: Now, effect: &Effect) {
        let _ = (now, effect);
    }

    /// Creates the record with batch 1, operation id `create`.
    async fn create(&self, entries: Rc<[String]>, summary: Summary) -> Result<(), StoreFailure>;
    /// Claims the record.
    async fn claim(&self, owner_id: Id, lease_ms: u64) -> Result<Claim, StoreFailure>;
    /// Renews the claim.
    async fn renew(&self, claim: Claim, lease_ms: u64) -> Result<Claim, StoreFailure>;
    /// Gives the claim back; failures are the host's to ignore.
    async fn release(&self, claim: Claim);
    /// Batches after a revision, oldest first.
    async fn read(&self, after: u64) -> Result<Option<ReadBatches>, StoreFailure>;
    /// Appends a batch, with the state after it where there is a snapshot, and gives its revision.
    async fn append(
        &self,
        claim: Claim,
        expected_revision: u64,
        operation_id: String,
        entries: Rc<[String]>,
        summary: Summary,
        snapshot: Option<Rc<str>>,
    ) -> Result<u64, StoreFailure>;

    /// Asks the selector, which sees the first `messages` messages and `turns` completed turns; `restore`
    /// says to make it again first.
    async fn select(
        &self,
        attempt: Id,
        messages: usize,
        turns: usize,
        remaining_turns: u64,
        restore: Option<Restore>,
    ) -> Result<Decision, Thrown>;
    /// Opens a session of the participant at this position and keeps it under `session`.
    async fn open_session(
        &self,
        session: SessionId,
        participant: usize,
        checkpoint: Option<Checkpoint>,
    ) -> Result<SessionTraits, Thrown>;
    /// Runs a turn.
    async fn run_turn(&self, session: SessionId, turn: Rc<TurnView>) -> Result<Outcome, Thrown>;
    /// Continues a turn after its wait.
    async fn resume_turn(
        &self,
        session: SessionId,
        turn: Rc<TurnView>,
        responses: Vec<ParticipantResponse>,
    ) -> Result<Outcome, Thrown>;
    /// Asks for the private state.
    async fn take_checkpoint(&self, session: SessionId) -> Result<Checkpoint, Thrown>;
    /// Gives a session back to its factory, once.
    async fn release_session(&self, session: SessionId) -> Result<(), Thrown>;

    /// Fires an attempt's signal.
    fn abort(&self, attempt: &Id, reason: StopReason);
    /// The attempt is over.
    fn close_attempt(&self, attempt: &Id);
    /// Asks the price policy; `None` where it throws or gives none.
    fn price(&self, record: &UsageRecord) -> Option<Money>;
    /// Publishes what became durable and tells the observers. `None` where nobody has to be awaited.
    fn emit(&self, emission: Emission) -> Option<Task>;
    /// Sets a timer; when it runs out the host gives the driver [`crate::conversation::Input::TimerFired`].
    fn start_timer(&self, timer: Timer, delay_ms: f64);
    /// Clears a timer.
    fn stop_timer(&self, timer: Timer);
    /// Settles a call.
    fn reply(&self, call: CallId, result: Result<Reply, RoundtableError>);
    /// Settles an admission or a report.
    fn answer(&self, ticket: Ticket, result: Result<(), ServiceRefusal>);
}
