//! Admissions, reports, limits and prices.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use agent_roundtable::conversation::effect::{Reply, ServiceRefusal};
use agent_roundtable::conversation::error::Thrown;
use agent_roundtable::conversation::event::EventKind;
use agent_roundtable::conversation::input::{CallId, Request, Timer};
use agent_roundtable::conversation::{Code, Effect, Input, LimitsPatch};
use agent_roundtable::record::model::{Id, LimitReason, Outcome, RunOutcome, Selection};
use agent_roundtable::record::usage::{
    CallOutcome, ModelCall, Money, PrincipalKind, Provenance, Tokens, UsageRecord, UsageReport, UsageStatus,
};
use std::rc::Rc;
use support::{Instant, lost, speak, thrown};

/// Metered participants and selector, with these caps; `ana` is running, or the selector is.
struct Ledger {
    host: Instant,
    run: CallId,
    attempt: Id,
    tickets: u32,
}

fn metered(extra: &str) -> Instant {
    let text = format!(
        r#"{{"conversationId":"c","seed":"s","selector":{{"modelCalls":"metered"}},"participants":[
            {{"kind":"agent","id":"ana","runtime":{{"id":"r","version":"1"}},"modelCalls":"metered"}},
            {{"kind":"agent","id":"bo","runtime":{{"id":"r","version":"1"}},"modelCalls":"metered"}}]{extra}}}"#
    );
    let options = agent_roundtable::value::Json::parse(&text).unwrap();
    let config = agent_roundtable::conversation::Config::read(&options).unwrap();
    let mut host = Instant::new(config, Box::new(|_| speak("x")));
    host.decisions.extend(["ana", "bo", "ana"].map(|who| Selection::Speak { participant_id: who.into() }));
    host
}

impl Ledger {
    fn new(extra: &str) -> Ledger {
        let mut host = metered(extra);
        host.hold = true;
        let run = host.start(Request::Run { limits: None });
        let selection = host.running.remove(0);
        let speak = Selection::Speak { participant_id: "ana".into() };
        let decision = agent_roundtable::conversation::input::Decision { selection: speak, checkpoint: None };
        host.input(Input::SelectorReturned { attempt: selection, result: Ok(decision) });
        let attempt = host.running[0].clone();
        Ledger { host, run, attempt, tickets: 0 }
    }

    fn admit_as(&mut self, attempt: &Id, call: &str, model: &str) -> Result<(), ServiceRefusal> {
        self.tickets += 1;
        let call = ModelCall { call_id: call.into(), provider_id: "p".into(), model_id: model.into() };
        self.host.input(Input::AdmissionAsked { ticket: self.tickets, attempt: attempt.clone(), call });
        self.host.answers.remove(&self.tickets).expect("answered")
    }

    fn admit(&mut self, call: &str) -> Result<(), ServiceRefusal> {
        let attempt = self.attempt.clone();
        self.admit_as(&attempt, call, "m")
    }

    fn report_as(&mut self, attempt: &Id, report: UsageReport) -> Result<(), ServiceRefusal> {
        self.tickets += 1;
        self.host.input(Input::UsageReported { ticket: self.tickets, attempt: attempt.clone(), report });
        self.host.answers.remove(&self.tickets).expect("answered")
    }

    fn report(&mut self, report: UsageReport) -> Result<(), ServiceRefusal> {
        let attempt = self.attempt.clone();
        self.report_as(&attempt, report)
    }

    fn record(&self, call: &str) -> UsageRecord {
        UsageRecord::clone(&self.host.machine.durable().ledger.records[call])
    }

    fn speaks(&mut self) {
        let attempt = self.attempt.clone();
        self.host.returns(&attempt, Ok(Outcome::Speak { content: "x".into() }));
    }
}

fn completed(call: &str, input: u64, output: u64) -> UsageReport {
    UsageReport {
        call_id: call.into(),
        outcome: CallOutcome::Completed,
        provenance: Provenance::Reported,
        tokens: Some(Tokens { input: Some(input), output: Some(output), ..Tokens::default() }),
        raw: None,
        r#final: true,
        provider_id: None,
        model_id: None,
    }
}

fn cache_hit(call: &str) -> UsageReport {
    let identity = Some("cache".into());
    UsageReport {
        outcome: CallOutcome::CacheHit,
        provider_id: identity.clone(),
        model_id: identity,
        ..completed(call, 5, 5)
    }
}

fn code(result: Result<(), ServiceRefusal>) -> Code {
    match result {
        Err(ServiceRefusal::Refused(error)) => error.code,
        other => panic!("{other:?}"),
    }
}

const LIMITS: &str = r#","limits":{"maxTurnsPerRun":9}"#;

fn refused_admission() -> Result<Outcome, Thrown> {
    Err(Thrown { is_refused_admission: true, ..thrown("limit") })
}

#[test]
fn c38_an_admission_is_durable_before_it_is_answered_and_idempotent() {
    let mut ledger = Ledger::new(LIMITS);
    ledger.admit("m1").unwrap();
    assert_eq!(ledger.host.entries("call-admitted").len(), 1);
    ledger.admit("m1").unwrap();
    assert_eq!(ledger.host.entries("call-admitted").len(), 1);
    let attempt = ledger.attempt.clone();
    assert_eq!(code(ledger.admit_as(&attempt, "m1", "another")), Code::Conflict);
    assert_eq!(ledger.host.machine.durable().ledger.calls, 1);
    assert_eq!(code(ledger.admit("")), Code::InvalidConfig);
    assert_eq!(code(ledger.admit(&"x".repeat(513))), Code::InvalidConfig);
    ledger.admit(&"x".repeat(512)).unwrap();
}

#[test]
fn c39_a_report_settles_once_and_a_final_one_stands() {
    let mut ledger = Ledger::new(LIMITS);
    assert_eq!(code(ledger.report(completed("m1", 1, 1))), Code::Conflict, "not admitted");
    ledger.admit("m1").unwrap();
    let provisional = UsageReport { r#final: false, ..completed("m1", 1, 1) };
    ledger.report(provisional.clone()).unwrap();
    ledger.report(provisional).unwrap();
    assert_eq!(ledger.host.entries("usage-reported").len(), 1, "the same report changes nothing");
    ledger.report(completed("m1", 10, 2)).unwrap();
    ledger.report(completed("m1", 10, 2)).unwrap();
    assert_eq!(code(ledger.report(completed("m1", 11, 2))), Code::Conflict);
    assert_eq!(ledger.host.machine.durable().run.as_ref().unwrap().tokens, 12);
    let tokens = Some(Tokens { reasoning: Some(1 << 53), ..Tokens::default() });
    assert_eq!(code(ledger.report(UsageReport { tokens, ..completed("m1", 0, 0) })), Code::InvalidConfig);
}

#[test]
fn c39_a_cache_hit_carries_its_identity_and_spends_no_allowance() {
    let mut ledger = Ledger::new(r#","limits":{"maxTurnsPerRun":9,"maxModelCallsPerRun":1}"#);
    ledger.report(cache_hit("h1")).unwrap();
    ledger.report(cache_hit("h1")).unwrap();
    ledger.admit("m1").unwrap();
    assert_eq!(ledger.host.machine.durable().ledger.calls, 1);
    assert_eq!((&*ledger.record("h1").provider_id, &*ledger.record("h1").model_id), ("cache", "cache"));
    assert_eq!(code(ledger.report(cache_hit("m1"))), Code::Conflict, "an admitted call is no hit");
    assert_eq!(code(ledger.admit("h1")), Code::Conflict, "a hit's id is used");
    assert_eq!(code(ledger.report(UsageReport { provider_id: None, ..cache_hit("h2") })), Code::Conflict);
    let named = UsageReport { provider_id: Some("p".into()), model_id: Some("m".into()), ..completed("m1", 1, 1) };
    assert_eq!(code(ledger.report(named)), Code::Conflict);
}

#[test]
fn c40_services_are_bound_to_their_turn() {
    let mut ledger = Ledger::new(LIMITS);
    ledger.admit("m1").unwrap();
    ledger.speaks();
    let first = std::mem::replace(&mut ledger.attempt, ledger.host.running[0].clone());
    let selection = ledger.attempt.clone();
    ledger.admit_as(&selection, "s1", "m").unwrap();
    assert_eq!(ledger.record("s1").principal.kind, PrincipalKind::Selector);
    assert_eq!((ledger.record("s1").turn_id, ledger.record("s1").group_id), (None, None));
    assert_eq!(code(ledger.report_as(&selection, completed("m1", 1, 1))), Code::Conflict, "a foreign call");
    assert_eq!(code(ledger.admit_as(&selection, "m1", "m")), Code::Conflict, "a foreign call id");
    assert_eq!(code(ledger.admit_as(&first, "m2", "m")), Code::Conflict, "its turn is over");
    ledger.report_as(&first, completed("m1", 1, 1)).unwrap();
    let record = ledger.record("m1");
    assert_eq!((record.principal.kind, &*record.principal.id), (PrincipalKind::Participant, "ana"));
    assert!(record.turn_id.is_some() && record.group_id.is_some() && record.attempt_id == first);
}

#[test]
fn c40_a_late_report_is_saved_without_an_event_and_a_late_admission_refused() {
    let mut ledger = Ledger::new(r#","limits":{"maxTurnsPerRun":1}"#);
    ledger.admit("m1").unwrap();
    ledger.speaks();
    assert!(ledger.host.replies.contains_key(&ledger.run));
    let usage = |host: &Instant| host.events.iter().filter(|e| matches!(e.kind, EventKind::Usage { .. })).count();
    let before = usage(&ledger.host);
    ledger.report(completed("m1", 3, 4)).unwrap();
    assert!(matches!(ledger.record("m1").status, UsageStatus::Settled(_)));
    assert_eq!(usage(&ledger.host), before);
    assert_eq!(ledger.host.entries("run-ended").len(), 1);
    assert_eq!(code(ledger.admit("m2")), Code::Conflict);
}

#[test]
fn c37_a_run_that_waits_behind_a_late_report_can_be_taken_back() {
    let mut ledger = Ledger::new(r#","limits":{"maxTurnsPerRun":1}"#);
    ledger.admit("m1").unwrap();
    ledger.speaks();
    ledger.host.append_failures.push_back((lost(), false));
    let attempt = ledger.attempt.clone();
    ledger.host.input(Input::UsageReported { ticket: 9, attempt, report: completed("m1", 3, 4) });
    let call = ledger.host.start(Request::Run { limits: None });
    assert!(!ledger.host.replies.contains_key(&call), "the report is being repeated");
    ledger.host.input(Input::Aborted { call });
    let reply = ledger.host.replies.remove(&call).unwrap().unwrap();
    assert!(matches!(reply, Reply::Ran { outcome: RunOutcome::Cancelled, .. }), "{reply:?}");
    ledger.host.now.mono += 50.0;
    ledger.host.input(Input::TimerFired { timer: Timer::Retry });
    assert_eq!(ledger.host.answers.remove(&9), Some(Ok(())));
    assert_eq!(ledger.host.entries("run-started").len(), 1);
}

#[test]
fn c35_a_refused_call_is_not_admitted_and_ends_the_run_once_work_has_settled() {
    for cap in ["maxModelCallsPerRun", "maxModelCallsPerConversation", "maxModelCallsPerParticipant"] {
        let mut ledger = Ledger::new(&format!(r#","limits":{{"maxTurnsPerRun":9,"{cap}":1}}"#));
        ledger.admit("m1").unwrap();
        assert_eq!(code(ledger.admit("m2")), Code::ModelCallLimit);
        assert!(!ledger.host.replies.contains_key(&ledger.run), "running work is awaited");
        let attempt = ledger.attempt.clone();
        ledger.host.returns(&attempt, refused_admission());
        let Ok(Reply::Ran { outcome, .. }) = ledger.host.replies[&ledger.run].clone() else { panic!() };
        assert_eq!(outcome, RunOutcome::Limited { reason: LimitReason::ModelCalls });
        assert_eq!(ledger.host.entries("turn-stopped").len(), 1, "the turn is pending again");
        let open = &ledger.host.machine.durable().group.as_ref().unwrap().turns[0];
        assert!(open.is_dispatchable());
    }
}

#[test]
fn c32_a_result_after_a_refused_admission_is_kept() {
    let mut ledger = Ledger::new(r#","limits":{"maxTurnsPerRun":9,"maxModelCallsPerRun":1}"#);
    ledger.admit("m1").unwrap();
    assert_eq!(code(ledger.admit("m2")), Code::ModelCallLimit);
    ledger.speaks();
    let Ok(Reply::Ran { outcome, .. }) = ledger.host.replies[&ledger.run].clone() else { panic!() };
    assert_eq!(outcome, RunOutcome::Limited { reason: LimitReason::ModelCalls });
    assert_eq!(ledger.host.transcript().len(), 1, "no signal fired: the group completes");
    assert_eq!(ledger.host.count(|e| matches!(e, Effect::Abort { .. })), 0);
}

#[test]
fn c34_a_group_with_more_metered_members_than_calls_left_is_not_started() {
    let mut host = metered(r#","limits":{"maxTurnsPerRun":9,"maxModelCallsPerRun":1}"#);
    host.decisions.clear();
    host.decisions.push_back(Selection::Parallel { participant_ids: ["ana".into(), "bo".into()].into() });
    let Reply::Ran { outcome, .. } = host.run() else { panic!() };
    assert_eq!(outcome, RunOutcome::Limited { reason: LimitReason::ModelCalls });
    assert!(host.machine.durable().decision.is_some() && host.entries("group-started").is_empty());
    let patch = LimitsPatch { max_model_calls_per_run: Some(2), ..LimitsPatch::default() };
    host.call(Request::Run { limits: Some(patch) }).unwrap();
    assert_eq!((host.transcript().len(), host.entries("selected").len()), (2, 2));
}

#[test]
fn c34_a_token_limit_stops_dispatch_and_admission() {
    let mut ledger = Ledger::new(r#","limits":{"maxTurnsPerRun":9,"maxTokensPerRun":10}"#);
    ledger.admit("m1").unwrap();
    ledger.report(completed("m1", 4, 5)).unwrap();
    ledger.admit("m2").unwrap();
    ledger.report(completed("m2", 0, 1)).unwrap();
    assert_eq!(code(ledger.admit("m3")), Code::ModelCallLimit);
    let attempt = ledger.attempt.clone();
    ledger.host.returns(&attempt, refused_admission());
    let Ok(Reply::Ran { outcome, .. }) = ledger.host.replies[&ledger.run].clone() else { panic!() };
    assert_eq!(outcome, RunOutcome::Limited { reason: LimitReason::Tokens });
}

#[test]
fn c34_spent_tokens_ask_no_selector() {
    let mut ledger = Ledger::new(r#","limits":{"maxTurnsPerRun":9,"maxTokensPerRun":10}"#);
    ledger.admit("m1").unwrap();
    ledger.report(completed("m1", 4, 6)).unwrap();
    ledger.speaks();
    let Ok(Reply::Ran { outcome, .. }) = ledger.host.replies[&ledger.run].clone() else { panic!() };
    assert_eq!(outcome, RunOutcome::Limited { reason: LimitReason::Tokens });
    assert_eq!((ledger.host.entries("selecting").len(), ledger.host.transcript().len()), (1, 1));
}

#[test]
fn c41_a_price_is_asked_once_per_settlement_and_kept() {
    let mut ledger = Ledger::new(&format!(r#","priceVersion":"2027"{LIMITS}"#));
    let huge: Rc<str> = "90071992547409930001".into();
    ledger.host.cost = Some(Money { currency: "EUR".into(), minor_units: huge.clone() });
    ledger.admit("m1").unwrap();
    assert_eq!(ledger.record("m1").price, None);
    ledger.report(completed("m1", 1, 2)).unwrap();
    ledger.report(completed("m1", 1, 2)).unwrap();
    assert_eq!(ledger.host.priced.len(), 1);
    assert!(matches!(&ledger.host.priced[0].status, UsageStatus::Settled(said) if said.tokens.is_some()));
    let price = ledger.record("m1").price.unwrap();
    assert_eq!((&*price.version, price.cost.unwrap().minor_units), ("2027", huge));
    ledger.host.cost = None;
    ledger.admit("m2").unwrap();
    ledger.report(completed("m2", 1, 2)).unwrap();
    assert_eq!(ledger.record("m2").price.map(|p| p.cost), Some(None));
    ledger.report(cache_hit("m3")).unwrap();
    assert!(
        matches!(&ledger.host.priced[2].status, UsageStatus::Settled(said) if said.outcome == CallOutcome::CacheHit)
    );
}

#[test]
fn c18_every_ledger_change_is_an_event_of_its_run() {
    let mut ledger = Ledger::new(LIMITS);
    ledger.admit("m1").unwrap();
    ledger.report(completed("m1", 1, 2)).unwrap();
    let told = ledger.host.events.iter().filter_map(|e| match &e.kind {
        EventKind::Usage { record } => Some(matches!(record.status, UsageStatus::Settled(_))),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [false, true]);
}
