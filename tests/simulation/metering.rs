//! How members and selectors call models: admitted first, reported afterwards, now and then wrongly.

use crate::faults::Fault;
use crate::host::{Attempt, SimHost, TicketResult};
use crate::member::thrown;
use crate::recording;
use agent_roundtable::conversation::effect::ServiceRefusal;
use agent_roundtable::conversation::error::{Code, Thrown};
use agent_roundtable::record::model::Id;
use agent_roundtable::record::usage::{CallOutcome, ModelCall, Provenance, Tokens, UsageReport};
use std::rc::Rc;

/// Some model calls on an attempt's account; an error is what the member rejects with.
pub async fn spend(host: &SimHost, attempt: &Rc<Attempt>, at_most: u64) -> Result<(), Thrown> {
    let (world, rng) = (&host.world, &host.world.rng);
    for _ in 0..rng.between(0, at_most) {
        world.executor.sleep(world.pause_ms()).await;
        if rng.chance(150) {
            cache_hit(host, attempt).await;
            continue;
        }
        let call = ModelCall {
            call_id: format!("call-{}", world.number()).into(),
            provider_id: "sim".into(),
            model_id: rng.pick(&["small", "large"]).to_string().into(),
        };
        if rng.chance(100) {
            // Then asked for once more, which is granted as it was.
            recording::together(host, attempt, call.clone()).await;
        }
        match host.admit(&attempt.id, call.clone()).wait().await {
            Ok(()) => {}
            Err(refusal) => {
                note(host, &Err(refusal.clone()));
                if rng.chance(800) {
                    return Err(refused(&refusal));
                }
                continue;
            }
        }
        world.demand(world.shadow.borrow().ledger.calls.contains_key(&call.call_id), || {
            format!("C38: {} is admitted before its reservation is durable", call.call_id)
        });
        if rng.chance(150) {
            repeat(host, attempt, &call).await;
        }
        world.executor.sleep(world.pause_ms()).await;
        settle(host, attempt, &call).await;
    }
    Ok(())
}

/// C38: the same admission again is granted, another identity under its id is a conflict.
async fn repeat(host: &SimHost, attempt: &Rc<Attempt>, call: &ModelCall) {
    let again = host.admit(&attempt.id, call.clone()).wait().await;
    note(host, &again);
    let other = ModelCall { model_id: "another".into(), ..call.clone() };
    let conflict = host.admit(&attempt.id, other).wait().await;
    note(host, &conflict);
    host.world.demand(conflict.is_err(), || "C38: another identity under a used id".to_owned());
}

/// Reports a call: in one go, in two, twice the same, later, or not at all.
async fn settle(host: &SimHost, attempt: &Rc<Attempt>, call: &ModelCall) {
    let (world, rng) = (&host.world, &host.world.rng);
    let report = report(host, &call.call_id, rng.chance(700));
    if world.strikes(Fault::ForeignReport) {
        let stranger: Id = "attempt-of-nobody".into();
        let foreign = host.report(&stranger, report.clone()).wait().await;
        world.demand(foreign.is_err(), || "C40: nobody reports for another".to_owned());
        let unknown = UsageReport { call_id: format!("never-{}", world.number()).into(), ..report.clone() };
        let refused = host.report(&attempt.id, unknown).wait().await;
        world.demand(refused.is_err(), || "C39: a report needs an admission".to_owned());
    }
    if world.strikes(Fault::LateService) {
        return later(host, attempt, call, report);
    }
    if rng.chance(100) {
        return;
    }
    let first = host.report(&attempt.id, report.clone()).wait().await;
    note(host, &first);
    if first.is_ok() && rng.chance(200) {
        let again = host.report(&attempt.id, report.clone()).wait().await;
        note(host, &again);
    }
    if first.is_ok() && rng.chance(300) {
        let other = UsageReport { tokens: Some(tokens(host)), r#final: true, ..report.clone() };
        let changed = other != report;
        let second = host.report(&attempt.id, other).wait().await;
        note(host, &second);
        world.demand(!(report.r#final && changed && second.is_ok()), || {
            format!("C39: the final report of {} was replaced", call.call_id)
        });
    }
}

/// The attempt goes on, and its services are used long after.
fn later(host: &SimHost, attempt: &Rc<Attempt>, call: &ModelCall, report: UsageReport) {
    let (host, attempt, call) = (host.clone(), attempt.clone(), call.clone());
    host.world.executor.clone().spawn(async move {
        let world = &host.world;
        world.executor.sleep(world.rng.between(1, 100 * world.plan.pace_ms)).await;
        let was_closed = attempt.is_closed.get();
        if world.rng.chance(300) {
            let admission = ModelCall { call_id: format!("late-{}", world.number()).into(), ..call };
            let late = host.admit(&attempt.id, admission).wait().await;
            world.demand(!(was_closed && late.is_ok()), || "C40: a late admission is refused".to_owned());
        }
        let reported = host.report(&attempt.id, report).wait().await;
        note(&host, &reported);
    });
}

async fn cache_hit(host: &SimHost, attempt: &Rc<Attempt>) {
    let call_id: Id = format!("hit-{}", host.world.number()).into();
    let hit = UsageReport {
        outcome: CallOutcome::CacheHit,
        provider_id: Some("sim".into()),
        model_id: Some("small".into()),
        ..report(host, &call_id, true)
    };
    note(host, &host.report(&attempt.id, hit).wait().await);
}

fn report(host: &SimHost, call_id: &Id, is_final: bool) -> UsageReport {
    let rng = &host.world.rng;
    UsageReport {
        call_id: call_id.clone(),
        outcome: *rng.pick(&[CallOutcome::Completed, CallOutcome::Completed, CallOutcome::Failed]),
        provenance: *rng.pick(&[Provenance::Reported, Provenance::Estimated]),
        tokens: rng.chance(800).then(|| tokens(host)),
        raw: None,
        r#final: is_final,
        provider_id: None,
        model_id: None,
    }
}

fn tokens(host: &SimHost) -> Tokens {
    let rng = &host.world.rng;
    Tokens { input: Some(rng.between(0, 60)), output: Some(rng.between(0, 30)), ..Tokens::default() }
}

fn refused(refusal: &ServiceRefusal) -> Thrown {
    match refusal {
        ServiceRefusal::Aborted => Thrown { is_abort: true, ..thrown("stopped before the call") },
        ServiceRefusal::Refused(error) => {
            Thrown { is_refused_admission: error.code == Code::ModelCallLimit, ..thrown(&error.message) }
        }
    }
}

fn note(host: &SimHost, result: &TicketResult) {
    if let Err(ServiceRefusal::Refused(error)) = result {
        host.world.coverage.borrow_mut().code(error.code);
    }
}
