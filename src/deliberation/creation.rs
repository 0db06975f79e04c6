//! How a session is created: what was asked for is checked, the host says whom it knows, and one entry
//! tells everything. There is no half-made session.

use super::entry::Created;
use super::fields::{number, object, text, texts};
use super::refusal::{Code, Refusal};
use super::validation::{GOAL, TOPIC, agent_id, caller, key, positive};
use super::{DEFAULT_MINUTES, Entry, MAX_MINUTES, MAX_PARTICIPANTS, MS_PER_MINUTE};
use crate::value::Json;
use crate::value::hash::sha256_hex;
use crate::value::instant::MAX_EPOCH_MS;
use std::rc::Rc;

const FAILED: &str = "CREATE_ROUND_TABLE_FAILED";

/// A session that was asked for and is in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Who is to take part, each once, as first named.
    pub participants: Vec<Rc<str>>,
    facilitator: Rc<str>,
    topic: Rc<str>,
    goal: Rc<str>,
    minutes: f64,
    quorum: Option<u64>,
    reminder_minutes: Option<f64>,
    is_strict: bool,
    key: Option<Rc<str>>,
}

/// Where the ids of a new session come from.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'a> {
    /// The host's seed.
    pub seed: &'a str,
    /// How many ids the host made before.
    pub counter: u64,
    /// Epoch milliseconds.
    pub now: f64,
}

impl Plan {
    /// Checks what a caller asked for: `{caller, topic, goal, participants, timeoutMinutes?,
    /// idempotencyKey?, quorum?, reminderMinutes?, strict?}`; other members say nothing.
    pub fn read(input: &Json) -> Result<Plan, Refusal> {
        let facilitator = caller(input)?;
        let topic = TOPIC.read(input)?;
        let goal = GOAL.read(input)?;
        let participants = participants(input)?;
        let minutes = minutes(input)?;
        if participants.contains(&facilitator) {
            return Err(Refusal::invalid(
                "FACILITATOR_IN_PARTICIPANTS",
                "participants",
                "must not name the facilitator",
            ));
        }
        let key = key(input)?;
        let quorum = positive(input, "quorum", "INVALID_QUORUM")?;
        let reminder_minutes = positive(input, "reminderMinutes", "INVALID_REMINDER")?.map(|n| n as f64);
        let is_strict = match input.get("strict") {
            None => false,
            Some(Json::Bool(value)) => *value,
            Some(_) => return Err(Refusal::invalid("INVALID_STRICT", "strict", "must be true or false")),
        };
        if !(1.0..=MAX_MINUTES).contains(&minutes) {
            return Err(Refusal::invalid(FAILED, "timeoutMinutes", "must be from 1 to 10080"));
        }
        if participants.len() > MAX_PARTICIPANTS {
            return Err(Refusal::invalid(FAILED, "participants", "names more than 20 agents"));
        }
        if reminder_minutes.is_some_and(|before| before >= minutes) {
            return Err(Refusal::invalid("INVALID_REMINDER", "reminderMinutes", "must be less than the timeout"));
        }
        Ok(Plan { participants, facilitator, topic, goal, minutes, quorum, reminder_minutes, is_strict, key })
    }

    /// The first entry, where `known` says for each participant whether there is such an agent.
    pub fn open(&self, known: &[bool], origin: Origin<'_>) -> Result<Entry, Refusal> {
        let Origin { seed, counter, now } = origin;
        let is_known = |index: usize| known.get(index).copied().unwrap_or(false);
        let pick = |wanted: bool| {
            let named = self.participants.iter().enumerate();
            named.filter(|(index, _)| is_known(*index) == wanted).map(|(_, id)| id.clone()).collect::<Vec<_>>()
        };
        let (participants, excluded) = (pick(true), pick(false));
        if participants.is_empty() || (self.is_strict && !excluded.is_empty()) {
            return Err(Refusal::invalid(FAILED, "participants", "names agents that are not known"));
        }
        if self.quorum.is_some_and(|quorum| quorum > participants.len() as u64) {
            return Err(Refusal::invalid("INVALID_QUORUM", "quorum", "is more than there are participants"));
        }
        let expires_at = now + self.minutes * MS_PER_MINUTE;
        if !(now >= 0.0 && expires_at <= MAX_EPOCH_MS) {
            return Err(Refusal::of(Code::Invalid, FAILED, "the clock is out of range"));
        }
        Ok(Entry::Created(Rc::new(Created {
            id: self.id(seed, counter).into(),
            at: now.trunc(),
            seed: sha256_hex(&format!("{seed} {counter} session")).into(),
            topic: self.topic.clone(),
            goal: self.goal.clone(),
            facilitator: self.facilitator.clone(),
            participants,
            excluded,
            expires_at: expires_at.trunc(),
            remind_at: self.reminder_minutes.map(|before| (expires_at - before * MS_PER_MINUTE).trunc()),
            quorum: self.quorum,
            key: self.key.clone(),
            digest: self.digest().into(),
        })))
    }

    /// The id: `rt_` and 12 hexadecimal digits. One that the caller has a key for is the same on every host.
    #[must_use]
    pub fn id(&self, seed: &str, counter: u64) -> String {
        let source = match &self.key {
            Some(key) => Json::Array(vec![text(&self.facilitator), text(key)]).canonical(),
            None => format!("{seed} {counter}"),
        };
        format!("rt_{}", sha256_hex(&source).get(..12).unwrap_or_default())
    }

    /// Whether the caller may repeat this creation.
    #[must_use]
    pub fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Checks that a session with this plan's id came of the same call.
    pub fn check_repeated(&self, created: &Created) -> Result<(), Refusal> {
        let is_same = self.key.is_some()
            && created.key == self.key
            && created.facilitator == self.facilitator
            && *created.digest == *self.digest();
        let refusal = || Refusal::of(Code::Conflict, FAILED, "idempotencyKey was used for another session");
        if is_same { Ok(()) } else { Err(refusal()) }
    }

    fn digest(&self) -> String {
        let asked = object([
            ("topic", Some(text(&self.topic))),
            ("goal", Some(text(&self.goal))),
            ("participants", Some(texts(&self.participants))),
            ("minutes", Some(Json::Number(self.minutes))),
            ("quorum", self.quorum.map(number)),
            ("reminder", self.reminder_minutes.map(Json::Number)),
            ("strict", Some(Json::Bool(self.is_strict))),
        ]);
        sha256_hex(&asked.canonical())
    }
}

fn participants(input: &Json) -> Result<Vec<Rc<str>>, Refusal> {
    let named = match input.get("participants") {
        Some(Json::Array(named)) if !named.is_empty() => named,
        _ => return Err(Refusal::invalid("INVALID_PARTICIPANTS", "participants", "must be a list that is not empty")),
    };
    let mut distinct: Vec<Rc<str>> = Vec::new();
    for one in named {
        let id = agent_id(one).ok_or_else(|| {
            let problem = "must hold ids of 1 to 255 characters, none of them a control character";
            Refusal::invalid("INVALID_PARTICIPANT_ID", "participants", problem)
        })?;
        // One too many is told apart; further ones would make no difference.
        if distinct.len() <= MAX_PARTICIPANTS && !distinct.contains(&id) {
            distinct.push(id);
        }
    }
    Ok(distinct)
}

/// An integer, of whatever size: its range is checked later.
fn minutes(input: &Json) -> Result<f64, Refusal> {
    match input.get("timeoutMinutes") {
        None => Ok(DEFAULT_MINUTES),
        Some(Json::Number(minutes)) if minutes.fract() == 0.0 => Ok(*minutes),
        Some(_) => Err(Refusal::invalid("INVALID_TIMEOUT", "timeoutMinutes", "must be an integer")),
    }
}
