//! The way of entries to the store: one append at a time, everything that becomes ready meanwhile
//! leaves together in the next.

use super::effect::{Effect, Emission, Reply, Status, Summary};
use super::emission::events_of;
use super::error::{Code, RoundtableError, StoreFailure};
use super::input::{CallId, Ticket, Timer};
use super::machine::Machine;
use crate::record::codec::{MAX_BATCH_LEN, MAX_ENTRY_LEN, encode};
use crate::record::entry::Entry;
use crate::record::model::{Id, RunOutcome};
use crate::record::reading::RecordError;
use crate::record::snapshot;
use crate::record::state::{Phase, State};
use crate::value::text::utf16_len;
use std::collections::VecDeque;
use std::rc::Rc;

/// Batches on their way.
#[derive(Debug, Default)]
pub(super) struct Writer {
    queue: VecDeque<Batch>,
    in_flight: Option<Batch>,
    tries: usize,
    /// The length of the batches since the last snapshot.
    pub(super) since: usize,
    /// The length of the state when it was last written down.
    pub(super) snapshot: usize,
}

#[derive(Debug, Default)]
struct Batch {
    entries: Vec<Entry>,
    lines: Vec<String>,
    sent: Rc<[String]>,
    snapshot: Option<Rc<str>>,
    operation_id: String,
    len: usize,
    gates: Vec<Gate>,
}

/// What may happen once an entry is durable.
#[derive(Clone, Debug)]
pub(super) enum Gate {
    /// Dispatch the attempt, once observers know.
    Dispatch(Id),
    /// Ask the selector, once observers know.
    Select(Id),
    /// End the call of the run, once observers know.
    EndRun,
    /// Settle an external call, once observers know.
    Reply(CallId, Reply),
    /// Ask for the attempt's checkpoint.
    Checkpoint(Id),
    /// Settle an admission or a report.
    Answer(Ticket),
    /// Nothing but being written.
    None,
}

/// Shorter journals are read as fast without a snapshot.
const MIN_SNAPSHOT_LEN: usize = 16 * 1024;
/// The pauses before an append is repeated, in milliseconds.
pub(super) const RETRY_PAUSES_MS: [f64; 3] = [50.0, 250.0, 1250.0];

impl Machine {
    /// Puts an entry on its way and gives the revision it will have. Refused, with nothing changed,
    /// where it is too long; what the fold refuses is a fault of the engine and ends the call.
    pub(super) fn push(&mut self, entry: Entry, gate: Gate) -> Result<u64, RoundtableError> {
        if !self.calls.is_working() {
            return Err(RoundtableError::new(Code::Unavailable, "the call that would write this has failed"));
        }
        let line = encode(&entry).map_err(|reason| RoundtableError::new(Code::Internal, reason))?;
        let len = utf16_len(&line);
        if len > MAX_ENTRY_LEN {
            let message = format!("a journal entry has at most {MAX_ENTRY_LEN} UTF-16 units, this one has {len}");
            return Err(RoundtableError::new(Code::Conflict, message));
        }
        if self.writer.queue.back().is_none_or(|batch| batch.len + len > MAX_BATCH_LEN) {
            self.writer.queue.push_back(Batch::default());
        }
        let revision =
            self.durable.revision + self.writer.queue.len() as u64 + u64::from(self.writer.in_flight.is_some());
        if let Err(reason) = self.head.apply(&entry, revision) {
            let error = RoundtableError::new(Code::Internal, format!("the engine made an impossible entry: {reason}"));
            self.fail_call(error.clone());
            return Err(error);
        }
        if let Some(batch) = self.writer.queue.back_mut() {
            batch.entries.push(entry);
            batch.lines.push(line);
            batch.len += len;
            if !matches!(gate, Gate::None) {
                batch.gates.push(gate);
            }
        }
        Ok(revision)
    }

    /// Ties a gate to the last entry on its way; `false` where there is none.
    pub(super) fn join_writes(&mut self, gate: Gate) -> bool {
        let last = self.writer.queue.back_mut().or(self.writer.in_flight.as_mut());
        last.map(|batch| batch.gates.push(gate)).is_some()
    }

    /// Whether nothing is on its way.
    pub(super) fn is_written(&self) -> bool {
        self.writer.queue.is_empty() && self.writer.in_flight.is_none()
    }

    pub(super) fn append_in_flight(&self) -> bool {
        self.writer.in_flight.is_some()
    }

    /// Sends the next batch, if none is under way.
    pub(super) fn flush(&mut self) {
        if self.writer.in_flight.is_some() || !self.calls.is_working() {
            return;
        }
        let Some(held) = &self.calls.claim else { return };
        let fence = held.claim.fence;
        let Some(mut batch) = self.writer.queue.pop_front() else { return };
        batch.sent = std::mem::take(&mut batch.lines).into();
        batch.snapshot = self.due_snapshot(batch.len);
        batch.operation_id = format!("{}-{fence}-{}", self.owner, self.durable.revision + 1);
        self.writer.in_flight = Some(batch);
        self.writer.tries = 0;
        self.send();
    }

    /// Says how long the batches are that were loaded, and the snapshot before them; the next is due accordingly.
    pub fn count_stored(&mut self, since: usize, snapshot: usize) {
        (self.writer.since, self.writer.snapshot) = (since, snapshot);
    }

    /// The state after the batch that is about to leave, where the batches since the last snapshot exceed
    /// its length: so all snapshots together are no longer than the journal.
    fn due_snapshot(&mut self, len: usize) -> Option<Rc<str>> {
        self.writer.since += len;
        let due = self.writer.since > self.writer.snapshot.max(MIN_SNAPSHOT_LEN);
        if !due || !self.writer.queue.is_empty() || self.head_is_stale {
            return None;
        }
        let state = snapshot::encode(&self.head).ok()?;
        let len = utf16_len(&state);
        if len > self.writer.since.min(MAX_BATCH_LEN) {
            // The state grows while the batches catch up with it: it is not measured again after every turn.
            self.writer.snapshot = len + len / 2;
            return None;
        }
        (self.writer.snapshot, self.writer.since) = (len, 0);
        Some(state.into())
    }

    fn send(&mut self) {
        let (Some(batch), Some(held)) = (&self.writer.in_flight, &self.calls.claim) else { return };
        let append = Effect::Append {
            claim: held.claim.clone(),
            expected_revision: self.durable.revision,
            operation_id: batch.operation_id.clone(),
            entries: batch.sent.clone(),
            summary: self.summary(),
            snapshot: batch.snapshot.clone(),
        };
        self.effect(append);
    }

    /// Repeats the append in flight; without the claim nothing more is written, so it is given up.
    pub(super) fn repeat_append(&mut self) {
        if self.calls.claim.is_some() {
            return self.send();
        }
        self.abandon_append();
        self.fail_call(RoundtableError::new(Code::StaleClaim, "the claim was lost before an append was confirmed"));
    }

    /// What listings say of the conversation.
    pub(super) fn summary(&self) -> Summary {
        Summary {
            status: self.head.status(),
            members: self.config.participants.iter().map(|p| p.id.clone()).collect(),
            created_at: self.head.created.at.clone(),
            updated_at: self.at(),
        }
    }

    pub(super) fn appended(&mut self, result: Result<u64, StoreFailure>) {
        if self.writer.in_flight.is_none() {
            return;
        }
        match result {
            Ok(revision) if revision == self.durable.revision + 1 => self.confirmed(revision),
            Ok(revision) => {
                let due = self.durable.revision + 1;
                let message = format!("the store acknowledged revision {revision} where {due} was due");
                self.abandon_append();
                self.fail_call(RoundtableError::new(Code::Unavailable, message));
            }
            Err(failure) => self.append_failed(failure),
        }
    }

    fn append_failed(&mut self, failure: StoreFailure) {
        let error = failure.to_error("append");
        match failure.code {
            Some(Code::StaleClaim | Code::Busy) => {
                self.abandon_append();
                self.lose_claim(error.caused_by(failure.value));
            }
            Some(_) => {
                self.abandon_append();
                self.fail_call(error);
            }
            None => match RETRY_PAUSES_MS.get(self.writer.tries) {
                Some(pause) if self.calls.claim.is_some() => {
                    self.writer.tries += 1;
                    self.arm(Timer::Retry, self.now.mono + pause);
                }
                _ => {
                    self.abandon_append();
                    self.fail_call(error);
                }
            },
        }
    }

    fn abandon_append(&mut self) {
        if let Some(batch) = self.writer.in_flight.take() {
            self.writer.queue.push_front(batch);
        }
    }

    /// Forgets what was not acknowledged and gives back the gates that will not open.
    pub(super) fn drop_queue(&mut self) -> Vec<Gate> {
        self.head_is_stale |= !self.writer.queue.is_empty();
        let gates = self.writer.queue.drain(..).flat_map(|batch| batch.gates);
        gates.chain(self.held.drain(..).map(|(_, gate)| gate)).collect()
    }

    fn confirmed(&mut self, revision: u64) {
        let Some(batch) = self.writer.in_flight.take() else { return };
        // It folded when it was pushed.
        let _ = self.fold_durable(&batch.entries, revision);
        let emission = self.emitted;
        let working = self.calls.is_working();
        for gate in batch.gates {
            match gate {
                Gate::Answer(ticket) => self.settle_ticket(ticket, Ok(())),
                // The call failed meanwhile, but its own entry made it.
                Gate::EndRun if !working => self.run_ended(),
                Gate::Reply(call, reply) if !working => self.finish_call(Some(call), Ok(reply)),
                gate if !working => self.close_gate(gate),
                Gate::Checkpoint(attempt) => self.take_checkpoint(&attempt),
                gate => self.held.push_back((emission, gate)),
            }
        }
        self.release_held();
    }

    /// Folds a durable batch and tells of it.
    pub(super) fn fold_durable(&mut self, entries: &[Entry], revision: u64) -> Result<(), RecordError> {
        let mut events = Vec::new();
        let turns = self.durable.turns.len();
        for entry in entries {
            let messages = self.durable.messages.len();
            let index = self.durable.entries;
            self.durable.apply(entry, revision).map_err(|reason| RecordError { index, reason })?;
            events_of(entry, &self.durable, messages, &mut events);
            if let Entry::TurnPrepared(prepared) = entry {
                self.sync_session(&prepared.turn_id);
            }
        }
        self.forget_settled_attempts();
        self.emitted += 1;
        let completed = self.durable.turns.get(turns..).unwrap_or_default().to_vec();
        self.effect(Effect::Emit(Emission { emission: self.emitted, revision, events, completed }));
        Ok(())
    }

    /// Lets through what observers know of; everything, where nobody may be waited for.
    pub(super) fn release_held(&mut self) {
        let unconditional = self.observers_cannot_block();
        while let Some((_, gate)) =
            self.held.front().filter(|(emission, _)| unconditional || *emission <= self.delivered).cloned()
        {
            self.held.pop_front();
            match gate {
                Gate::Dispatch(attempt) => self.open_or_run(&attempt),
                Gate::Select(attempt) => self.select_now(&attempt),
                Gate::EndRun => self.run_ended(),
                Gate::Reply(call, reply) => self.finish_call(Some(call), Ok(reply)),
                Gate::Checkpoint(_) | Gate::Answer(_) | Gate::None => {}
            }
        }
    }
}

impl State {
    /// Where the conversation stands, for listings.
    #[must_use]
    pub fn status(&self) -> Status {
        let mut turns = self.group.iter().flat_map(|g| &g.turns);
        match &self.ended {
            Some(RunOutcome::Completed { .. }) => Status::Completed,
            Some(_) => Status::Failed,
            None if turns.any(|t| t.phase == Phase::Unsettled) => Status::RecoveryRequired,
            None if self.open_requests().next().is_some() => Status::Waiting,
            None => Status::Open,
        }
    }
}

impl StoreFailure {
    /// The error of a call that ends because of it.
    pub(super) fn to_error(&self, call: &str) -> RoundtableError {
        let code = self.code.unwrap_or(Code::Unavailable);
        RoundtableError::new(code, format!("the store's {call} failed: {}", self.message)).caused_by(self.value)
    }
}
