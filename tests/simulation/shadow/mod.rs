//! The reference: a second, plain reading of the journal, written from the rules and not from the engine.
//! It follows the store's bytes and says what is public, who has seen what and which entry may come next.

mod given;
mod groups;
mod view;

use crate::ledger::Ledger;
use agent_roundtable::record::entry::{Created, Entry};
use agent_roundtable::record::execution::ExecutionRecord;
use agent_roundtable::record::model::{
    Checkpoint, CompletedOutcome, Id, Limits, Message, Outcome, Request, Response, RunOutcome, Selection,
};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What an entry broke.
pub type Verdict = Result<(), String>;

#[derive(Default)]
pub struct Shadow {
    pub created: Option<Rc<Created>>,
    pub revision: u64,
    pub limits: Option<Limits>,
    /// The run that has not ended, as far as the journal says.
    pub run: Option<Run>,
    /// The outcome that every later run repeats.
    pub last_word: Option<RunOutcome>,
    pub messages: Vec<Rc<Message>>,
    pub completed: Vec<(Id, Id, CompletedOutcome)>,
    pub decision: Option<Selection>,
    pub selecting: Option<Id>,
    pub group: Option<Group>,
    pub requests: BTreeMap<Id, Ask>,
    /// Inputs and answers by their own id: what they said, and the revision that took them.
    pub given: BTreeMap<Id, Given>,
    pub ledger: Ledger,
    /// The turn and the participant of every attempt.
    pub attempts: BTreeMap<Id, (Id, Id)>,
    /// Attempts whose result and private state are saved.
    pub prepared: BTreeSet<Id>,
    pub messages_changed: u64,
    pub group_changed: u64,
    /// After each batch: the last change of the messages, and the base of the open group (C22).
    pub history: Vec<(u64, u64)>,
    /// Text that was private once, with the revision that made it public.
    pub public_since: BTreeMap<String, u64>,
    /// The revision of each admission and execution record.
    pub brought: BTreeMap<Id, u64>,
    /// What the selector is made again from.
    pub selector_state: Option<Checkpoint>,
    states: BTreeMap<Id, Checkpoint>,
    seen: BTreeMap<Id, BTreeSet<usize>>,
    decisions: usize,
    ids: BTreeSet<Id>,
}

pub struct Run {
    pub id: Id,
    pub turns: u64,
}

pub struct Group {
    pub id: Id,
    pub base: u64,
    pub turns: Vec<Turn>,
    /// Set where a selection asks an external participant.
    pub asks: Option<Id>,
}

pub struct Turn {
    pub id: Id,
    pub participant: Id,
    pub stage: Stage,
    pub attempt: Option<Id>,
    pub outcome: Option<Outcome>,
    /// The requests of its present wait, in order.
    pub waits_on: Vec<Id>,
    /// The requests of every wait it had, in order.
    pub asked: Vec<Id>,
    /// What its attempts recorded, until it is prepared with nothing to wait for, or fails.
    pub records: Vec<ExecutionRecord>,
    /// The revision of its last start, result or reconciliation.
    pub changed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    Pending,
    Running(Id),
    Settled,
    Prepared,
    Parked,
    Failed,
    Unsettled,
}

pub struct Ask {
    pub request: Request,
    pub opened: u64,
    pub changed: u64,
    pub answer: Option<(Id, Response)>,
    pub message_id: Option<Id>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Given {
    pub by: Id,
    pub request: Option<Id>,
    pub response: Response,
    pub revision: u64,
    pub message_id: Option<Id>,
}

impl Shadow {
    /// Follows one durable entry, or says which rule it breaks.
    pub fn apply(&mut self, revision: u64, entry: &Entry) -> Verdict {
        if self.created.is_none() != matches!(entry, Entry::Created(_)) {
            return Err("`created` is the first entry and no other".to_owned());
        }
        if self.last_word.is_some() && !matches!(entry, Entry::UsageReported(_) | Entry::LateResult(_)) {
            return Err("nothing but late reports follows a final outcome".to_owned());
        }
        self.revision = revision;
        match entry {
            Entry::Created(created) => self.created(created),
            Entry::RunStarted(run) => {
                self.fresh(&run.run_id)?;
                self.limits = run.limits.or(self.limits);
                self.selecting = None;
                self.run = Some(Run { id: run.run_id.clone(), turns: 0 });
                self.ledger.run_started(&run.run_id);
                Ok(())
            }
            Entry::Selecting(selecting) => {
                self.fresh(&selecting.attempt_id)?;
                let idle = self.group.is_none() && self.decision.is_none();
                rule(idle && self.has_turns_left(), "C34: selecting with no decision, no group and a turn left")?;
                self.ledger.attempted(&selecting.attempt_id);
                self.selecting = Some(selecting.attempt_id.clone());
                Ok(())
            }
            Entry::Selected(selected) => {
                rule(self.decision.is_none() && self.group.is_none(), "one decision at a time")?;
                self.decided(&selected.selection)?;
                self.selector_state = joined(self.selector_state.take(), selected.checkpoint.as_ref());
                self.decision = Some(selected.selection.clone());
                self.publish_marks(&serde_json::to_string(&selected.selection).unwrap());
                Ok(())
            }
            Entry::GroupStarted(group) => self.group_started(group),
            Entry::TurnStarted(turn) => self.turn_started(turn),
            Entry::TurnSettled(settled) => {
                let turn = self.turn(&settled.turn_id)?;
                rule(matches!(turn.stage, Stage::Running(_)), "only a running turn settles")?;
                rule(!matches!(settled.outcome, Outcome::Failed { .. }), "a failure is not a result")?;
                turn.stage = Stage::Settled;
                turn.outcome = Some(settled.outcome.clone());
                turn.changed = revision;
                Ok(())
            }
            Entry::TurnPrepared(prepared) => {
                let attempt = self.turn(&prepared.turn_id)?.attempt.clone();
                self.prepared.extend(attempt);
                self.turn_prepared(prepared)
            }
            Entry::TurnFailed(failed) => {
                let turn = self.turn(&failed.turn_id)?;
                let live = matches!(turn.stage, Stage::Running(_) | Stage::Settled);
                rule(live, "only a live turn fails")?;
                turn.stage = Stage::Failed;
                turn.records.clear();
                Ok(())
            }
            Entry::TurnStopped(stopped) => {
                let turn = self.turn(&stopped.turn_id)?;
                rule(matches!(turn.stage, Stage::Running(_)), "only a running turn stops")?;
                turn.stage = if turn.waits_on.is_empty() { Stage::Pending } else { Stage::Parked };
                Ok(())
            }
            Entry::TurnUnsettled(unsettled) => {
                let turn = self.turn(&unsettled.turn_id)?;
                rule(turn.is_running(), "C36: only running work is given up")?;
                turn.stage = Stage::Unsettled;
                turn.changed = revision;
                Ok(())
            }
            Entry::LateResult(late) => {
                let turn = self.turn(&late.turn_id)?;
                turn.changed = revision;
                let given_up = matches!(turn.stage, Stage::Unsettled);
                rule(given_up && late.outcome.is_some() != late.error.is_some(), "C36: late evidence of one kind")
            }
            Entry::GroupCommitted(commit) => self.group_committed(commit),
            Entry::Answered(answered) => self.answered(answered),
            Entry::Withdrawn(withdrawn) => self.withdrawn(withdrawn),
            Entry::InputAccepted(input) => self.input_accepted(input),
            Entry::CallAdmitted(call) => {
                let who = self.payer(&call.attempt_id)?;
                rule(self.is_live(&call.attempt_id), "C40: a late admission is refused")?;
                self.brought.insert(call.call_id.clone(), revision);
                self.ledger.admitted(call, who, self.limits.as_ref())
            }
            Entry::UsageReported(report) => {
                self.payer(&report.attempt_id)?;
                let version = self.created.as_ref().and_then(|created| created.price_version.clone());
                self.ledger.reported(report, version)
            }
            Entry::ExecutionRecorded(recorded) => {
                let record = &recorded.record;
                self.brought.insert(record.id.clone(), revision);
                let mut turns = self.group.iter_mut().flat_map(|group| &mut group.turns);
                let runs = |turn: &&mut Turn| turn.stage == Stage::Running(recorded.attempt_id.clone());
                let turn = turns.find(runs).ok_or("C40: only a running attempt records")?;
                let fresh = turn.records.iter().all(|known| known.id != record.id);
                turn.records.push(record.clone());
                rule(fresh, "C44: a record is stored once")
            }
            Entry::Reconciled(reconciled) => self.reconciled(reconciled),
            Entry::Migrated(migrated) => Err(format!("{} was never asked to move", migrated.participant_id)),
            Entry::RunEnded(ended) => {
                let run = self.run.take().filter(|run| run.id == ended.run_id);
                rule(run.is_some(), "only the present run ends")?;
                self.run_ended(&ended.outcome)
            }
            Entry::TurnCopied(_) | Entry::MessageCopied(_) | Entry::CheckpointCopied(_) => {
                Err("C52a: only a fork copies".to_owned())
            }
        }
    }

    fn created(&mut self, created: &Rc<Created>) -> Verdict {
        self.limits = Some(created.limits);
        self.created = Some(created.clone());
        Ok(())
    }

    /// What must hold between batches.
    pub fn batch_ended(&mut self) -> Verdict {
        self.history.push((self.messages_changed, self.group.as_ref().map_or(0, |group| group.base)));
        let answered = self.group.as_ref().is_some_and(|g| g.asks.is_some() && g.turns[0].stage == Stage::Prepared);
        rule(!answered, "C30a: the answer to a selection's request is public at once")
    }

    fn run_ended(&mut self, outcome: &RunOutcome) -> Verdict {
        match outcome {
            RunOutcome::Completed { .. } => {
                let finish = matches!(self.decision.take(), Some(Selection::Finish { .. }));
                rule(finish && self.group.is_none(), "a run completes by a saved finish")?;
                self.last_word = Some(outcome.clone());
            }
            RunOutcome::Failed { message, .. } => {
                self.publish_marks(message);
                self.last_word = Some(outcome.clone());
            }
            RunOutcome::Waiting => rule(!self.open_requests().is_empty(), "waiting needs an open request")?,
            RunOutcome::Limited { .. } | RunOutcome::Cancelled => {}
        }
        let failed = self.group.as_ref().is_some_and(|g| g.turns.iter().any(|turn| turn.stage == Stage::Failed));
        rule(!failed || self.last_word.is_some(), "C17: a failed member fails the conversation")?;
        let running = self.group.as_ref().is_some_and(|g| g.turns.iter().any(Turn::is_running));
        rule(!running, "C31: running work has settled before a run ends")
    }

    fn publish(&mut self, id: Id, who: &Id, content: Rc<str>, turn: &Id, group: &Id) -> Verdict {
        self.publish_marks(&content);
        rule(!self.messages.iter().any(|known| known.id == id), "nothing is published twice")?;
        self.messages.push(Rc::new(Message {
            id,
            participant_id: who.clone(),
            content,
            revision: self.revision,
            turn_id: turn.clone(),
            group_id: group.clone(),
        }));
        self.messages_changed = self.revision;
        Ok(())
    }

    fn publish_marks(&mut self, text: &str) {
        for mark in crate::marks::find(text) {
            self.public_since.entry(mark).or_insert(self.revision);
        }
    }

    /// Ids are never used again, whatever they name.
    fn fresh(&mut self, id: &Id) -> Verdict {
        rule(self.ids.insert(id.clone()), &format!("the id {id} was used before"))
    }

    fn turn(&mut self, id: &str) -> Result<&mut Turn, String> {
        let group = self.group.as_mut().ok_or("no group is open")?;
        group.turns.iter_mut().find(|turn| &*turn.id == id).ok_or_else(|| format!("no turn {id} in the open group"))
    }

    /// Who pays for an attempt: the participant of its turn, or nobody where the selector asks.
    fn payer(&self, attempt: &Id) -> Result<Option<Id>, String> {
        match self.attempts.get(attempt) {
            Some((_, who)) => Ok(Some(who.clone())),
            None => rule(self.ids.contains(attempt), "C40: an attempt that was announced").map(|()| None),
        }
    }

    fn is_live(&self, attempt: &Id) -> bool {
        self.selecting.as_ref() == Some(attempt) || self.running(attempt).is_some()
    }
}

impl Turn {
    pub fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running(_) | Stage::Settled)
    }
}

/// A checkpoint on top of the ones before: a new head, and what it appends added.
fn joined(before: Option<Checkpoint>, next: Option<&Checkpoint>) -> Option<Checkpoint> {
    let Some(next) = next else { return before };
    let before = before.and_then(|state| state.append).unwrap_or_default();
    let append: Vec<_> = before.into_iter().chain(next.append.iter().flatten().cloned()).collect();
    Some(Checkpoint { append: (!append.is_empty()).then_some(append), ..next.clone() })
}

pub fn rule(holds: bool, what: &str) -> Verdict {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}
