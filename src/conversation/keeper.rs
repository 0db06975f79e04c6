//! A record under a call, whatever its lines mean: created where there is none, claimed, read up to date,
//! appended to, one batch at a time, and given back. What becomes ready while an append is under way
//! leaves together in the next.
//!
//! Sans I/O like everything here: calls and the store's answers go in, [`Effect`]s for the store and
//! [`Told`]s for the owner come out. Teams keep their records by it.

use super::effect::{Effect, Summary};
use super::error::{Code, RoundtableError, StoreFailure};
use super::input::{Claim, Now, ReadBatches, Timer};
use super::writer::RETRY_PAUSES_MS;
use crate::record::codec::MAX_BATCH_LEN;
use crate::record::model::Id;
use crate::value::text::utf16_len;
use std::collections::VecDeque;
use std::rc::Rc;

/// Keeps one record for one handle. `T` is what the owner ties to a line until it is durable.
#[derive(Debug)]
pub struct Keeper<T> {
    owner: Id,
    lease_ms: u64,
    revision: u64,
    stage: Stage,
    first: Option<Rc<[String]>>,
    tries: usize,
    claim: Option<Held>,
    untrusted: Option<Claim>,
    sent: f64,
    renewing: bool,
    reading: bool,
    /// A failed call is repeated when the timer runs out.
    pausing: bool,
    queue: VecDeque<Batch<T>>,
    in_flight: Option<Batch<T>>,
    effects: VecDeque<Effect>,
    told: VecDeque<Told<T>>,
}

/// What the owner is told.
#[derive(Debug)]
pub enum Told<T> {
    /// A batch that is in the store, in order; `ours` holds what was tied to its lines.
    Batch {
        /// Its revision.
        revision: u64,
        /// Its lines.
        lines: Rc<[String]>,
        /// Empty where another handle wrote it.
        ours: Vec<T>,
    },
    /// The record is claimed and read: lines can be pushed.
    Ready,
    /// Nothing more is written; end all work, then close.
    Failed(RoundtableError),
    /// The claim is given back.
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    Creating,
    Claiming,
    Reading,
    Working,
    Failed,
    Closing,
    Releasing,
}

#[derive(Debug)]
struct Held {
    claim: Claim,
    trusted_until: f64,
}

#[derive(Debug)]
struct Batch<T> {
    /// While it is in the queue and grows.
    pushed: Vec<String>,
    lines: Rc<[String]>,
    len: usize,
    ours: Vec<T>,
    operation_id: String,
    summary: Option<Summary>,
}

impl<T> Keeper<T> {
    /// A keeper at rest; `owner` tells this handle from every other.
    #[must_use]
    pub fn new(owner: Id, lease_ms: u64) -> Self {
        Keeper {
            owner,
            lease_ms,
            revision: 0,
            stage: Stage::Idle,
            first: None,
            tries: 0,
            claim: None,
            untrusted: None,
            sent: 0.0,
            renewing: false,
            reading: false,
            pausing: false,
            queue: VecDeque::new(),
            in_flight: None,
            effects: VecDeque::new(),
            told: VecDeque::new(),
        }
    }

    /// A keeper at rest that has read the record up to a revision.
    #[must_use]
    pub fn at(owner: Id, lease_ms: u64, revision: u64) -> Self {
        Keeper { revision, ..Keeper::new(owner, lease_ms) }
    }

    /// The last revision known to be durable.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The fence of the claim, 0 without one.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.claim.as_ref().map_or(0, |held| held.claim.fence)
    }

    /// Whether nothing pushed is still on its way.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_none()
    }

    /// Whether lines can be pushed.
    #[must_use]
    pub fn is_working(&self) -> bool {
        self.stage == Stage::Working
    }

    /// The next thing to be done with the store.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The next thing to be known.
    pub fn poll_told(&mut self) -> Option<Told<T>> {
        self.told.pop_front()
    }

    /// Takes the record up, from rest. `first` is the batch that creates it, for a record that nobody may
    /// have made yet; one that exists is read instead.
    pub fn open(&mut self, now: Now, first: Option<(Rc<[String]>, Summary)>) {
        self.tries = 0;
        match first.filter(|_| self.revision == 0) {
            Some((lines, summary)) => {
                self.stage = Stage::Creating;
                self.first = Some(lines.clone());
                self.effects.push_back(Effect::Create { entries: lines, summary });
            }
            None => self.ask_claim(now),
        }
    }

    /// The store's answer to a creation.
    pub fn created(&mut self, now: Now, result: Result<(), StoreFailure>) {
        if self.stage != Stage::Creating {
            return;
        }
        match result {
            // An existing record, whoever made it, is read: the owner compares how it begins.
            Ok(()) | Err(StoreFailure { code: Some(Code::Conflict), .. }) => self.ask_claim(now),
            Err(failure) => self.call_failed("create", failure),
        }
    }

    fn ask_claim(&mut self, now: Now) {
        if self.stage != Stage::Claiming {
            self.stage = Stage::Claiming;
            self.tries = 0;
        }
        // Trust counts from the moment of asking.
        self.sent = now.mono;
        self.effects.push_back(Effect::Claim { owner_id: self.owner.clone(), lease_ms: self.lease_ms });
    }

    /// The store's answer to a claim.
    pub fn claimed(&mut self, now: Now, result: Result<Claim, StoreFailure>) {
        if self.stage != Stage::Claiming {
            return;
        }
        match result {
            Ok(claim) => {
                self.hold(now, claim);
                self.stage = Stage::Reading;
                self.tries = 0;
                self.read();
            }
            Err(mut failure) => {
                // After a claim whose answer was lost, the holder may well be this handle.
                if self.tries > 0 && failure.code == Some(Code::Busy) {
                    failure.code = None;
                }
                self.call_failed("claim", failure);
            }
        }
    }

    fn hold(&mut self, now: Now, claim: Claim) {
        let lease = self.lease_ms as f64;
        self.claim = Some(Held { claim, trusted_until: self.sent + lease * 2.0 / 3.0 });
        self.arm(Timer::Lease, self.sent + lease / 3.0 - now.mono);
    }

    fn read(&mut self) {
        self.reading = true;
        self.effects.push_back(Effect::Read { after: self.revision });
    }

    /// The store's answer to a read.
    pub fn batches_read(&mut self, result: Result<Option<ReadBatches>, StoreFailure>) {
        self.reading = false;
        if self.stage != Stage::Reading {
            return;
        }
        match result {
            Err(failure) => self.call_failed("read", failure),
            Ok(None) => self.fail(RoundtableError::new(Code::NotFound, "the store has no such record")),
            Ok(Some(read)) => {
                let before = self.revision;
                for batch in read.batches {
                    if batch.revision != self.revision + 1 {
                        let message =
                            format!("the store gave batch {} where {} was due", batch.revision, self.revision + 1);
                        return self.fail(RoundtableError::new(Code::InvalidRecord, message));
                    }
                    self.revision = batch.revision;
                    let told = Told::Batch { revision: batch.revision, lines: batch.entries.into(), ours: Vec::new() };
                    self.told.push_back(told);
                }
                if self.revision < read.revision && self.revision > before {
                    return self.read();
                }
                if self.revision != read.revision {
                    let message = format!("the store is at revision {}, not {}", read.revision, self.revision);
                    return self.fail(RoundtableError::new(Code::InvalidRecord, message));
                }
                self.stage = Stage::Working;
                self.told.push_back(Told::Ready);
            }
        }
    }

    /// Puts lines on their way, all in one batch; gives the revision they will have.
    pub fn push(&mut self, lines: Vec<String>, ours: Vec<T>) -> u64 {
        let len = lines.iter().map(|line| utf16_len(line)).sum::<usize>();
        match self.queue.back_mut().filter(|batch| batch.len + len <= MAX_BATCH_LEN) {
            Some(batch) => {
                batch.pushed.extend(lines);
                batch.len += len;
                batch.ours.extend(ours);
            }
            None => {
                let (sent, operation_id) = (Rc::new([]), String::new());
                self.queue.push_back(Batch { pushed: lines, lines: sent, len, ours, operation_id, summary: None });
            }
        }
        self.revision + self.queue.len() as u64 + u64::from(self.in_flight.is_some())
    }

    /// Sends the next batch, if none is under way.
    pub fn flush(&mut self, summary: impl FnOnce() -> Summary) {
        if self.in_flight.is_some() || !matches!(self.stage, Stage::Working | Stage::Closing) {
            return;
        }
        let fence = self.fence();
        let Some(mut batch) = self.queue.pop_front() else { return };
        batch.lines = std::mem::take(&mut batch.pushed).into();
        batch.operation_id = format!("{}-{fence}-{}", self.owner, self.revision + 1);
        batch.summary = Some(summary());
        self.in_flight = Some(batch);
        self.tries = 0;
        self.send();
    }

    fn send(&mut self) {
        let (Some(batch), Some(held)) = (&self.in_flight, &self.claim) else { return };
        let Some(summary) = batch.summary.clone() else { return };
        self.effects.push_back(Effect::Append {
            claim: held.claim.clone(),
            expected_revision: self.revision,
            operation_id: batch.operation_id.clone(),
            entries: batch.lines.clone(),
            summary,
            snapshot: None,
        });
    }

    /// The store's answer to an append.
    pub fn appended(&mut self, result: Result<u64, StoreFailure>) {
        let Some(batch) = self.in_flight.take() else { return };
        match result {
            Ok(revision) if revision == self.revision + 1 => {
                self.revision = revision;
                self.told.push_back(Told::Batch { revision, lines: batch.lines, ours: batch.ours });
            }
            Ok(revision) => {
                let message = format!("the store acknowledged {revision} where {} was due", self.revision + 1);
                self.fail(RoundtableError::new(Code::Unavailable, message));
            }
            Err(failure) => {
                let error = failure.to_error("append");
                match failure.code {
                    Some(Code::StaleClaim | Code::Busy) => self.lose_claim(error.caused_by(failure.value)),
                    None if self.tries < RETRY_PAUSES_MS.len() && self.claim.is_some() => {
                        self.in_flight = Some(batch);
                        self.repeat_later();
                    }
                    _ => self.fail(error),
                }
            }
        }
        self.settle();
    }

    fn call_failed(&mut self, name: &str, failure: StoreFailure) {
        if failure.code.is_none() && self.tries < RETRY_PAUSES_MS.len() {
            return self.repeat_later();
        }
        self.fail(failure.to_error(name));
        self.settle();
    }

    fn repeat_later(&mut self) {
        let pause = RETRY_PAUSES_MS.get(self.tries).copied().unwrap_or_default();
        self.tries += 1;
        self.pausing = true;
        self.arm(Timer::Retry, pause);
    }

    /// A timer ran out.
    pub fn timer_fired(&mut self, now: Now, timer: Timer, summary: impl FnOnce() -> Summary) {
        self.pausing &= timer == Timer::Lease;
        match timer {
            Timer::Lease => self.lease_due(now),
            _ if self.in_flight.is_some() => self.send(),
            _ => match self.stage {
                Stage::Creating => {
                    if let Some(entries) = self.first.clone() {
                        self.effects.push_back(Effect::Create { entries, summary: summary() });
                    }
                }
                Stage::Claiming => self.ask_claim(now),
                Stage::Reading => self.read(),
                _ => {}
            },
        }
    }

    fn lease_due(&mut self, now: Now) {
        // A renewal has had until the end of the trust.
        if self.renewing {
            return self.distrust();
        }
        let Some(held) = &self.claim else { return };
        let (claim, trusted) = (held.claim.clone(), held.trusted_until);
        self.sent = now.mono;
        self.renewing = true;
        self.effects.push_back(Effect::Renew { claim, lease_ms: self.lease_ms });
        self.arm(Timer::Lease, trusted - now.mono);
    }

    /// The store's answer to a renewal.
    pub fn renewed(&mut self, now: Now, fence: u64, result: Result<Claim, StoreFailure>) {
        self.renewing = false;
        if self.claim.as_ref().is_some_and(|held| held.claim.fence == fence) {
            match result {
                Ok(claim) => self.hold(now, claim),
                // Unknown: trusted as long as it was, and asked for again before that ends.
                Err(StoreFailure { code: None, .. }) => self.arm(Timer::Lease, self.lease_ms as f64 / 12.0),
                Err(failure) => self.lose_claim(failure.to_error("renew")),
            }
        }
        self.settle();
    }

    /// An owner that cannot be sure of its claim any more acts as if it were lost. To be asked before every
    /// other input.
    pub fn check_trust(&mut self, now: Now) {
        if self.claim.as_ref().is_some_and(|held| now.mono >= held.trusted_until) {
            self.distrust();
        }
    }

    fn distrust(&mut self) {
        if let Some(held) = self.claim.take() {
            self.untrusted = Some(held.claim);
            self.lose_claim(RoundtableError::new(Code::StaleClaim, "the claim could not be renewed in time"));
        }
    }

    fn lose_claim(&mut self, error: RoundtableError) {
        self.claim = None;
        self.disarm(Timer::Lease);
        if self.stage != Stage::Releasing {
            self.fail(RoundtableError { code: Code::StaleClaim, ..error });
        }
    }

    /// Nothing more is written.
    pub fn fail(&mut self, error: RoundtableError) {
        self.queue.clear();
        if std::mem::take(&mut self.pausing) {
            self.in_flight = None;
        }
        if matches!(self.stage, Stage::Failed | Stage::Releasing | Stage::Idle) {
            return;
        }
        self.stage = Stage::Failed;
        self.disarm(Timer::Retry);
        self.told.push_back(Told::Failed(error));
    }

    /// Gives the claim back, once what is on its way has come back.
    pub fn close(&mut self) {
        if !matches!(self.stage, Stage::Idle | Stage::Releasing) {
            self.stage = Stage::Closing;
        }
        self.settle();
    }

    /// Moves on what only waited for answers.
    fn settle(&mut self) {
        if self.stage != Stage::Closing || !self.is_written() || self.renewing || self.reading {
            return;
        }
        self.stage = Stage::Releasing;
        self.disarm(Timer::Lease);
        self.disarm(Timer::Retry);
        match self.claim.take().map(|held| held.claim).or(self.untrusted.take()) {
            Some(claim) => self.effects.push_back(Effect::Release { claim }),
            None => self.released(),
        }
    }

    /// The store gave the claim back.
    pub fn released(&mut self) {
        if self.stage == Stage::Releasing {
            self.stage = Stage::Idle;
            self.told.push_back(Told::Closed);
        }
    }

    fn arm(&mut self, timer: Timer, delay_ms: f64) {
        let delay_ms = delay_ms.clamp(0.0, 2_147_483_647.0);
        self.effects.push_back(Effect::StartTimer { timer, delay_ms });
    }

    fn disarm(&mut self, timer: Timer) {
        self.effects.push_back(Effect::StopTimer { timer });
    }
}
