//! The built-in policy: round the participants in declared order for ever. It is part of the fold, so
//! a load resolves it without asking anyone.

use super::model::Selection;
use super::state::State;

impl State {
    /// Whose turn it is.
    #[must_use]
    pub fn round_robin(&self) -> Option<Selection> {
        let count = self.created.participants.len() as u64;
        let position = usize::try_from(self.decisions.checked_rem(count)?).ok()?;
        self.participant_id(position).map(|id| Selection::Speak { participant_id: id.clone() })
    }
}
