//! Session logs and their replay, by the acceptance rows they prove.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod codec;
mod mutations;
mod payload;
mod provider;
mod record;
mod support;
mod wire;
