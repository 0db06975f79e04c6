//! A host of sessions that speaks the wire form: a scripted model, tools that note their effects, a journal,
//! and a way to die after any record.

use agent_roundtable::runtime::agent::AgentLoop;
use agent_roundtable::runtime::message::{ChatMessage, check_closed};
use agent_roundtable::runtime::session::permission::{Permissions, Verdict};
use agent_roundtable::runtime::wire::{checkpoint_json, handle, open};
use agent_roundtable::value::Json;
use std::collections::VecDeque;

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    Speak(String),
    Yield,
    /// The requests.
    Wait(Vec<Json>),
    /// The code and the message.
    Fail(String, String),
    /// The process died.
    Died,
}

/// A tool that ran: its idempotency key and its arguments.
pub type Deed = (String, String);

/// From the history to the model's reply, as JSON text.
pub type Model = fn(&[Json]) -> String;

pub struct Rig {
    pub agent: AgentLoop,
    options: String,
    model: Model,
    pub policy: Permissions,
    /// The history shown to the model, as messages.
    pub history: Vec<Json>,
    settled: usize,
    pub journal: Vec<Json>,
    pub deeds: Vec<Deed>,
    pub asked_policy: usize,
    pub requested: Vec<String>,
    /// How many of the next calls a cache replies to, where the provider has one.
    pub cached: usize,
    /// The process dies when the journal has so many records.
    pub dies_at: Option<usize>,
    execution_id: String,
    attempts: usize,
}

pub fn options(idempotent: bool) -> String {
    let tool = |name: &str| {
        format!(
            r#"{{"name":"{name}","description":"","parameters":{{"type":"object","required":["n"]}},"idempotent":{idempotent}}}"#
        )
    };
    format!(
        r#"{{"providerName":"p","providerHasCache":false,"model":"m","tools":[{},{},{}],"session":{{"conversationId":"c","participantId":"bot","environment":"","forked":false}}}}"#,
        tool("read"),
        tool("write"),
        tool("erase"),
    )
}

pub fn policy(text: &str) -> Permissions {
    Permissions::read(&Json::parse(text).unwrap()).unwrap()
}

/// Reads are allowed, erasing is denied, the rest is asked for.
pub const RULES: &str = r#"{"allow":["read"],"deny":["erase"]}"#;

pub fn quote(text: &str) -> String {
    Json::String(text.to_owned()).canonical()
}

/// A reply that says this and calls these tools: id, name, arguments.
pub fn reply(content: &str, calls: &[(&str, &str, &str)]) -> String {
    let call = |(id, name, arguments): &(&str, &str, &str)| {
        let function = format!(r#"{{"name":"{name}","arguments":{}}}"#, quote(arguments));
        format!(r#"{{"id":"{id}","type":"function","function":{function}}}"#)
    };
    let calls: Vec<String> = calls.iter().map(call).collect();
    format!(
        r#"{{"id":"r","role":"assistant","content":{},"timestamp":{{"$date":"1970-01-01T00:00:02.000Z"}},"state":"complete","toolCalls":[{}]}}"#,
        quote(content),
        calls.join(",")
    )
}

/// How many replies a history holds.
pub fn replies(history: &[Json]) -> usize {
    history.iter().filter(|message| text(message, "role") == "assistant").count()
}

pub fn text(json: &Json, key: &str) -> String {
    json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned()
}

fn list(json: &Json, key: &str) -> Vec<Json> {
    match json.get(key) {
        Some(Json::Array(items)) => items.clone(),
        _ => Vec::new(),
    }
}

impl Rig {
    pub fn new(options: &str, model: Model) -> Self {
        Rig::opened(options, model, None)
    }

    fn opened(options: &str, model: Model, checkpoint: Option<&str>) -> Self {
        let opened = open(options, checkpoint).unwrap();
        let history = list(&Json::parse(&opened.restored).unwrap(), "history");
        Rig {
            agent: opened.agent,
            options: options.to_owned(),
            model,
            policy: policy(RULES),
            settled: history.len(),
            history,
            journal: Vec::new(),
            deeds: Vec::new(),
            asked_policy: 0,
            requested: Vec::new(),
            cached: 0,
            dies_at: None,
            execution_id: String::new(),
            attempts: 0,
        }
    }

    /// A new process that finds this checkpoint and these records, and in the world these deeds.
    pub fn reopened(&self, checkpoint: &str, journal: &[Json], deeds: &[Deed]) -> Self {
        let mut rig = Rig::opened(&self.options, self.model, Some(checkpoint));
        rig.policy = self.policy.clone();
        (rig.journal, rig.deeds) = (journal.to_vec(), deeds.to_vec());
        rig.attempts = self.attempts + 1000;
        rig
    }

    pub fn checkpoint(&mut self) -> String {
        checkpoint_json(&self.agent.take_checkpoint())
    }

    pub fn start(&mut self) -> End {
        self.attempts += 1;
        let attempt = format!("a{}", self.attempts);
        self.execution_id = attempt.clone();
        self.run(&format!(r#"{{"kind":"start","turnId":"t","attemptId":"{attempt}","input":"hello","at":1000}}"#))
    }

    /// Goes on with a first attempt that was stopped.
    pub fn go_on(&mut self, retried: bool) -> End {
        let input = self.going_on(retried);
        self.run(&input)
    }

    /// The input that says so.
    pub fn going_on(&mut self, retried: bool) -> String {
        self.attempts += 1;
        self.execution_id = text(&self.journal[0], "executionId");
        format!(
            r#"{{"kind":"continue","turnId":"t","attemptId":"a{}","executionId":"{}","records":[{}],"retried":{retried},"at":5000}}"#,
            self.attempts,
            self.execution_id,
            self.records(),
        )
    }

    /// The records of the execution.
    fn records(&self) -> String {
        let own = self.journal.iter().filter(|record| text(record, "executionId") == self.execution_id);
        own.map(Json::canonical).collect::<Vec<_>>().join(",")
    }

    /// Continues the turn; answers are texts of `{request, responseId, response}`.
    pub fn resume(&mut self, answers: &[String]) -> End {
        self.attempts += 1;
        if let Some(pending) = self.agent.pending() {
            self.execution_id = pending.execution_id.clone();
        }
        let records = self.records();
        self.run(&format!(
            r#"{{"kind":"resume","conversationId":"c","participantId":"bot","turnId":"t","groupId":"g","attemptId":"a{}","records":[{}],"responses":[{}],"at":5000}}"#,
            self.attempts,
            records,
            answers.join(",")
        ))
    }

    pub fn run(&mut self, input: &str) -> End {
        let mut inputs = VecDeque::from([input.to_owned()]);
        while let Some(input) = inputs.pop_front() {
            let effects = handle(&mut self.agent, &input).unwrap();
            let Json::Array(effects) = Json::parse(&effects).unwrap() else { panic!("{effects}") };
            for effect in effects {
                match self.perform(&effect) {
                    Ok(more) => inputs.extend(more),
                    Err(end) => return end,
                }
            }
        }
        panic!("the turn stopped without an end");
    }

    /// The inputs that follow, or the end.
    fn perform(&mut self, effect: &Json) -> Result<Vec<String>, End> {
        let call_id = quote(&text(effect, "callId"));
        let one = |input: String| Ok(vec![input]);
        match text(effect, "kind").as_str() {
            "extend" => {
                self.history.extend(list(effect, "messages"));
                Ok(Vec::new())
            }
            "record" => self.write(effect.get("record").unwrap()).map(|()| Vec::new()),
            "append" => {
                self.write(effect.get("record").unwrap())?;
                one(format!(r#"{{"kind":"appended","callId":{call_id},"at":3000}}"#))
            }
            "ask-cache" => {
                let hit = self.cached > 0;
                self.cached = self.cached.saturating_sub(1);
                let reply = if hit { (self.model)(&self.history) } else { "null".to_owned() };
                one(format!(r#"{{"kind":"cache-answered","callId":{call_id},"reply":{reply}}}"#))
            }
            "sync" => one(format!(r#"{{"kind":"appended","callId":{call_id},"at":3000}}"#)),
            "permit" => {
                let calls = list(effect, "calls");
                self.asked_policy += calls.len();
                let verdict = |call: &Json| quote(Verdict::as_str(self.policy.verdict(&text(call, "toolName"))));
                let verdicts: Vec<String> = calls.iter().map(verdict).collect();
                one(format!(
                    r#"{{"kind":"permitted","callId":{call_id},"verdicts":[{}],"at":3000}}"#,
                    verdicts.join(",")
                ))
            }
            "call-model" => {
                let messages: Vec<ChatMessage> =
                    self.history.iter().map(|m| ChatMessage::decode(m, "history").unwrap()).collect();
                check_closed(&messages, "history").unwrap();
                assert!(!self.requested.contains(&call_id), "{call_id} is used twice");
                self.requested.push(call_id.clone());
                let reply = (self.model)(&self.history);
                one(format!(r#"{{"kind":"model-replied","callId":{call_id},"reply":{reply}}}"#))
            }
            "run-tools" => {
                let runs = list(effect, "runs");
                let run = |run: &Json| {
                    let intended = |record: &Json| {
                        text(record, "kind") == "tool-intent"
                            && text(record, "idempotencyKey") == text(run, "idempotencyKey")
                    };
                    assert!(self.journal.iter().any(intended), "an effect without an intent");
                    let arguments = run.get("arguments").unwrap().canonical();
                    self.deeds.push((text(run, "idempotencyKey"), arguments));
                    format!(
                        r#"{{"kind":"tool-returned","callId":{},"index":{},"at":4000,"result":{{"did":{}}}}}"#,
                        quote(&text(run, "callId")),
                        run.get("index").unwrap().canonical(),
                        quote(&text(run, "toolCallId")),
                    )
                };
                Ok(runs.iter().rev().map(run).collect())
            }
            "flush" => one(r#"{"kind":"flushed"}"#.to_owned()),
            "speak" => {
                self.settled = self.history.len();
                Err(End::Speak(text(effect, "content")))
            }
            "yield" => Err(End::Yield),
            "wait" => {
                self.history.truncate(self.settled);
                Err(End::Wait(list(effect, "requests")))
            }
            "fail" => {
                self.history.truncate(self.settled);
                Err(End::Fail(text(effect, "code"), text(effect, "message")))
            }
            kind => panic!("an unknown effect {kind}"),
        }
    }

    fn write(&mut self, record: &Json) -> Result<(), End> {
        let Json::Object(mut members) = record.clone() else { panic!("{record:?}") };
        let mut add = |key: &str, value: &str| members.push((key.to_owned(), Json::String(value.to_owned())));
        add("executionId", &self.execution_id);
        add("sessionId", self.agent.session_id().unwrap());
        if matches!(text(record, "kind").as_str(), "model-request" | "model-cache-hit") {
            add("providerId", "p");
            add("modelId", "m");
        }
        let record = Json::Object(members);
        match self.journal.iter().find(|known| text(known, "id") == text(&record, "id")) {
            Some(known) => assert_eq!(known.canonical(), record.canonical(), "an id with other content"),
            None => self.journal.push(record),
        }
        if self.dies_at == Some(self.journal.len()) { Err(End::Died) } else { Ok(()) }
    }
}

/// Tells one input; the effects' kinds, and the effects.
pub fn tell(rig: &mut Rig, input: &str) -> (Vec<String>, Vec<Json>) {
    let effects = handle(&mut rig.agent, input).unwrap();
    let Json::Array(effects) = Json::parse(&effects).unwrap() else { panic!("{effects}") };
    (effects.iter().map(|effect| text(effect, "kind")).collect(), effects)
}

/// The answer to a request, as the scheduler gives it.
pub fn answer(request: &Json, approved: bool) -> String {
    answer_with(request, &format!(r#""approved":{approved}"#), "bot", "g", "t")
}

pub fn answer_with(request: &Json, response: &str, member: &str, group: &str, turn: &str) -> String {
    let id = text(request, "id");
    format!(
        r#"{{"request":{{"id":{},"reason":"","kind":"approval","participantId":"{member}","memberId":"{member}","groupId":"{group}","turnId":"{turn}","data":{}}},"responseId":{},"response":{{"kind":"approval",{response}}}}}"#,
        quote(&id),
        request.get("data").unwrap().canonical(),
        quote(&format!("answer to {id}")),
    )
}
