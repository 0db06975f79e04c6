//! One entry, one line. A line is accepted only where writing the entry again gives the same bytes,
//! so there is exactly one text for each entry: no spare member, space, order or escape slips by.

use super::entry::Entry;
use crate::value::read::read;
use crate::value::write::write;

/// The longest line, in UTF-16 units.
pub const MAX_ENTRY_LEN: usize = 8 * 1024 * 1024;
/// The longest batch, in UTF-16 units of its lines.
pub const MAX_BATCH_LEN: usize = 32 * 1024 * 1024;

/// The text of an entry, without a line end.
pub fn encode(entry: &Entry) -> Result<String, String> {
    write(entry).map_err(|error| error.message)
}

/// The entry of a line, or the reason why it is none.
pub fn decode(line: &str) -> Result<Entry, String> {
    let entry: Entry = read(line).map_err(|error| error.message)?;
    if encode(&entry)? != line {
        return Err("not the text this engine writes for that entry".to_owned());
    }
    Ok(entry)
}
