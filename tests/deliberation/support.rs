//! Sessions for tests.

use agent_roundtable::deliberation::creation::Origin;
use agent_roundtable::deliberation::wire::{self, Session};
use agent_roundtable::value::Json;

pub const START: f64 = 1_798_761_600_000.0;
pub const MINUTE: f64 = 60_000.0;

/// What the engine answered.
pub struct Answer(pub Json);

impl Answer {
    pub fn of(text: &str) -> Self {
        let json = Json::parse(text).unwrap();
        assert!(json.get("broken").is_none(), "the engine decided what does not fold: {text}");
        Answer(json)
    }

    pub fn lines(&self) -> Vec<String> {
        match self.0.get("entries") {
            Some(Json::Array(lines)) => lines.iter().map(|line| line.as_str().unwrap().to_owned()).collect(),
            _ => Vec::new(),
        }
    }

    /// `code reason`, where it is a refusal.
    pub fn refusal(&self) -> Option<String> {
        let error = self.0.get("error")?;
        let part = |name| error.get(name).and_then(Json::as_str).unwrap();
        Some(format!("{} {}", part("code"), part("reason")))
    }

    pub fn reply(&self, name: &str) -> Option<&Json> {
        self.0.get("reply")?.get(name)
    }
}

/// The first line of a session with that seed.
pub fn created(seed: &str, more: &str) -> Vec<String> {
    let input = format!(r#"{{"caller":"fac","topic":"T","goal":"G","participants":["ana","bo"]{more}}}"#);
    Answer::of(&wire::open(&input, &[true, true], Origin { seed, counter: 0, now: START })).lines()
}

/// A command of somebody, with further members.
pub fn command(kind: &str, caller: &str, more: &str) -> String {
    format!(r#"{{"kind":"{kind}","caller":"{caller}"{more}}}"#)
}

/// A session and its journal; what is decided lands.
pub struct Table {
    pub session: Session,
    pub lines: Vec<String>,
    pub now: f64,
}

impl Table {
    pub fn new(more: &str) -> Self {
        let lines = created("seed", more);
        let session = Session::load(lines.iter().map(String::as_str)).unwrap();
        Table { session, lines, now: START }
    }

    pub fn ask(&mut self, kind: &str, caller: &str, more: &str) -> Answer {
        let answer = Answer::of(&self.session.decide(&command(kind, caller, more), self.now));
        self.land(answer)
    }

    pub fn land(&mut self, answer: Answer) -> Answer {
        self.session.confirm();
        self.lines.extend(answer.lines());
        answer
    }
}
