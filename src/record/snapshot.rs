//! A state as one line of text, in place of the journal it was folded from. Strict like an entry's line:
//! a sum over it, and one text for each state. A snapshot is a shortcut and nothing more: whoever cannot
//! read one reads the journal.

use super::codec;
use super::state::{IdMap, IdSet, State};
use crate::reads_variants;
use serde::{Serialize, Serializer};
use std::rc::Rc;

/// The one member of a snapshot, named by its schema version.
#[derive(Serialize)]
enum Written<'a> {
    #[serde(rename = "roundtable-state/1")]
    State(&'a State),
}

enum Stored {
    State(Box<State>),
}

reads_variants!(Stored { State: "roundtable-state/1" });

/// The text of a state.
pub fn encode(state: &State) -> Result<String, String> {
    codec::encode(&Written::State(state))
}

/// The state of a text, or the reason why it is none.
pub fn decode(text: &str) -> Result<State, String> {
    let Stored::State(mut state) = codec::decode_as(text)?;
    let ids = state.created.participants.iter().enumerate();
    state.positions = Rc::new(ids.map(|(position, participant)| (participant.id.clone(), position)).collect());
    Ok(*state)
}

/// Maps by id, in the order of their keys, as a list of pairs.
pub(super) mod map {
    use super::*;
    use crate::record::model::Id;

    pub fn serialize<V: Serialize, S: Serializer>(map: &IdMap<V>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut pairs: Vec<(&Id, &V)> = map.iter().collect();
        pairs.sort_unstable_by_key(|(id, _)| *id);
        serializer.collect_seq(pairs)
    }
}

/// Sets of ids, in order.
pub(super) mod set {
    use super::*;
    use crate::record::model::Id;

    pub fn serialize<S: Serializer>(set: &IdSet, serializer: S) -> Result<S::Ok, S::Error> {
        let mut ids: Vec<&Id> = set.iter().collect();
        ids.sort_unstable();
        serializer.collect_seq(ids)
    }
}

/// The ledger's records, each with its report as a member of its own, in the order of their ids.
pub(super) mod usage {
    use super::*;
    use crate::record::model::Id;
    use crate::record::usage::{Price, Principal, Settlement, UsageRecord, UsageStatus};

    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    pub(in crate::record) struct Line {
        pub call_id: Id,
        pub provider_id: Id,
        pub model_id: Id,
        pub conversation_id: Id,
        pub run_id: Id,
        pub principal: Principal,
        pub turn_id: Option<Id>,
        pub group_id: Option<Id>,
        pub attempt_id: Id,
        pub revision: u64,
        pub price: Option<Price>,
        pub settlement: Option<Settlement>,
    }

    pub fn serialize<S: Serializer>(map: &IdMap<Rc<UsageRecord>>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lines: Vec<Line> = map.values().map(|record| line(UsageRecord::clone(record))).collect();
        lines.sort_unstable_by(|a, b| a.call_id.cmp(&b.call_id));
        serializer.collect_seq(lines)
    }

    fn line(record: UsageRecord) -> Line {
        let UsageRecord { call_id, provider_id, model_id, conversation_id, run_id, .. } = record;
        let UsageRecord { principal, turn_id, group_id, attempt_id, revision, price, status, .. } = record;
        let settlement = match status {
            UsageStatus::Reserved => None,
            UsageStatus::Settled(settlement) => Some(settlement),
        };
        Line {
            call_id,
            provider_id,
            model_id,
            conversation_id,
            run_id,
            principal,
            turn_id,
            group_id,
            attempt_id,
            revision,
            price,
            settlement,
        }
    }

    pub(in crate::record) fn record(line: Line) -> UsageRecord {
        let Line { call_id, provider_id, model_id, conversation_id, run_id, principal, .. } = line;
        let Line { turn_id, group_id, attempt_id, revision, price, settlement, .. } = line;
        let status = settlement.map_or(UsageStatus::Reserved, UsageStatus::Settled);
        UsageRecord {
            call_id,
            provider_id,
            model_id,
            conversation_id,
            run_id,
            principal,
            turn_id,
            group_id,
            attempt_id,
            revision,
            price,
            status,
        }
    }
}
