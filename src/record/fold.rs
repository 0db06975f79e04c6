//! The fold: applies one entry after another and refuses whatever could not have happened.

use super::entry::{Created, Entry, GroupStarted, RunEnded, RunStarted, Selected, Selecting};
use super::execution::Records;
use super::model::{Checkpoint, Id, Limits, RunOutcome, Selection, Selector};
use super::state::{Group, IdMap, IdSet, Ledger, Member, Payer, Phase, Run, State, Turn};
use super::{execution, fold_ledger, fold_recovery, fold_turns, fold_waits, fork};
use std::rc::Rc;

/// Why an entry cannot follow the ones before it. Names ids and rules, never contents.
pub type Refusal = String;

impl State {
    /// The state right after creation.
    pub fn create(created: Rc<Created>) -> Result<State, Refusal> {
        let mut positions = IdMap::default();
        for (position, participant) in created.participants.iter().enumerate() {
            if positions.insert(participant.id.clone(), position).is_some() {
                return refuse("two participants share an id");
            }
        }
        if positions.is_empty() {
            return refuse("there are no participants");
        }
        check_limits(&created.limits)?;
        if created.max_concurrent_participants == 0 || created.lease_ms == 0 {
            return refuse("maxConcurrentParticipants and leaseMs are positive");
        }
        let mut state = State {
            revision: 1,
            entries: 1,
            issued: 0,
            limits: created.limits,
            members: vec![Member::default(); created.participants.len()],
            created,
            messages: Vec::new(),
            consumed_by: Vec::new(),
            turns: Vec::new(),
            messages_revision: 0,
            decision: None,
            decisions: 0,
            selector_checkpoint: None,
            selecting: None,
            group: None,
            run: None,
            last_run: None,
            ended: None,
            receipts: IdMap::default(),
            ledger: Ledger::default(),
            positions: Rc::new(positions),
            used_ids: IdSet::default(),
        };
        fork::begin(&mut state)?;
        Ok(state)
    }

    /// Folds in one entry of the batch with this revision.
    pub fn apply(&mut self, entry: &Entry, revision: u64) -> Result<(), Refusal> {
        fork::check_place(self, entry, revision)?;
        match entry {
            Entry::Created(_) => return refuse("a conversation is created once"),
            Entry::RunStarted(e) => self.run_started(e)?,
            Entry::Selecting(e) => self.selecting(e)?,
            Entry::Selected(e) => self.selected(e)?,
            Entry::GroupStarted(e) => self.group_started(e, revision)?,
            Entry::TurnStarted(e) => fold_turns::started(self, e, revision)?,
            Entry::TurnSettled(e) => fold_turns::settled(self, e, revision)?,
            Entry::TurnPrepared(e) => fold_turns::prepared(self, e, revision)?,
            Entry::TurnFailed(e) => fold_turns::failed(self, e)?,
            Entry::TurnStopped(e) => fold_turns::stopped(self, e)?,
            Entry::TurnUnsettled(e) => fold_turns::unsettled(self, e, revision)?,
            Entry::LateResult(e) => fold_turns::late_result(self, e, revision)?,
            Entry::GroupCommitted(e) => fold_turns::committed(self, e, revision)?,
            Entry::Answered(e) => fold_waits::answered(self, e, revision)?,
            Entry::Withdrawn(e) => fold_waits::withdrawn(self, e, revision)?,
            Entry::InputAccepted(e) => fold_waits::input_accepted(self, e, revision)?,
            Entry::CallAdmitted(e) => fold_ledger::admitted(self, e, revision)?,
            Entry::UsageReported(e) => fold_ledger::reported(self, e, revision)?,
            Entry::ExecutionRecorded(e) => execution::recorded(self, e)?,
            Entry::Reconciled(e) => fold_recovery::reconciled(self, e, revision)?,
            Entry::Migrated(e) => fold_recovery::migrated(self, e)?,
            Entry::RunEnded(e) => self.run_ended(e)?,
            Entry::TurnCopied(e) => fork::turn(self, e)?,
            Entry::MessageCopied(e) => fork::message(self, e, revision)?,
            Entry::CheckpointCopied(e) => fork::checkpoint(self, e)?,
        }
        self.revision = revision;
        self.entries += 1;
        Ok(())
    }

    fn run_started(&mut self, entry: &RunStarted) -> Result<(), Refusal> {
        if self.ended.is_some() {
            return refuse("the conversation has ended");
        }
        if let Some(limits) = &entry.limits {
            check_limits(limits)?;
            self.limits = *limits;
        }
        self.use_id(&entry.run_id)?;
        self.selecting = None;
        self.run = Some(Run { id: entry.run_id.clone(), turns: 0, calls: 0, tokens: 0 });
        self.last_run = Some(entry.run_id.clone());
        Ok(())
    }

    fn selecting(&mut self, entry: &Selecting) -> Result<(), Refusal> {
        let run = self.active_run()?.id.clone();
        if matches!(self.created.selector, Selector::RoundRobin) {
            return refuse("a built-in policy is not asked");
        }
        if self.decision.is_some() || self.group.is_some() || self.selecting.is_some() {
            return refuse("a decision is already on its way");
        }
        self.use_id(&entry.attempt_id)?;
        self.ledger.attempts.insert(entry.attempt_id.clone(), Payer { run, member: None });
        self.selecting = Some(entry.attempt_id.clone());
        Ok(())
    }

    fn selected(&mut self, entry: &Selected) -> Result<(), Refusal> {
        self.active_run()?;
        if self.decision.is_some() || self.group.is_some() {
            return refuse("a decision is already saved");
        }
        match &self.created.selector {
            Selector::RoundRobin => {
                if entry.checkpoint.is_some() || Some(&entry.selection) != self.round_robin().as_ref() {
                    return refuse("not what the built-in policy decides");
                }
            }
            Selector::Host { .. } => {
                if self.selecting.take().is_none() {
                    return refuse("a decision without an asking");
                }
            }
        }
        self.check_selection(&entry.selection)?;
        if let Some(checkpoint) = &entry.checkpoint {
            self.selector_checkpoint = Some(Checkpoint::joined(self.selector_checkpoint.take(), checkpoint));
        }
        self.decision = Some(entry.selection.clone());
        self.decisions += 1;
        Ok(())
    }

    fn group_started(&mut self, entry: &GroupStarted, revision: u64) -> Result<(), Refusal> {
        self.active_run()?;
        let Some(selection) = self.decision.take() else {
            return refuse("a group without a decision");
        };
        let (participants, reason) = self.selected_participants(&selection)?;
        if entry.turn_ids.len() != participants.len() {
            return refuse("turns and selected participants differ in number");
        }
        let external = participants.first().is_some_and(|p| !self.is_agent(*p));
        if external != entry.request_id.is_some() {
            return refuse("a request belongs to a selected external participant alone");
        }
        self.use_id(&entry.group_id)?;
        for turn_id in entry.turn_ids.iter() {
            self.use_id(turn_id)?;
        }
        let turns = entry.turn_ids.iter().zip(&participants).map(|(id, p)| Turn::pending(id.clone(), *p));
        let mut group = Group {
            id: entry.group_id.clone(),
            base_revision: revision,
            base_messages: self.messages.len(),
            external,
            turns: turns.collect(),
        };
        if let Some(request_id) = &entry.request_id {
            self.use_id(request_id)?;
            fold_waits::ask_selected(self, &mut group, request_id, reason, entry, revision)?;
        }
        self.group = Some(group);
        Ok(())
    }

    fn run_ended(&mut self, entry: &RunEnded) -> Result<(), Refusal> {
        if self.active_run()?.id != entry.run_id {
            return refuse("another run is active");
        }
        let turns = || self.group.iter().flat_map(|g| &g.turns);
        if turns().any(|t| t.phase == Phase::Running) {
            return refuse("a turn is still running");
        }
        let finished = matches!(self.decision, Some(Selection::Finish { .. }));
        match &entry.outcome {
            RunOutcome::Completed { reason } => {
                if !matches!(&self.decision, Some(Selection::Finish { reason: decided }) if decided == reason) {
                    return refuse("completed without that decision");
                }
                self.decision = None;
                self.ended = Some(entry.outcome.clone());
            }
            RunOutcome::Failed { .. } => self.ended = Some(entry.outcome.clone()),
            _ if finished || turns().any(|t| t.phase == Phase::Failed) => {
                return refuse("a final outcome was due");
            }
            RunOutcome::Waiting if self.open_requests().next().is_none() => {
                return refuse("nothing is waited for");
            }
            RunOutcome::Waiting | RunOutcome::Limited { .. } | RunOutcome::Cancelled => {}
        }
        self.run = None;
        self.selecting = None;
        Ok(())
    }

    pub(super) fn active_run(&self) -> Result<&Run, Refusal> {
        self.run.as_ref().ok_or_else(|| "no run is active".to_owned())
    }

    pub(super) fn use_id(&mut self, id: &Id) -> Result<(), Refusal> {
        if id.is_empty() {
            return refuse("an id is empty");
        }
        if !self.used_ids.insert(id.clone()) {
            return Err(format!("the id {id} is used already"));
        }
        self.issued += 1;
        Ok(())
    }

    /// Why a decision could not be carried out by any run, if so.
    pub fn check_selection(&self, selection: &Selection) -> Result<(), Refusal> {
        let (positions, _) = self.selected_participants(selection)?;
        let most = self.limits.max_turns_per_run;
        if positions.len() > MAX_GROUP || positions.len() as u64 > most {
            return Err(format!(
                "a group of {} is larger than maxTurnsPerRun ({most}) or {MAX_GROUP}",
                positions.len()
            ));
        }
        Ok(())
    }

    /// The positions of the selected participants, and the reason given for asking.
    pub fn selected_participants(&self, selection: &Selection) -> Result<(Vec<usize>, Rc<str>), Refusal> {
        let find = |id: &Id| self.position(id).ok_or_else(|| format!("there is no participant {id:?}"));
        match selection {
            Selection::Speak { participant_id } => {
                Ok((vec![find(participant_id)?], "It is your turn to speak.".into()))
            }
            Selection::Wait { participant_id, reason } => {
                let position = find(participant_id)?;
                if self.is_agent(position) {
                    return Err(format!("a wait takes an external participant, {participant_id:?} is an agent"));
                }
                Ok((vec![position], reason.clone()))
            }
            Selection::Parallel { participant_ids } => {
                let positions = participant_ids.iter().map(find).collect::<Result<Vec<_>, _>>()?;
                if positions.is_empty() {
                    return refuse("a parallel group names at least one participant");
                }
                if let Some(id) = participant_ids.iter().zip(&positions).find(|(_, p)| !self.is_agent(**p)) {
                    return Err(format!("a parallel group takes agents, {:?} is external", id.0));
                }
                let is_repeated = |(at, position)| positions.iter().take(at).any(|other| other == position);
                if positions.iter().enumerate().any(is_repeated) {
                    return refuse("a parallel group names a participant twice");
                }
                Ok((positions, "".into()))
            }
            Selection::Finish { .. } => Ok((Vec::new(), "".into())),
        }
    }
}

impl Turn {
    pub(super) fn pending(id: Id, participant: usize) -> Turn {
        Turn {
            id,
            participant,
            phase: Phase::Pending,
            attempt: None,
            earlier: Vec::new(),
            started_at: None,
            settled_at: None,
            outcome: None,
            asks: Vec::new(),
            replies: Vec::new(),
            failure: None,
            evidence: None,
            changed: 0,
            reconciled: None,
            records: Records::default(),
        }
    }
}

pub(super) fn refuse<T>(reason: &str) -> Result<T, Refusal> {
    Err(reason.to_owned())
}

fn check_limits(limits: &Limits) -> Result<(), Refusal> {
    let optional = [
        limits.timeout_ms,
        limits.settle_timeout_ms,
        limits.max_model_calls_per_run,
        limits.max_model_calls_per_conversation,
        limits.max_model_calls_per_participant,
        limits.max_tokens_per_run,
    ];
    let all = optional.into_iter().flatten().chain([limits.max_turns_per_run]);
    if all.into_iter().any(|limit| limit == 0 || limit > MAX_SAFE_INTEGER) {
        return refuse("every limit is a positive safe integer");
    }
    Ok(())
}

/// How a member's view is made: its id and version.
pub const CONTEXT_POLICY: (&str, &str) = ("roundtable/increments", "1");
/// The largest group.
pub const MAX_GROUP: usize = 256;
/// The largest integer that every host holds exactly.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
