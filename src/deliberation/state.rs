//! A session as its journal tells it.

use super::entry::{Created, Stance, Verdict};
use super::outbox::Item;
use crate::value::hash::sha256_hex;
use std::rc::Rc;

/// What the entries so far fold into.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    pub(super) created: Rc<Created>,
    pub(super) facilitator: Rc<str>,
    pub(super) participants: Vec<Rc<str>>,
    /// Those whose invitation was not delivered.
    pub(super) uninvited: Vec<Rc<str>>,
    pub(super) expires_at: f64,
    pub(super) is_extended: bool,
    pub(super) is_reminded: bool,
    pub(super) thread: Vec<Spoken>,
    /// The bytes of all messages of the thread.
    pub(super) thread_bytes: usize,
    pub(super) positions: Vec<Position>,
    pub(super) closing: Option<Closing>,
    /// How many entries there were that readers can tell: 1 after creation, the outbox's are not counted.
    pub(super) version: u64,
    /// When the last of them was made.
    pub(super) updated_at: f64,
    /// When the last entry of any kind was made; none is older than the one before.
    pub(super) last_at: f64,
    pub(super) outbox: Vec<Item>,
    /// The number of the next item of the outbox.
    pub(super) next_item: u64,
}

/// One entry of the thread.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Spoken {
    pub(super) id: Rc<str>,
    pub(super) from: Rc<str>,
    pub(super) message: Rc<str>,
    pub(super) at: f64,
    pub(super) key: Option<Rc<str>>,
    pub(super) hash: Rc<str>,
    /// The version of the session that this entry made.
    pub(super) version: u64,
}

/// What a participant thinks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Position {
    pub(super) from: Rc<str>,
    pub(super) stance: Stance,
    pub(super) note: Option<Rc<str>>,
    pub(super) at: f64,
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Closing {
    /// When it ended by its own rules: an expiry that was noticed late is as old as the deadline.
    pub(super) at: f64,
    pub(super) kind: ClosingKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ClosingKind {
    Resolved { outcome: Rc<str>, decision: Verdict, note: Option<Rc<str>> },
    Expired { reason: Rc<str> },
}

/// The reason of a session that its deadline closed.
pub(super) const TIMEOUT: &str = "timeout";

impl State {
    /// Whether somebody may read and speak.
    #[must_use]
    pub fn is_member(&self, agent: &str) -> bool {
        &*self.facilitator == agent || self.is_participant(agent)
    }

    pub(super) fn is_participant(&self, agent: &str) -> bool {
        self.participants.iter().any(|one| &**one == agent)
    }

    /// Facilitator first, then the participants.
    pub(super) fn members(&self) -> impl Iterator<Item = &Rc<str>> {
        std::iter::once(&self.facilitator).chain(&self.participants)
    }

    /// Whether the session was closed by an entry.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.closing.is_none()
    }

    /// How many entries the thread has.
    #[must_use]
    pub fn thread_length(&self) -> usize {
        self.thread.len()
    }

    pub(super) fn status(&self) -> &'static str {
        match self.closing.as_ref().map(|closing| &closing.kind) {
            None => "open",
            Some(ClosingKind::Resolved { .. }) => "resolved",
            Some(ClosingKind::Expired { .. }) => "expired",
        }
    }

    pub(super) fn group_id(&self) -> String {
        let Created { id, seed, .. } = &*self.created;
        let digest = sha256_hex(&format!("{seed} group"));
        format!("group://round-table-{id}-{}", digest.get(..8).unwrap_or_default())
    }

    /// The id of the next entry of the thread: a UUID of version 8, which any digest may fill.
    pub(super) fn next_thread_id(&self) -> String {
        let digest = sha256_hex(&format!("{} {}", self.created.seed, self.thread.len()));
        let part = |from: usize, to: usize| digest.get(from..to).unwrap_or_default();
        format!("{}-{}-8{}-a{}-{}", part(0, 8), part(8, 12), part(13, 16), part(17, 20), part(20, 32))
    }

    /// The hash of the thread; that of an empty one is the session's id.
    pub(super) fn thread_hash(&self) -> &str {
        self.thread.last().map_or(&self.created.id, |last| &last.hash)
    }
}
