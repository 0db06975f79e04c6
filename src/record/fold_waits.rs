//! Folding requests, answers and unprompted input.

use super::entry::{Answered, Door, GroupStarted, InputAccepted, Withdrawn};
use super::fold::{Refusal, refuse};
use super::model::{Id, InputResponse, Outcome, Request, RequestKind, Response};
use super::state::{Answer, Ask, Group, Phase, Receipt, State, Turn};
use std::rc::Rc;

/// Opens the request of a selection that names an external participant.
pub(super) fn ask_selected(
    state: &State,
    group: &mut Group,
    request_id: &Id,
    reason: Rc<str>,
    entry: &GroupStarted,
    revision: u64,
) -> Result<(), Refusal> {
    let group_id = group.id.clone();
    let Some(turn) = group.turns.first_mut() else {
        return refuse("a group has a turn");
    };
    let Some(participant_id) = state.participant_id(turn.participant).cloned() else {
        return refuse("a turn has a participant");
    };
    turn.phase = Phase::Parked;
    turn.started_at = Some(entry.at.clone());
    let request = Request {
        id: request_id.clone(),
        reason,
        kind: RequestKind::Input,
        participant_id,
        group_id,
        turn_id: turn.id.clone(),
        member_id: None,
        data: None,
    };
    turn.asks.push(Ask { request, revision, answer: None });
    Ok(())
}

pub(super) fn answered(state: &mut State, entry: &Answered, revision: u64) -> Result<(), Refusal> {
    let says = matches!(entry.response, Response::Input(InputResponse::Said { .. }));
    if says != entry.message_id.is_some() {
        return refuse("words, and words alone, become a message");
    }
    if matches!(entry.response, Response::Input(InputResponse::Declined { declined: false, .. })) {
        return refuse("declined is true where it stands");
    }
    if entry.via == Door::SubmitInput && !says {
        return refuse("only words are submitted as input");
    }
    check_fresh(state, &entry.response_id)?;
    if let Some(message_id) = &entry.message_id {
        state.use_id(message_id)?;
    }
    let (turn, position) = open_ask(state, &entry.request_id)?;
    let Some(ask) = turn.asks.get_mut(position) else {
        return refuse("the request is not open");
    };
    if ask.request.kind != entry.response.kind() {
        return refuse("the answer is of another kind than the request");
    }
    ask.answer = Some(Answer::of(entry));
    let receipt = Receipt {
        revision,
        via: Some(entry.via),
        participant_id: ask.request.participant_id.clone(),
        request_id: Some(entry.request_id.clone()),
        response: entry.response.clone(),
        message_id: entry.message_id.clone(),
    };
    state.receipts.insert(entry.response_id.clone(), receipt);
    settle_external(state, &entry.at);
    Ok(())
}

pub(super) fn withdrawn(state: &mut State, entry: &Withdrawn, revision: u64) -> Result<(), Refusal> {
    check_fresh(state, &entry.response_id)?;
    state.use_id(&entry.response_id)?;
    let (turn, position) = open_ask(state, &entry.request_id)?;
    let Some(ask) = turn.asks.get_mut(position) else {
        return refuse("the request is not open");
    };
    let reason = Some(entry.reason.clone());
    // A reconciliation has no answer that means "none"; its member is told in the words of a declined input.
    let response = match ask.request.kind {
        RequestKind::Approval => Response::Approval { approved: false, reason },
        RequestKind::Input | RequestKind::Reconciliation => {
            Response::Input(InputResponse::Declined { declined: true, reason })
        }
    };
    let response_id = entry.response_id.clone();
    ask.answer = Some(Answer { response_id: response_id.clone(), response: response.clone(), message_id: None });
    let receipt = Receipt {
        revision,
        via: None,
        participant_id: ask.request.participant_id.clone(),
        request_id: Some(entry.request_id.clone()),
        response,
        message_id: None,
    };
    state.receipts.insert(response_id, receipt);
    settle_external(state, &entry.at);
    Ok(())
}

pub(super) fn input_accepted(state: &mut State, entry: &InputAccepted, revision: u64) -> Result<(), Refusal> {
    if state.ended.is_some() || state.group.is_some() {
        return refuse("unprompted input has no place here");
    }
    let position = state.position(&entry.participant_id);
    let Some(position) = position.filter(|p| !state.is_agent(*p)) else {
        return refuse("input comes from an external participant");
    };
    check_fresh(state, &entry.input_id)?;
    for id in [&entry.message_id, &entry.group_id, &entry.turn_id] {
        state.use_id(id)?;
    }
    let turn = Turn::pending(entry.turn_id.clone(), position);
    state.publish(&turn, &entry.group_id, &entry.message_id, &entry.participant_id, &entry.content, revision, None);
    let receipt = Receipt {
        revision,
        via: Some(Door::SubmitInput),
        participant_id: entry.participant_id.clone(),
        request_id: None,
        response: Response::Input(InputResponse::Said { content: entry.content.clone() }),
        message_id: Some(entry.message_id.clone()),
    };
    state.receipts.insert(entry.input_id.clone(), receipt);
    Ok(())
}

fn check_fresh(state: &State, id: &Id) -> Result<(), Refusal> {
    if id.is_empty() || state.receipts.contains_key(id) {
        return refuse("the input or response id is empty or used");
    }
    Ok(())
}

fn open_ask<'a>(state: &'a mut State, request_id: &Id) -> Result<(&'a mut Turn, usize), Refusal> {
    for turn in state.group.iter_mut().flat_map(|g| &mut g.turns).filter(|t| t.phase == Phase::Parked) {
        let position = turn.asks.iter().position(|a| a.answer.is_none() && a.request.id == *request_id);
        if let Some(position) = position {
            return Ok((turn, position));
        }
    }
    refuse("the request is not open")
}

/// The answer to a selection's own request is that turn's result.
fn settle_external(state: &mut State, at: &Rc<str>) {
    let Some(turn) = state.group.as_mut().filter(|g| g.external).and_then(|g| g.turns.first_mut()) else {
        return;
    };
    let answer = turn.asks.first().and_then(|ask| ask.answer.as_ref());
    turn.outcome = answer.map(|answer| match &answer.response {
        Response::Input(InputResponse::Said { content }) => Outcome::Speak { content: content.clone() },
        _ => Outcome::Yield,
    });
    turn.phase = Phase::Prepared;
    turn.settled_at = Some(at.clone());
}
