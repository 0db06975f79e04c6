//! A state as one line of text, in place of the journal it was folded from. Strict like an entry's line:
//! a sum over it, and one text for each state. A snapshot is a shortcut and nothing more: whoever cannot
//! read one reads the journal.

use super::codec;
use super::state::{IdMap, IdSet, State};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::rc::Rc;

/// The one member of a snapshot, named by its schema version.
#[derive(Serialize)]
enum Written<'a> {
    #[serde(rename = "roundtable-state/1")]
    State(&'a State),
}

#[derive(Deserialize)]
enum Read {
    #[serde(rename = "roundtable-state/1")]
    State(Box<State>),
}

/// The text of a state.
pub fn encode(state: &State) -> Result<String, String> {
    codec::encode(&Written::State(state))
}

/// The state of a text, or the reason why it is none.
pub fn decode(text: &str) -> Result<State, String> {
    let Read::State(mut state) = codec::decode_as(text)?;
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

    pub fn deserialize<'de, V: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<IdMap<V>, D::Error> {
        Ok(Vec::<(Id, V)>::deserialize(deserializer)?.into_iter().collect())
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

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IdSet, D::Error> {
        Ok(Vec::<Id>::deserialize(deserializer)?.into_iter().collect())
    }
}

/// The ledger's records, each with its report as a member of its own, in the order of their ids.
pub(super) mod usage {
    use super::*;
    use crate::record::model::Id;
    use crate::record::usage::{Price, Principal, Settlement, UsageRecord, UsageStatus};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Line {
        call_id: Id,
        provider_id: Id,
        model_id: Id,
        conversation_id: Id,
        run_id: Id,
        principal: Principal,
        turn_id: Option<Id>,
        group_id: Option<Id>,
        attempt_id: Id,
        revision: u64,
        price: Option<Price>,
        settlement: Option<Settlement>,
    }

    pub fn serialize<S: Serializer>(map: &IdMap<Rc<UsageRecord>>, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lines: Vec<Line> = map.values().map(|record| line(UsageRecord::clone(record))).collect();
        lines.sort_unstable_by(|a, b| a.call_id.cmp(&b.call_id));
        serializer.collect_seq(lines)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<IdMap<Rc<UsageRecord>>, D::Error> {
        let records = Vec::<Line>::deserialize(deserializer)?.into_iter().map(record);
        Ok(records.map(|record| (record.call_id.clone(), Rc::new(record))).collect())
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

    fn record(line: Line) -> UsageRecord {
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
