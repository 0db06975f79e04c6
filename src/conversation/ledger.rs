//! Admissions and reports of model calls, live and late.

use super::attempts::AttemptPhase;
use super::effect::{Effect, ServiceRefusal};
use super::error::{Code, RoundtableError, Thrown};
use super::fields::MAX_ID;
use super::input::Ticket;
use super::machine::Machine;
use super::writer::Gate;
use crate::record::entry::{CallAdmitted, Entry, UsageReported};
use crate::record::fold::MAX_SAFE_INTEGER;
use crate::record::model::{Id, LimitReason, Outcome};
use crate::record::usage::{CallOutcome, ModelCall, Money, Price, Settlement, UsageRecord, UsageReport, UsageStatus};
use crate::value::text::utf16_len;

/// A report whose price is being asked for.
#[derive(Debug)]
pub(super) struct PendingReport {
    attempt: Id,
    report: UsageReport,
}

/// What came after its run and is saved under a claim of its own.
#[derive(Debug)]
pub(super) enum LateWork {
    /// A usage report.
    Report { ticket: Ticket, attempt: Id, report: UsageReport },
    /// The result of an unsettled attempt.
    Evidence { attempt: Id, result: Result<Outcome, Thrown> },
}

impl Machine {
    pub(super) fn admission_asked(&mut self, ticket: Ticket, attempt: Id, call: ModelCall) {
        match self.admit(&attempt, &call) {
            Ok(true) => {
                let ModelCall { call_id, provider_id, model_id } = call;
                let at = self.at();
                let entry = CallAdmitted { call_id, attempt_id: attempt, at, provider_id, model_id };
                if let Err(error) = self.push(Entry::CallAdmitted(entry), Gate::Answer(ticket)) {
                    self.refuse_tickets(vec![ticket], &error);
                }
            }
            Ok(false) => self.answer_when_written(ticket),
            Err(refusal) => self.effect(Effect::Answer { ticket, result: Err(refusal) }),
        }
    }

    /// Whether a call is to be reserved; `false` where it is already.
    fn admit(&mut self, attempt: &Id, call: &ModelCall) -> Result<bool, ServiceRefusal> {
        for (field, id) in [("callId", &call.call_id), ("providerId", &call.provider_id), ("modelId", &call.model_id)] {
            check_id(field, id)?;
        }
        let (live, signalled) = match (&self.asking, self.attempts.get(attempt)) {
            (Some(asking), _) if asking.attempt == *attempt => (true, asking.signalled),
            (_, Some(attempt)) => (attempt.phase == AttemptPhase::Running, attempt.signalled.is_some()),
            _ => (false, false),
        };
        if signalled {
            return Err(ServiceRefusal::Aborted);
        }
        if !live || self.head.run.is_none() || !self.calls.is_working() {
            return Err(refused(Code::Conflict, "the attempt is over: it is admitted no further call"));
        }
        if let Some(record) = self.head.ledger.records.get(&call.call_id) {
            let same = record.attempt_id == *attempt
                && record.provider_id == call.provider_id
                && record.model_id == call.model_id
                && !is_cache_hit(record);
            return if same { Ok(false) } else { Err(refused(Code::Conflict, "callId is used by another call")) };
        }
        if let Some((reason, message)) = self.spent(attempt) {
            self.refuse_admission(attempt, reason);
            return Err(refused(Code::ModelCallLimit, message));
        }
        Ok(true)
    }

    /// The cap that leaves no room for another call of this attempt.
    fn spent(&self, attempt: &Id) -> Option<(LimitReason, &'static str)> {
        let limits = &self.head.limits;
        let reached = |used: u64, most: Option<u64>| most.is_some_and(|most| used >= most);
        if reached(self.head.run.as_ref().map_or(0, |run| run.calls), limits.max_model_calls_per_run) {
            return Some((LimitReason::ModelCalls, "maxModelCallsPerRun is reached"));
        }
        if reached(self.head.ledger.calls, limits.max_model_calls_per_conversation) {
            return Some((LimitReason::ModelCalls, "maxModelCallsPerConversation is reached"));
        }
        let member = self.attempts.get(attempt).and_then(|a| self.head.members.get(a.participant));
        if member.is_some_and(|m| reached(m.calls, limits.max_model_calls_per_participant)) {
            return Some((LimitReason::ModelCalls, "maxModelCallsPerParticipant is reached"));
        }
        self.tokens_spent().then_some((LimitReason::Tokens, "maxTokensPerRun is reached"))
    }

    fn refuse_admission(&mut self, attempt: &Id, reason: LimitReason) {
        if let Some(attempt) = self.attempts.get_mut(attempt) {
            attempt.refused = Some(reason);
        } else if let Some(asking) = self.asking.as_mut().filter(|asking| asking.attempt == *attempt) {
            asking.refused = Some(reason);
        }
        self.limit(reason);
    }

    pub(super) fn usage_reported(&mut self, ticket: Ticket, attempt: Id, report: UsageReport) {
        if self.calls.is_disposed() && self.calls.active.is_none() {
            let error = RoundtableError::new(Code::Disposed, "the conversation's handle was disposed");
            return self.refuse_tickets(vec![ticket], &error);
        }
        if self.calls.is_working() {
            self.report(ticket, attempt, report);
        } else {
            self.calls.late.push_back(LateWork::Report { ticket, attempt, report });
        }
    }

    fn report(&mut self, ticket: Ticket, attempt: Id, report: UsageReport) {
        match self.check_report(&attempt, &report) {
            Ok(None) => self.answer_when_written(ticket),
            Err(refusal) => self.settle_ticket(ticket, Err(refusal)),
            Ok(Some(record)) if self.config.price_version.is_some() => {
                self.reports.insert(ticket, PendingReport { attempt, report });
                self.effect(Effect::Price { ticket, record: Box::new(record) });
            }
            Ok(Some(_)) => self.write_report(ticket, attempt, report, None),
        }
    }

    pub(super) fn priced(&mut self, ticket: Ticket, cost: Option<Money>) {
        let Some(PendingReport { attempt, report }) = self.reports.remove(&ticket) else { return };
        let price = self.config.price_version.clone().map(|version| Price { version, cost });
        self.write_report(ticket, attempt, report, price);
    }

    fn write_report(&mut self, ticket: Ticket, attempt: Id, report: UsageReport, price: Option<Price>) {
        let entry = UsageReported {
            call_id: report.call_id,
            attempt_id: attempt,
            at: self.at(),
            outcome: report.outcome,
            provenance: report.provenance,
            tokens: report.tokens,
            raw: report.raw,
            r#final: report.r#final,
            provider_id: report.provider_id,
            model_id: report.model_id,
            price,
        };
        if let Err(error) = self.push(Entry::UsageReported(entry), Gate::Answer(ticket)) {
            self.refuse_tickets(vec![ticket], &error);
        }
    }

    /// The record a report leads to, its price absent; `None` where it changes nothing.
    fn check_report(&self, attempt: &Id, report: &UsageReport) -> Result<Option<UsageRecord>, ServiceRefusal> {
        check_id("callId", &report.call_id)?;
        let tokens = report.tokens.unwrap_or_default();
        let counts = [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write, tokens.reasoning];
        if counts.into_iter().flatten().any(|count| count > MAX_SAFE_INTEGER) {
            return Err(refused(Code::InvalidConfig, "tokens are integers from 0 to 9007199254740991"));
        }
        if self.reports.values().any(|pending| pending.report.call_id == report.call_id) {
            return Err(refused(Code::Conflict, "the call is being settled"));
        }
        let cache_hit = report.outcome == CallOutcome::CacheHit;
        let identity = (&report.provider_id, &report.model_id);
        if [identity.0.is_some(), identity.1.is_some()] != [cache_hit; 2] {
            return Err(refused(Code::Conflict, "a cache hit, and a cache hit alone, has providerId and modelId"));
        }
        let status = UsageStatus::Settled(Settlement {
            outcome: report.outcome,
            provenance: report.provenance,
            tokens: report.tokens,
            raw: report.raw.clone(),
            r#final: report.r#final,
        });
        let Some(record) = self.head.ledger.records.get(&report.call_id) else {
            let (true, (Some(provider), Some(model))) = (cache_hit, identity) else {
                return Err(refused(Code::Conflict, "the call was not admitted"));
            };
            check_id("providerId", provider)?;
            check_id("modelId", model)?;
            let record = self.head.reserve(&report.call_id, attempt, provider, model);
            let record = record.ok_or_else(|| refused(Code::Conflict, "there is no such attempt"))?;
            return Ok(Some(UsageRecord { status, ..record }));
        };
        if record.attempt_id != *attempt {
            return Err(refused(Code::Conflict, "callId belongs to another attempt"));
        }
        if is_cache_hit(record) != cache_hit {
            return Err(refused(Code::Conflict, "an admitted call is no cache hit"));
        }
        if record.status == status {
            return Ok(None);
        }
        match &record.status {
            UsageStatus::Settled(settled) if settled.r#final => Err(refused(Code::Conflict, "a final report stands")),
            _ => Ok(Some(UsageRecord { status, price: None, ..UsageRecord::clone(record) })),
        }
    }

    /// Answers at once where nothing is on its way, else with what is.
    pub(super) fn answer_when_written(&mut self, ticket: Ticket) {
        if !self.join_writes(Gate::Answer(ticket)) {
            self.settle_ticket(ticket, Ok(()));
        }
    }

    pub(super) fn keep_evidence(&mut self, attempt: Id, result: Result<Outcome, Thrown>) {
        if self.calls.is_working() {
            self.save_evidence(&attempt, result);
        } else if !self.calls.is_disposed() {
            self.calls.late.push_back(LateWork::Evidence { attempt, result });
        }
    }

    /// Under a claim of its own.
    pub(super) fn save_late_work(&mut self) {
        for work in std::mem::take(&mut self.calls.late) {
            match work {
                LateWork::Report { ticket, attempt, report } => self.report(ticket, attempt, report),
                LateWork::Evidence { attempt, result } => self.save_evidence(&attempt, result),
            }
        }
        self.finish_late_work();
    }

    /// Late work could not be saved.
    pub(super) fn refuse_late_work(&mut self, error: Option<RoundtableError>) {
        let Some(error) = error else { return };
        let late = std::mem::take(&mut self.calls.late).into_iter();
        let tickets = late.filter_map(|work| match work {
            LateWork::Report { ticket, .. } => Some(ticket),
            LateWork::Evidence { .. } => None,
        });
        let tickets = tickets.collect();
        self.refuse_tickets(tickets, &error);
    }
}

fn is_cache_hit(record: &UsageRecord) -> bool {
    matches!(&record.status, UsageStatus::Settled(settled) if settled.outcome == CallOutcome::CacheHit)
}

fn check_id(field: &str, id: &Id) -> Result<(), ServiceRefusal> {
    let len = utf16_len(id);
    if len == 0 || len > MAX_ID {
        let message = format!("{field} must have 1 to {MAX_ID} UTF-16 units, it has {len}");
        return Err(ServiceRefusal::Refused(RoundtableError::new(Code::InvalidConfig, message)));
    }
    Ok(())
}

pub(super) fn refused(code: Code, message: &str) -> ServiceRefusal {
    ServiceRefusal::Refused(RoundtableError::new(code, message))
}
