//! A stored record, folded strictly: whatever the engine would not have written there is refused.

use super::definition::Definition;
use super::error::{INVALID_EVENT, STORED_GRAPH_MISMATCH, TeamError};
use super::event::Event;
use super::state::State;
use crate::conversation::input::Batch;
use crate::record::codec::decode_as;
use crate::value::Json;
use std::rc::Rc;

/// Folds a whole record, batch 1 first; its state and last revision.
pub fn fold(batches: &[Batch]) -> Result<(State, u64), TeamError> {
    let mut state = None;
    for (at, batch) in batches.iter().enumerate() {
        if batch.revision != at as u64 + 1 {
            let message = format!("the store gave batch {} where {} was due", batch.revision, at + 1);
            return Err(TeamError::of(INVALID_EVENT, format!("/{at}"), message));
        }
        let lines: Vec<&str> = batch.entries.iter().map(String::as_str).collect();
        fold_batch(&mut state, &lines, batch.revision)?;
    }
    match state {
        Some(state) => Ok((state, batches.len() as u64)),
        None => Err(TeamError::of(STORED_GRAPH_MISMATCH, "", "the record is empty")),
    }
}

/// Folds one batch; the first makes the state.
pub fn fold_batch(state: &mut Option<State>, lines: &[&str], revision: u64) -> Result<Vec<Event>, TeamError> {
    let mut events = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        let path = format!("/{revision}/{index}");
        match state {
            None => {
                let (event, created) = created(line)?;
                *state = Some(created);
                events.push(event);
            }
            Some(state) => {
                let event: Event =
                    decode_as(line).map_err(|reason| TeamError::of(INVALID_EVENT, path.clone(), reason))?;
                state.apply(&event, revision).map_err(|reason| TeamError::of(INVALID_EVENT, path, reason))?;
                events.push(event);
            }
        }
    }
    if let Some(state) = state {
        state.end_batch().map_err(|reason| TeamError::of(INVALID_EVENT, format!("/{revision}"), reason))?;
    }
    Ok(events)
}

fn created(line: &str) -> Result<(Event, State), TeamError> {
    let mismatch = |reason: String| TeamError::of(STORED_GRAPH_MISMATCH, "/1/0", reason);
    let event: Event = decode_as(line).map_err(|reason| mismatch(format!("the record is not a team's: {reason}")))?;
    let Event::Created(created) = &event else {
        return Err(TeamError::of(INVALID_EVENT, "/1/0", "a record begins with its creation"));
    };
    let definition = Json::parse(created.definition.as_str()).map_err(|error| mismatch(error.message))?;
    let definition = Definition::compile(&definition).map_err(|issues| TeamError::Team {
        code: STORED_GRAPH_MISMATCH,
        message: "the stored definition is not valid".to_owned(),
        issues,
    })?;
    let state = State::create(created.clone(), Rc::new(definition));
    Ok((event, state))
}
