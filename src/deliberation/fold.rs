//! The fold: applies one entry after another and refuses whatever could not have happened. The caps that a
//! host may set are kept when a command is decided; here are the rules that hold for every session.

use super::entry::{Created, Entry};
use super::fields::{instant, text};
use super::outbox::{Item, Step};
use super::state::{Closing, ClosingKind, Position, Spoken, State, TIMEOUT};
use super::{MAX_MINUTES, MAX_PARTICIPANTS, MAX_THREAD, MS_PER_MINUTE};
use crate::value::Json;
use crate::value::hash::sha256_hex;
use crate::value::instant::MAX_EPOCH_MS;
use std::rc::Rc;

/// Why an entry cannot follow the ones before it. Names rules, never contents.
type Broken = Result<(), String>;

impl State {
    /// The state right after creation.
    pub fn create(created: Rc<Created>) -> Result<State, String> {
        let Created { facilitator, participants, at, expires_at, .. } = &*created;
        let repeated =
            participants.iter().enumerate().any(|(index, one)| participants.iter().take(index).any(|o| o == one));
        if repeated || participants.contains(facilitator) || !(1..=MAX_PARTICIPANTS).contains(&participants.len()) {
            return Err("no roster of a session".to_owned());
        }
        check_life(*at, *expires_at)?;
        let mut state = State {
            facilitator: facilitator.clone(),
            participants: participants.clone(),
            uninvited: participants.clone(),
            expires_at: *expires_at,
            is_extended: false,
            is_reminded: false,
            thread: Vec::new(),
            thread_bytes: 0,
            positions: Vec::new(),
            closing: None,
            version: 1,
            updated_at: *at,
            last_at: *at,
            outbox: Vec::new(),
            next_item: 0,
            created,
        };
        state.owe(state.last_at, Step::PutGroup);
        for one in state.participants.clone() {
            state.owe(state.last_at, Step::Invitation(one));
        }
        Ok(state)
    }

    /// The state that a journal's first entry makes.
    pub fn begin(entry: Entry) -> Result<State, String> {
        match entry {
            Entry::Created(created) => State::create(created),
            _ => Err("a session begins with its creation".to_owned()),
        }
    }

    /// Folds in one entry. After a refusal the state is not to be used.
    pub fn apply(&mut self, entry: &Entry) -> Broken {
        let at = time_of(entry);
        check(at >= self.last_at, "an entry is older than the one before it")?;
        self.last_at = at;
        if let Entry::Done { items, .. } = entry {
            return self.done(items);
        }
        check(self.is_open(), "the session is closed")?;
        // A deadline that has passed leaves nothing but its own notice.
        check(matches!(entry, Entry::Expired { .. }) == (at > self.expires_at), "the deadline says otherwise")?;
        self.version += 1;
        self.updated_at = at;
        match entry {
            Entry::Created(_) => return Err("a session is created once".to_owned()),
            Entry::Spoke { id, from, message, key, hash, .. } => self.spoke(at, id, from, message, key, hash)?,
            Entry::Positioned { from, stance, note, .. } => {
                check(self.is_participant(from), "only participants take positions")?;
                self.positions.retain(|one| one.from != *from);
                self.positions.push(Position { from: from.clone(), stance: *stance, note: note.clone(), at });
            }
            Entry::Declined { from, .. } => {
                check(self.is_participant(from), "only participants decline")?;
                self.participants.retain(|one| one != from);
                self.uninvited.retain(|one| one != from);
                self.positions.retain(|one| one.from != *from);
                self.outbox.retain(|item| item.step.recipient() != Some(from));
                self.owe(at, Step::PutGroup);
            }
            Entry::HandedOver { to, .. } => self.handed_over(at, to)?,
            Entry::Extended { expires_at, .. } => {
                check(!self.is_extended && *expires_at > self.expires_at, "a deadline is moved once, and on")?;
                check_life(self.created.at, *expires_at)?;
                self.is_extended = true;
                self.expires_at = *expires_at;
                self.owe(at, Step::PutGroup);
            }
            Entry::Reminded { .. } => {
                let due = self.created.remind_at.is_some_and(|due| at >= due);
                check(due && !self.is_reminded, "no reminder is due")?;
                self.is_reminded = true;
                self.owe_all(at, |member, _| Some(Step::Reminder(member)));
            }
            Entry::Resolved { outcome, decision, note, .. } => {
                let kind = ClosingKind::Resolved { outcome: outcome.clone(), decision: *decision, note: note.clone() };
                let notice = |member, is_facilitator: bool| (!is_facilitator).then_some(Step::Resolution(member));
                self.close(at, Closing { at, kind }, notice);
            }
            Entry::Expired { .. } => self.expire(at, self.expires_at, TIMEOUT.into()),
            Entry::Closed { reason, .. } => self.expire(at, at, reason.clone()),
            Entry::Done { .. } => {}
        }
        Ok(())
    }

    fn spoke(
        &mut self,
        at: f64,
        id: &Rc<str>,
        from: &Rc<str>,
        message: &Rc<str>,
        key: &Option<Rc<str>>,
        hash: &Rc<str>,
    ) -> Broken {
        check(self.is_member(from), "only members speak")?;
        check(self.thread.len() < MAX_THREAD, "the thread is full")?;
        check(**id == *self.next_thread_id(), "an id that does not follow from the seed")?;
        check(**hash == *self.hash_of(id, from, message, at), "a hash that does not follow from the thread")?;
        let is_new = key.is_none() || !self.thread.iter().any(|one| one.from == *from && one.key == *key);
        check(is_new, "a key was used before")?;
        self.thread_bytes += message.len();
        let index = self.thread.len();
        self.thread.push(Spoken {
            id: id.clone(),
            from: from.clone(),
            message: message.clone(),
            at,
            key: key.clone(),
            hash: hash.clone(),
            version: self.version,
        });
        self.owe_all(at, |member, _| (member != *from).then_some(Step::Entry(index, member)));
        Ok(())
    }

    fn handed_over(&mut self, at: f64, to: &Rc<str>) -> Broken {
        let Some(place) = self.participants.iter_mut().find(|one| *one == to) else {
            return Err("a session is handed to a participant".to_owned());
        };
        *place = std::mem::replace(&mut self.facilitator, to.clone());
        self.positions.retain(|one| one.from != *to);
        self.owe(at, Step::PutGroup);
        Ok(())
    }

    fn expire(&mut self, at: f64, ended_at: f64, reason: Rc<str>) {
        let closing = Closing { at: ended_at, kind: ClosingKind::Expired { reason } };
        self.close(at, closing, |member, _| Some(Step::Expiry(member)));
    }

    fn close(&mut self, at: f64, closing: Closing, notice: impl Fn(Rc<str>, bool) -> Option<Step>) {
        self.closing = Some(closing);
        // Nobody is invited to, or reminded of, what is over.
        self.outbox.retain(|item| !matches!(item.step, Step::Invitation(_) | Step::Reminder(_)));
        self.owe_all(at, notice);
        self.owe(at, Step::DeleteGroup);
    }

    fn done(&mut self, items: &[u64]) -> Broken {
        check(!items.is_empty() && items.is_sorted_by(|a, b| a < b), "no list of items")?;
        for number in items {
            let at = self.outbox.binary_search_by_key(number, |item| item.number);
            let item = self.outbox.remove(at.map_err(|_| "an item that is not owed")?);
            if let Step::Invitation(one) = &item.step {
                self.uninvited.retain(|other| other != one);
            }
        }
        Ok(())
    }

    fn owe(&mut self, at: f64, step: Step) {
        if step == Step::PutGroup {
            // The group is put as it is when it is put.
            self.outbox.retain(|item| item.step != Step::PutGroup);
        }
        self.outbox.push(Item { number: self.next_item, at, step });
        self.next_item += 1;
    }

    fn owe_all(&mut self, at: f64, step: impl Fn(Rc<str>, bool) -> Option<Step>) {
        let members: Vec<_> = self.members().cloned().enumerate().collect();
        for (index, member) in members {
            if let Some(step) = step(member, index == 0) {
                self.owe(at, step);
            }
        }
    }

    /// The SHA-256 of the canonical JSON `[hash before, id, from, message, timestamp]`.
    pub(super) fn hash_of(&self, id: &str, from: &str, message: &str, at: f64) -> String {
        let parts = vec![text(self.thread_hash()), text(id), text(from), text(message), instant(at)];
        sha256_hex(&Json::Array(parts).canonical())
    }
}

fn check(holds: bool, rule: &str) -> Broken {
    if holds { Ok(()) } else { Err(rule.to_owned()) }
}

fn check_life(created_at: f64, expires_at: f64) -> Broken {
    let minutes = (expires_at - created_at) / MS_PER_MINUTE;
    check((1.0..=MAX_MINUTES).contains(&minutes) && expires_at <= MAX_EPOCH_MS, "no life of a session")
}

fn time_of(entry: &Entry) -> f64 {
    match entry {
        Entry::Created(created) => created.at,
        Entry::Spoke { at, .. }
        | Entry::Positioned { at, .. }
        | Entry::Declined { at, .. }
        | Entry::HandedOver { at, .. }
        | Entry::Extended { at, .. }
        | Entry::Reminded { at }
        | Entry::Resolved { at, .. }
        | Entry::Expired { at }
        | Entry::Closed { at, .. }
        | Entry::Done { at, .. } => *at,
    }
}
