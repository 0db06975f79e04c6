//! The one wait a session understands: a tool call that somebody must approve. A request says which
//! action it is about, and an answer counts only where every part of it fits the action on record.

use super::{Pending, Session};
use crate::runtime::agent::{TurnFailure, TurnResume};
use crate::value::Json;
use std::collections::HashSet;

/// The most requests of one wait; what is asked beyond is asked after these.
pub const MAX_REQUESTS: usize = 64;

/// A tool call that waits for an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRequest {
    /// Unique in the conversation.
    pub id: String,
    /// Which tool, in words.
    pub reason: String,
    /// `{executionId, actionId, parentCallId, toolCallId, toolName, arguments}`.
    pub data: Json,
}

/// The action a request is about.
#[derive(Clone, Copy, Debug)]
pub struct Action<'a> {
    /// The execution.
    pub execution_id: &'a str,
    /// The model call that asked for it.
    pub call_id: &'a str,
    /// Which of its tool calls.
    pub index: usize,
    /// The tool call's id.
    pub tool_call_id: &'a str,
    /// The tool.
    pub tool_name: &'a str,
    /// What it would be called with.
    pub arguments: &'a Json,
}

impl Action<'_> {
    /// The id of its request.
    #[must_use]
    pub fn request_id(&self) -> String {
        request_id(self.call_id, self.index)
    }

    /// The request that asks for it.
    #[must_use]
    pub fn request(&self) -> ApprovalRequest {
        let text = |text: &str| Json::String(text.to_owned());
        let members = [
            ("executionId", text(self.execution_id)),
            ("actionId", text(&format!("{}:action:{}", self.call_id, self.index))),
            ("parentCallId", text(self.call_id)),
            ("toolCallId", text(self.tool_call_id)),
            ("toolName", text(self.tool_name)),
            ("arguments", self.arguments.clone()),
        ];
        ApprovalRequest {
            id: self.request_id(),
            reason: format!("the tool {} may only run when it is approved", self.tool_name),
            data: Json::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        }
    }
}

/// The id of the request for the tool call `index` of a model call.
#[must_use]
pub fn request_id(call_id: &str, index: usize) -> String {
    format!("{call_id}:approval:{index}")
}

/// An answer that fits the turn and what is waiting.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The request.
    pub request_id: String,
    /// The answer's own id.
    pub response_id: String,
    /// Whether the call may be made.
    pub approved: bool,
    /// What the approver said.
    pub reason: Option<String>,
    /// What the request said it is about; still to be compared with the action.
    pub data: Json,
}

/// Reads the answers to what is waiting. Refused with what does not fit: conversation, turn, member,
/// group, kind or request, and a request that is answered twice. Fewer answers than requests are fine.
pub fn read_answers(session: &Session, pending: &Pending, resume: &TurnResume) -> Result<Vec<Answer>, TurnFailure> {
    let identity = &session.identity;
    fits("the turn's conversation", &resume.conversation_id, &identity.conversation_id)?;
    fits("the turn's participant", &resume.participant_id, &identity.participant_id)?;
    let mut seen = HashSet::new();
    let mut answers = Vec::with_capacity(resume.responses.len());
    for given in &resume.responses {
        let (request, response) = (given.get("request"), given.get("response"));
        let of_request = |key: &str| request.and_then(|request| request.get(key));
        for (part, found, expected) in [
            ("the answered request's kind", of_request("kind"), "approval"),
            ("the answer's kind", response.and_then(|response| response.get("kind")), "approval"),
            ("the answered request's turn", of_request("turnId"), resume.turn_id.as_str()),
            ("the answered request's group", of_request("groupId"), &resume.group_id),
            ("the answered request's participant", of_request("participantId"), &resume.participant_id),
        ] {
            fits(part, text(found), expected)?;
        }
        // It says the participant once more, and may be left out.
        if let Some(member) = of_request("memberId") {
            fits("the answered request's member", text(Some(member)), &resume.participant_id)?;
        }
        let request_id = text(of_request("id"));
        if !pending.request_ids.iter().any(|id| id == request_id) {
            return mismatch("an answered request is not waiting");
        }
        if !seen.insert(request_id) {
            return mismatch("a request is answered twice");
        }
        let response_id = text(given.get("responseId"));
        let (Some(Json::Bool(approved)), Some(data)) = (response.and_then(|r| r.get("approved")), of_request("data"))
        else {
            return mismatch("an answer says neither yes nor no, or its request not to what");
        };
        if response_id.is_empty() {
            return mismatch("an answer has no id");
        }
        answers.push(Answer {
            request_id: request_id.to_owned(),
            response_id: response_id.to_owned(),
            approved: *approved,
            reason: response.and_then(|r| r.get("reason")).and_then(Json::as_str).map(str::to_owned),
            data: data.clone(),
        });
    }
    Ok(answers)
}

/// The text; empty where there is none, which fits nothing.
fn text(json: Option<&Json>) -> &str {
    json.and_then(Json::as_str).unwrap_or_default()
}

fn fits(what: &str, found: &str, expected: &str) -> Result<(), TurnFailure> {
    if found == expected { Ok(()) } else { mismatch(format!("{what} is another one")) }
}

fn mismatch<T>(reason: impl Into<String>) -> Result<T, TurnFailure> {
    Err(TurnFailure::IdentityMismatch(reason.into()))
}
