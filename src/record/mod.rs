//! The journal: its entries, their text, and the state they fold into.

pub mod codec;
pub mod entry;
pub mod execution;
pub mod fold;
mod fold_ledger;
pub mod fold_recovery;
pub mod fold_turns;
mod fold_waits;
pub mod fork;
pub mod ids;
pub mod model;
pub mod reading;
mod round_robin;
mod shapes;
pub mod snapshot;
pub mod state;
mod tagged;
pub mod transcript;
pub mod usage;

pub use entry::Entry;
pub use state::State;
