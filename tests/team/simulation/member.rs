//! What members do: results good and bad, questions, failures, signals heard or not.

use super::host::Running;
use super::world::{Check, Pending, World};
use agent_roundtable::team::machine::Input;
use agent_roundtable::value::read::read;
use serde_json::{Value, json};

impl World {
    /// A member was called.
    pub fn begin(&mut self, host: usize, attempt: &str) {
        if self.rng.chance(150) {
            let pause = self.pause();
            self.later(pause, Pending::Ask(host, attempt.to_owned(), "admit"));
        }
        let lease = self.plan.lease_ms as usize;
        // One that does not return by itself waits for its signal.
        if self.strikes("hung member", 10) {
            return;
        }
        let delay = if self.strikes("late member", 10) { self.rng.below(2 * lease) as u64 } else { 2 * self.pause() };
        self.later(delay, Pending::Return(host, attempt.to_owned()));
    }

    /// Its signal fired.
    pub fn signalled(&mut self, host: usize, attempt: &str) {
        let never = self.plan.settle_ms.is_some() && self.strikes("deaf member", 40);
        if !never {
            let delay = 2 * self.pause();
            self.later(delay, Pending::Return(host, attempt.to_owned()));
        }
    }

    pub fn return_attempt(&mut self, host: usize, attempt: &str) -> Check {
        if !self.hosts[host].alive {
            return Ok(());
        }
        if let Some(running) = self.hosts[host].runs.remove(attempt) {
            let (outcome, event) = self.outcome(&running);
            self.shadow.returned.insert(attempt.to_owned(), event);
            self.hosts[host].returned.push(attempt.to_owned());
            return self.tell_json(host, &json!({ "returned": { "attempt": attempt, "outcome": outcome } }));
        }
        if self.hosts[host].given_up.contains(attempt) {
            self.saw("late return");
            let outcome = json!({ "result": { "result": { "summary": "too late" } } });
            return self.tell_json(host, &json!({ "returned": { "attempt": attempt, "outcome": outcome } }));
        }
        Ok(())
    }

    /// What an attempt asks; one that is over is refused.
    pub fn ask(&mut self, host: usize, attempt: &str, what: &'static str) -> Check {
        if !self.hosts[host].alive {
            return Ok(());
        }
        self.drawn += 1;
        let ticket = self.drawn as u32;
        let call = format!("call-{attempt}");
        let body = match what {
            "admit" => json!({ "call": { "callId": call, "providerId": "p", "modelId": "m" } }),
            "report" => {
                json!({ "report": { "callId": call, "outcome": "completed", "provenance": "reported", "final": true } })
            }
            _ => json!({ "record": { "id": format!("r-{ticket}"), "executionId": "e", "note": 1 } }),
        };
        let mut body = body;
        body["ticket"] = json!(ticket);
        body["attempt"] = json!(attempt);
        let runs = self.hosts[host].runs.contains_key(attempt);
        self.hosts[host].tickets.insert(ticket, (attempt.to_owned(), what, runs));
        self.tell_json(host, &json!({ what: body }))
    }

    pub fn tell_json(&mut self, host: usize, input: &Value) -> Check {
        let input: Input = read(&input.to_string()).map_err(|error| format!("the simulation: {}", error.message))?;
        self.tell(host, input)
    }

    /// What is returned, and the event that must be written of it.
    fn outcome(&mut self, running: &Running) -> (Value, String) {
        let member = running.member;
        let is_agent = self.plan.members[member].is_agent;
        if running.aborted && self.rng.chance(600) {
            return (json!({ "thrown": { "message": "stopped", "isAbort": true } }), "stopped".into());
        }
        if self.strikes("member failed", 5) {
            return match self.rng.below(4) {
                0 => (json!({ "thrown": { "message": "boom" } }), "failed EFFECT_FAILED".into()),
                1 => (json!({ "thrown": { "message": "boom", "code": "DENIED" } }), "failed DENIED".into()),
                2 => (json!({ "thrown": { "message": "boom", "code": "a\nb" } }), "failed EFFECT_FAILED".into()),
                _ if running.aborted => (json!({ "thrown": { "message": "x", "isAbort": true } }), "stopped".into()),
                _ => (json!({ "thrown": { "message": "x", "isAbort": true } }), "failed ABORTED".into()),
            };
        }
        if !self.quiet && running.answers == 0 && self.rng.chance(80) {
            return if is_agent { self.wait() } else { self.pause_turn() };
        }
        let result = self.result(member);
        let event = self.completion(member, &result);
        if !is_agent {
            return (json!({ "result": { "result": result } }), event);
        }
        self.drawn += 1;
        let checkpoint = json!({ "version": "1", "data": self.drawn });
        let content = if self.rng.chance(300) { "plain words".to_owned() } else { result.to_string() };
        let spoken = match serde_json::from_str::<Value>(&content) {
            Ok(value) if value.is_object() && self.shadow.posts(member, &value).is_some() => value,
            _ => json!({ "summary": content }),
        };
        let event = self.completion(member, &spoken);
        (json!({ "spoke": { "content": content, "checkpoint": checkpoint } }), event)
    }

    fn completion(&self, member: usize, result: &Value) -> String {
        let bytes = result.to_string().len() as u64;
        if self.plan.output_bytes.is_some_and(|most| bytes > most) {
            return "failed OUTPUT_LIMIT".into();
        }
        match self.shadow.posts(member, result) {
            Some(_) => format!("completed {result}"),
            None => "failed RESULT_INVALID".into(),
        }
    }

    fn pause_turn(&mut self) -> (Value, String) {
        let reason = if self.strikes("bad pause", 20) { "" } else { "why" };
        let event = if reason.is_empty() { "failed PAUSE_INVALID".into() } else { format!("paused {reason}") };
        (json!({ "pause": { "reason": reason, "request": { "q": 1 } } }), event)
    }

    fn wait(&mut self) -> (Value, String) {
        self.drawn += 1;
        let id = format!("q-{}", self.drawn);
        let ask = |id: &str| json!({ "id": id, "reason": "leave", "kind": "approval", "data": null });
        let mut requests = vec![ask(&id)];
        let is_bad = self.strikes("bad wait", 30);
        if is_bad || self.rng.chance(400) {
            requests.push(ask(&if is_bad { id.clone() } else { format!("{id}b") }));
        }
        let event = if is_bad { "failed WAIT_INVALID" } else { "paused leave" };
        let checkpoint = json!({ "version": "1", "data": id });
        (json!({ "wait": { "requests": requests, "checkpoint": checkpoint } }), event.into())
    }

    fn result(&mut self, member: usize) -> Value {
        self.drawn += 1;
        let summary = format!("s{}", self.drawn);
        if self.strikes("bad result", 4) {
            return self
                .rng
                .pick(&[
                    json!(null),
                    json!([]),
                    json!({}),
                    json!({ "summary": 1 }),
                    json!({ "summary": "", "posts": [null] }),
                    json!({ "summary": "s", "posts": [{ "roomId": "elsewhere", "text": "t", "mentions": [] }] }),
                    json!({ "summary": "s", "posts": [{ "roomId": "r", "text": "t", "mentions": ["nobody"] }] }),
                ])
                .clone();
        }
        let mut posts = Vec::new();
        for (id, members) in self.plan.rooms_of(member) {
            for _ in 0..self.rng.below(3) {
                let mut mentions: Vec<&str> =
                    members.iter().filter(|_| self.rng.chance(350)).map(|at| self.plan.members[*at].id).collect();
                if self.rng.chance(100) {
                    mentions.extend(mentions.clone());
                }
                let text = "x".repeat(self.rng.below(60));
                posts.push(json!({ "roomId": id, "text": text, "mentions": mentions }));
            }
        }
        if posts.is_empty() { json!({ "summary": summary }) } else { json!({ "summary": summary, "posts": posts }) }
    }
}
