//! Reading conversations without taking part in them.

use crate::conversation::{Code, RoundtableError};
use crate::record::transcript::{Format, transcript};
use crate::value::write::write;
use wasm_bindgen::prelude::{JsValue, wasm_bindgen};

/// The transcript of a snapshot, given as JSON; as Markdown or as JSON Lines. Throws the JSON of an error.
#[wasm_bindgen(js_name = exportTranscript)]
pub fn export_transcript(snapshot: &str, markdown: bool) -> Result<String, JsValue> {
    let format = if markdown { Format::Markdown } else { Format::JsonLines };
    transcript(snapshot, format).map_err(|error| refused(Code::InvalidConfig, format!("snapshot: {error}")))
}

fn refused(code: Code, message: String) -> JsValue {
    write(&RoundtableError::new(code, message)).unwrap_or_default().into()
}
