//! The engine in a real browser: `make wasm-test` runs these by wasm-pack in headless Chromium.
//!
//! One module per subject; each has `#[wasm_bindgen_test]` functions named after the rule they prove.
#![cfg(all(test, target_arch = "wasm32"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod conversation;

use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

wasm_bindgen_test_configure!(run_in_browser);

#[wasm_bindgen_test]
fn the_bindings_answer_in_a_browser() {
    assert_eq!(agent_roundtable::bindings::version(), "0.1.0");
}
