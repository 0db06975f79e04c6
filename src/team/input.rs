//! What a member is shown when its turn begins.

use super::event::Overflow;
use super::state::{Message, State, Turn};
use crate::value::CanonicalJson;
use serde::Serialize;
use std::rc::Rc;

/// A turn's input.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Positions of the messages in it, ascending.
    pub messages: Vec<usize>,
    /// How many messages were left out to keep the byte budget.
    pub omitted: usize,
    /// Its JSON: exactly `task`, `role`, `brief`, `result`, `messages`, and `omitted` where some were.
    pub json: String,
}

/// An input over its byte budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverBudget;

#[derive(Serialize)]
struct Shape<'a> {
    brief: &'a str,
    messages: Vec<&'a Message>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<usize>,
    result: Option<&'a CanonicalJson>,
    role: &'a str,
    task: &'a str,
}

impl State {
    /// The input of a member's present turn, as it was when the turn was dispatched.
    pub fn input(&self, member: usize) -> Result<Input, OverBudget> {
        let Some(turn) = self.members.get(member).and_then(|member| member.turn.as_ref()) else {
            return Err(OverBudget);
        };
        let mut messages = self.visible(member, turn);
        let mut omitted = 0;
        let options = &self.created.options;
        let Some(budget) = options.input_bytes else { return Ok(self.shaped(member, messages, 0)) };
        let fits = |input: &Input| input.json.len() as u64 <= budget;
        loop {
            let input = self.shaped(member, messages.clone(), omitted);
            if fits(&input) {
                return Ok(input);
            }
            if options.input_overflow == Overflow::Fail {
                return Err(OverBudget);
            }
            // What must go at least, by the bytes that the message alone takes; then it is tried again.
            let mut over = (input.json.len() as u64).saturating_sub(budget);
            let before = messages.len();
            messages.retain(|at| {
                if over == 0 || turn.triggers.binary_search(at).is_ok() {
                    return true;
                }
                over = over.saturating_sub(self.messages.get(*at).map_or(0, |message| written_len(message) + 1));
                false
            });
            if messages.len() == before {
                return Err(OverBudget);
            }
            omitted += before - messages.len();
        }
    }

    /// How many messages came into a member's rooms after its present turn was dispatched.
    #[must_use]
    pub fn newer_messages(&self, member: usize) -> usize {
        let Some(turn) = self.members.get(member).and_then(|member| member.turn.as_ref()) else { return 0 };
        self.rooms_of(member).map(|room| room.len() - room.partition_point(|at| *at < turn.seen)).sum()
    }

    /// Triggers, and the last messages of each of the member's rooms; rooms are indexed, so nothing else
    /// is looked at.
    fn visible(&self, member: usize, turn: &Turn) -> Vec<usize> {
        let tail = self.definition.communication.as_ref().map_or(0, |communication| communication.tail);
        let tail = usize::try_from(tail).unwrap_or(usize::MAX);
        let mut visible = turn.triggers.clone();
        for room in self.rooms_of(member) {
            let end = room.partition_point(|at| *at < turn.seen);
            visible.extend(room.get(end.saturating_sub(tail)..end).unwrap_or_default());
        }
        visible.sort_unstable();
        visible.dedup();
        visible
    }

    fn rooms_of(&self, member: usize) -> impl Iterator<Item = &Vec<usize>> {
        let rooms = self.definition.members.get(member).into_iter().flat_map(|member| &member.rooms);
        rooms.filter_map(|room| self.rooms.get(*room))
    }

    fn shaped(&self, member: usize, messages: Vec<usize>, omitted: usize) -> Input {
        let definition = self.definition.members.get(member);
        let shape = Shape {
            brief: definition.map_or("", |member| &member.brief),
            messages: messages.iter().filter_map(|at| self.messages.get(*at)).map(Rc::as_ref).collect(),
            omitted: (omitted > 0).then_some(omitted),
            result: self.members.get(member).and_then(|member| member.result.as_ref()),
            role: definition.map_or("", |member| &member.role),
            task: &self.definition.task,
        };
        // The engine's own shapes cannot fail to be written. Members stand in their canonical order here,
        // and the order of a message's is of no weight for its length.
        let json = crate::value::write::write(&shape).unwrap_or_default();
        Input { messages, omitted, json }
    }
}

fn written_len(message: &Message) -> u64 {
    crate::value::write::write(message).map_or(0, |json| json.len() as u64)
}
