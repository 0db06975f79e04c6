//! What callers are told: outcomes with everything that was reached, open requests, redacted results.

use super::decision::Decision;
use super::definition::Definition;
use super::event::Ask;
use super::state::{Member, State, Status};
use crate::record::model::{Id, Request, RequestKind};
use crate::value::{CanonicalJson, Json};
use serde::Serialize;
use std::rc::Rc;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Outcome {
    /// Nobody wants a turn any more.
    Completed {
        /// Every member's last result.
        output: Output,
    },
    /// A turn waits for the host.
    Paused {
        /// Of the first paused member.
        reason: Rc<str>,
        /// Of all paused members.
        requests: Vec<Request>,
        /// What there is.
        output: Output,
    },
    /// A member is at its cap, softly.
    Limited {
        /// What there is.
        output: Output,
    },
    /// Stopped by the host.
    Cancelled,
    /// A member failed or is at its cap.
    Failed {
        /// `TEAM_NODE_FAILED` or `TEAM_TURN_LIMIT`.
        code: &'static str,
        /// Who failed, and why.
        members: Vec<FailedMember>,
        /// Members that were still to be heard, with the messages that asked for them.
        pending: Vec<Pending>,
        /// What there is.
        output: Output,
    },
}

/// A member that failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FailedMember {
    /// The member.
    pub id: Id,
    /// Its failure's code.
    pub code: Rc<str>,
}

/// A member whose turn was requested and never came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pending {
    /// The member.
    pub id: Id,
    /// Ids of the messages that asked for it.
    pub messages: Vec<Id>,
}

/// Every member's last result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Output {
    /// The team's task.
    pub task: Rc<str>,
    /// In declared order.
    pub agents: Vec<Agent>,
}

/// A member's last result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agent {
    /// The member's id.
    pub name: Id,
    /// Its role.
    pub role: Rc<str>,
    /// Null where it completed no turn.
    pub result: Option<CanonicalJson>,
}

impl State {
    /// The outcome of a settled state, where it has one.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let output = self.output();
        Some(match self.decide() {
            Decision::Wait | Decision::Dispatch(_) => return None,
            Decision::Complete => Outcome::Completed { output },
            Decision::Pause(reason) => Outcome::Paused { reason, requests: self.requests(), output },
            Decision::TurnLimit(_) if self.created.options.soft_turn_limit => Outcome::Limited { output },
            Decision::TurnLimit(id) => {
                let members = vec![FailedMember { id, code: TEAM_TURN_LIMIT.into() }];
                Outcome::Failed { code: TEAM_TURN_LIMIT, members, pending: self.pending(), output }
            }
            Decision::Fail(members) => {
                let members = members.into_iter().map(|(id, code)| FailedMember { id, code }).collect();
                Outcome::Failed { code: "TEAM_NODE_FAILED", members, pending: self.pending(), output }
            }
        })
    }

    /// Every member's last result.
    #[must_use]
    pub fn output(&self) -> Output {
        let agents = self.definition.members.iter().zip(&self.members).map(|(member, state)| Agent {
            name: member.id.clone(),
            role: member.role.clone(),
            result: state.result.clone(),
        });
        Output { task: self.definition.task.clone(), agents: agents.collect() }
    }

    /// Open requests of all paused members, in declared order.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.members.iter().enumerate().flat_map(|(at, member)| self.requests_of(at, member)).collect()
    }

    fn requests_of(&self, at: usize, member: &Member) -> Vec<Request> {
        let (Status::Paused { reason, ask }, Some(turn)) = (&member.status, &member.turn) else { return Vec::new() };
        let base = Request {
            id: pause_id(&turn.position),
            reason: reason.clone(),
            kind: RequestKind::Approval,
            participant_id: self.id(at),
            group_id: self.group(turn.batch),
            turn_id: turn.position.clone(),
            member_id: Some(self.id(at)),
            data: None,
        };
        match ask {
            Ask::Host(data) => vec![Request { data: Some(data.clone()), ..base }],
            Ask::Uncertain(attempt) => {
                let data = Json::Object(vec![("attemptId".to_owned(), Json::String(attempt.to_string()))]);
                vec![Request { kind: RequestKind::Reconciliation, data: Some(CanonicalJson::of(&data)), ..base }]
            }
            Ask::Wait(requests) => {
                let open = |id: &Id| turn.answers.iter().all(|answer| answer.request.id != *id);
                let requests = requests.iter().filter(|request| open(&request.id)).map(|request| Request {
                    id: request.id.clone(),
                    reason: request.reason.clone(),
                    kind: request.kind,
                    participant_id: request.participant_id.clone().unwrap_or_else(|| base.participant_id.clone()),
                    data: request.data.clone(),
                    ..base.clone()
                });
                requests.collect()
            }
        }
    }

    /// The id of a batch of dispatches.
    #[must_use]
    pub fn group(&self, batch: u64) -> Id {
        format!("team/batch/{}", batch + 1).into()
    }

    fn pending(&self) -> Vec<Pending> {
        let queued = self.all(|member| member.queued).map(|(at, member)| Pending {
            id: self.id(at),
            messages: member.triggers.iter().filter_map(|at| Some(self.messages.get(*at)?.id.clone())).collect(),
        });
        queued.collect()
    }
}

/// The id of a turn's request that its member did not make itself.
pub(super) fn pause_id(position: &Id) -> Id {
    format!("{position}/pause").into()
}

/// The code of a run that ended at a member's cap.
pub const TEAM_TURN_LIMIT: &str = "TEAM_TURN_LIMIT";

impl Definition {
    /// A result's output as a member may read it: without posts to rooms it is not in. Summaries and data
    /// belong to no room and stay.
    #[must_use]
    pub fn redacted(&self, reader: usize, output: Json) -> Json {
        let may_read = |post: &Json| {
            let room = post.get("roomId").and_then(Json::as_str).and_then(|id| self.room(id));
            room.is_some_and(|room| self.is_in(reader, room))
        };
        map_member(output, "agents", |agents| {
            let Json::Array(agents) = agents else { return agents };
            let redacted = agents.into_iter().map(|agent| {
                map_member(agent, "result", |result| {
                    map_member(result, "posts", |posts| match posts {
                        Json::Array(posts) => Json::Array(posts.into_iter().filter(may_read).collect()),
                        other => other,
                    })
                })
            });
            Json::Array(redacted.collect())
        })
    }
}

fn map_member(value: Json, key: &str, map: impl Fn(Json) -> Json) -> Json {
    let Json::Object(members) = value else { return value };
    let mapped = members.into_iter().map(|(name, value)| if name == key { (name, map(value)) } else { (name, value) });
    Json::Object(mapped.collect())
}
