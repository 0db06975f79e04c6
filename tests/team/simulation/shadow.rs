//! The journal read a second time, written from the rules alone. What it says of a revision is what the
//! machine must say of it.

use super::plan::Plan;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What must happen next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    Wait,
    Fail(Vec<(String, String)>),
    Pause(String),
    TurnLimit(String),
    Dispatch(Vec<usize>),
    Complete,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Status {
    #[default]
    Idle,
    InFlight,
    Paused(String),
    Failed(String),
}

#[derive(Clone, Debug, Default)]
pub struct Member {
    pub status: Status,
    pub turns: u64,
    pub queued: bool,
    pub triggers: Vec<usize>,
    pub result: Value,
    /// Of its last turn.
    pub position: String,
    pub turn_triggers: Vec<usize>,
    pub seen: usize,
    /// How many messages there were when its last completed turn was dispatched.
    pub consumed: usize,
    pub attempt: Option<String>,
    /// Ids of its open requests.
    pub requests: Vec<String>,
    /// Ids of answered ones.
    pub answers: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct Message {
    pub room: String,
    pub shown: Value,
}

#[derive(Clone, Debug)]
pub struct Attempt {
    pub member: usize,
    pub position: String,
    pub retry_safe: bool,
    pub fence: u64,
    /// What became of it.
    pub ended: Option<String>,
}

/// What is known of one revision.
#[derive(Clone, Debug)]
pub struct Moment {
    pub next: Next,
    pub results: Vec<Value>,
    pub requests: Vec<String>,
}

pub struct Shadow {
    plan: std::rc::Rc<Plan>,
    pub members: Vec<Member>,
    pub messages: Vec<Message>,
    pub attempts: BTreeMap<String, Attempt>,
    /// By revision, from 1.
    pub moments: Vec<Moment>,
    /// What attempts came to outside, as the event that must be written of it.
    pub returned: BTreeMap<String, String>,
    ids: BTreeSet<String>,
    dispatched: BTreeSet<(usize, usize)>,
    operations: BTreeSet<String>,
    fence: u64,
}

type Check = Result<(), String>;

fn rule(holds: bool, otherwise: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(otherwise()) }
}

impl Shadow {
    pub fn new(plan: std::rc::Rc<Plan>) -> Shadow {
        let member = |m: &super::plan::Member| Member { queued: m.starts, ..Member::default() };
        Shadow {
            members: plan.members.iter().map(member).collect(),
            plan,
            messages: Vec::new(),
            attempts: BTreeMap::new(),
            moments: Vec::new(),
            returned: BTreeMap::new(),
            ids: BTreeSet::new(),
            dispatched: BTreeSet::new(),
            operations: BTreeSet::new(),
            fence: 0,
        }
    }

    pub fn revision(&self) -> u64 {
        self.moments.len() as u64
    }

    /// Reads a batch that the store has taken.
    pub fn read(&mut self, operation: &str, fence: u64, lines: &[String]) -> Check {
        rule(fence >= self.fence, || format!("one writer: fence {fence} after {}", self.fence))?;
        rule(self.operations.insert(operation.to_owned()), || format!("one writer: operation {operation} twice"))?;
        self.fence = fence;
        let events = lines.iter().map(|line| event(line)).collect::<Result<Vec<_>, _>>()?;
        let first = self.moments.is_empty();
        rule(first == (events.first().is_some_and(|(name, _)| name == "team-created/1")), || "T28: creation".into())?;
        let mut due: Vec<usize> = Vec::new();
        for (name, body) in events.iter().skip(usize::from(first)) {
            if name == "dispatched/1" {
                if due.is_empty() {
                    let Next::Dispatch(mut list) = self.next() else {
                        return Err(format!("T7: dispatched where {:?} was next", self.next()));
                    };
                    list.reverse();
                    due = list;
                }
                let member = due.pop();
                self.dispatch(member.unwrap_or_default(), body)?;
                continue;
            }
            rule(due.is_empty(), || "T7: a batch's dispatches are not together".into())?;
            self.apply(name, body)?;
        }
        rule(due.is_empty(), || "T7: a batch's dispatches are not one write".into())?;
        self.moments.push(Moment {
            next: self.next(),
            results: self.members.iter().map(|member| member.result.clone()).collect(),
            requests: self.members.iter().flat_map(|member| member.requests.clone()).collect(),
        });
        Ok(())
    }

    fn dispatch(&mut self, at: usize, body: &Value) -> Check {
        keys(body, &["nodeId", "position"])?;
        let seen = self.messages.len();
        let id = self.plan.members[at].id;
        let member = &mut self.members[at];
        let position = format!("team/{id}/{}", member.turns + 1);
        rule(body["nodeId"] == id && body["position"] == position, || format!("T1: {body} where {position} is due"))?;
        member.turns += 1;
        member.queued = false;
        member.status = Status::InFlight;
        member.position = position;
        member.seen = seen;
        member.turn_triggers = std::mem::take(&mut member.triggers);
        member.answers.clear();
        let dispatched = &mut self.dispatched;
        let mut twice = self.members[at].turn_triggers.iter().filter(|trigger| !dispatched.insert((at, **trigger)));
        rule(twice.next().is_none(), || format!("T5: a trigger of {id} is dispatched twice"))?;
        rule(self.members[at].turns <= self.plan.cap, || format!("T16: {id} is beyond its cap"))
    }

    fn apply(&mut self, name: &str, body: &Value) -> Check {
        if let "call-admitted/1" | "usage-reported/1" | "execution-recorded/1" = name {
            let attempt = body["attemptId"].as_str().unwrap_or_default();
            let open = self.members.iter().any(|member| member.attempt.as_deref() == Some(attempt));
            return rule(open, || format!("T15: {name} of {attempt}, which is not open"));
        }
        let id = body["nodeId"].as_str().unwrap_or_default();
        let at = self.plan.position(id).ok_or_else(|| format!("T11: {name} of nobody"))?;
        let (status, position) = (self.members[at].status.clone(), self.members[at].position.clone());
        rule(body["position"] == position, || format!("T11: {name} at {}, not {position}", body["position"]))?;
        let paused = matches!(status, Status::Paused(_));
        rule(paused || status == Status::InFlight, || format!("T15: {name} of {position}, which is {status:?}"))?;
        rule(!paused || matches!(name, "resumed/1" | "answered/1"), || format!("T14: {name} of a paused turn"))?;
        match name {
            "attempt-started/1" => self.started(at, body),
            "attempt-stopped/1" => self.ended(at, "stopped").map(|_| ()),
            "checkpointed/1" => rule(self.plan.members[at].is_agent, || "a function has no private state".into()),
            "completed/1" => self.completed(at, &position, &body["result"]),
            "failed/1" => {
                let code = body["code"].as_str().unwrap_or_default().to_owned();
                match self.members[at].attempt {
                    Some(_) => drop(self.ended(at, &format!("failed {code}"))?),
                    None => {
                        rule(code == "INPUT_LIMIT" && self.plan.input_bytes.is_some(), || format!("failed {code}"))?
                    }
                }
                self.members[at].status = Status::Failed(code);
                Ok(())
            }
            "paused/1" => self.paused(at, body),
            "answered/1" => {
                let request = body["requestId"].as_str().unwrap_or_default().to_owned();
                let open = self.members[at].requests.iter().position(|id| *id == request);
                let open = open.ok_or_else(|| format!("T14: {request} is not open"))?;
                self.members[at].requests.remove(open);
                self.members[at].answers.push(request);
                Ok(())
            }
            "resumed/1" => {
                let member = &mut self.members[at];
                if let Some(attempt) = member.attempt.take() {
                    let safe = self.attempts[&attempt].retry_safe;
                    rule(safe, || format!("T21: {position} is repeated unasked"))?;
                } else {
                    rule(paused, || format!("T14: {position} is resumed and was not paused"))?;
                }
                member.requests.clear();
                member.status = Status::InFlight;
                Ok(())
            }
            _ => Err(format!("T28: an event {name}")),
        }
    }

    fn started(&mut self, member: usize, body: &Value) -> Check {
        keys(body, &["at", "attemptId", "nodeId", "position", "retrySafe"])?;
        let attempt = body["attemptId"].as_str().unwrap_or_default().to_owned();
        let (position, fence) = (self.members[member].position.clone(), self.fence);
        rule(self.members[member].attempt.is_none(), || format!("T21: a second attempt of {position} is open"))?;
        let retry_safe = self.plan.members[member].retry_safe;
        rule(body["retrySafe"] == retry_safe, || "the retry-safe flag is another".into())?;
        let began = Attempt { member, position, retry_safe, fence, ended: None };
        rule(self.attempts.insert(attempt.clone(), began).is_none(), || format!("T21: attempt {attempt} twice"))?;
        self.members[member].attempt = Some(attempt);
        Ok(())
    }

    /// The open attempt came to this event; it must be what happened outside.
    fn ended(&mut self, member: usize, event: &str) -> Result<String, String> {
        let attempt = self.members[member].attempt.take().ok_or_else(|| format!("T21: {event} without an attempt"))?;
        let happened = self.returned.get(&attempt).map(String::as_str);
        let fits = match happened {
            Some(happened) => same(happened, event),
            None => event == "stopped",
        };
        rule(fits, || format!("T22: {event} is written where {happened:?} happened"))?;
        self.attempts.get_mut(&attempt).ok_or("no such attempt")?.ended = Some(event.to_owned());
        Ok(attempt)
    }

    fn paused(&mut self, at: usize, body: &Value) -> Check {
        keys(body, &["nodeId", "position", "reason", "request"])?;
        let reason = body["reason"].as_str().unwrap_or_default().to_owned();
        let position = self.members[at].position.clone();
        let request = &body["request"];
        if let Some(attempt) = request.get("uncertain").and_then(Value::as_str) {
            let open = self.members[at].attempt.take();
            rule(open.as_deref() == Some(attempt), || "T21: another attempt is uncertain".into())?;
            rule(!self.attempts[attempt].retry_safe, || format!("T21: {position} may be repeated and is not"))?;
        } else {
            self.ended(at, &format!("paused {reason}"))?;
        }
        let requests = match request.get("wait").and_then(Value::as_array) {
            Some(list) => list.iter().map(|one| one["id"].as_str().unwrap_or_default().to_owned()).collect(),
            None => vec![format!("{position}/pause")],
        };
        let member = &mut self.members[at];
        (member.requests, member.status) = (requests, Status::Paused(reason));
        // An agent that was answered goes on from those answers, however its attempt ended.
        let goes_on = request.get("uncertain").is_some();
        member.answers.retain(|answered| goes_on && *answered != format!("{position}/pause"));
        Ok(())
    }

    fn completed(&mut self, at: usize, position: &str, result: &Value) -> Check {
        self.ended(at, &format!("completed {result}"))?;
        let posts = self.posts(at, result).ok_or_else(|| format!("T9: {result} is accepted"))?;
        self.members[at].status = Status::Idle;
        self.members[at].result = result.clone();
        self.members[at].consumed = self.members[at].seen;
        for (index, post) in posts.iter().enumerate() {
            let (number, id) = (self.messages.len(), format!("{position}/{index}"));
            rule(self.ids.insert(id.clone()), || format!("T22: message {id} is published twice"))?;
            let mut shown: Map<String, Value> = Map::new();
            for key in ["roomId", "text", "mentions"] {
                shown.insert(key.to_owned(), post[key].clone());
            }
            shown.extend([("id".into(), json!(id)), ("position".into(), json!(position))]);
            shown.insert("sender".into(), json!(self.plan.members[at].id));
            let room = post["roomId"].as_str().unwrap_or_default().to_owned();
            self.messages.push(Message { room, shown: Value::Object(shown) });
            let mentions: BTreeSet<&str> =
                post["mentions"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            for mentioned in mentions.into_iter().filter_map(|id| self.plan.position(id)) {
                if !(self.plan.ignores_self && mentioned == at) {
                    self.members[mentioned].queued = true;
                    self.members[mentioned].triggers.push(number);
                }
            }
        }
        Ok(())
    }

    /// The posts of a result that keeps the contract.
    pub fn posts(&self, sender: usize, result: &Value) -> Option<Vec<Value>> {
        result.get("summary")?.as_str()?;
        let Some(posts) = result.get("posts") else { return Some(Vec::new()) };
        let rooms = self.plan.rooms.as_ref()?;
        for post in posts.as_array()? {
            let (_, members) = rooms.iter().find(|(id, _)| post["roomId"] == *id)?;
            post["text"].as_str()?;
            let mentioned = post["mentions"].as_array()?.iter().map(|id| self.plan.position(id.as_str()?));
            let all_in = mentioned.collect::<Option<Vec<_>>>()?.iter().all(|mentioned| members.contains(mentioned));
            if !members.contains(&sender) || !all_in {
                return None;
            }
        }
        posts.as_array().cloned()
    }

    /// What follows from this state.
    pub fn next(&self) -> Next {
        if self.members.iter().any(|member| member.status == Status::InFlight) {
            return Next::Wait;
        }
        let named = self.members.iter().zip(&self.plan.members);
        let failed = named.clone().filter_map(|(member, plan)| match &member.status {
            Status::Failed(code) => Some((plan.id.to_owned(), code.clone())),
            _ => None,
        });
        let failed: Vec<_> = failed.collect();
        if !failed.is_empty() {
            return Next::Fail(failed);
        }
        for member in &self.members {
            if let Status::Paused(reason) = &member.status {
                return Next::Pause(reason.clone());
            }
        }
        if let Some((_, plan)) = named.clone().find(|(member, _)| member.queued && member.turns >= self.plan.cap) {
            return Next::TurnLimit(plan.id.to_owned());
        }
        let mut queued: Vec<usize> = (0..self.members.len()).filter(|at| self.members[*at].queued).collect();
        if queued.is_empty() {
            return Next::Complete;
        }
        if self.plan.oldest_first {
            // A first turn has waited since before the first message. The sort is stable.
            queued.sort_by_key(|at| match &self.members[*at] {
                Member { turns: 0, .. } if self.plan.members[*at].starts => None,
                member => member.triggers.first().copied(),
            });
        }
        queued.truncate(self.plan.concurrency);
        Next::Dispatch(queued)
    }

    /// The messages that a member's present turn may show, in order, and which of them asked for it.
    pub fn visible(&self, at: usize) -> Vec<(usize, bool)> {
        let member = &self.members[at];
        let mut visible: BTreeMap<usize, bool> = BTreeMap::new();
        for (id, _) in self.plan.rooms_of(at) {
            let of_room = (0..member.seen).rev().filter(|number| self.messages[*number].room == *id);
            visible.extend(of_room.take(self.plan.tail).map(|number| (number, false)));
        }
        visible.extend(member.turn_triggers.iter().map(|number| (*number, true)));
        visible.into_iter().collect()
    }
}

impl Shadow {
    /// Whether a member may be shown this; gives the numbers of the messages in it.
    pub fn check_input(&self, at: usize, text: &str) -> Result<Vec<usize>, String> {
        let input: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let omitted = input.get("omitted").and_then(Value::as_u64).unwrap_or_default() as usize;
        let expected: &[&str] = match omitted {
            0 => &["brief", "messages", "result", "role", "task"],
            _ => &["brief", "messages", "omitted", "result", "role", "task"],
        };
        keys(&input, expected)?;
        let (member, id) = (&self.members[at], self.plan.members[at].id);
        rule(input["result"] == member.result, || format!("T2: {id} is shown another result than its own"))?;
        let shown: Vec<&Value> = input["messages"].as_array().into_iter().flatten().collect();
        let rooms = self.plan.rooms_of(at);
        let foreign = shown.iter().find(|message| !rooms.iter().any(|(room, _)| message["roomId"] == *room));
        rule(foreign.is_none(), || format!("T8: {id} is shown {foreign:?}"))?;
        let mut left = omitted;
        // What asked for nothing goes first, from the oldest on.
        let kept = self.visible(at).into_iter().filter(|(_, asked)| {
            let drops = !asked && left > 0;
            left -= usize::from(drops);
            !drops
        });
        let numbers: Vec<usize> = kept.map(|(number, _)| number).collect();
        let due: Vec<&Value> = numbers.iter().map(|number| &self.messages[*number].shown).collect();
        rule(due == shown && left == 0, || format!("T5: {id} is shown {shown:?}, not {due:?}"))?;
        let over = self.plan.input_bytes.is_some_and(|bytes| text.len() as u64 > bytes);
        rule(!over, || format!("T23: {id} is shown {} bytes", text.len()))?;
        Ok(numbers)
    }
}

fn event(line: &str) -> Result<(String, Value), String> {
    let parsed: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let mut members: Vec<(String, Value)> = match parsed {
        Value::Object(members) => members.into_iter().filter(|(name, _)| name != "sum").collect(),
        _ => Vec::new(),
    };
    let event = members.pop().filter(|_| members.is_empty());
    event.ok_or_else(|| format!("T28: a line {line}"))
}

fn keys(body: &Value, expected: &[&str]) -> Check {
    let mut keys: Vec<&str> = body.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
    keys.sort_unstable();
    rule(keys == expected, || format!("T28: {keys:?} in a payload of {expected:?}"))
}

/// Whether two events say the same; results are compared as values.
fn same(left: &str, right: &str) -> bool {
    let result = |text: &str| text.strip_prefix("completed ").and_then(|json| serde_json::from_str::<Value>(json).ok());
    left == right || result(left).is_some_and(|value| result(right) == Some(value))
}
