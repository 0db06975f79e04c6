//! What a turn's attempts write down of their executions. The engine keeps it and looks no further than
//! its two ids.

use super::entry::ExecutionRecorded;
use super::fold::{Refusal, refuse};
use super::model::Id;
use super::state::{IdMap, Phase, State};
use crate::value::bounds::MAX_ID;
use crate::value::text::utf16_len;
use crate::value::{CanonicalJson, Json, JsonError};
use serde::{Serialize, Serializer};
use std::collections::hash_map::Entry;

/// A JSON object with the strings `id` and `executionId`, each an id, and whatever else its author wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionRecord {
    /// Unique in its turn.
    pub id: Id,
    /// The execution it is of.
    pub execution_id: Id,
    /// All of it.
    pub json: CanonicalJson,
}

impl ExecutionRecord {
    /// The record with this JSON text. The error names the member that is wrong.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        Self::of(&Json::parse_enclosing(text)?)
    }

    pub(super) fn of(json: &Json) -> Result<Self, JsonError> {
        let id = |key: &str| {
            let found = json.get(key).and_then(Json::as_str).filter(|id| (1..=MAX_ID).contains(&utf16_len(id)));
            let problem =
                || JsonError { message: format!("record.{key} must be a string of 1 to {MAX_ID} UTF-16 units") };
            found.map(Id::from).ok_or_else(problem)
        };
        Ok(ExecutionRecord { id: id("id")?, execution_id: id("executionId")?, json: CanonicalJson::of(json) })
    }
}

impl Serialize for ExecutionRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

/// The records of a turn in the order they came, found by id in one step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(into = "Vec<ExecutionRecord>")]
pub struct Records {
    order: Vec<ExecutionRecord>,
    positions: IdMap<usize>,
}

impl From<Vec<ExecutionRecord>> for Records {
    fn from(order: Vec<ExecutionRecord>) -> Self {
        let positions = order.iter().enumerate().map(|(at, record)| (record.id.clone(), at)).collect();
        Records { order, positions }
    }
}

impl From<Records> for Vec<ExecutionRecord> {
    fn from(records: Records) -> Self {
        records.order
    }
}

impl Records {
    /// The record with this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&ExecutionRecord> {
        self.order.get(*self.positions.get(id)?)
    }

    /// The records of one execution, in their order.
    pub fn of(&self, execution_id: &str) -> Vec<&ExecutionRecord> {
        self.order.iter().filter(|record| &*record.execution_id == execution_id).collect()
    }

    /// Adds a record; refused where its id is used.
    pub fn push(&mut self, record: ExecutionRecord) -> Result<(), Refusal> {
        match self.positions.entry(record.id.clone()) {
            Entry::Occupied(_) => refuse("the record's id is used by another of its turn"),
            Entry::Vacant(vacant) => {
                vacant.insert(self.order.len());
                self.order.push(record);
                Ok(())
            }
        }
    }
}

pub(super) fn recorded(state: &mut State, entry: &ExecutionRecorded) -> Result<(), Refusal> {
    state.active_run()?;
    let mut turns = state.group.iter_mut().flat_map(|g| &mut g.turns);
    match turns.find(|t| t.phase == Phase::Running && t.attempt.as_ref() == Some(&entry.attempt_id)) {
        Some(turn) => turn.records.push(entry.record.clone()),
        None => refuse("the attempt is not running"),
    }
}
