//! A session log that decodes: text and what each entry is, nothing rebuilt from it yet.

use super::entry::{EntryChecks, settle_entry};
use super::error::DecodeError;
use super::issue::Place;
use super::node::Node;
use super::vocabulary::EventKind;
use std::borrow::Cow;
use std::ops::Range;

/// A decoded log. Every entry in it is valid and holds no unresolved reference that its event forbids.
#[derive(Debug, Default)]
pub struct SessionLog {
    pub(super) text: String,
    pub(super) entries: Vec<Entry>,
}

/// Where an entry stands and what it is.
#[derive(Debug)]
pub(super) struct Entry {
    pub kind: EventKind,
    pub body: Body,
}

#[derive(Debug)]
pub(super) enum Body {
    /// A part of the log's own text.
    Line(Range<usize>),
    /// A text of its own: hydrated, or written from a host value.
    Own(Box<str>),
}

impl SessionLog {
    /// Decodes a list of entries as a host gives them, references left alone: a reference is accepted
    /// where any JSON is. For resolving them see [`super::LogLoader`].
    pub fn decode(entries: &Node<'_>) -> Result<SessionLog, DecodeError> {
        let mut log = SessionLog::default();
        let mut checks = EntryChecks::default();
        for (index, node) in items(entries)?.iter().enumerate() {
            log.admit(index, node, &Place::entry(index), &mut checks);
        }
        checks.verdict(EntryChecks::default())?;
        Ok(log)
    }

    /// Checks an entry and keeps it as a text of its own.
    pub(super) fn admit(&mut self, index: usize, node: &Node<'_>, place: &Place<'_>, checks: &mut EntryChecks) {
        if let Some(kind) = checks.entry(index, node, place) {
            self.entries.push(Entry { kind, body: Body::Own(node.to_json().into()) });
        }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the entry at `index` is.
    #[must_use]
    pub fn kind(&self, index: usize) -> Option<EventKind> {
        self.entries.get(index).map(|entry| entry.kind)
    }

    /// The JSON text of the entry at `index`: as recorded, with references replaced and the dates of its
    /// messages in the one form that `Date` reads alike everywhere.
    #[must_use]
    pub fn json(&self, index: usize) -> Option<String> {
        let entry = self.entries.get(index)?;
        let mut node = self.node(index)?;
        settle_entry(entry.kind, &mut node);
        Some(node.to_json())
    }

    /// The entry at `index` as a value.
    pub(super) fn node(&self, index: usize) -> Option<Node<'_>> {
        Node::parse(self.body(index)?).ok()
    }

    fn body(&self, index: usize) -> Option<&str> {
        match &self.entries.get(index)?.body {
            Body::Line(range) => self.text.get(range.clone()),
            Body::Own(text) => Some(text),
        }
    }

    /// The entries of one of these events, in order, with their places in the log.
    pub(super) fn nodes(&self, wanted: &[EventKind]) -> impl Iterator<Item = (usize, EventKind, Node<'_>)> {
        let places: Vec<usize> =
            (0..self.len()).filter(|at| self.kind(*at).is_some_and(|kind| wanted.contains(&kind))).collect();
        places.into_iter().filter_map(|at| Some((at, self.kind(at)?, self.node(at)?)))
    }
}

/// The entries of a list; `entries` is named where it is none.
pub(super) fn items<'n, 'a>(entries: &'n Node<'a>) -> Result<Cow<'n, [Node<'a>]>, DecodeError> {
    match entries {
        Node::Array(items) => Ok(Cow::Borrowed(items)),
        other => {
            let mut checks = EntryChecks::default();
            checks.issues.add(&Place::root("entries"), format!("expected an array, found {}", other.found()));
            checks.verdict(EntryChecks::default())?;
            Ok(Cow::Borrowed(&[]))
        }
    }
}
