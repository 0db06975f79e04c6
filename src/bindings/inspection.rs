//! Reading conversations without taking part in them.

use super::crossing::json;
use crate::conversation::effect::Status;
use crate::conversation::emission::events_of;
use crate::conversation::{Code, Event, RoundtableError};
use crate::record::fork;
use crate::record::model::{CompletedTurn, Message, Participant, Request};
use crate::record::reading::{Journal, RecordError};
use crate::record::snapshot;
use crate::record::state::State;
use crate::record::transcript::{Format, transcript};
use crate::record::usage::UsageRecord;
use serde::Serialize;
use std::rc::Rc;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

/// A journal on its way in, batch after batch. Every refusal is thrown as the JSON of an error.
#[wasm_bindgen]
pub struct JournalReader {
    conversation_id: String,
    journal: Journal,
    /// The last revision without an open group.
    rest: u64,
    /// How long the batches were that were read.
    len: usize,
    /// How long the snapshot was that they came after.
    snapshot_len: usize,
}

#[wasm_bindgen]
impl JournalReader {
    /// A reader that has read nothing.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(conversation_id: String) -> JournalReader {
        JournalReader { conversation_id, journal: Journal::default(), rest: 0, len: 0, snapshot_len: 0 }
    }

    /// Folds in the next batches; JSON of their events after a revision, where one is given. `lines`: for
    /// each batch its revision, a line with the number of its entries, then those, one a line.
    pub fn add(&mut self, lines: &str, events_after: Option<f64>) -> Result<String, JsValue> {
        self.len += lines.len();
        let mut events = Vec::new();
        let mut lines = lines.split('\n');
        while let Some(revision) = lines.next().filter(|line| !line.is_empty()) {
            let (Ok(revision), Some(Ok(count))) = (revision.parse(), lines.next().map(str::parse)) else {
                return Err(refused(Code::Internal, "the shell wrote batches in another form"));
            };
            self.add_batch(revision, lines.by_ref().take(count), events_after, &mut events)?;
        }
        Ok(json(&events))
    }

    /// Begins with the snapshot of a revision; `false` where it is none that this engine can read.
    pub fn restore(&mut self, revision: f64, snapshot: &str) -> bool {
        let readable = |state: &State| {
            state.revision as f64 == revision && *state.created.conversation_id == *self.conversation_id
        };
        let Some(state) = snapshot::decode(snapshot).ok().filter(readable) else { return false };
        self.rest = if state.group.is_none() { state.revision } else { 0 };
        self.journal = Journal::after(state);
        self.snapshot_len = snapshot.len();
        true
    }

    /// The revision that was read last; 0 before the first.
    #[must_use]
    pub fn revision(&self) -> f64 {
        self.journal.folded().map_or(0.0, |state| state.revision as f64)
    }

    /// Whether the conversation had ended by then.
    #[must_use]
    pub fn ended(&self) -> bool {
        self.journal.folded().is_some_and(|state| state.ended.is_some())
    }

    /// The last revision up to here that has no open group.
    #[must_use]
    pub fn rest(&self) -> f64 {
        self.rest as f64
    }

    /// JSON of the lines of a fork's first batch, made at an instant, ISO 8601.
    pub fn fork(&self, conversation_id: &str, at: &str) -> Result<String, JsValue> {
        let lines = fork::lines(self.state()?, conversation_id.into(), at.into());
        lines.map(|lines| json(&lines)).map_err(|reason| refused(Code::Conflict, &reason))
    }

    /// JSON of everything public.
    pub fn snapshot(&self) -> Result<String, JsValue> {
        let state = self.state()?;
        let shown = |participant| Shown::of(participant);
        let usage = state.ledger.order.iter().filter_map(|id| state.ledger.records.get(id));
        Ok(json(&Snapshot {
            conversation_id: &state.created.conversation_id,
            revision: state.revision,
            status: state.status(),
            purpose: state.created.purpose.as_ref(),
            participants: state.created.participants.iter().map(shown).collect(),
            messages: &state.messages,
            turns: &state.turns,
            requests: state.open_requests().map(|ask| &ask.request).collect(),
            usage: usage.collect(),
        }))
    }
}

impl JournalReader {
    fn add_batch<'a>(
        &mut self,
        revision: u64,
        lines: impl Iterator<Item = &'a str>,
        events_after: Option<f64>,
        events: &mut Vec<Event>,
    ) -> Result<(), JsValue> {
        let told = events_after.is_some_and(|after| revision as f64 > after);
        let folded = self.journal.add(revision, lines, |entry, state, messages| {
            if told {
                events_of(entry, state, messages, events);
            }
        });
        folded.map_err(invalid)?;
        let state = self.state()?;
        if *state.created.conversation_id != *self.conversation_id {
            return Err(invalid(RecordError { index: 0, reason: "it creates another conversation".to_owned() }));
        }
        if state.group.is_none() {
            self.rest = revision;
        }
        Ok(())
    }

    /// What was read, and how long its batches and the snapshot before them were.
    pub(super) fn into_state(self) -> (Option<State>, usize, usize) {
        (self.journal.into_state(), self.len, self.snapshot_len)
    }

    fn state(&self) -> Result<&State, JsValue> {
        self.journal.folded().ok_or_else(|| refused(Code::InvalidRecord, "the journal has no entries"))
    }
}

/// What a snapshot shows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot<'a> {
    conversation_id: &'a Rc<str>,
    revision: u64,
    status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<&'a Rc<str>>,
    participants: Vec<Shown<'a>>,
    messages: &'a [Rc<Message>],
    turns: &'a [Rc<CompletedTurn>],
    requests: Vec<&'a Request>,
    usage: Vec<&'a Rc<UsageRecord>>,
}

/// What a snapshot shows of a participant.
#[derive(Serialize)]
struct Shown<'a> {
    id: &'a Rc<str>,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a Rc<str>>,
}

impl<'a> Shown<'a> {
    fn of(participant: &'a Participant) -> Shown<'a> {
        let Participant { id, description, agent } = participant;
        let kind = if agent.is_some() { "agent" } else { "external" };
        Shown { id, kind, description: description.as_ref() }
    }
}

/// The transcript of a snapshot, given as JSON; as Markdown or as JSON Lines. Throws the JSON of an error.
#[wasm_bindgen(js_name = exportTranscript)]
pub fn export_transcript(snapshot: &str, markdown: bool) -> Result<String, JsValue> {
    let format = if markdown { Format::Markdown } else { Format::JsonLines };
    transcript(snapshot, format).map_err(|error| refused(Code::InvalidConfig, &format!("snapshot: {error}")))
}

fn invalid(error: RecordError) -> JsValue {
    refused(Code::InvalidRecord, &error.to_string())
}

fn refused(code: Code, message: &str) -> JsValue {
    json(&RoundtableError::new(code, message)).into()
}
