//! What members write down of their executions and read back: in order, stored before it is answered,
//! the same again for nothing, and never after the attempt is over.

use crate::faults::Fault;
use crate::host::{Attempt, SimHost};
use agent_roundtable::conversation::Input;
use agent_roundtable::conversation::effect::ServiceRefusal;
use agent_roundtable::conversation::error::Code;
use agent_roundtable::record::execution::ExecutionRecord;
use agent_roundtable::record::model::Id;
use agent_roundtable::record::usage::ModelCall;
use std::rc::Rc;

/// Some records on an attempt's account; whatever refuses them, the member goes on.
pub async fn keep(host: &SimHost, attempt: &Rc<Attempt>, turn: &Id) {
    let (world, rng) = (&host.world, &host.world.rng);
    if !rng.chance(400) {
        return;
    }
    reread(host, attempt, turn);
    for _ in 0..rng.between(1, 3) {
        let record = record(host);
        if host.record(&attempt.id, record.clone()).wait().await.is_err() {
            return;
        }
        let stored = world.shadow.borrow().records(turn).contains(&record);
        world.demand(stored, || format!("C44: {} is answered before it is stored", record.id));
        reread(host, attempt, turn);
        if rng.chance(200) {
            contradict(host, attempt, &record).await;
        }
        world.executor.sleep(world.pause_ms()).await;
    }
    if world.strikes(Fault::LateService) {
        later(host, attempt);
    }
}

/// A record and an admission at the same moment are in one batch.
pub async fn together(host: &SimHost, attempt: &Rc<Attempt>, call: ModelCall) {
    let record = record(host);
    let (call_id, record_id) = (call.call_id.clone(), record.id.clone());
    let (admission, admitted) =
        host.asked(|ticket| Input::AdmissionAsked { ticket, attempt: attempt.id.clone(), call });
    let (append, recorded) = host.asked(|ticket| Input::RecordAsked { ticket, attempt: attempt.id.clone(), record });
    host.input(Input::Together { inputs: vec![admission, append] });
    let answers = (admitted.wait().await, recorded.wait().await);
    if let (Ok(()), Ok(())) = answers {
        let shadow = host.world.shadow.borrow();
        let revisions = (shadow.brought.get(&call_id), shadow.brought.get(&record_id));
        host.world.demand(revisions.0.is_some() && revisions.0 == revisions.1, || {
            format!("C44: asked for together, stored in {revisions:?}")
        });
        host.world.coverage.borrow_mut().note("record and admission in one batch");
    }
}

/// The engine reads back what the journal says, in its order.
fn reread(host: &SimHost, attempt: &Rc<Attempt>, turn: &Id) {
    for execution in EXECUTIONS {
        let (read, acknowledged) = host.records(&attempt.id, execution);
        let shadow = host.world.shadow.borrow();
        // What was stored and not acknowledged is not shown yet.
        let shown = |r: &&ExecutionRecord| &*r.execution_id == execution && shadow.brought[&r.id] <= acknowledged;
        let kept: Vec<_> = shadow.records(turn).iter().filter(shown).cloned().collect();
        host.world
            .demand(read.as_ref() == Ok(&kept), || format!("C44: {execution} reads {read:?} instead of {kept:?}"));
    }
}

async fn contradict(host: &SimHost, attempt: &Rc<Attempt>, record: &ExecutionRecord) {
    let again = host.record(&attempt.id, record.clone()).wait().await;
    let conflict = matches!(&again, Err(ServiceRefusal::Refused(error)) if error.code == Code::Conflict);
    host.world.demand(!conflict || attempt.is_closed.get(), || format!("C44: the same record again gives {again:?}"));
    let text = record.json.as_str().replace("\"n\":", "\"other\":");
    let other = host.record(&attempt.id, ExecutionRecord::parse(&text).unwrap()).wait().await;
    host.world.demand(other.is_err(), || "C44: other content under a record's id".to_owned());
    host.world.coverage.borrow_mut().code(Code::Conflict);
}

fn later(host: &SimHost, attempt: &Rc<Attempt>) {
    let (host, attempt) = (host.clone(), attempt.clone());
    host.world.executor.clone().spawn(async move {
        host.world.executor.sleep(host.world.rng.between(1, 100 * host.world.plan.pace_ms)).await;
        let was_closed = attempt.is_closed.get();
        let late = host.record(&attempt.id, record(&host)).wait().await;
        host.world.demand(!(was_closed && late.is_ok()), || "C40: a late record is refused".to_owned());
    });
}

const EXECUTIONS: [&str; 2] = ["execution-1", "execution-2"];

fn record(host: &SimHost) -> ExecutionRecord {
    let (world, execution) = (&host.world, host.world.rng.pick(&EXECUTIONS));
    let text = format!(
        "{{\"executionId\":\"{execution}\",\"id\":\"record-{n}\",\"n\":{n},\"secret\":\"{secret}\"}}",
        n = world.number(),
        secret = world.secret()
    );
    ExecutionRecord::parse(&text).unwrap()
}
