//! The deterministic core of `agent-roundtable`: several agents and people in one conversation.
//!
//! Everything here is pure and synchronous except [`driver`]. Time, randomness and I/O come in as
//! inputs; what the engine wants done goes out as effects. An inner module never names an outer one;
//! the list runs from the innermost outwards.

pub mod conversation;
pub mod deliberation;
pub mod driver;
pub mod record;
pub mod replay;
pub mod runtime;
pub mod team;
pub mod value;

#[cfg(target_arch = "wasm32")]
pub mod bindings;
