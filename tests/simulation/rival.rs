//! Another host at the same record: it takes the claim when it can, may answer or speak, and leaves.

use crate::world::World;
use agent_roundtable::record::codec;
use agent_roundtable::record::entry::{Answered, Door, Entry, InputAccepted, Withdrawn};
use agent_roundtable::record::model::{Id, InputResponse, RequestKind, Response};
use agent_roundtable::record::state::State;
use agent_roundtable::value::CanonicalJson;
use agent_roundtable::value::instant::format_iso;
use std::rc::Rc;

/// Takes the claim now, if it is free, and gives it back after a while.
pub fn visit(world: &Rc<World>) {
    let owner: Id = format!("rival-{}", world.number()).into();
    let (now, lease_ms) = (world.executor.now_ms(), world.plan.lease_ms.min(60_000));
    let Ok(claim) = world.store.borrow_mut().claim(&owner, lease_ms, now) else { return };
    world.log(|| format!("RIVAL holds fence {}", claim.fence));
    world.excuse(&world.excuses.rival_held);
    let task = world.clone();
    world.executor.spawn(async move {
        task.executor.sleep(task.pause_ms().min(lease_ms)).await;
        if task.rng.chance(600) {
            let entries = contribution(&task);
            let (now, revision) = (task.executor.now_ms(), task.store.borrow().revision());
            let operation = format!("rival-{}", task.number());
            if let Some(entries) = entries
                && task.store.borrow_mut().append(&claim, revision, &operation, &entries, now).is_ok()
            {
                task.excuse(&task.excuses.rival_wrote);
                task.coverage.borrow_mut().note("another host wrote");
                task.follow_store();
            }
            task.executor.sleep(task.pause_ms().min(lease_ms)).await;
        }
        task.excuse(&task.excuses.rival_held);
        task.store.borrow_mut().release(&claim);
    });
}

/// One batch that any correct host could write now.
fn contribution(world: &Rc<World>) -> Option<Rc<[String]>> {
    let fold = world.fold.borrow();
    let state = fold.as_ref().filter(|state| state.ended.is_none())?;
    let open = state.open_requests().next().map(|ask| ask.request.clone());
    let entries = match open {
        Some(request) if request.member_id.is_none() => return None,
        Some(request) if world.rng.chance(300) => vec![Entry::Withdrawn(Withdrawn {
            request_id: request.id,
            response_id: fresh(world, "withdrawal"),
            at: now(world),
            by: "rival".into(),
            reason: "No longer needed.".into(),
        })],
        Some(request) => {
            let response = answer(world, request.kind);
            let said = matches!(response, Response::Input(_));
            vec![Entry::Answered(Answered {
                request_id: request.id,
                response_id: fresh(world, "response"),
                via: Door::Resume,
                at: now(world),
                response,
                by: Some("rival".into()),
                message_id: said.then(|| fresh(world, "message")),
            })]
        }
        None => vec![Entry::InputAccepted(input(world, state)?)],
    };
    Some(entries.iter().map(|entry| codec::encode(entry).unwrap()).collect())
}

fn input(world: &Rc<World>, state: &State) -> Option<InputAccepted> {
    let person = state.created.participants.iter().find(|p| p.agent.is_none())?.id.clone();
    let free = state.group.is_none();
    free.then(|| InputAccepted {
        input_id: fresh(world, "input"),
        participant_id: person,
        at: now(world),
        content: format!("From elsewhere {}", world.secret()).into(),
        message_id: fresh(world, "message"),
        group_id: fresh(world, "group"),
        turn_id: fresh(world, "turn"),
        by: None,
    })
}

/// A well-formed answer to a request of this kind.
pub fn answer(world: &World, kind: RequestKind) -> Response {
    match kind {
        RequestKind::Input => {
            Response::Input(InputResponse::Said { content: format!("Answer {}", world.secret()).into() })
        }
        RequestKind::Approval => Response::Approval { approved: world.rng.chance(500), reason: None },
        RequestKind::Reconciliation => {
            Response::Reconciliation { data: CanonicalJson::parse("{\"done\":true}").unwrap() }
        }
    }
}

fn fresh(world: &World, kind: &str) -> Id {
    format!("{kind}-of-rival-{}", world.number()).into()
}

fn now(world: &World) -> Rc<str> {
    format_iso(world.executor.wall_ms()).unwrap().into()
}
