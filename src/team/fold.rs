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
        fold_batch(&mut state, &batch.entries, batch.revision)?;
    }
    match state {
        Some(state) => Ok((state, batches.len() as u64)),
        None => Err(TeamError::of(STORED_GRAPH_MISMATCH, "", "the record is empty")),
    }
}

/// Folds one batch; the first makes the state.
fn fold_batch(state: &mut Option<State>, lines: &[String], revision: u64) -> Result<(), TeamError> {
    match (state.as_mut(), lines.split_first()) {
        (Some(state), _) => fold_lines(state, lines, revision).map(|_| ()),
        (None, Some((first, rest))) => {
            let (_, created) = created(first)?;
            fold_lines(state.insert(created), rest, revision).map(|_| ())
        }
        (None, None) => Err(TeamError::of(STORED_GRAPH_MISMATCH, "/1/0", "the record is empty")),
    }
}

/// Folds the lines of a batch, or refuses one of them; those before it are folded then.
pub(super) fn fold_lines(state: &mut State, lines: &[String], revision: u64) -> Result<Vec<Event>, TeamError> {
    let refused = |at: String, reason| TeamError::of(INVALID_EVENT, at, reason);
    let mut events = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().enumerate() {
        let at = || format!("/{revision}/{index}");
        let event: Event = decode_as(line).map_err(|reason| refused(at(), reason))?;
        state.apply(&event, revision).map_err(|reason| refused(at(), reason))?;
        events.push(event);
    }
    state.end_batch().map_err(|reason| refused(format!("/{revision}"), reason))?;
    Ok(events)
}

/// The state that a record's first line makes.
pub(super) fn created(line: &str) -> Result<(Event, State), TeamError> {
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
