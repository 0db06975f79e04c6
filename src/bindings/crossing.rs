//! How values cross between JavaScript and the engine.

use crate::conversation::error::{Code, RoundtableError};
use crate::value::Json;
use crate::value::write::write;
use serde::Serialize;
use wasm_bindgen::prelude::JsValue;

/// None of the engine's own shapes can fail to serialise.
pub(super) fn json(value: &impl Serialize) -> String {
    write(value).unwrap_or_default()
}

/// Plain data as it is: numbers of every kind pass, for the checks to name the field.
pub(super) fn plain(value: JsValue) -> Result<Json, RoundtableError> {
    serde_wasm_bindgen::from_value(value)
        .map_err(|error| RoundtableError::new(Code::InvalidConfig, format!("options: {error}")))
}
