//! The agent loop's inputs and effects as JSON, the form in which they cross to a host. Messages and
//! replies travel coded (see [`codec`]), so dates keep their kind.

use super::agent::{AgentLoop, Effect, Input, ModelCall, RecordBody, ToolOutcome, ToolRun, TurnFailure, TurnStart};
use super::checkpoint::{Checkpoint, CheckpointError, Restored};
use super::codec;
use super::config::{AgentConfig, AgentOptions, ConfigError, ToolDefinition};
use super::message::ChatMessage;
use super::outcome::TurnOutcome;
use super::tool::ToolFault;
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
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireTool {
    name: String,
    description: String,
    parameters: Json,
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
    /// JSON `{history, changed}`: the restored messages, coded, and the options that changed since.
    pub restored: String,
}

/// Opens an agent from the JSON of its options and, where it is restored, of its checkpoint.
pub fn open(options: &str, checkpoint: Option<&str>) -> Result<Opened, OpenError> {
    let config = AgentConfig::new(read_options(options)?)?;
    let Some(checkpoint) = checkpoint else {
        let nothing = Restored { history: Vec::new(), changed: Vec::new() };
        return Ok(Opened { agent: AgentLoop::new(config), restored: restored_json(&nothing) });
    };
    let stored: WireCheckpoint =
        read(checkpoint).map_err(|error| CheckpointError { reason: format!("not a checkpoint: {error}") })?;
    let (agent, restored) = AgentLoop::restore(config, &stored.version, &stored.data, &stored.append)?;
    Ok(Opened { agent, restored: restored_json(&restored) })
}

fn read_options(options: &str) -> Result<AgentOptions, ConfigError> {
    let options: WireOptions =
        read(options).map_err(|error| ConfigError { field: "options".to_owned(), message: error.message })?;
    let tool =
        |tool: WireTool| ToolDefinition { name: tool.name, description: tool.description, parameters: tool.parameters };
    Ok(AgentOptions {
        provider_name: options.provider_name,
        provider_has_cache: options.provider_has_cache,
        model: options.model,
        system_message: options.system_message,
        tools: options.tools.into_iter().map(tool).collect(),
        max_rounds: options.max_rounds,
        temperature: options.temperature,
        max_tokens: options.max_tokens,
    })
}

#[derive(Serialize)]
struct WireRestored<'a> {
    history: Vec<Json>,
    changed: Vec<&'a str>,
}

fn restored_json(restored: &Restored) -> String {
    let changed = restored.changed.iter().map(|input| input.as_str()).collect();
    to_json(&WireRestored { history: coded(&restored.history), changed })
}

/// Handles one input given as JSON; the effects as a JSON array. The error says what the text lacks.
pub fn handle(agent: &mut AgentLoop, input: &str) -> Result<String, JsonError> {
    let input = read_tagged::<WireInput>(input, "kind")?.into_input()?;
    let effects: Vec<WireEffect> = agent.handle(input).into_iter().map(WireEffect::of).collect();
    Ok(to_json(&effects))
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

/// An input; its JSON names the variant in the member `kind`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
enum WireInput {
    Start { turn_id: String, attempt_id: String, input: String, at: f64 },
    CacheAnswered { call_id: String, reply: Option<Json> },
    CacheFailed { call_id: String },
    Appended { call_id: String, at: f64 },
    AppendRefused { call_id: String },
    ModelReplied { call_id: String, reply: Json },
    ModelFailed { call_id: String, message: String },
    ToolReturned { call_id: String, index: usize, at: f64, result: Json },
    ToolFailed { call_id: String, index: usize, at: f64, message: String },
    ToolResultInvalid { call_id: String, index: usize, at: f64, message: String },
    ToolSuspended { call_id: String, index: usize, at: f64 },
    Flushed,
    DeltaFailed,
    Aborted,
}

impl WireInput {
    fn into_input(self) -> Result<Input, JsonError> {
        let settled = |call_id, index, at, outcome| Input::ToolSettled { call_id, index, outcome, at };
        let value =
            |coded: Json| codec::decode(&coded, "reply").map_err(|error| JsonError { message: error.to_string() });
        Ok(match self {
            WireInput::Start { turn_id, attempt_id, input, at } => {
                Input::Start(TurnStart { turn_id, attempt_id, input, at })
            }
            WireInput::CacheAnswered { call_id, reply } => {
                Input::CacheAnswered { call_id, reply: reply.map(value).transpose()? }
            }
            WireInput::CacheFailed { call_id } => Input::CacheFailed { call_id },
            WireInput::Appended { call_id, at } => Input::Appended { call_id, at },
            WireInput::AppendRefused { call_id } => Input::AppendRefused { call_id },
            WireInput::ModelReplied { call_id, reply } => Input::ModelReplied { call_id, reply: value(reply)? },
            WireInput::ModelFailed { call_id, message } => Input::ModelFailed { call_id, message },
            WireInput::ToolReturned { call_id, index, at, result } => {
                settled(call_id, index, at, ToolOutcome::Returned(result))
            }
            WireInput::ToolFailed { call_id, index, at, message } => {
                settled(call_id, index, at, ToolOutcome::Fault(ToolFault::Failed(message)))
            }
            WireInput::ToolResultInvalid { call_id, index, at, message } => {
                settled(call_id, index, at, ToolOutcome::Fault(ToolFault::InvalidResult(message)))
            }
            WireInput::ToolSuspended { call_id, index, at } => settled(call_id, index, at, ToolOutcome::Suspended),
            WireInput::Flushed => Input::Flushed,
            WireInput::DeltaFailed => Input::DeltaFailed,
            WireInput::Aborted => Input::Aborted,
        })
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
enum WireEffect {
    Extend { messages: Vec<Json> },
    AskCache { call_id: String, offer_tools: bool },
    Append { call_id: String, record: WireRecord },
    CallModel { call_id: String, offer_tools: bool },
    RunTools { runs: Vec<WireToolRun> },
    Flush,
    Speak { content: String },
    Yield,
    Fail { code: &'static str, message: String },
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind")]
enum WireRecord {
    #[serde(rename = "model-request")]
    Request { id: String },
    #[serde(rename = "model-response")]
    Response { id: String, response: Json },
    #[serde(rename = "model-failure")]
    Failure { id: String, message: String, cancelled: bool },
    #[serde(rename = "model-cache-hit")]
    CacheHit { id: String, response: Json },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WireToolRun {
    call_id: String,
    index: usize,
    tool: usize,
    tool_call_id: String,
    arguments: Json,
    idempotency_key: String,
}

impl WireEffect {
    fn of(effect: Effect) -> Self {
        match effect {
            Effect::Extend(messages) => WireEffect::Extend { messages: coded(&messages) },
            Effect::AskCache(ModelCall { call_id, offer_tools }) => WireEffect::AskCache { call_id, offer_tools },
            Effect::CallModel(ModelCall { call_id, offer_tools }) => WireEffect::CallModel { call_id, offer_tools },
            Effect::Append(record) => {
                let id = record.id;
                let record_body = match record.body {
                    RecordBody::ModelRequest => WireRecord::Request { id },
                    RecordBody::ModelResponse(response) => WireRecord::Response { id, response: one(&response) },
                    RecordBody::ModelFailure { message, cancelled } => WireRecord::Failure { id, message, cancelled },
                    RecordBody::ModelCacheHit(response) => WireRecord::CacheHit { id, response: one(&response) },
                };
                WireEffect::Append { call_id: record.call_id, record: record_body }
            }
            Effect::RunTools(runs) => WireEffect::RunTools { runs: runs.into_iter().map(WireToolRun::of).collect() },
            Effect::Flush => WireEffect::Flush,
            Effect::Finish(TurnOutcome::Speak(content)) => WireEffect::Speak { content },
            Effect::Finish(TurnOutcome::Yield) => WireEffect::Yield,
            Effect::Fail(failure) => WireEffect::failed(&failure),
        }
    }

    fn failed(failure: &TurnFailure) -> Self {
        WireEffect::Fail { code: failure.code(), message: failure.to_string() }
    }
}

impl WireToolRun {
    fn of(run: ToolRun) -> Self {
        let ToolRun { call_id, index, tool, tool_call_id, arguments, idempotency_key } = run;
        WireToolRun { call_id, index, tool, tool_call_id, arguments, idempotency_key }
    }
}

fn coded(messages: &[ChatMessage]) -> Vec<Json> {
    messages.iter().map(one).collect()
}

/// A message of the loop was coded when it came in, so it can be again.
fn one(message: &ChatMessage) -> Json {
    codec::encode(&message.to_value(), "message").unwrap_or(Json::Null)
}

/// None of these shapes can fail to serialise.
fn to_json(value: &impl Serialize) -> String {
    write(value).unwrap_or_default()
}
