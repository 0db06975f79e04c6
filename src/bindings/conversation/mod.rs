//! A conversation for JavaScript: the shell makes a handle with its ports object, calls it with
//! numbers and short texts, and is answered through the ports.

mod executor;
pub(in crate::bindings) mod handle;
pub(in crate::bindings) mod host;
mod ports;
mod record;
mod slots;
pub(in crate::bindings) mod wire;

pub use handle::RoundtableHandle;
pub use ports::Ports;
pub use record::LoadedRecord;
