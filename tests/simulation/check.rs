//! The rules that every step of one handle must keep, checked against the reference and the store.

use crate::calls::Calls;
use crate::events::describe;
use crate::marks;
use crate::world::World;
use agent_roundtable::conversation::effect::{Effect, Emission, TurnView};
use agent_roundtable::conversation::error::{Code, StoreFailure};
use agent_roundtable::conversation::input::{Input, Now, SessionId, Timer};
use agent_roundtable::record::model::{Checkpoint, Id, ParticipantResponse, StopReason};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

pub struct Check {
    world: Rc<World>,
    pub calls: Calls,
    append_in_flight: bool,
    /// The fence in hand, and until when it may be trusted.
    claim: Option<(u64, f64)>,
    claim_sent: f64,
    renewals: u32,
    reads: u32,
    /// Some attempt was not awaited any longer.
    gave_up: bool,
    /// A late result came, which is saved under a claim of its own.
    saving_evidence: bool,
    /// What was asked of members and selectors and has not returned.
    work: BTreeMap<Id, Work>,
    sessions: BTreeMap<SessionId, SessionUse>,
    checkpoints: BTreeMap<Id, SessionId>,
    timers: BTreeSet<Timer>,
    emissions: u64,
    emitted: u64,
}

struct Work {
    /// Absent for the selector.
    session: Option<SessionId>,
    signalled: bool,
    /// Closed before it returned: it was given up.
    closed: bool,
}

struct SessionUse {
    participant: usize,
    /// The attempt it was last used for.
    used_by: Option<Id>,
    opened: bool,
    released: bool,
}

impl Check {
    pub fn new(world: Rc<World>, is_late: bool) -> Self {
        Check {
            calls: Calls::new(world.clone(), is_late),
            world,
            append_in_flight: false,
            claim: None,
            claim_sent: 0.0,
            renewals: 0,
            reads: 0,
            gave_up: false,
            saving_evidence: false,
            work: BTreeMap::new(),
            sessions: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            timers: BTreeSet::new(),
            emissions: 0,
            emitted: 0,
        }
    }

    /// This handle was loaded at a revision; observers begin there.
    pub fn restored(&mut self, revision: u64) {
        self.emitted = revision;
    }

    pub fn input(&mut self, now: Now, input: &Input) {
        self.calls.input(input);
        self.claim = self.claim.filter(|(_, until)| now.mono < *until);
        match input {
            Input::Claimed(Ok(claim)) => {
                self.claim = Some((claim.fence, self.trusted_until()));
            }
            Input::Renewed { fence, result } => {
                self.renewals -= 1;
                let present = self.claim.is_some_and(|(held, _)| held == *fence);
                match result {
                    Ok(_) if present => self.claim = Some((*fence, self.trusted_until())),
                    Err(failure) if present => self.lose_claim(failure),
                    _ => {}
                }
            }
            Input::Appended(result) => {
                self.append_in_flight = false;
                if let Err(failure) = result {
                    self.lose_claim(failure);
                }
            }
            Input::BatchesRead(_) => self.reads -= 1,
            Input::RecordCreated(_) => self.append_in_flight = false,
            Input::SelectorReturned { attempt, .. } | Input::TurnReturned { attempt, .. } => {
                let closed = self.work.remove(attempt).is_some_and(|work| work.closed);
                self.saving_evidence |= closed;
            }
            Input::Released if !self.calls.are_open() => self.saving_evidence = false,
            Input::SessionOpened { session, result } => {
                let known = self.sessions.get_mut(session);
                known.into_iter().for_each(|known| known.opened = result.is_ok());
                if result.is_err() {
                    self.sessions.remove(session);
                }
            }
            Input::CheckpointReturned { attempt, .. } => {
                self.checkpoints.remove(attempt);
            }
            Input::TimerFired { timer } => {
                self.timers.remove(timer);
            }
            _ => {}
        }
    }

    pub fn effect(&mut self, now: Now, effect: &Effect) {
        self.canary(effect);
        self.perform(now, effect);
    }

    fn perform(&mut self, now: Now, effect: &Effect) {
        match effect {
            Effect::Create { .. } => self.begin_append(),
            Effect::Append { claim, entries, .. } => {
                self.begin_append();
                if entries.iter().any(|line| line.starts_with("{\"run-started/1\"")) {
                    self.calls.run_begins();
                }
                let holds = self.claim.is_some_and(|(fence, _)| fence == claim.fence);
                self.demand(holds, || format!("C46: an append under fence {} that is not held", claim.fence));
            }
            Effect::Claim { .. } => self.claim_sent = now.mono,
            Effect::Renew { .. } => {
                self.renewals += 1;
                self.claim_sent = now.mono;
            }
            Effect::Release { .. } => self.claim = None,
            Effect::Read { .. } => self.reads += 1,
            Effect::Select { attempt, .. } => {
                self.dispatch(now, "the selector");
                let announced = self.world.shadow.borrow().selecting.as_ref() == Some(attempt);
                self.demand(announced, || format!("C44: {attempt} selects before its entry is durable"));
                self.begin_work(attempt, None);
            }
            Effect::OpenSession { session, participant, checkpoint } => {
                self.dispatch(now, "a session");
                self.open_session(*session, *participant, checkpoint.as_ref());
            }
            Effect::RunTurn { session, turn } => self.turn(now, *session, turn, None),
            Effect::ResumeTurn { session, turn, responses } => self.turn(now, *session, turn, Some(responses)),
            Effect::TakeCheckpoint { session, attempt } => {
                let settled = self.world.shadow.borrow().settled(attempt);
                self.demand(settled, || {
                    format!("C15: {attempt} is asked for its checkpoint before its result is saved")
                });
                self.checkpoints.insert(attempt.clone(), *session);
            }
            Effect::ReleaseSession { session } => self.release_session(*session),
            Effect::Abort { attempt, reason } => self.abort(attempt, *reason),
            Effect::CloseAttempt { attempt } => {
                self.checkpoints.remove(attempt);
                if let Some(work) = self.work.get_mut(attempt) {
                    work.closed = true;
                    self.gave_up = true;
                }
            }
            Effect::Price { record, .. } => {
                let priced = self.world.plan.priced && record.price.is_none();
                self.demand(priced, || format!("C41: a price asked for {}", record.call_id));
            }
            Effect::Emit(emission) => self.emit(emission),
            Effect::StartTimer { timer, .. } => {
                self.timers.insert(*timer);
            }
            Effect::StopTimer { timer } => {
                self.timers.remove(timer);
            }
            Effect::Reply { call, result } => {
                self.calls.reply(*call, result, self.emitted, self.gave_up);
            }
            Effect::Answer { ticket, result } => self.calls.answer(*ticket, result),
        }
    }

    /// C2a, C46: nothing is dispatched without a claim that is still trusted.
    fn dispatch(&self, now: Now, what: &str) {
        let trusted = self.claim.is_some_and(|(_, until)| now.mono <= until + 1.0);
        self.demand(trusted, || format!("C46: {what} at {} under {:?}", now.mono, self.claim));
    }

    fn trusted_until(&self) -> f64 {
        self.claim_sent + self.world.plan.lease_ms as f64 * 2.0 / 3.0
    }

    fn begin_append(&mut self) {
        let one = !self.append_in_flight;
        self.demand(one, || "C44: two appends in flight".to_owned());
        self.append_in_flight = true;
    }

    fn lose_claim(&mut self, failure: &StoreFailure) {
        if failure.code == Some(Code::StaleClaim) {
            self.claim = None;
        }
    }

    fn begin_work(&mut self, attempt: &Id, session: Option<SessionId>) {
        let fresh = self.work.insert(attempt.clone(), Work { session, signalled: false, closed: false }).is_none();
        self.demand(fresh, || format!("{attempt} is dispatched twice"));
    }

    fn turn(&mut self, now: Now, session: SessionId, turn: &TurnView, responses: Option<&Vec<ParticipantResponse>>) {
        self.dispatch(now, "a turn");
        let shadow = self.world.shadow.borrow();
        let Some(known) = shadow.running(&turn.attempt_id) else {
            return self.world.fail(format!("C44: {} runs before its entry is durable", turn.attempt_id));
        };
        let base = shadow.group.as_ref().map_or(0, |group| group.base);
        let (who, expected) = (known.participant.clone(), shadow.increment(&known.participant, base));
        let same = known.id == turn.turn_id && self.world.plan.roles[turn.participant].id == who;
        self.demand(same, || format!("{} is dispatched for another turn or participant", turn.attempt_id));
        self.demand(turn.base_revision == base, || format!("C12: base {} of {base}", turn.base_revision));
        self.demand(turn.messages[..] == expected, || {
            format!("C12: {who} is shown {:?} instead of {expected:?}", turn.messages)
        });
        let answers = if known.waits_on.is_empty() { None } else { shadow.responses(known) };
        self.demand(answers.as_ref() == responses, || format!("C27: {who} gets {responses:?} instead of {answers:?}"));
        let of_session = self.sessions.get(&session).filter(|known| known.opened && !known.released);
        let owned = of_session.is_some_and(|known| known.participant == turn.participant);
        self.demand(owned, || format!("session {session} is not open for {who}"));
        let before = of_session.and_then(|known| known.used_by.as_ref());
        let stale = self.world.plan.roles[turn.participant].has_checkpoint
            && before.is_some_and(|attempt| !shadow.prepared.contains(attempt));
        self.demand(!stale, || format!("C33: {who} retries in the session of the attempt that stopped"));
        let busy = self.work.values().any(|work| work.session == Some(session));
        self.demand(!busy, || format!("session {session} is used by two turns"));
        drop(shadow);
        if let Some(known) = self.sessions.get_mut(&session) {
            known.used_by = Some(turn.attempt_id.clone());
        }
        self.begin_work(&turn.attempt_id, Some(session));
        let running = self.work.values().filter(|work| work.session.is_some() && !work.closed).count() as u64;
        let most = self.world.plan.max_concurrent;
        self.demand(running <= most, || format!("C13: {running} members run at once of {most}"));
    }

    fn open_session(&mut self, session: SessionId, participant: usize, checkpoint: Option<&Checkpoint>) {
        let saved = self.world.shadow.borrow().saved_state(&self.world.plan.roles[participant].id);
        self.demand(saved.as_ref() == checkpoint, || {
            format!("C33: session {session} opens from {checkpoint:?} instead of {saved:?}")
        });
        let role = &self.world.plan.roles[participant];
        // One that has taken part and keeps no checkpoints is never opened again.
        let keeps = !role.has_checkpoint && self.world.shadow.borrow().has_prepared(&role.id);
        let other = |known: &SessionUse| known.participant == participant && (!known.released || keeps);
        let other = self.sessions.values().any(other);
        self.demand(!other, || format!("C33: participant {participant} has a session already"));
        let opening = SessionUse { participant, used_by: None, opened: false, released: false };
        let fresh = self.sessions.insert(session, opening).is_none();
        self.demand(fresh, || format!("session number {session} is used twice"));
    }

    fn release_session(&mut self, session: SessionId) {
        let busy = self.work.values().any(|work| work.session == Some(session) && !work.closed);
        let asked = self.checkpoints.values().any(|asked| *asked == session);
        self.demand(!busy && !asked, || format!("session {session} is released while it is used"));
        match self.sessions.get_mut(&session).filter(|known| known.opened && !known.released) {
            Some(known) => known.released = true,
            None => self.world.fail(format!("C37: session {session} is released twice or was never open")),
        }
    }

    fn abort(&mut self, attempt: &Id, reason: StopReason) {
        let justified = self.calls.justifies_abort(reason, &self.world);
        self.demand(justified, || format!("C32: the signal of {attempt} fires for {reason:?}"));
        if let Some(work) = self.work.get_mut(attempt) {
            work.signalled = true;
        }
    }

    fn emit(&mut self, emission: &Emission) {
        let next = emission.emission > self.emissions && emission.revision > self.emitted;
        self.demand(next, || format!("C18: emission {} of revision {}", emission.emission, emission.revision));
        let stored = self.world.store.borrow().revision();
        let durable = emission.revision <= stored && emission.events.iter().all(|event| event.revision <= stored);
        self.demand(durable, || format!("C44: revision {} is told before it is stored", emission.revision));
        let expected = self.world.expected.borrow();
        let told_before = self.world.is_told(self.emitted, emission.revision - 1);
        self.demand(told_before, || format!("C18: revision {} is told before earlier ones", emission.revision));
        let told: Vec<String> = emission.events.iter().map(|event| describe(&event.kind)).collect();
        let wanted = emission.revision.checked_sub(1).and_then(|index| expected.get(index as usize));
        self.demand(wanted == Some(&told), || {
            format!("C18: revision {} tells {told:#?} instead of {wanted:#?}", emission.revision)
        });
        drop(expected);
        (self.emissions, self.emitted) = (emission.emission, emission.revision);
    }

    /// C54: private text appears nowhere before an entry made it public.
    fn canary(&self, effect: &Effect) {
        let (text, revision) = match effect {
            Effect::Emit(emission) => (serde_json::to_string(emission), emission.revision),
            // C48: the results of turns to reconcile are offered to the host, and to no one else.
            Effect::Reply { result: Err(error), .. } => (serde_json::to_string(&error.message), u64::MAX),
            Effect::Reply { result, .. } => (serde_json::to_string(result), u64::MAX),
            _ => return,
        };
        let shadow = self.world.shadow.borrow();
        for mark in marks::find(&text.unwrap()) {
            let public = shadow.public_since.get(&mark).is_some_and(|since| *since <= revision);
            self.demand(public, || format!("C54: {mark} leaks in {effect:?}"));
        }
    }

    /// C32: a cancelled run, and a disposed handle, have fired every signal by the end of the step.
    pub fn step_ended(&mut self) {
        self.resting();
        let cancelled = self.calls.take_cancelled();
        let deaf = self.work.iter().find(|(_, work)| cancelled && !work.signalled && !work.closed);
        self.demand(deaf.is_none(), || format!("C32: {:?} is cancelled and not signalled", deaf.map(|(id, _)| id)));
    }

    /// Nothing outlives the last open call but sessions that wait for the next one.
    fn resting(&self) {
        if self.calls.are_open() || self.saving_evidence {
            return;
        }
        self.demand(self.timers.is_empty(), || format!("timers outlive the last call: {:?}", self.timers));
        let now = self.world.executor.now_ms() as f64;
        let held = self.claim.is_some_and(|(_, until)| now < until);
        self.demand(!held, || "C46: the claim outlives the last call".to_owned());
        let busy = self.append_in_flight || self.renewals + self.reads > 0;
        self.demand(!busy, || "a store call outlives the last call".to_owned());
        let loose: Vec<&Id> = self.work.iter().filter(|(_, work)| !work.closed).map(|(id, _)| id).collect();
        self.demand(loose.is_empty(), || format!("work outlives the last call: {loose:?}"));
        self.demand(self.checkpoints.is_empty(), || "a checkpoint outlives the last call".to_owned());
    }

    /// At the very end: everything public was told, every session was released.
    pub fn finished(&self, revision: u64) {
        let told_all = self.world.is_told(self.emitted, revision);
        self.demand(told_all, || format!("C18: observers were never told of revision {revision}"));
        let open = self.sessions.iter().filter(|(_, known)| !known.released).map(|(id, _)| *id);
        let busy = |id: &SessionId| self.work.values().any(|work| work.session == Some(*id));
        let left: Vec<SessionId> = open.filter(|id| !busy(id)).collect();
        self.demand(left.is_empty(), || format!("C37: sessions {left:?} are never released"));
    }

    /// What is under way, for a schedule that is stuck.
    pub fn describe(&self) -> String {
        let work: Vec<&Id> = self.work.keys().collect();
        format!("{}; at work: {work:?}; append in flight: {}", self.calls.describe(), self.append_in_flight)
    }

    fn demand(&self, holds: bool, what: impl FnOnce() -> String) {
        self.world.demand(holds, what);
    }
}
