//! A stored conversation on its way to a handle: folded, described, bound to what the registry gives.

use crate::bindings::crossing::{json, plain};
use crate::bindings::inspection::JournalReader;
use crate::conversation::Machine;
use crate::conversation::binding::{Bound, bind};
use crate::conversation::error::{Code, RoundtableError};
use crate::record::model::{Checkpoint, Id, ModelCalls, Participant, Recovery, RuntimeReference, Selector};
use crate::record::state::State;
use crate::value::read::read;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

/// A folded record. Every refusal is thrown as the JSON of an error.
#[wasm_bindgen]
pub struct LoadedRecord {
    stage: Stage,
    /// How long its batches are, and the snapshot before them.
    lens: (usize, usize),
}

enum Stage {
    Folded(Box<State>),
    Bound(Box<Bound>),
    Gone,
}

/// What a registry is asked for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Description<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<&'a Rc<str>>,
    participants: &'a [Participant],
    /// Absent for the built-in policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    selector: Option<Described<'a>>,
    recovery: Recovery,
    /// Of a fork.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<ForkedFrom<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ForkedFrom<'a> {
    conversation_id: &'a Id,
    revision: u64,
}

#[derive(Serialize)]
struct Described<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a RuntimeReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<&'a Checkpoint>,
}

/// What the host's code gave after the binding.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    migrated: Vec<Option<Checkpoint>>,
    #[serde(default)]
    model_calls: Option<ModelCalls>,
}

#[wasm_bindgen]
impl LoadedRecord {
    /// Of a journal that was read to the record's revision.
    #[wasm_bindgen(constructor)]
    pub fn new(reader: JournalReader, revision: f64) -> Result<LoadedRecord, JsValue> {
        let (state, len, snapshot_len) = reader.into_state();
        match state {
            Some(state) if state.revision as f64 == revision => {
                Ok(LoadedRecord { stage: Stage::Folded(Box::new(state)), lens: (len, snapshot_len) })
            }
            state => {
                let end = state.map_or(0, |state| state.revision);
                let message = format!("the record is at revision {revision}, its batches end at {end}");
                Err(refused(Code::InvalidRecord, message))
            }
        }
    }

    /// JSON of what the registry is asked for.
    #[must_use]
    pub fn describe(&self) -> String {
        let Stage::Folded(state) = &self.stage else { return String::new() };
        let created = &state.created;
        let selector = match &created.selector {
            Selector::RoundRobin => None,
            Selector::Host { reference, .. } => {
                Some(Described { reference: reference.as_ref(), checkpoint: state.selector_checkpoint.as_ref() })
            }
        };
        json(&Description {
            purpose: created.purpose.as_ref(),
            participants: &created.participants,
            selector,
            recovery: created.recovery,
            forked_from: created
                .origin
                .as_ref()
                .map(|origin| ForkedFrom { conversation_id: &origin.conversation_id, revision: origin.revision }),
        })
    }

    /// Binds it to plain data of today, see [`bind`]; the JSON of what must be migrated.
    pub fn bind(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "unknown")] today: JsValue,
    ) -> Result<String, JsValue> {
        let Stage::Folded(state) = std::mem::replace(&mut self.stage, Stage::Gone) else {
            return Err(refused(Code::Internal, "the record is bound already".to_owned()));
        };
        let bound = plain(today).and_then(|today| bind(*state, &today)).map_err(|error| json(&error))?;
        let migrations = json(&bound.migrations());
        self.stage = Stage::Bound(Box::new(bound));
        Ok(migrations)
    }
}

impl LoadedRecord {
    /// The machine that goes on, given the JSON of what the host's code made of the binding.
    pub(super) fn open(self, owner: Id, opened: &str) -> Result<Machine, RoundtableError> {
        let internal = |message: String| RoundtableError::new(Code::Internal, message);
        let Stage::Bound(bound) = self.stage else { return Err(internal("the record is not bound".to_owned())) };
        let Opened { migrated, model_calls } = read(opened).map_err(|error| internal(error.message))?;
        let mut machine = bound.open(owner, migrated, model_calls)?;
        machine.count_stored(self.lens.0, self.lens.1);
        Ok(machine)
    }
}

fn refused(code: Code, message: String) -> JsValue {
    json(&RoundtableError::new(code, message)).into()
}
