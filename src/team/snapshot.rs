//! A team as hosts see it at a durable revision.

use super::outcome::Output;
use super::state::{Message, State, Status};
use crate::record::model::{Id, Request};
use crate::record::usage::UsageRecord;
use crate::value::CanonicalJson;
use serde::Serialize;
use std::rc::Rc;

/// Everything there is to see.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot<'a> {
    run_id: &'a Id,
    revision: u64,
    definition: &'a CanonicalJson,
    members: Vec<MemberView<'a>>,
    messages: &'a [Rc<Message>],
    requests: Vec<Request>,
    output: Output,
    usage: Vec<&'a UsageRecord>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct MemberView<'a> {
    id: Id,
    status: &'static str,
    turns: u64,
    queued: bool,
    triggers: Vec<&'a Id>,
    in_flight: Option<&'a Id>,
    pause_reason: Option<&'a str>,
    failure_code: Option<&'a str>,
    result: Option<&'a CanonicalJson>,
}

impl State {
    /// The view of this state.
    #[must_use]
    pub fn snapshot(&self, revision: u64) -> Snapshot<'_> {
        let members = self.members.iter().enumerate().map(|(at, member)| {
            let (status, pause_reason, failure_code) = match &member.status {
                Status::Idle => ("idle", None, None),
                Status::InFlight => ("in-flight", None, None),
                Status::Paused { reason, .. } => ("paused", Some(&**reason), None),
                Status::Failed { code } => ("failed", None, Some(&**code)),
            };
            MemberView {
                id: self.id(at),
                status,
                turns: member.turns,
                queued: member.queued,
                triggers: member.triggers.iter().filter_map(|at| Some(&self.messages.get(*at)?.id)).collect(),
                in_flight: member.in_flight(),
                pause_reason,
                failure_code,
                result: member.result.as_ref(),
            }
        });
        Snapshot {
            run_id: &self.created.run_id,
            revision,
            definition: &self.definition.json,
            members: members.collect(),
            messages: &self.messages,
            requests: self.requests(),
            output: self.output(),
            usage: self.calls.iter().filter_map(|call| self.ledger.get(call)).collect(),
        }
    }
}
