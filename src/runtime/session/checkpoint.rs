//! The `session/1` checkpoint: a head `{sessionId, environment, firstTurnDone, pending, fingerprint}` and,
//! appended, the messages a settled turn added. Parked, it is a receipt: `pending` names the execution
//! and its open requests, nothing is appended, and the execution's journal holds the rest.

use super::approval::MAX_REQUESTS;
use super::{Pending, Session, SessionIdentity};
use crate::runtime::checkpoint::{Checkpoint, CheckpointError, Restored, read_fingerprint, read_history, refuse};
use crate::runtime::config::AgentConfig;
use crate::runtime::fingerprint::Fingerprint;
use crate::value::Json;
use crate::value::bounds::MAX_ID;
use crate::value::text::utf16_len;

/// The version this module writes and reads.
pub const SESSION_VERSION: &str = "session/1";

/// What a checkpoint restores of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoredSession {
    /// The session.
    pub session: Session,
    /// Whether a turn of it has returned an outcome.
    pub first_turn_done: bool,
    /// Its settled history, and what changed since.
    pub restored: Restored,
}

/// The checkpoint of a session after `append` was added to its history.
#[must_use]
pub fn write(config: &AgentConfig, session: &Session, first_turn_done: bool, append: Vec<Json>) -> Checkpoint {
    let text = |text: &str| Json::String(text.to_owned());
    let pending = session.pending.as_ref().map_or(Json::Null, |pending| {
        let ids = pending.request_ids.iter().map(|id| text(id)).collect();
        object([("executionId", text(&pending.execution_id)), ("requestIds", Json::Array(ids))])
    });
    let data = object([
        ("sessionId", text(&session.id)),
        ("environment", text(&session.identity.environment)),
        ("firstTurnDone", Json::Bool(first_turn_done)),
        ("pending", pending),
        ("fingerprint", Fingerprint::of(config).to_json()),
    ]);
    Checkpoint { version: SESSION_VERSION.to_owned(), data, append }
}

/// Restores a session for `identity` under `config`. Settled, it refuses another session, environment,
/// provider or model; parked, any difference. A fork takes a session id of its own.
pub fn read(
    config: &AgentConfig,
    identity: SessionIdentity,
    version: &str,
    data: &Json,
    append: &[Json],
) -> Result<RestoredSession, CheckpointError> {
    if version != SESSION_VERSION {
        return refuse(format!("its version is not {SESSION_VERSION}"));
    }
    let session_id = id(data.get("sessionId"), "data.sessionId")?;
    let Some(environment) = data.get("environment").and_then(Json::as_str) else {
        return refuse("data.environment: expected a string");
    };
    let Some(Json::Bool(first_turn_done)) = data.get("firstTurnDone") else {
        return refuse("data.firstTurnDone: expected true or false");
    };
    let pending = match data.get("pending") {
        None => return refuse("data.pending: missing"),
        Some(Json::Null) => None,
        Some(pending) => Some(read_pending(pending)?),
    };
    let mut session = Session::new(identity);
    // In a fork of a conversation it is what a host had settled there.
    let pending = pending.filter(|_| session.id == session_id || !session.identity.placed);
    let changed = read_fingerprint(config, data, pending.is_some())?;
    if session.id != session_id && !session.identity.forked {
        return refuse("the conversation or participant differs from the one that wrote it (data.sessionId)");
    }
    if session.identity.environment != environment {
        return refuse("the environment differs from the one that wrote it");
    }
    if session.id != session_id && pending.is_some() {
        return refuse("what waits in another conversation cannot be answered in a fork of it (data.pending)");
    }
    session.pending = pending;
    let history = read_history(append)?;
    Ok(RestoredSession { session, first_turn_done: *first_turn_done, restored: Restored { history, changed } })
}

fn read_pending(pending: &Json) -> Result<Pending, CheckpointError> {
    let execution_id = id(pending.get("executionId"), "data.pending.executionId")?;
    let Some(Json::Array(ids)) = pending.get("requestIds") else {
        return refuse("data.pending.requestIds: expected an array");
    };
    if !(1..=MAX_REQUESTS).contains(&ids.len()) {
        return refuse(format!("data.pending.requestIds: expected 1 to {MAX_REQUESTS} ids"));
    }
    let mut request_ids: Vec<String> = Vec::with_capacity(ids.len());
    for (index, one) in ids.iter().enumerate() {
        let path = format!("data.pending.requestIds[{index}]");
        let one = id(Some(one), &path)?;
        if request_ids.contains(&one) {
            return refuse(format!("{path}: named twice"));
        }
        request_ids.push(one);
    }
    Ok(Pending { execution_id, request_ids })
}

fn id(value: Option<&Json>, path: &str) -> Result<String, CheckpointError> {
    match value.and_then(Json::as_str) {
        Some(text) if (1..=MAX_ID).contains(&utf16_len(text)) => Ok(text.to_owned()),
        _ => refuse(format!("{path}: expected a string of 1 to {MAX_ID} UTF-16 units")),
    }
}

fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}
