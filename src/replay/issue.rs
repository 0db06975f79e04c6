//! What a decoder finds wrong, and where.

use std::fmt;

/// How many issues one decoding lists; the rest are counted out.
pub const MAX_ISSUES: usize = 1000;

/// How much text the paths of one list may hold together: keys are as long as their log makes them.
const MAX_PATH_BYTES: usize = 16 << 20;

/// One thing that is wrong. The message says what was expected and which type was found, never a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// `line N`, `[i]` or `entries`, then `.key` and `[index]`, unescaped.
    pub path: String,
    /// What was expected and what was found.
    pub message: String,
}

/// The place of a value, as a chain up to its root.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'p> {
    parent: Option<&'p Place<'p>>,
    segment: Segment<'p>,
}

#[derive(Clone, Copy, Debug)]
enum Segment<'p> {
    Line(usize),
    Name(&'p str),
    Key(&'p str),
    Index(usize),
}

impl<'p> Place<'p> {
    /// A physical line of a log, counted from 1.
    pub fn line(number: usize) -> Place<'static> {
        Place { parent: None, segment: Segment::Line(number) }
    }

    /// An element of a list of entries, counted from 0.
    pub fn entry(index: usize) -> Place<'static> {
        Place { parent: None, segment: Segment::Index(index) }
    }

    /// A root that has a name.
    pub fn root(name: &'p str) -> Place<'p> {
        Place { parent: None, segment: Segment::Name(name) }
    }

    /// The member under `key`.
    pub fn key<'c>(&'c self, key: &'c str) -> Place<'c> {
        Place { parent: Some(self), segment: Segment::Key(key) }
    }

    /// The element at `index`.
    pub fn index(&self, index: usize) -> Place<'_> {
        Place { parent: Some(self), segment: Segment::Index(index) }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.segment {
            Segment::Line(number) => write!(f, "line {number}"),
            Segment::Name(name) => f.write_str(name),
            Segment::Key(key) => write!(f, ".{key}"),
            Segment::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Issues in the order of the entries they belong to, the first [`MAX_ISSUES`] of them.
#[derive(Debug, Default)]
pub(super) struct Issues {
    list: Vec<(usize, Issue)>,
    path_bytes: usize,
    total: usize,
    entry: usize,
}

impl Issues {
    /// Says which entry the next issues belong to.
    pub fn at_entry(&mut self, index: usize) {
        self.entry = index;
    }

    /// Adds an issue.
    pub fn add(&mut self, place: &Place<'_>, message: impl Into<String>) {
        self.total += 1;
        if self.list.len() >= MAX_ISSUES || self.path_bytes > MAX_PATH_BYTES {
            return;
        }
        let path = place.to_string();
        self.path_bytes += path.len();
        self.list.push((self.entry, Issue { path, message: message.into() }));
    }

    /// How many there were, listed or not.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The list, `self` and `other` in the order of their entries.
    pub fn merge(mut self, other: Issues) -> Vec<Issue> {
        self.list.extend(other.list);
        self.list.sort_by_key(|(entry, _)| *entry);
        self.list.truncate(MAX_ISSUES);
        self.list.into_iter().map(|(_, issue)| issue).collect()
    }
}
