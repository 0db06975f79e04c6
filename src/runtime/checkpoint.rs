//! The `agent/1` checkpoint: a head `{fingerprint}` and, as the part that is appended, the messages
//! the turn added. Joined, the appends are the whole private history.

use super::codec::ValueError;
use super::config::AgentConfig;
use super::fingerprint::{ConstructionInput, Fingerprint};
use super::message::{ChatMessage, Role, check_closed};
use crate::value::Json;

/// The version this module writes and reads.
pub const AGENT_VERSION: &str = "agent/1";

/// A checkpoint as a session gives it.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// [`AGENT_VERSION`].
    pub version: String,
    /// Replaces the previous head.
    pub data: Json,
    /// Joins what earlier checkpoints appended.
    pub append: Vec<Json>,
}

/// What a checkpoint restores.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// The private history, every tool call answered.
    pub history: Vec<ChatMessage>,
    /// Construction inputs that changed since and do not forbid restoring.
    pub changed: Vec<ConstructionInput>,
}

/// Why a checkpoint is not restored; always `checkpoint-invalid`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the checkpoint cannot be restored: {reason}")]
pub struct CheckpointError {
    /// What is wrong or differs, with its path.
    pub reason: String,
}

/// The checkpoint of an agent after `append` was added to its history.
#[must_use]
pub fn write(config: &AgentConfig, append: Vec<Json>) -> Checkpoint {
    let data = Json::Object(vec![("fingerprint".to_owned(), Fingerprint::of(config).to_json())]);
    Checkpoint { version: AGENT_VERSION.to_owned(), data, append }
}

/// Restores a history under `config`: exact version, strict shapes, the same provider and model.
pub fn read(config: &AgentConfig, version: &str, data: &Json, append: &[Json]) -> Result<Restored, CheckpointError> {
    if version != AGENT_VERSION {
        return refuse(format!("its version is not {AGENT_VERSION}"));
    }
    let changed = read_fingerprint(config, data, false)?;
    Ok(Restored { history: read_history(append)?, changed })
}

/// What changed since the fingerprint in `data` was taken. Another provider or model is refused;
/// `strict` refuses any difference.
pub(super) fn read_fingerprint(
    config: &AgentConfig,
    data: &Json,
    strict: bool,
) -> Result<Vec<ConstructionInput>, CheckpointError> {
    let Some(fingerprint) = data.get("fingerprint") else {
        return refuse("data.fingerprint: missing");
    };
    let stored = Fingerprint::from_json(fingerprint)
        .map_err(|member| CheckpointError { reason: format!("data.fingerprint.{member}: not a SHA-256") })?;
    let changed = stored.differences(&Fingerprint::of(config));
    let refused =
        |input: &&ConstructionInput| strict || matches!(input, ConstructionInput::Provider | ConstructionInput::Model);
    match changed.iter().find(refused) {
        Some(input) => refuse(format!("the {} differs from the one that wrote it", input.as_str())),
        None => Ok(changed),
    }
}

/// The messages of every append, joined: strict shapes, no system message, every tool call answered.
pub(super) fn read_history(append: &[Json]) -> Result<Vec<ChatMessage>, CheckpointError> {
    let decode = |(i, coded): (usize, &Json)| {
        let message = ChatMessage::decode(coded, &format!("append[{i}]"))?;
        if message.role == Role::System {
            return Err(ValueError::new(format!("append[{i}].role"), "a history holds no system message"));
        }
        Ok(message)
    };
    let history: Result<Vec<_>, _> = append.iter().enumerate().map(decode).collect();
    let history = history.and_then(|history| check_closed(&history, "append").map(|()| history));
    history.map_err(|error| CheckpointError { reason: error.to_string() })
}

pub(super) fn refuse<T>(reason: impl Into<String>) -> Result<T, CheckpointError> {
    Err(CheckpointError { reason: reason.into() })
}
