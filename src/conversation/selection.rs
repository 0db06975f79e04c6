//! Asking the host's selector.

use super::effect::{Effect, Restore};
use super::error::Thrown;
use super::fields::MAX_TEXT;
use super::input::Decision;
use super::machine::Machine;
use super::writer::Gate;
use crate::record::entry::{Entry, Selected, Selecting};
use crate::record::model::{Id, LimitReason, Selection, StopReason};
use crate::value::text::utf16_len;

/// A selector that was asked.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) attempt: Id,
    dispatched: bool,
    pub(super) signalled: bool,
    /// The cap for which an admission was refused to it.
    pub(super) refused: Option<LimitReason>,
}

impl Machine {
    /// Announces the asking; the selector is called once that is durable.
    pub(super) fn ask_selector(&mut self) -> bool {
        let attempt = self.new_id("selection", 0);
        let entry = Entry::Selecting(Selecting { attempt_id: attempt.clone(), at: self.at() });
        if self.push(entry, Gate::Select(attempt.clone())).is_ok() {
            self.asking = Some(Asking { attempt, dispatched: false, signalled: false, refused: None });
        }
        false
    }

    pub(super) fn select_now(&mut self, attempt: &Id) {
        let Some(asking) = self.asking.as_mut().filter(|asking| asking.attempt == *attempt) else { return };
        asking.dispatched = true;
        let remaining_turns = self.turns_left();
        let (messages, turns) = (self.durable.messages.len(), self.durable.turns.len());
        let restore = self.selector_seen.is_some_and(|seen| seen != self.head.decisions).then(|| {
            self.selector_seen = Some(self.head.decisions);
            Restore { checkpoint: self.head.selector_checkpoint.clone() }
        });
        self.effect(Effect::Select { attempt: attempt.clone(), messages, turns, remaining_turns, restore });
    }

    /// Fires the selector's signal, or takes the asking back where it was not dispatched.
    pub(super) fn stop_asking(&mut self, reason: StopReason) -> bool {
        match &mut self.asking {
            Some(asking) if !asking.dispatched => {
                self.asking = None;
                false
            }
            Some(asking) if !asking.signalled => {
                asking.signalled = true;
                let attempt = asking.attempt.clone();
                self.effect(Effect::Abort { attempt, reason });
                true
            }
            _ => false,
        }
    }

    pub(super) fn selector_returned(&mut self, attempt: &Id, result: Result<Decision, Thrown>) {
        let Some(asking) = self.asking.take_if(|asking| asking.attempt == *attempt) else { return };
        self.effect(Effect::CloseAttempt { attempt: attempt.clone() });
        if !self.calls.is_working() {
            return;
        }
        match result {
            Ok(decision) => {
                if let Err(reason) = self.save_decision(decision) {
                    self.fail_selection(&format!("invalid-selection: {reason}"));
                }
            }
            Err(thrown) if asking.signalled && thrown.is_abort => {}
            Err(thrown) if asking.refused.is_some() && thrown.is_refused_admission => {}
            Err(Thrown { message, code: Some(code), .. }) => {
                self.fail_selection(&format!("invalid-selection: the selector threw ({code}): {message}"));
            }
            Err(thrown) => self.fail_selection(&format!("invalid-selection: the selector threw: {}", thrown.message)),
        }
    }

    fn save_decision(&mut self, decision: Decision) -> Result<(), String> {
        if let Selection::Wait { reason, .. } | Selection::Finish { reason } = &decision.selection
            && utf16_len(reason) > MAX_TEXT
        {
            return Err(format!("the reason has more than {MAX_TEXT} UTF-16 units"));
        }
        self.head.check_selection(&decision.selection)?;
        let Decision { selection, checkpoint } = decision;
        let entry = Entry::Selected(Selected { at: self.at(), selection, checkpoint });
        self.push(entry, Gate::None).map_err(|error| error.message)?;
        self.selector_seen = self.selector_seen.map(|_| self.head.decisions);
        Ok(())
    }

    fn fail_selection(&mut self, message: &str) {
        if let Some(run) = &mut self.run {
            run.failure.get_or_insert((message.into(), "invalid-selection"));
        }
    }
}
