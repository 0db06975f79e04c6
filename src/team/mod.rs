//! Teams: members that speak in rooms and wake each other by mentions. Pure like the rest of the core:
//! definition and events in, commands and rendered text out.
//!
//! [`definition`] and [`result`] say what is acceptable, [`event`] what is recorded, [`state`] what it
//! folds into, [`decision`] what follows from a state, [`input`] what a member is shown, [`outcome`] what
//! a caller is told and [`rooms`] what a reader of files sees. [`machine`] runs it all.

pub mod decision;
pub mod definition;
pub mod error;
pub mod event;
pub mod fold;
pub mod input;
pub mod io;
pub mod issue;
mod ledger;
pub mod machine;
pub mod outcome;
pub mod result;
pub mod rooms;
mod services;
mod shapes;
pub mod snapshot;
pub mod state;
pub mod told;
pub mod turns;

pub use definition::Definition;
pub use event::{Event, Options};
pub use machine::Machine;
pub use state::State;
