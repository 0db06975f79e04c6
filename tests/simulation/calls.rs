//! What callers get: one settlement for each call, the right one, and an excuse for every refusal.

use crate::shadow::{Stage, Turn};
use crate::world::World;
use agent_roundtable::conversation::effect::{Reply, ServiceRefusal};
use agent_roundtable::conversation::error::{Code, RoundtableError};
use agent_roundtable::conversation::input::{CallId, Input, Request, Ticket, Timer};
use agent_roundtable::record::model::{
    self, Decision, Id, InputResponse, LimitReason, RequestKind, Response, RunOutcome, StopReason,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub struct Calls {
    world: Rc<World>,
    open: BTreeMap<CallId, Open>,
    tickets: BTreeMap<Ticket, Id>,
    receipts: BTreeMap<Id, Reply>,
    /// Another handle has created the record.
    is_late: bool,
    /// This handle knows that the record exists.
    is_stored: bool,
    /// In this step a run was cancelled or the handle disposed.
    cancelled: bool,
    /// Set for good.
    disposed: bool,
    aborted: bool,
    timed_out: bool,
    /// When another call was last open.
    overlap: Cell<u64>,
}

struct Open {
    request: Request,
    since: u64,
    /// The final outcome that was known when it was made.
    last_word: Option<RunOutcome>,
    /// The state had a reason to refuse it when it was made.
    conflicted: bool,
    /// Its first entry was sent to the store.
    begun: bool,
}

impl Calls {
    pub fn new(world: Rc<World>, is_late: bool) -> Self {
        Calls {
            world,
            open: BTreeMap::new(),
            tickets: BTreeMap::new(),
            receipts: BTreeMap::new(),
            is_late,
            is_stored: false,
            cancelled: false,
            disposed: false,
            aborted: false,
            timed_out: false,
            overlap: Cell::new(0),
        }
    }

    /// Whether any call or ticket waits for its settlement.
    pub fn are_open(&self) -> bool {
        !self.open.is_empty() || !self.tickets.is_empty()
    }

    pub fn input(&mut self, input: &Input) {
        match input {
            Input::Called { call, request } => {
                let now = self.world.executor.now_ms();
                if !self.open.is_empty() || !self.tickets.is_empty() {
                    self.overlap.set(now);
                }
                match request {
                    Request::Dispose { .. } => (self.disposed, self.cancelled) = (true, true),
                    Request::Run { .. } if !self.is_running() => (self.aborted, self.timed_out) = (false, false),
                    _ => {}
                }
                let conflicted = self.conflicts(request);
                let last_word = self.world.shadow.borrow().last_word.clone();
                self.open
                    .insert(*call, Open { request: request.clone(), since: now, last_word, conflicted, begun: false });
            }
            Input::RecordCreated(Ok(())) | Input::BatchesRead(Ok(Some(_))) => self.is_stored = true,
            Input::Aborted { call } => {
                self.aborted = true;
                self.cancelled |= self.open.contains_key(call);
            }
            Input::TimerFired { timer: Timer::RunTimeout } => self.timed_out = true,
            Input::AdmissionAsked { ticket, attempt, .. }
            | Input::UsageReported { ticket, attempt, .. }
            | Input::RecordAsked { ticket, attempt, .. } => {
                self.tickets.insert(*ticket, attempt.clone());
            }
            Input::Together { inputs } => inputs.iter().for_each(|input| self.input(input)),
            _ => {}
        }
    }

    /// A batch with this entry is on its way.
    pub fn run_begins(&mut self) {
        let runs = self.open.values_mut().filter(|open| matches!(open.request, Request::Run { .. }));
        runs.for_each(|open| open.begun = true);
    }

    pub fn justifies_abort(&self, reason: StopReason, world: &World) -> bool {
        let limits = world.shadow.borrow().limits;
        match reason {
            StopReason::Cancelled => self.aborted || self.disposed,
            StopReason::Time => self.timed_out && limits.is_some_and(|limits| limits.timeout_ms.is_some()),
            StopReason::GroupFailed => world.may_fail.get(),
            StopReason::Interrupted => {
                let lost = world.executor.lost_time_ms.get().or(world.excuses.claim_lost.get());
                world.excuses.store_failed.get().or(lost).is_some()
            }
            StopReason::ModelCalls => false,
        }
    }

    pub fn reply(&mut self, call: CallId, result: &Result<Reply, RoundtableError>, told: u64, given_up: bool) {
        let Some(open) = self.open.remove(&call) else {
            return self.world.fail(format!("call {call} is answered twice or was never made"));
        };
        match (&open.request, result) {
            (_, Err(error)) => self.refused(&open, error, given_up),
            (Request::Run { .. }, Ok(Reply::Ran { revision, outcome, requests })) => {
                let expected = self.world.shadow.borrow().open_requests();
                let waits = *outcome == RunOutcome::Waiting;
                let shown = if waits { requests.len() == expected.len() } else { requests.is_empty() };
                let untouched = self.excused(&self.world.excuses.rival_wrote, &open);
                self.demand(shown || untouched, || format!("C26: {requests:?} of {expected:?}"));
                self.ran(&open, *revision, outcome, told);
            }
            (
                Request::SubmitInput { input_id, content, expected_revision, reply_to, .. },
                Ok(reply @ Reply::Submitted { revision, message_id }),
            ) => {
                self.accepted(input_id, *revision, reply);
                self.had_seen_enough(*expected_revision, *revision, reply_to.as_ref());
                let shadow = self.world.shadow.borrow();
                let given = shadow.given.get(input_id);
                let said = Response::Input(InputResponse::Said { content: content.clone() });
                let kept =
                    given.is_some_and(|given| given.message_id.as_ref() == Some(message_id) && given.response == said);
                self.demand(kept, || format!("C20: the input {input_id} is lost or changed"));
            }
            (
                Request::Resume { response_id, request_id, response, .. },
                Ok(reply @ Reply::Resumed { revision, .. }),
            ) => {
                self.accepted(response_id, *revision, reply);
                let shadow = self.world.shadow.borrow();
                let given = shadow.given.get(response_id);
                let kept = given.is_some_and(|g| g.request.as_ref() == Some(request_id) && g.response == *response);
                self.demand(kept, || format!("C27: the answer {response_id} is lost or changed"));
            }
            (Request::Withdraw { request_id, expected_revision, .. }, Ok(Reply::Withdrawn { revision })) => {
                self.had_seen_enough(*expected_revision, *revision, Some(request_id));
                let shadow = self.world.shadow.borrow();
                let closed = shadow.requests.get(request_id).is_some_and(|ask| ask.changed == *revision);
                self.demand(closed, || format!("C30b: the withdrawal of {request_id} is not in the journal"));
            }
            (Request::Reconcile { turn_id, .. }, Ok(Reply::Reconciled { revision })) => {
                let kept = self.world.brought(*revision, "reconciled/1", turn_id);
                self.demand(kept, || format!("C49: the reconciliation of {turn_id} is not in the journal"));
                self.world.coverage.borrow_mut().note("reconciled");
            }
            (Request::Dispose { .. }, Ok(Reply::Disposed { .. })) => {}
            (request, reply) => self.world.fail(format!("{request:?} is answered with {reply:?}")),
        }
    }

    pub fn answer(&mut self, ticket: Ticket, result: &Result<(), ServiceRefusal>) {
        let known = self.tickets.remove(&ticket);
        self.demand(known.is_some(), || format!("ticket {ticket} is answered twice or was never made"));
        if let Err(ServiceRefusal::Refused(error)) = result {
            self.demand(error.code != Code::Internal, || format!("an internal error: {error}"));
        }
    }

    fn ran(&self, open: &Open, revision: u64, outcome: &RunOutcome, told: u64) {
        self.world.coverage.borrow_mut().outcome(outcome);
        if let RunOutcome::Failed { code: Some(code), .. } = outcome {
            self.world.coverage.borrow_mut().code_named(code);
        }
        if let Some(last_word) = &open.last_word {
            return self.demand(last_word == outcome, || format!("a final {last_word:?} became {outcome:?}"));
        }
        let ended = self.world.run_end(revision);
        let unbegun = *outcome == RunOutcome::Cancelled && !open.begun;
        self.demand(unbegun || ended.as_ref() == Some(outcome), || {
            format!("C44: a run ends {outcome:?} at revision {revision}, where the journal says {ended:?}")
        });
        let told_all = self.world.is_told(told, revision);
        self.demand(told_all, || format!("C18: revision {revision} is reported before observers are told"));
        let limits = self.world.shadow.borrow().limits;
        let limits = limits.unwrap();
        let justified = match outcome {
            RunOutcome::Cancelled => self.aborted || self.disposed,
            RunOutcome::Limited { reason: LimitReason::Time } => limits.timeout_ms.is_some(),
            RunOutcome::Limited { reason: LimitReason::Tokens } => limits.max_tokens_per_run.is_some(),
            RunOutcome::Limited { reason: LimitReason::ModelCalls } => {
                let per = (limits.max_model_calls_per_conversation, limits.max_model_calls_per_participant);
                limits.max_model_calls_per_run.or(per.0).or(per.1).is_some()
            }
            RunOutcome::Failed { .. } => self.world.may_fail.get(),
            _ => true,
        };
        self.demand(justified, || format!("nothing explains the outcome {outcome:?}"));
    }

    /// C21, C28: the same receipt at any time.
    fn accepted(&mut self, id: &Id, revision: u64, reply: &Reply) {
        let first = self.receipts.entry(id.clone()).or_insert_with(|| reply.clone()).clone();
        self.demand(first == *reply, || format!("C21: {id} was answered {first:?} and is answered {reply:?}"));
        let stored = self.world.shadow.borrow().given.get(id).map(|given| given.revision);
        self.demand(stored == Some(revision), || format!("C20: {id} is in revision {stored:?}, not {revision}"));
    }

    fn refused(&self, open: &Open, error: &RoundtableError, given_up: bool) {
        self.world.coverage.borrow_mut().code(error.code);
        let excuses = &self.world.excuses;
        let excused = match error.code {
            Code::Disposed => self.disposed,
            Code::Busy => {
                self.overlap.get() >= open.since || self.excused(&excuses.rival_held, open) || self.world.is_held()
            }
            Code::Conflict => {
                let uncertain = excuses.corrupted.get().is_some() || self.excused(&excuses.store_failed, open);
                let conflicted = open.conflicted || self.conflicts(&open.request);
                self.is_late || uncertain || conflicted || self.excused(&excuses.rival_wrote, open)
            }
            Code::StaleClaim => {
                self.excused(&excuses.claim_lost, open)
                    || self.excused(&excuses.store_failed, open)
                    || self.excused(&self.world.executor.lost_time_ms, open)
            }
            Code::Unavailable => {
                self.excused(&excuses.store_failed, open) || self.excused(&excuses.session_refused, open)
            }
            Code::RecoveryRequired => given_up || self.world.shadow.borrow().has_unsettled(),
            Code::NotFound => self.world.store.borrow().is_deleted,
            Code::InvalidRecord => excuses.corrupted.get().is_some(),
            Code::InvalidConfig => true,
            Code::InvalidSelection | Code::ModelCallLimit | Code::Internal => false,
        };
        self.demand(excused, || format!("{:?} since {} is refused: {error:?}", open.request, open.since));
    }

    pub fn take_cancelled(&mut self) -> bool {
        std::mem::take(&mut self.cancelled)
    }

    pub fn describe(&self) -> String {
        let calls: Vec<&Request> = self.open.values().map(|open| &open.request).collect();
        format!("open calls: {calls:?}, open tickets: {:?}", self.tickets)
    }

    /// C21 to C24, C27, C28: whether the state has a reason to refuse a call.
    fn conflicts(&self, request: &Request) -> bool {
        let shadow = self.world.shadow.borrow();
        let (id, expected, request_id) = match request {
            Request::SubmitInput { participant_id, .. } if !self.is_external(participant_id) => return true,
            Request::SubmitInput { input_id, expected_revision, reply_to, .. } => {
                (Some(input_id), *expected_revision, reply_to.as_ref())
            }
            Request::Resume { response_id, expected_revision, request_id, .. } => {
                (Some(response_id), *expected_revision, Some(request_id))
            }
            Request::Withdraw { expected_revision, request_id, .. } => (None, *expected_revision, Some(request_id)),
            Request::Reconcile { turn_id, expected_revision, decision, .. } => {
                let unknown = |turn: &&Turn| turn.stage == Stage::Unsettled || turn.is_running();
                let Some(turn) = shadow.find_turn(turn_id).filter(unknown) else { return true };
                let oldest = turn.changed.max(shadow.oldest_seen(shadow.revision, None));
                // C33: without checkpoints only its own session goes on, which an attempt may still hold.
                let roles = &self.world.plan.roles;
                let keeps = roles.iter().any(|role| role.id == turn.participant && !role.has_checkpoint);
                return *expected_revision < oldest || (keeps && *decision == Decision::Retry);
            }
            Request::Run { .. } | Request::Dispose { .. } => return false,
        };
        let is_early = !self.is_stored && (expected != 0 || request_id.is_some());
        let is_used = id.is_some_and(|id| shadow.given.contains_key(id));
        let is_shut = match request_id {
            Some(id) => shadow.requests.get(id).is_none_or(|ask| ask.answer.is_some() || !fits(request, &ask.request)),
            None => shadow.group.is_some(),
        };
        let oldest = shadow.oldest_seen(shadow.revision, request_id);
        is_early || is_used || shadow.last_word.is_some() || is_shut || expected < oldest || expected > shadow.revision
    }

    /// C22: what the caller had seen was neither too old nor yet to come.
    fn had_seen_enough(&self, expected: u64, accepted: u64, request_id: Option<&Id>) {
        let oldest = self.world.shadow.borrow().oldest_seen(accepted - 1, request_id);
        self.demand((oldest..accepted).contains(&expected), || {
            format!("C22: revision {expected} is accepted at {accepted}, where {oldest} is the oldest")
        });
    }

    fn is_external(&self, participant: &Id) -> bool {
        self.world.plan.roles.iter().any(|role| role.is_external && role.id == *participant)
    }

    fn is_running(&self) -> bool {
        self.open.values().any(|open| matches!(open.request, Request::Run { .. }))
    }

    fn excused(&self, when: &Cell<Option<u64>>, open: &Open) -> bool {
        when.get().is_some_and(|at| at >= open.since)
    }

    fn demand(&self, holds: bool, what: impl FnOnce() -> String) {
        self.world.demand(holds, what);
    }
}

/// Whether an answer is of its request's kind and by the one who was asked.
fn fits(call: &Request, asked: &model::Request) -> bool {
    match call {
        Request::SubmitInput { participant_id, .. } => {
            asked.kind == RequestKind::Input && asked.participant_id == *participant_id
        }
        Request::Resume { response, .. } => response.kind() == asked.kind,
        _ => true,
    }
}
