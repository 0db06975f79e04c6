//! A place in JSON text, and the tokens that come next.

use super::json::{JsonError, plain_len};
use super::shape::{misfit, wrong};
use std::borrow::Cow;

/// The integers a double holds exactly end here.
const MAX_INTEGER: u64 = 9_007_199_254_740_991;

/// A place in a text.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
    /// Whether there may be spaces between tokens.
    spaced: bool,
    /// Whether the last brace is still to be thought of at the end.
    open: bool,
}

impl<'a> Scan<'a> {
    /// A text of anybody's.
    pub(super) fn new(text: &'a str) -> Self {
        Scan { text, at: 0, spaced: true, open: false }
    }

    /// A text of the engine's, whose last brace is left out.
    pub(super) fn open(text: &'a str) -> Self {
        Scan { text, at: 0, spaced: false, open: true }
    }

    /// Where this is, for [`Scan::go`].
    pub(super) fn place(&self) -> usize {
        self.at
    }

    pub(super) fn go(&mut self, place: usize) {
        self.at = place;
    }

    /// The text from a place up to here.
    pub(super) fn from(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default().trim_ascii_start()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// The byte that comes next, after spaces.
    pub(super) fn peek(&mut self) -> Option<u8> {
        if self.spaced {
            self.at += self.rest().iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
        }
        self.rest().first().copied()
    }

    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let next = self.peek();
        if next.is_none() && byte == b'}' {
            return std::mem::take(&mut self.open);
        }
        self.at += usize::from(next == Some(byte));
        next == Some(byte)
    }

    pub(super) fn expect(&mut self, byte: u8, what: &str) -> Result<(), JsonError> {
        if self.eat(byte) { Ok(()) } else { Err(wrong(what)) }
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let is_next = self.rest().starts_with(word.as_bytes());
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    /// Refuses what comes after the value.
    pub(super) fn end(&mut self) -> Result<(), JsonError> {
        if self.peek().is_none() && !self.open { Ok(()) } else { Err(wrong("the end of the text")) }
    }

    /// Goes over a member's name to its value, where it is the one that comes next.
    pub(super) fn member(&mut self, name: &str) -> bool {
        let rest = self.rest();
        // Right after a value stands what divides it from this; right after `{` stands nothing.
        let (name_at, rest) = match rest.split_first() {
            Some((b',', rest)) => (2, rest),
            _ => (1, rest),
        };
        let Some((b'"', rest)) = rest.split_first() else { return false };
        match rest.split_at_checked(name.len()) {
            Some((found, [b'"', b':', ..])) if found == name.as_bytes() => {
                self.at += name_at + name.len() + 2;
                true
            }
            _ => false,
        }
    }

    pub(super) fn null(&mut self) -> bool {
        self.peek() == Some(b'n') && self.eat_word("null")
    }

    pub(super) fn boolean(&mut self) -> Result<bool, JsonError> {
        self.peek();
        if self.eat_word("true") {
            return Ok(true);
        }
        if self.eat_word("false") { Ok(false) } else { Err(wrong("true or false")) }
    }

    pub(super) fn integer(&mut self) -> Result<u64, JsonError> {
        let number = self.number()?;
        let value = match number.parse::<u64>() {
            Ok(value) => Some(value),
            Err(_) => number.parse::<f64>().ok().filter(|n| n.fract() == 0.0 && *n >= 0.0).map(|n| n as u64),
        };
        value.filter(|value| *value <= MAX_INTEGER).ok_or_else(|| wrong("a safe integer from 0"))
    }

    /// A number as it stands there.
    fn number(&mut self) -> Result<&'a str, JsonError> {
        self.peek();
        let start = self.at;
        self.eat_byte(b'-');
        let whole = self.digits();
        let is_whole =
            whole == 1 || (whole > 1 && self.byte(start + usize::from(self.byte(start) == Some(b'-'))) != Some(b'0'));
        let mut is_number = is_whole;
        if self.eat_byte(b'.') {
            is_number &= self.digits() > 0;
        }
        if self.eat_byte(b'e') || self.eat_byte(b'E') {
            let _ = self.eat_byte(b'+') || self.eat_byte(b'-');
            is_number &= self.digits() > 0;
        }
        let number = self.from(start);
        // What has no point and no exponent is too long before it is too great.
        let is_finite =
            number.len() < 300 && !number.contains(['e', 'E']) || number.parse::<f64>().is_ok_and(f64::is_finite);
        if is_number && is_finite { Ok(number) } else { Err(wrong("a number")) }
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.text.as_bytes().get(at).copied()
    }

    fn eat_byte(&mut self, byte: u8) -> bool {
        let is_next = self.byte(self.at) == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn digits(&mut self) -> usize {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    /// Text, borrowed where it has no escapes.
    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.expect(b'"', "text")?;
        let plain = self.plain();
        if self.eat_byte(b'"') {
            return Ok(Cow::Borrowed(plain));
        }
        let mut text = plain.to_owned();
        loop {
            text.push(self.escape()?);
            text.push_str(self.plain());
            if self.eat_byte(b'"') {
                return Ok(Cow::Owned(text));
            }
        }
    }

    /// Goes over what needs no escape.
    fn plain(&mut self) -> &'a str {
        let start = self.at;
        self.at += plain_len(self.rest());
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        const BAD: &str = "text that ends, with the escapes there are";
        if !self.eat_byte(b'\\') {
            return Err(wrong(BAD));
        }
        let kind = self.byte(self.at).ok_or_else(|| wrong(BAD))?;
        self.at += 1;
        Ok(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let first = self.unit().ok_or_else(|| wrong(BAD))?;
                let is_high = (0xd800..0xdc00).contains(&first);
                let second = if is_high && self.eat_word("\\u") { self.unit() } else { None };
                let units = [Some(first), second].into_iter().flatten();
                let mut decoded = char::decode_utf16(units);
                match (decoded.next(), decoded.next()) {
                    (Some(Ok(one)), None) => one,
                    _ => return Err(misfit("text with a lone surrogate")),
                }
            }
            _ => return Err(wrong(BAD)),
        })
    }

    /// The four digits of an escaped UTF-16 unit.
    fn unit(&mut self) -> Option<u16> {
        let digits = self.rest().get(..4)?;
        self.at += 4;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
    }

    /// Goes over a value, in which arrays and objects nest so deep at most. Where it is canonical, the members of
    /// its objects are in order and none is there twice.
    pub(super) fn skip(&mut self, depth: usize, is_canonical: bool) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'"') => self.skip_text(),
            Some(b'{') => self.skip_items(depth, is_canonical, b'}'),
            Some(b'[') => self.skip_items(depth, is_canonical, b']'),
            Some(b't' | b'f') => self.boolean().map(|_| ()),
            Some(b'n') if self.null() => Ok(()),
            _ => self.number().map(|_| ()),
        }
    }

    fn skip_text(&mut self) -> Result<(), JsonError> {
        self.expect(b'"', "text")?;
        loop {
            self.at += plain_len(self.rest());
            if self.eat_byte(b'"') {
                return Ok(());
            }
            self.escape()?;
        }
    }

    fn skip_items(&mut self, depth: usize, is_canonical: bool, end: u8) -> Result<(), JsonError> {
        let depth = depth.checked_sub(1).ok_or_else(|| misfit("nested too deep"))?;
        self.at += 1;
        if self.eat(end) {
            return Ok(());
        }
        let mut last: Option<Cow<'a, str>> = None;
        loop {
            if end == b'}' {
                let name = self.string()?;
                if is_canonical && last.is_some_and(|last| last.encode_utf16().ge(name.encode_utf16())) {
                    return Err(misfit("members out of order"));
                }
                last = Some(name);
                self.expect(b':', "a member")?;
            }
            self.skip(depth, is_canonical)?;
            if self.eat(end) {
                return Ok(());
            }
            self.expect(b',', "an item")?;
        }
    }
}
