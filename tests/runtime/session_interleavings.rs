//! A session under hosts that answer in any order, late, twice or not at all, refuse records, stop turns at
//! any moment and continue them.

use crate::session_host::{answer, options, policy, replies, reply, text};
use agent_roundtable::runtime::agent::AgentLoop;
use agent_roundtable::runtime::message::{ChatMessage, check_closed};
use agent_roundtable::runtime::session::checkpoint;
use agent_roundtable::runtime::wire::{handle, open};
use agent_roundtable::value::Json;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

struct Chaos {
    agent: AgentLoop,
    history: Vec<Json>,
    settled: usize,
    /// What may be answered, with the attempt it belongs to.
    open: Vec<String>,
    answered: Vec<String>,
    journal: Vec<Json>,
    /// A record was refused, so the next that is awaited is, too.
    refused: bool,
    execution: String,
    attempts: u32,
    running: bool,
    started: u32,
    ended: u32,
    /// Keys of tools that were started.
    deeds: HashSet<String>,
    requests: Vec<Json>,
    given: HashMap<String, bool>,
    calls: HashSet<String>,
    appended: Vec<Json>,
    outcomes: HashMap<String, u32>,
}

fn list(json: &Json, key: &str) -> Vec<Json> {
    match json.get(key) {
        Some(Json::Array(items)) => items.clone(),
        _ => Vec::new(),
    }
}

fn quote(text: &str) -> String {
    Json::String(text.to_owned()).canonical()
}

impl Chaos {
    fn new() -> Self {
        Chaos {
            agent: open(&options(false), None).unwrap().agent,
            history: Vec::new(),
            settled: 0,
            open: Vec::new(),
            answered: Vec::new(),
            journal: Vec::new(),
            refused: false,
            execution: String::new(),
            attempts: 0,
            running: false,
            started: 0,
            ended: 0,
            deeds: HashSet::new(),
            requests: Vec::new(),
            given: HashMap::new(),
            calls: HashSet::new(),
            appended: Vec::new(),
            outcomes: HashMap::new(),
        }
    }

    fn step(&mut self, choice: u16) {
        let pick = usize::from(choice >> 4);
        match choice & 15 {
            0 if self.running => self.tell(r#"{"kind":"aborted"}"#.to_owned()),
            1 if self.running && pick.is_multiple_of(4) => self.tell(r#"{"kind":"delta-failed"}"#.to_owned()),
            2 if !self.answered.is_empty() => self.tell(self.answered[pick % self.answered.len()].clone()),
            3 | 4 if !self.running => self.begin(pick),
            5 => self.refused = self.refused || (self.running && pick.is_multiple_of(8)),
            kind if !self.open.is_empty() => {
                let input = self.open.swap_remove(pick % self.open.len());
                let input = self.vary(input, kind, pick);
                // A host appends each record once, so it says once what came of it.
                if !input.contains(r#""append"#) {
                    self.answered.push(input.clone());
                }
                self.tell(input);
            }
            _ => {}
        }
    }

    fn begin(&mut self, pick: usize) {
        self.attempts += 1;
        self.running = true;
        self.started += 1;
        self.refused = false;
        let attempt = format!("a{}", self.attempts);
        let Some(pending) = self.agent.pending().cloned() else {
            self.execution = attempt.clone();
            let turn = format!("t{}", self.attempts);
            return self
                .tell(format!(r#"{{"kind":"start","turnId":"{turn}","attemptId":"{attempt}","input":"hi","at":0}}"#));
        };
        self.execution.clone_from(&pending.execution_id);
        let turn = format!("t{}", &pending.execution_id[1..]);
        let asked = pending.request_ids.iter().filter_map(|id| self.requests.iter().find(|r| text(r, "id") == *id));
        let mut answers = Vec::new();
        for (index, request) in asked.enumerate() {
            let approved = *self.given.entry(text(request, "id")).or_insert((pick >> index) & 1 == 0);
            if (pick >> index) & 2 == 0 {
                answers.push(answer(request, approved).replace(r#""turnId":"t""#, &format!(r#""turnId":"{turn}""#)));
            }
        }
        let of = |record: &&Json| text(record, "executionId") == pending.execution_id;
        let records: Vec<String> = self.journal.iter().filter(of).map(Json::canonical).collect();
        self.tell(format!(
            r#"{{"kind":"resume","conversationId":"c","participantId":"bot","turnId":"{turn}","groupId":"g","attemptId":"{attempt}","records":[{}],"responses":[{}],"at":0}}"#,
            records.join(","),
            answers.join(",")
        ));
    }

    /// One of the ways an effect can turn out.
    fn vary(&self, input: String, kind: u16, pick: usize) -> String {
        if self.refused && input.contains(r#""appended""#) {
            return input.replace(r#""kind":"appended""#, r#""kind":"append-refused""#).replace(r#","at":0"#, "");
        }
        match kind {
            6 if input.contains("model-replied") => {
                let call_id = quote(&text(&Json::parse(&input).unwrap(), "callId"));
                format!(r#"{{"kind":"model-failed","callId":{call_id},"message":"no"}}"#)
            }
            6 | 7 if input.contains(r#""permitted""#) => input.replace("ask", ["allow", "deny"][pick & 1]),
            8 if input.contains("tool-returned") => {
                input.replace("tool-returned", "tool-failed").replace(r#""result":{}"#, r#""message":"no""#)
            }
            _ => input,
        }
    }

    fn tell(&mut self, input: String) {
        let effects = handle(&mut self.agent, &input).unwrap();
        let Json::Array(effects) = Json::parse(&effects).unwrap() else { panic!("{effects}") };
        for effect in effects {
            self.perform(&effect);
        }
        let checkpoint = self.agent.take_checkpoint();
        self.appended.extend(checkpoint.append);
        // Whatever is saved at any moment restores: a closed history, and a receipt of what waits.
        let identity = agent_roundtable::runtime::session::SessionIdentity {
            conversation_id: "c".into(),
            participant_id: "bot".into(),
            environment: String::new(),
            forked: false,
            placed: false,
        };
        let read = checkpoint::read(self.agent.config(), identity, "session/1", &checkpoint.data, &self.appended);
        assert_eq!(read.unwrap().session.pending.as_ref(), self.agent.pending());
    }

    fn perform(&mut self, effect: &Json) {
        let id = text(effect, "callId");
        let call_id = quote(&id);
        match text(effect, "kind").as_str() {
            "extend" => self.history.extend(list(effect, "messages")),
            "record" => self.write(effect.get("record").unwrap()),
            "append" => {
                let record = effect.get("record").unwrap();
                assert!(self.running || text(record, "kind").starts_with("model-"), "only what is late: {record:?}");
                self.write(record);
                self.open.push(format!(r#"{{"kind":"appended","callId":{call_id},"at":0}}"#));
            }
            "sync" => self.open.push(format!(r#"{{"kind":"appended","callId":{call_id},"at":0}}"#)),
            "permit" => {
                let rules = policy(r#"{"allow":["read"],"deny":["erase"]}"#);
                let verdict = |call: &Json| quote(rules.verdict(&text(call, "toolName")).as_str());
                let verdicts: Vec<String> = list(effect, "calls").iter().map(verdict).collect();
                let verdicts = verdicts.join(",");
                self.open.push(format!(r#"{{"kind":"permitted","callId":{call_id},"verdicts":[{verdicts}],"at":0}}"#));
            }
            "call-model" => {
                assert!(self.running, "nothing is called after the end");
                assert!(self.calls.insert(id), "a call id is used once");
                let messages: Vec<ChatMessage> =
                    self.history.iter().map(|m| ChatMessage::decode(m, "history").unwrap()).collect();
                check_closed(&messages, "history").unwrap();
                let reply = match replies(&self.history[self.settled..]) {
                    0 => reply("", &[("t1", "write", r#"{"n":1}"#), ("t2", "read", r#"{"n":2}"#), ("t3", "ghost", "")]),
                    1 => reply("", &[("t1", "write", r#"{"n":1}"#), ("t2", "write", r#"{"n":1}"#)]),
                    _ => reply("done", &[]),
                };
                self.open.push(format!(r#"{{"kind":"model-replied","callId":{call_id},"reply":{reply}}}"#));
            }
            "run-tools" => {
                assert!(self.running, "nothing runs after the end");
                for run in list(effect, "runs") {
                    let key = text(&run, "idempotencyKey");
                    let intended = |r: &Json| text(r, "kind") == "tool-intent" && text(r, "idempotencyKey") == key;
                    assert!(self.journal.iter().any(intended), "an effect without an intent on record");
                    assert!(self.deeds.insert(format!("{} {key}", self.execution)), "an effect happened twice");
                    self.open.push(format!(
                        r#"{{"kind":"tool-returned","callId":{},"index":{},"at":0,"result":{{}}}}"#,
                        quote(&text(&run, "callId")),
                        run.get("index").unwrap().canonical(),
                    ));
                }
            }
            "flush" => self.open.push(r#"{"kind":"flushed"}"#.to_owned()),
            end @ ("speak" | "wait" | "fail") => {
                assert!(self.running, "a turn ends once");
                self.running = false;
                self.ended += 1;
                let name = if end == "fail" { text(effect, "code") } else { end.to_owned() };
                *self.outcomes.entry(name).or_default() += 1;
                if end == "speak" {
                    self.settled = self.history.len();
                } else {
                    self.history.truncate(self.settled);
                }
                for request in list(effect, "requests") {
                    if self.requests.iter().all(|known| text(known, "id") != text(&request, "id")) {
                        self.requests.push(request);
                    }
                }
            }
            kind => panic!("an unknown effect {kind}"),
        }
    }

    fn write(&mut self, record: &Json) {
        if self.refused {
            return;
        }
        let Json::Object(mut members) = record.clone() else { panic!("{record:?}") };
        let mut add = |key: &str, value: &str| members.push((key.to_owned(), Json::String(value.to_owned())));
        // A late record belongs to the execution whose call it is about.
        let of = self.journal.iter().find(|known| {
            let call = |r: &Json| text(r, "id").rsplit_once(":call:").map(|(_, rest)| rest.to_owned());
            text(known, "id").split(":call:").next() == text(record, "id").split(":call:").next()
                && call(known).is_some()
        });
        let execution = of.map_or_else(|| self.execution.clone(), |known| text(known, "executionId"));
        add("executionId", &execution);
        add("sessionId", self.agent.session_id().unwrap());
        if text(record, "kind") == "model-request" {
            add("providerId", "p");
            add("modelId", "m");
        }
        let record = Json::Object(members);
        let known = self.journal.iter().find(|known| text(known, "id") == text(&record, "id"));
        match known {
            Some(known) => assert_eq!(known.canonical(), record.canonical(), "an id with other content"),
            None => self.journal.push(record),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    /// Whatever the host does: a turn ends once, nothing runs without an intent on record or after the end,
    /// no effect of an execution happens twice, no stored no becomes a yes, and every state that is saved
    /// restores.
    #[test]
    fn a_session_keeps_its_rules_in_every_interleaving(choices in prop::collection::vec(any::<u16>(), 1..300)) {
        let mut chaos = Chaos::new();
        for choice in choices {
            chaos.step(choice);
        }
        if chaos.running {
            chaos.tell(r#"{"kind":"aborted"}"#.to_owned());
        }
        while let Some(input) = chaos.open.pop() {
            let input = chaos.vary(input, 15, 0);
            chaos.tell(input);
        }
        prop_assert_eq!(chaos.started, chaos.ended, "every turn ended");
        let denied = chaos.given.iter().filter(|(_, yes)| !**yes);
        for intent in denied.map(|(id, _)| id.replace(":approval:", ":intent:")) {
            prop_assert!(!chaos.journal.iter().any(|record| text(record, "id") == intent), "{} ran after a no", intent);
        }
        for code in chaos.outcomes.keys() {
            let expected = [
                "speak", "wait", "aborted", "delta-failed", "journal-failed", "model-failed", "recovery-required",
            ];
            prop_assert!(expected.contains(&code.as_str()), "{}", code);
        }
    }
}
