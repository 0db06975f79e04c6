//! The agent loop's effects as JSON.

use crate::record::model::Selection;
use crate::runtime::agent::{Effect, ExecutionRecord, ModelCall, PermitCall, RecordBody, ToolRun, TurnFailure};
use crate::runtime::codec;
use crate::runtime::message::ChatMessage;
use crate::runtime::outcome::TurnOutcome;
use crate::runtime::session::approval::ApprovalRequest;
use crate::runtime::session::records::RecordedAnswer;
use crate::value::Json;
use serde::Serialize;

/// An effect; its JSON names the variant in the member `kind`.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub(super) enum WireEffect {
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
pub(super) enum WireRecord {
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
pub(super) struct WirePermitCall {
    tool_name: String,
    tool_call_id: String,
    arguments: Json,
}

#[derive(Debug, Serialize)]
pub(super) struct WireRequest {
    id: String,
    reason: String,
    kind: &'static str,
    data: Json,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WireToolRun {
    call_id: String,
    index: usize,
    tool: usize,
    tool_call_id: String,
    arguments: Json,
    idempotency_key: String,
}

impl WireEffect {
    pub(super) fn of(effect: Effect) -> Self {
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

/// Messages, coded.
pub(super) fn coded(messages: &[ChatMessage]) -> Vec<Json> {
    messages.iter().map(one).collect()
}

/// A message of the loop was coded when it came in, so it can be again.
fn one(message: &ChatMessage) -> Json {
    codec::encode(&message.to_value(), "message").unwrap_or(Json::Null)
}
