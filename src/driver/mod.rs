//! Performs a machine's effects against a host's ports. It decides nothing.

pub mod host;

pub use host::Host;
