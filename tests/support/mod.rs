//! A host that answers every effect at once: for scenarios in which timing plays no part.
#![allow(dead_code, reason = "each test file uses its own part")]

use agent_roundtable::conversation::effect::{Reply, ServiceRefusal};
use agent_roundtable::conversation::emission::events_of;
use agent_roundtable::conversation::error::{StoreFailure, Thrown};
use agent_roundtable::conversation::input::{
    Batch, CallId, Claim, Decision, Now, ReadBatches, Request, SessionTraits, Ticket,
};
use agent_roundtable::conversation::{Code, Config, Effect, Event, Input, Machine, RoundtableError};
use agent_roundtable::record::entry::Entry;
use agent_roundtable::record::model::{Checkpoint, Id, InputResponse, Outcome, Response, Selection};
use agent_roundtable::record::reading::{Journal, RecordError};
use agent_roundtable::record::state::State;
use agent_roundtable::record::usage::{Money, UsageRecord};
use agent_roundtable::value::Json;
use agent_roundtable::value::write::write;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

pub type Turn = Box<dyn FnMut(&Rc<agent_roundtable::conversation::effect::TurnView>) -> Result<Outcome, Thrown>>;

pub struct Instant {
    pub machine: Machine,
    pub now: Now,
    pub batches: Vec<Batch>,
    pub fence: u64,
    pub appends: usize,
    pub events: Vec<Event>,
    pub replies: HashMap<CallId, Result<Reply, RoundtableError>>,
    pub answers: HashMap<Ticket, Result<(), ServiceRefusal>>,
    pub turn: Turn,
    pub traits: SessionTraits,
    pub decisions: VecDeque<Selection>,
    /// Turns, selections and deliveries are left for the test to answer.
    pub hold: bool,
    hold_selector: bool,
    pub running: Vec<Id>,
    pub effects: Vec<Effect>,
    /// What the store answers the next appends with, before it works again.
    pub append_failures: VecDeque<(StoreFailure, bool)>,
    pub cost: Option<Money>,
    /// What the price policy was asked about.
    pub priced: Vec<UsageRecord>,
    /// How many claims get no answer before the store works again.
    pub lost_claims: u32,
    pub checkpoint_version: &'static str,
    /// Checkpoints are left for [`Instant::gives_checkpoint`].
    pub hold_checkpoints: bool,
    /// How many appends are acknowledged with another revision than theirs.
    pub wrong_receipts: u32,
    /// How many sessions do not open before the others do.
    pub refused_openings: u32,
    next_call: CallId,
}

pub fn config(extra: &str) -> Config {
    config_of(4, extra)
}

pub fn config_of(turns: u64, extra: &str) -> Config {
    let text = format!(
        r#"{{"conversationId":"c","seed":"s","participants":[
            {{"kind":"agent","id":"ana","runtime":{{"id":"r","version":"1"}},"supportsContinuation":true,"checkpointVersions":["v"]}},
            {{"kind":"agent","id":"bo","runtime":{{"id":"r","version":"1"}},"supportsContinuation":true,"checkpointVersions":["v"]}},
            {{"kind":"external","id":"pia"}}],"limits":{{"maxTurnsPerRun":{turns}}}{extra}}}"#
    );
    Config::read(&Json::parse(&text).unwrap()).unwrap()
}

pub fn said(content: &str) -> Response {
    Response::Input(InputResponse::Said { content: content.into() })
}

pub fn thrown(message: &str) -> Thrown {
    Thrown { message: message.into(), code: None, value: None, is_abort: false, is_refused_admission: false }
}

pub fn lost() -> StoreFailure {
    StoreFailure { code: None, message: "no answer".into(), value: None }
}

pub fn speak(content: &str) -> Result<Outcome, Thrown> {
    Ok(Outcome::Speak { content: content.into() })
}

impl Instant {
    pub fn new(config: Config, turn: Turn) -> Instant {
        Instant {
            machine: Machine::new(config, "owner".into()).unwrap(),
            now: Now { wall: 1.8e12, mono: 0.0 },
            batches: Vec::new(),
            fence: 0,
            appends: 0,
            events: Vec::new(),
            replies: HashMap::new(),
            answers: HashMap::new(),
            turn,
            traits: SessionTraits { can_resume: true, can_checkpoint: false },
            decisions: VecDeque::new(),
            hold: false,
            hold_selector: true,
            running: Vec::new(),
            effects: Vec::new(),
            append_failures: VecDeque::new(),
            cost: None,
            priced: Vec::new(),
            lost_claims: 0,
            checkpoint_version: "v",
            hold_checkpoints: false,
            wrong_receipts: 0,
            refused_openings: 0,
            next_call: 0,
        }
    }

    pub fn call(&mut self, request: Request) -> Result<Reply, RoundtableError> {
        let call = self.start(request);
        self.replies.remove(&call).expect("every call is replied to")
    }

    /// A call that may not be replied to at once.
    pub fn start(&mut self, request: Request) -> CallId {
        self.next_call += 1;
        let call = self.next_call;
        self.input(Input::Called { call, request });
        call
    }

    /// A call whose members wait for the test, while the selector answers at once.
    pub fn start_held(&mut self, request: Request) -> CallId {
        self.hold = true;
        self.hold_selector = false;
        self.start(request)
    }

    pub fn last_call(&self) -> CallId {
        self.next_call
    }

    pub fn submit(
        &mut self,
        id: &str,
        content: &str,
        reply_to: Option<&str>,
        at: u64,
    ) -> Result<Reply, RoundtableError> {
        self.call(Request::SubmitInput {
            participant_id: "pia".into(),
            input_id: id.into(),
            expected_revision: at,
            content: content.into(),
            reply_to: reply_to.map(Into::into),
            by: None,
        })
    }

    pub fn resume(&mut self, request: &str, id: &str, response: Response, at: u64) -> Result<Reply, RoundtableError> {
        let (request_id, response_id) = (request.into(), id.into());
        self.call(Request::Resume { request_id, response_id, expected_revision: at, response, by: None })
    }

    pub fn revision(&self) -> u64 {
        self.machine.durable().revision
    }

    pub fn gives_checkpoint(&mut self, attempt: &Id) {
        let given = self.checkpoint(attempt.clone());
        self.input(given);
    }

    fn checkpoint(&self, attempt: Id) -> Input {
        let data = agent_roundtable::value::CanonicalJson::of(&Json::Null);
        let result = Ok(Checkpoint { version: self.checkpoint_version.into(), data, append: None });
        Input::CheckpointReturned { attempt, result }
    }

    pub fn returns(&mut self, attempt: &Id, result: Result<Outcome, Thrown>) {
        self.running.retain(|id| id != attempt);
        self.input(Input::TurnReturned { attempt: attempt.clone(), result });
    }

    pub fn count(&self, wanted: impl Fn(&Effect) -> bool) -> usize {
        self.effects.iter().filter(|effect| wanted(effect)).count()
    }

    /// The journal's entries of one kind, by name.
    pub fn entries(&self, kind: &str) -> Vec<&String> {
        let head = format!("{{\"{kind}/1\"");
        self.batches.iter().flat_map(|b| &b.entries).filter(|line| line.starts_with(&head)).collect()
    }

    pub fn run(&mut self) -> Reply {
        self.call(Request::Run { limits: None }).unwrap()
    }

    pub fn transcript(&self) -> Vec<(String, String)> {
        let messages = self.machine.durable().messages.iter();
        messages.map(|m| (m.participant_id.to_string(), m.content.to_string())).collect()
    }

    pub fn input(&mut self, input: Input) {
        let mut inbox = VecDeque::from([input]);
        while let Some(input) = inbox.pop_front() {
            self.machine.handle_input(self.now, input);
            while let Some(effect) = self.machine.poll_effect() {
                self.effects.push(effect.clone());
                inbox.extend(self.perform(effect));
            }
        }
    }

    fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Create { entries, .. } => {
                if !self.batches.is_empty() {
                    let failure = StoreFailure { code: Some(Code::Conflict), message: "exists".into(), value: None };
                    return Some(Input::RecordCreated(Err(failure)));
                }
                self.batches.push(Batch { revision: 1, operation_id: "create".into(), entries: entries.to_vec() });
                Some(Input::RecordCreated(Ok(())))
            }
            Effect::Claim { .. } if self.lost_claims > 0 => {
                self.lost_claims -= 1;
                Some(Input::Claimed(Err(lost())))
            }
            Effect::Claim { owner_id, .. } => {
                self.fence += 1;
                let conversation_id = "c".into();
                Some(Input::Claimed(Ok(Claim { conversation_id, owner_id, fence: self.fence, expires_at: 0.0 })))
            }
            Effect::Renew { claim, .. } => Some(Input::Renewed { fence: claim.fence, result: Ok(claim) }),
            Effect::Release { .. } => Some(Input::Released),
            Effect::Read { after } => {
                let batches = self.batches.iter().skip(after as usize).cloned().collect();
                Some(Input::BatchesRead(Ok(Some(ReadBatches { revision: self.batches.len() as u64, batches }))))
            }
            Effect::Append { expected_revision, operation_id, entries, .. } => {
                self.appends += 1;
                let revision = expected_revision + 1;
                if self.batches.iter().any(|batch| batch.operation_id == operation_id) {
                    return Some(Input::Appended(Ok(revision)));
                }
                let failure = self.append_failures.pop_front();
                if let Some((failure, false)) = failure {
                    return Some(Input::Appended(Err(failure)));
                }
                assert_eq!(expected_revision, self.batches.len() as u64);
                if let Some((landed, _)) = failure {
                    self.batches.push(Batch { revision, operation_id, entries: entries.to_vec() });
                    return Some(Input::Appended(Err(landed)));
                }
                self.batches.push(Batch { revision, operation_id, entries: entries.to_vec() });
                let wrong = self.wrong_receipts > 0;
                self.wrong_receipts = self.wrong_receipts.saturating_sub(1);
                Some(Input::Appended(Ok(revision + u64::from(wrong))))
            }
            Effect::Select { attempt, .. } => {
                if self.hold && self.hold_selector {
                    self.running.push(attempt);
                    return None;
                }
                let selection = self.decisions.pop_front().unwrap_or(Selection::Finish { reason: "done".into() });
                Some(Input::SelectorReturned { attempt, result: Ok(Decision { selection, checkpoint: None }) })
            }
            Effect::OpenSession { session, .. } if self.refused_openings > 0 => {
                self.refused_openings -= 1;
                Some(Input::SessionOpened { session, result: Err(thrown("no seat")) })
            }
            Effect::OpenSession { session, .. } => Some(Input::SessionOpened { session, result: Ok(self.traits) }),
            Effect::RunTurn { turn, .. } | Effect::ResumeTurn { turn, .. } if self.hold => {
                self.running.push(turn.attempt_id.clone());
                None
            }
            Effect::RunTurn { turn, .. } | Effect::ResumeTurn { turn, .. } => {
                Some(Input::TurnReturned { attempt: turn.attempt_id.clone(), result: (self.turn)(&turn) })
            }
            Effect::TakeCheckpoint { .. } if self.hold_checkpoints => None,
            Effect::TakeCheckpoint { attempt, .. } => Some(self.checkpoint(attempt)),
            Effect::ReleaseSession { session } => Some(Input::SessionReleased { session, result: Ok(()) }),
            Effect::Price { ticket, record } => {
                self.priced.push(UsageRecord::clone(&record));
                Some(Input::Priced { ticket, cost: self.cost.clone() })
            }
            Effect::Emit(emission) => {
                self.events.extend(emission.events);
                Some(Input::Delivered { emission: emission.emission })
            }
            Effect::Reply { call, result } => {
                self.replies.insert(call, result);
                None
            }
            Effect::Answer { ticket, result } => {
                self.answers.insert(ticket, result);
                None
            }
            Effect::Abort { .. }
            | Effect::CloseAttempt { .. }
            | Effect::StartTimer { .. }
            | Effect::StopTimer { .. } => None,
        }
    }
}

/// What a journal folds into, and the events of its entries.
pub fn read_journal(batches: &[Batch]) -> Result<(State, Vec<Event>), RecordError> {
    let (mut journal, mut events) = (Journal::default(), Vec::new());
    for batch in batches {
        let told = |entry: &Entry, state: &State, messages| events_of(entry, state, messages, &mut events);
        journal.add(batch.revision, batch.entries.iter().map(String::as_str), told)?;
    }
    Ok((journal.into_state().expect("a journal has entries"), events))
}

/// Every way to remove, repeat, retype or add one member of an object, anywhere in a value, with the
/// name of the member.
pub fn mutations(value: &Json) -> Vec<(String, String)> {
    let text = |value: &Json| write(value).unwrap();
    let mut found = Vec::new();
    let Json::Object(members) = value else { return found };
    for (at, (key, member)) in members.iter().enumerate() {
        let with = |other: Json| {
            let mut changed = members.clone();
            changed[at].1 = other;
            text(&Json::Object(changed))
        };
        let mut add = |text: String| found.push((key.clone(), text));
        let mut without = members.clone();
        without.remove(at);
        add(text(&Json::Object(without)));
        for other in [Json::Null, Json::Number(7.5), Json::String("7".into()), Json::Bool(true), Json::Array(vec![])] {
            if std::mem::discriminant(&other) != std::mem::discriminant(member) {
                add(with(other));
            }
        }
        let key_text = text(&Json::String(key.clone()));
        add(text(value).replacen('{', &format!("{{{key_text}:{},", text(member)), 1));
        add(text(value).replacen('{', "{\"spare\":1,", 1));
        let mut last = members.clone();
        let moved = last.remove(at);
        last.push(moved);
        add(text(&Json::Object(last)));
        for (inner_key, inner) in mutations(member) {
            let deeper = with(Json::String("\u{0}here".into()));
            found.push((inner_key, deeper.replace("\"\\u0000here\"", &inner)));
        }
    }
    found
}
