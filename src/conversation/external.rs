//! Input, answers and withdrawals: accepted atomically, executing no one.

use super::effect::Reply;
use super::error::{Code, RoundtableError};
use super::fields::{MAX_CONTENT, MAX_ID, MAX_TEXT};
use super::input::{CallId, Request};
use super::machine::Machine;
use super::writer::Gate;
use crate::record::entry::{Answered, Door, Entry, InputAccepted, Withdrawn};
use crate::record::model::{Id, InputResponse, RequestKind, Response};
use crate::record::state::{Ask, Phase, State};
use crate::value::text::utf16_len;
use std::rc::Rc;

/// An input or answer, whichever call it came through.
struct Words<'a> {
    id: &'a Id,
    via: Door,
    request_id: Option<&'a Id>,
    expected_revision: u64,
    response: Response,
    by: Option<&'a Rc<str>>,
    /// Who speaks, where the call says.
    participant_id: Option<&'a Id>,
}

impl Machine {
    /// Bounds, and what can be said without the store.
    pub(super) fn check_request(&self, request: &Request) -> Result<(), RoundtableError> {
        match request {
            Request::Run { limits } => {
                limits.map_or(Ok(()), |patch| self.config.check_patch(&patch, &self.durable.limits).map(|_| ()))
            }
            Request::SubmitInput { participant_id, input_id, content, reply_to, by, expected_revision } => {
                check_len("inputId", input_id, 1, MAX_ID)?;
                check_len("content", content, 0, MAX_CONTENT)?;
                if let Some(id) = reply_to {
                    check_len("replyToRequestId", id, 1, MAX_ID)?;
                }
                check_by(by.as_ref())?;
                let external = self.durable.position(participant_id).is_some_and(|p| !self.durable.is_agent(p));
                if !external {
                    return Err(conflict("participantId names no registered external participant"));
                }
                if self.durable.revision == 0 && (*expected_revision != 0 || reply_to.is_some()) {
                    return Err(conflict("the conversation is not stored yet: its revision is 0 and nothing is asked"));
                }
                Ok(())
            }
            Request::Resume { request_id, response_id, response, by, .. } => {
                check_len("requestId", request_id, 1, MAX_ID)?;
                check_len("responseId", response_id, 1, MAX_ID)?;
                check_by(by.as_ref())?;
                match response {
                    Response::Input(InputResponse::Said { content }) => {
                        check_len("response.content", content, 0, MAX_CONTENT)?
                    }
                    Response::Input(InputResponse::Declined { reason, .. }) | Response::Approval { reason, .. } => {
                        if let Some(reason) = reason {
                            check_len("response.reason", reason, 0, MAX_TEXT)?;
                        }
                    }
                    Response::Reconciliation { .. } => {}
                }
                self.check_stored()
            }
            Request::Withdraw { request_id, by, reason, .. } => {
                check_len("requestId", request_id, 1, MAX_ID)?;
                check_len("by", by, 1, MAX_ID)?;
                check_len("reason", reason, 0, MAX_TEXT)?;
                self.check_stored()
            }
            Request::Reconcile { turn_id, by, decision, .. } => {
                Self::check_reconcile(by, turn_id, decision)?;
                self.check_stored()
            }
            Request::Dispose { .. } => Ok(()),
        }
    }

    fn check_stored(&self) -> Result<(), RoundtableError> {
        if self.durable.revision == 0 {
            return Err(conflict("the conversation is not stored yet: it has no turn or open request"));
        }
        Ok(())
    }

    /// The reply to a call that was made before, from its receipt; and to a run that is over for good.
    pub(super) fn repeated(&self, request: &Request, state: &State) -> Option<Result<Reply, RoundtableError>> {
        match request {
            Request::Run { .. } => Some(Ok(self.ran(state.ended.clone()?))),
            Request::SubmitInput { participant_id, input_id, content, reply_to, .. } => {
                let receipt = state.receipts.get(input_id)?;
                let said = Response::Input(InputResponse::Said { content: content.clone() });
                let same = receipt.via == Some(Door::SubmitInput)
                    && receipt.participant_id == *participant_id
                    && receipt.request_id == *reply_to
                    && receipt.response == said;
                let message_id = receipt.message_id.clone().filter(|_| same);
                let reply = message_id.map(|message_id| Reply::Submitted { revision: receipt.revision, message_id });
                Some(reply.ok_or_else(|| conflict("inputId was used with other content, participant, request or call")))
            }
            Request::Resume { request_id, response_id, response, .. } => {
                let receipt = state.receipts.get(response_id)?;
                let same = receipt.via == Some(Door::Resume)
                    && receipt.request_id.as_ref() == Some(request_id)
                    && receipt.response == *response;
                if !same {
                    return Some(Err(conflict("responseId was used with another response, request or call")));
                }
                let (request_id, response_id) = (request_id.clone(), response_id.clone());
                Some(Ok(Reply::Resumed { revision: receipt.revision, request_id, response_id }))
            }
            Request::Reconcile { turn_id, by, decision, .. } => {
                let known = state.turn(turn_id)?.reconciled.as_ref()?;
                let same = known.by == *by && known.decision == *decision;
                same.then_some(Ok(Reply::Reconciled { revision: known.revision }))
            }
            Request::Withdraw { .. } | Request::Dispose { .. } => None,
        }
    }

    /// Accepts a call under the claim, against what the store says now.
    pub(super) fn accept(&mut self, call: CallId, request: &Request) -> Result<(), RoundtableError> {
        if let Some(result) = self.repeated(request, &self.durable) {
            let reply = result?;
            self.finish_call(Some(call), Ok(reply));
            return Ok(());
        }
        if self.durable.ended.is_some() {
            return Err(conflict("the conversation has ended"));
        }
        if !matches!(request, Request::Reconcile { .. }) {
            self.check_recovery()?;
        }
        let reply = match request {
            Request::SubmitInput { participant_id, input_id, expected_revision, content, reply_to, by } => {
                let words = Words {
                    id: input_id,
                    via: Door::SubmitInput,
                    request_id: reply_to.as_ref(),
                    expected_revision: *expected_revision,
                    response: Response::Input(InputResponse::Said { content: content.clone() }),
                    by: by.as_ref(),
                    participant_id: Some(participant_id),
                };
                let (revision, message_id) = match reply_to {
                    Some(_) => self.answer(&words)?,
                    None => self.speak_unprompted(&words, participant_id, content)?,
                };
                Reply::Submitted { revision, message_id: message_id.unwrap_or_default() }
            }
            Request::Resume { request_id, response_id, expected_revision, response, by } => {
                let words = Words {
                    id: response_id,
                    via: Door::Resume,
                    request_id: Some(request_id),
                    expected_revision: *expected_revision,
                    response: response.clone(),
                    by: by.as_ref(),
                    participant_id: None,
                };
                let (revision, _) = self.answer(&words)?;
                Reply::Resumed { revision, request_id: request_id.clone(), response_id: response_id.clone() }
            }
            Request::Withdraw { request_id, expected_revision, by, reason } => {
                let ask = self.open_ask(request_id)?;
                self.check_revision(*expected_revision, ask.revision)?;
                let entry = Withdrawn {
                    request_id: request_id.clone(),
                    response_id: self.new_id("response", 0),
                    at: self.at(),
                    by: by.clone(),
                    reason: reason.clone(),
                };
                Reply::Withdrawn { revision: self.push(Entry::Withdrawn(entry), Gate::None)? }
            }
            Request::Reconcile { turn_id, expected_revision, by, decision } => {
                Reply::Reconciled { revision: self.reconcile(turn_id, *expected_revision, by, decision)? }
            }
            Request::Run { .. } | Request::Dispose { .. } => return Ok(()),
        };
        self.commit_answered();
        self.join_writes(Gate::Reply(call, reply));
        Ok(())
    }

    fn answer(&mut self, words: &Words<'_>) -> Result<(u64, Option<Id>), RoundtableError> {
        let request_id = words.request_id.cloned().unwrap_or_default();
        let ask = self.open_ask(&request_id)?;
        if words.participant_id.is_some_and(|speaker| ask.request.participant_id != *speaker) {
            return Err(conflict("participantId is not the one the request asks"));
        }
        if ask.request.kind != words.response.kind() {
            let kind = match ask.request.kind {
                RequestKind::Input => "input",
                RequestKind::Approval => "approval",
                RequestKind::Reconciliation => "reconciliation",
            };
            return Err(conflict(&format!("response.kind must be that of the request, {kind}")));
        }
        self.check_revision(words.expected_revision, ask.revision)?;
        let says = matches!(words.response, Response::Input(InputResponse::Said { .. }));
        let message_id = says.then(|| self.new_id("message", 0));
        let entry = Answered {
            request_id,
            response_id: words.id.clone(),
            via: words.via,
            at: self.at(),
            response: words.response.clone(),
            by: words.by.cloned(),
            message_id: message_id.clone(),
        };
        Ok((self.push(Entry::Answered(entry), Gate::None)?, message_id))
    }

    fn speak_unprompted(
        &mut self,
        words: &Words<'_>,
        participant_id: &Id,
        content: &Rc<str>,
    ) -> Result<(u64, Option<Id>), RoundtableError> {
        if self.head.open_requests().next().is_some() {
            return Err(conflict("requests are open: replyToRequestId must name the one this answers"));
        }
        if self.head.group.is_some() {
            return Err(conflict("a group is unfinished and keeps the view it started with"));
        }
        self.check_revision(words.expected_revision, 0)?;
        let message_id = self.new_id("message", 0);
        let entry = InputAccepted {
            input_id: words.id.clone(),
            participant_id: participant_id.clone(),
            at: self.at(),
            content: content.clone(),
            message_id: message_id.clone(),
            group_id: self.new_id("group", 1),
            turn_id: self.new_id("turn", 2),
            by: words.by.cloned(),
        };
        Ok((self.push(Entry::InputAccepted(entry), Gate::None)?, Some(message_id)))
    }

    /// The answer to a selection's own request completes its group.
    fn commit_answered(&mut self) {
        let external = self.head.group.as_ref().filter(|g| g.external);
        if external.is_some_and(|g| g.turns.iter().all(|t| t.phase == Phase::Prepared)) {
            self.commit_group();
        }
    }

    fn open_ask(&self, request_id: &Id) -> Result<Ask, RoundtableError> {
        let ask = self.head.open_requests().find(|ask| ask.request.id == *request_id);
        ask.cloned().ok_or_else(|| conflict("requestId names no open request"))
    }

    /// What the host has seen must hold the latest messages, the request and the open group.
    pub(super) fn check_revision(&self, expected: u64, ask_revision: u64) -> Result<(), RoundtableError> {
        let group = self.head.group.as_ref().map_or(0, |g| g.base_revision);
        let oldest = self.head.messages_revision.max(ask_revision).max(group);
        if expected < oldest || expected > self.durable.revision {
            let newest = self.durable.revision;
            return Err(conflict(&format!("expectedRevision must be from {oldest} to {newest}, it is {expected}")));
        }
        Ok(())
    }
}

fn check_by(by: Option<&Rc<str>>) -> Result<(), RoundtableError> {
    by.map_or(Ok(()), |by| check_len("by", by, 1, MAX_ID))
}

pub(super) fn check_len(field: &str, text: &str, min: usize, max: usize) -> Result<(), RoundtableError> {
    let len = utf16_len(text);
    if len < min || len > max {
        let message = format!("{field} must have {min} to {max} UTF-16 units, it has {len}");
        return Err(RoundtableError::new(Code::InvalidConfig, message));
    }
    Ok(())
}

pub(super) fn conflict(message: &str) -> RoundtableError {
    RoundtableError::new(Code::Conflict, message)
}
