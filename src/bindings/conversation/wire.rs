//! The texts that cross for every turn, kept short: what the shell knows already is left out.

use crate::bindings::crossing::json;
use crate::conversation::effect::{Emission, Summary};
use crate::conversation::event::EventKind;
use crate::conversation::input::Claim;
use crate::record::model::{CompletedTurn, Id, Message};
use crate::record::state::State;
use serde::Serialize;
use std::fmt::Write;
use std::rc::Rc;

/// What an append needs beside its entries.
pub(in crate::bindings) struct AppendHead<'a> {
    pub(in crate::bindings) claim: &'a Claim,
    pub(in crate::bindings) expected_revision: u64,
    pub(in crate::bindings) operation_id: &'a str,
}

/// A batch: its head in one line, separated by tabs, then its entries, one line each. None of the parts
/// can hold a tab or a line end: instants, numbers, the engine's own ids, JSON.
pub(in crate::bindings) fn batch(head: Option<&AppendHead<'_>>, summary: &Summary, entries: &[String]) -> String {
    let mut text = String::with_capacity(160 + entries.iter().map(|entry| entry.len() + 1).sum::<usize>());
    let Summary { status, created_at, updated_at, .. } = summary;
    // Writing to a string cannot fail.
    let _ = write!(text, "{}\t{created_at}\t{updated_at}", json(status).trim_matches('"'));
    if let Some(AppendHead { claim, expected_revision, operation_id }) = head {
        let Claim { fence, expires_at, .. } = claim;
        let _ = write!(text, "\t{expected_revision}\t{operation_id}\t{fence}\t{expires_at}");
    }
    for entry in entries {
        text.push('\n');
        text.push_str(entry);
    }
    text
}

/// An emission. The members that events share stand once, for the shell to put back; where they
/// differ, whole events are sent.
pub(super) fn emission(emission: &Emission, observed: bool) -> String {
    let Emission { revision, events, completed, .. } = emission;
    let last = events.last();
    let run_id = last.and_then(|event| event.run_id.as_ref());
    if !observed {
        let messages = events.iter().filter_map(|event| match &event.kind {
            EventKind::Published { messages, .. } => Some(messages),
            _ => None,
        });
        return json(&Unobserved { revision: *revision, run_id, messages: messages.flatten().collect(), completed });
    }
    let at = last.map(|event| &event.at);
    let alike = events
        .iter()
        .all(|event| event.revision == *revision && Some(&event.at) == at && event.run_id.as_ref() == run_id);
    if !alike {
        return json(emission);
    }
    json(&Alike { revision: *revision, run_id, at, kinds: events.iter().map(|event| &event.kind).collect(), completed })
}

/// All that is published.
pub(super) fn transcript(state: &State) -> String {
    json(&Unobserved {
        revision: state.revision,
        run_id: state.last_run.as_ref(),
        messages: state.messages.iter().collect(),
        completed: &state.turns,
    })
}

/// Nobody wants events.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Unobserved<'a> {
    revision: u64,
    run_id: Option<&'a Id>,
    messages: Vec<&'a Rc<Message>>,
    completed: &'a [Rc<CompletedTurn>],
}

/// Events that differ in their kinds alone.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Alike<'a> {
    revision: u64,
    run_id: Option<&'a Id>,
    at: Option<&'a Rc<str>>,
    kinds: Vec<&'a EventKind>,
    completed: &'a [Rc<CompletedTurn>],
}
