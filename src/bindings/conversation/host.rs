//! [`Host`] over a JavaScript ports object. Everything that crosses is a number or one text.

use super::executor::Executor;
use super::ports::Ports;
use super::slots::{Answer, Slots};
use super::wire::{self, AppendHead};
use crate::bindings::crossing::json;
use crate::conversation::effect::{Emission, Reply, Restore, ServiceRefusal, Summary, TurnView};
use crate::conversation::error::{RoundtableError, StoreFailure, Thrown};
use crate::conversation::input::{CallId, Claim, Decision, Now, ReadBatches, SessionId, SessionTraits, Ticket, Timer};
use crate::driver::host::{Host, Task};
use crate::record::model::{Checkpoint, Id, Outcome, ParticipantResponse, StopReason};
use crate::record::usage::{Money, UsageRecord};
use crate::value::read::read;
use serde::de::DeserializeOwned;
use std::cell::Cell;
use std::rc::Rc;
use wasm_bindgen::JsValue;

/// The ports of one conversation.
pub(super) struct JsHost {
    /// The shell's side.
    pub(super) ports: Rc<Ports>,
    /// Where its answers arrive.
    pub(super) slots: Slots,
    /// What runs the driver's tasks.
    pub(super) executor: Executor,
    /// Whether anybody wants events; without, emissions carry only what the shell's mirror needs.
    pub(super) observed: Rc<Cell<bool>>,
}

impl JsHost {
    async fn ask(&self, call: impl FnOnce(&Ports, u32) -> Result<(), JsValue>) -> Answer {
        let slot = self.slots.open();
        match call(&self.ports, slot.id()) {
            Ok(()) => slot.await,
            Err(_) => Answer::Failed(String::new()),
        }
    }
}

impl Host for JsHost {
    fn now(&self) -> Now {
        Now { wall: self.ports.now(), mono: self.ports.mono() }
    }

    fn spawn(&self, task: Task) {
        self.executor.spawn(task);
    }

    async fn create(&self, entries: Rc<[String]>, summary: Summary) -> Result<(), StoreFailure> {
        let batch = wire::batch(None, &summary, &entries);
        match self.ask(|ports, slot| ports.create(slot, &batch)).await {
            Answer::Failed(failure) => Err(store_failure(&failure)),
            _ => Ok(()),
        }
    }

    async fn claim(&self, owner_id: Id, lease_ms: u64) -> Result<Claim, StoreFailure> {
        stored(self.ask(|ports, slot| ports.claim(slot, &owner_id, lease_ms as f64)).await)
    }

    async fn renew(&self, claim: Claim, lease_ms: u64) -> Result<Claim, StoreFailure> {
        stored(self.ask(|ports, slot| ports.renew(slot, &json(&claim), lease_ms as f64)).await)
    }

    async fn release(&self, claim: Claim) {
        self.ask(|ports, slot| ports.release(slot, &json(&claim))).await;
    }

    async fn read(&self, after: u64) -> Result<Option<ReadBatches>, StoreFailure> {
        match self.ask(|ports, slot| ports.read(slot, after as f64)).await {
            Answer::Nothing => Ok(None),
            answer => stored(answer).map(Some),
        }
    }

    async fn append(
        &self,
        claim: Claim,
        expected_revision: u64,
        operation_id: String,
        entries: Rc<[String]>,
        summary: Summary,
        snapshot: Option<Rc<str>>,
    ) -> Result<u64, StoreFailure> {
        let head = AppendHead { claim: &claim, expected_revision, operation_id: &operation_id };
        let batch = wire::batch(Some(&head), &summary, &entries);
        match self.ask(|ports, slot| ports.append(slot, &batch, snapshot.as_deref())).await {
            // The shell has checked that it is a safe integer from 0.
            Answer::Number(revision) => Ok(revision as u64),
            Answer::Failed(failure) => Err(store_failure(&failure)),
            _ => Err(store_failure("")),
        }
    }

    async fn select(
        &self,
        attempt: Id,
        messages: usize,
        turns: usize,
        remaining_turns: u64,
        restore: Option<Restore>,
    ) -> Result<Decision, Thrown> {
        let (messages, turns, restore) = (index(messages), index(turns), restore.as_ref().map(json));
        let asked = |ports: &Ports, slot| {
            ports.select(slot, &attempt, messages, turns, remaining_turns as f64, restore.as_deref())
        };
        returned(self.ask(asked).await)
    }

    async fn open_session(
        &self,
        session: SessionId,
        participant: usize,
        checkpoint: Option<Checkpoint>,
    ) -> Result<SessionTraits, Thrown> {
        let checkpoint = checkpoint.as_ref().map(json);
        let asked = |ports: &Ports, slot| ports.open_session(slot, session, index(participant), checkpoint.as_deref());
        match self.ask(asked).await {
            Answer::Number(bits) => {
                let bits = bits as u32;
                Ok(SessionTraits { can_resume: bits & 1 != 0, can_checkpoint: bits & 2 != 0 })
            }
            answer => returned(answer),
        }
    }

    async fn run_turn(&self, session: SessionId, turn: Rc<TurnView>) -> Result<Outcome, Thrown> {
        outcome(self.ask(|ports, slot| ports.run_turn(slot, session, &json(&*turn), None)).await)
    }

    async fn resume_turn(
        &self,
        session: SessionId,
        turn: Rc<TurnView>,
        responses: Vec<ParticipantResponse>,
    ) -> Result<Outcome, Thrown> {
        let responses = json(&responses);
        outcome(self.ask(|ports, slot| ports.run_turn(slot, session, &json(&*turn), Some(&responses))).await)
    }

    async fn take_checkpoint(&self, session: SessionId) -> Result<Checkpoint, Thrown> {
        returned(self.ask(|ports, slot| ports.take_checkpoint(slot, session)).await)
    }

    async fn release_session(&self, session: SessionId) -> Result<(), Thrown> {
        match self.ask(|ports, slot| ports.release_session(slot, session)).await {
            Answer::Failed(failure) => Err(thrown(&failure)),
            _ => Ok(()),
        }
    }

    fn abort(&self, attempt: &Id, reason: StopReason) {
        let reason = match reason {
            StopReason::Cancelled => "cancelled",
            StopReason::Time => "time",
            StopReason::ModelCalls => "model-calls",
            StopReason::GroupFailed => "group-failed",
            StopReason::Interrupted => "interrupted",
        };
        let _ = self.ports.abort(attempt, reason);
    }

    fn close_attempt(&self, attempt: &Id) {
        let _ = self.ports.close_attempt(attempt);
    }

    fn price(&self, record: &UsageRecord) -> Option<Money> {
        let amount = self.ports.price(&json(record)).ok().flatten()?;
        read(&amount).ok()
    }

    fn emit(&self, emission: Emission) -> Option<Task> {
        let text = wire::emission(&emission, self.observed.get());
        let slot = self.slots.open();
        match self.ports.emit(slot.id(), &text) {
            Ok(true) => Some(Box::pin(async move {
                slot.await;
            })),
            _ => None,
        }
    }

    fn start_timer(&self, timer: Timer, delay_ms: f64) {
        let _ = self.ports.start_timer(timer_number(timer), delay_ms);
    }

    fn stop_timer(&self, timer: Timer) {
        let _ = self.ports.stop_timer(timer_number(timer));
    }

    fn reply(&self, call: CallId, result: Result<Reply, RoundtableError>) {
        let _ = match result {
            Ok(reply) => self.ports.reply(call, true, &json(&reply)),
            Err(error) => self.ports.reply(call, false, &json(&error)),
        };
    }

    fn answer(&self, ticket: Ticket, result: Result<(), ServiceRefusal>) {
        let refusal = match result {
            Ok(()) => None,
            Err(ServiceRefusal::Aborted) => Some(String::new()),
            Err(ServiceRefusal::Refused(error)) => Some(json(&error)),
        };
        let _ = self.ports.answer(ticket, refusal.as_deref());
    }
}

/// Timers as the ports number them.
const TIMERS: [Timer; 4] = [Timer::Lease, Timer::RunTimeout, Timer::Settle, Timer::Retry];

pub(in crate::bindings) fn timer_number(timer: Timer) -> u32 {
    TIMERS.iter().position(|t| *t == timer).map_or(0, index)
}

/// The timer with a port's number.
pub(in crate::bindings) fn timer(number: u32) -> Option<Timer> {
    TIMERS.get(number as usize).copied()
}

/// Memory is 32 bits wide here, so nothing is lost.
fn index(position: usize) -> u32 {
    position as u32
}

fn outcome(answer: Answer) -> Result<Outcome, Thrown> {
    match answer {
        Answer::Speak(content) => Ok(Outcome::Speak { content: content.into() }),
        answer => returned(answer),
    }
}

fn returned<T: DeserializeOwned>(answer: Answer) -> Result<T, Thrown> {
    match answer {
        Answer::Text(text) => read(&text).map_err(|error| misshapen(&error.message)),
        Answer::Failed(failure) => Err(thrown(&failure)),
        _ => Err(misshapen("an answer of another kind")),
    }
}

fn stored<T: DeserializeOwned>(answer: Answer) -> Result<T, StoreFailure> {
    match answer {
        Answer::Text(text) => read(&text).map_err(|error| StoreFailure {
            code: None,
            message: format!("the store's answer has another shape: {error}").into(),
            value: None,
        }),
        Answer::Failed(failure) => Err(store_failure(&failure)),
        _ => Err(store_failure("")),
    }
}

fn thrown(failure: &str) -> Thrown {
    read(failure).unwrap_or_else(|error| misshapen(&error.message))
}

fn store_failure(failure: &str) -> StoreFailure {
    read(failure).unwrap_or_else(|_| StoreFailure {
        code: None,
        message: "the store's answer was lost".into(),
        value: None,
    })
}

fn misshapen(problem: &str) -> Thrown {
    let message = format!("the shell's answer has another shape: {problem}").into();
    Thrown { message, code: None, value: None, is_abort: false, is_refused_admission: false }
}
