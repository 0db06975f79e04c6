//! The group that most of these tests begin with.

use crate::support::{Instant, config, speak, thrown};
use agent_roundtable::conversation::Effect;
use agent_roundtable::conversation::effect::Reply;
use agent_roundtable::conversation::error::Thrown;
use agent_roundtable::conversation::input::{CallId, Request, SessionTraits};
use agent_roundtable::record::model::{Id, Outcome, RunOutcome, Selection};

/// Both agents in one group, running; the call of that run and the two attempts, `bo`'s first.
pub fn group(extra: &str) -> (Instant, CallId, Id, Id) {
    group_of(extra, SessionTraits { can_resume: true, can_checkpoint: false })
}

/// The same with a participant of these traits.
pub fn group_of(extra: &str, traits: SessionTraits) -> (Instant, CallId, Id, Id) {
    let concurrent = r#","selector":{},"maxConcurrentParticipants":2"#;
    let mut host = Instant::new(config(&format!("{concurrent}{extra}")), Box::new(|_| speak("again")));
    host.traits = traits;
    host.decisions.push_back(Selection::Parallel { participant_ids: ["bo".into(), "ana".into()].into() });
    // The selector answers at once, the members wait for the test.
    let call = host.start_held(Request::Run { limits: None });
    let (bo, ana) = (host.running[0].clone(), host.running[1].clone());
    (host, call, bo, ana)
}

/// How a run ended, once its call is answered.
pub fn outcome(host: &mut Instant, call: CallId) -> RunOutcome {
    let Some(Ok(Reply::Ran { outcome, .. })) = host.replies.remove(&call) else { panic!("{:?}", host.replies) };
    outcome
}

/// What a member that heeds its signal gives.
pub fn aborted() -> Result<Outcome, Thrown> {
    Err(Thrown { is_abort: true, ..thrown("aborted") })
}

/// How many signals have fired.
pub fn aborts(host: &Instant) -> usize {
    host.count(|e| matches!(e, Effect::Abort { .. }))
}
