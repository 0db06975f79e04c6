//! What a run does next, and how it ends.

use super::config::LimitsPatch;
use super::effect::{Effect, Reply};
use super::error::{Code, RoundtableError};
use super::input::{CallId, Timer};
use super::machine::Machine;
use super::recovery::check_unsettled;
use super::writer::Gate;
use crate::record::entry::{Entry, GroupCommitted, GroupStarted, RunEnded, RunStarted, Selected};
use crate::record::model::{Id, LimitReason, ModelCalls, Outcome, RunOutcome, Selection, Selector, StopReason};
use crate::record::state::{Phase, Turn};
use std::rc::Rc;

/// A run at work.
#[derive(Debug)]
pub(super) struct RunControl {
    pub(super) call: CallId,
    id: Option<Id>,
    /// Why it takes nothing new: a signal or the time limit.
    pub(super) stop: Option<StopReason>,
    /// The cap that was met.
    pub(super) limited: Option<LimitReason>,
    /// A bad decision, or a selector that threw.
    pub(super) failure: Option<(Rc<str>, &'static str)>,
    /// Why it takes nothing new and will be refused: a session did not open.
    pub(super) refusal: Option<RoundtableError>,
    /// It was refused; only what it wrote is awaited.
    is_refused: bool,
    ending: Option<RunOutcome>,
    /// The revision of the batch that ends it.
    ends_at: u64,
}

impl RunControl {
    pub(super) fn new(call: CallId) -> Self {
        RunControl {
            call,
            id: None,
            stop: None,
            limited: None,
            failure: None,
            refusal: None,
            is_refused: false,
            ending: None,
            ends_at: 0,
        }
    }
}

impl Machine {
    pub(super) fn begin_run(&mut self, call: CallId, patch: Option<LimitsPatch>) -> Result<(), RoundtableError> {
        if let Some(outcome) = self.durable.ended.clone() {
            let reply = self.ran(outcome);
            self.finish_call(Some(call), Ok(reply));
            return Ok(());
        }
        if self.run.as_ref().is_some_and(|run| run.stop.is_some()) {
            let reply = self.ran(RunOutcome::Cancelled);
            self.finish_call(Some(call), Ok(reply));
            return Ok(());
        }
        self.check_recovery()?;
        let limits = patch.map(|patch| self.config.check_patch(&patch, &self.head.limits)).transpose()?;
        let run_id = self.new_id("run", 0);
        self.push(Entry::RunStarted(RunStarted { run_id: run_id.clone(), at: self.at(), limits }), Gate::None)?;
        if let Some(timeout) = self.head.limits.timeout_ms {
            self.arm(Timer::RunTimeout, self.now.mono + timeout as f64);
        }
        if let Some(run) = &mut self.run {
            run.id = Some(run_id);
        }
        self.take_up_interrupted();
        Ok(())
    }

    /// Does all that can be done now. Ends the run where nothing can.
    pub(super) fn advance(&mut self) {
        while self.step() {}
    }

    /// One thing; `false` where the run must wait for something, or is over.
    fn step(&mut self) -> bool {
        let Some(run) = &self.run else { return false };
        if run.ending.is_some() || run.is_refused || run.id.is_none() || !self.calls.is_working() {
            return false;
        }
        let (stop, limited) = (run.stop, run.limited);
        if let Some((message, code)) = self.failure() {
            self.signal_all(StopReason::GroupFailed);
            return !self.work_in_flight() && self.end(RunOutcome::Failed { message, code });
        }
        if let Some(Selection::Finish { reason }) = &self.head.decision {
            let reason = reason.clone();
            return self.end(RunOutcome::Completed { reason });
        }
        if self.head.group.is_some() {
            return self.step_group(stop, limited);
        }
        if stop.is_some() || limited.is_some() {
            return !self.work_in_flight() && self.end_short();
        }
        match self.head.decision.clone() {
            None => self.step_selection(),
            Some(selection) => self.open_group(&selection),
        }
    }

    fn failure(&self) -> Option<(Rc<str>, Option<Rc<str>>)> {
        if let Some((message, code)) = self.run.as_ref().and_then(|run| run.failure.clone()) {
            return Some((message, Some(code.into())));
        }
        let turns = self.head.group.iter().flat_map(|g| &g.turns);
        turns.filter(|t| t.phase == Phase::Failed).find_map(|t| t.failure.clone()).map(|f| (f.message, f.code))
    }

    fn step_group(&mut self, stop: Option<StopReason>, limited: Option<LimitReason>) -> bool {
        let Some(group) = &self.head.group else { return false };
        // Cancellation publishes nothing: what is prepared is published by the next run.
        if stop.is_none() && group.turns.iter().all(|t| t.phase == Phase::Prepared) {
            return self.commit_group();
        }
        if stop.is_none()
            && limited.is_none()
            && !self.is_blocked()
            && let Some(turn_id) = self.next_to_dispatch()
        {
            return self.dispatch(&turn_id);
        }
        !self.work_in_flight() && self.end_short()
    }

    /// The first member that may start now; meets the token limit on the way.
    fn next_to_dispatch(&mut self) -> Option<Id> {
        let group = self.head.group.as_ref()?;
        let turn_id = group.turns.iter().find(|t| t.is_dispatchable())?.id.clone();
        let running = self.attempts.values().filter(|a| a.is_busy()).count() as u64;
        if running >= self.config.max_concurrent_participants {
            return None;
        }
        if self.turns_left() == 0 {
            return None;
        }
        if self.tokens_spent() {
            self.limit(LimitReason::Tokens);
            return None;
        }
        Some(turn_id)
    }

    fn step_selection(&mut self) -> bool {
        if self.asking.is_some() {
            return false;
        }
        if self.turns_left() == 0 {
            return self.end(RunOutcome::Limited { reason: LimitReason::Turns });
        }
        if self.tokens_spent() {
            return self.end(RunOutcome::Limited { reason: LimitReason::Tokens });
        }
        match self.config.selector {
            Selector::RoundRobin => {
                let Some(selection) = self.head.round_robin() else { return false };
                let selected = Selected { at: self.at(), selection, checkpoint: None };
                self.push(Entry::Selected(selected), Gate::None).is_ok()
            }
            Selector::Host { .. } => self.ask_selector(),
        }
    }

    fn open_group(&mut self, selection: &Selection) -> bool {
        let participants = match self.head.selected_participants(selection) {
            Ok((participants, _)) => participants,
            Err(reason) => {
                self.fail_call(RoundtableError::new(Code::Internal, reason));
                return false;
            }
        };
        let external = participants.first().is_some_and(|p| !self.head.is_agent(*p));
        if !external {
            if participants.len() as u64 > self.turns_left() {
                return self.end(RunOutcome::Limited { reason: LimitReason::Turns });
            }
            let metered = participants.iter().filter(|p| self.is_metered(**p)).count() as u64;
            if self.run_calls_left().is_some_and(|left| metered > left) {
                return self.end(RunOutcome::Limited { reason: LimitReason::ModelCalls });
            }
        }
        let turns = participants.len() as u64;
        let entry = GroupStarted {
            group_id: self.new_id("group", 0),
            at: self.at(),
            turn_ids: (1..=turns).map(|n| self.new_id("turn", n)).collect(),
            request_id: external.then(|| self.new_id("request", turns + 1)),
        };
        self.push(Entry::GroupStarted(entry), Gate::None).is_ok()
    }

    pub(super) fn commit_group(&mut self) -> bool {
        let Some(group) = &self.head.group else { return false };
        let mut offset = 0;
        let mut message_id = |turn: &Turn| {
            let accepted = turn.asks.first().and_then(|ask| ask.answer.as_ref()?.message_id.clone());
            if let Some(id) = accepted.filter(|_| group.external) {
                return id;
            }
            offset += 1;
            self.new_id("message", offset - 1)
        };
        let speaks = |turn: &&Turn| matches!(turn.outcome, Some(Outcome::Speak { .. }));
        let message_ids = group.turns.iter().filter(speaks).map(&mut message_id).collect();
        let entry = GroupCommitted { group_id: group.id.clone(), at: self.at(), message_ids };
        self.push(Entry::GroupCommitted(entry), Gate::None).is_ok()
    }

    /// Whether the run cannot go on though nothing failed: a turn must be reconciled, or a session did not open.
    fn is_blocked(&self) -> bool {
        let refused = self.run.as_ref().is_some_and(|run| run.refusal.is_some());
        let mut turns = self.head.group.iter().flat_map(|group| &group.turns);
        refused || turns.any(|turn| turn.phase == Phase::Unsettled)
    }

    /// Ends the run for the first reason that holds.
    fn end_short(&mut self) -> bool {
        let Some(run) = &self.run else { return false };
        if run.stop.is_none() && self.is_blocked() {
            return self.refuse_run();
        }
        let waiting = self.head.open_requests().next().is_some();
        let outcome = match (run.stop, run.limited) {
            (Some(StopReason::Time), _) => RunOutcome::Limited { reason: LimitReason::Time },
            (Some(_), _) => RunOutcome::Cancelled,
            (None, Some(reason)) => RunOutcome::Limited { reason },
            (None, None) if waiting => RunOutcome::Waiting,
            (None, None) => RunOutcome::Limited { reason: LimitReason::Turns },
        };
        self.end(outcome)
    }

    /// Refuses the run once all that it wrote is durable. The conversation goes on with the next one.
    fn refuse_run(&mut self) -> bool {
        let unsettled = check_unsettled(&self.head, |turn| self.is_known(turn)).err();
        let Some(run) = &mut self.run else { return false };
        let Some(error) = unsettled.or(run.refusal.take()) else { return false };
        run.is_refused = true;
        let call = run.call;
        self.disarm(Timer::RunTimeout);
        self.disarm(Timer::Settle);
        self.finish_call(Some(call), Err(error));
        false
    }

    fn end(&mut self, outcome: RunOutcome) -> bool {
        let at = self.at();
        let Some(run) = &mut self.run else { return false };
        let Some(run_id) = run.id.clone() else { return false };
        run.ending = Some(outcome.clone());
        self.disarm(Timer::RunTimeout);
        self.disarm(Timer::Settle);
        // A refused entry has failed the call already.
        if let Ok(revision) = self.push(Entry::RunEnded(RunEnded { run_id, at, outcome }), Gate::EndRun)
            && let Some(run) = &mut self.run
        {
            run.ends_at = revision;
        }
        false
    }

    /// The end of the run is durable.
    pub(super) fn run_ended(&mut self) {
        let Some(run) = &self.run else { return };
        let (Some(outcome), call, revision) = (run.ending.clone(), run.call, run.ends_at) else { return };
        let reply = self.ran_until(revision, outcome);
        self.finish_call(Some(call), Ok(reply));
    }

    pub(super) fn ran(&self, outcome: RunOutcome) -> Reply {
        self.ran_until(self.durable.revision, outcome)
    }

    fn ran_until(&self, revision: u64, outcome: RunOutcome) -> Reply {
        let waiting = outcome == RunOutcome::Waiting;
        let open = self.durable.open_requests().filter(|_| waiting);
        let requests = open.map(|ask| ask.request.clone()).collect();
        Reply::Ran { revision, outcome, requests }
    }

    /// The run is over or given up.
    pub(super) fn end_run_control(&mut self) {
        self.run = None;
        self.disarm(Timer::RunTimeout);
        self.disarm(Timer::Settle);
    }

    pub(super) fn aborted(&mut self, call: CallId) {
        if self.run.as_ref().is_some_and(|run| run.call == call) {
            self.stop_run(StopReason::Cancelled);
            self.release_held();
        } else if self.forget_waiting_call(call) {
            let result = Ok(self.ran(RunOutcome::Cancelled));
            self.effect(Effect::Reply { call, result });
        }
    }

    pub(super) fn time_is_up(&mut self) {
        self.stop_run(StopReason::Time);
        self.release_held();
    }

    /// Takes nothing new, fires every signal, awaits what runs.
    pub(super) fn stop_run(&mut self, reason: StopReason) {
        let Some(run) = &mut self.run else { return };
        match run.stop {
            // A cancelled run is cancelled, though its time was up before.
            Some(StopReason::Time) if reason == StopReason::Cancelled => run.stop = Some(reason),
            Some(_) => {}
            None => {
                run.stop = Some(reason);
                self.signal_all(reason);
            }
        }
    }

    /// Fires the signal of everything under way, once.
    pub(super) fn signal_all(&mut self, reason: StopReason) {
        let mut fired = self.stop_asking(reason);
        let attempts: Vec<Id> = self.attempts.iter().filter(|(_, a)| a.is_busy()).map(|(id, _)| id.clone()).collect();
        for attempt in attempts {
            fired |= self.signal(&attempt, reason);
        }
        if fired {
            self.bound_settling();
        }
    }

    /// Gives signalled work the time it has to settle, where the host sets a bound.
    pub(super) fn bound_settling(&mut self) {
        if let Some(bound) = self.head.limits.settle_timeout_ms {
            self.arm(Timer::Settle, self.now.mono + bound as f64);
        }
    }

    pub(super) fn limit(&mut self, reason: LimitReason) {
        if let Some(run) = &mut self.run {
            // Model calls come before tokens where both are met.
            if run.limited != Some(LimitReason::ModelCalls) {
                run.limited = Some(reason);
            }
        }
    }

    /// Whether a member, or the selector, has not come back yet.
    pub(super) fn work_in_flight(&self) -> bool {
        self.asking.is_some() || self.attempts.values().any(|a| a.is_busy())
    }

    pub(super) fn turns_left(&self) -> u64 {
        let used = self.head.run.as_ref().map_or(0, |run| run.turns);
        self.head.limits.max_turns_per_run.saturating_sub(used)
    }

    pub(super) fn tokens_spent(&self) -> bool {
        let used = self.head.run.as_ref().map_or(0, |run| run.tokens);
        self.head.limits.max_tokens_per_run.is_some_and(|most| used >= most)
    }

    fn run_calls_left(&self) -> Option<u64> {
        let used = self.head.run.as_ref().map_or(0, |run| run.calls);
        self.head.limits.max_model_calls_per_run.map(|most| most.saturating_sub(used))
    }

    fn is_metered(&self, position: usize) -> bool {
        let agent = self.config.participants.get(position).and_then(|p| p.agent.as_ref());
        agent.is_some_and(|agent| agent.model_calls == Some(ModelCalls::Metered))
    }
}
