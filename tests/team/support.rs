//! A store and a host for one team, all in memory and in one thread.

use agent_roundtable::conversation::effect::Effect as StoreEffect;
use agent_roundtable::conversation::error::{Code, StoreFailure, Thrown};
use agent_roundtable::conversation::input::{Batch, Claim, Now, ReadBatches, Ticket, Timer};
use agent_roundtable::team::error::TeamError;
use agent_roundtable::team::event::{Created, Event, Options};
use agent_roundtable::team::machine::{Effect, Input, Request, Resume, Traits};
use agent_roundtable::team::outcome::Outcome;
use agent_roundtable::team::turns::{Returned, Run};
use agent_roundtable::team::{Definition, Machine};
use agent_roundtable::value::{CanonicalJson, Json};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// What a store keeps of one record.
#[derive(Default)]
pub struct Store {
    pub batches: Vec<Batch>,
    pub fence: u64,
    pub held: bool,
    /// After so many more steps nothing works any more.
    pub fuse: Option<usize>,
    /// Whether the step on which the fuse blows is still done.
    pub done_and_lost: bool,
}

pub type Shared = Rc<RefCell<Store>>;

pub fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub fn canonical(text: &str) -> CanonicalJson {
    CanonicalJson::of(&json(text))
}

/// `nodes` are ids, a leading `-` for one without a first turn; `rooms` as `room:a,b`.
pub fn definition(nodes: &[&str], rooms: &[&str], concurrency: u64, cap: u64, tail: u64) -> String {
    let node = |id: &&str| {
        let (id, initial) = id.strip_prefix('-').map_or((*id, ""), |id| (id, r#","initialTurn":false"#));
        format!(r#"{{"id":"{id}","data":{{"role":"r-{id}","brief":"b-{id}"{initial}}}}}"#)
    };
    let nodes = nodes.iter().map(node).collect::<Vec<_>>().join(",");
    let room = |room: &&str| {
        let (id, members) = room.split_once(':').unwrap();
        let members = members.split(',').filter(|m| !m.is_empty()).map(|m| format!("\"{m}\"")).collect::<Vec<_>>();
        format!(r#"{{"id":"{id}","members":[{}]}}"#, members.join(","))
    };
    let communication = if rooms.is_empty() {
        String::new()
    } else {
        let rooms = rooms.iter().map(room).collect::<Vec<_>>().join(",");
        format!(r#","communication":{{"tailMessages":{tail},"rooms":[{rooms}]}}"#)
    };
    format!(
        r#"{{"id":"t","definitionVersion":1,"data":{{"task":"task","globalConcurrency":{concurrency},"maxTurnsPerMember":{cap}{communication}}},"nodes":[{nodes}],"edges":[]}}"#
    )
}

/// A result with one post for each `room|text|mention,mention`.
pub fn posts(summary: &str, posts: &[&str]) -> Returned {
    let post = |post: &&str| {
        let parts: Vec<&str> = post.split('|').collect();
        let mentions = parts[2].split(',').filter(|m| !m.is_empty()).map(|m| format!("\"{m}\"")).collect::<Vec<_>>();
        format!(r#"{{"roomId":"{}","text":"{}","mentions":[{}]}}"#, parts[0], parts[1], mentions.join(","))
    };
    let posts = posts.iter().map(post).collect::<Vec<_>>().join(",");
    result(&format!(r#"{{"summary":"{summary}","posts":[{posts}]}}"#))
}

pub fn result(text: &str) -> Returned {
    Returned::Result { result: canonical(text), checkpoint: None }
}

pub fn failure(code: &str) -> Returned {
    Returned::Thrown(Thrown {
        message: "boom".into(),
        code: Some(code.into()),
        value: None,
        is_abort: false,
        is_refused_admission: false,
    })
}

/// A handle on a team, and the turns its members have not answered yet.
pub struct Team {
    pub machine: Machine,
    pub store: Shared,
    pub runs: VecDeque<Run>,
    /// Every turn that was called: its position and input.
    pub called: Vec<(String, String)>,
    pub replies: Vec<Result<(u64, Option<Outcome>), TeamError>>,
    pub aborted: Vec<String>,
    /// Settled questions, and whether with leave.
    pub answers: Vec<(Ticket, bool)>,
    clock: f64,
}

impl Team {
    pub fn new(definition: &str, store: &Shared) -> Team {
        Team::with(definition, store, Options::default(), false)
    }

    pub fn with(definition: &str, store: &Shared, options: Options, retry_safe: bool) -> Team {
        let compiled = Rc::new(Definition::compile(&json(definition)).unwrap());
        let created = Created {
            run_id: "run".into(),
            at: "".into(),
            seed: "seed".into(),
            definition: compiled.json.clone(),
            options,
        };
        let traits = vec![Traits { retry_safe, runtime: None }; compiled.members.len()];
        let owner = format!("owner-{}", store.borrow().fence);
        Team {
            machine: Machine::new(created, compiled, traits, owner.as_str().into(), 30_000),
            store: store.clone(),
            runs: VecDeque::new(),
            called: Vec::new(),
            replies: Vec::new(),
            aborted: Vec::new(),
            answers: Vec::new(),
            clock: 1_000.0,
        }
    }

    pub fn input(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.clock += 1.0;
            self.machine.handle_input(Now { wall: self.clock, mono: self.clock }, input);
            while let Some(effect) = self.machine.poll_effect() {
                match effect {
                    Effect::Store(effect) => inputs.extend(self.perform(effect)),
                    Effect::Run(run) => {
                        self.called.push((run.position.to_string(), run.input.clone()));
                        self.runs.push_back(*run);
                    }
                    Effect::Abort { attempt, .. } => self.aborted.push(attempt.to_string()),
                    Effect::Reply { result, .. } => self.replies.push(result),
                    Effect::Answer { ticket, result } => self.answers.push((ticket, result.is_ok())),
                    Effect::GiveUp { .. } | Effect::Emit { .. } => {}
                }
            }
        }
    }

    /// The host's call, up to where members are to answer.
    pub fn call(&mut self, request: Request) {
        self.input(Input::Called { call: 1, request });
    }

    /// The oldest unanswered turn comes back.
    pub fn answer(&mut self, outcome: Returned) {
        let run = self.runs.pop_front().unwrap();
        self.input(Input::Returned { attempt: run.attempt, outcome });
    }

    /// Runs to an outcome; `member` answers by position and input.
    pub fn run(&mut self, mut member: impl FnMut(&Run) -> Returned) -> Outcome {
        self.call(Request::Run);
        self.finish(&mut member)
    }

    pub fn finish(&mut self, mut member: impl FnMut(&Run) -> Returned) -> Outcome {
        while let Some(run) = self.runs.front() {
            let outcome = member(run);
            self.answer(outcome);
        }
        self.reply().unwrap()
    }

    pub fn reply(&mut self) -> Result<Outcome, TeamError> {
        let reply = self.replies.pop().expect("a reply");
        reply.map(|(_, outcome)| outcome.expect("an outcome"))
    }

    pub fn resume(&mut self, position: &str) {
        self.call(Request::Resume(Resume {
            position: Some(position.into()),
            request_id: None,
            response_id: None,
            response: None,
            expected_revision: None,
            by: None,
        }));
    }

    pub fn events(&self) -> Vec<Event> {
        let store = self.store.borrow();
        let lines = store.batches.iter().flat_map(|batch| &batch.entries);
        lines.map(|line| agent_roundtable::record::codec::decode_as(line).unwrap()).collect()
    }

    pub fn positions(&self) -> Vec<&str> {
        self.called.iter().map(|(position, _)| position.as_str()).collect()
    }

    pub fn input_of(&self, position: &str) -> Json {
        json(&self.called.iter().find(|(called, _)| called == position).unwrap().1)
    }

    fn perform(&mut self, effect: StoreEffect) -> Option<Input> {
        let mut store = self.store.borrow_mut();
        let mut lost = false;
        if let Some(fuse) = &mut store.fuse {
            if *fuse == 0 {
                return None;
            }
            *fuse -= 1;
            lost = *fuse == 0;
        }
        if lost && !store.done_and_lost {
            return None;
        }
        let refused = |code| StoreFailure { code: Some(code), message: "refused".into(), value: None };
        let input = match effect {
            StoreEffect::Create { entries, .. } => Input::Created(if store.batches.is_empty() {
                store.batches.push(Batch { revision: 1, operation_id: "create".into(), entries: entries.to_vec() });
                Ok(())
            } else {
                Err(refused(Code::Conflict))
            }),
            StoreEffect::Claim { owner_id, .. } if !store.held => {
                store.fence += 1;
                store.held = true;
                let fence = store.fence;
                Input::Claimed(Ok(Claim { conversation_id: "run".into(), owner_id, fence, expires_at: 0.0 }))
            }
            StoreEffect::Claim { .. } => Input::Claimed(Err(refused(Code::Busy))),
            StoreEffect::Renew { claim, .. } => Input::Renewed { fence: claim.fence, result: Ok(claim) },
            StoreEffect::Release { .. } => {
                store.held = false;
                Input::Released
            }
            StoreEffect::Read { after } => {
                let batches = store.batches.iter().skip(after as usize).cloned().collect();
                Input::Read(Ok(Some(ReadBatches { revision: store.batches.len() as u64, batches })))
            }
            StoreEffect::Append { claim, expected_revision, operation_id, entries, .. } => {
                let revision = store.batches.len() as u64;
                if claim.fence != store.fence || !store.held {
                    Input::Appended(Err(refused(Code::StaleClaim)))
                } else if expected_revision != revision {
                    Input::Appended(Err(refused(Code::Conflict)))
                } else {
                    store.batches.push(Batch { revision: revision + 1, operation_id, entries: entries.to_vec() });
                    Input::Appended(Ok(revision + 1))
                }
            }
            StoreEffect::StartTimer { timer, .. } => {
                assert!(matches!(timer, Timer::Lease | Timer::Retry));
                return None;
            }
            _ => return None,
        };
        if lost { None } else { Some(input) }
    }
}

pub fn output(outcome: &Outcome) -> String {
    let output = match outcome {
        Outcome::Completed { output }
        | Outcome::Paused { output, .. }
        | Outcome::Limited { output }
        | Outcome::Failed { output, .. } => output,
        Outcome::Cancelled => panic!("cancelled"),
    };
    agent_roundtable::value::write::write(output).unwrap()
}

/// Code and failed members of a failed outcome.
pub fn failed(outcome: &Outcome) -> (&'static str, Vec<(String, String)>) {
    match outcome {
        Outcome::Failed { code, members, .. } => {
            (code, members.iter().map(|m| (m.id.to_string(), m.code.to_string())).collect())
        }
        other => panic!("not failed: {other:?}"),
    }
}
