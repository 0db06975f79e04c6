//! One entry, one line. Behind the entry stands a sum over its text, which tells of every change that nobody
//! made on purpose: no spare member, space, order or escape slips by. A line without one is none.

use super::entry::Entry;
use super::ids::ALPHABET;
use crate::value::shape::{Read, read_written};
use crate::value::write::write;
use serde::Serialize;

/// The longest line, in UTF-16 units.
pub const MAX_ENTRY_LEN: usize = 8 * 1024 * 1024;
/// The longest batch, in UTF-16 units of its lines.
pub const MAX_BATCH_LEN: usize = 32 * 1024 * 1024;

/// What stands around the sum, which has [`SUM_LEN`] characters.
const SUM: (&str, &str) = (",\"sum\":\"", "\"}");
const SUM_LEN: usize = 10;

/// The text of an entry, without a line end.
pub fn encode<E: Serialize>(entry: &E) -> Result<String, String> {
    write(entry).map(seal).map_err(|error| error.message)
}

/// The line of an entry's own text, which is an object.
#[must_use]
pub fn seal(mut text: String) -> String {
    text.pop();
    let sum = sum(text.as_bytes());
    text.push_str(SUM.0);
    text.extend(sum);
    text.push_str(SUM.1);
    text
}

/// The entry of a line, or the reason why it is none.
pub fn decode(line: &str) -> Result<Entry, String> {
    decode_as(line)
}

/// The entry of another kind of record, which keeps to the same lines.
pub fn decode_as<E: Read>(line: &str) -> Result<E, String> {
    let (body, found) = split(line).ok_or("it has no sum")?;
    if !sum(body.as_bytes()).eq(found.chars()) {
        return Err("its text is not the one that was written: the sum differs".to_owned());
    }
    read_written(body).map_err(|error| error.message)
}

/// The text before the sum, without the brace that ends it there, and the sum.
fn split(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_suffix(SUM.1)?;
    let (rest, sum) = rest.split_at_checked(rest.len().checked_sub(SUM_LEN)?)?;
    Some((rest.strip_suffix(SUM.0)?, sum))
}

/// Against accidents, not against people: 50 bits, eight bytes at a time. The sum of an entry's text, which is
/// given without the brace that ends it.
fn sum(open: &[u8]) -> impl Iterator<Item = char> + use<> {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |state: u64, word: u64| {
        let product = (state ^ word).wrapping_mul(FACTOR);
        product ^ product >> 32
    };
    let (words, rest) = open.as_chunks::<8>();
    let state =
        words.iter().fold(FACTOR ^ (open.len() as u64 + 1), |state, word| mix(state, u64::from_le_bytes(*word)));
    let last = rest.iter().rev().fold(u64::from(b'}'), |word, byte| word << 8 | u64::from(*byte));
    let state = mix(state, last);
    let digits = (0..SUM_LEN).map(move |place| (state >> (14 + 5 * place)) as usize & 31);
    digits.filter_map(|digit| ALPHABET.get(digit)).map(|byte| char::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::entry::TurnUnsettled;

    #[test]
    fn c43_a_line_has_a_sum_that_stays_the_same_for_good() {
        let entry = Entry::TurnUnsettled(TurnUnsettled { turn_id: "t".into(), at: "2027-01-01T00:00:00.000Z".into() });
        let line = encode(&entry).unwrap();
        let body = r#"{"turn-unsettled/1":{"turnId":"t","at":"2027-01-01T00:00:00.000Z"}"#;
        assert_eq!(line, format!("{body},\"sum\":\"w64tqshkn7\"}}"));
        assert_eq!(decode(&line).unwrap(), entry);
        assert_eq!(decode(&format!("{body}}}")).unwrap_err(), "it has no sum");
        assert!(decode(&line.replace("\"t\"", "\"u\"")).unwrap_err().contains("sum"));
        assert!(decode(&line.replace("\"sum\"", "\"tum\"")).is_err());
    }

    #[test]
    fn c43_the_time_of_an_entry_is_one_that_a_clock_tells() {
        let line = |at| seal(format!(r#"{{"turn-unsettled/1":{{"turnId":"t","at":"{at}"}}}}"#));
        assert!(decode(&line("2028-02-29T00:00:00.000Z")).is_ok());
        assert!(decode(&line("+012028-02-29T00:00:00.000Z")).is_ok());
        for at in
            ["", "7", "2027-02-29T00:00:00.000Z", "2027-01-01", "2027-01-01T00:00:00Z", "+002027-01-01T00:00:00.000Z"]
        {
            assert_eq!(decode(&line(at)).unwrap_err(), "expected an instant as it is written", "{at}");
        }
    }
}
