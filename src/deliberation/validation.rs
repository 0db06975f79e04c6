//! Fields of commands, at the door. Lengths are counted in Unicode scalar values, before trimming.

use super::fields::integer;
use super::refusal::{Code, Refusal};
use crate::value::Json;
use crate::value::text::{ecmascript_trim, is_line_boundary};
use std::rc::Rc;

/// The longest id of a participant.
const MAX_PARTICIPANT_ID: usize = 255;
/// The longest id of a caller.
const MAX_CALLER: usize = 512;
/// The longest key by which a caller repeats a call.
const MAX_KEY: usize = 255;
/// The longest cursor, in bytes.
const MAX_CURSOR: usize = 4_096;
/// The longest outcome, note or reason.
const MAX_OUTCOME: usize = 2_000;

/// A text field: where it stands, how long it may be, and how it is refused.
pub(super) struct TextField {
    pub(super) name: &'static str,
    pub(super) max: usize,
    pub(super) invalid: &'static str,
    pub(super) too_long: &'static str,
    /// One line without control characters.
    pub(super) is_line: bool,
}

pub(super) const TOPIC: TextField =
    TextField { name: "topic", max: 500, invalid: "INVALID_TOPIC", too_long: "TOPIC_TOO_LONG", is_line: true };
pub(super) const GOAL: TextField =
    TextField { name: "goal", max: 2_000, invalid: "INVALID_GOAL", too_long: "GOAL_TOO_LONG", is_line: false };
pub(super) const MESSAGE: TextField = TextField {
    name: "message",
    max: 10_000,
    invalid: "INVALID_MESSAGE",
    too_long: "MESSAGE_TOO_LONG",
    is_line: false,
};
pub(super) const OUTCOME: TextField = TextField {
    name: "outcome",
    max: MAX_OUTCOME,
    invalid: "INVALID_OUTCOME",
    too_long: "OUTCOME_TOO_LONG",
    is_line: false,
};
pub(super) const NOTE: TextField =
    TextField { name: "note", max: MAX_OUTCOME, invalid: "INVALID_NOTE", too_long: "NOTE_TOO_LONG", is_line: false };
pub(super) const REASON: TextField = TextField {
    name: "reason",
    max: MAX_OUTCOME,
    invalid: "INVALID_REASON",
    too_long: "REASON_TOO_LONG",
    is_line: true,
};
const KEY: TextField = TextField {
    name: "idempotencyKey",
    max: MAX_KEY,
    invalid: "INVALID_IDEMPOTENCY_KEY",
    too_long: "INVALID_IDEMPOTENCY_KEY",
    is_line: true,
};

impl TextField {
    /// The text without the space around it.
    pub(super) fn read(&self, input: &Json) -> Result<Rc<str>, Refusal> {
        let given = input.get(self.name).and_then(Json::as_str).unwrap_or_default();
        let trimmed = ecmascript_trim(given);
        if trimmed.is_empty() {
            return Err(Refusal::invalid(self.invalid, self.name, "must be text that is not blank"));
        }
        if given.chars().count() > self.max {
            return Err(Refusal::invalid(self.too_long, self.name, &format!("has more than {} characters", self.max)));
        }
        if self.is_line && has_control(trimmed) {
            return Err(Refusal::invalid(self.invalid, self.name, "holds a control character or a line break"));
        }
        Ok(trimmed.into())
    }

    pub(super) fn optional(&self, input: &Json) -> Result<Option<Rc<str>>, Refusal> {
        input.get(self.name).map(|_| self.read(input)).transpose()
    }
}

/// The caller's own key; it is compared as it is given.
pub(super) fn key(input: &Json) -> Result<Option<Rc<str>>, Refusal> {
    KEY.optional(input)
}

/// Who calls: given by the host after authentication, never by the body of a request.
pub(super) fn caller(input: &Json) -> Result<Rc<str>, Refusal> {
    let id = input.get("caller").and_then(Json::as_str).unwrap_or_default();
    let fits = !id.is_empty() && ecmascript_trim(id) == id && !has_control(id) && id.chars().count() <= MAX_CALLER;
    if fits {
        Ok(id.into())
    } else {
        Err(Refusal::of(Code::Unauthenticated, "UNAUTHENTICATED", "the caller is no identity"))
    }
}

/// The id of an agent, without the space around it.
pub(super) fn agent_id(value: &Json) -> Option<Rc<str>> {
    let given = value.as_str()?;
    let id = ecmascript_trim(given);
    (!id.is_empty() && given.chars().count() <= MAX_PARTICIPANT_ID && !has_control(id)).then(|| id.into())
}

/// The most sessions of a page: 20 where nothing is said, at most 100.
pub(super) fn list_limit(input: &Json) -> Result<u64, Refusal> {
    const STATUSES: [&str; 3] = ["open", "resolved", "expired"];
    caller(input)?;
    let has = |name: &str, fits: &dyn Fn(&str) -> bool| input.get(name).is_none_or(|v| v.as_str().is_some_and(fits));
    if !has("status", &|status| STATUSES.contains(&status)) {
        return Err(Refusal::invalid("INVALID_STATUS", "status", "must be open, resolved or expired"));
    }
    if !has("cursor", &|cursor| (1..=MAX_CURSOR).contains(&cursor.len())) {
        return Err(Refusal::invalid("INVALID_CURSOR", "cursor", "must be one that a listing gave"));
    }
    match positive(input, "limit", "INVALID_LIMIT")? {
        None => Ok(20),
        Some(limit @ 1..=100) => Ok(limit),
        Some(_) => Err(Refusal::invalid("INVALID_LIMIT", "limit", "must be from 1 to 100")),
    }
}

/// A positive integer that may be left out.
pub(super) fn positive(input: &Json, name: &'static str, reason: &'static str) -> Result<Option<u64>, Refusal> {
    let read = |value| match integer(value) {
        Some(n @ 1..) => Ok(n),
        _ => Err(Refusal::invalid(reason, name, "must be a positive integer")),
    };
    input.get(name).map(read).transpose()
}

fn has_control(text: &str) -> bool {
    text.chars().any(|c| c.is_control() || is_line_boundary(c))
}
