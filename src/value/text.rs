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

/// The lines of `text`, cut at every line terminator (CRLF as one) and at the separators U+001C to
/// U+001E, which some readers take for one. A trailing boundary gives a last, empty line.
pub fn split_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some((at, end)) = text.char_indices().find(|(_, c)| is_line_boundary(*c)) else {
            rest = None;
            return Some(text);
        };
        let (line, tail) = text.split_at(at);
        rest = tail.strip_prefix("\r\n").or_else(|| tail.strip_prefix(end));
        Some(line)
    })
}

/// Whether some reader may take this character for the end of a line.
#[must_use]
pub fn is_line_boundary(c: char) -> bool {
    is_line_terminator(c) || ('\u{1c}'..='\u{1e}').contains(&c)
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
