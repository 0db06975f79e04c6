//! How participants behave: they speak, yield and wait, call models, obey their signal or do not.

use crate::executor::{First, race};
use crate::faults::Fault;
use crate::host::{Attempt, SimHost};
use crate::plan::{CHECKPOINT_VERSION, Role};
use crate::{crash, metering, recording};
use agent_roundtable::conversation::effect::TurnView;
use agent_roundtable::conversation::error::{Thrown, UnsettledTurn};
use agent_roundtable::conversation::input::{Request, SessionId, SessionTraits};
use agent_roundtable::record::model::{
    Checkpoint, Decision, Id, Outcome, ParticipantRequest, ParticipantResponse, RequestKind, StopReason,
};
use agent_roundtable::value::{CanonicalJson, Json};
use std::cell::Cell;
use std::rc::Rc;

/// Opens a session; its traits, and the steps it has gone.
pub async fn open(
    host: &SimHost,
    participant: usize,
    checkpoint: Option<Checkpoint>,
) -> Result<(SessionTraits, u64), Thrown> {
    let (world, role) = (&host.world, &host.world.plan.roles[participant]);
    world.executor.sleep(world.pause_ms()).await;
    world.demand(checkpoint.is_none() || role.has_checkpoint, || "C33: a checkpoint nobody gave".to_owned());
    if world.strikes(Fault::OpenFailed) {
        world.excuse(&world.excuses.session_refused);
        return Err(thrown("the session does not open"));
    }
    let steps = world.script().map_or(0, |_| crash::steps_of(checkpoint.as_ref()));
    Ok((SessionTraits { can_resume: role.can_continue, can_checkpoint: role.has_checkpoint }, steps))
}

pub async fn checkpoint(host: &SimHost, session: SessionId) -> Result<Checkpoint, Thrown> {
    let world = &host.world;
    world.executor.sleep(world.pause_ms()).await;
    if world.script().is_some() {
        return Ok(private_state_of(CHECKPOINT_VERSION, host.session(session).unwrap().steps.get()));
    }
    let bad = world.strikes(Fault::BadCheckpoint);
    if bad && world.rng.chance(500) {
        return Err(thrown("no checkpoint today"));
    }
    let steps = host.session(session).map_or(0, |session| session.steps.get());
    Ok(private_state(host, if bad { "sim/0" } else { CHECKPOINT_VERSION }, steps))
}

/// The private state of a member that has gone so many steps; each adds itself.
pub fn private_state_of(version: &str, steps: u64) -> Checkpoint {
    let data = CanonicalJson::of(&Json::Number(steps as f64));
    Checkpoint { version: version.into(), append: Some(vec![data.clone()]), data }
}

/// Private state with a canary in the head and, sometimes, in what it appends.
pub fn private_state(host: &SimHost, version: &str, steps: u64) -> Checkpoint {
    let secret = || CanonicalJson::of(&Json::String(host.world.secret()));
    let append = host.world.rng.chance(500).then(|| (0..steps % 3).map(|_| secret()).collect());
    Checkpoint { version: version.into(), data: secret(), append }
}

/// One attempt, from its start or from its answers.
pub async fn contribute(
    host: &SimHost,
    session: SessionId,
    turn: Rc<TurnView>,
    responses: Option<Vec<ParticipantResponse>>,
) -> Result<Outcome, Thrown> {
    let attempt = host.attempt(&turn.attempt_id);
    let world = &host.world;
    let Some(session) = host.session(session) else {
        world.fail(format!("attempt {} runs in a session that is not open", attempt.id));
        return Err(thrown("no session"));
    };
    world.demand(session.participant == turn.participant, || "a session of another participant".to_owned());
    if world.script().is_none() {
        session.steps.set(session.steps.get() + 1);
    }
    let role = world.plan.roles[turn.participant].clone();
    let known = host.mirror.borrow().messages.len();
    let unknown = turn.messages.iter().any(|position| *position >= known);
    world.demand(!unknown, || format!("{} is shown a message that observers were not told of", role.id));
    world.demand(responses.as_ref().is_none_or(|answers| !answers.is_empty()), || "C27: no answers".to_owned());
    if world.strikes(Fault::MemberHung) {
        world.log(|| format!("{} hangs", role.id));
        return hang(host, &attempt, &role).await;
    }
    match race(work(host, &attempt, &role, &turn.turn_id, &session.steps), attempt.signal.wait()).await {
        First::Left(outcome) => outcome,
        First::Right(reason) => obey(host, &role, reason).await,
    }
}

async fn work(
    host: &SimHost,
    attempt: &Rc<Attempt>,
    role: &Role,
    turn: &Id,
    steps: &Cell<u64>,
) -> Result<Outcome, Thrown> {
    let world = &host.world;
    if world.strikes(Fault::MemberThrew) {
        return Err(thrown("a fault of its own"));
    }
    world.executor.sleep(world.pause_ms()).await;
    if role.is_metered {
        metering::spend(host, attempt, world.plan.calls_per_attempt).await?;
    }
    recording::keep(host, attempt, turn).await;
    call_back(host).await;
    world.executor.sleep(world.pause_ms()).await;
    if world.strikes(Fault::MemberThrew) {
        return Err(thrown("a late fault of its own"));
    }
    if let Some(script) = world.script() {
        script.perform(world, role, steps.get());
        world.executor.sleep(world.pause_ms()).await;
        let (outcome, after) = script.outcome(role, steps.get(), &world.people());
        steps.set(after);
        return Ok(outcome);
    }
    Ok(outcome(host, role))
}

/// What the host says of a turn whose outcome is unknown: mostly that it should run again.
pub fn decision(host: &SimHost, turn: &UnsettledTurn) -> Decision {
    let (world, rng) = (&host.world, &host.world.rng);
    let role = world.plan.roles.iter().find(|role| role.id == turn.participant_id).unwrap();
    match rng.below(5) {
        0 => Decision::Fail { message: format!("given up {}", world.secret()).into() },
        1 | 2 if role.has_checkpoint => {
            let outcome = turn.outcome.clone().filter(|outcome| !matches!(outcome, Outcome::Failed { .. }));
            let outcome = outcome.unwrap_or(Outcome::Speak { content: format!("found {}", world.secret()).into() });
            Decision::Settle { outcome, checkpoint: Some(private_state(host, CHECKPOINT_VERSION, 1)) }
        }
        _ => Decision::Retry,
    }
}

/// What an attempt comes to when nothing stops it.
fn outcome(host: &SimHost, role: &Role) -> Outcome {
    let world = &host.world;
    if world.strikes(Fault::MemberFailed) {
        return Outcome::Failed { message: format!("cannot {}", world.secret()).into() };
    }
    let waits = !world.faults.is_silent() && world.rng.chance(world.plan.waits_per_mille);
    if waits && role.can_continue {
        return wait(host);
    }
    if world.rng.chance(30) && world.strikes(Fault::BadWait) {
        return Outcome::Wait { requests: Vec::new() };
    }
    if world.rng.chance(150) {
        return Outcome::Yield;
    }
    Outcome::Speak { content: format!("{} says {}", role.id, world.secret()).into() }
}

fn wait(host: &SimHost) -> Outcome {
    let (world, rng) = (&host.world, &host.world.rng);
    let people: Vec<Id> = world.plan.roles.iter().filter(|r| r.is_external).map(|r| r.id.clone()).collect();
    let mut requests: Vec<ParticipantRequest> = (0..rng.between(1, 3)).map(|_| ask(host, &people)).collect();
    if world.strikes(Fault::BadWait) {
        match rng.below(3) {
            0 => requests.push(requests[0].clone()),
            1 => requests[0].id = "".into(),
            _ => requests[0].participant_id = Some("nobody".into()),
        }
    }
    Outcome::Wait { requests }
}

fn ask(host: &SimHost, people: &[Id]) -> ParticipantRequest {
    let (world, rng) = (&host.world, &host.world.rng);
    let id: Id = format!("request-{}", world.number()).into();
    let reason: Rc<str> = format!("Needs {}", world.secret()).into();
    if !people.is_empty() && rng.chance(500) {
        let participant_id = Some(rng.pick(people).clone());
        return ParticipantRequest { id, reason, kind: RequestKind::Input, participant_id, data: None };
    }
    let kind = *rng.pick(&[RequestKind::Approval, RequestKind::Reconciliation]);
    let data = Some(CanonicalJson::of(&Json::String(world.secret())));
    ParticipantRequest { id, reason, kind, participant_id: None, data }
}

/// After its signal: most stop at once, some later, some return a result all the same.
async fn obey(host: &SimHost, role: &Role, reason: StopReason) -> Result<Outcome, Thrown> {
    let world = &host.world;
    if world.rng.chance(300) {
        world.executor.sleep(world.pause_ms()).await;
    }
    if world.strikes(Fault::SignalIgnored) {
        return Ok(outcome(host, role));
    }
    if world.strikes(Fault::RudeStop) {
        return Err(thrown("fell over while stopping"));
    }
    Err(Thrown { is_abort: true, ..thrown(&format!("stopped: {reason:?}")) })
}

/// Says nothing until long after its signal; for ever only where the host bounds it.
async fn hang(host: &SimHost, attempt: &Rc<Attempt>, role: &Role) -> Result<Outcome, Thrown> {
    let world = &host.world;
    attempt.signal.wait().await;
    let bound = world.shadow.borrow().limits.and_then(|limits| limits.settle_timeout_ms);
    match bound {
        Some(_) if world.rng.chance(300) => std::future::pending().await,
        Some(ms) => world.executor.sleep(ms + world.rng.between(1, 50 * world.plan.pace_ms)).await,
        None => world.executor.sleep(world.pause_ms()).await,
    }
    if world.rng.chance(700) { Ok(outcome(host, role)) } else { Err(thrown("woke up too late")) }
}

/// Calls of the host's own interface from inside a callback.
async fn call_back(host: &SimHost) {
    let world = &host.world;
    if world.rng.chance(20) {
        let (_, settled) = host.call(Request::Run { limits: None });
        settled.wait().await.err();
    }
    if world.strikes(Fault::DisposedInside) {
        let (_, settled) = host.call(Request::Dispose { inside: true });
        settled.wait().await.err();
    }
}

pub fn thrown(message: &str) -> Thrown {
    Thrown { message: message.into(), code: None, value: None, is_abort: false, is_refused_admission: false }
}
