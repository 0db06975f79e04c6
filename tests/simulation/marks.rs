//! Canaries: unique marks put into every private text, so that a leak of any of them can be seen.

const OPEN: char = '«';
const CLOSE: char = '»';

/// The text of mark number `n`.
pub fn mark(n: u64) -> String {
    format!("{OPEN}{n}{CLOSE}")
}

/// Every mark in a text.
pub fn find(text: &str) -> Vec<String> {
    let inner = text.split(OPEN).skip(1).filter_map(|rest| rest.split_once(CLOSE));
    inner.map(|(number, _)| format!("{OPEN}{number}{CLOSE}")).collect()
}
