//! C52a: at every eighth revision without an open group, a fork holds the published part and the private states of
//! its origin, and at every other there is none.

use crate::world::World;
use agent_roundtable::record::fork;
use agent_roundtable::record::reading::Journal;
use agent_roundtable::record::state::{Ledger, Member, State};

pub fn check(world: &World, origin: &State) {
    if origin.group.is_none() && !origin.revision.is_multiple_of(8) {
        return;
    }
    let lines = fork::lines(origin, "a fork".into(), "2027-01-01T00:00:00.000Z".into());
    world.demand(lines.is_ok() == origin.group.is_none(), || format!("C52a: a fork at {}", origin.revision));
    let Ok(lines) = lines else { return };
    let mut journal = Journal::default();
    let added = journal.add(1, lines.iter().map(String::as_str), |_, _, _| {});
    world.demand(added.is_ok(), || format!("C52a: a fork at {}: {added:?}", origin.revision));
    let Some(fork) = journal.folded() else { return };
    world.demand(is_copy(fork, origin), || format!("C52a: a fork at {} is no copy", origin.revision));
}

fn is_copy(fork: &State, origin: &State) -> bool {
    let members = origin.members.iter().map(|m| Member { calls: 0, ..m.clone() });
    let published = |state: &State| {
        let messages = state.messages.iter().zip(&state.consumed_by);
        messages.map(|(m, by)| (m.id.clone(), m.participant_id.clone(), m.content.clone(), *by)).collect::<Vec<_>>()
    };
    let nothing_else = fork.receipts.is_empty() && fork.run.is_none() && fork.ended.is_none();
    published(fork) == published(origin)
        && fork.turns == origin.turns
        && fork.members == members.collect::<Vec<_>>()
        && fork.selector_checkpoint == origin.selector_checkpoint
        && (&fork.decision, fork.decisions) == (&origin.decision, origin.decisions)
        && fork.ledger == Ledger::default()
        && nothing_else
}
