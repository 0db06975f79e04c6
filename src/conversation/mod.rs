//! The scheduler of one conversation: a machine that takes [`Input`]s and yields [`Effect`]s. It is pure
//! and synchronous: no I/O, no clock, no randomness; the same inputs give the same bytes.
//!
//! **After every input, perform every effect, in order.** Results come back as further inputs, at any
//! later time and in any order.

mod attempts;
pub mod binding;
mod calls;
mod claim;
pub mod config;
pub mod effect;
pub mod emission;
pub mod error;
pub mod event;
mod external;
mod fields;
pub mod input;
pub mod keeper;
mod ledger;
mod machine;
mod opening;
mod records;
mod recovery;
mod run;
mod selection;
mod sessions;
pub mod trace;
mod writer;

pub use config::{Config, LimitsPatch};
pub use effect::Effect;
pub use error::{Code, RoundtableError};
pub use event::Event;
pub use input::{Input, Now};
pub use machine::Machine;
pub use trace::replay_trace;
