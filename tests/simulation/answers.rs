//! What people do: they answer, repeat themselves, contradict themselves, come too late and speak unasked.

use crate::host::{CallResult, SimHost};
use crate::rival::answer;
use crate::script;
use agent_roundtable::conversation::error::Code;
use agent_roundtable::conversation::input::Request;
use agent_roundtable::record::model::{self, Id, InputResponse, RequestKind, Response};
use std::rc::Rc;

/// Answers some of the open requests, well and badly.
pub async fn give(host: &SimHost) {
    let rng = host.world.rng.clone();
    let mut requests = host.mirror.borrow().requests.clone();
    while !requests.is_empty() {
        let request = requests.swap_remove(rng.below(requests.len()));
        if rng.chance(200) {
            continue;
        }
        if rng.chance(200) {
            misfire(host, &request).await;
        }
        if rng.chance(100) {
            withdraw(host, &request).await;
            continue;
        }
        let call = reply_to(host, &request);
        let first = settle(host, call.clone()).await;
        if rng.chance(300) {
            repeat(host, call, &first).await;
        }
    }
}

/// Answers every open request; each must be taken.
pub async fn give_all(host: &SimHost) {
    let requests = host.mirror.borrow().requests.clone();
    for request in requests {
        let call = reply_to(host, &request);
        let result = settle(host, call.clone()).await;
        host.world.demand(result.is_ok(), || format!("an honest answer is refused: {call:?}: {result:?}"));
    }
}

/// Unprompted input, mostly well formed.
pub async fn speak_up(host: &SimHost) {
    let (world, rng) = (&host.world, &host.world.rng);
    let people: Vec<Id> = world.plan.roles.iter().filter(|r| r.is_external).map(|r| r.id.clone()).collect();
    let participant_id = match people.is_empty() || rng.chance(100) {
        true => rng.pick(&[world.plan.roles[0].id.clone(), "nobody".into()]).clone(),
        false => rng.pick(&people).clone(),
    };
    let seen = host.mirror.borrow().revision;
    let expected_revision = if rng.chance(150) { rng.between(0, seen + 2) } else { seen };
    let call = Request::SubmitInput {
        participant_id,
        input_id: fresh(host, "input"),
        expected_revision,
        content: format!("Unasked {}", world.secret()).into(),
        reply_to: None,
        by: rng.chance(200).then(|| "somebody".into()),
    };
    let first = settle(host, call.clone()).await;
    if rng.chance(300) {
        repeat(host, call, &first).await;
    }
}

/// Calls while a run works: they are refused as busy, or repeat what was answered.
pub fn interrupt(host: &SimHost) {
    let host = host.clone();
    host.world.executor.clone().spawn(async move {
        let world = &host.world;
        world.executor.sleep(world.pause_ms()).await;
        match world.rng.below(3) {
            0 => speak_up(&host).await,
            1 => give(&host).await,
            _ => script::run_unless_busy(&host).await,
        }
    });
}

fn reply_to(host: &SimHost, request: &model::Request) -> Request {
    let rng = &host.world.rng;
    let expected_revision = host.mirror.borrow().revision;
    if request.kind == RequestKind::Input && rng.chance(500) {
        return Request::SubmitInput {
            participant_id: request.participant_id.clone(),
            input_id: fresh(host, "input"),
            expected_revision,
            content: format!("Reply {}", host.world.secret()).into(),
            reply_to: Some(request.id.clone()),
            by: None,
        };
    }
    let declines = request.kind == RequestKind::Input && rng.chance(150);
    let response = match declines {
        true => Response::Input(InputResponse::Declined { declined: true, reason: None }),
        false => answer(&host.world, request.kind),
    };
    Request::Resume {
        request_id: request.id.clone(),
        response_id: fresh(host, "response"),
        expected_revision,
        response,
        by: None,
    }
}

async fn withdraw(host: &SimHost, request: &model::Request) {
    let call = Request::Withdraw {
        request_id: request.id.clone(),
        expected_revision: host.mirror.borrow().revision,
        by: "operator".into(),
        reason: "Not needed".into(),
    };
    settle(host, call).await.err();
}

/// An answer of the wrong kind, by the wrong person, to nothing, or built on what is long past.
async fn misfire(host: &SimHost, request: &model::Request) {
    let rng = &host.world.rng;
    let call = match (rng.below(4), reply_to(host, request)) {
        (0, Request::Resume { response_id, expected_revision, response, by, .. }) => {
            let request_id: Id = "no-such-request".into();
            Request::Resume { request_id, response_id, expected_revision, response, by }
        }
        (0 | 1, Request::SubmitInput { input_id, expected_revision, content, reply_to, by, .. }) => {
            let participant_id: Id = "nobody".into();
            Request::SubmitInput { participant_id, input_id, expected_revision, content, reply_to, by }
        }
        (1, Request::Resume { request_id, response_id, expected_revision, by, .. }) => {
            let response = match request.kind {
                RequestKind::Input => Response::Approval { approved: true, reason: None },
                _ => Response::Input(InputResponse::Said { content: "words".into() }),
            };
            Request::Resume { request_id, response_id, expected_revision, response, by }
        }
        (_, Request::Resume { request_id, response_id, response, by, .. }) => {
            let expected_revision = beyond(host);
            Request::Resume { request_id, response_id, expected_revision, response, by }
        }
        (_, Request::SubmitInput { participant_id, input_id, content, reply_to, by, .. }) => {
            let expected_revision = beyond(host);
            Request::SubmitInput { participant_id, input_id, expected_revision, content, reply_to, by }
        }
        (_, other) => other,
    };
    let result = settle(host, call.clone()).await;
    host.world.demand(result.is_err(), || format!("C22: {call:?} is taken: {result:?}"));
}

/// A revision that nobody can have seen.
fn beyond(host: &SimHost) -> u64 {
    host.world.store.borrow().revision() + 1_000
}

/// The same again gives the same receipt; something else under the same id is a conflict.
async fn repeat(host: &SimHost, call: Request, first: &CallResult) {
    let again = settle(host, call.clone()).await;
    if let (Ok(first), Ok(again)) = (first, &again) {
        host.world.demand(first == again, || format!("C21: {first:?} became {again:?}"));
    }
    let changed: Rc<str> = "Something else".into();
    let contradiction = match call {
        Request::SubmitInput { participant_id, input_id, expected_revision, reply_to, by, .. } => {
            Request::SubmitInput { participant_id, input_id, expected_revision, content: changed, reply_to, by }
        }
        Request::Resume { request_id, response_id, expected_revision, by, .. } => {
            let response = Response::Input(InputResponse::Said { content: changed });
            Request::Resume { request_id, response_id, expected_revision, response, by }
        }
        other => other,
    };
    if first.is_ok() {
        let result = settle(host, contradiction.clone()).await;
        host.world.demand(result.is_err(), || format!("C21: a contradiction is taken: {contradiction:?}"));
    }
}

async fn settle(host: &SimHost, request: Request) -> CallResult {
    let (_, settled) = host.call(request);
    let result = settled.wait().await;
    if let Err(error) = &result {
        host.world.demand(error.code != Code::Internal, || format!("an internal error: {error}"));
    }
    result
}

fn fresh(host: &SimHost, kind: &str) -> Id {
    format!("{kind}-{}", host.world.number()).into()
}
