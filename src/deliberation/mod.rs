//! Facilitated discussions with a deadline: one facilitator, up to twenty participants, an append-only
//! thread, one outcome.
//!
//! A machine of commands and entries: [`decide`](command::decide) takes a state and a command and says what
//! to append to the session's journal, [`State::apply`] folds that in, and [`outbox`] says what is owed to
//! others. It has no clock and no store. Whoever appends an entry under compare-and-set has won: of two
//! closings that were decided on one state only one lands.

pub mod command;
pub mod creation;
pub mod entry;
mod fields;
mod fold;
pub mod outbox;
pub mod refusal;
pub mod state;
mod validation;
mod view;
pub mod wire;

pub use entry::Entry;
pub use refusal::{Code, Refusal};
pub use state::State;

/// The most participants of a session.
pub const MAX_PARTICIPANTS: usize = 20;
/// The most entries of a thread.
pub const MAX_THREAD: usize = 200;
/// The longest life of a session, in minutes: seven days.
pub const MAX_MINUTES: f64 = 10_080.0;
/// The life of a session that names none, in minutes.
pub const DEFAULT_MINUTES: f64 = 30.0;

const MS_PER_MINUTE: f64 = 60_000.0;
