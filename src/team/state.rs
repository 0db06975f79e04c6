//! What a team's events fold into. An event that does not match is refused and changes nothing.

use super::decision::Decision;
use super::definition::Definition;
use super::event::{
    Answered, Ask, At, AttemptStarted, Checkpointed, Completed, Created, Event, Failed, Paused, SelfMention,
};
use super::outcome::pause_id;
use super::result::Post;
use crate::record::execution::Records;
use crate::record::fold::Refusal;
use crate::record::model::{Checkpoint, Id, ParticipantResponse, RuntimeReference};
use crate::record::state::IdMap;
use crate::record::usage::UsageRecord;
use crate::value::{CanonicalJson, Json};
use serde::Serialize;
use std::collections::VecDeque;
use std::rc::Rc;

/// A team at one revision.
#[derive(Clone, Debug)]
pub struct State {
    /// How it began.
    pub created: Rc<Created>,
    /// What it was compiled from.
    pub definition: Rc<Definition>,
    /// By position in the definition.
    pub members: Vec<Member>,
    /// Every accepted message, in order.
    pub messages: Vec<Rc<Message>>,
    /// For each room the positions of its messages.
    pub rooms: Vec<Vec<usize>>,
    /// Attempts so far.
    pub attempts: u64,
    /// Batches of dispatches so far.
    pub batches: u64,
    /// Model calls in the order of their admission.
    pub calls: Vec<Id>,
    /// Model calls by id.
    pub ledger: IdMap<UsageRecord>,
    /// Dispatches that must still follow in this batch.
    due: VecDeque<usize>,
}

/// A member's state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Member {
    /// What it is doing.
    pub status: Status,
    /// Turns dispatched so far.
    pub turns: u64,
    /// Whether it wants a turn.
    pub queued: bool,
    /// Positions of the messages that asked for its next turn.
    pub triggers: Vec<usize>,
    /// Its last result.
    pub result: Option<CanonicalJson>,
    /// The turn it has, or had last.
    pub turn: Option<Turn>,
    /// How many messages there were when its last completed turn was dispatched.
    pub consumed: usize,
    /// An agent's private state, and what can restore it.
    pub checkpoint: Option<(RuntimeReference, Checkpoint)>,
}

/// What a member is doing.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Status {
    /// Nothing.
    #[default]
    Idle,
    /// It has a turn that has not ended.
    InFlight,
    /// Its turn waits.
    Paused {
        /// Why.
        reason: Rc<str>,
        /// What it asks.
        ask: Ask,
    },
    /// Its turn failed.
    Failed {
        /// Why.
        code: Rc<str>,
    },
}

/// One turn of a member.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Its id.
    pub position: Id,
    /// In which batch it was dispatched.
    pub batch: u64,
    /// How many messages there were.
    pub seen: usize,
    /// Those that asked for it.
    pub triggers: Vec<usize>,
    /// The attempt that nobody saw end, and whether it may be repeated.
    pub open: Option<(Id, bool)>,
    /// The last attempt.
    pub attempt: Option<Id>,
    /// The attempts before it, oldest first.
    pub earlier: Vec<Id>,
    /// A host has said that what is uncertain of them may be done again.
    pub retried: bool,
    /// Answers to its requests.
    pub answers: Vec<ParticipantResponse>,
    /// What its attempts wrote down.
    pub records: Records,
}

/// An accepted post.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Its room's id.
    pub room_id: Id,
    /// What it says.
    pub text: Rc<str>,
    /// Ids of mentioned members, as listed.
    pub mentions: Vec<Id>,
    /// `<position>/<i>`, i from 0.
    pub id: Id,
    /// The member that posted it.
    pub sender: Id,
    /// The turn it was posted with.
    pub position: Id,
    /// The revision that saved it.
    #[serde(skip)]
    pub revision: u64,
    /// The batch its turn was dispatched with.
    #[serde(skip)]
    pub batch: u64,
}

impl State {
    /// The state right after creation.
    pub fn create(created: Rc<Created>, definition: Rc<Definition>) -> State {
        let members = definition.members.iter().map(|m| Member { queued: m.initial_turn, ..Member::default() });
        State {
            members: members.collect(),
            messages: Vec::new(),
            rooms: vec![Vec::new(); definition.rooms().len()],
            attempts: 0,
            batches: 0,
            calls: Vec::new(),
            ledger: IdMap::default(),
            due: VecDeque::new(),
            created,
            definition,
        }
    }

    /// Folds in one event of the batch with this revision, or refuses it and changes nothing.
    pub fn apply(&mut self, event: &Event, revision: u64) -> Result<(), Refusal> {
        if !self.due.is_empty() && !matches!(event, Event::Dispatched(_)) {
            return refuse("a batch's dispatches stand together");
        }
        match event {
            Event::Created(_) => refuse("a team is created once"),
            Event::Dispatched(at) => self.dispatched(at),
            Event::Completed(e) => self.completed(e, revision),
            Event::Failed(e) => self.failed(e),
            Event::Paused(e) => self.paused(e),
            Event::Resumed(at) => self.resumed(at),
            Event::AttemptStarted(e) => self.attempt_started(e),
            Event::AttemptStopped(at) => {
                let turn = self.turn_in(&at.node_id, &at.position, |status| matches!(status, Status::InFlight))?;
                turn.retried = false;
                turn.open.take().map(|_| ()).ok_or_else(|| "no attempt is open".to_owned())
            }
            Event::Checkpointed(e) => self.checkpointed(e),
            Event::Answered(e) => self.answered(e),
            Event::CallAdmitted(e) => self.admitted(e, revision),
            Event::UsageReported(e) => self.reported(e, revision),
            Event::ExecutionRecorded(e) => match self.running(&e.attempt_id) {
                Some(turn) => turn.records.push(e.record.clone()),
                None => refuse("the attempt is not running"),
            },
        }
    }

    /// The batch of events is complete.
    pub fn end_batch(&self) -> Result<(), Refusal> {
        if self.due.is_empty() { Ok(()) } else { refuse("a batch's dispatches are written at once") }
    }

    /// The id of a member's turn.
    #[must_use]
    pub fn position(&self, member: usize, number: u64) -> Id {
        let id = self.definition.members.get(member).map_or("", |member| &member.id);
        format!("team/{id}/{number}").into()
    }

    /// The id of a member.
    #[must_use]
    pub fn id(&self, member: usize) -> Id {
        self.definition.members.get(member).map_or_else(|| "".into(), |member| member.id.clone())
    }

    /// Members with their positions that satisfy `want`, in declared order.
    pub fn all(&self, want: impl Fn(&Member) -> bool) -> impl Iterator<Item = (usize, &Member)> {
        self.members.iter().enumerate().filter(move |(_, member)| want(member))
    }

    fn dispatched(&mut self, at: &At) -> Result<(), Refusal> {
        let mut due = self.due.clone();
        if due.is_empty() {
            let Decision::Dispatch(list) = self.decide() else { return refuse("nothing is to be dispatched") };
            due = list.into();
        }
        let first = due.pop_front().unwrap_or(usize::MAX);
        let number = self.members.get(first).map_or(0, |member| member.turns + 1);
        if self.definition.position(&at.node_id) != Some(first) || self.position(first, number) != at.position {
            return refuse("another turn is to be dispatched");
        }
        let (seen, batches) = (self.messages.len(), self.batches);
        let Some(member) = self.members.get_mut(first) else { return refuse("there is no such member") };
        member.status = Status::InFlight;
        member.turns = number;
        member.queued = false;
        member.turn = Some(Turn {
            position: at.position.clone(),
            batch: batches,
            seen,
            triggers: std::mem::take(&mut member.triggers),
            open: None,
            attempt: None,
            earlier: Vec::new(),
            retried: false,
            answers: Vec::new(),
            records: Records::default(),
        });
        self.due = due;
        if self.due.is_empty() {
            self.batches += 1;
        }
        Ok(())
    }

    fn completed(&mut self, e: &Completed, revision: u64) -> Result<(), Refusal> {
        let Completed { node_id, position, result } = e;
        let member = self.settling(node_id, position)?;
        let json = Json::parse_enclosing(result.as_str()).map_err(|error| error.message)?;
        match self.definition.clone().read_result(member, &json) {
            Err(_) => self.set_failed(member, "RESULT_INVALID".into()),
            Ok(posts) => {
                if let Some(state) = self.members.get_mut(member) {
                    state.status = Status::Idle;
                    state.result = Some(result.clone());
                    if let Some(turn) = &mut state.turn {
                        turn.open = None;
                        state.consumed = turn.seen;
                    }
                }
                for (index, post) in posts.iter().enumerate() {
                    self.deliver(member, position, index, post, revision);
                }
            }
        }
        Ok(())
    }

    fn deliver(&mut self, sender: usize, position: &Id, index: usize, post: &Post, revision: u64) {
        let number = self.messages.len();
        let room_id = self.definition.rooms().get(post.room).map_or_else(|| "".into(), |room| room.id.clone());
        let message = Message {
            room_id,
            text: post.text.clone(),
            mentions: post.mentions.iter().map(|member| self.id(*member)).collect(),
            id: format!("{position}/{index}").into(),
            sender: self.id(sender),
            position: position.clone(),
            revision,
            batch: self.members.get(sender).and_then(|member| member.turn.as_ref()).map_or(0, |turn| turn.batch),
        };
        self.messages.push(Rc::new(message));
        if let Some(room) = self.rooms.get_mut(post.room) {
            room.push(number);
        }
        let ignores_self = self.created.options.self_mention == SelfMention::Ignore;
        for mentioned in &post.mentions {
            let Some(member) = self.members.get_mut(*mentioned) else { continue };
            if (ignores_self && *mentioned == sender) || member.triggers.last() == Some(&number) {
                continue;
            }
            member.queued = true;
            member.triggers.push(number);
        }
    }

    fn failed(&mut self, e: &Failed) -> Result<(), Refusal> {
        check_reason(&e.code)?;
        let member = self.settling(&e.node_id, &e.position)?;
        self.set_failed(member, e.code.clone());
        Ok(())
    }

    fn set_failed(&mut self, member: usize, code: Rc<str>) {
        if let Some(member) = self.members.get_mut(member) {
            member.status = Status::Failed { code };
            if let Some(turn) = &mut member.turn {
                turn.open = None;
            }
        }
    }

    fn paused(&mut self, e: &Paused) -> Result<(), Refusal> {
        check_reason(&e.reason)?;
        let member = self.settling(&e.node_id, &e.position)?;
        if let Some(member) = self.members.get_mut(member) {
            member.status = Status::Paused { reason: e.reason.clone(), ask: e.request.clone() };
            if let Some(turn) = &mut member.turn {
                turn.open = None;
                turn.retried = false;
                // An agent that was answered goes on from those answers, however its attempt ended.
                let goes_on = matches!(e.request, Ask::Uncertain(_));
                let asked_itself = |answer: &ParticipantResponse| answer.request.id != pause_id(&e.position);
                turn.answers.retain(|answer| goes_on && asked_itself(answer));
            }
        }
        Ok(())
    }

    /// From a pause, or from an attempt that nobody saw end.
    fn resumed(&mut self, at: &At) -> Result<(), Refusal> {
        let member = self.member(&at.node_id)?;
        let Some(state) = self.members.get_mut(member) else { return refuse("there is no such member") };
        let turn = state.turn.as_mut().filter(|turn| turn.position == at.position);
        let Some(turn) = turn else { return refuse("the turn is not the member's last") };
        match &state.status {
            Status::Paused { ask, .. } => turn.retried = matches!(ask, Ask::Uncertain(_)),
            Status::InFlight if turn.open.is_some() => {}
            _ => return refuse("the turn is not paused"),
        }
        turn.open = None;
        state.status = Status::InFlight;
        Ok(())
    }

    fn attempt_started(&mut self, e: &AttemptStarted) -> Result<(), Refusal> {
        let turn = self.turn_in(&e.node_id, &e.position, |status| matches!(status, Status::InFlight))?;
        if turn.open.is_some() {
            return refuse("an attempt is open");
        }
        turn.open = Some((e.attempt_id.clone(), e.retry_safe));
        turn.earlier.extend(turn.attempt.replace(e.attempt_id.clone()));
        self.attempts += 1;
        Ok(())
    }

    fn checkpointed(&mut self, e: &Checkpointed) -> Result<(), Refusal> {
        self.turn_in(&e.node_id, &e.position, |status| matches!(status, Status::InFlight))?;
        let member = self.member(&e.node_id)?;
        if let Some(member) = self.members.get_mut(member) {
            let previous = member.checkpoint.take().map(|(_, checkpoint)| checkpoint);
            member.checkpoint = Some((e.runtime.clone(), Checkpoint::joined(previous, &e.checkpoint)));
        }
        Ok(())
    }

    fn answered(&mut self, e: &Answered) -> Result<(), Refusal> {
        let request = self.requests().into_iter().find(|request| request.id == e.request_id);
        let Some(request) = request.filter(|request| request.turn_id == e.position) else {
            return refuse("there is no such open request");
        };
        let turn = self.turn_in(&e.node_id, &e.position, |status| matches!(status, Status::Paused { .. }))?;
        let answer = ParticipantResponse { request, response_id: e.response_id.clone(), response: e.response.clone() };
        turn.answers.push(answer);
        Ok(())
    }

    /// The member whose turn at this position has not ended.
    fn settling(&mut self, node: &Id, position: &Id) -> Result<usize, Refusal> {
        self.turn_in(node, position, |status| matches!(status, Status::InFlight))?;
        self.member(node)
    }

    fn member(&self, node: &Id) -> Result<usize, Refusal> {
        self.definition.position(node).ok_or_else(|| "there is no such member".to_owned())
    }

    fn turn_in(&mut self, node: &Id, position: &Id, want: impl Fn(&Status) -> bool) -> Result<&mut Turn, Refusal> {
        let member = self.member(node)?;
        let state = self.members.get_mut(member).filter(|member| want(&member.status));
        let turn = state.and_then(|member| member.turn.as_mut()).filter(|turn| turn.position == *position);
        turn.ok_or_else(|| "the member has no such turn to be changed".to_owned())
    }

    /// The turn an attempt is at work on.
    pub(super) fn running(&mut self, attempt: &Id) -> Option<&mut Turn> {
        let turns = self.members.iter_mut().filter_map(|member| member.turn.as_mut());
        turns.into_iter().find(|turn| turn.open.as_ref().is_some_and(|(open, _)| open == attempt))
    }
}

impl Member {
    /// The position of its turn, where that has not ended.
    #[must_use]
    pub fn in_flight(&self) -> Option<&Id> {
        let turn = self.turn.as_ref()?;
        matches!(self.status, Status::InFlight | Status::Paused { .. }).then_some(&turn.position)
    }
}

/// Whether a text may stand as a reason or code.
pub fn check_reason(text: &str) -> Result<(), Refusal> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return refuse("a reason or code is not empty and holds no control characters");
    }
    Ok(())
}

pub(super) fn refuse<T>(why: &str) -> Result<T, Refusal> {
    Err(why.to_owned())
}
