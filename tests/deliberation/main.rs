//! Deliberations: the journal's text and its fold, commands, and many hosts on one store under faults.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod journal;
mod simulation;
mod support;
