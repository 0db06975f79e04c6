//! Turns under way: started, settled, stopped, and what their attempts ask of the record.

use super::decision::Decision;
use super::event::{Ask, At, AttemptStarted, Checkpointed, Completed, Event, Failed, Paused};
use super::machine::{Effect, Machine};
use super::outcome::pause_id;
use super::state::{Message, State, check_reason};
use crate::conversation::effect::ServiceRefusal;
use crate::conversation::error::{RoundtableError, Thrown};
use crate::conversation::input::Ticket;
use crate::record::codec::{MAX_ENTRY_LEN, encode};
use crate::record::model::{Checkpoint, Id, ParticipantRequest, ParticipantResponse, StopReason};
use crate::value::json::write_string;
use crate::value::text::utf16_len;
use crate::value::{CanonicalJson, Json};
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// An attempt under way.
#[derive(Debug)]
pub(super) struct Attempt {
    member: usize,
    /// Its member's code was called.
    pub(super) running: bool,
    pub(super) signalled: bool,
}

/// What may happen once an event is durable.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Gate {
    /// Call the member.
    Run(Id),
    /// Settle a question.
    Answer(Ticket),
    /// Nothing but being written.
    None,
}

/// A turn, as its member's runtime needs it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The attempt.
    pub attempt: Id,
    /// Position of the member.
    pub member: usize,
    /// The turn.
    pub position: Id,
    /// The batch it was dispatched with.
    pub group: Id,
    /// The revision before which everything it can see was saved.
    pub base_revision: u64,
    /// JSON of its input.
    pub input: String,
    /// Answers to its requests.
    pub answers: Vec<ParticipantResponse>,
    /// The turn's attempts before this one, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<Id>,
    /// A host has said that what is uncertain of them may be done again.
    pub retried: bool,
    /// How many messages came into its rooms after its input was made.
    pub newer: usize,
    /// For an agent: what its session is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentTurn>,
}

/// What an agent's session is given.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentTurn {
    /// Task, role, brief, rooms and how to answer; for the first turn.
    pub purpose: String,
    /// Of its input, what it has not been given and did not write.
    pub messages: Vec<AgentMessage>,
    /// Its private state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Checkpoint>,
}

/// A message as sessions know them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentMessage {
    id: Id,
    participant_id: Id,
    content: Rc<str>,
    revision: u64,
    turn_id: Id,
    group_id: Id,
    room_id: Id,
    mentions: Vec<Id>,
}

/// What came of an attempt.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Returned {
    /// A function's result, or what a host read from an agent's words.
    Result {
        /// Any JSON.
        result: CanonicalJson,
        /// An agent's private state.
        checkpoint: Option<Checkpoint>,
    },
    /// An agent's words.
    Spoke {
        /// The words.
        content: Rc<str>,
        /// Its private state.
        checkpoint: Option<Checkpoint>,
    },
    /// A function waits for the host.
    Pause {
        /// Why.
        reason: Rc<str>,
        /// What for.
        request: CanonicalJson,
    },
    /// An agent waits for answers.
    Wait {
        /// Its requests.
        requests: Vec<ParticipantRequest>,
        /// Its private state.
        checkpoint: Option<Checkpoint>,
    },
    /// It threw.
    Thrown(Thrown),
}

impl Machine {
    /// Dispatches the next batch.
    pub(super) fn dispatch(&mut self) {
        let Decision::Dispatch(members) = self.head.decide() else { return };
        let dispatch = |member: &usize| {
            let number = self.head.members.get(*member).map_or(0, |state| state.turns + 1);
            let at = At { node_id: self.head.id(*member), position: self.head.position(*member, number) };
            (Event::Dispatched(at), Gate::None)
        };
        let events = members.iter().map(dispatch).collect();
        if self.push(events).is_ok() {
            self.start(members);
        }
    }

    /// Starts attempts of turns in flight; an input over its bytes fails its turn instead.
    pub(super) fn start(&mut self, members: Vec<usize>) {
        let (mut events, mut offset) = (Vec::new(), 0);
        for member in members {
            let Some(turn) = self.head.members.get(member).and_then(|state| state.turn.as_ref()) else { continue };
            let (node_id, position) = (self.head.id(member), turn.position.clone());
            if self.head.input(member).is_err() {
                let failed = Failed { node_id, position, code: "INPUT_LIMIT".into() };
                events.push((Event::Failed(failed), Gate::None));
                continue;
            }
            let attempt_id = self.new_attempt(offset);
            offset += 1;
            let retry_safe = self.traits.get(member).is_some_and(|traits| traits.retry_safe);
            let (attempt, at) = (attempt_id.clone(), self.at());
            let started = AttemptStarted { node_id, position, attempt_id, at, retry_safe };
            events.push((Event::AttemptStarted(started), Gate::Run(attempt.clone())));
            self.attempts.insert(attempt, Attempt { member, running: false, signalled: false });
        }
        if !events.is_empty() {
            // A refusal ends the call.
            let _ = self.push(events);
        }
    }

    pub(super) fn open_gate(&mut self, gate: Gate) {
        match gate {
            Gate::None => {}
            Gate::Answer(ticket) => {
                // One that was refused while it was on its way has its answer.
                if let Some(at) = self.tickets.iter().position(|open| *open == ticket) {
                    self.tickets.swap_remove(at);
                    self.effect(Effect::Answer { ticket, result: Ok(()) });
                }
            }
            Gate::Run(attempt) if self.is_stopped() || !self.keeper.is_working() => self.stopped(&attempt),
            Gate::Run(attempt) => {
                let Some(found) = self.attempts.get_mut(&attempt) else { return };
                found.running = true;
                let member = found.member;
                if let Some(run) = self.run_of(attempt, member) {
                    self.effect(Effect::Run(Box::new(run)));
                }
            }
        }
    }

    fn run_of(&self, attempt: Id, member: usize) -> Option<Run> {
        let state = self.head.members.get(member)?;
        let turn = state.turn.as_ref()?;
        let input = self.head.input(member).ok()?;
        let runtime = self.traits.get(member).and_then(|traits| traits.runtime.as_ref());
        // What a host says of an attempt is for functions; to an agent it says it by going on.
        let asked_itself = |answer: &ParticipantResponse| answer.request.id != pause_id(&turn.position);
        let agent = runtime.map(|_| AgentTurn {
            purpose: self.head.purpose(member),
            messages: self.unread(member, &input.messages, state.consumed),
            checkpoint: state.checkpoint.as_ref().map(|(_, checkpoint)| checkpoint.clone()),
        });
        Some(Run {
            attempt,
            member,
            position: turn.position.clone(),
            group: self.head.group(turn.batch),
            base_revision: self.keeper.revision(),
            input: input.json,
            answers: turn.answers.iter().filter(|answer| runtime.is_none() || asked_itself(answer)).cloned().collect(),
            earlier: turn.earlier.clone(),
            retried: turn.retried,
            newer: self.head.newer_messages(member),
            agent,
        })
    }

    fn unread(&self, member: usize, messages: &[usize], consumed: usize) -> Vec<AgentMessage> {
        let own = self.head.id(member);
        // They are durable, so their revisions are known.
        let unread = messages.iter().filter(|at| **at >= consumed).filter_map(|at| self.durable.messages.get(*at));
        let shown = |message: &Rc<Message>| AgentMessage {
            id: message.id.clone(),
            participant_id: message.sender.clone(),
            content: message.text.clone(),
            revision: message.revision,
            turn_id: message.position.clone(),
            group_id: self.head.group(message.batch),
            room_id: message.room_id.clone(),
            mentions: message.mentions.clone(),
        };
        unread.filter(|message| message.sender != own).map(shown).collect()
    }

    /// An attempt came back.
    pub(super) fn returned(&mut self, attempt: &Id, outcome: Returned) {
        let Some(Attempt { member, signalled, .. }) = self.attempts.remove(attempt) else { return };
        if !self.keeper.is_working() {
            return;
        }
        let Some(turn) = self.head.members.get(member).and_then(|state| state.turn.as_ref()) else { return };
        let at = At { node_id: self.head.id(member), position: turn.position.clone() };
        let (checkpoint, last) = match outcome {
            Returned::Result { result, checkpoint } => (checkpoint, self.completion(member, &at, result)),
            Returned::Spoke { content, checkpoint } => {
                let result = self.head.spoken(member, &content);
                (checkpoint, self.completion(member, &at, result))
            }
            Returned::Pause { reason, request } => (None, pause(&at, reason, Ask::Host(request))),
            Returned::Wait { requests, checkpoint } => {
                let reason = requests.first().map_or_else(|| "".into(), |request| request.reason.clone());
                let fault = self.wait_fault(&requests);
                match fault {
                    Some(code) => (None, failure(&at, code)),
                    None => (checkpoint, pause(&at, reason, Ask::Wait(requests))),
                }
            }
            Returned::Thrown(thrown) if thrown.is_outcome_unknown() => {
                let message: String = thrown.message.chars().filter(|c| !c.is_control()).collect();
                (None, pause(&at, format!("uncertain: {message}").into(), Ask::Uncertain(attempt.clone())))
            }
            Returned::Thrown(thrown) if signalled && thrown.is_abort => (None, Event::AttemptStopped(at.clone())),
            Returned::Thrown(thrown) => {
                let given = thrown.code.filter(|code| check_reason(code).is_ok());
                let code = given.as_deref().unwrap_or(if thrown.is_abort { "ABORTED" } else { "EFFECT_FAILED" });
                (None, failure(&at, code))
            }
        };
        let runtime = self.traits.get(member).and_then(|traits| traits.runtime.clone());
        let mut events = Vec::with_capacity(2);
        if let (Some(checkpoint), Some(runtime)) = (checkpoint, runtime) {
            let At { node_id, position } = at.clone();
            let saved = Checkpointed { node_id, position, runtime, checkpoint };
            events.push((Event::Checkpointed(saved), Gate::None));
        }
        events.push((last, Gate::None));
        let fits = |(event, _): &(Event, Gate)| encode(event).is_ok_and(|line| utf16_len(&line) <= MAX_ENTRY_LEN);
        if !events.iter().all(fits) {
            events = vec![(failure(&at, "RESULT_TOO_LARGE"), Gate::None)];
        }
        // A refusal ends the call.
        let _ = self.push(events);
    }

    fn completion(&self, member: usize, at: &At, result: CanonicalJson) -> Event {
        let budget = self.head.created.options.output_bytes;
        if budget.is_some_and(|budget| result.as_str().len() as u64 > budget) {
            return failure(at, "OUTPUT_LIMIT");
        }
        let json = Json::parse_enclosing(result.as_str());
        if json.map_or(true, |json| self.head.definition.validate_result(member, &json).is_some()) {
            return failure(at, "RESULT_INVALID");
        }
        Event::Completed(Completed { node_id: at.node_id.clone(), position: at.position.clone(), result })
    }

    /// Why an agent's requests cannot be parked.
    fn wait_fault(&self, requests: &[ParticipantRequest]) -> Option<&'static str> {
        let open = self.head.requests();
        let used = |id: &Id, at: usize| {
            requests.iter().take(at).any(|earlier| earlier.id == *id) || open.iter().any(|request| request.id == *id)
        };
        let bad = requests.iter().enumerate().any(|(at, request)| used(&request.id, at));
        (requests.is_empty() || bad).then_some("WAIT_INVALID")
    }

    /// An attempt that was not called, or was told to stop, ended without an outcome.
    fn stopped(&mut self, attempt: &Id) {
        let Some(Attempt { member, .. }) = self.attempts.remove(attempt) else { return };
        if !self.keeper.is_working() {
            return;
        }
        let Some(turn) = self.head.members.get(member).and_then(|state| state.turn.as_ref()) else { return };
        let at = At { node_id: self.head.id(member), position: turn.position.clone() };
        let _ = self.push(vec![(Event::AttemptStopped(at), Gate::None)]);
    }

    pub(super) fn signal_all(&mut self, reason: StopReason) {
        let mut signalled = Vec::new();
        for (id, attempt) in self.attempts.iter_mut().filter(|(_, attempt)| attempt.running && !attempt.signalled) {
            attempt.signalled = true;
            signalled.push(id.clone());
        }
        if !signalled.is_empty() {
            self.bound_settling();
        }
        for attempt in signalled {
            self.effect(Effect::Abort { attempt, reason });
        }
    }

    /// Attempts that ignored their signal are awaited no longer. What they come to stays unknown, as it does
    /// when a process dies: what they return later is not looked at.
    pub(super) fn give_up(&mut self) {
        let overdue: Vec<(Id, usize)> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| attempt.signalled)
            .map(|(id, a)| (id.clone(), a.member))
            .collect();
        for (attempt, member) in overdue {
            self.attempts.remove(&attempt);
            self.effect(Effect::GiveUp { attempt, member });
        }
    }

    /// Nothing more is written: running attempts are stopped, others never begin.
    pub(super) fn interrupt(&mut self, error: &RoundtableError) {
        self.attempts.retain(|_, attempt| attempt.running);
        self.signal_all(StopReason::Interrupted);
        for ticket in std::mem::take(&mut self.tickets) {
            self.effect(Effect::Answer { ticket, result: Err(ServiceRefusal::Refused(error.clone())) });
        }
    }
}

impl State {
    /// What an agent is told before its first turn.
    #[must_use]
    pub fn purpose(&self, member: usize) -> String {
        let Some(definition) = self.definition.members.get(member) else { return String::new() };
        let mut purpose = format!(
            "{}\nYou are {} ({}).\n{}\n",
            self.definition.task, definition.id, definition.role, definition.brief
        );
        for room in definition.rooms.iter().filter_map(|room| self.definition.rooms().get(*room)) {
            let mut names = Vec::new();
            for name in room.members.iter().map(|member| self.id(*member)) {
                let mut quoted = String::new();
                write_string(&name, &mut quoted);
                names.push(quoted);
            }
            let mut id = String::new();
            write_string(&room.id, &mut id);
            purpose.push_str(&format!("Room {id}: {}\n", names.join(", ")));
        }
        purpose.push_str(
            "Answer with text, or with one JSON object {\"summary\": text, \"data\": any JSON, \"posts\": \
             [{\"roomId\": id, \"text\": text, \"mentions\": [ids]}]}. Only members you mention get a turn for it; \
             end your turn to wait for an answer.",
        );
        purpose
    }

    /// What an agent's words mean: a result where they are one, else a summary.
    fn spoken(&self, member: usize, content: &str) -> CanonicalJson {
        if let Ok(json @ Json::Object(_)) = Json::parse_enclosing(content.trim())
            && self.definition.validate_result(member, &json).is_none()
        {
            return CanonicalJson::of(&json);
        }
        CanonicalJson::of(&Json::Object(vec![("summary".to_owned(), Json::String(content.to_owned()))]))
    }
}

fn failure(at: &At, code: &str) -> Event {
    Event::Failed(Failed { node_id: at.node_id.clone(), position: at.position.clone(), code: code.into() })
}

fn pause(at: &At, reason: Rc<str>, request: Ask) -> Event {
    if check_reason(&reason).is_err() {
        return failure(at, "PAUSE_INVALID");
    }
    Event::Paused(Paused { node_id: at.node_id.clone(), position: at.position.clone(), reason, request })
}
