//! Teams: the acceptance list (T1 to T28), properties of fold, codec and rendering, and crashes between
//! any two steps.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod acceptance;
mod contracts;
mod crashes;
mod properties;
mod rooms;
mod simulation;
mod support;
