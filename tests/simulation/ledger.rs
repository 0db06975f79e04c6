//! The reference ledger: reservations, settlements and the counters that limits look at.

use crate::shadow::{Verdict, rule};
use agent_roundtable::record::entry::{CallAdmitted, UsageReported};
use agent_roundtable::record::model::{Id, Limits};
use agent_roundtable::record::usage::{CallOutcome, Money, Tokens};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Ledger {
    pub calls: BTreeMap<Id, Call>,
    calls_in_run: u64,
    calls_in_all: u64,
    calls_of: BTreeMap<Id, u64>,
    run: Option<Id>,
    run_of: BTreeMap<Id, Option<Id>>,
    /// What the policy said last for each call.
    pub quoted: BTreeMap<Id, Option<Money>>,
}

pub struct Call {
    pub attempt: Id,
    identity: (Id, Id),
    pub report: Option<UsageReported>,
    run: Option<Id>,
}

impl Ledger {
    pub fn run_started(&mut self, run: &Id) {
        self.run = Some(run.clone());
        self.calls_in_run = 0;
    }

    pub fn attempted(&mut self, attempt: &Id) {
        self.run_of.insert(attempt.clone(), self.run.clone());
    }

    pub fn admitted(&mut self, call: &CallAdmitted, who: Option<Id>, limits: Option<&Limits>) -> Verdict {
        rule(!self.calls.contains_key(&call.call_id), "C38: a call is admitted once")?;
        rule(self.has_tokens_left(limits), "no admission beyond `maxTokensPerRun`")?;
        self.calls_in_run += 1;
        self.calls_in_all += 1;
        let limits = limits.ok_or("no limits")?;
        let within = |count: u64, max: Option<u64>| max.is_none_or(|max| count <= max);
        rule(within(self.calls_in_run, limits.max_model_calls_per_run), "`maxModelCallsPerRun` holds")?;
        rule(within(self.calls_in_all, limits.max_model_calls_per_conversation), "calls per conversation hold")?;
        if let Some(who) = who {
            let count = self.calls_of.entry(who).or_default();
            *count += 1;
            rule(within(*count, limits.max_model_calls_per_participant), "calls per participant hold")?;
        }
        let identity = (call.provider_id.clone(), call.model_id.clone());
        let run = self.run_of.get(&call.attempt_id).cloned().flatten();
        self.calls.insert(call.call_id.clone(), Call { attempt: call.attempt_id.clone(), identity, report: None, run });
        Ok(())
    }

    pub fn reported(&mut self, report: &UsageReported, policy: Option<Id>) -> Verdict {
        let run = self.run_of.get(&report.attempt_id).cloned().flatten();
        if report.outcome == CallOutcome::CacheHit && !self.calls.contains_key(&report.call_id) {
            let (provider, model) = (report.provider_id.clone(), report.model_id.clone());
            let identity = provider.zip(model).ok_or("C39: a cache hit carries its identity")?;
            let call = Call { attempt: report.attempt_id.clone(), identity, report: None, run };
            self.calls.insert(report.call_id.clone(), call);
        }
        let call = self.calls.get_mut(&report.call_id).ok_or("C39: a report needs an admission")?;
        let names = report.provider_id.clone().zip(report.model_id.clone());
        rule(names.is_none_or(|names| names == call.identity), "C38: another identity under a used id")?;
        rule(call.attempt == report.attempt_id, "C40: nobody reports for another")?;
        if let Some(before) = &call.report {
            rule(!before.r#final, "C39: a final report is not replaced")?;
            rule(
                before.outcome == report.outcome || report.outcome != CallOutcome::CacheHit,
                "a call is no hit later",
            )?;
        }
        rule(
            report.price.as_ref().map(|price| &price.version) == policy.as_ref(),
            "C41: priced by the policy's version",
        )?;
        if let Some(price) = &report.price {
            let quoted = self.quoted.get(&report.call_id);
            rule(quoted == Some(&price.cost), "C41: the amount the policy gave, or none")?;
        }
        call.report = Some(report.clone());
        Ok(())
    }

    /// C42, by counting: tokens reported for calls of the present run.
    pub fn tokens_in_run(&self) -> u64 {
        let of_run = self.calls.values().filter(|call| call.run == self.run);
        of_run.filter_map(|call| call.report.as_ref()).map(tokens_of).sum()
    }

    pub fn is_of_present_run(&self, call: &Id) -> bool {
        self.calls.get(call).is_some_and(|call| call.run == self.run)
    }

    pub fn has_calls_left(&self, limits: &Limits, calls: u64) -> bool {
        limits.max_model_calls_per_run.is_none_or(|max| self.calls_in_run + calls <= max)
    }

    pub fn has_tokens_left(&self, limits: Option<&Limits>) -> bool {
        limits.and_then(|limits| limits.max_tokens_per_run).is_none_or(|max| self.tokens_in_run() < max)
    }
}

/// Cache hits spend no allowance of any limit; what is not known counts as 0.
fn tokens_of(report: &UsageReported) -> u64 {
    if report.outcome == CallOutcome::CacheHit {
        return 0;
    }
    report.tokens.map_or(0, |tokens| tokens.input.unwrap_or(0) + tokens.output.unwrap_or(0))
}

/// The price policy of every schedule: a pure function of the call, without an amount for some calls.
pub fn cost_of(call_id: &str, tokens: Option<&Tokens>) -> Option<Money> {
    let weight = call_id.bytes().map(u64::from).sum::<u64>();
    if weight % 5 == 0 {
        return None;
    }
    let currency = if weight % 2 == 0 { "EUR" } else { "XTS" };
    let amount = weight * 7 + tokens.and_then(|tokens| tokens.input).unwrap_or(0);
    Some(Money { currency: currency.into(), minor_units: amount.to_string().into() })
}
