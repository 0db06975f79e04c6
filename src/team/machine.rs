//! The scheduler of one team: takes [`Input`]s, yields [`Effect`]s. Pure and synchronous, like that of a
//! conversation; the way to the store is shared with it.
//!
//! **After every input, perform every effect, in order.**

use super::definition::Definition;
use super::error::{STORED_GRAPH_MISMATCH, TeamError};
use super::event::{Answered, Ask, At, Created, Event, Paused};
use super::fold::{created, fold_lines};
use super::outcome::Outcome;
use super::state::{State, Status};
use super::turns::{Attempt, Gate};
use crate::conversation::effect::{Effect as StoreEffect, Status as RecordStatus, Summary};
use crate::conversation::error::{Code, RoundtableError};
use crate::conversation::input::{Batch, CallId, Now, Ticket, Timer};
use crate::conversation::keeper::{Keeper, Told};
use crate::record::codec::{MAX_ENTRY_LEN, encode};
use crate::record::ids::IdSource;
use crate::record::model::{Id, StopReason};
use crate::value::instant::format_iso;
use crate::value::sorted_map::SortedMap;
use crate::value::text::utf16_len;
use std::collections::VecDeque;
use std::rc::Rc;

pub use super::io::{Effect, Input, Request, Resume, Traits};

/// The scheduler of one team on one handle.
#[derive(Debug)]
pub struct Machine {
    pub(super) keeper: Keeper<(Event, Gate)>,
    /// What the store has acknowledged; all that is shown.
    pub(super) durable: State,
    /// `durable` and everything on its way.
    pub(super) head: State,
    pub(super) traits: Vec<Traits>,
    pub(super) attempts: SortedMap<Id, Attempt>,
    /// Questions whose events are on their way.
    pub(super) tickets: Vec<Ticket>,
    pub(super) now: Now,
    active: Option<Active>,
    /// How long signalled attempts may take, where the host sets a bound.
    settle_timeout_ms: Option<u64>,
    /// That time runs.
    settling: bool,
    disposals: Option<Vec<CallId>>,
    effects: VecDeque<Effect>,
    /// The record is not this team's; every call is refused with this.
    broken: Option<TeamError>,
}

#[derive(Debug)]
struct Active {
    call: CallId,
    request: Request,
    stopped: bool,
    result: Option<Result<Option<Outcome>, TeamError>>,
}

impl Machine {
    /// A team of which this handle knows no record yet. `created.at` is set when it is written.
    pub fn new(created: Created, definition: Rc<Definition>, traits: Vec<Traits>, owner: Id, lease_ms: u64) -> Machine {
        let state = State::create(Rc::new(created), definition);
        Machine::with(state, Keeper::new(owner, lease_ms), traits)
    }

    /// A team whose record was read.
    pub fn load(batches: &[Batch], traits: Vec<Traits>, owner: Id, lease_ms: u64) -> Result<Machine, TeamError> {
        let (state, revision) = super::fold::fold(batches)?;
        check_runtimes(&state, &traits)?;
        Ok(Machine::with(state, Keeper::at(owner, lease_ms, revision), traits))
    }

    fn with(state: State, keeper: Keeper<(Event, Gate)>, traits: Vec<Traits>) -> Machine {
        Machine {
            keeper,
            head: state.clone(),
            durable: state,
            traits,
            attempts: SortedMap::default(),
            tickets: Vec::new(),
            now: Now::default(),
            active: None,
            settle_timeout_ms: None,
            settling: false,
            disposals: None,
            effects: VecDeque::new(),
            broken: None,
        }
    }

    /// Attempts that were signalled are given up after this time.
    #[must_use]
    pub fn settling_within(self, settle_timeout_ms: Option<u64>) -> Machine {
        Machine { settle_timeout_ms, ..self }
    }

    /// What the store has acknowledged.
    #[must_use]
    pub fn durable(&self) -> &State {
        &self.durable
    }

    /// The last durable revision; 0 before the record exists.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.keeper.revision()
    }

    /// Takes one input.
    pub fn handle_input(&mut self, now: Now, input: Input) {
        self.now = now;
        self.keeper.check_trust(now);
        self.take(input);
        self.listen();
        self.advance();
        let summary = self.summary();
        self.keeper.flush(|| summary);
        self.listen();
        self.advance();
        while let Some(effect) = self.keeper.poll_effect() {
            self.effects.push_back(Effect::Store(effect));
        }
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    fn take(&mut self, input: Input) {
        let now = self.now;
        match input {
            Input::Called { call, request } => self.called(call, request),
            Input::Aborted { call } => {
                if self.active.as_ref().is_some_and(|active| active.call == call) {
                    self.stop(StopReason::Cancelled);
                }
            }
            Input::Created(result) => self.keeper.created(now, result),
            Input::Claimed(result) => self.keeper.claimed(now, result),
            Input::Renewed { fence, result } => self.keeper.renewed(now, fence, result),
            Input::Released => self.keeper.released(),
            Input::Read(result) => self.keeper.batches_read(result),
            Input::Appended(result) => self.keeper.appended(result),
            Input::Timer(Timer::Settle) => self.give_up(),
            Input::Timer(timer) => {
                let summary = self.summary();
                self.keeper.timer_fired(now, timer, || summary);
            }
            Input::Returned { attempt, outcome } => self.returned(&attempt, outcome),
            Input::Admit { ticket, attempt, call } => self.admit(ticket, attempt, call),
            Input::Report { ticket, attempt, report } => self.report(ticket, attempt, report),
            Input::Record { ticket, attempt, record } => self.record(ticket, attempt, record),
        }
    }

    fn called(&mut self, call: CallId, request: Request) {
        if request == Request::Dispose {
            self.disposals.get_or_insert_default().push(call);
            return self.stop(StopReason::Cancelled);
        }
        let refusal = if self.disposals.is_some() {
            Some((Code::Disposed, "the team's handle was disposed"))
        } else if self.active.is_some() {
            Some((Code::Busy, "another call on this handle is at work"))
        } else {
            None
        };
        let refusal = refusal.map(|(code, message)| RoundtableError::new(code, message).into());
        if let Some(error) = refusal.or_else(|| self.broken.clone()) {
            return self.effect(Effect::Reply { call, result: Err(error) });
        }
        let first = (self.keeper.revision() == 0).then(|| {
            let created = Created { at: self.at(), ..(*self.durable.created).clone() };
            (encode(&Event::Created(Rc::new(created))), self.summary())
        });
        let first = match first {
            Some((Ok(line), summary)) => Some((Rc::from([line]), summary)),
            Some((Err(reason), _)) => {
                let error = RoundtableError::new(Code::Internal, reason).into();
                return self.effect(Effect::Reply { call, result: Err(error) });
            }
            None => None,
        };
        self.active = Some(Active { call, request, stopped: false, result: None });
        self.keeper.open(self.now, first);
    }

    /// Hears what became of the record.
    fn listen(&mut self) {
        while let Some(told) = self.keeper.poll_told() {
            match told {
                Told::Batch { revision, lines, ours } if ours.is_empty() => self.read_batch(revision, &lines),
                Told::Batch { revision, ours, .. } => self.confirmed(revision, ours),
                Told::Ready => {
                    self.head = self.durable.clone();
                    self.begin();
                }
                Told::Failed(error) => {
                    self.end(Err(error.clone().into()));
                    self.interrupt(&error);
                }
                Told::Closed => {
                    if let Some(Active { call, result: Some(result), .. }) = self.active.take() {
                        let revision = self.keeper.revision();
                        self.effect(Effect::Reply { call, result: result.map(|outcome| (revision, outcome)) });
                    }
                }
            }
        }
    }

    /// A batch of another handle, or our own first.
    fn read_batch(&mut self, revision: u64, lines: &[String]) {
        if self.broken.is_some() {
            return;
        }
        let folded = match lines.split_first() {
            Some((first, rest)) if revision == 1 => created(first).and_then(|(event, mut state)| {
                fold_lines(&mut state, rest, revision)?;
                if !self.is_planned(&state) {
                    let message = "the record is of another definition or of other options";
                    return Err(TeamError::of(STORED_GRAPH_MISMATCH, "/1/0", message));
                }
                self.durable = state;
                Ok(vec![event])
            }),
            None if revision == 1 => Err(TeamError::of(STORED_GRAPH_MISMATCH, "/1/0", "the record is empty")),
            // What is refused leaves a part folded, of a team that refuses every call from now on.
            _ => fold_lines(&mut self.durable, lines, revision),
        };
        match folded.and_then(|events| check_runtimes(&self.durable, &self.traits).map(|()| events)) {
            Ok(events) => self.effect(Effect::Emit { revision, events }),
            Err(error) => {
                self.broken = Some(error.clone());
                self.end(Err(error));
                self.keeper.fail(RoundtableError::new(Code::InvalidRecord, "the record does not fold"));
            }
        }
    }

    fn is_planned(&self, stored: &State) -> bool {
        let (planned, stored) = (&self.durable.created, &stored.created);
        planned.definition == stored.definition && planned.options == stored.options && planned.run_id == stored.run_id
    }

    fn confirmed(&mut self, revision: u64, ours: Vec<(Event, Gate)>) {
        let mut events = Vec::with_capacity(ours.len());
        let mut gates = Vec::new();
        for (event, gate) in ours {
            if let Err(reason) = self.durable.apply(&event, revision) {
                return self.keeper.fail(impossible(&reason));
            }
            events.push(event);
            gates.push(gate);
        }
        self.effect(Effect::Emit { revision, events });
        for gate in gates {
            self.open_gate(gate);
        }
    }

    /// The record is up to date: does what was called for.
    fn begin(&mut self) {
        let Some(Active { request: Request::Resume(resume), stopped: false, .. }) = &self.active else { return };
        let resume = resume.clone();
        if let Err(error) = self.resume(resume) {
            self.end(Err(error.into()));
        }
    }

    fn resume(&mut self, resume: Resume) -> Result<(), RoundtableError> {
        let refuse = |code, message: &str| Err(RoundtableError::new(code, message));
        if resume.expected_revision.is_some_and(|expected| expected != self.keeper.revision()) {
            return refuse(Code::Conflict, "the team is at another revision");
        }
        let request = self.head.requests().into_iter().find(|request| Some(&request.id) == resume.request_id.as_ref());
        if resume.request_id.is_some() && request.is_none() {
            return refuse(Code::NotFound, "there is no such open request");
        }
        let position = request.as_ref().map(|request| request.turn_id.clone()).or(resume.position.clone());
        let found =
            self.head.all(|member| member.in_flight().is_some() && member.in_flight() == position.as_ref()).next();
        let Some((member, state)) = found else {
            return refuse(Code::NotFound, "there is no such turn that has not ended");
        };
        let Status::Paused { ask, .. } = &state.status else { return Ok(()) };
        let asked = match ask {
            Ask::Wait(_) => match (&request, &resume.response) {
                (Some(request), Some(response)) if request.kind == response.kind() => 1,
                (Some(_), Some(_)) => return refuse(Code::Conflict, "the answer is of another kind than the request"),
                _ => return refuse(Code::Conflict, "the turn waits for answers: requestId and response are needed"),
            },
            _ => 0,
        };
        let request =
            request.or_else(|| self.head.requests().into_iter().find(|r| Some(&r.turn_id) == position.as_ref()));
        let at = At { node_id: self.head.id(member), position: position.unwrap_or_else(|| "".into()) };
        let mut events = Vec::new();
        if let (Some(request), Some(response)) = (request, resume.response) {
            let answered = Answered {
                node_id: at.node_id.clone(),
                position: at.position.clone(),
                response_id: resume.response_id.unwrap_or_else(|| format!("{}/response", request.id).into()),
                request_id: request.id,
                at: self.at(),
                response,
                by: resume.by,
            };
            events.push((Event::Answered(answered), Gate::None));
        }
        let open = self.head.requests().iter().filter(|request| request.turn_id == at.position).count();
        if asked == 1 && open > 1 {
            return self.push(events);
        }
        events.push((Event::Resumed(at), Gate::None));
        self.push(events)?;
        self.start(vec![member]);
        Ok(())
    }

    /// Decides what is next, where nothing is under way.
    fn advance(&mut self) {
        let Some(active) = &self.active else {
            return self.answer_disposals();
        };
        if active.result.is_some() {
            if self.attempts.is_empty() {
                self.all_settled();
                self.keeper.close();
                self.listen();
            }
            return;
        }
        if !self.keeper.is_working() || !self.attempts.is_empty() || !self.keeper.is_written() {
            return;
        }
        if active.stopped {
            self.end(Ok(Some(Outcome::Cancelled)));
            return self.advance();
        }
        if let Some(outcome) = self.head.outcome() {
            self.end(Ok(Some(outcome)));
            return self.advance();
        }
        let lost: Vec<usize> = self.head.all(|member| member.status == Status::InFlight).map(|(at, _)| at).collect();
        if lost.is_empty() { self.dispatch() } else { self.recover(&lost) }
    }

    /// Turns that no process is at work on.
    fn recover(&mut self, lost: &[usize]) {
        let (mut events, mut again) = (Vec::new(), Vec::new());
        for member in lost {
            let Some(turn) = self.head.members.get(*member).and_then(|member| member.turn.as_ref()) else { continue };
            let at = At { node_id: self.head.id(*member), position: turn.position.clone() };
            match &turn.open {
                None => again.push(*member),
                Some((_, true)) => {
                    events.push((Event::Resumed(at), Gate::None));
                    again.push(*member);
                }
                Some((attempt, false)) => {
                    let reason = "the outcome of an interrupted attempt is uncertain: say whether to repeat it";
                    let request = Ask::Uncertain(attempt.clone());
                    let At { node_id, position } = at;
                    let paused = Paused { node_id, position, reason: reason.into(), request };
                    events.push((Event::Paused(paused), Gate::None));
                }
            }
        }
        if !events.is_empty() && self.push(events).is_err() {
            return;
        }
        self.start(again);
    }

    /// Puts events on their way, all in one batch. What the fold refuses is a fault of the engine.
    pub(super) fn push(&mut self, events: Vec<(Event, Gate)>) -> Result<(), RoundtableError> {
        let mut lines = Vec::with_capacity(events.len());
        for (event, _) in &events {
            let line = encode(event).map_err(|reason| RoundtableError::new(Code::Internal, reason))?;
            let len = utf16_len(&line);
            if len > MAX_ENTRY_LEN {
                let message = format!("a journal entry has at most {MAX_ENTRY_LEN} UTF-16 units, this one has {len}");
                return Err(RoundtableError::new(Code::Conflict, message));
            }
            lines.push(line);
        }
        let revision = self.keeper.revision() + 1;
        for (event, _) in &events {
            if let Err(reason) = self.head.apply(event, revision) {
                let error = impossible(&reason);
                self.keeper.fail(error.clone());
                return Err(error);
            }
        }
        self.keeper.push(lines, events);
        Ok(())
    }

    /// The call has its result; the first one stays.
    pub(super) fn end(&mut self, result: Result<Option<Outcome>, TeamError>) {
        if let Some(active) = self.active.as_mut().filter(|active| active.result.is_none()) {
            active.result = Some(result);
        }
    }

    fn stop(&mut self, reason: StopReason) {
        if let Some(active) = &mut self.active {
            active.stopped = true;
        }
        self.signal_all(reason);
    }

    /// Gives signalled work the time it has to settle.
    pub(super) fn bound_settling(&mut self) {
        if let Some(bound) = self.settle_timeout_ms.filter(|_| !self.settling) {
            self.settling = true;
            self.effect(Effect::Store(StoreEffect::StartTimer { timer: Timer::Settle, delay_ms: bound as f64 }));
        }
    }

    /// No attempt is awaited any more.
    fn all_settled(&mut self) {
        if std::mem::take(&mut self.settling) {
            self.effect(Effect::Store(StoreEffect::StopTimer { timer: Timer::Settle }));
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.active.as_ref().is_none_or(|active| active.stopped)
    }

    fn answer_disposals(&mut self) {
        let revision = self.keeper.revision();
        for call in self.disposals.as_mut().map(std::mem::take).unwrap_or_default() {
            self.effect(Effect::Reply { call, result: Ok((revision, None)) });
        }
    }

    /// The time of this input, for the record.
    pub(super) fn at(&self) -> Rc<str> {
        format_iso(self.now.wall).unwrap_or_default().into()
    }

    pub(super) fn new_attempt(&self, offset: u64) -> Id {
        let ids = IdSource::new(&self.head.created.seed);
        ids.derive("attempt", self.keeper.fence(), self.head.attempts + offset)
    }

    /// What listings say of the team.
    fn summary(&self) -> Summary {
        let uncertain = |status: &Status| matches!(status, Status::Paused { ask: Ask::Uncertain(_), .. });
        let status = match self.head.outcome() {
            Some(Outcome::Completed { .. }) => RecordStatus::Completed,
            Some(Outcome::Failed { .. }) => RecordStatus::Failed,
            Some(Outcome::Paused { .. }) if self.head.all(|m| uncertain(&m.status)).next().is_some() => {
                RecordStatus::RecoveryRequired
            }
            Some(Outcome::Paused { .. }) => RecordStatus::Waiting,
            _ => RecordStatus::Open,
        };
        let created_at = &self.head.created.at;
        Summary {
            status,
            members: self.head.definition.members.iter().map(|member| member.id.clone()).collect(),
            created_at: if created_at.is_empty() { self.at() } else { created_at.clone() },
            updated_at: self.at(),
        }
    }
}

fn impossible(reason: &str) -> RoundtableError {
    RoundtableError::new(Code::Internal, format!("the engine made an impossible event: {reason}"))
}

/// What a member's stored private state needs is what restores it.
fn check_runtimes(state: &State, traits: &[Traits]) -> Result<(), TeamError> {
    for (at, member) in state.members.iter().enumerate() {
        let Some((stored, _)) = &member.checkpoint else { continue };
        if traits.get(at).and_then(|traits| traits.runtime.as_ref()) != Some(stored) {
            let message =
                format!("the saved state of {:?} is of {:?} {:?}", &*state.id(at), &*stored.id, &*stored.version);
            return Err(TeamError::of(STORED_GRAPH_MISMATCH, format!("/nodes/{at}"), message));
        }
    }
    Ok(())
}
