//! A small host: performs the agent loop's effects with a scripted model and scripted tools.

use agent_roundtable::runtime::agent::{AgentLoop, Effect, Input, RecordBody, ToolOutcome, ToolRun, TurnStart};
use agent_roundtable::runtime::codec::Value;
use agent_roundtable::runtime::config::{AgentConfig, AgentOptions, ToolDefinition};
use agent_roundtable::runtime::message::ChatMessage;
use agent_roundtable::value::Json;
use std::collections::VecDeque;

/// Options of an agent with a provider `p`, a model `m` and no tools.
pub fn options() -> AgentOptions {
    AgentOptions {
        provider_name: "p".into(),
        provider_has_cache: false,
        model: "m".into(),
        system_message: None,
        tools: Vec::new(),
        max_rounds: None,
        temperature: None,
        max_tokens: None,
    }
}

/// Options with a tool `add` of two numbers.
pub fn options_with_tool() -> AgentOptions {
    AgentOptions { tools: vec![tool("add", ADD_SCHEMA)], ..options() }
}

pub const ADD_SCHEMA: &str =
    r#"{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}"#;

pub fn tool(name: &str, schema: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        description: String::new(),
        parameters: Json::parse(schema).unwrap(),
        idempotent: false,
    }
}

pub fn agent(options: AgentOptions) -> AgentLoop {
    AgentLoop::new(AgentConfig::new(options).unwrap())
}

/// A turn whose ids derive from `attempt`.
pub fn turn(attempt: &str) -> Input {
    let turn_id = format!("turn-of-{attempt}");
    Input::Start(TurnStart { turn_id, attempt_id: attempt.into(), input: "### From ana\n> hi".into(), at: 1000.0 })
}

pub fn string(text: &str) -> Value {
    Value::String(text.into())
}

pub fn object(members: &[(&str, Value)]) -> Value {
    Value::Object(members.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect())
}

/// An assistant's reply as a provider gives it.
pub fn reply(content: &str, extra: &[(&str, Value)]) -> Value {
    let mut members = vec![
        ("id", string("r1")),
        ("role", string("assistant")),
        ("content", string(content)),
        ("timestamp", Value::Date(2000.0)),
        ("state", string("complete")),
    ];
    members.extend(extra.iter().cloned());
    object(&members)
}

/// A reply that calls tools: id, name, arguments.
pub fn calling(calls: &[(&str, &str, &str)]) -> Value {
    let call = |(id, name, arguments): &(&str, &str, &str)| {
        let function = object(&[("name", string(name)), ("arguments", string(arguments))]);
        object(&[("id", string(id)), ("type", string("function")), ("function", function)])
    };
    reply("", &[("toolCalls", Value::Array(calls.iter().map(call).collect()))])
}

/// What the host saw and will do.
pub struct Host {
    pub agent: AgentLoop,
    /// The history shown to the model, turns that failed taken back.
    pub history: Vec<ChatMessage>,
    /// The history at each model call.
    pub requests: Vec<Vec<ChatMessage>>,
    /// Effects in short, in their order.
    pub log: Vec<String>,
    /// The replies still to come; an error is a provider that fails.
    pub replies: VecDeque<Result<Value, String>>,
    /// The cached replies still to come.
    pub cached: VecDeque<Option<Value>>,
    /// Runs a tool.
    pub tool: Box<dyn FnMut(&ToolRun) -> ToolOutcome>,
}

impl Host {
    pub fn new(agent: AgentLoop) -> Self {
        Host {
            agent,
            history: Vec::new(),
            requests: Vec::new(),
            log: Vec::new(),
            replies: VecDeque::new(),
            cached: VecDeque::new(),
            tool: Box::new(|run| ToolOutcome::Returned(Json::String(format!("ran {}", run.tool_call_id)))),
        }
    }

    pub fn replying(mut self, replies: impl IntoIterator<Item = Value>) -> Self {
        self.replies.extend(replies.into_iter().map(Ok));
        self
    }

    /// Runs one turn to its end.
    pub fn run(&mut self, attempt: &str) -> Effect {
        let settled = self.history.len();
        let mut effects: VecDeque<Effect> = self.agent.handle(turn(attempt)).into();
        while let Some(effect) = effects.pop_front() {
            if let Effect::Fail(_) = effect {
                self.history.truncate(settled);
            }
            if let Effect::Finish(_) | Effect::Fail(_) = effect {
                assert!(effects.is_empty(), "nothing follows the end of a turn");
                return effect;
            }
            for input in self.perform(effect) {
                effects.extend(self.agent.handle(input));
            }
        }
        panic!("the turn stopped without an end: {:?}", self.log);
    }

    fn perform(&mut self, effect: Effect) -> Vec<Input> {
        match effect {
            Effect::Extend(messages) => {
                self.history.extend(messages);
                Vec::new()
            }
            Effect::AskCache(call) => {
                self.log.push(format!("ask {}", call.call_id));
                vec![Input::CacheAnswered { call_id: call.call_id, reply: self.cached.pop_front().flatten() }]
            }
            Effect::Append(record) => {
                let tail = match record.body {
                    RecordBody::ModelFailure { cancelled: true, .. } => " cancelled",
                    _ => "",
                };
                self.log.push(format!("append {}{tail}", record.id));
                vec![Input::Appended { call_id: record.call_id, at: 3000.0 }]
            }
            Effect::CallModel(call) => {
                let tools = if call.offer_tools { "" } else { " without tools" };
                self.log.push(format!("call {}{tools}", call.call_id));
                self.requests.push(self.history.clone());
                match self.replies.pop_front().expect("a scripted reply") {
                    Ok(reply) => vec![Input::ModelReplied { call_id: call.call_id, reply }],
                    Err(message) => vec![Input::ModelFailed { call_id: call.call_id, message }],
                }
            }
            Effect::Record(_) | Effect::Sync { .. } | Effect::Permit { .. } => {
                panic!("a plain agent has no gate: {effect:?}")
            }
            Effect::RunTools(runs) => runs
                .iter()
                .rev()
                .map(|run| {
                    self.log.push(format!("run {}", run.tool_call_id));
                    let (call_id, index, outcome) = (run.call_id.clone(), run.index, (self.tool)(run));
                    Input::ToolSettled { call_id, index, outcome, at: 4000.0 }
                })
                .collect(),
            Effect::Flush => {
                self.log.push("flush".into());
                vec![Input::Flushed]
            }
            Effect::Finish(_) | Effect::Fail(_) => Vec::new(),
        }
    }
}
