//! Shows that the checks can fail: what the machine decided reaches them distorted, and they must say so.

use crate::schedule::{self, Watch};
use agent_roundtable::conversation::Effect;
use agent_roundtable::conversation::effect::{Reply, TurnView};
use agent_roundtable::conversation::event::EventKind;
use agent_roundtable::record::model::{RunOutcome, StopReason};
use std::rc::Rc;

/// One way in which a broken machine could show itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distortion {
    EmissionMissing,
    EmissionTwice,
    MessagesReversed,
    EventMissing,
    PrivateTextTold,
    IncrementShort,
    IncrementForeign,
    BaseMoved,
    AppendTwice,
    UnknownAttemptRuns,
    UnknownSelectorAsked,
    CheckpointEarly,
    ClaimKept,
    TimerKept,
    ReplyTwice,
    OutcomeChanged,
    ReceiptChanged,
    SessionReleasedTwice,
    SignalUnasked,
}

use Distortion::*;

/// Each with the start of what the checks must say.
const EXPECTED: &[(Distortion, &str)] = &[
    (EmissionMissing, "C18"),
    (EmissionTwice, "C18"),
    (MessagesReversed, "C18"),
    (EventMissing, "C18"),
    (PrivateTextTold, "C54"),
    (IncrementShort, "C12"),
    (IncrementForeign, "C12"),
    (BaseMoved, "C12"),
    (AppendTwice, "C44"),
    (UnknownAttemptRuns, "C44"),
    (UnknownSelectorAsked, "C44"),
    (CheckpointEarly, "C15"),
    (ClaimKept, "C46"),
    (TimerKept, "timers outlive"),
    (ReplyTwice, "call "),
    (OutcomeChanged, ""),
    (ReceiptChanged, "C20"),
    (SessionReleasedTwice, "C37"),
    (SignalUnasked, "C32"),
];

impl Distortion {
    /// What the checks are shown instead of an effect.
    pub fn apply(self, effect: &Effect) -> Vec<Effect> {
        let mut shown = effect.clone();
        match (self, &mut shown) {
            (EmissionMissing, Effect::Emit(emission)) if !emission.completed.is_empty() => return Vec::new(),
            (ClaimKept, Effect::Release { .. }) | (TimerKept, Effect::StopTimer { .. }) => return Vec::new(),
            (EmissionTwice, Effect::Emit(_))
            | (AppendTwice, Effect::Append { .. })
            | (ReplyTwice, Effect::Reply { .. })
            | (SessionReleasedTwice, Effect::ReleaseSession { .. }) => return vec![shown.clone(), shown],
            (MessagesReversed, Effect::Emit(emission)) => {
                for event in &mut emission.events {
                    if let EventKind::Published { messages, .. } = &mut event.kind {
                        messages.reverse();
                    }
                }
            }
            (EventMissing, Effect::Emit(emission)) => drop(emission.events.pop()),
            (PrivateTextTold, Effect::Emit(emission)) => {
                emission.events.iter_mut().for_each(|event| event.at = crate::marks::mark(0).into());
            }
            (IncrementShort, Effect::RunTurn { turn, .. }) => {
                change(turn, |turn| turn.messages = turn.messages.iter().skip(1).copied().collect());
            }
            (IncrementForeign, Effect::RunTurn { turn, .. }) => {
                change(turn, |turn| turn.messages = turn.messages.iter().copied().chain([99]).collect());
            }
            (BaseMoved, Effect::RunTurn { turn, .. }) => change(turn, |turn| turn.base_revision += 1),
            (UnknownAttemptRuns, Effect::RunTurn { turn, .. }) => {
                change(turn, |turn| turn.attempt_id = "attempt-unknown".into());
            }
            (UnknownSelectorAsked, Effect::Select { attempt, .. }) => *attempt = "selection-unknown".into(),
            (CheckpointEarly, Effect::RunTurn { session, turn }) => {
                let early = Effect::TakeCheckpoint { session: *session, attempt: turn.attempt_id.clone() };
                return vec![shown, early];
            }
            (OutcomeChanged, Effect::Reply { result: Ok(Reply::Ran { outcome, .. }), .. }) => {
                *outcome = RunOutcome::Completed { reason: "so it seems".into() };
            }
            (ReceiptChanged, Effect::Reply { result: Ok(Reply::Submitted { revision, .. }), .. }) => *revision += 1,
            (SignalUnasked, Effect::RunTurn { turn, .. }) => {
                let abort = Effect::Abort { attempt: turn.attempt_id.clone(), reason: StopReason::ModelCalls };
                return vec![shown, abort];
            }
            _ => {}
        }
        vec![shown]
    }
}

/// Every distortion is noticed in some early schedule, for the right reason.
pub fn are_noticed() {
    for (distortion, expected) in EXPECTED {
        let watch = Watch { distortion: Some(*distortion), ..Watch::default() };
        let failures = (0..60).filter_map(|seed| schedule::run(seed, watch).failure);
        let first = failures.into_iter().next();
        let noticed = first.as_ref().is_some_and(|failure| failure.starts_with(expected));
        assert!(noticed, "{distortion:?} should be noticed as {expected}: {first:?}");
    }
}

fn change(turn: &mut Rc<TurnView>, by: impl FnOnce(&mut TurnView)) {
    by(Rc::make_mut(turn));
}
