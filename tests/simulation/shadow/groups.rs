//! Entries of groups and their turns, from the decision to what is published.

use super::{Ask, Group, Shadow, Stage, Turn, Verdict, joined, rule};
use agent_roundtable::record::entry::{GroupCommitted, GroupStarted, Reconciled, TurnPrepared, TurnStarted};
use agent_roundtable::record::model::{
    CompletedOutcome, Decision, Id, InputResponse, Outcome, Request, RequestKind, Response, Selection, Selector,
};

impl Shadow {
    pub(super) fn group_started(&mut self, started: &GroupStarted) -> Verdict {
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
    pub(super) fn decided(&mut self, selection: &Selection) -> Verdict {
        let created = self.created.as_ref().ok_or("no conversation")?;
        if created.selector != Selector::RoundRobin {
            return rule(self.selecting.take().is_some(), "C44: a decision follows its `selecting`");
        }
        let next = &created.participants[self.decisions % created.participants.len()].id;
        self.decisions += 1;
        rule(*selection == Selection::Speak { participant_id: next.clone() }, "C10: round robin in declared order")
    }

    pub(super) fn turn_started(&mut self, started: &TurnStarted) -> Verdict {
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

    pub(super) fn turn_prepared(&mut self, prepared: &TurnPrepared) -> Verdict {
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
    pub(super) fn reconciled(&mut self, entry: &Reconciled) -> Verdict {
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

    pub(super) fn ask(&mut self, request: Request) {
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

    pub(super) fn group_committed(&mut self, commit: &GroupCommitted) -> Verdict {
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

    fn complete(&mut self, turn: &Turn, spoke: bool) {
        let outcome = if spoke { CompletedOutcome::Speak } else { CompletedOutcome::Yield };
        self.completed.push((turn.id.clone(), turn.participant.clone(), outcome));
    }
}
