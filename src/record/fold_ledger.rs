//! Folding admissions and reports.

use super::entry::{CallAdmitted, UsageReported};
use super::fold::{Refusal, refuse};
use super::model::{Id, Selector};
use super::state::{Payer, Phase, State};
use super::usage::{CallOutcome, Principal, PrincipalKind, Settlement, Tokens, UsageRecord, UsageStatus};
use std::rc::Rc;

pub(super) fn admitted(state: &mut State, entry: &CallAdmitted, revision: u64) -> Result<(), Refusal> {
    let run = state.active_run()?.id.clone();
    if entry.call_id.is_empty() || state.ledger.records.contains_key(&entry.call_id) {
        return refuse("the call id is empty or used");
    }
    let Some(payer) = state.ledger.attempts.get(&entry.attempt_id).filter(|p| p.run == run).cloned() else {
        return refuse("the attempt is not of this run");
    };
    let live = match &payer.member {
        Some((_, turn_id, _)) => state
            .turn(turn_id)
            .is_some_and(|t| t.phase == Phase::Running && t.attempt.as_ref() == Some(&entry.attempt_id)),
        None => state.selecting.as_ref() == Some(&entry.attempt_id),
    };
    if !live {
        return refuse("the attempt is over");
    }
    let record = state.record(&entry.call_id, &entry.attempt_id, &payer, &entry.provider_id, &entry.model_id, revision);
    state.ledger.calls += 1;
    if let Some(run) = &mut state.run {
        run.calls += 1;
    }
    if let Some(member) = payer.member.and_then(|(position, ..)| state.members.get_mut(position)) {
        member.calls += 1;
    }
    state.ledger.order.push(entry.call_id.clone());
    state.ledger.records.insert(entry.call_id.clone(), Rc::new(record));
    Ok(())
}

pub(super) fn reported(state: &mut State, entry: &UsageReported, revision: u64) -> Result<(), Refusal> {
    let is_cache_hit = entry.outcome == CallOutcome::CacheHit;
    if [entry.provider_id.is_some(), entry.model_id.is_some()] != [is_cache_hit; 2] {
        return refuse("a cache hit, and a cache hit alone, names its provider and model");
    }
    if entry.price.is_some() != state.created.price_version.is_some() {
        return refuse("a report is priced where there is a policy");
    }
    if entry.price.as_ref().map(|p| &p.version) != state.created.price_version.as_ref() {
        return refuse("the price is of another version");
    }
    let mut record = match state.ledger.records.get(&entry.call_id) {
        Some(record) => replaceable(record, entry)?.clone(),
        None => cache_hit(state, entry, revision)?,
    };
    let before = record.status.tokens().map_or(0, Tokens::total);
    let settlement = Settlement {
        outcome: entry.outcome,
        provenance: entry.provenance,
        tokens: entry.tokens,
        raw: entry.raw.clone(),
        r#final: entry.r#final,
    };
    let status = UsageStatus::Settled(settlement);
    if record.status == status {
        return refuse("the call was reported so already");
    }
    record.status = status;
    record.revision = revision;
    record.price = entry.price.clone();
    let after = record.status.tokens().map_or(0, Tokens::total);
    if let Some(run) = state.run.as_mut().filter(|r| r.id == record.run_id) {
        run.tokens = run.tokens.saturating_sub(before).saturating_add(after);
    }
    state.ledger.records.insert(entry.call_id.clone(), Rc::new(record));
    Ok(())
}

fn replaceable<'a>(record: &'a UsageRecord, entry: &UsageReported) -> Result<&'a UsageRecord, Refusal> {
    if record.attempt_id != entry.attempt_id {
        return refuse("the call belongs to another attempt");
    }
    match &record.status {
        UsageStatus::Reserved if entry.outcome == CallOutcome::CacheHit => refuse("an admitted call is no cache hit"),
        UsageStatus::Settled(settled) if settled.r#final => refuse("a final report stands"),
        UsageStatus::Settled(settled)
            if (settled.outcome == CallOutcome::CacheHit) != (entry.outcome == CallOutcome::CacheHit) =>
        {
            refuse("a cache hit stays one")
        }
        _ => Ok(record),
    }
}

fn cache_hit(state: &mut State, entry: &UsageReported, revision: u64) -> Result<UsageRecord, Refusal> {
    let (Some(provider), Some(model)) = (&entry.provider_id, &entry.model_id) else {
        return refuse("the call was not admitted");
    };
    if entry.call_id.is_empty() {
        return refuse("the call id is empty");
    }
    let Some(payer) = state.ledger.attempts.get(&entry.attempt_id).cloned() else {
        return refuse("there is no such attempt");
    };
    state.ledger.order.push(entry.call_id.clone());
    Ok(state.record(&entry.call_id, &entry.attempt_id, &payer, provider, model, revision))
}

impl State {
    /// The record that an attempt's call would have, before any report.
    #[must_use]
    pub fn reserve(&self, call: &Id, attempt: &Id, provider: &Id, model: &Id) -> Option<UsageRecord> {
        let payer = self.ledger.attempts.get(attempt)?;
        Some(self.record(call, attempt, payer, provider, model, self.revision))
    }

    fn record(
        &self,
        call_id: &Id,
        attempt_id: &Id,
        payer: &Payer,
        provider_id: &Id,
        model_id: &Id,
        revision: u64,
    ) -> UsageRecord {
        UsageRecord {
            call_id: call_id.clone(),
            provider_id: provider_id.clone(),
            model_id: model_id.clone(),
            conversation_id: self.created.conversation_id.clone(),
            run_id: payer.run.clone(),
            principal: self.principal(payer),
            turn_id: payer.member.as_ref().map(|(_, turn, _)| turn.clone()),
            group_id: payer.member.as_ref().map(|(_, _, group)| group.clone()),
            attempt_id: attempt_id.clone(),
            revision,
            price: None,
            status: UsageStatus::Reserved,
        }
    }

    fn principal(&self, payer: &Payer) -> Principal {
        let member = payer.member.as_ref().and_then(|(position, ..)| self.participant_id(*position));
        match (member, &self.created.selector) {
            (Some(id), _) => Principal { kind: PrincipalKind::Participant, id: id.clone() },
            (None, Selector::Host { reference: Some(reference), .. }) => {
                Principal { kind: PrincipalKind::Selector, id: reference.id.clone() }
            }
            (None, _) => Principal { kind: PrincipalKind::Selector, id: "selector".into() },
        }
    }
}

impl UsageStatus {
    /// The reported token counts.
    #[must_use]
    pub fn tokens(&self) -> Option<&Tokens> {
        match self {
            UsageStatus::Reserved => None,
            UsageStatus::Settled(settlement) => settlement.tokens.as_ref(),
        }
    }
}

impl Tokens {
    /// What counts against a token limit: prompt and reply; unknown is 0.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.input.unwrap_or(0).saturating_add(self.output.unwrap_or(0))
    }
}
