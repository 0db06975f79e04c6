//! The life of a host call: create the record where there is none, claim it, read what others wrote,
//! work, give the claim back, reply. One call at a time; late usage reports wait their turn.

use super::effect::{Effect, Reply, ServiceRefusal};
use super::error::{Code, RoundtableError, StoreFailure, Thrown};
use super::input::{CallId, Claim, ReadBatches, Request, Ticket, Timer};
use super::ledger::LateWork;
use super::machine::Machine;
use super::run::RunControl;
use super::writer::{Gate, RETRY_PAUSES_MS};
use crate::record::codec::{decode, encode};
use crate::record::entry::{Created, Entry};
use crate::record::model::StopReason;
use crate::record::state::State;
use std::collections::VecDeque;
use std::rc::Rc;

/// Who is calling, and what the call holds.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) active: Option<Active>,
    /// A host call that came while late work was being saved.
    next: Option<(CallId, Request)>,
    /// Reports and results that came after their run.
    pub(super) late: VecDeque<LateWork>,
    late_answers: Vec<(Ticket, Result<(), ServiceRefusal>)>,
    pub(super) claim: Option<Held>,
    /// A claim that is no longer trusted, though the store may still keep it for this handle.
    untrusted: Option<Claim>,
    claim_sent: f64,
    /// A renewal is on its way; no call settles before it is back.
    renewing: bool,
    /// A read is on its way; likewise, or its answer would be taken for that of the next call.
    reading: bool,
    /// The journal did not fold; nothing more can be done on this handle.
    broken: Option<RoundtableError>,
    creation: Option<Creation>,
    disposal: Option<Disposal>,
    pub(super) release_failures: Vec<Thrown>,
}

/// The call at work.
#[derive(Debug)]
pub(super) struct Active {
    /// Absent while late work is being saved.
    pub(super) call: Option<CallId>,
    pub(super) request: Option<Request>,
    pub(super) stage: Stage,
    tries: usize,
}

/// How far a call has come.
#[derive(Debug)]
pub(super) enum Stage {
    Creating,
    /// Reading back whether an uncertain creation was ours.
    Confirming,
    Claiming,
    Reading,
    Working,
    /// It failed; running work is awaited.
    Draining(RoundtableError),
    /// It has its result; what is on its way is awaited.
    Finishing(Result<Reply, RoundtableError>),
    Releasing(Result<Reply, RoundtableError>),
}

/// A claim, and until when its owner may trust it by its own clock.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) claim: Claim,
    trusted_until: f64,
    sent: f64,
}

#[derive(Debug)]
struct Creation {
    created: Rc<Created>,
    lines: Rc<[String]>,
    uncertain: bool,
}

#[derive(Debug, Default)]
struct Disposal {
    replies: Vec<CallId>,
}

impl Calls {
    /// Whether entries can be written: a call is at work, or done and not yet given back, under its claim.
    pub(super) fn is_working(&self) -> bool {
        let can_write = matches!(self.active, Some(Active { stage: Stage::Working | Stage::Finishing(_), .. }));
        can_write && self.claim.is_some()
    }

    pub(super) fn is_disposed(&self) -> bool {
        self.disposal.is_some()
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(active) = &mut self.active {
            active.stage = stage;
            active.tries = 0;
        }
    }
}

impl Machine {
    pub(super) fn called(&mut self, call: CallId, request: Request) {
        if let Request::Dispose { inside } = request {
            return self.dispose(call, inside);
        }
        if self.calls.is_disposed() {
            return self.refuse(call, Code::Disposed, "the conversation's handle was disposed");
        }
        if let Err(error) = self.calls.broken.clone().map_or_else(|| self.check_request(&request), Err) {
            return self.effect(Effect::Reply { call, result: Err(error) });
        }
        if let Some(result) = self.repeated(&request, &self.durable) {
            return self.effect(Effect::Reply { call, result });
        }
        let host_call_active = self.calls.active.as_ref().is_some_and(|active| active.call.is_some());
        if host_call_active || self.calls.next.is_some() {
            return self.refuse(call, Code::Busy, "another call on this handle is at work");
        }
        if self.calls.active.is_some() {
            self.calls.next = Some((call, request));
            return;
        }
        self.start_call(Some(call), Some(request));
    }

    fn refuse(&mut self, call: CallId, code: Code, message: &str) {
        self.effect(Effect::Reply { call, result: Err(RoundtableError::new(code, message)) });
    }

    fn start_call(&mut self, call: Option<CallId>, request: Option<Request>) {
        if let (Some(call), Some(Request::Run { .. })) = (call, &request) {
            self.run = Some(RunControl::new(call));
        }
        self.calls.active = Some(Active { call, request, stage: Stage::Claiming, tries: 0 });
        if self.durable.revision > 0 {
            return self.claim();
        }
        let creation = match self.calls.creation.take() {
            Some(creation) => creation,
            None => {
                let created = Rc::new(self.config.created(self.at()));
                match encode(&Entry::Created(created.clone())) {
                    Ok(line) => Creation { created, lines: Rc::new([line]), uncertain: false },
                    Err(reason) => {
                        return self.finish_call(call, Err(RoundtableError::new(Code::Internal, reason)));
                    }
                }
            }
        };
        self.calls.creation = Some(creation);
        self.calls.set_stage(Stage::Creating);
        self.create();
    }

    fn create(&mut self) {
        let Some(creation) = &self.calls.creation else { return };
        let mut summary = self.summary();
        summary.created_at = creation.created.at.clone();
        self.effect(Effect::Create { entries: creation.lines.clone(), summary });
    }

    pub(super) fn record_created(&mut self, result: Result<(), StoreFailure>) {
        if !matches!(self.calls.active, Some(Active { stage: Stage::Creating, .. })) {
            return;
        }
        let uncertain = self.calls.creation.as_ref().is_some_and(|c| c.uncertain);
        match result {
            Ok(()) => self.begin_record(),
            Err(StoreFailure { code: Some(Code::Conflict), .. }) if uncertain => {
                self.calls.set_stage(Stage::Confirming);
                self.send_read(0);
            }
            Err(failure) => {
                if let Some(creation) = self.calls.creation.as_mut().filter(|_| failure.code.is_none()) {
                    creation.uncertain = true;
                }
                self.store_call_failed("create", failure);
            }
        }
    }

    fn begin_record(&mut self) {
        let Some(creation) = self.calls.creation.take() else { return };
        match State::create(creation.created) {
            Ok(state) => {
                self.head = state.clone();
                self.durable = state;
                self.claim();
            }
            Err(reason) => self.fail_call(RoundtableError::new(Code::Internal, reason)),
        }
    }

    fn claim(&mut self) {
        self.calls.set_stage(Stage::Claiming);
        self.send_claim();
    }

    fn send_claim(&mut self) {
        let (owner_id, lease_ms) = (self.owner.clone(), self.config.lease_ms);
        // Trust counts from the moment of asking.
        self.calls.claim_sent = self.now.mono;
        self.effect(Effect::Claim { owner_id, lease_ms });
    }

    pub(super) fn claimed(&mut self, result: Result<Claim, StoreFailure>) {
        if !matches!(self.calls.active, Some(Active { stage: Stage::Claiming, .. })) {
            return;
        }
        match result {
            Ok(claim) => {
                self.hold(claim, self.calls.claim_sent);
                self.calls.set_stage(Stage::Reading);
                self.send_read(self.durable.revision);
            }
            Err(mut failure) => {
                // After a claim whose answer was lost, the holder may well be this handle.
                let unsure = self.calls.active.as_ref().is_some_and(|active| active.tries > 0);
                if unsure && failure.code == Some(Code::Busy) {
                    failure.code = Some(Code::Unavailable);
                }
                self.store_call_failed("claim", failure);
            }
        }
    }

    fn hold(&mut self, claim: Claim, sent: f64) {
        let lease = self.config.lease_ms as f64;
        self.calls.claim = Some(Held { claim, trusted_until: sent + lease * 2.0 / 3.0, sent });
        self.arm(Timer::Lease, sent + lease / 3.0);
    }

    /// A third of the lease is over: renew, or, when it is no longer trusted, stop.
    pub(super) fn lease_due(&mut self) {
        // The renewal has had until the end of the trust, by the timer if not by a clock that stands still.
        if self.calls.renewing {
            return self.distrust();
        }
        let lease_ms = self.config.lease_ms;
        let Some(held) = &mut self.calls.claim else { return };
        held.sent = self.now.mono;
        let (claim, again) = (held.claim.clone(), held.trusted_until);
        self.calls.renewing = true;
        self.effect(Effect::Renew { claim, lease_ms });
        self.arm(Timer::Lease, again);
    }

    pub(super) fn renewed(&mut self, fence: u64, result: Result<Claim, StoreFailure>) {
        self.calls.renewing = false;
        let Some(held) = self.calls.claim.as_ref().filter(|held| held.claim.fence == fence) else { return };
        let sent = held.sent;
        match result {
            Ok(claim) => self.hold(claim, sent),
            // Unknown: the claim is trusted as long as it was, and asked for again before that ends.
            Err(StoreFailure { code: None, .. }) => {
                let pause = self.config.lease_ms as f64 / 12.0;
                self.arm(Timer::Lease, self.now.mono + pause);
            }
            Err(failure) => {
                let error = failure.to_error("renew");
                self.lose_claim(error);
            }
        }
    }

    /// An owner that cannot be sure of its claim any more acts as if it were lost.
    pub(super) fn check_trust(&mut self) {
        if self.calls.claim.as_ref().is_some_and(|held| self.now.mono >= held.trusted_until) {
            self.distrust();
        }
    }

    fn distrust(&mut self) {
        if let Some(held) = self.calls.claim.take() {
            self.calls.untrusted = Some(held.claim);
            self.lose_claim(RoundtableError::new(Code::StaleClaim, "the claim could not be renewed in time"));
        }
    }

    /// Stops at once: the signals fire, and nothing more is written.
    pub(super) fn lose_claim(&mut self, error: RoundtableError) {
        self.calls.claim = None;
        self.disarm(Timer::Lease);
        if matches!(self.calls.active, Some(Active { stage: Stage::Releasing(_), .. })) {
            return;
        }
        self.signal_all(StopReason::Interrupted);
        self.fail_call(RoundtableError { code: Code::StaleClaim, ..error });
    }

    fn send_read(&mut self, after: u64) {
        self.calls.reading = true;
        self.effect(Effect::Read { after });
    }

    pub(super) fn batches_read(&mut self, result: Result<Option<ReadBatches>, StoreFailure>) {
        self.calls.reading = false;
        match (self.calls.active.as_ref().map(|active| &active.stage), result) {
            (Some(Stage::Reading), Ok(Some(read))) => self.catch_up(read),
            (Some(Stage::Confirming), Ok(Some(read))) => {
                let ours = self.calls.creation.as_ref().map(|c| c.lines.to_vec());
                let first = read.batches.into_iter().next().map(|batch| batch.entries);
                if ours.is_some() && ours == first {
                    return self.begin_record();
                }
                self.calls.creation = None;
                self.fail_call(RoundtableError::new(Code::Conflict, "the conversation exists already"));
            }
            (Some(Stage::Reading | Stage::Confirming), Ok(None)) => {
                self.fail_call(RoundtableError::new(Code::NotFound, "the store has no such conversation"));
            }
            (Some(Stage::Reading | Stage::Confirming), Err(failure)) => self.store_call_failed("read", failure),
            _ => {}
        }
    }

    fn catch_up(&mut self, read: ReadBatches) {
        let before = self.durable.revision;
        for batch in &read.batches {
            let due = self.durable.revision + 1;
            if batch.revision != due {
                let message = format!("the store gave batch {} where {due} was due", batch.revision);
                return self.fail_call(RoundtableError::new(Code::InvalidRecord, message));
            }
            let first = self.durable.entries;
            let entries = batch.entries.iter().map(|line| decode(line)).collect::<Result<Vec<_>, _>>();
            let folded = entries.map(|entries| self.fold_durable(&entries, batch.revision));
            if !matches!(folded, Ok(true)) {
                let reason = folded.err().unwrap_or_else(|| "it cannot follow the ones before it".to_owned());
                let message = format!("entry {first} or one soon after it does not fold: {reason}");
                let error = RoundtableError::new(Code::InvalidRecord, message);
                self.calls.broken = Some(error.clone());
                return self.fail_call(error);
            }
        }
        if self.durable.revision < read.revision && self.durable.revision > before {
            return self.send_read(self.durable.revision);
        }
        if self.durable.revision != read.revision {
            let message =
                format!("the store is at revision {}, this handle at {}", read.revision, self.durable.revision);
            return self.fail_call(RoundtableError::new(Code::InvalidRecord, message));
        }
        if self.head_is_stale || self.durable.revision != before {
            self.head = self.durable.clone();
            self.head_is_stale = false;
        }
        self.calls.set_stage(Stage::Working);
        self.begin_work();
    }

    fn begin_work(&mut self) {
        self.save_missed_evidence();
        let Some(active) = &self.calls.active else { return };
        let (call, request) = (active.call, active.request.clone());
        let result = match (call, request) {
            (Some(call), Some(Request::Run { limits })) => self.begin_run(call, limits),
            (Some(call), Some(request)) => self.accept(call, &request),
            _ => {
                self.save_late_work();
                Ok(())
            }
        };
        if let Err(error) = result {
            self.finish_call(call, Err(error));
        }
    }

    /// A store call other than an append failed: repeated where its outcome is unknown.
    fn store_call_failed(&mut self, name: &str, failure: StoreFailure) {
        let error = failure.to_error(name);
        let Some(active) = &mut self.calls.active else { return };
        match RETRY_PAUSES_MS.get(active.tries).filter(|_| failure.code.is_none()) {
            Some(pause) => {
                active.tries += 1;
                self.arm(Timer::Retry, self.now.mono + pause);
            }
            None => self.fail_call(error),
        }
    }

    pub(super) fn retry(&mut self) {
        if self.append_in_flight() {
            return self.repeat_append();
        }
        match self.calls.active.as_ref().map(|active| &active.stage) {
            Some(Stage::Creating) => self.create(),
            Some(Stage::Claiming) => self.send_claim(),
            Some(Stage::Reading) => self.send_read(self.durable.revision),
            Some(Stage::Confirming) => self.send_read(0),
            _ => {}
        }
    }

    /// The call will end with this error, once running work is done. What was not acknowledged is dropped.
    pub(super) fn fail_call(&mut self, error: RoundtableError) {
        let Some(active) = &mut self.calls.active else { return };
        // A result that is durable stands, whatever becomes of what came after it.
        if !matches!(active.stage, Stage::Finishing(_) | Stage::Draining(_) | Stage::Releasing(_)) {
            active.stage = Stage::Draining(error.clone());
            self.disarm(Timer::RunTimeout);
        }
        for gate in self.drop_queue() {
            match gate {
                Gate::Answer(ticket) => self.refuse_tickets(vec![ticket], &error),
                gate => self.close_gate(gate),
            }
        }
    }

    /// What a gate led to will not happen in this call.
    pub(super) fn close_gate(&mut self, gate: Gate) {
        match gate {
            Gate::Dispatch(attempt) | Gate::Checkpoint(attempt) => self.interrupted(&attempt),
            Gate::Select(_) => self.asking = None,
            Gate::Reply(..) | Gate::EndRun | Gate::Answer(_) | Gate::None => {}
        }
    }

    /// The call has its result.
    pub(super) fn finish_call(&mut self, call: Option<CallId>, result: Result<Reply, RoundtableError>) {
        if let Some(active) = self.calls.active.as_mut().filter(|active| active.call == call) {
            active.stage = Stage::Finishing(result);
        }
    }

    /// Moves calls on that only waited for work to end.
    pub(super) fn settle_calls(&mut self) {
        let Some(active) = &self.calls.active else { return self.next_call() };
        if self.calls.renewing || self.calls.reading {
            return;
        }
        match &active.stage {
            Stage::Draining(error) if !self.append_in_flight() && !self.work_in_flight() => {
                let result = Err(error.clone());
                self.end_run_control();
                self.release(result);
            }
            Stage::Finishing(_) if self.is_written() && self.reports.is_empty() => {
                if let Some(Active { call, request, stage: Stage::Finishing(result), tries }) = self.calls.active.take()
                {
                    self.calls.active = Some(Active { call, request, stage: Stage::Working, tries });
                    self.end_run_control();
                    self.release(result);
                }
            }
            _ => {}
        }
    }

    fn release(&mut self, result: Result<Reply, RoundtableError>) {
        self.disarm(Timer::Lease);
        self.disarm(Timer::Retry);
        self.calls.set_stage(Stage::Releasing(result));
        match self.calls.claim.take().map(|held| held.claim).or(self.calls.untrusted.take()) {
            Some(claim) => self.effect(Effect::Release { claim }),
            None => self.released(),
        }
    }

    /// Answers a ticket; one whose report came late waits until the claim taken for it is given back.
    pub(super) fn settle_ticket(&mut self, ticket: Ticket, result: Result<(), ServiceRefusal>) {
        if matches!(self.calls.active, Some(Active { call: None, .. })) {
            return self.calls.late_answers.push((ticket, result));
        }
        self.effect(Effect::Answer { ticket, result });
    }

    pub(super) fn released(&mut self) {
        match self.calls.active.take() {
            Some(Active { call, stage: Stage::Releasing(result), .. }) => {
                match call {
                    Some(call) => self.effect(Effect::Reply { call, result }),
                    None => self.refuse_late_work(result.err()),
                }
                for (ticket, result) in std::mem::take(&mut self.calls.late_answers) {
                    self.effect(Effect::Answer { ticket, result });
                }
                self.next_call();
            }
            other => self.calls.active = other,
        }
    }

    fn next_call(&mut self) {
        if self.calls.active.is_some() {
            return;
        }
        if self.calls.is_disposed() {
            if let Some((call, _)) = self.calls.next.take() {
                self.refuse(call, Code::Disposed, "the conversation's handle was disposed");
            }
            return self.continue_disposal();
        }
        if !self.calls.late.is_empty() {
            return self.start_call(None, None);
        }
        if let Some((call, request)) = self.calls.next.take() {
            self.start_call(Some(call), Some(request));
        }
    }

    fn dispose(&mut self, call: CallId, inside: bool) {
        if inside {
            self.effect(Effect::Reply { call, result: Ok(Reply::Disposed { failures: Vec::new() }) });
        }
        let disposal = self.calls.disposal.get_or_insert_with(Disposal::default);
        if !inside {
            disposal.replies.push(call);
        }
        self.stop_run(StopReason::Cancelled);
        self.release_held();
    }

    /// No call is at work: release every session, then answer.
    fn continue_disposal(&mut self) {
        self.refuse_late_work(Some(RoundtableError::new(Code::Disposed, "the conversation's handle was disposed")));
        self.release_all_sessions();
        if !self.sessions.is_empty() {
            return;
        }
        let Some(disposal) = &mut self.calls.disposal else { return };
        for call in std::mem::take(&mut disposal.replies) {
            let failures = std::mem::take(&mut self.calls.release_failures);
            self.effect(Effect::Reply { call, result: Ok(Reply::Disposed { failures }) });
        }
    }

    /// A host call that has not started is taken back.
    pub(super) fn forget_waiting_call(&mut self, call: CallId) -> bool {
        self.calls.next.take_if(|(waiting, _)| *waiting == call).is_some()
    }

    /// Late work was put on its way.
    pub(super) fn finish_late_work(&mut self) {
        let done = Reply::Withdrawn { revision: self.durable.revision };
        self.finish_call(None, Ok(done));
    }

    /// Observers are awaited, except by a call that is being stopped.
    pub(super) fn observers_cannot_block(&self) -> bool {
        self.calls.is_disposed() || self.run.as_ref().is_some_and(|run| run.stop.is_some())
    }

    /// The tickets of dropped late work.
    pub(super) fn refuse_tickets(&mut self, tickets: Vec<Ticket>, error: &RoundtableError) {
        for ticket in tickets {
            self.settle_ticket(ticket, Err(ServiceRefusal::Refused(error.clone())));
        }
    }
}
