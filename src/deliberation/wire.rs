//! The texts in which sessions cross to a host: JSON, and journal lines.

use super::command::{Command, Decided, Reply};
use super::creation::{Origin, Plan};
use super::fields::{number, object, text, texts};
use super::{Entry, Refusal, State, validation};
use crate::record::codec::{decode_as, encode};
use crate::value::Json;
use std::ops::Range;

/// A session and, between a decision and its confirmation, the session as it will be.
#[derive(Debug)]
pub struct Session {
    state: State,
    next: Option<State>,
}

/// What time and the host ask for, rather than a member.
#[derive(Clone, Copy, Debug)]
pub enum Chore<'a> {
    /// See whether the deadline or the reminder is due.
    Sweep,
    /// These items of the outbox are done.
    Settle(&'a [u64]),
}

/// Checks what a caller asked for: JSON `{id, participants}`, or `{error}`.
#[must_use]
pub fn plan(input: &str, seed: &str, counter: u64) -> String {
    match read_plan(input) {
        Ok(plan) => object([
            ("id", Some(text(&plan.id(seed, counter)))),
            ("participants", Some(texts(&plan.participants))),
            ("isKeyed", Some(Json::Bool(plan.has_key()))),
        ])
        .canonical(),
        Err(refusal) => refused(&refusal),
    }
}

/// Checks what a caller wants to list: JSON `{limit}`, or `{error}`.
#[must_use]
pub fn query(input: &str) -> String {
    match validation::list_limit(&Json::parse(input).unwrap_or(Json::Null)) {
        Ok(limit) => object([("limit", Some(number(limit)))]).canonical(),
        Err(refusal) => refused(&refusal),
    }
}

/// Checks a command before anybody looks for its session: JSON `{}`, or `{error}`.
#[must_use]
pub fn check(input: &str) -> String {
    match read_command(input) {
        Ok(_) => object([]).canonical(),
        Err(refusal) => refused(&refusal),
    }
}

/// Creates the session of a plan: JSON `{id, entries, summary}`, or `{error}`.
#[must_use]
pub fn open(input: &str, known: &[bool], origin: Origin<'_>) -> String {
    let opened = read_plan(input).and_then(|plan| plan.open(known, origin));
    let opened = opened.map(|entry| {
        let state = State::begin(entry.clone());
        (entry, state)
    });
    match opened {
        Ok((entry, Ok(state))) => batch(&[entry], &state, [("id", Some(text(&state.created.id)))]),
        Ok((_, Err(broken))) => object([("broken", Some(text(&broken)))]).canonical(),
        Err(refusal) => refused(&refusal),
    }
}

fn read_plan(input: &str) -> Result<Plan, Refusal> {
    Plan::read(&Json::parse(input).unwrap_or(Json::Null))
}

fn read_command(input: &str) -> Result<Command, Refusal> {
    Command::read(&Json::parse(input).unwrap_or(Json::Null))
}

impl Session {
    /// The session of a journal. The error says which line does not belong there.
    pub fn load<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Session, String> {
        let mut lines = lines.into_iter().enumerate();
        let (_, first) = lines.next().ok_or("there are no entries")?;
        let state = decode_as(first).and_then(State::begin).map_err(|error| format!("entry 0: {error}"))?;
        let mut session = Session { state, next: None };
        for (index, line) in lines {
            session.follow(line).map_err(|error| format!("entry {index}: {error}"))?;
        }
        Ok(session)
    }

    /// Folds in a line that the journal has now; what was decided before is forgotten.
    pub fn follow(&mut self, line: &str) -> Result<(), String> {
        self.next = None;
        let entry: Entry = decode_as(line)?;
        self.state.apply(&entry)
    }

    /// The state that the journal has.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Decides a command: JSON `{entries, summary, firstItem, endItem, reply | error}`; the
    /// entries add the items of the outbox from `firstItem` to before `endItem`. The reply is that of the
    /// session as it will be; it is the caller's once the entries, if any, are appended.
    #[must_use]
    pub fn decide(&mut self, input: &str, now: f64) -> String {
        let decided = match read_command(input) {
            Ok(command) => self.state.decide(&command, now),
            Err(refusal) => Decided { entries: Vec::new(), outcome: Err(refusal) },
        };
        self.batch(&decided.entries, |next| match &decided.outcome {
            Ok(Reply::Session { since }) => (Some(next.session_json(*since)), None),
            Ok(Reply::Spoken { id, length }) => {
                let length = number(*length as u64);
                (Some(object([("threadEntryId", Some(text(id))), ("threadLength", Some(length))])), None)
            }
            Err(refusal) => (None, Some(refusal.to_json())),
        })
    }

    /// Decides what nobody asked for: as [`Session::decide`], without a reply.
    #[must_use]
    pub fn chore(&mut self, chore: Chore<'_>, now: f64) -> String {
        let entries = match chore {
            Chore::Sweep => self.state.sweep(now),
            Chore::Settle(items) => self.state.settle(items, now),
        };
        self.batch(&entries, |_| (None, None))
    }

    /// The entries of the last decision are in the journal.
    pub fn confirm(&mut self) {
        if let Some(next) = self.next.take() {
            self.state = next;
        }
    }

    /// What is owed: a JSON list, see [`State::work`](super::outbox).
    #[must_use]
    pub fn work(&self, items: Range<u64>, until: f64, limit: usize, now: f64) -> String {
        self.state.work(items, until, limit, now).canonical()
    }

    /// The session without its thread, as JSON.
    #[must_use]
    pub fn listed(&self) -> String {
        self.state.listed_json().canonical()
    }

    /// The session as its creator gets it: JSON `{reply}`, or `{error}` where it came of another call than
    /// the one that is given.
    #[must_use]
    pub fn created(&self, repeated: Option<&str>) -> String {
        let check = |input| read_plan(input).and_then(|plan| plan.check_repeated(&self.state.created));
        match repeated.map_or(Ok(()), check) {
            Ok(()) => object([("reply", Some(self.state.created_json()))]).canonical(),
            Err(refusal) => refused(&refusal),
        }
    }

    fn batch(&mut self, entries: &[Entry], outcome: impl Fn(&State) -> (Option<Json>, Option<Json>)) -> String {
        let first_item = number(self.state.next_item);
        let mut next = self.state.clone();
        for entry in entries {
            if let Err(broken) = next.apply(entry) {
                return object([("broken", Some(text(&broken)))]).canonical();
            }
        }
        let (reply, error) = outcome(&next);
        let end_item = number(next.next_item);
        let rest = [("firstItem", Some(first_item)), ("endItem", Some(end_item)), ("reply", reply), ("error", error)];
        let text = batch(entries, &next, rest);
        self.next = Some(next);
        text
    }
}

fn batch<const N: usize>(entries: &[Entry], state: &State, rest: [(&str, Option<Json>); N]) -> String {
    let lines: Result<Vec<Json>, String> = entries.iter().map(|entry| encode(entry).map(Json::String)).collect();
    match lines {
        Ok(lines) => {
            let mut members =
                vec![("entries".to_owned(), Json::Array(lines)), ("summary".to_owned(), state.summary_json())];
            if let Json::Object(rest) = object(rest) {
                members.extend(rest);
            }
            Json::Object(members).canonical()
        }
        Err(broken) => object([("broken", Some(text(&broken)))]).canonical(),
    }
}

fn refused(refusal: &Refusal) -> String {
    object([("error", Some(refusal.to_json()))]).canonical()
}
