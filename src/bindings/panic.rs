//! Keeps the text of a panic, so that the error a host sees after the trap names its cause.

use std::sync::Mutex;

use wasm_bindgen::prelude::wasm_bindgen;

static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Runs once per instance, before anything else is called.
#[wasm_bindgen(start)]
fn install() {
    std::panic::set_hook(Box::new(|info| {
        if let Ok(mut last) = LAST.try_lock() {
            *last = Some(info.to_string());
        }
    }));
}

/// The message and place of the panic that trapped this instance; absent where the trap had another cause.
#[wasm_bindgen(js_name = lastPanic)]
#[must_use]
pub fn last_panic() -> Option<String> {
    LAST.try_lock().ok().and_then(|mut last| last.take())
}
