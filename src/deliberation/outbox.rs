//! What a session owes to others: notices to deliver, its backing group to put or delete. Items follow from
//! the entries and stay until an entry says that they are done, so a crash forgets none. Each has a key
//! that stays the same however often it is tried.

use super::entry::Created;
use super::fields::{instant, number, object, text, texts};
use super::state::{ClosingKind, Spoken, State};
use crate::value::Json;
use std::ops::Range;
use std::rc::Rc;

/// Who sends what no member says: no agent's trust list refuses it for its sender's sake.
const SYSTEM: &str = "system";

/// Something owed.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its number in the session, ascending.
    pub number: u64,
    /// Since when.
    pub at: f64,
    /// What.
    pub step: Step,
}

/// What is owed, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The backing group as the session is now.
    PutGroup,
    /// No backing group.
    DeleteGroup,
    /// To a participant: take part.
    Invitation(Rc<str>),
    /// To a member: the entry of the thread at this place.
    Entry(usize, Rc<str>),
    /// To a member: the deadline comes near.
    Reminder(Rc<str>),
    /// To a participant: the outcome.
    Resolution(Rc<str>),
    /// To a member: the session ended without an outcome.
    Expiry(Rc<str>),
}

impl Step {
    /// Who is to get a notice.
    #[must_use]
    pub fn recipient(&self) -> Option<&Rc<str>> {
        match self {
            Step::PutGroup | Step::DeleteGroup => None,
            Step::Invitation(to)
            | Step::Entry(_, to)
            | Step::Reminder(to)
            | Step::Resolution(to)
            | Step::Expiry(to) => Some(to),
        }
    }
}

impl State {
    /// What is owed now.
    #[must_use]
    pub fn owed(&self) -> &[Item] {
        &self.outbox
    }

    /// At most `limit` of these items that are owed since `until` or longer, as JSON
    /// `{item, put | delete | notice}`; a notice is dated `now`, the time it is sent.
    pub(super) fn work(&self, numbers: Range<u64>, until: f64, limit: usize, now: f64) -> Json {
        // A group that is put late must not outlive its deletion.
        let is_put = !self.outbox.iter().any(|item| item.step == Step::PutGroup);
        let is_ready = |item: &&Item| is_put || item.step != Step::DeleteGroup;
        let items =
            self.outbox.iter().filter(|item| numbers.contains(&item.number) && item.at <= until).filter(is_ready);
        Json::Array(items.take(limit).map(|item| self.item_json(item, now)).collect())
    }

    fn item_json(&self, item: &Item, now: f64) -> Json {
        let Created { id, .. } = &*self.created;
        let mut put = None;
        let mut delete = None;
        let mut notice = None;
        match &item.step {
            Step::PutGroup => {
                put = Some(object([
                    ("id", Some(text(&self.group_id()))),
                    ("owner", Some(text(&self.facilitator))),
                    ("members", Some(texts(&self.members().cloned().collect::<Vec<_>>()))),
                    ("maxMembers", Some(number(self.participants.len() as u64 + 1))),
                    ("expiresAt", Some(instant(self.expires_at))),
                    ("idempotencyKey", Some(text(&format!("{id}/group-{}", item.number)))),
                ]));
            }
            Step::DeleteGroup => {
                delete = Some(object([
                    ("id", Some(text(&self.group_id()))),
                    ("by", Some(text(&self.facilitator))),
                    ("idempotencyKey", Some(text(&format!("{id}/group-deleted")))),
                ]));
            }
            Step::Invitation(to) => {
                notice = Some(self.notice("invitation", "invitation", to, SYSTEM, self.invitation(), now));
            }
            Step::Entry(index, to) => {
                if let Some(spoken) = self.thread.get(*index) {
                    let body = self.group_body([("thread_entry", Some(entry_json(spoken)))]);
                    notice = Some(self.notice("entry", &format!("entry-{index}"), to, &spoken.from, body, now));
                }
            }
            Step::Reminder(to) => {
                let body = object([
                    ("round_table_id", Some(text(id))),
                    ("topic", Some(text(&self.created.topic))),
                    ("expires_at", Some(instant(self.expires_at))),
                ]);
                notice = Some(self.notice("reminder", "reminder", to, SYSTEM, body, now));
            }
            Step::Resolution(to) => {
                notice = Some(self.notice("resolution", "resolution", to, &self.facilitator, self.resolution(), now));
            }
            Step::Expiry(to) => notice = Some(self.notice("expiry", "expiry", to, SYSTEM, self.expiry(), now)),
        }
        object([("item", Some(number(item.number))), ("put", put), ("delete", delete), ("notice", notice)])
    }

    /// The one place where envelopes are made.
    fn notice(&self, kind: &str, step: &str, to: &str, from: &str, body: Json, now: f64) -> Json {
        let Created { id, topic, .. } = &*self.created;
        let kind_of_message = match kind {
            "invitation" => "work_order",
            "entry" | "resolution" => "group_message",
            _ => "notification",
        };
        object([
            ("version", Some(text("1.0"))),
            ("type", Some(text(kind_of_message))),
            ("kind", Some(text(kind))),
            ("to", Some(text(to))),
            ("from", Some(text(from))),
            ("deliberationId", Some(text(id))),
            ("idempotencyKey", Some(text(&format!("{id}/{step}/{to}")))),
            // Quoted, so that a topic cannot pass for anything but a topic.
            ("subject", Some(text(&format!("{kind}: {}", text(topic).canonical())))),
            ("timestamp", Some(instant(now))),
            ("body", Some(body)),
        ])
    }

    /// As it was when the invitation was made: a repeated one says the same.
    fn invitation(&self) -> Json {
        let Created { id, topic, goal, facilitator, participants, expires_at, .. } = &*self.created;
        let instructions = object([
            ("read", Some(text("read the session, its thread and its deadline"))),
            ("speak", Some(text("add to the thread, before the deadline"))),
        ]);
        object([
            ("round_table_id", Some(text(id))),
            ("topic", Some(text(topic))),
            ("goal", Some(text(goal))),
            ("facilitator", Some(text(facilitator))),
            ("participants", Some(texts(participants))),
            ("expires_at", Some(instant(*expires_at))),
            ("instructions", Some(instructions)),
        ])
    }

    fn group_body<const N: usize>(&self, members: [(&str, Option<Json>); N]) -> Json {
        let mut body = vec![
            ("round_table_id".to_owned(), text(&self.created.id)),
            ("group_id".to_owned(), text(&self.group_id())),
        ];
        if let Json::Object(rest) = object(members) {
            body.extend(rest);
        }
        Json::Object(body)
    }

    fn resolution(&self) -> Json {
        let Some((at, ClosingKind::Resolved { outcome, decision, note })) =
            self.closing.as_ref().map(|closing| (closing.at, &closing.kind))
        else {
            return Json::Null;
        };
        self.group_body([
            ("outcome", Some(text(outcome))),
            ("decision", Some(text(decision.as_str()))),
            ("note", note.as_deref().map(text)),
            ("resolved_at", Some(instant(at))),
        ])
    }

    fn expiry(&self) -> Json {
        let reason = match self.closing.as_ref().map(|closing| &closing.kind) {
            Some(ClosingKind::Expired { reason }) => text(reason),
            _ => return Json::Null,
        };
        object([
            ("round_table_id", Some(text(&self.created.id))),
            ("topic", Some(text(&self.created.topic))),
            ("reason", Some(reason)),
            ("expires_at", Some(instant(self.expires_at))),
        ])
    }
}

/// One entry of the thread, as readers see it.
pub(super) fn entry_json(spoken: &Spoken) -> Json {
    object([
        ("id", Some(text(&spoken.id))),
        ("from", Some(text(&spoken.from))),
        ("message", Some(text(&spoken.message))),
        ("timestamp", Some(instant(spoken.at))),
    ])
}
