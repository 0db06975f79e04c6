//! The entries of a session's journal: one line of JSON each, an object with one member that is named by
//! the entry's kind and schema version. [`record::codec`](crate::record::codec) writes and reads the lines.

use super::fields::{Fields, instant, number, object, text, texts};
use crate::value::shape::{Read, Reader};
use crate::value::{Json, JsonError};
use serde::Serialize;
use std::rc::Rc;

/// What happened. Times are epoch milliseconds here and ISO 8601 in the line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "Json")]
pub enum Entry {
    /// Always the first, never again.
    Created(Rc<Created>),
    /// A member added to the thread.
    Spoke {
        /// When.
        at: f64,
        /// The thread entry's id, a UUID that follows from the session's seed.
        id: Rc<str>,
        /// Who.
        from: Rc<str>,
        /// What, trimmed.
        message: Rc<str>,
        /// The speaker's own key for this entry.
        key: Option<Rc<str>>,
        /// The hash of the thread up to and including this entry.
        hash: Rc<str>,
    },
    /// A participant took a position, in place of the one before.
    Positioned {
        /// When.
        at: f64,
        /// Who.
        from: Rc<str>,
        /// Which.
        stance: Stance,
        /// Why.
        note: Option<Rc<str>>,
    },
    /// A participant left.
    Declined {
        /// When.
        at: f64,
        /// Who.
        from: Rc<str>,
        /// Why.
        note: Option<Rc<str>>,
    },
    /// A participant became the facilitator, and the facilitator a participant.
    HandedOver {
        /// When.
        at: f64,
        /// The new facilitator.
        to: Rc<str>,
    },
    /// The deadline was moved; once in a session.
    Extended {
        /// When.
        at: f64,
        /// The new deadline.
        expires_at: f64,
    },
    /// The members were reminded of the deadline; once in a session.
    Reminded {
        /// When.
        at: f64,
    },
    /// The facilitator closed the session with an outcome.
    Resolved {
        /// When.
        at: f64,
        /// The outcome, trimmed.
        outcome: Rc<str>,
        /// The decision.
        decision: Verdict,
        /// What the facilitator adds to the decision.
        note: Option<Rc<str>>,
    },
    /// The deadline passed.
    Expired {
        /// When that was noticed.
        at: f64,
    },
    /// The facilitator closed the session without an outcome.
    Closed {
        /// When.
        at: f64,
        /// Why.
        reason: Rc<str>,
    },
    /// Items of the outbox are done.
    Done {
        /// When.
        at: f64,
        /// Their numbers, ascending.
        items: Vec<u64>,
    },
}

/// How a session begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Created {
    /// The session's id.
    pub id: Rc<str>,
    /// When.
    pub at: f64,
    /// The ids of the session derive from it.
    pub seed: Rc<str>,
    /// What it is about, trimmed.
    pub topic: Rc<str>,
    /// What it is to reach, trimmed.
    pub goal: Rc<str>,
    /// Who created it.
    pub facilitator: Rc<str>,
    /// Those who take part, in the order in which they were first named.
    pub participants: Vec<Rc<str>>,
    /// Those who were named and are not known.
    pub excluded: Vec<Rc<str>>,
    /// The deadline.
    pub expires_at: f64,
    /// When the members are reminded.
    pub remind_at: Option<f64>,
    /// How many positions a resolution needs.
    pub quorum: Option<u64>,
    /// The creator's own key, where there was one.
    pub key: Option<Rc<str>>,
    /// The digest of what was asked for, by which a repeated creation is told from another.
    pub digest: Rc<str>,
}

/// What the facilitator decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The proposal stands.
    Approved,
    /// It falls.
    Rejected,
    /// It is put off.
    Deferred,
}

impl Verdict {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Approved => "approved",
            Verdict::Rejected => "rejected",
            Verdict::Deferred => "deferred",
        }
    }

    /// The verdict of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Verdict::Approved, Verdict::Rejected, Verdict::Deferred].into_iter().find(|one| one.as_str() == name)
    }
}

/// What a participant thinks of the proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stance {
    /// In favour.
    For,
    /// Opposed.
    Against,
    /// Neither.
    Abstain,
}

impl Stance {
    /// The stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Stance::For => "for",
            Stance::Against => "against",
            Stance::Abstain => "abstain",
        }
    }

    /// The stance of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Stance::For, Stance::Against, Stance::Abstain].into_iter().find(|one| one.as_str() == name)
    }
}

impl From<Entry> for Json {
    fn from(entry: Entry) -> Json {
        let optional = |value: &Option<Rc<str>>| value.as_deref().map(text);
        let (name, members) = match &entry {
            Entry::Created(created) => ("created/1", created.to_json()),
            Entry::Spoke { at, id, from, message, key, hash } => (
                "spoke/1",
                object([
                    ("at", Some(instant(*at))),
                    ("id", Some(text(id))),
                    ("from", Some(text(from))),
                    ("message", Some(text(message))),
                    ("key", optional(key)),
                    ("hash", Some(text(hash))),
                ]),
            ),
            Entry::Positioned { at, from, stance, note } => (
                "positioned/1",
                object([
                    ("at", Some(instant(*at))),
                    ("from", Some(text(from))),
                    ("stance", Some(text(stance.as_str()))),
                    ("note", optional(note)),
                ]),
            ),
            Entry::Declined { at, from, note } => (
                "declined/1",
                object([("at", Some(instant(*at))), ("from", Some(text(from))), ("note", optional(note))]),
            ),
            Entry::HandedOver { at, to } => {
                ("handed-over/1", object([("at", Some(instant(*at))), ("to", Some(text(to)))]))
            }
            Entry::Extended { at, expires_at } => {
                ("extended/1", object([("at", Some(instant(*at))), ("expiresAt", Some(instant(*expires_at)))]))
            }
            Entry::Reminded { at } => ("reminded/1", object([("at", Some(instant(*at)))])),
            Entry::Resolved { at, outcome, decision, note } => (
                "resolved/1",
                object([
                    ("at", Some(instant(*at))),
                    ("outcome", Some(text(outcome))),
                    ("decision", Some(text(decision.as_str()))),
                    ("note", optional(note)),
                ]),
            ),
            Entry::Expired { at } => ("expired/1", object([("at", Some(instant(*at)))])),
            Entry::Closed { at, reason } => {
                ("closed/1", object([("at", Some(instant(*at))), ("reason", Some(text(reason)))]))
            }
            Entry::Done { at, items } => {
                let items = Json::Array(items.iter().map(|item| number(*item)).collect());
                ("done/1", object([("at", Some(instant(*at))), ("items", Some(items))]))
            }
        };
        object([(name, Some(members))])
    }
}

impl Created {
    fn to_json(&self) -> Json {
        let listed = |list: &[Rc<str>]| (!list.is_empty()).then(|| texts(list));
        object([
            ("id", Some(text(&self.id))),
            ("at", Some(instant(self.at))),
            ("seed", Some(text(&self.seed))),
            ("topic", Some(text(&self.topic))),
            ("goal", Some(text(&self.goal))),
            ("facilitator", Some(text(&self.facilitator))),
            ("participants", listed(&self.participants)),
            ("excluded", listed(&self.excluded)),
            ("expiresAt", Some(instant(self.expires_at))),
            ("remindAt", self.remind_at.map(instant)),
            ("quorum", self.quorum.map(number)),
            ("key", self.key.as_deref().map(text)),
            ("digest", Some(text(&self.digest))),
        ])
    }
}

impl Read for Entry {
    fn read(reader: &mut Reader<'_>) -> Self {
        let name = reader.variant();
        let entry = read(&name, reader.json()).unwrap_or_else(|message| {
            reader.fail(JsonError { message });
            Entry::Reminded { at: 0.0 }
        });
        reader.end_variant();
        entry
    }
}

fn read(name: &str, members: Json) -> Result<Entry, String> {
    let fields = &mut Fields::of(members)?;
    let at = fields.instant("at")?;
    let entry = match name {
        "created/1" => Entry::Created(Rc::new(Created {
            id: fields.text("id")?,
            at,
            seed: fields.text("seed")?,
            topic: fields.text("topic")?,
            goal: fields.text("goal")?,
            facilitator: fields.text("facilitator")?,
            participants: fields.texts("participants")?,
            excluded: fields.texts("excluded")?,
            expires_at: fields.instant("expiresAt")?,
            remind_at: fields.optional_instant("remindAt")?,
            quorum: fields.optional_integer("quorum")?,
            key: fields.optional_text("key")?,
            digest: fields.text("digest")?,
        })),
        "spoke/1" => Entry::Spoke {
            at,
            id: fields.text("id")?,
            from: fields.text("from")?,
            message: fields.text("message")?,
            key: fields.optional_text("key")?,
            hash: fields.text("hash")?,
        },
        "positioned/1" => Entry::Positioned {
            at,
            from: fields.text("from")?,
            stance: Stance::named(&fields.text("stance")?).ok_or("a stance there is not")?,
            note: fields.optional_text("note")?,
        },
        "declined/1" => Entry::Declined { at, from: fields.text("from")?, note: fields.optional_text("note")? },
        "handed-over/1" => Entry::HandedOver { at, to: fields.text("to")? },
        "extended/1" => Entry::Extended { at, expires_at: fields.instant("expiresAt")? },
        "reminded/1" => Entry::Reminded { at },
        "resolved/1" => Entry::Resolved {
            at,
            outcome: fields.text("outcome")?,
            decision: Verdict::named(&fields.text("decision")?).ok_or("a decision there is not")?,
            note: fields.optional_text("note")?,
        },
        "expired/1" => Entry::Expired { at },
        "closed/1" => Entry::Closed { at, reason: fields.text("reason")? },
        "done/1" => Entry::Done { at, items: fields.integers("items")? },
        _ => return Err("a kind or version of entry there is not".to_owned()),
    };
    fields.end().map(|()| entry)
}
