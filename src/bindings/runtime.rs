//! The agent loop for JavaScript. Everything crosses as JSON text; nothing here calls back, so a
//! handle may be used from inside any callback.

use crate::record::usage::ModelCall;
use crate::runtime::agent::AgentLoop;
use crate::runtime::metering::{self, UsageMetadata};
use crate::runtime::render::{IncrementMessage, render_in_rooms};
use crate::runtime::session;
use crate::runtime::session::permission::Permissions;
use crate::runtime::wire::{self, OpenError};
use crate::value::read::read;
use crate::value::write::write;
use crate::value::{Json, JsonError};
use std::cell::RefCell;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

/// One agent: its private history and the turn it is in.
#[wasm_bindgen]
#[derive(Debug)]
pub struct AgentHandle {
    agent: RefCell<AgentLoop>,
    restored: String,
}

#[wasm_bindgen]
impl AgentHandle {
    /// Opens an agent from the JSON of its options and of its checkpoint. Throws the text of what is
    /// wrong, behind `config ` or `checkpoint `.
    #[wasm_bindgen(constructor)]
    pub fn new(options: &str, checkpoint: Option<String>) -> Result<AgentHandle, JsValue> {
        let opened = wire::open(options, checkpoint.as_deref()).map_err(|error| {
            let kind = match error {
                OpenError::Config(_) => "config",
                OpenError::Checkpoint(_) => "checkpoint",
            };
            JsValue::from_str(&format!("{kind} {error}"))
        })?;
        Ok(AgentHandle { agent: RefCell::new(opened.agent), restored: opened.restored })
    }

    /// JSON `{history, changed, sessionId}`: what the checkpoint restored.
    #[must_use]
    pub fn restored(&self) -> String {
        self.restored.clone()
    }

    /// Whether the next turn announces the purpose.
    #[wasm_bindgen(js_name = firstTurn)]
    #[must_use]
    pub fn first_turn(&self) -> bool {
        self.agent.borrow().first_turn()
    }

    /// The execution that waits for answers.
    #[must_use]
    pub fn pending(&self) -> Option<String> {
        self.agent.borrow().pending().map(|pending| pending.execution_id.clone())
    }

    /// Gives up what waits: its turn has been ended from outside.
    #[wasm_bindgen(js_name = giveUpWait)]
    pub fn give_up_wait(&self) {
        self.agent.borrow_mut().give_up_wait();
    }

    /// Takes one input; the effects as a JSON array.
    pub fn handle(&self, input: &str) -> Result<String, JsValue> {
        wire::handle(&mut self.agent.borrow_mut(), input).map_err(|error| JsValue::from_str(&error.to_string()))
    }

    /// JSON `{version, data, append}`: the checkpoint of what has settled since the last one.
    #[wasm_bindgen(js_name = takeCheckpoint)]
    #[must_use]
    pub fn take_checkpoint(&self) -> String {
        wire::checkpoint_json(&self.agent.borrow_mut().take_checkpoint())
    }
}

/// `allow`, `ask` or `deny`: what the policy given as JSON says of a tool. Throws the text of what is
/// wrong with the policy.
#[wasm_bindgen(js_name = permissionFor)]
pub fn permission_for(policy: &str, tool: &str) -> Result<String, JsValue> {
    let failed = |error: String| JsValue::from(error);
    let policy = Json::parse(policy).map_err(|error| failed(error.message))?;
    let policy = Permissions::read(&policy).map_err(|error| failed(error.to_string()))?;
    Ok(policy.verdict(tool).as_str().to_owned())
}

/// Renders a shared increment; `messages` alternates participant ids and contents, `rooms` holds the room
/// of each in a team.
#[wasm_bindgen(js_name = renderIncrement)]
#[must_use]
pub fn render_increment(
    purpose: Option<String>,
    messages: Vec<String>,
    first_turn: bool,
    rooms: Option<Vec<String>>,
) -> String {
    let rooms = rooms.unwrap_or_default();
    let pairs = messages.chunks_exact(2).enumerate().filter_map(|(at, pair)| match pair {
        [participant_id, content] => {
            let room = rooms.get(at).map(String::as_str).filter(|room| !room.is_empty());
            Some((room, IncrementMessage { participant_id, content }))
        }
        _ => None,
    });
    render_in_rooms(purpose.as_deref(), &pairs.collect::<Vec<_>>(), first_turn)
}

/// What a selector's model is shown around the messages and the tool it is offered: JSON
/// `{opening, closing, tool}` of the JSON of a context.
#[wasm_bindgen(js_name = decisionPrompt)]
pub fn decision_prompt(context: &str) -> Result<String, JsValue> {
    wire::decision_prompt(context).map_err(|error| JsValue::from(error.message))
}

/// The report of a call as JSON. `outcome` is `completed`, `cache-hit`, `cancelled` or `failed`;
/// `call` is the JSON of the call, `metadata` that of the reply's usage members.
#[wasm_bindgen(js_name = callReport)]
pub fn call_report(outcome: &str, call: &str, metadata: &str) -> Result<String, JsValue> {
    let failed = |error: JsonError| JsValue::from(error.message);
    let call: ModelCall = read(call).map_err(failed)?;
    let metadata: UsageMetadata = read(metadata).map_err(failed)?;
    let report = match outcome {
        "completed" => metering::completed(&call, &metadata),
        "cache-hit" => metering::cache_hit(&call, &metadata),
        other => metering::without_reply(&call, other == "cancelled"),
    };
    write(&report).map_err(failed)
}

/// The approval requests of a runtime outside of the engine, as a JSON array.
#[wasm_bindgen(js_name = approvalRequests)]
pub fn approval_requests(asked: &str) -> Result<String, JsValue> {
    session::wire::requests(asked).map_err(|error| JsValue::from(error.message))
}

/// The answers to such requests, as a JSON array of `[responseId, approved, reason]`; throws the text of what does
/// not fit.
#[wasm_bindgen(js_name = approvalAnswers)]
pub fn approval_answers(answered: &str) -> Result<String, JsValue> {
    session::wire::answers(answered).map_err(|error| JsValue::from(error.to_string()))
}
