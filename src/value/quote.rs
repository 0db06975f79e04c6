//! Quoting: other people's text inside a text of the engine's own, so that no line of theirs can pass for
//! one of ours, whichever characters a reader takes for the end of a line.

use super::text::{is_line_boundary, split_lines};

/// Every line of `text` behind `> `; an empty text is one such line.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for (index, line) in split_lines(text).enumerate() {
        out.push_str(if index == 0 { "> " } else { "\n> " });
        out.push_str(line);
    }
    out
}

/// `text` as the rest of a line: what follows its first line is quoted.
#[must_use]
pub fn continued(text: &str) -> String {
    split_lines(text).collect::<Vec<_>>().join("\n> ")
}

/// `text` on one line: control characters and line boundaries as `\u` escapes.
#[must_use]
pub fn single_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04X}", c as u32)),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", c as u32)),
            c => out.push(c),
        }
    }
    out
}

/// As [`quoted`], for Markdown: nothing in it starts HTML, which could end the quotation where it is rendered.
#[must_use]
pub fn quoted_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    let quoted = quoted(text);
    let mut chars = quoted.chars().peekable();
    while let Some(c) = chars.next() {
        let opens = |next: &char| next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?');
        if c == '<' && chars.peek().is_some_and(opens) {
            out.push_str("&lt;");
        } else {
            out.push(c);
        }
    }
    out
}

/// `text` on one line as a Markdown code span, in which nothing has a meaning.
#[must_use]
pub fn code_span(text: &str) -> String {
    let text = single_line(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    // One space at each end is taken off again where a reader renders it.
    let pad = if longest > 0 || text.starts_with(' ') || text.ends_with(' ') { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

/// JSON text whose every reader sees one line: what JSON leaves bare and some take for the end of a line is
/// escaped.
#[must_use]
pub fn json_line(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_line_boundary(c) {
            out.push_str(&format!("\\u{:04x}", c as u32));
        } else {
            out.push(c);
        }
    }
    out
}
