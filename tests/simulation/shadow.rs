//! The reference: a second, plain reading of the journal, written from the rules and not from the engine.
//! It follows the store's bytes and says what is public, who has seen what and which entry may come next.

use crate::ledger::Ledger;
use agent_roundtable::record::entry::{
    Answered, Created, Door, Entry, GroupCommitted, GroupStarted, InputAccepted, Reconciled, TurnPrepared, TurnStarted,
    Withdrawn,
};
use agent_roundtable::record::execution::ExecutionRecord;
use agent_roundtable::record::model::{
    Checkpoint, CompletedOutcome, Decision, Id, InputResponse, Limits, Message, ModelCalls, Outcome,
    ParticipantResponse, Request, RequestKind, Response, RunOutcome, Selection, Selector,
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

    /// The positions a member's increment must hold (C12), by the rules.
    pub fn increment(&self, participant: &str, base: u64) -> Vec<usize> {
        let seen = self.seen.get(participant);
        let news = |(index, message): &(usize, &Rc<Message>)| {
            message.revision <= base
                && &*message.participant_id != participant
                && !seen.is_some_and(|seen| seen.contains(index))
        };
        self.messages.iter().enumerate().filter(news).map(|(index, _)| index).collect()
    }

    /// All answers of a turn's present wait, in request order; `None` while one is missing.
    pub fn responses(&self, turn: &Turn) -> Option<Vec<ParticipantResponse>> {
        let one = |id: &Id| {
            let ask = &self.requests[id];
            let (response_id, response) = ask.answer.clone()?;
            Some(ParticipantResponse { request: ask.request.clone(), response_id, response })
        };
        turn.waits_on.iter().map(one).collect()
    }

    /// Every open request, in the order they were asked.
    pub fn open_requests(&self) -> Vec<Request> {
        let Some(group) = &self.group else { return Vec::new() };
        let asked = group.turns.iter().flat_map(|turn| turn.waits_on.iter()).chain(&group.asks);
        asked.map(|id| &self.requests[id]).filter(|ask| ask.answer.is_none()).map(|ask| ask.request.clone()).collect()
    }

    pub fn find_turn(&self, id: &str) -> Option<&Turn> {
        self.group.as_ref()?.turns.iter().find(|turn| &*turn.id == id)
    }

    /// What the attempts of an open turn recorded, in order.
    pub fn records(&self, turn: &str) -> &[ExecutionRecord] {
        self.find_turn(turn).map_or(&[], |turn| &turn.records)
    }

    pub fn running(&self, attempt: &str) -> Option<&Turn> {
        let runs = |turn: &&Turn| matches!(&turn.stage, Stage::Running(id) if &**id == attempt);
        self.group.as_ref()?.turns.iter().find(runs)
    }

    /// Whether this attempt's result is saved and its private state is not.
    pub fn settled(&self, attempt: &str) -> bool {
        let settled = |turn: &Turn| turn.stage == Stage::Settled && turn.attempt.as_deref() == Some(attempt);
        self.group.as_ref().is_some_and(|group| group.turns.iter().any(settled))
    }

    /// What a participant's next session is opened from.
    pub fn saved_state(&self, participant: &str) -> Option<Checkpoint> {
        self.states.get(participant).cloned()
    }

    /// Whether a participant's result was ever saved.
    pub fn has_prepared(&self, participant: &str) -> bool {
        self.prepared.iter().any(|attempt| self.attempts.get(attempt).is_some_and(|(_, who)| &**who == participant))
    }

    pub fn has_unsettled(&self) -> bool {
        self.group.as_ref().is_some_and(|g| g.turns.iter().any(|turn| matches!(turn.stage, Stage::Unsettled)))
    }

    pub fn is_external(&self, participant: &str) -> bool {
        self.created.as_ref().is_some_and(|created| {
            created.participants.iter().any(|known| &*known.id == participant && known.agent.is_none())
        })
    }

    pub fn has_turns_left(&self) -> bool {
        let max = self.limits.map_or(0, |limits| limits.max_turns_per_run);
        self.run.as_ref().is_some_and(|run| run.turns < max)
    }

    /// C34: enough turns are left, and enough model calls for the members that make any.
    fn fits(&self, names: &[Id]) -> bool {
        let (Some(created), Some(limits), Some(run)) = (&self.created, &self.limits, &self.run) else { return false };
        let is_metered = |id: &Id| {
            let agent = created.participants.iter().find(|p| p.id == *id).and_then(|p| p.agent.as_ref());
            agent.is_some_and(|agent| agent.model_calls == Some(ModelCalls::Metered))
        };
        let metered = names.iter().filter(|id| is_metered(id)).count() as u64;
        run.turns + names.len() as u64 <= limits.max_turns_per_run && self.ledger.has_calls_left(limits, metered)
    }

    /// The oldest revision that a call accepted after `revision` may have seen (C22).
    pub fn oldest_seen(&self, revision: u64, request: Option<&Id>) -> u64 {
        let before = (revision as usize).checked_sub(1).and_then(|index| self.history.get(index));
        let (messages, group) = before.copied().unwrap_or_default();
        let asked = request.and_then(|id| self.requests.get(id)).map_or(0, |ask| ask.opened);
        messages.max(group).max(asked)
    }

    fn created(&mut self, created: &Rc<Created>) -> Verdict {
        self.limits = Some(created.limits);
        self.created = Some(created.clone());
        Ok(())
    }

    fn group_started(&mut self, started: &GroupStarted) -> Verdict {
        rule(self.group.is_none(), "one group at a time")?;
        self.fresh(&started.group_id)?;
        let selection = self.decision.take().ok_or("C7: a group follows its decision")?;
        let names: Vec<Id> = match &selection {
            Selection::Speak { participant_id } | Selection::Wait { participant_id, .. } => {
                vec![participant_id.clone()]
            }
            Selection::Parallel { participant_ids } => participant_ids.to_vec(),
            Selection::Finish { .. } => return Err("a finish opens no group".to_owned()),
        };
        rule(names.len() == started.turn_ids.len(), "a turn for each selected participant")?;
        let external = names.iter().all(|name| self.is_external(name));
        rule(external || self.fits(&names), "C34: a group that does not fit in the rest of the run is not started")?;
        rule(external == started.request_id.is_some(), "C8: a request exactly where a person is asked")?;
        let mut turns = Vec::new();
        for (id, participant) in started.turn_ids.iter().zip(names) {
            self.fresh(id)?;
            let (waits_on, asked, records) = (Vec::new(), Vec::new(), Vec::new());
            let id = id.clone();
            let (stage, attempt, outcome) = (Stage::Pending, None, None);
            turns.push(Turn { id, participant, stage, attempt, outcome, waits_on, asked, records, changed: 0 });
        }
        if let Some(request_id) = &started.request_id {
            self.fresh(request_id)?;
            let reason = match &selection {
                Selection::Wait { reason, .. } => reason.clone(),
                _ => "selected".into(),
            };
            let request = Request {
                id: request_id.clone(),
                reason,
                kind: RequestKind::Input,
                participant_id: turns[0].participant.clone(),
                group_id: started.group_id.clone(),
                turn_id: turns[0].id.clone(),
                member_id: None,
                data: None,
            };
            turns[0].stage = Stage::Parked;
            self.ask(request);
        }
        self.group_changed = self.revision;
        let asks = started.request_id.clone();
        self.group = Some(Group { id: started.group_id.clone(), base: self.revision, turns, asks });
        Ok(())
    }

    /// C9, C10, C44: a host's decision follows its `selecting`; the built-in policy goes round.
    fn decided(&mut self, selection: &Selection) -> Verdict {
        let created = self.created.as_ref().ok_or("no conversation")?;
        if created.selector != Selector::RoundRobin {
            return rule(self.selecting.take().is_some(), "C44: a decision follows its `selecting`");
        }
        let next = &created.participants[self.decisions % created.participants.len()].id;
        self.decisions += 1;
        rule(*selection == Selection::Speak { participant_id: next.clone() }, "C10: round robin in declared order")
    }

    fn turn_started(&mut self, started: &TurnStarted) -> Verdict {
        self.fresh(&started.attempt_id)?;
        rule(self.has_turns_left(), "C34: no attempt beyond `maxTurnsPerRun`")?;
        rule(self.ledger.has_tokens_left(self.limits.as_ref()), "no attempt beyond `maxTokensPerRun`")?;
        let answered = self.find_turn(&started.turn_id).is_some_and(|turn| self.responses(turn).is_some());
        let turn = self.turn(&started.turn_id)?;
        match turn.stage {
            Stage::Pending => {}
            Stage::Parked => rule(answered, "C27: a turn continues when all its requests are answered")?,
            _ => return Err(format!("a turn that is {:?} does not start", turn.stage)),
        }
        turn.stage = Stage::Running(started.attempt_id.clone());
        turn.attempt = Some(started.attempt_id.clone());
        let who = turn.participant.clone();
        self.attempts.insert(started.attempt_id.clone(), (started.turn_id.clone(), who));
        self.ledger.attempted(&started.attempt_id);
        self.run.as_mut().ok_or("no run")?.turns += 1;
        Ok(())
    }

    fn turn_prepared(&mut self, prepared: &TurnPrepared) -> Verdict {
        let revision = self.revision;
        let who = self.turn(&prepared.turn_id)?.participant.clone();
        if let Some(state) = joined(self.states.remove(&who), prepared.checkpoint.as_ref()) {
            self.states.insert(who, state);
        }
        let turn = self.turn(&prepared.turn_id)?;
        rule(turn.stage == Stage::Settled, "C15: only a settled turn is prepared")?;
        let Some(Outcome::Wait { requests }) = &turn.outcome else {
            turn.stage = Stage::Prepared;
            turn.records.clear();
            return Ok(());
        };
        rule(prepared.checkpoint.is_some(), "C25: a wait is parked with a checkpoint")?;
        turn.stage = Stage::Parked;
        turn.waits_on = requests.iter().map(|request| request.id.clone()).collect();
        turn.asked.extend(turn.waits_on.iter().cloned());
        let (turn_id, member, requests) = (turn.id.clone(), turn.participant.clone(), requests.clone());
        let group_id = self.group.as_ref().ok_or("no group")?.id.clone();
        for asked in requests {
            self.fresh(&asked.id)?;
            let whom = asked.participant_id.clone().unwrap_or_else(|| member.clone());
            if asked.kind == RequestKind::Input {
                rule(self.is_external(&whom), "C30: an input request names an external participant")?;
            }
            self.ask(Request {
                id: asked.id.clone(),
                reason: asked.reason.clone(),
                kind: asked.kind,
                participant_id: whom,
                group_id: group_id.clone(),
                turn_id: turn_id.clone(),
                member_id: Some(member.clone()),
                data: asked.data.clone(),
            });
        }
        self.group_changed = revision;
        Ok(())
    }

    /// C49: what a host decided of a turn that nobody saw settle.
    fn reconciled(&mut self, entry: &Reconciled) -> Verdict {
        let revision = self.revision;
        let turn = self.turn(&entry.turn_id)?;
        rule(turn.is_running() || turn.stage == Stage::Unsettled, "C49: only a turn whose outcome is unknown")?;
        turn.changed = revision;
        match &entry.decision {
            Decision::Retry => {
                turn.stage = if turn.waits_on.is_empty() { Stage::Pending } else { Stage::Parked };
                turn.outcome = None;
                Ok(())
            }
            Decision::Settle { outcome, checkpoint } => {
                turn.stage = Stage::Settled;
                turn.outcome = Some(outcome.clone());
                let (turn_id, at) = (entry.turn_id.clone(), entry.at.clone());
                self.turn_prepared(&TurnPrepared { turn_id, at, checkpoint: checkpoint.clone() })
            }
            Decision::Fail { message } => {
                turn.stage = Stage::Failed;
                turn.records.clear();
                self.publish_marks(message);
                Ok(())
            }
        }
    }

    fn ask(&mut self, request: Request) {
        self.publish_marks(&serde_json::to_string(&request).unwrap());
        let ask = Ask {
            request: request.clone(),
            opened: self.revision,
            changed: self.revision,
            answer: None,
            message_id: None,
        };
        self.requests.insert(request.id, ask);
    }

    fn group_committed(&mut self, commit: &GroupCommitted) -> Verdict {
        let group = self.group.take().filter(|group| group.id == commit.group_id).ok_or("no such group is open")?;
        let mut ids = commit.message_ids.iter();
        for turn in &group.turns {
            rule(turn.stage == Stage::Prepared, "C16: a group commits when every member is prepared")?;
            if let Some(request) = &group.asks {
                let accepted = self.requests[request].message_id.clone();
                rule(accepted.as_ref() == commit.message_ids.first(), "C30a: a person's message keeps its id")?;
                if let (Some(Outcome::Speak { content }), Some(id)) = (&turn.outcome, ids.next()) {
                    self.publish(id.clone(), &turn.participant, content.clone(), &turn.id, &group.id)?;
                }
                continue;
            }
            let increment = self.increment(&turn.participant, group.base);
            self.seen.entry(turn.participant.clone()).or_default().extend(increment);
            for asked in &turn.asked {
                let ask = &self.requests[asked];
                let Some((_, Response::Input(InputResponse::Said { content }))) = ask.answer.clone() else { continue };
                let (id, who) = (ask.message_id.clone(), ask.request.participant_id.clone());
                let id = id.ok_or("an answer in words has a message id")?;
                self.publish(id, &who, content, &turn.id, &group.id)?;
                let consumed = self.messages.len() - 1;
                self.seen.entry(turn.participant.clone()).or_default().insert(consumed);
            }
            if let Some(Outcome::Speak { content }) = &turn.outcome {
                let id = ids.next().ok_or("a message id for each speaking member")?;
                self.fresh(id)?;
                self.publish(id.clone(), &turn.participant, content.clone(), &turn.id, &group.id)?;
            }
        }
        rule(ids.next().is_none(), "no message id without a speaking member")?;
        for turn in &group.turns {
            let spoke = matches!(turn.outcome, Some(Outcome::Speak { .. }));
            self.complete(turn, spoke);
        }
        self.group_changed = self.revision;
        Ok(())
    }

    fn answered(&mut self, answered: &Answered) -> Verdict {
        let said = match &answered.response {
            Response::Input(InputResponse::Said { content }) => Some(content.clone()),
            _ => None,
        };
        rule(said.is_some() == answered.message_id.is_some(), "a message id exactly where something is said")?;
        if let Some(id) = &answered.message_id {
            self.fresh(id)?;
        }
        let of_input = answered.via == Door::Resume || matches!(answered.response, Response::Input(_));
        rule(of_input, "`submitInput` answers only input requests")?;
        let by = self.close(&answered.request_id, &answered.response_id, &answered.response)?;
        let ask = self.requests.get_mut(&answered.request_id).ok_or("no such request")?;
        ask.message_id = answered.message_id.clone();
        let given = Given {
            by,
            request: Some(answered.request_id.clone()),
            response: answered.response.clone(),
            revision: self.revision,
            message_id: answered.message_id.clone(),
        };
        self.given.insert(answered.response_id.clone(), given);
        self.settle_selection_group(&answered.request_id, said);
        Ok(())
    }

    fn withdrawn(&mut self, withdrawn: &Withdrawn) -> Verdict {
        let reason = Some(withdrawn.reason.clone());
        let response = match self.requests.get(&withdrawn.request_id).ok_or("no such request")?.request.kind {
            RequestKind::Approval => Response::Approval { approved: false, reason },
            _ => Response::Input(InputResponse::Declined { declined: true, reason }),
        };
        self.close(&withdrawn.request_id, &withdrawn.response_id, &response)?;
        self.settle_selection_group(&withdrawn.request_id, None);
        Ok(())
    }

    fn close(&mut self, request: &Id, response_id: &Id, response: &Response) -> Result<Id, String> {
        self.fresh(response_id)?;
        let revision = self.revision;
        let ask = self.requests.get_mut(request).ok_or("no such request")?;
        rule(ask.answer.is_none(), "C28: a request is answered once")?;
        ask.answer = Some((response_id.clone(), response.clone()));
        ask.changed = revision;
        Ok(ask.request.participant_id.clone())
    }

    /// C30a: the answer to a selection's request is the result of its turn.
    fn settle_selection_group(&mut self, request: &Id, said: Option<Rc<str>>) {
        if let Some(group) = self.group.as_mut().filter(|group| group.asks.as_ref() == Some(request)) {
            group.turns[0].stage = Stage::Prepared;
            group.turns[0].outcome = Some(said.map_or(Outcome::Yield, |content| Outcome::Speak { content }));
        }
    }

    /// What must hold between batches.
    pub fn batch_ended(&mut self) -> Verdict {
        self.history.push((self.messages_changed, self.group.as_ref().map_or(0, |group| group.base)));
        let answered = self.group.as_ref().is_some_and(|g| g.asks.is_some() && g.turns[0].stage == Stage::Prepared);
        rule(!answered, "C30a: the answer to a selection's request is public at once")
    }

    fn input_accepted(&mut self, input: &InputAccepted) -> Verdict {
        rule(self.group.is_none(), "C23: no unprompted input while a group is unfinished")?;
        rule(self.is_external(&input.participant_id), "C20: only an external participant")?;
        for id in [&input.input_id, &input.message_id, &input.group_id, &input.turn_id] {
            self.fresh(id)?;
        }
        let given = Given {
            by: input.participant_id.clone(),
            request: None,
            response: Response::Input(InputResponse::Said { content: input.content.clone() }),
            revision: self.revision,
            message_id: Some(input.message_id.clone()),
        };
        self.given.insert(input.input_id.clone(), given);
        let (id, content) = (input.message_id.clone(), input.content.clone());
        self.publish(id, &input.participant_id, content, &input.turn_id, &input.group_id)
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

    fn complete(&mut self, turn: &Turn, spoke: bool) {
        let outcome = if spoke { CompletedOutcome::Speak } else { CompletedOutcome::Yield };
        self.completed.push((turn.id.clone(), turn.participant.clone(), outcome));
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
