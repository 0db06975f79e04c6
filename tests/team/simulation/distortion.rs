//! What a broken machine could show; the checks must notice each.

use super::world;
use agent_roundtable::team::outcome::Outcome;
use agent_roundtable::team::turns::Run;
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distortion {
    CompletionTwice,
    DispatchMissing,
    PositionSkipped,
    BatchReversed,
    OutcomeLost,
    OutcomeOfAnother,
    PausedTurnCompleted,
    InputOfAnotherRoom,
    TriggerMissing,
    ForeignResult,
    RunTwice,
    EmissionTwice,
    EmissionMissing,
    OutcomeChanged,
    ReplyTwice,
    ClaimKept,
    AbortTwice,
    BatchTwice,
}

use Distortion::*;

/// Each with the start of what the checks must say.
const EXPECTED: &[(Distortion, &str)] = &[
    (CompletionTwice, "T15"),
    (DispatchMissing, "T"),
    (PositionSkipped, "T1"),
    (BatchReversed, "T1"),
    (OutcomeLost, "T22"),
    (OutcomeOfAnother, "T22"),
    (PausedTurnCompleted, "T14"),
    (InputOfAnotherRoom, "T8"),
    (TriggerMissing, "T5"),
    (ForeignResult, "T2"),
    (RunTwice, "T21"),
    (EmissionTwice, "events"),
    (EmissionMissing, "events"),
    (OutcomeChanged, "outcome"),
    (ReplyTwice, "reply"),
    (ClaimKept, "one writer"),
    (AbortTwice, "signal"),
    (BatchTwice, "one writer"),
];

impl Distortion {
    /// Lines of a batch as the checks are shown them.
    pub fn lines(self, lines: &[String]) -> Vec<String> {
        let is = |line: &String, name: &str| line.starts_with(&format!("{{\"{name}/1\""));
        let mut shown = lines.to_vec();
        let first = |name: &str| lines.iter().position(|line| is(line, name));
        match (self, first("completed"), first("dispatched")) {
            (CompletionTwice, Some(at), _) => shown.insert(at, lines[at].clone()),
            (DispatchMissing, _, Some(at)) => drop(shown.remove(at)),
            (PositionSkipped, _, Some(at)) => shown[at] = shown[at].replace("/1\"},\"sum", "/2\"},\"sum"),
            (BatchReversed, _, Some(at)) if lines.get(at + 1).is_some_and(|line| is(line, "dispatched")) => {
                shown.swap(at, at + 1);
            }
            (OutcomeLost, Some(at), _) => shown[at] = stopped(&lines[at]),
            (OutcomeOfAnother, Some(at), _) => shown[at] = lines[at].replace("\"summary\":\"", "\"summary\":\"x"),
            (PausedTurnCompleted, ..) => {
                if let Some(at) = first("paused") {
                    shown.insert(at + 1, stopped(&lines[at]));
                }
            }
            _ => {}
        }
        shown
    }

    pub fn run(self, run: &mut Run) {
        let mut input: Value = serde_json::from_str(&run.input).unwrap();
        match self {
            InputOfAnotherRoom => input["messages"].as_array_mut().unwrap().push(json!({ "roomId": "elsewhere" })),
            TriggerMissing => drop(input["messages"].as_array_mut().unwrap().pop()),
            ForeignResult => input["result"] = json!({ "summary": "of another" }),
            _ => return,
        }
        run.input = input.to_string();
    }

    pub fn outcome(self, outcome: &mut Outcome) {
        if let (OutcomeChanged, Outcome::Completed { output }) = (self, &*outcome) {
            *outcome = Outcome::Limited { output: output.clone() };
        }
    }

    pub fn is(self, given: Option<Distortion>) -> bool {
        given == Some(self)
    }
}

/// The same turn, stopped.
fn stopped(line: &str) -> String {
    let event: Value = serde_json::from_str(line).unwrap();
    let body = event.as_object().unwrap().iter().find(|(name, _)| *name != "sum").unwrap().1;
    json!({ "attempt-stopped/1": { "nodeId": body["nodeId"], "position": body["position"] } }).to_string()
}

/// Every distortion is noticed in some early schedule, for the right reason.
pub fn are_noticed() {
    for (distortion, expected) in EXPECTED {
        let first = (0..100).find_map(|seed| world::run(seed, Some(*distortion), false).failure);
        let noticed = first.as_ref().is_some_and(|failure| failure.starts_with(expected));
        assert!(noticed, "{distortion:?} should be noticed as {expected}: {first:?}");
    }
}
