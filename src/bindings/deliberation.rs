//! Deliberations for JavaScript. Everything crosses as JSON text, failures included; nothing calls back.
//! The forms are those of [`crate::deliberation::wire`].

use crate::deliberation::creation::Origin;
use crate::deliberation::wire::{self, Chore, Session};
use std::cell::RefCell;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

/// One session.
#[wasm_bindgen]
#[derive(Debug)]
pub struct DeliberationHandle(RefCell<Session>);

/// Checks what a caller asked for; JSON.
#[wasm_bindgen(js_name = planDeliberation)]
#[must_use]
pub fn plan_deliberation(input: &str, seed: &str, counter: f64) -> String {
    wire::plan(input, seed, counter as u64)
}

/// Checks what a caller wants to list; JSON.
#[wasm_bindgen(js_name = queryDeliberations)]
#[must_use]
pub fn query_deliberations(input: &str) -> String {
    wire::query(input)
}

/// Checks a command; JSON.
#[wasm_bindgen(js_name = checkDeliberationCommand)]
#[must_use]
pub fn check_deliberation_command(input: &str) -> String {
    wire::check(input)
}

/// The first batch of a session; JSON. `known` holds for each participant 1 where there is such an agent.
#[wasm_bindgen(js_name = openDeliberation)]
#[must_use]
pub fn open_deliberation(input: &str, known: &[u8], seed: &str, counter: f64, now: f64) -> String {
    let known: Vec<bool> = known.iter().map(|one| *one == 1).collect();
    wire::open(input, &known, Origin { seed, counter: counter as u64, now })
}

#[wasm_bindgen]
impl DeliberationHandle {
    /// The session of a journal. Throws the text of what does not fold.
    #[wasm_bindgen(constructor)]
    pub fn new(lines: Vec<String>) -> Result<DeliberationHandle, JsValue> {
        let session = Session::load(lines.iter().map(String::as_str)).map_err(JsValue::from)?;
        Ok(DeliberationHandle(RefCell::new(session)))
    }

    /// Folds in lines that others appended. Throws the text of what does not fold.
    pub fn follow(&self, lines: Vec<String>) -> Result<(), JsValue> {
        let mut session = self.0.borrow_mut();
        lines.iter().try_for_each(|line| session.follow(line)).map_err(JsValue::from)
    }

    /// Decides a command; JSON.
    #[must_use]
    pub fn decide(&self, command: &str, now: f64) -> String {
        self.0.borrow_mut().decide(command, now)
    }

    /// Decides what time asks for; JSON.
    #[must_use]
    pub fn sweep(&self, now: f64) -> String {
        self.0.borrow_mut().chore(Chore::Sweep, now)
    }

    /// Decides that items of the outbox are done; JSON.
    #[must_use]
    pub fn settle(&self, items: &[f64], now: f64) -> String {
        let items: Vec<u64> = items.iter().map(|item| *item as u64).collect();
        self.0.borrow_mut().chore(Chore::Settle(&items), now)
    }

    /// What was decided last is in the journal.
    pub fn confirm(&self) {
        self.0.borrow_mut().confirm();
    }

    /// What is owed since `until` or longer, of the items from `first` to before `end`; a JSON list.
    #[must_use]
    pub fn work(&self, first: f64, end: f64, until: f64, limit: u32, now: f64) -> String {
        self.0.borrow().work(first as u64..end as u64, until, limit as usize, now)
    }

    /// The session without its thread; JSON.
    #[must_use]
    pub fn listed(&self) -> String {
        self.0.borrow().listed()
    }

    /// The session as its creator gets it, who may have asked for it again; JSON.
    #[must_use]
    pub fn created(&self, repeated: Option<String>) -> String {
        self.0.borrow().created(repeated.as_deref())
    }
}
