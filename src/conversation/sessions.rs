//! The sessions of participants, which outlive their attempts.

use super::attempts::{Attempt, AttemptPhase};
use super::effect::Effect;
use super::error::Thrown;
use super::input::{SessionId, SessionTraits};
use super::machine::Machine;
use crate::record::model::Id;

/// A participant's session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) stage: SessionStage,
    pub(super) traits: SessionTraits,
    /// How many prepared results its private state holds.
    pub(super) prepared: u64,
    /// It holds an abandoned attempt: a fresh one is opened from the last checkpoint.
    pub(super) abandoned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionStage {
    Opening,
    Live,
    Releasing,
}

impl Machine {
    pub(super) fn open_session(&mut self, participant: usize, prepared: u64) {
        self.next_session += 1;
        let session = self.next_session;
        let traits = SessionTraits { can_resume: false, can_checkpoint: false };
        let opening = Session { id: session, stage: SessionStage::Opening, traits, prepared, abandoned: false };
        self.sessions.insert(participant, opening);
        let checkpoint = self.head.members.get(participant).and_then(|m| m.checkpoint.clone());
        self.effect(Effect::OpenSession { session, participant, checkpoint });
    }

    pub(super) fn session_opened(&mut self, id: SessionId, result: Result<SessionTraits, Thrown>) {
        let found = self.sessions.iter_mut().find(|(_, s)| s.id == id && s.stage == SessionStage::Opening);
        let Some((participant, session)) = found else { return };
        let participant = *participant;
        match result {
            Ok(traits) => {
                session.stage = SessionStage::Live;
                session.traits = traits;
                if let Some(attempt) = self.waiting_attempt(participant) {
                    self.open_or_run(&attempt);
                }
            }
            Err(thrown) => {
                self.sessions.remove(&participant);
                if let Some(attempt) = self.waiting_attempt(participant) {
                    self.not_opened(&attempt, &thrown);
                }
            }
        }
    }

    pub(super) fn waiting_attempt(&self, participant: usize) -> Option<Id> {
        let waits = |a: &Attempt| a.participant == participant && a.phase == AttemptPhase::Opening;
        self.attempts.iter().find(|(_, a)| waits(a)).map(|(id, _)| id.clone())
    }

    /// A prepared result is durable: the session of its attempt, if it is ours, holds it.
    pub(super) fn sync_session(&mut self, turn_id: &Id) {
        let Some(turn) = self.durable.turn(turn_id) else { return };
        let ours = turn.attempt.as_ref().is_some_and(|id| self.attempts.contains_key(id));
        let member = self.durable.members.get(turn.participant);
        if let (true, Some(member), Some(session)) = (ours, member, self.sessions.get_mut(&turn.participant)) {
            session.prepared = member.prepared;
        }
    }

    /// Gives every idle session back to its factory.
    pub(super) fn release_all_sessions(&mut self) {
        let live: Vec<SessionId> = self
            .sessions
            .values_mut()
            .filter(|s| s.stage == SessionStage::Live)
            .map(|session| {
                session.stage = SessionStage::Releasing;
                session.id
            })
            .collect();
        for session in live {
            self.effect(Effect::ReleaseSession { session });
        }
    }

    /// A disposal waits no longer for sessions that do not open; the host releases one that opens all the same.
    pub(super) fn give_up_openings(&mut self) {
        self.sessions.retain(|_, session| session.stage != SessionStage::Opening);
    }

    /// Nor for releases that do not end, and says so.
    pub(super) fn give_up_releases(&mut self) {
        for (participant, _) in std::mem::take(&mut self.sessions).iter() {
            let id = self.config.participants.get(*participant).map_or("", |p| &p.id);
            let message = format!("the session of participant \"{id}\" was not released in time");
            self.calls.release_failures.push(Thrown::told(&message));
        }
    }

    pub(super) fn session_released(&mut self, id: SessionId, result: Result<(), Thrown>) {
        let found = self.sessions.iter().find(|(_, s)| s.id == id && s.stage == SessionStage::Releasing);
        let Some((participant, _)) = found else { return };
        let participant = *participant;
        self.sessions.remove(&participant);
        if let Err(thrown) = result {
            self.calls.release_failures.push(thrown);
        }
        if let Some(attempt) = self.waiting_attempt(participant) {
            self.open_or_run(&attempt);
        }
    }
}
