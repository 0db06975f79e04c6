//! The journal: its entries, their text, and the state they fold into.

pub mod codec;
pub mod entry;
pub mod model;
pub mod usage;
