//! How a run stops, fails, and goes on: signals, time, siblings, sessions, and a store that fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod group;
mod stopping;
mod store;
#[path = "../support/mod.rs"]
mod support;
mod turns;
