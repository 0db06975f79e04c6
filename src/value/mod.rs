//! Values every module shares: strict JSON and its canonical text, text measures, instants.

pub mod bounds;
pub mod hash;
pub mod instant;
pub mod json;
pub mod quote;
pub mod read;
mod reads;
mod scan;
pub mod shape;
pub mod sorted_map;
pub mod text;
pub mod write;

pub use json::{CanonicalJson, Json, JsonError};
