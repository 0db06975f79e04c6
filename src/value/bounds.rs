//! Bounds that every module keeps, in UTF-16 units.

/// The longest id.
pub const MAX_ID: usize = 512;
/// The longest purpose, description or reason.
pub const MAX_TEXT: usize = 8_192;
/// The longest content of a message.
pub const MAX_CONTENT: usize = 1024 * 1024;
/// The longest JSON value, as canonical text.
pub const MAX_VALUE: usize = 4 * 1024 * 1024;
/// The longest message of a private history, as canonical text: what a journal's entry can hold, with room for
/// what stands around it. Six units for each of the longest content always fit.
pub const MAX_MESSAGE: usize = 7 * 1024 * 1024;
