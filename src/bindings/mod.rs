//! What JavaScript calls: exported functions and handles, nothing that decides.
//!
//! Compiled for `wasm32` only. The packaging step wraps the generated glue in `createEngine(module)`,
//! so everything here belongs to one instance and is dropped with it after a trap.

pub mod conversation;
mod crossing;
mod deliberation;
mod inspection;
mod panic;
mod replay;
mod runtime;
mod team;
mod trace;

use wasm_bindgen::prelude::wasm_bindgen;

/// The version of the engine, equal to the version of the npm package it ships in.
#[wasm_bindgen]
#[must_use]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}
