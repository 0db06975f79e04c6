//! A conversation for JavaScript: the shell makes a handle with its ports object, calls it with
//! numbers and short texts, and is answered through the ports.

mod executor;
mod handle;
mod host;
mod ports;
mod record;
mod slots;
mod wire;

pub use handle::RoundtableHandle;
pub use ports::Ports;
pub use record::LoadedRecord;
