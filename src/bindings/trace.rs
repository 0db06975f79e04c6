//! Recorded traces for JavaScript: to see whether another host does the same with the same inputs.

use crate::conversation::replay_trace;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

/// See [`replay_trace`]; throws the JSON of an error.
#[wasm_bindgen(js_name = replayTrace)]
pub fn replay_trace_text(text: &str) -> Result<String, JsValue> {
    replay_trace(text).map_err(|error| serde_json::to_string(&error).unwrap_or_default().into())
}
