//! What attempts ask of the record: to be admitted to a model, to report it, to keep a journal.

use super::event::Event;
use super::machine::{Effect, Machine};
use super::turns::{Attempt, Gate};
use crate::conversation::effect::ServiceRefusal;
use crate::conversation::error::{Code, RoundtableError};
use crate::conversation::input::Ticket;
use crate::record::codec::{MAX_ENTRY_LEN, encode};
use crate::record::entry::{CallAdmitted, ExecutionRecorded, UsageReported};
use crate::record::execution::ExecutionRecord;
use crate::record::model::Id;
use crate::record::usage::{ModelCall, UsageReport, UsageStatus};
use crate::value::text::utf16_len;

impl Machine {
    pub(super) fn admit(&mut self, ticket: Ticket, attempt: Id, call: ModelCall) {
        if let Some(known) = self.head.ledger.get(&call.call_id) {
            let same = known.attempt_id == attempt
                && known.provider_id == call.provider_id
                && known.model_id == call.model_id
                && known.status == UsageStatus::Reserved;
            return self.settled(ticket, same, "the call id is used by another call");
        }
        let ModelCall { call_id, provider_id, model_id } = call;
        let at = self.at();
        let event = CallAdmitted { call_id, attempt_id: attempt.clone(), at, provider_id, model_id };
        self.ask(ticket, &attempt, Event::CallAdmitted(event));
    }

    pub(super) fn report(&mut self, ticket: Ticket, attempt: Id, report: UsageReport) {
        let UsageReport { call_id, outcome, provenance, tokens, raw, r#final, provider_id, model_id } = report;
        let event = UsageReported {
            call_id,
            attempt_id: attempt.clone(),
            at: self.at(),
            outcome,
            provenance,
            tokens,
            raw,
            r#final,
            provider_id,
            model_id,
            price: None,
        };
        self.ask(ticket, &attempt, Event::UsageReported(event));
    }

    pub(super) fn record(&mut self, ticket: Ticket, attempt: Id, record: ExecutionRecord) {
        let known = self.head.running(&attempt).and_then(|turn| turn.records.get(&record.id).cloned());
        if let Some(known) = known {
            return self.settled(ticket, known == record, "record.id is used by another record of the turn");
        }
        let at = self.at();
        self.ask(
            ticket,
            &attempt.clone(),
            Event::ExecutionRecorded(ExecutionRecorded { attempt_id: attempt, at, record }),
        );
    }

    /// The durable records of one execution of an attempt's turn, in their order.
    pub fn records(&self, attempt: &Id, execution_id: &str) -> Result<Vec<&ExecutionRecord>, RoundtableError> {
        let turns = self.durable.members.iter().filter_map(|member| member.turn.as_ref());
        let turn = turns.into_iter().find(|turn| turn.attempt.as_ref() == Some(attempt));
        let turn = turn.ok_or_else(|| RoundtableError::new(Code::Conflict, "the attempt is none of an open turn"))?;
        Ok(turn.records.of(execution_id))
    }

    /// Puts what an attempt asked on its way.
    fn ask(&mut self, ticket: Ticket, attempt: &Id, event: Event) {
        let refusal = match self.attempts.get(attempt) {
            Some(Attempt { running: true, signalled, .. }) if self.keeper.is_working() => {
                (*signalled && matches!(event, Event::CallAdmitted(_))).then_some(ServiceRefusal::Aborted)
            }
            Some(Attempt { signalled: true, .. }) => Some(ServiceRefusal::Aborted),
            _ => Some(refused("only a running attempt may ask this")),
        };
        let refusal = refusal.or_else(|| self.push_asked(ticket, event).err().map(ServiceRefusal::Refused));
        if let Some(refusal) = refusal {
            self.effect(Effect::Answer { ticket, result: Err(refusal) });
        }
    }

    fn push_asked(&mut self, ticket: Ticket, event: Event) -> Result<(), RoundtableError> {
        let line = encode(&event).map_err(|reason| RoundtableError::new(Code::Internal, reason))?;
        if utf16_len(&line) > MAX_ENTRY_LEN {
            return Err(RoundtableError::new(Code::Conflict, "what was asked is too long for a journal entry"));
        }
        let revision = self.keeper.revision() + 1;
        self.head.apply(&event, revision).map_err(|reason| RoundtableError::new(Code::Conflict, reason))?;
        self.keeper.push(vec![line], vec![(event, Gate::Answer(ticket))]);
        self.tickets.push(ticket);
        Ok(())
    }

    fn settled(&mut self, ticket: Ticket, fits: bool, otherwise: &str) {
        let result = if fits { Ok(()) } else { Err(refused(otherwise)) };
        self.effect(Effect::Answer { ticket, result });
    }
}

fn refused(message: &str) -> ServiceRefusal {
    ServiceRefusal::Refused(RoundtableError::new(Code::Conflict, message))
}
