//! The life of a host call: create the record where there is none, claim it, read what others wrote,
//! work, give the claim back, reply. One call at a time; late usage reports wait their turn.

use super::claim::Held;
use super::effect::{Effect, Reply, ServiceRefusal};
use super::error::{Code, RoundtableError, StoreFailure, Thrown};
use super::input::{CallId, Claim, Request, Ticket, Timer};
use super::ledger::LateWork;
use super::machine::{MAX_TIMER_MS, Machine};
use super::run::RunControl;
use super::writer::{Gate, RETRY_PAUSES_MS};
use crate::record::codec::encode;
use crate::record::entry::{Created, Entry};
use crate::record::model::StopReason;
use std::collections::VecDeque;
use std::rc::Rc;

/// Who is calling, and what the call holds.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) active: Option<Active>,
    /// A host call that came while late work was being saved.
    pub(super) next: Option<(CallId, Request)>,
    /// Reports and results that came after their run.
    pub(super) late: VecDeque<LateWork>,
    pub(super) late_answers: Vec<(Ticket, Result<(), ServiceRefusal>)>,
    pub(super) claim: Option<Held>,
    /// A claim that is no longer trusted, though the store may still keep it for this handle.
    pub(super) untrusted: Option<Claim>,
    pub(super) claim_sent: f64,
    /// A renewal is on its way; no call settles before it is back.
    pub(super) renewing: bool,
    /// A read is on its way; likewise, or its answer would be taken for that of the next call.
    pub(super) reading: bool,
    /// The journal did not fold; nothing more can be done on this handle.
    pub(super) broken: Option<RoundtableError>,
    pub(super) creation: Option<Creation>,
    pub(super) disposal: Option<Disposal>,
    pub(super) release_failures: Vec<Thrown>,
}

/// The call at work.
#[derive(Debug)]
pub(super) struct Active {
    /// Absent while late work is being saved.
    pub(super) call: Option<CallId>,
    pub(super) request: Option<Request>,
    pub(super) stage: Stage,
    pub(super) tries: usize,
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

#[derive(Debug)]
pub(super) struct Creation {
    pub(super) created: Rc<Created>,
    pub(super) lines: Rc<[String]>,
    pub(super) uncertain: bool,
}

#[derive(Debug, Default)]
pub(super) struct Disposal {
    replies: Vec<CallId>,
    /// Releases have had the time that signalled work has, and are given some more.
    is_late: bool,
}

/// How much longer than signalled work a release may take: it may itself be waiting for a tool, as long as its
/// participant says.
const MORE_FOR_RELEASES_MS: u64 = 5_000;

impl Calls {
    /// Whether entries can be written: a call is at work, or done and not yet given back, under its claim.
    pub(super) fn is_working(&self) -> bool {
        let can_write = matches!(self.active, Some(Active { stage: Stage::Working | Stage::Finishing(_), .. }));
        can_write && self.claim.is_some()
    }

    pub(super) fn is_disposed(&self) -> bool {
        self.disposal.is_some()
    }

    pub(super) fn set_stage(&mut self, stage: Stage) {
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

    pub(super) fn begin_work(&mut self) {
        self.save_missed_evidence();
        let Some(active) = &self.calls.active else { return };
        let (call, request) = (active.call, active.request.clone());
        let bound = if call.is_some() { self.check_binding() } else { Ok(()) };
        let result = bound.and_then(|()| match (call, request) {
            (Some(call), Some(Request::Run { limits })) => self.begin_run(call, limits),
            (Some(call), Some(request)) => self.accept(call, &request),
            _ => {
                self.save_late_work();
                Ok(())
            }
        });
        if let Err(error) = result {
            self.finish_call(call, Err(error));
        }
    }

    /// A store call other than an append failed: repeated where its outcome is unknown.
    pub(super) fn store_call_failed(&mut self, name: &str, failure: StoreFailure) {
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
            self.effect(Effect::Reply { call, result: Ok(self.disposed(Vec::new())) });
        }
        let disposal = self.calls.disposal.get_or_insert_with(Disposal::default);
        if !inside {
            disposal.replies.push(call);
        }
        self.stop_run(StopReason::Cancelled);
        self.release_held();
    }

    /// The time is up that work has to settle, and a disposal waits for sessions.
    pub(super) fn disposal_overdue(&mut self) {
        let Some(disposal) = &mut self.calls.disposal else { return };
        if disposal.is_late {
            return self.give_up_releases();
        }
        disposal.is_late = true;
        self.give_up_openings();
        if !self.sessions.is_empty() {
            self.arm(Timer::Settle, self.now.mono + MORE_FOR_RELEASES_MS as f64);
        }
    }

    /// No call is at work: release every session, then answer.
    fn continue_disposal(&mut self) {
        self.refuse_late_work(Some(RoundtableError::new(Code::Disposed, "the conversation's handle was disposed")));
        self.release_all_sessions();
        if !self.sessions.is_empty() {
            let is_awaited = self.calls.disposal.as_ref().is_some_and(|disposal| !disposal.replies.is_empty());
            if is_awaited && !self.timers.contains_key(&Timer::Settle) {
                self.bound_settling();
            }
            return;
        }
        self.disarm(Timer::Settle);
        let Some(disposal) = &mut self.calls.disposal else { return };
        for call in std::mem::take(&mut disposal.replies) {
            let failures = std::mem::take(&mut self.calls.release_failures);
            self.effect(Effect::Reply { call, result: Ok(self.disposed(failures)) });
        }
    }

    fn disposed(&self, failures: Vec<Thrown>) -> Reply {
        let bound = self.head.limits.settle_timeout_ms;
        let release_within_ms = bound.map(|ms| ms.saturating_add(MORE_FOR_RELEASES_MS).min(MAX_TIMER_MS as u64));
        Reply::Disposed { failures, release_within_ms }
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
