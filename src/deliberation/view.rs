//! What readers see of a session, and what its store keeps beside its journal.

use super::entry::{Created, Stance, Verdict};
use super::fields::{instant, number, object, text, texts};
use super::outbox::entry_json;
use super::state::{ClosingKind, Position, State};
use crate::value::Json;
use std::rc::Rc;

/// Listed as a member of every record with an outbox that is not empty, so that a listing finds them. No
/// agent can have this id: those have no space around them.
const OUTBOX_MEMBER: &str = " outbox";

impl State {
    /// The session, with the entries of the thread that came after a version.
    pub(super) fn session_json(&self, since: u64) -> Json {
        let thread = self.thread.iter().filter(|one| one.version > since).map(entry_json).collect();
        self.json([
            ("thread", Some(Json::Array(thread))),
            ("positions", self.positions_json(|_| true)),
            ("dissent", self.positions_json(|one| self.is_dissent(one))),
            ("threadHash", Some(text(self.thread_hash()))),
        ])
    }

    /// The session without its thread.
    pub(super) fn listed_json(&self) -> Json {
        self.json([("threadLength", Some(number(self.thread.len() as u64)))])
    }

    /// The session as its creator gets it.
    pub(super) fn created_json(&self) -> Json {
        let mut session = self.session_json(0);
        if let (Json::Object(members), false) = (&mut session, self.created.excluded.is_empty()) {
            members.push(("excludedParticipants".to_owned(), texts(&self.created.excluded)));
        }
        session
    }

    fn json<const N: usize>(&self, rest: [(&str, Option<Json>); N]) -> Json {
        let Created { id, topic, goal, at, quorum, remind_at, .. } = &*self.created;
        let (mut outcome, mut decision, mut note, mut resolved_at, mut reason) = (Json::Null, None, None, None, None);
        if let Some(closing) = &self.closing {
            match &closing.kind {
                ClosingKind::Resolved { outcome: reached, decision: verdict, note: added } => {
                    outcome = text(reached);
                    decision = Some(text(verdict.as_str()));
                    note = added.as_deref().map(text);
                    resolved_at = Some(instant(closing.at));
                }
                ClosingKind::Expired { reason: why } => reason = Some(text(why)),
            }
        }
        let uninvited: Vec<Rc<str>> = self.uninvited.iter().filter(|one| self.is_participant(one)).cloned().collect();
        let mut json = object([
            ("id", Some(text(id))),
            ("topic", Some(text(topic))),
            ("goal", Some(text(goal))),
            ("facilitator", Some(text(&self.facilitator))),
            ("participants", Some(texts(&self.participants))),
            ("groupId", Some(text(&self.group_id()))),
            ("status", Some(text(self.status()))),
            ("version", Some(number(self.version))),
            ("outcome", Some(outcome)),
            ("decision", decision),
            ("note", note),
            ("createdAt", Some(instant(*at))),
            ("expiresAt", Some(instant(self.expires_at))),
            ("resolvedAt", resolved_at),
            ("updatedAt", (self.version > 1).then(|| instant(self.updated_at))),
            ("closeReason", reason),
            ("quorum", quorum.map(number)),
            ("remindAt", remind_at.map(instant)),
            ("uninvited", (!uninvited.is_empty()).then(|| texts(&uninvited))),
        ]);
        if let (Json::Object(members), Json::Object(rest)) = (&mut json, object(rest)) {
            members.extend(rest);
        }
        json
    }

    fn positions_json(&self, wanted: impl Fn(&Position) -> bool) -> Option<Json> {
        let one = |position: &Position| {
            object([
                ("participant", Some(text(&position.from))),
                ("stance", Some(text(position.stance.as_str()))),
                ("note", position.note.as_deref().map(text)),
                ("at", Some(instant(position.at))),
            ])
        };
        let listed: Vec<Json> = self.positions.iter().filter(|position| wanted(position)).map(one).collect();
        (!listed.is_empty()).then_some(Json::Array(listed))
    }

    /// Whether a position stood against what was decided.
    fn is_dissent(&self, position: &Position) -> bool {
        let Some(ClosingKind::Resolved { decision, .. }) = self.closing.as_ref().map(|closing| &closing.kind) else {
            return false;
        };
        matches!((decision, position.stance), (Verdict::Approved, Stance::Against) | (Verdict::Rejected, Stance::For))
    }

    /// `expiresAt` is when the session needs a look next while it is open, and when it ended afterwards.
    pub(super) fn summary_json(&self) -> Json {
        let mut members: Vec<Rc<str>> = self.members().cloned().collect();
        if !self.outbox.is_empty() {
            members.push(OUTBOX_MEMBER.into());
        }
        let reminder = self.created.remind_at.filter(|_| !self.is_reminded).unwrap_or(self.expires_at);
        let next = self.closing.as_ref().map_or(self.expires_at.min(reminder), |closing| closing.at);
        object([
            ("status", Some(text(self.status()))),
            ("members", Some(texts(&members))),
            ("createdAt", Some(instant(self.created.at))),
            ("updatedAt", Some(instant(self.updated_at))),
            ("expiresAt", Some(instant(next))),
        ])
    }
}
