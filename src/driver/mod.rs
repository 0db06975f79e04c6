//! Performs a machine's effects against a host's ports. It decides nothing.

pub mod host;

pub use host::Host;

use crate::conversation::{Effect, Input, Machine};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// One conversation's machine together with its host.
///
/// Host code runs only while nothing is borrowed, so it may call back in at any time: what it brings is
/// queued and taken after the effects that are being performed.
pub struct Driver<H: Host> {
    machine: RefCell<Machine>,
    host: H,
    inbox: RefCell<VecDeque<Input>>,
    busy: Cell<bool>,
}

impl<H: Host> Driver<H> {
    /// A driver at rest.
    pub fn new(machine: Machine, host: H) -> Rc<Self> {
        Rc::new(Driver {
            machine: RefCell::new(machine),
            host,
            inbox: RefCell::new(VecDeque::new()),
            busy: Cell::new(false),
        })
    }

    /// The host.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// Looks at the machine. `look` must not call into the driver.
    pub fn with_machine<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.machine.borrow())
    }

    /// Takes an input and performs what follows from it.
    pub fn input(self: &Rc<Self>, input: Input) {
        self.inbox.borrow_mut().push_back(input);
        if self.busy.replace(true) {
            return;
        }
        while let Some(input) = self.next_input() {
            let now = self.host.now();
            self.host.received(now, &input);
            self.machine.borrow_mut().handle_input(now, input);
            while let Some(effect) = self.next_effect() {
                self.host.decided(now, &effect);
                self.perform(effect);
            }
        }
        self.busy.set(false);
    }

    fn next_input(&self) -> Option<Input> {
        self.inbox.borrow_mut().pop_front()
    }

    fn next_effect(&self) -> Option<Effect> {
        self.machine.borrow_mut().poll_effect()
    }

    fn perform(self: &Rc<Self>, effect: Effect) {
        let driver = self.clone();
        let host = &self.host;
        match effect {
            Effect::Create { entries, summary } => {
                self.spawn(async move { Input::RecordCreated(driver.host.create(entries, summary).await) });
            }
            Effect::Claim { owner_id, lease_ms } => {
                self.spawn(async move { Input::Claimed(driver.host.claim(owner_id, lease_ms).await) });
            }
            Effect::Renew { claim, lease_ms } => {
                let fence = claim.fence;
                self.spawn(async move { Input::Renewed { fence, result: driver.host.renew(claim, lease_ms).await } });
            }
            Effect::Release { claim } => self.spawn(async move {
                driver.host.release(claim).await;
                Input::Released
            }),
            Effect::Read { after } => {
                self.spawn(async move { Input::BatchesRead(driver.host.read(after).await) });
            }
            Effect::Append { claim, expected_revision, operation_id, entries, summary, snapshot } => {
                self.spawn(async move {
                    let append = driver.host.append(claim, expected_revision, operation_id, entries, summary, snapshot);
                    Input::Appended(append.await)
                })
            }
            Effect::Select { attempt, messages, turns, remaining_turns, restore } => self.spawn(async move {
                let result = driver.host.select(attempt.clone(), messages, turns, remaining_turns, restore).await;
                Input::SelectorReturned { attempt, result }
            }),
            Effect::OpenSession { session, participant, checkpoint } => self.spawn(async move {
                let result = driver.host.open_session(session, participant, checkpoint).await;
                Input::SessionOpened { session, result }
            }),
            Effect::RunTurn { session, turn } => self.spawn(async move {
                let attempt = turn.attempt_id.clone();
                let result = driver.host.run_turn(session, turn).await;
                Input::TurnReturned { attempt, result }
            }),
            Effect::ResumeTurn { session, turn, responses } => self.spawn(async move {
                let attempt = turn.attempt_id.clone();
                let result = driver.host.resume_turn(session, turn, responses).await;
                Input::TurnReturned { attempt, result }
            }),
            Effect::TakeCheckpoint { session, attempt } => self.spawn(async move {
                let result = driver.host.take_checkpoint(session).await;
                Input::CheckpointReturned { attempt, result }
            }),
            Effect::ReleaseSession { session } => self.spawn(async move {
                let result = driver.host.release_session(session).await;
                Input::SessionReleased { session, result }
            }),
            Effect::Price { ticket, record } => {
                let cost = host.price(&record);
                self.inbox.borrow_mut().push_front(Input::Priced { ticket, cost });
            }
            Effect::Emit(emission) => {
                let number = emission.emission;
                match host.emit(emission) {
                    None => self.inbox.borrow_mut().push_front(Input::Delivered { emission: number }),
                    Some(delivery) => self.spawn(async move {
                        delivery.await;
                        Input::Delivered { emission: number }
                    }),
                }
            }
            Effect::Abort { attempt, reason } => host.abort(&attempt, reason),
            Effect::CloseAttempt { attempt } => host.close_attempt(&attempt),
            Effect::StartTimer { timer, delay_ms } => host.start_timer(timer, delay_ms),
            Effect::StopTimer { timer } => host.stop_timer(timer),
            Effect::Reply { call, result } => host.reply(call, result),
            Effect::Answer { ticket, result } => host.answer(ticket, result),
        }
    }

    fn spawn(self: &Rc<Self>, work: impl Future<Output = Input> + 'static) {
        let driver = self.clone();
        self.host.spawn(Box::pin(async move {
            let input = work.await;
            driver.input(input);
        }));
    }
}
