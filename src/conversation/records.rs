//! What members write down of their executions, and read back.

use super::attempts::AttemptPhase;
use super::effect::{Effect, ServiceRefusal};
use super::error::{Code, RoundtableError};
use super::input::Ticket;
use super::ledger::refused;
use super::machine::Machine;
use super::writer::Gate;
use crate::record::entry::{Entry, ExecutionRecorded};
use crate::record::execution::ExecutionRecord;
use crate::record::model::Id;
use crate::record::state::{State, Turn};

impl Machine {
    pub(super) fn record_asked(&mut self, ticket: Ticket, attempt: Id, record: ExecutionRecord) {
        match self.check_record(&attempt, &record) {
            Ok(true) => {
                let entry = ExecutionRecorded { attempt_id: attempt, at: self.at(), record };
                if let Err(error) = self.push(Entry::ExecutionRecorded(entry), Gate::Answer(ticket)) {
                    self.refuse_tickets(vec![ticket], &error);
                }
            }
            Ok(false) => self.answer_when_written(ticket),
            Err(refusal) => self.effect(Effect::Answer { ticket, result: Err(refusal) }),
        }
    }

    /// Whether a record is new; `false` where the turn has it already. A signalled attempt may go on
    /// recording what it did until it is over.
    fn check_record(&self, attempt: &Id, record: &ExecutionRecord) -> Result<bool, ServiceRefusal> {
        let known = self.attempts.get(attempt);
        if known.is_none_or(|attempt| attempt.phase != AttemptPhase::Running) {
            return Err(match known.is_some_and(|attempt| attempt.signalled.is_some()) {
                true => ServiceRefusal::Aborted,
                false => refused(Code::Conflict, "only a running attempt of a turn records its execution"),
            });
        }
        let turn = of_attempt(&self.head, attempt).map_err(ServiceRefusal::Refused)?;
        match turn.records.get(&record.id) {
            None => Ok(true),
            Some(kept) if kept == record => Ok(false),
            Some(_) => Err(refused(Code::Conflict, "record.id is used by another record of the turn")),
        }
    }

    /// The durable records of one execution of an attempt's turn, in their order. Refused with `conflict`
    /// where the attempt is not the latest of an open turn.
    pub fn records(&self, attempt: &Id, execution_id: &str) -> Result<Vec<&ExecutionRecord>, RoundtableError> {
        Ok(of_attempt(&self.durable, attempt)?.records.of(execution_id))
    }
}

fn of_attempt<'a>(state: &'a State, attempt: &Id) -> Result<&'a Turn, RoundtableError> {
    let mut turns = state.group.iter().flat_map(|g| &g.turns);
    let turn = turns.find(|turn| turn.attempt.as_ref() == Some(attempt));
    turn.ok_or_else(|| RoundtableError::new(Code::Conflict, "the attempt is none of an open turn"))
}
