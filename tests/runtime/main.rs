//! The runtime through its public interface. `aNN_...` names row NN of the adapter's acceptance list.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod agent;
mod checkpoint;
mod host;
mod interleavings;
mod metering;
mod render;
mod selector;
mod session;
mod session_host;
mod session_interleavings;
mod session_late;
mod session_saved;
mod session_wire;
mod tools;
mod wire;
