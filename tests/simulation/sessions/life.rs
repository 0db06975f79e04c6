//! What people and the operator do with a conversation of sessions until it is over.

use super::outside::Outside;
use crate::crash;
use crate::host::{CallResult, SimHost};
use crate::world::World;
use agent_roundtable::conversation::effect::Reply;
use agent_roundtable::conversation::error::{Code, UnsettledTurn};
use agent_roundtable::conversation::input::{Input, Request};
use agent_roundtable::driver::Driver;
use agent_roundtable::record::model::{self as record, Decision, Id, InputResponse, RequestKind, Response, RunOutcome};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Runs, answers and reconciles.
pub async fn live(host: &SimHost, lost: &[UnsettledTurn], rough: bool) {
    let (world, outside) = (&host.world, host.world.outside().unwrap());
    reconcile(host, &outside, lost).await;
    for _ in 0..60 {
        answer(host, rough).await;
        if rough && world.rng.chance(200) {
            outside.change_policy(world);
        }
        let (call, settled) = host.call(Request::Run { limits: None });
        if rough && world.rng.chance(500) {
            let host = host.clone();
            world.executor.spawn(async move {
                host.world.executor.sleep(host.world.pause_ms() * host.world.rng.between(0, 8)).await;
                host.input(Input::Aborted { call });
            });
        }
        match settled.wait().await {
            Ok(Reply::Ran { outcome: RunOutcome::Completed { .. }, .. }) => return note(host, "completed"),
            Ok(Reply::Ran { outcome: RunOutcome::Failed { message, code }, .. }) => {
                world.demand(world.may_fail.get(), || format!("S6: nobody gave up: {message}, {code:?}"));
                return note(host, "failed");
            }
            Ok(Reply::Ran { outcome: RunOutcome::Waiting, .. }) => {
                let left = crash::left_running(world);
                world.demand(left.is_empty(), || format!("S9: {left:?} are left, and the run waits"));
                note(host, "waiting");
            }
            Ok(Reply::Ran { outcome: RunOutcome::Cancelled, .. }) => note(host, "cancelled"),
            Err(error) if !error.turns.is_empty() => {
                note(host, "recovery required");
                let listed: BTreeSet<Id> = error.turns.iter().map(|turn| turn.turn_id.clone()).collect();
                let left = crash::left_running(world);
                world.demand(listed == left, || format!("S9: {listed:?} are listed of {left:?}"));
                reconcile(host, &outside, &error.turns).await;
            }
            other => return world.fail(format!("S6: a run gives {other:?}")),
        }
    }
    world.fail("S6: the conversation does not come to an end");
}

fn note(host: &SimHost, what: &str) {
    host.world.coverage.borrow_mut().note(&format!("run {what}"));
}

/// People say yes, say no, take the question back, or keep silent for now; some say everything twice, and now and then
/// somebody else answers at another host at the same moment.
async fn answer(host: &SimHost, rough: bool) {
    let (world, rng) = (&host.world, &host.world.rng);
    let open: Vec<record::Request> = world.shadow.borrow().open_requests();
    for request in open {
        if rough && rng.chance(250) {
            continue;
        }
        let expected_revision = host.mirror.borrow().revision;
        let call = reply(world, &request, expected_revision, "here");
        if rng.chance(250) {
            compete(host, &request, call).await;
            continue;
        }
        let result = host.call(call.clone()).1.wait().await;
        let is_taken = result.is_ok() || is_behind(&result);
        world.demand(is_taken, || format!("S6: an answer is refused: {call:?}: {result:?}"));
        if rng.chance(200) && matches!(call, Request::Resume { .. }) && result.is_ok() {
            let again = host.call(call.clone()).1.wait().await;
            world.demand(again == result, || format!("C28: {result:?} became {again:?}"));
        }
    }
}

/// Whether another host has written what this one has not seen yet; the next run sees it.
fn is_behind(result: &CallResult) -> bool {
    result.as_ref().is_err_and(|error| error.code == Code::Conflict)
}

fn reply(world: &World, request: &record::Request, expected_revision: u64, from: &str) -> Request {
    let (request_id, response_id) = (request.id.clone(), format!("{from} to {}", request.id).into());
    let response = match (request.kind, world.rng.below(10)) {
        (RequestKind::Input, _) => {
            let content = format!("as to {}", request.reason).into();
            Response::Input(InputResponse::Said { content })
        }
        (_, 0) => {
            return Request::Withdraw { request_id, expected_revision, by: "host".into(), reason: "too late".into() };
        }
        (_, 1..=2) => Response::Approval { approved: false, reason: Some("not this".into()) },
        _ => Response::Approval { approved: true, reason: None },
    };
    Request::Resume { response_id, request_id, expected_revision, response, by: None }
}

/// Two hosts answer one request at the same moment: one of them at most does, and the other is told.
async fn compete(host: &SimHost, request: &record::Request, ours: Request) {
    let world = &host.world;
    let name = format!("rival-{}", world.number());
    let rival = SimHost::new(world, &name, true);
    let (machine, _) = crash::open(world, &rival, &world.options, &name);
    let driver = Driver::new(machine, rival.clone());
    rival.bind(&driver);
    for excuse in [&world.excuses.rival_held, &world.excuses.rival_wrote] {
        world.excuse(excuse);
    }
    let theirs = reply(world, request, rival.mirror.borrow().revision, "elsewhere");
    let (here, elsewhere) = (host.call(ours).1, rival.call(theirs).1);
    let (here, elsewhere) = (here.wait().await, elsewhere.wait().await);
    let count = usize::from(here.is_ok()) + usize::from(elsewhere.is_ok());
    world.demand(count <= 1, || format!("C28: two answers to {} are taken", request.id));
    for refused in [&here, &elsewhere].into_iter().filter_map(|result| result.as_ref().err()) {
        let fair = matches!(refused.code, Code::Conflict | Code::Busy | Code::StaleClaim);
        world.demand(fair, || format!("C28: the slower answer is refused as {refused:?}"));
    }
    let winner = if elsewhere.is_ok() { "another host" } else { "this host" };
    world.coverage.borrow_mut().note(&format!("answered by {winner} of two"));
    rival.call(Request::Dispose { inside: false }).1.wait().await.ok();
    for excuse in [&world.excuses.rival_held, &world.excuses.rival_wrote] {
        world.excuse(excuse);
    }
}

/// The operator: once more, mostly; a turn that still cannot go on is given up in the end.
async fn reconcile(host: &SimHost, outside: &Rc<Outside>, lost: &[UnsettledTurn]) {
    let world = &host.world;
    for turn in lost {
        let gives_up = outside.retries(&turn.turn_id) > 3 || world.rng.chance(50);
        let decision = match gives_up {
            true => Decision::Fail { message: "given up".into() },
            false => Decision::Retry,
        };
        world.may_fail.set(world.may_fail.get() || gives_up);
        note(host, if gives_up { "given up" } else { "retried" });
        let expected_revision = host.mirror.borrow().revision;
        let (turn_id, by) = (turn.turn_id.clone(), "operator".into());
        let (_, settled) = host.call(Request::Reconcile { turn_id, expected_revision, by, decision });
        let result = settled.wait().await;
        world.demand(result.is_ok(), || format!("C49: {result:?}"));
    }
}
