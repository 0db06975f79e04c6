//! What follows from what was read: what is public, who has seen what, what is open.

use super::{Shadow, Stage, Turn};
use agent_roundtable::record::execution::ExecutionRecord;
use agent_roundtable::record::model::{Checkpoint, Id, Message, ModelCalls, ParticipantResponse, Request};
use std::rc::Rc;

impl Shadow {
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
    pub(super) fn fits(&self, names: &[Id]) -> bool {
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
}
