//! Text measures and boundaries, by the rules of ECMAScript and Unicode that hosts see.

/// Length in UTF-16 code units, the unit of every stated text bound.
#[must_use]
pub fn utf16_len(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.chars().map(char::len_utf16).sum()
}

/// Whether a character ends a line: LF, VT, FF, CR, NEL, LS or PS.
#[must_use]
pub fn is_line_terminator(c: char) -> bool {
    matches!(c, '\n' | '\u{b}' | '\u{c}' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// `String.prototype.trim`: the ECMAScript set, which holds U+FEFF and leaves U+0085 alone.
#[must_use]
pub fn ecmascript_trim(text: &str) -> &str {
    text.trim_matches(|c: char| match c {
        '\u{feff}' => true,
        '\u{85}' => false,
        _ => c.is_whitespace(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_units_count_astral_characters_twice() {
        assert_eq!(utf16_len("a\u{e9}\u{1f600}"), 4);
    }

    #[test]
    fn trim_follows_ecmascript() {
        assert_eq!(ecmascript_trim("\u{feff}\u{a0} x \u{85}"), "x \u{85}");
    }
}
