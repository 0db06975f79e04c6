//! Teams for JavaScript. Everything crosses as JSON text; nothing here calls back, so a handle may be
//! used from inside any callback.

use super::conversation::handle::random_id;
use super::conversation::host::{timer, timer_number};
use super::conversation::wire::{self, AppendHead};
use super::crossing::json;
use crate::conversation::effect::{Effect as StoreEffect, ServiceRefusal};
use crate::conversation::error::{Code, RoundtableError};
use crate::conversation::input::{Batch, Now};
use crate::record::execution::ExecutionRecord;
use crate::record::model::{Id, StopReason};
use crate::team::error::TeamError;
use crate::team::event::{Created, Options};
use crate::team::fold::fold;
use crate::team::machine::{Effect, Input, Traits};
use crate::team::outcome::Outcome;
use crate::team::{Definition, Machine};
use crate::value::read::read;
use crate::value::{CanonicalJson, Json};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

/// What the shell has read of a team's options.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Setting {
    run_id: Id,
    seed: Option<Rc<str>>,
    lease_ms: u64,
    settle_timeout_ms: Option<u64>,
    /// Absent where a record is loaded.
    definition: Option<CanonicalJson>,
    options: Option<Options>,
    /// By the order of the definition's members.
    members: Vec<(Id, Traits)>,
}

/// One team.
#[wasm_bindgen]
#[derive(Debug)]
pub struct TeamHandle {
    machine: RefCell<Machine>,
}

#[wasm_bindgen]
impl TeamHandle {
    /// Checks the JSON of the options; `batches` is the JSON of a record to go on with. Throws the JSON of
    /// an error.
    #[wasm_bindgen(constructor)]
    pub fn new(options: &str, batches: Option<String>) -> Result<TeamHandle, JsValue> {
        let machine = open(options, batches.as_deref()).map_err(|error| thrown(&error))?;
        Ok(TeamHandle { machine: RefCell::new(machine) })
    }

    /// Takes the JSON of an input; gives the effects as a JSON array.
    pub fn handle(&self, wall: f64, mono: f64, input: &str) -> Result<String, JsValue> {
        let input: Input = read(input).map_err(|error| thrown(&internal(error.message)))?;
        Ok(self.step(Now { wall, mono }, input))
    }

    /// A timer ran out.
    #[wasm_bindgen(js_name = timerFired)]
    #[must_use]
    pub fn timer_fired(&self, wall: f64, mono: f64, number: u32) -> String {
        timer(number).map_or_else(|| "[]".to_owned(), |timer| self.step(Now { wall, mono }, Input::Timer(timer)))
    }

    /// The last durable revision.
    #[must_use]
    pub fn revision(&self) -> f64 {
        self.machine.borrow().revision() as f64
    }

    /// JSON of the durable state.
    #[must_use]
    pub fn snapshot(&self) -> String {
        let machine = self.machine.borrow();
        json(&machine.durable().snapshot(machine.revision()))
    }

    /// JSON of the durable records of one execution; throws the JSON of an error.
    pub fn records(&self, attempt: &str, execution: &str) -> Result<String, JsValue> {
        let machine = self.machine.borrow();
        let records: Vec<&ExecutionRecord> =
            machine.records(&attempt.into(), execution).map_err(|error| JsValue::from(json(&error)))?;
        Ok(json(&records))
    }

    /// There so that the shell treats all handles alike: what attempts ask is taken at once.
    pub fn ask(&self) {}
}

impl TeamHandle {
    fn step(&self, now: Now, input: Input) -> String {
        let mut machine = self.machine.borrow_mut();
        machine.handle_input(now, input);
        let mut effects = Vec::new();
        while let Some(effect) = machine.poll_effect() {
            effects.extend(effect_json(&machine, &effect));
        }
        format!("[{}]", effects.join(","))
    }
}

/// The canonical JSON of a checked definition; throws the JSON of an error that lists every finding.
#[wasm_bindgen(js_name = compileTeam)]
pub fn compile_team(definition: &str) -> Result<String, JsValue> {
    Ok(compiled(definition).map_err(|error| thrown(&error))?.json.as_str().to_owned())
}

/// JSON of what is wrong with a member's result, or nothing. The definition is one that was compiled.
#[wasm_bindgen(js_name = validateTeamResult)]
pub fn validate_team_result(definition: &str, member: &str, result: &str) -> Result<Option<String>, JsValue> {
    let definition = compiled(definition).map_err(|error| thrown(&error))?;
    let member = position(&definition, member)?;
    let result = Json::parse_enclosing(result).map_err(|error| thrown(&internal(error.message)))?;
    Ok(definition.validate_result(member, &result).map(|issue| json(&issue)))
}

/// The JSON of a result's output as a member may read it.
#[wasm_bindgen(js_name = redactTeamResult)]
pub fn redact_team_result(definition: &str, reader: &str, output: &str) -> Result<String, JsValue> {
    let definition = compiled(definition).map_err(|error| thrown(&error))?;
    let reader = position(&definition, reader)?;
    let output = Json::parse_enclosing(output).map_err(|error| thrown(&internal(error.message)))?;
    Ok(json(&definition.redacted(reader, output)))
}

/// JSON of a record's rooms, from the JSON of its batches; throws the JSON of an error.
#[wasm_bindgen(js_name = renderTeamRooms)]
pub fn render_team_rooms(batches: &str, identity: &str) -> Result<String, JsValue> {
    let rendered = read_batches(batches).and_then(|batches| fold(&batches));
    let (state, revision) = rendered.map_err(|error| thrown(&error))?;
    Ok(json(&state.render_rooms(revision, identity)))
}

/// Ids of a record's members, in declared order, from the JSON of its batches.
#[wasm_bindgen(js_name = teamMembers)]
pub fn team_members(batches: &str) -> Result<String, JsValue> {
    let (state, _) = read_batches(batches).and_then(|batches| fold(&batches)).map_err(|error| thrown(&error))?;
    Ok(json(&(state.definition.members.iter().map(|member| &member.id).collect::<Vec<_>>(), &state.definition.json)))
}

fn open(options: &str, batches: Option<&str>) -> Result<Machine, TeamError> {
    let setting: Setting = read(options).map_err(|error| internal(error.message))?;
    let traits = setting.members.into_iter().map(|(_, traits)| traits).collect();
    let owner: Id = random_id()?.into();
    if let Some(batches) = batches {
        let machine = Machine::load(&read_batches(batches)?, traits, owner, setting.lease_ms)?;
        return Ok(machine.settling_within(setting.settle_timeout_ms));
    }
    let given = setting.definition.as_ref().map_or("null", |definition| definition.as_str());
    let definition = compiled(given)?;
    let created = Created {
        run_id: setting.run_id,
        at: "".into(),
        seed: setting.seed.map_or_else(random_id_text, Ok)?,
        definition: definition.json.clone(),
        options: setting.options.unwrap_or_default(),
    };
    let machine = Machine::new(created, Rc::new(definition), traits, owner, setting.lease_ms);
    Ok(machine.settling_within(setting.settle_timeout_ms))
}

fn random_id_text() -> Result<Rc<str>, RoundtableError> {
    random_id().map(Rc::from)
}

fn compiled(definition: &str) -> Result<Definition, TeamError> {
    let json = Json::parse(definition)
        .map_err(|error| TeamError::of("INVALID_TEAM", "", format!("must be JSON: {}", error.message)))?;
    Definition::compile(&json).map_err(TeamError::invalid_team)
}

fn position(definition: &Definition, member: &str) -> Result<usize, JsValue> {
    let unknown = || RoundtableError::new(Code::InvalidConfig, "memberId must be the id of a member");
    definition.position(member).ok_or_else(|| JsValue::from(json(&unknown())))
}

fn read_batches(batches: &str) -> Result<Vec<Batch>, TeamError> {
    read(batches).map_err(|error| RoundtableError::new(Code::InvalidRecord, error.message).into())
}

fn internal(message: String) -> TeamError {
    RoundtableError::new(Code::Internal, message).into()
}

fn thrown(error: &TeamError) -> JsValue {
    json(error).into()
}

#[derive(Serialize)]
struct Reply<'a> {
    revision: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    outcome: Option<&'a Outcome>,
}

/// `["name",...arguments]`.
fn effect_json(machine: &Machine, effect: &Effect) -> Option<String> {
    let call = |name: &str, arguments: &[String]| {
        let arguments: String = arguments.iter().flat_map(|argument| [",", argument.as_str()]).collect();
        format!("[\"{name}\"{arguments}]")
    };
    Some(match effect {
        Effect::Store(effect) => match effect {
            StoreEffect::Create { entries, summary } => call("create", &[json(&wire::batch(None, summary, entries))]),
            StoreEffect::Append { claim, expected_revision, operation_id, entries, summary, .. } => {
                let head = AppendHead { claim, expected_revision: *expected_revision, operation_id };
                call("append", &[json(&wire::batch(Some(&head), summary, entries))])
            }
            StoreEffect::Claim { owner_id, lease_ms } => call("claim", &[json(owner_id), lease_ms.to_string()]),
            StoreEffect::Renew { claim, lease_ms } => call("renew", &[json(claim), lease_ms.to_string()]),
            StoreEffect::Release { claim } => call("release", &[json(claim)]),
            StoreEffect::Read { after } => call("read", &[after.to_string()]),
            StoreEffect::StartTimer { timer, delay_ms } => {
                call("startTimer", &[timer_number(*timer).to_string(), delay_ms.to_string()])
            }
            StoreEffect::StopTimer { timer } => call("stopTimer", &[timer_number(*timer).to_string()]),
            _ => return None,
        },
        Effect::Run(run) => call("run", &[json(&**run)]),
        Effect::Abort { attempt, reason } => {
            let reason = if *reason == StopReason::Cancelled { "\"cancelled\"" } else { "\"interrupted\"" };
            call("abort", &[json(attempt), reason.to_owned()])
        }
        Effect::GiveUp { attempt, member } => call("giveUp", &[json(attempt), member.to_string()]),
        Effect::Reply { call: number, result } => {
            let (ok, result) = match result {
                Ok((revision, outcome)) => (true, json(&Reply { revision: *revision, outcome: outcome.as_ref() })),
                Err(error) => (false, json(error)),
            };
            call("reply", &[number.to_string(), ok.to_string(), json(&result)])
        }
        Effect::Answer { ticket, result } => {
            let refusal = match result {
                Ok(()) => "null".to_owned(),
                Err(ServiceRefusal::Aborted) => "\"\"".to_owned(),
                Err(ServiceRefusal::Refused(error)) => json(&json(error)),
            };
            call("answer", &[ticket.to_string(), refusal])
        }
        Effect::Emit { revision, events } => {
            call("emit", &[revision.to_string(), json(&machine.durable().told(events, *revision))])
        }
    })
}
