//! What members ask of a session. A decision is made on one state at one time; it holds when its entries
//! are appended to exactly that state.

use super::entry::{Stance, Verdict};
use super::fields::integer;
use super::refusal::{Code, Refusal};
use super::state::{Spoken, State, TIMEOUT};
use super::validation::{MESSAGE, NOTE, OUTCOME, REASON, agent_id, caller, key, positive};
use super::{Entry, MAX_MINUTES, MAX_THREAD, MS_PER_MINUTE};
use crate::value::Json;
use crate::value::instant::MAX_EPOCH_MS;
use std::rc::Rc;

/// A command in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    caller: Rc<str>,
    /// The only version of the session that it is meant for.
    expected_version: Option<u64>,
    action: Action,
}

#[derive(Clone, Debug, PartialEq)]
enum Action {
    Get { since: u64 },
    Speak { message: Rc<str>, key: Option<Rc<str>>, max_entries: Option<u64>, max_bytes: Option<u64> },
    Position { stance: Stance, note: Option<Rc<str>> },
    Decline { note: Option<Rc<str>> },
    HandOver { to: Rc<str> },
    Extend { minutes: f64 },
    Resolve { outcome: Rc<str>, decision: Verdict, note: Option<Rc<str>> },
    Close { reason: Rc<str> },
}

/// What comes of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// What to append, also where the command is refused: a deadline that passed is noted.
    pub entries: Vec<Entry>,
    /// What the caller gets once that is done.
    pub outcome: Result<Reply, Refusal>,
}

/// What a caller gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The session, with the entries of the thread after a version.
    Session {
        /// That version; 0 for all.
        since: u64,
    },
    /// A thread entry.
    Spoken {
        /// Its id.
        id: Rc<str>,
        /// How long the thread is with it.
        length: usize,
    },
}

impl Command {
    /// Checks a command `{kind, caller, ...}`; members that its kind does not have say nothing.
    pub fn read(input: &Json) -> Result<Command, Refusal> {
        let caller = caller(input)?;
        let note = || NOTE.optional(input);
        let action = match input.get("kind").and_then(Json::as_str).unwrap_or_default() {
            "get" => {
                let wrong = || Refusal::invalid("INVALID_SINCE", "since", "must be a version, a safe integer from 0");
                let since = input.get("since").map(|since| integer(since).ok_or_else(wrong)).transpose()?;
                Action::Get { since: since.unwrap_or(0) }
            }
            "speak" => Action::Speak {
                message: MESSAGE.read(input)?,
                key: key(input)?,
                max_entries: positive(input, "maxEntriesPerSpeaker", "INVALID_LIMIT")?,
                max_bytes: positive(input, "maxThreadBytes", "INVALID_LIMIT")?,
            },
            "position" => {
                let named = input.get("stance").and_then(Json::as_str).and_then(Stance::named);
                let wrong = || Refusal::invalid("INVALID_STANCE", "stance", "must be for, against or abstain");
                Action::Position { stance: named.ok_or_else(wrong)?, note: note()? }
            }
            "decline" => Action::Decline { note: note()? },
            "handOver" => {
                let wrong = || Refusal::invalid("INVALID_PARTICIPANT_ID", "to", "must be the id of a participant");
                Action::HandOver { to: input.get("to").and_then(agent_id).ok_or_else(wrong)? }
            }
            "extend" => {
                let wrong = || Refusal::invalid("INVALID_TIMEOUT", "minutes", "must be a positive integer");
                let minutes = positive(input, "minutes", "INVALID_TIMEOUT")?.ok_or_else(wrong)?;
                Action::Extend { minutes: minutes as f64 }
            }
            "resolve" => {
                let outcome = OUTCOME.read(input)?;
                let named = input.get("decision").and_then(Json::as_str).and_then(Verdict::named);
                let wrong =
                    || Refusal::invalid("INVALID_DECISION", "decision", "must be approved, rejected or deferred");
                Action::Resolve { outcome, decision: named.ok_or_else(wrong)?, note: note()? }
            }
            "close" => {
                let reason = REASON.read(input)?;
                if &*reason == TIMEOUT {
                    return Err(Refusal::invalid("INVALID_REASON", "reason", "must not be that of a deadline"));
                }
                Action::Close { reason }
            }
            _ => return Err(Refusal::invalid("INVALID_COMMAND", "kind", "is not a command")),
        };
        let expected_version = positive(input, "expectedVersion", "INVALID_EXPECTED_VERSION")?;
        Ok(Command { caller, expected_version, action })
    }

    fn failed(&self) -> &'static str {
        match self.action {
            Action::Get { .. } => "GET_ROUND_TABLE_FAILED",
            Action::Speak { .. } => "SPEAK_FAILED",
            Action::Position { .. } => "POSITION_FAILED",
            Action::Decline { .. } => "DECLINE_FAILED",
            Action::HandOver { .. } => "HAND_OVER_FAILED",
            Action::Extend { .. } => "EXTEND_FAILED",
            Action::Resolve { .. } => "RESOLVE_FAILED",
            Action::Close { .. } => "CLOSE_FAILED",
        }
    }

    fn refuse(&self, code: Code, message: &str) -> Refusal {
        Refusal::of(code, self.failed(), message)
    }
}

impl State {
    /// Decides a command at a time in epoch milliseconds.
    #[must_use]
    pub fn decide(&self, command: &Command, now: f64) -> Decided {
        let at = self.time(now);
        let only = |outcome| Decided { entries: Vec::new(), outcome };
        // Before anything else: an outsider learns nothing about the state.
        if !self.is_member(&command.caller) {
            return only(Err(command.refuse(Code::Forbidden, "only the facilitator and the participants may do this")));
        }
        if let Some(repeated) = self.repeated(command) {
            return only(repeated);
        }
        let is_overdue = self.is_overdue(at);
        let entries = if is_overdue { vec![Entry::Expired { at }] } else { Vec::new() };
        if let Action::Get { since } = command.action {
            return Decided { entries, outcome: Ok(Reply::Session { since }) };
        }
        if is_overdue || !self.is_open() {
            return Decided { entries, outcome: Err(command.refuse(Code::Conflict, "the session is closed")) };
        }
        match self.act(command, at) {
            Ok((entry, reply)) => Decided { entries: vec![entry], outcome: Ok(reply) },
            Err(refusal) => only(Err(refusal)),
        }
    }

    /// What time alone asks for: the notice of a deadline that has passed, or a reminder of it.
    #[must_use]
    pub fn sweep(&self, now: f64) -> Vec<Entry> {
        let at = self.time(now);
        let is_due = self.is_open() && !self.is_reminded && self.created.remind_at.is_some_and(|due| at >= due);
        if self.is_overdue(at) {
            vec![Entry::Expired { at }]
        } else if is_due {
            vec![Entry::Reminded { at }]
        } else {
            Vec::new()
        }
    }

    /// Notes that items of the outbox are done; those that are not owed any more say nothing.
    #[must_use]
    pub fn settle(&self, items: &[u64], now: f64) -> Vec<Entry> {
        let owed = self.outbox.iter().map(|item| item.number).filter(|number| items.contains(number));
        let items: Vec<u64> = owed.collect();
        if items.is_empty() { Vec::new() } else { vec![Entry::Done { at: self.time(now), items }] }
    }

    /// A clock that goes back, or one that is behind another host's, makes no entry older than the last;
    /// one that gives no instant counts as standing still.
    fn time(&self, now: f64) -> f64 {
        now.trunc().max(self.last_at).min(MAX_EPOCH_MS)
    }

    fn is_overdue(&self, at: f64) -> bool {
        self.is_open() && at > self.expires_at
    }

    /// The answer to a speaker's key that the thread has already, whatever happened since.
    fn repeated(&self, command: &Command) -> Option<Result<Reply, Refusal>> {
        let Action::Speak { message, key: key @ Some(_), .. } = &command.action else { return None };
        let (index, spoken) =
            self.thread.iter().enumerate().find(|(_, one)| one.key == *key && one.from == command.caller)?;
        Some(if spoken.message == *message {
            Ok(Reply::Spoken { id: spoken.id.clone(), length: index + 1 })
        } else {
            Err(command.refuse(Code::Conflict, "idempotencyKey was used for another message"))
        })
    }

    fn act(&self, command: &Command, at: f64) -> Result<(Entry, Reply), Refusal> {
        let conflict = |message| Err(command.refuse(Code::Conflict, message));
        let session = Reply::Session { since: 0 };
        let from = command.caller.clone();
        let is_facilitator = from == self.facilitator;
        match (&command.action, is_facilitator) {
            (Action::Position { .. } | Action::Decline { .. }, true) => {
                return Err(command.refuse(Code::Forbidden, "only participants may do this"));
            }
            (
                Action::HandOver { .. } | Action::Extend { .. } | Action::Resolve { .. } | Action::Close { .. },
                false,
            ) => return Err(command.refuse(Code::Forbidden, "only the facilitator may do this")),
            _ => {}
        }
        if command.expected_version.is_some_and(|expected| expected != self.version) {
            return conflict("the session is at another version");
        }
        Ok(match &command.action {
            Action::Speak { message, key, max_entries, max_bytes } => {
                self.check_room(command, message, *max_entries, *max_bytes)?;
                let id: Rc<str> = self.next_thread_id().into();
                let hash = self.hash_of(&id, &from, message, at).into();
                let reply = Reply::Spoken { id: id.clone(), length: self.thread.len() + 1 };
                (Entry::Spoke { at, id, from, message: message.clone(), key: key.clone(), hash }, reply)
            }
            Action::Position { stance, note } => {
                (Entry::Positioned { at, from, stance: *stance, note: note.clone() }, session)
            }
            Action::Decline { note } => (Entry::Declined { at, from, note: note.clone() }, session),
            Action::HandOver { to } if self.is_participant(to) => (Entry::HandedOver { at, to: to.clone() }, session),
            Action::HandOver { .. } => return conflict("the new facilitator must be a participant"),
            Action::Extend { .. } if self.is_extended => return conflict("the deadline was moved already"),
            Action::Extend { minutes } => {
                let expires_at = self.expires_at + minutes * MS_PER_MINUTE;
                if expires_at - self.created.at > MAX_MINUTES * MS_PER_MINUTE {
                    return Err(Refusal::invalid(
                        command.failed(),
                        "minutes",
                        "must leave a session of at most 10080 minutes",
                    ));
                }
                (Entry::Extended { at, expires_at }, session)
            }
            Action::Resolve { outcome, decision, note } => {
                let needed = self.created.quorum.unwrap_or(0).min(self.participants.len() as u64);
                if (self.positions.len() as u64) < needed {
                    return conflict("fewer participants have taken a position than the quorum");
                }
                (Entry::Resolved { at, outcome: outcome.clone(), decision: *decision, note: note.clone() }, session)
            }
            Action::Close { reason } => (Entry::Closed { at, reason: reason.clone() }, session),
            Action::Get { .. } => return conflict("nothing is to be decided"),
        })
    }

    fn check_room(
        &self,
        command: &Command,
        message: &str,
        max_entries: Option<u64>,
        max_bytes: Option<u64>,
    ) -> Result<(), Refusal> {
        let full = |message| Err(command.refuse(Code::Conflict, message));
        if self.thread.len() >= MAX_THREAD {
            return full("the thread has 200 entries");
        }
        let own = |one: &&Spoken| one.from == command.caller;
        if max_entries.is_some_and(|max| self.thread.iter().filter(own).count() as u64 >= max) {
            return full("the thread has as many entries of this speaker as it may");
        }
        if max_bytes.is_some_and(|max| (self.thread_bytes + message.len()) as u64 > max) {
            return full("the thread has as many bytes as it may");
        }
        Ok(())
    }
}
