//! Model calls of agent members: reserved before they are made, settled once reported.

use super::state::{State, refuse};
use crate::record::entry::{CallAdmitted, UsageReported};
use crate::record::fold::Refusal;
use crate::record::model::Id;
use crate::record::usage::{CallOutcome, Principal, PrincipalKind, Settlement, UsageRecord, UsageStatus};

impl State {
    pub(super) fn admitted(&mut self, e: &CallAdmitted, revision: u64) -> Result<(), Refusal> {
        if self.ledger.contains_key(&e.call_id) {
            return refuse("the call id is used");
        }
        let Some(record) = self.reserve(&e.call_id, &e.attempt_id, &e.provider_id, &e.model_id, revision) else {
            return refuse("the attempt is not running");
        };
        self.calls.push(e.call_id.clone());
        self.ledger.insert(e.call_id.clone(), record);
        Ok(())
    }

    pub(super) fn reported(&mut self, e: &UsageReported, revision: u64) -> Result<(), Refusal> {
        let is_cache_hit = e.outcome == CallOutcome::CacheHit;
        if [e.provider_id.is_some(), e.model_id.is_some()] != [is_cache_hit; 2] || e.price.is_some() {
            return refuse("a cache hit, and a cache hit alone, names its provider and model");
        }
        let mut record = match (self.ledger.get(&e.call_id), &e.provider_id, &e.model_id) {
            (Some(record), ..) if record.attempt_id != e.attempt_id => {
                return refuse("the call belongs to another attempt");
            }
            (Some(record), ..) => match &record.status {
                UsageStatus::Reserved if is_cache_hit => return refuse("an admitted call is no cache hit"),
                UsageStatus::Settled(settled) if settled.r#final => return refuse("a final report stands"),
                _ => record.clone(),
            },
            (None, Some(provider), Some(model)) => {
                let record = self.reserve(&e.call_id, &e.attempt_id, provider, model, revision);
                self.calls.push(e.call_id.clone());
                record.ok_or_else(|| "the attempt is not running".to_owned())?
            }
            _ => return refuse("the call was not admitted"),
        };
        record.revision = revision;
        record.status = UsageStatus::Settled(Settlement {
            outcome: e.outcome,
            provenance: e.provenance,
            tokens: e.tokens,
            raw: e.raw.clone(),
            r#final: e.r#final,
        });
        self.ledger.insert(e.call_id.clone(), record);
        Ok(())
    }

    fn reserve(&self, call: &Id, attempt: &Id, provider: &Id, model: &Id, revision: u64) -> Option<UsageRecord> {
        let is_open = |id: &Id| id == attempt;
        let (at, turn) = self.members.iter().enumerate().find_map(|(at, member)| {
            let turn = member.turn.as_ref()?;
            turn.open.as_ref().filter(|(open, _)| is_open(open)).map(|_| (at, turn))
        })?;
        Some(UsageRecord {
            call_id: call.clone(),
            provider_id: provider.clone(),
            model_id: model.clone(),
            conversation_id: self.created.run_id.clone(),
            run_id: self.created.run_id.clone(),
            principal: Principal { kind: PrincipalKind::Participant, id: self.id(at) },
            turn_id: Some(turn.position.clone()),
            group_id: Some(self.group(turn.batch)),
            attempt_id: attempt.clone(),
            revision,
            price: None,
            status: UsageStatus::Reserved,
        })
    }
}
