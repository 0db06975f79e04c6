//! Reads the engine's own shapes straight from their text, member by member, without a value in between.
//!
//! A text that the engine wrote has the members of a shape in the order of its declaration and nothing else:
//! there a member is where it is due, or it is absent, and whatever is left over does not belong. Texts of
//! others may have them in any order.

use super::instant::is_iso;
use super::json::{CanonicalJson, Json, JsonError, MAX_ENCLOSING};
use super::scan::Scan;
use std::borrow::Cow;
use std::rc::Rc;

/// A shape that can be read.
///
/// Reading always gives a shape: where the text has another, the reader keeps what is wrong with it, every read
/// from there on gives something blank, and [`read_written`] and [`read_any`] throw it all away.
pub trait Read: Sized {
    /// Reads the value that comes next.
    fn read(reader: &mut Reader<'_>) -> Self;

    /// What stands for it where its member is absent.
    fn absent(reader: &mut Reader<'_>, name: &str) -> Self {
        reader.fail(missing(name));
        Self::read(reader)
    }
}

/// Reads a shape that is an object from a text that the engine wrote, without the brace that ends it.
pub fn read_written<T: Read>(open: &str) -> Result<T, JsonError> {
    whole(Scan::open(open), None)
}

/// Reads a shape from one complete text of anybody's.
pub fn read_any<T: Read>(text: &str) -> Result<T, JsonError> {
    whole(Scan::new(text), Some(Vec::new()))
}

fn whole<'a, T: Read>(scan: Scan<'a>, frames: Option<Vec<Frame<'a>>>) -> Result<T, JsonError> {
    let mut reader = Reader { scan, frames, problem: None };
    let shape = T::read(&mut reader);
    reader.token(Scan::end);
    reader.problem.map_or(Ok(shape), Err)
}

/// A place in a text.
#[derive(Debug)]
pub struct Reader<'a> {
    scan: Scan<'a>,
    /// The objects that are open, where their members may have any order.
    frames: Option<Vec<Frame<'a>>>,
    /// The first thing that was wrong.
    problem: Option<JsonError>,
}

/// What was not taken yet of an object: the names and places of its members, and where it ends.
#[derive(Debug, Default)]
struct Frame<'a> {
    members: Vec<(Cow<'a, str>, usize)>,
    end: usize,
}

/// Says what was expected, never what was found: that may be anything a host has.
pub(crate) fn wrong(expected: &str) -> JsonError {
    JsonError { message: format!("expected {expected}") }
}

pub(crate) fn misfit(problem: &str) -> JsonError {
    JsonError { message: problem.to_owned() }
}

fn missing(name: &str) -> JsonError {
    JsonError { message: format!("missing field `{name}`") }
}

impl<'a> Reader<'a> {
    /// Keeps what is wrong, unless something was wrong before.
    pub fn fail(&mut self, problem: JsonError) {
        self.problem.get_or_insert(problem);
    }

    /// What comes next, blank once something was wrong.
    fn token<T: Default>(&mut self, read: impl FnOnce(&mut Scan<'a>) -> Result<T, JsonError>) -> T {
        if self.problem.is_none() {
            match read(&mut self.scan) {
                Ok(token) => return token,
                Err(problem) => self.fail(problem),
            }
        }
        T::default()
    }

    fn expect(&mut self, byte: u8, what: &str) {
        self.token(|scan| scan.expect(byte, what));
    }

    /// Begins an object.
    pub fn open(&mut self) {
        self.expect(b'{', "an object");
        if self.frames.is_some() {
            let frame = self.token(frame);
            self.frames.get_or_insert_default().push(frame);
        }
    }

    /// Ends the object: nothing may be left of it.
    pub fn close(&mut self) {
        let is_done = match self.frames.as_mut().map(Vec::pop) {
            None => self.scan.eat(b'}'),
            Some(frame) => frame.is_some_and(|frame| {
                self.scan.go(frame.end);
                frame.members.is_empty()
            }),
        };
        if !is_done {
            self.fail(misfit(SPARE));
        }
    }

    /// Goes to the value of a member; `false` where there is none.
    fn seek(&mut self, name: &str) -> bool {
        let Some(frames) = &mut self.frames else { return self.scan.member(name) };
        let Some(frame) = frames.last_mut() else { return false };
        let Some(at) = frame.members.iter().position(|(known, _)| known == name) else { return false };
        self.scan.go(frame.members.swap_remove(at).1);
        true
    }

    /// Reads a member.
    pub fn member<T: Read>(&mut self, name: &str) -> T {
        if self.seek(name) { T::read(self) } else { T::absent(self, name) }
    }

    /// Reads a member that may be absent, and then is the default.
    pub fn or_default<T: Read + Default>(&mut self, name: &str) -> T {
        if self.seek(name) { T::read(self) } else { T::default() }
    }

    /// Reads an optional member that may hold `null`: present, it is a value, whatever that value is.
    pub fn present<T: Read>(&mut self, name: &str) -> Option<T> {
        if self.seek(name) { Some(T::read(self)) } else { None }
    }

    /// Reads an instant that the engine wrote.
    pub fn instant(&mut self, name: &str) -> Rc<str> {
        let text: Rc<str> = self.member(name);
        if !is_iso(&text) {
            self.fail(wrong("an instant as it is written"));
        }
        text
    }

    /// Begins the object whose only member is named by its variant, and has its content.
    pub fn variant(&mut self) -> Cow<'a, str> {
        self.expect(b'{', "an object with one member");
        let name = self.text();
        self.expect(b':', "a member");
        name
    }

    /// Ends it.
    pub fn end_variant(&mut self) {
        self.expect(b'}', "an object with one member");
    }

    /// Whether text comes next.
    pub fn is_text(&mut self) -> bool {
        self.scan.peek() == Some(b'"')
    }

    /// Reads text.
    pub fn text(&mut self) -> Cow<'a, str> {
        self.token(Scan::string)
    }

    /// Refuses a name that is none of these.
    pub fn fail_name(&mut self, names: &[&str]) {
        self.fail(wrong(&format!("one of {}", names.join(", "))));
    }

    /// Reads a list.
    pub fn list<T: Read>(&mut self) -> Vec<T> {
        let mut items = Vec::new();
        self.open_list();
        let mut is_over = self.token(|scan| Ok(scan.eat(b']')));
        while !is_over && self.problem.is_none() {
            items.push(T::read(self));
            is_over = self.token(|scan| Ok(scan.eat(b']')));
            if !is_over {
                self.next_item();
            }
        }
        items
    }

    /// Begins a list of a known length.
    pub fn open_list(&mut self) {
        self.expect(b'[', "an array");
    }

    /// Goes to the next of its items.
    pub fn next_item(&mut self) {
        self.expect(b',', "an item");
    }

    /// Ends it.
    pub fn close_list(&mut self) {
        self.expect(b']', "the end of a list");
    }

    /// The text of the value that comes next.
    fn raw(&mut self, is_canonical: bool) -> &'a str {
        self.token(|scan| {
            let start = scan.place();
            scan.skip(MAX_ENCLOSING, is_canonical)?;
            Ok(scan.from(start))
        })
    }

    /// Reads any value.
    pub fn json(&mut self) -> Json {
        let text = self.raw(false);
        let json = Json::parse_enclosing(text);
        json.unwrap_or_else(|problem| {
            self.fail(problem);
            Json::Null
        })
    }
}

const SPARE: &str = "a member that does not belong there";

/// The members of an object whose brace was read.
fn frame<'a>(scan: &mut Scan<'a>) -> Result<Frame<'a>, JsonError> {
    let mut members = Vec::new();
    if !scan.eat(b'}') {
        loop {
            let name = scan.string()?;
            scan.expect(b':', "a member")?;
            members.push((name, scan.place()));
            scan.skip(MAX_ENCLOSING, false)?;
            if scan.eat(b'}') {
                break;
            }
            scan.expect(b',', "a member")?;
        }
    }
    Ok(Frame { members, end: scan.place() })
}

impl Read for Rc<str> {
    fn read(reader: &mut Reader<'_>) -> Self {
        reader.text().into()
    }
}

impl Read for bool {
    fn read(reader: &mut Reader<'_>) -> Self {
        reader.token(Scan::boolean)
    }
}

impl Read for u64 {
    fn read(reader: &mut Reader<'_>) -> Self {
        reader.token(Scan::integer)
    }
}

impl Read for usize {
    fn read(reader: &mut Reader<'_>) -> Self {
        reader.token(|scan| usize::try_from(scan.integer()?).map_err(|_| wrong("a position")))
    }
}

impl Read for CanonicalJson {
    fn read(reader: &mut Reader<'_>) -> Self {
        // Whoever knows the sum of a text has written it, and has written this in canonical form.
        if reader.frames.is_none() {
            CanonicalJson::written(reader.raw(true))
        } else {
            CanonicalJson::of(&reader.json())
        }
    }
}

impl<T: Read> Read for Option<T> {
    fn read(reader: &mut Reader<'_>) -> Self {
        if reader.problem.is_some() || reader.scan.null() { None } else { Some(T::read(reader)) }
    }

    fn absent(_: &mut Reader<'_>, _: &str) -> Self {
        None
    }
}

impl<T: Read> Read for Vec<T> {
    fn read(reader: &mut Reader<'_>) -> Self {
        reader.list()
    }
}

impl<T: Read> Read for Rc<[T]> {
    fn read(reader: &mut Reader<'_>) -> Self {
        reader.list().into()
    }
}

impl<T: Read> Read for Rc<T> {
    fn read(reader: &mut Reader<'_>) -> Self {
        Rc::new(T::read(reader))
    }
}

impl<T: Read> Read for Box<T> {
    fn read(reader: &mut Reader<'_>) -> Self {
        Box::new(T::read(reader))
    }
}

impl<A: Read, B: Read> Read for (A, B) {
    fn read(reader: &mut Reader<'_>) -> Self {
        reader.open_list();
        let first = A::read(reader);
        reader.next_item();
        let pair = (first, B::read(reader));
        reader.close_list();
        pair
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reads;

    #[derive(Debug, PartialEq)]
    struct Pair {
        first: Rc<str>,
        data: Option<CanonicalJson>,
    }

    reads! { Pair { first, data by present } }

    fn refused<T: Read + std::fmt::Debug>(read: impl FnOnce(&str) -> Result<T, JsonError>, text: &str) -> String {
        read(text).unwrap_err().message
    }

    #[test]
    fn c43_members_that_the_engine_wrote_are_in_their_order_or_refused() {
        let pair = read_written::<Pair>(r#"{"first":"a\n","data":{"a":[1,null],"b":{}}"#).unwrap();
        assert_eq!((&*pair.first, pair.data.unwrap().as_str()), ("a\n", r#"{"a":[1,null],"b":{}}"#));
        assert_eq!(read_written::<Pair>(r#"{"first":"","data":null"#).unwrap().data.unwrap().as_str(), "null");
        for (text, reason) in [
            (r#"{"data":1,"first":"a""#, "missing field `first`"),
            (r#"{"data":1"#, "missing field `first`"),
            (r#"{"first":"a","first":"a""#, SPARE),
            (r#"{"first":"a","spare":1"#, SPARE),
            (r#"{"first":"a","data":1,"data":1"#, SPARE),
            (r#"{"first":7"#, "expected text"),
            (r#"{"first":null"#, "expected text"),
            (r#"{"first":"a","data":{"b":1,"a":1}"#, "members out of order"),
            (r#"{"first":"a","data":[{"a":1,"a":1}]"#, "members out of order"),
            (r#"{"first":"a"}"#, "expected the end of the text"),
            ("[]", "expected an object"),
        ] {
            assert_eq!(refused(read_written::<Pair>, text), reason, "{text}");
        }
    }

    #[test]
    fn members_of_others_have_any_order_and_are_refused_alike() {
        let text = r#" { "data" : {"b":1,"a":2} , "first" : "a" } "#;
        assert_eq!(read_any::<Pair>(text).unwrap().data.unwrap().as_str(), r#"{"a":2,"b":1}"#);
        for (text, reason) in [
            (r#"{"data":1}"#, "missing field `first`"),
            (r#"{"first":"a","first":"a"}"#, SPARE),
            (r#"{"first":"a","spare":1}"#, SPARE),
            (r#"{"first":7}"#, "expected text"),
            (r#"{"first":"a"} {"#, "expected the end of the text"),
        ] {
            assert_eq!(refused(read_any::<Pair>, text), reason, "{text}");
        }
        assert!(read_any::<Pair>(r#"{"first":"a","data":{"a":1,"a":1}}"#).is_err());
    }

    #[test]
    fn a_reader_that_failed_ends_whatever_the_shape_is() {
        for text in ["", "[", "[[", "[[\"a\"", "[[\"a\",{", "7", "[7,"] {
            assert!(read_any::<Vec<(Rc<str>, Pair)>>(text).is_err(), "{text}");
            assert!(read_any::<Rc<[Option<Box<Pair>>]>>(text).is_err(), "{text}");
        }
    }
}
