//! The agent loop's inputs and effects as JSON, the form in which they cross to a host. Messages and
//! replies travel coded (see [`codec`]), so dates keep their kind.

use super::agent::{
    AgentLoop, Effect, ExecutionRecord, Input, ModelCall, PermitCall, RecordBody, ToolOutcome, ToolRun, TurnContinue,
    TurnFailure, TurnResume, TurnStart,
};
use super::checkpoint::{Checkpoint, CheckpointError, Restored};
use super::codec;
use super::config::{AgentConfig, AgentOptions, ConfigError, ToolDefinition};
use super::message::ChatMessage;
use super::outcome::TurnOutcome;
use super::selector::decision::{DecisionRules, DecisionTool};
use super::selector::prompt::{self, DecisionContext, Prompt};
use super::session::SessionIdentity;
use super::session::approval::ApprovalRequest;
use super::session::permission::Verdict;
use super::session::records::RecordedAnswer;
use super::tool::ToolFault;
use crate::record::model::Selection;
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
    let identity = options.session.map(|WireSession { conversation_id, participant_id, environment, forked }| {
        SessionIdentity { conversation_id, participant_id, environment, forked }
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

/// An input; its JSON names the variant in the member `kind`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
enum WireInput {
    Start {
        turn_id: String,
        attempt_id: String,
        input: String,
        at: f64,
    },
    Resume {
        conversation_id: String,
        participant_id: String,
        turn_id: String,
        group_id: String,
        attempt_id: String,
        records: Vec<Json>,
        responses: Vec<Json>,
        #[serde(default)]
        retried: bool,
        at: f64,
    },
    Continue {
        turn_id: String,
        attempt_id: String,
        execution_id: String,
        records: Vec<Json>,
        #[serde(default)]
        retried: bool,
        at: f64,
    },
    CacheAnswered {
        call_id: String,
        reply: Option<Json>,
    },
    CacheFailed {
        call_id: String,
    },
    Appended {
        call_id: String,
        at: f64,
    },
    AppendRefused {
        call_id: String,
    },
    ModelReplied {
        call_id: String,
        reply: Json,
    },
    ModelFailed {
        call_id: String,
        message: String,
    },
    Permitted {
        call_id: String,
        verdicts: Vec<String>,
        at: f64,
    },
    PermissionFailed {
        call_id: String,
    },
    ToolReturned {
        call_id: String,
        index: usize,
        at: f64,
        result: Json,
    },
    ToolFailed {
        call_id: String,
        index: usize,
        at: f64,
        message: String,
    },
    ToolResultInvalid {
        call_id: String,
        index: usize,
        at: f64,
        message: String,
    },
    ToolSuspended {
        call_id: String,
        index: usize,
        at: f64,
    },
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
            WireInput::Resume {
                conversation_id,
                participant_id,
                turn_id,
                group_id,
                attempt_id,
                records,
                responses,
                retried,
                at,
            } => Input::Resume(TurnResume {
                conversation_id,
                participant_id,
                turn_id,
                group_id,
                attempt_id,
                records,
                responses,
                retried,
                at,
            }),
            WireInput::Continue { turn_id, attempt_id, execution_id, records, retried, at } => {
                Input::Continue(TurnContinue { turn_id, attempt_id, execution_id, records, retried, at })
            }
            WireInput::CacheAnswered { call_id, reply } => {
                Input::CacheAnswered { call_id, reply: reply.map(value).transpose()? }
            }
            WireInput::CacheFailed { call_id } => Input::CacheFailed { call_id },
            WireInput::Appended { call_id, at } => Input::Appended { call_id, at },
            WireInput::AppendRefused { call_id } => Input::AppendRefused { call_id },
            WireInput::ModelReplied { call_id, reply } => Input::ModelReplied { call_id, reply: value(reply)? },
            WireInput::ModelFailed { call_id, message } => Input::ModelFailed { call_id, message },
            WireInput::Permitted { call_id, verdicts, at } => {
                // A word that is no verdict denies.
                let verdicts = verdicts.iter().map(|word| Verdict::parse(word).unwrap_or(Verdict::Deny)).collect();
                Input::Permitted { call_id, verdicts, at }
            }
            WireInput::PermissionFailed { call_id } => Input::PermissionFailed { call_id },
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
    Record { record: WireRecord },
    Sync { call_id: String },
    Permit { call_id: String, calls: Vec<WirePermitCall> },
    RunTools { runs: Vec<WireToolRun> },
    Flush,
    Speak { content: String },
    Yield,
    Wait { requests: Vec<WireRequest> },
    Decide { selection: Selection },
    Call { arguments: Json },
    Fail { code: &'static str, message: String },
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all_fields = "camelCase")]
enum WireRecord {
    #[serde(rename = "execution-start")]
    Start { id: String, turn_id: String, input: String },
    #[serde(rename = "model-request")]
    Request { id: String, call_id: String },
    #[serde(rename = "model-response")]
    Response { id: String, call_id: String, response: Json },
    #[serde(rename = "model-failure")]
    Failure {
        id: String,
        call_id: String,
        message: String,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        cancelled: bool,
    },
    #[serde(rename = "model-cache-hit")]
    CacheHit { id: String, call_id: String, response: Json },
    #[serde(rename = "tool-intent")]
    Intent { id: String, tool_call_id: String, tool_name: String, arguments: Json, idempotency_key: String },
    #[serde(rename = "tool-result")]
    Result { id: String, tool_call_id: String, result: Json },
    #[serde(rename = "answer")]
    Answer {
        id: String,
        request_id: String,
        response_id: String,
        approved: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WirePermitCall {
    tool_name: String,
    tool_call_id: String,
    arguments: Json,
}

#[derive(Debug, Serialize)]
struct WireRequest {
    id: String,
    reason: String,
    kind: &'static str,
    data: Json,
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
                WireEffect::Append { call_id: record.call_id.clone(), record: WireRecord::of(record) }
            }
            Effect::Record(record) => WireEffect::Record { record: WireRecord::of(record) },
            Effect::Sync { call_id } => WireEffect::Sync { call_id },
            Effect::Permit { call_id, calls } => {
                let call = |PermitCall { tool_name, tool_call_id, arguments }| WirePermitCall {
                    tool_name,
                    tool_call_id,
                    arguments,
                };
                WireEffect::Permit { call_id, calls: calls.into_iter().map(call).collect() }
            }
            Effect::RunTools(runs) => WireEffect::RunTools { runs: runs.into_iter().map(WireToolRun::of).collect() },
            Effect::Flush => WireEffect::Flush,
            Effect::Finish(TurnOutcome::Speak(content)) => WireEffect::Speak { content },
            Effect::Finish(TurnOutcome::Yield) => WireEffect::Yield,
            Effect::Finish(TurnOutcome::Wait(requests)) => {
                let request = |ApprovalRequest { id, reason, data }| WireRequest { id, reason, kind: "approval", data };
                WireEffect::Wait { requests: requests.into_iter().map(request).collect() }
            }
            Effect::Finish(TurnOutcome::Decide(selection)) => WireEffect::Decide { selection },
            Effect::Finish(TurnOutcome::Call(arguments)) => WireEffect::Call { arguments },
            Effect::Fail(failure) => WireEffect::failed(&failure),
        }
    }

    fn failed(failure: &TurnFailure) -> Self {
        WireEffect::Fail { code: failure.code(), message: failure.to_string() }
    }
}

impl WireRecord {
    fn of(record: ExecutionRecord) -> Self {
        let ExecutionRecord { id, call_id, body } = record;
        match body {
            RecordBody::ModelRequest => WireRecord::Request { id, call_id },
            RecordBody::ModelResponse(response) => WireRecord::Response { id, call_id, response: one(&response) },
            RecordBody::ModelFailure { message, cancelled } => WireRecord::Failure { id, call_id, message, cancelled },
            RecordBody::ModelCacheHit(response) => WireRecord::CacheHit { id, call_id, response: one(&response) },
            RecordBody::Start { turn_id, input } => WireRecord::Start { id, turn_id, input },
            RecordBody::ToolIntent { tool_name, run } => {
                let ToolRun { tool_call_id, arguments, idempotency_key, .. } = *run;
                WireRecord::Intent { id, tool_call_id, tool_name, arguments, idempotency_key }
            }
            RecordBody::ToolResult { tool_call_id, result } => WireRecord::Result { id, tool_call_id, result },
            RecordBody::Answer(RecordedAnswer { request_id, response_id, approved, reason }) => {
                WireRecord::Answer { id, request_id, response_id, approved, reason }
            }
        }
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
