//! Loads a log in phases, of which the first that fails decides: every line parses, references are
//! resolved across the whole log, every entry decodes.

use super::entry::EntryChecks;
use super::error::{DecodeCode, DecodeError, LoadError};
use super::hydrate::{Hydration, PayloadRequest, Progress, holds_references};
use super::issue::{Issue, Place};
use super::log::{Body, Entry, SessionLog, items};
use super::node::Node;
use super::payload::{PayloadLimits, PayloadSource};
use super::vocabulary::EventKind;
use crate::value::text::utf16_len;
use std::collections::VecDeque;

/// The longest line, in UTF-16 units.
pub const MAX_LINE_UNITS: usize = 64 << 20;

/// The longest log, in UTF-16 units.
pub const MAX_LOG_UNITS: usize = 1 << 30;

/// What loading needs next.
#[derive(Debug)]
pub enum LoadStep {
    /// These bytes, by way of [`LogLoader::supply`].
    Need(PayloadRequest),
    /// Nothing: the log is decoded.
    Done(SessionLog),
}

/// Loads one log. Entries without references are checked while their line is parsed and cost no copy;
/// the others wait until their payloads are there.
#[derive(Debug)]
pub struct LogLoader {
    text: String,
    entries: Vec<Option<Entry>>,
    checks: EntryChecks,
    waiting: VecDeque<Waiting>,
    hydrated: Vec<(Waiting, Node<'static>)>,
    hydration: Hydration,
    hydrating: bool,
}

/// An entry that holds references.
#[derive(Clone, Debug)]
struct Waiting {
    index: usize,
    line: Option<usize>,
    body: Option<Node<'static>>,
}

impl Waiting {
    fn place(&self) -> Place<'static> {
        self.line.map_or_else(|| Place::entry(self.index), Place::line)
    }
}

impl LogLoader {
    /// Parses a log's text, one entry a line. `has_source` says whether payloads can be read at all.
    pub fn from_text(text: String, limits: PayloadLimits, has_source: bool) -> Result<LogLoader, DecodeError> {
        let mut loader = LogLoader::new(limits, has_source);
        loader.read_lines(&text)?;
        loader.text = text;
        Ok(loader)
    }

    /// Parses a log's bytes, which must be UTF-8.
    pub fn from_bytes(bytes: Vec<u8>, limits: PayloadLimits, has_source: bool) -> Result<LogLoader, DecodeError> {
        match String::from_utf8(bytes) {
            Ok(text) => LogLoader::from_text(text, limits, has_source),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let valid = error.as_bytes().get(..at).unwrap_or_default();
                let line = 1 + valid.iter().filter(|byte| **byte == b'\n').count();
                Err(invalid_json(line, "expected UTF-8", Some(error.to_string())))
            }
        }
    }

    /// Takes a list of entries as a host gives them.
    pub fn from_entries(entries: &Node<'_>, limits: PayloadLimits, has_source: bool) -> Result<LogLoader, DecodeError> {
        let mut loader = LogLoader::new(limits, has_source);
        for (index, node) in items(entries)?.iter().enumerate() {
            if holds_references(node) {
                loader.wait(Waiting { index, line: None, body: Some(node.clone().into_owned()) });
            } else {
                let entry = loader.checks.entry(index, node, &Place::entry(index));
                loader.entries.push(entry.map(|kind| Entry { kind, body: Body::Own(node.to_json().into()) }));
            }
        }
        Ok(loader)
    }

    /// Goes on until a payload is needed or the log is decoded. After an error the loader is spent.
    pub fn step(&mut self) -> Result<LoadStep, LoadError> {
        loop {
            if self.hydrating {
                match self.hydration.advance()? {
                    Progress::Need(request) => return Ok(LoadStep::Need(request)),
                    Progress::Done(node) => {
                        self.hydrating = false;
                        if let Some(entry) = self.waiting.pop_front() {
                            self.hydrated.push((entry, node));
                        }
                    }
                }
            }
            match self.waiting.front_mut().and_then(|entry| entry.body.take()) {
                Some(node) => {
                    self.hydration.begin(node);
                    self.hydrating = true;
                }
                None => return Ok(LoadStep::Done(self.finish()?)),
            }
        }
    }

    /// Takes the bytes that [`LoadStep::Need`] asked for; `None` where the source has nothing there.
    pub fn supply(&mut self, bytes: Option<&[u8]>) -> Result<(), LoadError> {
        Ok(self.hydration.supply(bytes)?)
    }

    /// Runs to the end with a source that answers at once.
    pub fn run(mut self, mut source: Option<&mut dyn PayloadSource>) -> Result<SessionLog, LoadError> {
        loop {
            match (self.step()?, source.as_mut()) {
                (LoadStep::Done(log), _) => return Ok(log),
                (LoadStep::Need(request), Some(source)) => {
                    let bytes = source.read_bytes(&request.relative_path, request.max_bytes)?;
                    self.supply(bytes.as_deref())?;
                }
                (LoadStep::Need(_), None) => self.supply(None)?,
            }
        }
    }

    fn new(limits: PayloadLimits, has_source: bool) -> LogLoader {
        LogLoader {
            text: String::new(),
            entries: Vec::new(),
            checks: EntryChecks::default(),
            waiting: VecDeque::new(),
            hydrated: Vec::new(),
            hydration: Hydration::new(limits, has_source),
            hydrating: false,
        }
    }

    fn wait(&mut self, entry: Waiting) {
        self.waiting.push_back(entry);
        self.entries.push(None);
    }

    fn read_lines(&mut self, text: &str) -> Result<(), DecodeError> {
        let too_long = text.len() > MAX_LOG_UNITS && utf16_len(text) > MAX_LOG_UNITS;
        let mut start = 0;
        for (at, line) in text.split('\n').enumerate() {
            let number = at + 1;
            let range = start..start + line.len();
            start = range.end + 1;
            if too_long {
                return Err(invalid_json(number, "the log is longer than 1 GiB", None));
            }
            if line.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
                continue;
            }
            if line.len() > MAX_LINE_UNITS && utf16_len(line) > MAX_LINE_UNITS {
                return Err(invalid_json(number, "the line is longer than 64 MiB", None));
            }
            let parsed =
                Node::parse_at(line, 0).map_err(|cause| invalid_json(number, "expected valid JSON", Some(cause)))?;
            let index = self.entries.len();
            if parsed.may_hold_references && holds_references(&parsed.node) {
                self.wait(Waiting { index, line: Some(number), body: Some(parsed.node.into_owned()) });
                continue;
            }
            let kind = self.checks.entry(index, &parsed.node, &Place::line(number));
            self.entries.push(kind.map(|kind| Entry { kind, body: Body::Line(range) }));
        }
        Ok(())
    }

    /// Decodes what was hydrated and gives the verdict over all entries.
    fn finish(&mut self) -> Result<SessionLog, DecodeError> {
        let mut later = EntryChecks::default();
        let mut kinds: Vec<(usize, EventKind, Node<'static>)> = Vec::new();
        for (entry, node) in std::mem::take(&mut self.hydrated) {
            if let Some(kind) = later.entry(entry.index, &node, &entry.place()) {
                kinds.push((entry.index, kind, node));
            }
        }
        std::mem::take(&mut self.checks).verdict(later)?;
        for (index, kind, node) in kinds {
            if let Some(place) = self.entries.get_mut(index) {
                *place = Some(Entry { kind, body: Body::Own(node.to_json().into()) });
            }
        }
        Ok(SessionLog {
            text: std::mem::take(&mut self.text),
            entries: std::mem::take(&mut self.entries).into_iter().flatten().collect(),
        })
    }
}

fn invalid_json(line: usize, message: &str, cause: Option<String>) -> DecodeError {
    let issue = Issue { path: format!("line {line}"), message: message.to_owned() };
    DecodeError { code: DecodeCode::InvalidJson, issues: vec![issue], schema_version: None, cause }
}
