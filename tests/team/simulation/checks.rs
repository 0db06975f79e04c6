//! What the machine says and does, held to what the shadow read.

use super::host::Call;
use super::shadow::{Next, Shadow, Status};
use super::world::{Check, World, rule};
use agent_roundtable::conversation::error::Code;
use agent_roundtable::record::codec::encode;
use agent_roundtable::team::error::TeamError;
use agent_roundtable::team::outcome::{Outcome, Output};
use agent_roundtable::team::state::Status as Real;
use agent_roundtable::team::turns::Run;
use agent_roundtable::team::{Event, State};
use serde_json::Value;

type Reply = Result<(u64, Option<Outcome>), TeamError>;

/// The state in hand is what was written, and a handle at rest waits for nothing.
pub fn durable(world: &mut World, host: usize) -> Check {
    let handle = &world.hosts[host];
    let rests = !handle.calls.is_empty() || handle.timers.is_empty();
    rule(rests, || format!("timers outlive the call: {:?}", handle.timers))?;
    let revision = handle.machine.revision();
    if revision != world.shadow.revision() || revision == handle.compared {
        return Ok(());
    }
    state(&world.shadow, handle.machine.durable(), revision)?;
    world.hosts[host].compared = revision;
    Ok(())
}

pub fn state(shadow: &Shadow, state: &State, revision: u64) -> Check {
    rule(revision == shadow.revision(), || format!("state: revision {revision} of {}", shadow.revision()))?;
    for (real, member) in state.members.iter().zip(&shadow.members) {
        let status = match &real.status {
            Real::Idle => Status::Idle,
            Real::InFlight => Status::InFlight,
            Real::Paused { reason, .. } => Status::Paused(reason.to_string()),
            Real::Failed { code } => Status::Failed(code.to_string()),
        };
        let open = real.turn.as_ref().and_then(|turn| turn.open.as_ref()).map(|(attempt, _)| &**attempt);
        let result = real.result.as_ref().map_or(Value::Null, |result| parsed(result.as_str()));
        let fits = status == member.status
            && open == member.attempt.as_deref()
            && real.turns == member.turns
            && real.queued == member.queued
            && real.triggers == member.triggers
            && result == member.result;
        rule(fits, || format!("state: {real:?} is {member:?}"))?;
    }
    let ids = state.messages.iter().map(|message| &*message.id);
    let due = shadow.messages.iter().map(|message| message.shown["id"].as_str().unwrap_or_default());
    rule(ids.eq(due), || "state: other messages".into())
}

/// A member is called.
pub fn run(world: &mut World, host: usize, run: &Run) -> Check {
    let attempt = world.shadow.attempts.get(&*run.attempt).cloned();
    let attempt = attempt.ok_or_else(|| format!("T21: {} is called and not written down", run.attempt))?;
    let member = &world.shadow.members[run.member];
    let is_open = member.attempt.as_deref() == Some(&*run.attempt) || world.hosts[host].is_disturbed;
    let fits = attempt.member == run.member && *attempt.position == *run.position && attempt.ended.is_none();
    let runs = world.hosts.iter().any(|host| host.runs.contains_key(&*run.attempt));
    rule(fits && is_open && !runs, || format!("T21: {} is called as {:?}", run.position, run.attempt))?;
    let claim = world.store.holder(world.now);
    let holds = claim.is_some_and(|claim| claim.fence == attempt.fence && world.hosts[host].holds(&claim.owner_id));
    rule(holds || world.hosts[host].is_disturbed, || {
        format!("one writer: {} is called without a claim", run.position)
    })?;
    if member.attempt.as_deref() != Some(&*run.attempt) {
        // Another host has gone on under a claim that was taken away.
        return Ok(());
    }
    let shown = world.shadow.check_input(run.member, &run.input)?;
    let newer = world.shadow.messages.len() - member.seen.min(world.shadow.messages.len());
    let rooms = world.plan.rooms_of(run.member);
    let in_rooms = world.shadow.messages[world.shadow.messages.len() - newer..].iter();
    let newer = in_rooms.filter(|message| rooms.iter().any(|(id, _)| *id == message.room)).count();
    rule(run.newer == newer, || format!("{} newer messages, not {newer}", run.newer))?;
    let answers: Vec<&str> = run.answers.iter().map(|answer| &*answer.request.id).collect();
    // What a host says of an uncertain attempt is for functions.
    let is_due = |answered: &&str| run.agent.is_none() || *answered != format!("{}/pause", run.position);
    let due: Vec<&str> = member.answers.iter().map(String::as_str).filter(is_due).collect();
    rule(answers == due, || format!("T14: answers {answers:?}, not {due:?}"))?;
    let plan = &world.plan.members[run.member];
    rule(run.agent.is_some() == plan.is_agent, || "a function is called as an agent".into())?;
    if let Some(agent) = &run.agent {
        let of_others =
            |number: &&usize| **number >= member.consumed && world.shadow.messages[**number].shown["sender"] != plan.id;
        let due: Vec<&Value> =
            shown.iter().filter(of_others).map(|at| &world.shadow.messages[*at].shown["id"]).collect();
        let given = serde_json::to_value(&agent.messages).map_err(|error| error.to_string())?;
        let given: Vec<&Value> = given.as_array().into_iter().flatten().map(|message| &message["id"]).collect();
        rule(due == given, || format!("T2: {} is given {given:?}, not {due:?}", plan.id))?;
    }
    if run.input.contains("\"omitted\"") {
        world.saw("omitted");
    }
    if newer > 0 {
        world.saw("newer messages");
    }
    let earlier = world.shadow.attempts.values().filter(|other| other.position == attempt.position).count();
    if earlier > 1 {
        world.saw("repeated");
    }
    Ok(())
}

/// Observers hear of every batch once, in order, and of what stands in it.
pub fn emission(world: &mut World, host: usize, revision: u64, events: &[Event]) -> Check {
    let emitted = world.hosts[host].emitted;
    rule(revision == emitted + 1, || format!("events of revision {revision} after {emitted}"))?;
    world.hosts[host].emitted = revision;
    let lines: Vec<String> = events.iter().map(encode).collect::<Result<_, _>>()?;
    let written = &world.store.batches[revision as usize - 1].entries;
    rule(*written == lines, || format!("events {lines:?} of revision {revision}, which is {written:?}"))
}

pub fn reply(world: &mut World, host: usize, call: Call, result: &Reply) -> Check {
    let handle = &world.hosts[host];
    match (call, result) {
        (Call::Dispose, Ok((_, None))) => {
            world.saw("disposed");
            let handle = &world.hosts[host];
            rule(handle.runs.is_empty() && handle.tickets.is_empty(), || "reply: disposed of what still runs".into())
        }
        (Call::Second, Err(TeamError::Engine(error))) => {
            rule(matches!(error.code, Code::Busy | Code::Disposed), || format!("reply: {error:?} of a second call"))
        }
        // The first call may have ended in the meantime.
        (Call::Run | Call::Resume | Call::Second, Ok((revision, Some(outcome)))) => {
            let runs = !handle.runs.is_empty() || !handle.tickets.is_empty();
            rule(!runs, || format!("reply: {:?} still run", handle.runs.keys()))?;
            // A claim that was asked for and given up may land later.
            let kept = world.store.holder(world.now).is_some_and(|claim| handle.released.contains(&claim.fence));
            rule(!kept, || "one writer: the claim outlives the call".into())?;
            let lost = handle.returned.iter().find(|attempt| world.shadow.attempts[*attempt].ended.is_none());
            rule(lost.is_none(), || format!("T22: what {lost:?} came to is lost"))?;
            world.judge(*revision, outcome)
        }
        (_, Err(TeamError::Engine(error))) => {
            let what = match error.code {
                Code::StaleClaim => "stale-claim",
                Code::Busy => "busy",
                Code::Unavailable => "unavailable",
                Code::Disposed => "disposed",
                Code::NotFound | Code::Conflict if call == Call::Resume => "refused",
                _ => return Err(format!("reply: {error:?}")),
            };
            let calm = world.plan.roughness == 0 && world.plan.hosts == 1 && !world.quiet;
            let excused = !calm || matches!(what, "disposed" | "refused");
            rule(excused, || format!("reply: {error:?}, though nothing went wrong"))?;
            world.saw(what);
            Ok(())
        }
        _ => Err(format!("reply: {result:?} to {call:?}")),
    }
}

impl World {
    /// A run ends as its record says.
    fn judge(&mut self, revision: u64, outcome: &Outcome) -> Check {
        let moment = self.shadow.moments.get((revision as usize).wrapping_sub(1)).cloned();
        let moment = moment.ok_or_else(|| format!("outcome at revision {revision}, which is not written"))?;
        let (fits, output): (bool, Option<&Output>) = match (outcome, &moment.next) {
            (Outcome::Cancelled, _) => (true, None),
            (Outcome::Completed { output }, Next::Complete) => (true, Some(output)),
            (Outcome::Limited { output }, Next::TurnLimit(_)) => (self.plan.soft, Some(output)),
            (Outcome::Paused { reason, requests, output }, Next::Pause(due)) => {
                let ids: Vec<&str> = requests.iter().map(|request| &*request.id).collect();
                (**reason == **due && ids == moment.requests, Some(output))
            }
            (Outcome::Failed { code, members, output, .. }, next) => {
                let members: Vec<(String, String)> =
                    members.iter().map(|member| (member.id.to_string(), member.code.to_string())).collect();
                let fits = match next {
                    Next::Fail(due) => *code == "TEAM_NODE_FAILED" && *due == members,
                    Next::TurnLimit(id) => {
                        *code == "TEAM_TURN_LIMIT" && !self.plan.soft && members == [(id.clone(), (*code).to_owned())]
                    }
                    _ => false,
                };
                (fits, Some(output))
            }
            _ => (false, None),
        };
        rule(fits, || format!("outcome {outcome:?} where {:?} was due", moment.next))?;
        if let Some(output) = output {
            let result = |agent: &agent_roundtable::team::outcome::Agent| {
                agent.result.as_ref().map_or(Value::Null, |result| parsed(result.as_str()))
            };
            let results: Vec<Value> = output.agents.iter().map(result).collect();
            rule(results == moment.results, || format!("outcome {outcome:?} with other results"))?;
        }
        let what = match outcome {
            Outcome::Completed { .. } => "completed",
            Outcome::Paused { .. } => "paused",
            Outcome::Limited { .. } => "limited",
            Outcome::Cancelled => "cancelled",
            Outcome::Failed { code, .. } => code,
        };
        self.saw(what);
        Ok(())
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}
