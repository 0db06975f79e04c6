//! A whole journal: its batches folded from the first, or on top of a state.

use super::codec::decode;
use super::entry::Entry;
use super::fork::check_whole;
use super::state::State;

/// What does not fold, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {index} does not fold: {reason}")]
pub struct RecordError {
    /// Which entry of the journal, counted from 0.
    pub index: u64,
    /// Names ids and rules, never contents.
    pub reason: String,
}

/// A journal as far as it was read.
#[derive(Debug, Default)]
pub struct Journal(Option<State>);

impl Journal {
    /// The journal that folded into a state, to go on from there.
    #[must_use]
    pub fn after(state: State) -> Journal {
        Journal(Some(state))
    }

    /// Folds in the next batch, whole or, where it is refused, in part. `told` is given each entry, the
    /// state after it, and how many messages there were before.
    pub fn add<'a>(
        &mut self,
        revision: u64,
        lines: impl IntoIterator<Item = &'a str>,
        mut told: impl FnMut(&Entry, &State, usize),
    ) -> Result<(), RecordError> {
        let due = self.0.as_ref().map_or(1, |state| state.revision + 1);
        if revision != due {
            return Err(self.refused(format!("batch {revision} came where {due} was due")));
        }
        for line in lines {
            let entry = decode(line).map_err(|reason| self.refused(reason))?;
            let messages = self.0.as_ref().map_or(0, |state| state.messages.len());
            let folded = match (&mut self.0, &entry) {
                (Some(state), entry) => state.apply(entry, revision),
                (none, Entry::Created(created)) => State::create(created.clone()).map(|state| *none = Some(state)),
                _ => Err("the first entry creates the conversation".to_owned()),
            };
            folded.map_err(|reason| self.refused(reason))?;
            if let Some(state) = &self.0 {
                told(&entry, state, messages);
            }
        }
        if self.0.as_ref().is_none_or(|state| state.revision != revision) {
            return Err(self.refused("a batch holds entries".to_owned()));
        }
        self.0.as_ref().map_or(Ok(()), check_whole).map_err(|reason| self.refused(reason))?;
        Ok(())
    }

    /// What was folded so far; absent before the first entry.
    #[must_use]
    pub fn folded(&self) -> Option<&State> {
        self.0.as_ref()
    }

    /// The same, for whoever goes on from there.
    #[must_use]
    pub fn into_state(self) -> Option<State> {
        self.0
    }

    fn refused(&self, reason: String) -> RecordError {
        RecordError { index: self.0.as_ref().map_or(0, |state| state.entries), reason }
    }
}
