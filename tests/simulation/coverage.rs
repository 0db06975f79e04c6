//! How often each kind of thing happened. A kind that never did makes the whole run worthless.

use crate::faults::Fault;
use agent_roundtable::conversation::error::Code;
use agent_roundtable::record::entry::Entry;
use agent_roundtable::record::model::RunOutcome;
use std::collections::BTreeMap;

#[derive(Clone, Default)]
pub struct Coverage {
    counts: BTreeMap<(&'static str, String), u64>,
}

/// Codes that no schedule may bring out: the engine's own faults.
const NEVER: &[&str] = &["internal"];

const CODES: &[&str] = &[
    "invalid-config",
    "invalid-selection",
    "busy",
    "conflict",
    "disposed",
    "stale-claim",
    "recovery-required",
    "model-call-limit",
    "invalid-record",
    "not-found",
    "unavailable",
];

const ENTRIES: &[&str] = &[
    "created/1",
    "run-started/1",
    "selecting/1",
    "selected/1",
    "group-started/1",
    "turn-started/1",
    "turn-settled/1",
    "turn-prepared/1",
    "turn-failed/1",
    "turn-stopped/1",
    "turn-unsettled/1",
    "late-result/1",
    "group-committed/1",
    "answered/1",
    "withdrawn/1",
    "input-accepted/1",
    "call-admitted/1",
    "usage-reported/1",
    "execution-recorded/1",
    "reconciled/1",
    "run-ended/1",
];

const OUTCOMES: &[&str] = &[
    "completed",
    "failed",
    "limited turns",
    "limited time",
    "limited model-calls",
    "limited tokens",
    "cancelled",
    "waiting",
];

/// Where processes of sessions die: around every kind of record, the answers of people, what is saved, and the
/// deed outside itself.
const CRASH_POINTS: &[&str] = &[
    "execution-start",
    "model-request",
    "model-response",
    "model-failure",
    "tool-intent",
    "tool-result",
    "answer",
    "answered",
    "withdrawn",
    "result saved",
    "private state saved",
    "reconciled",
    "deed",
];

/// The crash points that a batch stands for.
pub fn crash_points(entries: &[String]) -> Vec<String> {
    let point = |line: &String| {
        let entry: serde_json::Value = serde_json::from_str(line).ok()?;
        let (kind, body) = entry.as_object()?.iter().find(|(kind, _)| kind.contains('/'))?;
        Some(match kind.as_str() {
            "execution-recorded/1" => body["record"]["kind"].as_str()?.to_owned(),
            "turn-settled/1" => "result saved".to_owned(),
            "turn-prepared/1" => "private state saved".to_owned(),
            other => other.trim_end_matches("/1").to_owned(),
        })
    };
    entries.iter().filter_map(point).collect()
}

impl Coverage {
    pub fn entry(&mut self, entry: &Entry) {
        let value = serde_json::to_value(entry).unwrap();
        let kind = value.as_object().and_then(|members| members.keys().next().cloned()).unwrap();
        self.count("entry", kind);
    }

    pub fn outcome(&mut self, outcome: &RunOutcome) {
        let value = serde_json::to_value(outcome).unwrap();
        let status = value["status"].as_str().unwrap();
        let name = match outcome {
            RunOutcome::Limited { .. } => format!("{status} {}", value["reason"].as_str().unwrap()),
            _ => status.to_owned(),
        };
        self.count("outcome", name);
    }

    pub fn code(&mut self, code: Code) {
        let name = serde_json::to_value(code).unwrap().as_str().unwrap().to_owned();
        self.count("code", name);
    }

    pub fn code_named(&mut self, name: &str) {
        self.count("code", name.to_owned());
    }

    pub fn fault(&mut self, fault: Fault) {
        self.count("fault", format!("{fault:?}"));
    }

    /// Anything else worth a line: what kinds of schedule there were.
    pub fn note(&mut self, what: &str) {
        self.count("schedule", what.to_owned());
    }

    /// A process died before or after something.
    pub fn crash(&mut self, side: &str, point: &str) {
        self.count("crash", format!("{side} {point}"));
    }

    /// The crash points of sessions at which no process died.
    pub fn missing_crashes(&self) -> Vec<String> {
        let sides = CRASH_POINTS.iter().flat_map(|point| ["before", "after"].map(|side| format!("{side} {point}")));
        sides.filter(|name| !self.counts.contains_key(&("crash", name.clone()))).collect()
    }

    /// Those of these notes that were never made.
    pub fn missing_notes(&self, names: &[&str]) -> Vec<String> {
        let zero = |name: &&&str| !self.counts.contains_key(&("schedule", (**name).to_owned()));
        names.iter().filter(zero).map(|name| (*name).to_owned()).collect()
    }

    pub fn add(&mut self, other: &Coverage) {
        for (key, count) in &other.counts {
            *self.counts.entry(key.clone()).or_default() += count;
        }
    }

    /// What should have occurred and did not.
    pub fn missing(&self) -> Vec<String> {
        let faults: Vec<String> = Fault::ALL.iter().map(|fault| format!("{fault:?}")).collect();
        let named = |area: &'static str, names: &[&str]| names.iter().map(|n| (area, (*n).to_owned())).collect();
        let wanted: [Vec<(&'static str, String)>; 4] = [
            named("entry", ENTRIES),
            named("outcome", OUTCOMES),
            named("code", CODES),
            faults.into_iter().map(|name| ("fault", name)).collect(),
        ];
        let zero = |key: &(&'static str, String)| !self.counts.contains_key(key);
        wanted.into_iter().flatten().filter(zero).map(|(area, name)| format!("{area} {name}")).collect()
    }

    /// What occurred although it never may.
    pub fn forbidden(&self) -> Vec<String> {
        let seen = |name: &&&str| self.counts.contains_key(&("code", (**name).to_string()));
        NEVER.iter().filter(seen).map(|name| format!("code {name}")).collect()
    }

    pub fn table(&self) -> String {
        let mut out = String::new();
        for ((area, name), count) in &self.counts {
            out.push_str(&format!("{area:<9} {name:<24} {count:>9}\n"));
        }
        out
    }

    fn count(&mut self, area: &'static str, name: String) {
        *self.counts.entry((area, name)).or_default() += 1;
    }
}
