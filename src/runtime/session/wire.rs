//! Approvals for a runtime that runs outside of this module, as JSON: the requests it waits with, and the
//! answers that fit them. The rules are those of the sessions in here.

use super::approval::{Action, Answer, read_answers};
use super::{Pending, Session, SessionIdentity};
use crate::runtime::agent::{TurnFailure, TurnResume};
use crate::value::read::read;
use crate::value::{Json, JsonError};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireAsked {
    execution_id: String,
    call_id: String,
    actions: Vec<WireAction>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireAction {
    tool_call_id: String,
    tool_name: String,
    arguments: Json,
}

/// The requests for these actions of one execution, in their order: a JSON array.
pub fn requests(asked: &str) -> Result<String, JsonError> {
    let WireAsked { execution_id, call_id, actions } = read(asked)?;
    let request = |(index, action): (usize, &WireAction)| {
        let WireAction { tool_call_id, tool_name, arguments } = action;
        let (execution_id, call_id) = (&execution_id, &call_id);
        let request = Action { execution_id, call_id, index, tool_call_id, tool_name, arguments }.request();
        let members = [
            ("id", Json::String(request.id)),
            ("reason", Json::String(request.reason)),
            ("kind", Json::String("approval".to_owned())),
            ("data", request.data),
        ];
        Json::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    };
    Ok(array(actions.iter().enumerate().map(request)))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireAnswered {
    conversation_id: String,
    participant_id: String,
    turn_id: String,
    group_id: String,
    requests: Vec<WireRequest>,
    responses: Vec<Json>,
}

#[derive(Debug, Deserialize)]
struct WireRequest {
    id: String,
    data: Json,
}

/// The answers to waiting requests, one for each in their order: a JSON array of `[responseId, approved,
/// reason]`. Refused with the first thing that does not fit.
pub fn answers(answered: &str) -> Result<String, TurnFailure> {
    let mismatch = |reason: &str| TurnFailure::IdentityMismatch(reason.to_owned());
    let answered: WireAnswered = read(answered).map_err(|error| mismatch(&error.message))?;
    let WireAnswered { conversation_id, participant_id, turn_id, group_id, requests, responses } = answered;
    let identity = SessionIdentity {
        conversation_id: conversation_id.clone(),
        participant_id: participant_id.clone(),
        environment: String::new(),
        forked: false,
        placed: false,
    };
    let request_ids = requests.iter().map(|request| request.id.clone()).collect();
    let pending = Pending { execution_id: String::new(), request_ids };
    let attempt_id = String::new();
    let records = Vec::new();
    let resume = TurnResume {
        conversation_id,
        participant_id,
        turn_id,
        group_id,
        attempt_id,
        records,
        responses,
        retried: false,
        at: 0.0,
    };
    let found = read_answers(&Session::new(identity), &pending, &resume)?;
    let answer = |request: &WireRequest| {
        let answer = found.iter().find(|answer| answer.request_id == request.id);
        let answer = answer.ok_or_else(|| mismatch("a request that waits has no answer"))?;
        if answer.data.canonical() != request.data.canonical() {
            return Err(mismatch("an answered request is about another action"));
        }
        Ok(answer_json(answer))
    };
    Ok(array(requests.iter().map(answer).collect::<Result<Vec<_>, _>>()?.into_iter()))
}

fn answer_json(answer: &Answer) -> Json {
    let reason = answer.reason.clone().map_or(Json::Null, Json::String);
    Json::Array(vec![Json::String(answer.response_id.clone()), Json::Bool(answer.approved), reason])
}

fn array(items: impl Iterator<Item = Json>) -> String {
    Json::Array(items.collect()).canonical()
}
