//! The agent loop's inputs and effects as JSON, the form in which they cross to a host. Messages and
//! replies travel coded (see [`super::codec`]), so dates keep their kind.

mod effect;
mod input;

use self::effect::{WireEffect, coded};
use self::input::WireInput;
use super::agent::AgentLoop;
use super::checkpoint::{Checkpoint, CheckpointError, Restored};
use super::config::{AgentConfig, AgentOptions, ConfigError, ToolDefinition};
use super::selector::decision::{DecisionRules, DecisionTool};
use super::selector::prompt::{self, DecisionContext, Prompt};
use super::session::SessionIdentity;
use crate::value::read::{read, read_tagged};
use crate::value::write::write;
use crate::value::{Json, JsonError};
use serde::{Deserialize, Serialize};

/// An agent's options as JSON.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireOptions {
    provider_name: String,
    provider_has_cache: bool,
    model: String,
    system_message: Option<String>,
    tools: Vec<WireTool>,
    max_rounds: Option<f64>,
    temperature: Option<f64>,
    max_tokens: Option<f64>,
    decision: Option<WireDecision>,
    /// The name of a host's tool to decide with.
    call: Option<String>,
    session: Option<WireSession>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireDecision {
    participant_ids: Vec<String>,
    max_parallel: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireTool {
    name: String,
    description: String,
    parameters: Json,
    #[serde(default)]
    idempotent: bool,
}

/// Of an agent behind a permission gate.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireSession {
    conversation_id: String,
    participant_id: String,
    environment: String,
    forked: bool,
    #[serde(default)]
    placed: bool,
}

#[derive(Debug, Deserialize)]
struct WireCheckpoint {
    version: String,
    data: Json,
    #[serde(default)]
    append: Vec<Json>,
}

/// Why an agent does not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// An option is not acceptable.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The checkpoint is not acceptable.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}

/// An agent that has just opened.
#[derive(Debug)]
pub struct Opened {
    /// The agent.
    pub agent: AgentLoop,
    /// JSON `{history, changed, sessionId}`: the restored messages, coded, the options that changed since,
    /// and the id of a session.
    pub restored: String,
}

/// Opens an agent from the JSON of its options and, where it is restored, of its checkpoint.
pub fn open(options: &str, checkpoint: Option<&str>) -> Result<Opened, OpenError> {
    let (config, identity) = read_options(options)?;
    let Some(checkpoint) = checkpoint else {
        let nothing = Restored { history: Vec::new(), changed: Vec::new() };
        let agent = match identity {
            None => AgentLoop::new(config),
            Some(identity) => AgentLoop::session(config, identity),
        };
        return Ok(Opened { restored: restored_json(&agent, &nothing), agent });
    };
    let WireCheckpoint { version, data, append } =
        read(checkpoint).map_err(|error| CheckpointError { reason: format!("not a checkpoint: {error}") })?;
    let (agent, restored) = match identity {
        None => AgentLoop::restore(config, &version, &data, &append)?,
        Some(identity) => AgentLoop::restore_session(config, identity, &version, &data, &append)?,
    };
    Ok(Opened { restored: restored_json(&agent, &restored), agent })
}

fn read_options(options: &str) -> Result<(AgentConfig, Option<SessionIdentity>), ConfigError> {
    let options: WireOptions =
        read(options).map_err(|error| ConfigError { field: "options".to_owned(), message: error.message })?;
    let tool = |WireTool { name, description, parameters, idempotent }| ToolDefinition {
        name,
        description,
        parameters,
        idempotent,
    };
    let identity =
        options.session.map(|WireSession { conversation_id, participant_id, environment, forked, placed }| {
            SessionIdentity { conversation_id, participant_id, environment, forked, placed }
        });
    let decision = options
        .decision
        .map(|WireDecision { participant_ids, max_parallel }| DecisionRules { participant_ids, max_parallel })
        .map(DecisionTool::NextSpeaker)
        .or(options.call.map(DecisionTool::Named));
    let config = AgentConfig::new(AgentOptions {
        provider_name: options.provider_name,
        provider_has_cache: options.provider_has_cache,
        model: options.model,
        system_message: options.system_message,
        tools: options.tools.into_iter().map(tool).collect(),
        max_rounds: options.max_rounds,
        temperature: options.temperature,
        max_tokens: options.max_tokens,
    })?;
    Ok((AgentConfig { decision, ..config }, identity))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireRestored<'a> {
    history: Vec<Json>,
    changed: Vec<&'a str>,
    session_id: Option<&'a str>,
}

fn restored_json(agent: &AgentLoop, restored: &Restored) -> String {
    let changed = restored.changed.iter().map(|input| input.as_str()).collect();
    to_json(&WireRestored { history: coded(&restored.history), changed, session_id: agent.session_id() })
}

/// Handles one input given as JSON; the effects as a JSON array. The error says what the text lacks.
pub fn handle(agent: &mut AgentLoop, input: &str) -> Result<String, JsonError> {
    let input = read_tagged::<WireInput>(input, "kind")?.into_input()?;
    let effects: Vec<WireEffect> = agent.handle(input).into_iter().map(WireEffect::of).collect();
    Ok(to_json(&effects))
}

/// What a selector's model is shown and offered, as JSON `{opening, closing, tool}`.
pub fn decision_prompt(context: &str) -> Result<String, JsonError> {
    let context: DecisionContext = read(context)?;
    let Prompt { opening, closing } = prompt::render(&context);
    let [opening, closing] = [opening, closing].map(|text| Json::String(text).canonical());
    Ok(format!(r#"{{"opening":{opening},"closing":{closing},"tool":{}}}"#, prompt::tool_json(&context)))
}

/// A checkpoint as JSON.
#[must_use]
pub fn checkpoint_json(checkpoint: &Checkpoint) -> String {
    #[derive(Serialize)]
    struct Wire<'a> {
        version: &'a str,
        data: &'a Json,
        append: &'a [Json],
    }
    to_json(&Wire { version: &checkpoint.version, data: &checkpoint.data, append: &checkpoint.append })
}

/// None of these shapes can fail to serialise.
fn to_json(value: &impl Serialize) -> String {
    write(value).unwrap_or_default()
}
