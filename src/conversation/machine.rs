//! The machine itself: what it holds, and which part of it takes which input.

use super::attempts::Attempt;
use super::binding::Migration;
use super::calls::Calls;
use super::config::Config;
use super::effect::Effect;
use super::error::{Code, RoundtableError};
use super::input::{Input, Now, SessionId, Ticket, Timer};
use super::ledger::PendingReport;
use super::run::RunControl;
use super::selection::Asking;
use super::sessions::Session;
use super::writer::{Gate, Writer};
use crate::record::ids::IdSource;
use crate::record::model::Id;
use crate::record::state::State;
use crate::value::instant::format_iso;
use crate::value::sorted_map::SortedMap;
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The scheduler of one conversation on one handle.
///
/// `handle_input` takes what happened; `poll_effect` gives what to do about it, and must be drained
/// after every input. `durable` is what the store has acknowledged, and all that may be shown.
#[derive(Debug)]
pub struct Machine {
    pub(super) config: Config,
    pub(super) owner: Id,
    pub(super) ids: IdSource,
    pub(super) now: Now,
    /// The text of `now`, once it was asked for.
    at: OnceCell<Rc<str>>,
    /// What the store has acknowledged.
    pub(super) durable: State,
    /// `durable` and everything on its way to the store.
    pub(super) head: State,
    /// Entries were dropped: `head` must be made anew from `durable`.
    pub(super) head_is_stale: bool,
    pub(super) writer: Writer,
    pub(super) calls: Calls,
    pub(super) run: Option<RunControl>,
    pub(super) asking: Option<Asking>,
    pub(super) attempts: SortedMap<Id, Attempt>,
    /// Live sessions by participant.
    pub(super) sessions: SortedMap<usize, Session>,
    pub(super) next_session: SessionId,
    pub(super) reports: SortedMap<Ticket, PendingReport>,
    /// Durable steps that wait until the observers know of them.
    pub(super) held: VecDeque<(u64, Gate)>,
    pub(super) emitted: u64,
    pub(super) delivered: u64,
    pub(super) timers: SortedMap<Timer, Waiting>,
    /// Moves to other versions of runtimes, written by the first call that can.
    pub(super) migrations: Vec<Migration>,
    /// Which decisions the selector at hand knows of; absent where it cannot be made again.
    pub(super) selector_seen: Option<u64>,
    effects: VecDeque<Effect>,
}

/// What a timer waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    deadline: f64,
    /// What is left when the armed part is over, in milliseconds.
    rest: f64,
}

/// The longest delay a host's timer takes; longer waits are armed again.
pub(super) const MAX_TIMER_MS: f64 = 2_147_483_647.0;

impl Machine {
    /// A handle that has stored nothing yet. `owner` tells this handle from every other.
    pub fn new(config: Config, owner: Id) -> Result<Machine, RoundtableError> {
        let mut durable = State::create(Rc::new(config.created("".into())))
            .map_err(|reason| RoundtableError::new(Code::InvalidConfig, reason))?;
        durable.revision = 0;
        durable.entries = 0;
        Ok(Machine::with(config, owner, durable))
    }

    /// A handle of what a store holds.
    pub(super) fn with(config: Config, owner: Id, durable: State) -> Machine {
        Machine {
            ids: IdSource::new(&config.seed),
            config,
            owner,
            now: Now::default(),
            at: OnceCell::new(),
            head: durable.clone(),
            durable,
            head_is_stale: false,
            writer: Writer::default(),
            calls: Calls::default(),
            run: None,
            asking: None,
            attempts: SortedMap::default(),
            sessions: SortedMap::default(),
            next_session: 0,
            reports: SortedMap::default(),
            held: VecDeque::new(),
            emitted: 0,
            delivered: 0,
            timers: SortedMap::default(),
            migrations: Vec::new(),
            selector_seen: None,
            effects: VecDeque::new(),
        }
    }

    /// What the store has acknowledged; revision 0 before the record exists.
    #[must_use]
    pub fn durable(&self) -> &State {
        &self.durable
    }

    /// The checked options.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Takes one input. Drain [`Machine::poll_effect`] before the next.
    pub fn handle_input(&mut self, now: Now, input: Input) {
        if now.wall != self.now.wall {
            self.at = OnceCell::new();
        }
        self.now = now;
        self.check_trust();
        self.take(input);
        self.advance();
        self.flush();
        self.settle_calls();
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Called { call, request } => self.called(call, request),
            Input::Aborted { call } => self.aborted(call),
            Input::RecordCreated(result) => self.record_created(result),
            Input::Claimed(result) => self.claimed(result),
            Input::Renewed { fence, result } => self.renewed(fence, result),
            Input::Released => self.released(),
            Input::BatchesRead(result) => self.batches_read(result),
            Input::Appended(result) => self.appended(result),
            Input::SelectorReturned { attempt, result } => self.selector_returned(&attempt, result),
            Input::SessionOpened { session, result } => self.session_opened(session, result),
            Input::TurnReturned { attempt, result } => self.turn_returned(&attempt, result),
            Input::CheckpointReturned { attempt, result } => self.checkpoint_returned(&attempt, result),
            Input::SessionReleased { session, result } => self.session_released(session, result),
            Input::AdmissionAsked { ticket, attempt, call } => self.admission_asked(ticket, attempt, call),
            Input::UsageReported { ticket, attempt, report } => self.usage_reported(ticket, attempt, report),
            Input::Priced { ticket, cost } => self.priced(ticket, cost),
            Input::Delivered { emission } => {
                self.delivered = self.delivered.max(emission);
                self.release_held();
            }
            Input::RecordAsked { ticket, attempt, record } => self.record_asked(ticket, attempt, record),
            Input::Together { inputs } => inputs.into_iter().for_each(|input| self.take(input)),
            Input::TimerFired { timer } => self.timer_fired(timer),
        }
    }

    /// The next thing to do.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// The time of this input, for the record.
    pub(super) fn at(&self) -> Rc<str> {
        self.at.get_or_init(|| format_iso(self.now.wall).unwrap_or_default().into()).clone()
    }

    /// A new id; the counter moves on when an entry brings it.
    pub(super) fn new_id(&self, kind: &str, offset: u64) -> Id {
        let fence = self.calls.claim.as_ref().map_or(0, |held| held.claim.fence);
        self.ids.derive(kind, fence, self.head.issued + offset)
    }

    /// Sets a timer for a moment of the monotonic clock.
    pub(super) fn arm(&mut self, timer: Timer, deadline: f64) {
        let wait = (deadline - self.now.mono).max(0.0);
        let delay_ms = wait.min(MAX_TIMER_MS);
        self.timers.insert(timer, Waiting { deadline, rest: wait - delay_ms });
        self.effect(Effect::StartTimer { timer, delay_ms });
    }

    pub(super) fn disarm(&mut self, timer: Timer) {
        if self.timers.remove(&timer).is_some() {
            self.effect(Effect::StopTimer { timer });
        }
    }

    fn timer_fired(&mut self, timer: Timer) {
        let Some(Waiting { deadline, rest }) = self.timers.remove(&timer) else { return };
        // The armed part is over whatever the clock says: one that stands still must not stop the run.
        if rest > 0.0 && self.now.mono < deadline {
            return self.arm(timer, self.now.mono + rest);
        }
        match timer {
            Timer::Lease => self.lease_due(),
            Timer::RunTimeout => self.time_is_up(),
            Timer::Settle => self.give_up_unsettled(),
            Timer::Retry => self.retry(),
        }
    }
}
