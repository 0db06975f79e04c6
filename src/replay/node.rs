//! JSON values as they stand in a log line or come from a host: borrowed where they can be, in input
//! order, with the things that are no JSON kept in their place so that a decoder can name them.

use crate::value::instant::format_iso;
use crate::value::json::{MAX_DEPTH, write_string};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;

/// One value. Objects keep the order of their keys; a repeated key keeps its first place and its last value.
#[derive(Clone, Debug, PartialEq)]
pub enum Node<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A finite double.
    Number(f64),
    /// Well-formed Unicode.
    String(Cow<'a, str>),
    /// Elements in order.
    Array(Vec<Node<'a>>),
    /// Members in input order, keys unique.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
    /// A live date of the host, in epoch milliseconds; `NaN` for an invalid one.
    Date(f64),
    /// Something no JSON text can hold.
    Foreign(Foreign),
}

/// What a host value can be that is no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// An object that contains itself, at the place where it comes back.
    Cycle,
    /// A hole in an array.
    Hole,
    /// An object that is neither plain nor an array nor a date.
    Instance,
    /// A function.
    Function,
    /// A symbol.
    Symbol,
    /// A big integer.
    BigInt,
    /// `NaN` or an infinity.
    NonFinite,
    /// `undefined` where a value must stand.
    Undefined,
    /// Arrays and objects nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// Text, or a member under a key, that is no well-formed Unicode.
    LoneSurrogate,
}

/// A parsed text, and whether any object in it may be a reference to an external payload.
#[derive(Debug)]
pub(super) struct Parsed<'a> {
    pub node: Node<'a>,
    pub may_hold_references: bool,
}

/// The value under `kind` that marks a reference to an external payload.
pub(super) const REFERENCE_KIND: &str = "external-payload";

impl<'a> Node<'a> {
    /// Parses one JSON text. The error names positions, never contents.
    pub fn parse(text: &'a str) -> Result<Node<'a>, String> {
        Ok(Self::parse_at(text, 0)?.node)
    }

    /// Parses a host value: a JSON text in which `null` stands for every value that is no JSON, and the
    /// preorder position and kind of each of those, ascending. The root has position 0. It may be one level
    /// deeper than a line, being a list of them.
    pub fn parse_live(text: &'a str, foreign: &[(u32, Node<'static>)]) -> Result<Node<'a>, String> {
        Ok(Self::read(text, 0, MAX_DEPTH + 1, foreign)?.node)
    }

    /// Parses a text that stands `depth` arrays and objects deep in another value.
    pub(super) fn parse_at(text: &'a str, depth: usize) -> Result<Parsed<'a>, String> {
        Self::read(text, depth, MAX_DEPTH, &[])
    }

    fn read(
        text: &'a str,
        depth: usize,
        max_depth: usize,
        foreign: &[(u32, Node<'static>)],
    ) -> Result<Parsed<'a>, String> {
        let reading =
            Reading { max_depth, position: Cell::new(0), foreign: Cell::new(foreign), referring: Cell::new(false) };
        let mut reader = serde_json::Deserializer::from_str(text);
        let node = Seed { depth, reading: &reading }.deserialize(&mut reader);
        match node.and_then(|node| reader.end().map(|()| node)) {
            Ok(node) => Ok(Parsed { node, may_hold_references: reading.referring.get() }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The member under `key`, where this is an object that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node<'a>> {
        match self {
            Node::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The member under `key`, to be changed.
    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Node<'a>> {
        match self {
            Node::Object(members) => members.iter_mut().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The text, where this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Node::String(text) => Some(text),
            _ => None,
        }
    }

    /// The number, where this is one.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Node::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// How many arrays and objects nest in this value, itself included.
    pub(super) fn depth(&self) -> usize {
        match self {
            Node::Array(items) => 1 + items.iter().map(Node::depth).max().unwrap_or(0),
            Node::Object(members) => 1 + members.iter().map(|(_, value)| value.depth()).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// What was found, for messages that must not show the value itself.
    #[must_use]
    pub fn found(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "a boolean",
            Node::Number(_) => "a number",
            Node::String(_) => "a string",
            Node::Array(_) => "an array",
            Node::Object(_) => "an object",
            Node::Date(ms) if ms.is_nan() => "an invalid date",
            Node::Date(_) => "a date",
            Node::Foreign(Foreign::Cycle) => "a circular value",
            Node::Foreign(Foreign::Hole) => "a hole",
            Node::Foreign(Foreign::Instance) => "a class instance",
            Node::Foreign(Foreign::Function) => "a function",
            Node::Foreign(Foreign::Symbol) => "a symbol",
            Node::Foreign(Foreign::BigInt) => "a big integer",
            Node::Foreign(Foreign::NonFinite) => "a number that is not finite",
            Node::Foreign(Foreign::Undefined) => "undefined",
            Node::Foreign(Foreign::TooDeep) => "a value nested too deeply",
            Node::Foreign(Foreign::LoneSurrogate) => "text with a lone surrogate",
        }
    }

    /// A copy that borrows nothing.
    #[must_use]
    pub fn into_owned(self) -> Node<'static> {
        match self {
            Node::Null => Node::Null,
            Node::Bool(value) => Node::Bool(value),
            Node::Number(value) => Node::Number(value),
            Node::String(text) => Node::String(Cow::Owned(text.into_owned())),
            Node::Array(items) => Node::Array(items.into_iter().map(Node::into_owned).collect()),
            Node::Object(members) => Node::Object(
                members.into_iter().map(|(key, value)| (Cow::Owned(key.into_owned()), value.into_owned())).collect(),
            ),
            Node::Date(ms) => Node::Date(ms),
            Node::Foreign(kind) => Node::Foreign(kind),
        }
    }

    /// The JSON text: members in order, numbers as ECMAScript writes them, dates as ISO 8601 text, and
    /// `null` for what is no JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write(&mut out);
        out
    }

    /// Appends the JSON text to `out`.
    pub(super) fn write(&self, out: &mut String) {
        match self {
            Node::Null | Node::Foreign(_) => out.push_str("null"),
            Node::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Node::Number(number) => out.push_str(ryu_js::Buffer::new().format(*number)),
            Node::String(text) => write_string(text, out),
            Node::Date(ms) => match format_iso(*ms) {
                Some(text) => write_string(&text, out),
                None => out.push_str("null"),
            },
            Node::Array(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Node::Object(members) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    write_string(key, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }
}

/// What one parse keeps besides the value it builds.
struct Reading<'f> {
    max_depth: usize,
    position: Cell<u32>,
    foreign: Cell<&'f [(u32, Node<'static>)]>,
    referring: Cell<bool>,
}

impl Reading<'_> {
    /// Counts one value and hands out what stands at its position instead of it, if anything.
    fn enter(&self) -> Option<Node<'static>> {
        let position = self.position.get();
        self.position.set(position.wrapping_add(1));
        let ((at, node), rest) = self.foreign.get().split_first()?;
        (*at == position).then(|| {
            self.foreign.set(rest);
            node.clone()
        })
    }
}

/// Reads a value that stands `depth` arrays and objects deep.
struct Seed<'r, 'f> {
    depth: usize,
    reading: &'r Reading<'f>,
}

impl<'r, 'f> Seed<'r, 'f> {
    fn deeper<E: de::Error>(&self) -> Result<Seed<'r, 'f>, E> {
        if self.depth >= self.reading.max_depth {
            return Err(E::custom(format_args!("nested deeper than {}", self.reading.max_depth)));
        }
        Ok(Seed { depth: self.depth + 1, reading: self.reading })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Node<'de>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node<'de>, D::Error> {
        let instead = self.reading.enter();
        let node = deserializer.deserialize_any(self)?;
        Ok(instead.unwrap_or(node))
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Node<'de>, E> {
        Ok(Node::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Node<'de>, E> {
        Ok(Node::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Node<'de>, E> {
        Ok(Node::Number(value as f64))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Node<'de>, E> {
        Ok(Node::Number(value as f64))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Node<'de>, E> {
        Ok(Node::Number(value))
    }
    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Node<'de>, E> {
        Ok(Node::String(Cow::Borrowed(value)))
    }
    fn visit_str<E>(self, value: &str) -> Result<Node<'de>, E> {
        Ok(Node::String(Cow::Owned(value.to_owned())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.deeper()?)? {
            items.push(item);
        }
        Ok(Node::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node<'de>, A::Error> {
        let mut members = Members::default();
        while let Some(key) = map.next_key_seed(Key)? {
            let value = map.next_value_seed(self.deeper()?)?;
            if key == "kind" && value.as_str() == Some(REFERENCE_KIND) {
                self.reading.referring.set(true);
            }
            members.set(key, value);
        }
        Ok(Node::Object(members.list))
    }
}

/// The members of an object that is being read.
#[derive(Default)]
struct Members<'a> {
    list: Vec<(Cow<'a, str>, Node<'a>)>,
    /// Where each key stands, once there are many.
    places: Option<HashMap<String, usize>>,
}

impl<'a> Members<'a> {
    /// From this many members on, keys are looked up in a table instead of one after the other.
    const FEW: usize = 24;

    fn set(&mut self, key: Cow<'a, str>, value: Node<'a>) {
        if self.places.is_none() && self.list.len() >= Self::FEW {
            self.places = Some(self.list.iter().enumerate().map(|(at, (key, _))| (key.to_string(), at)).collect());
        }
        let place = match &mut self.places {
            None => self.list.iter().position(|(known, _)| *known == key),
            Some(places) => {
                let next = self.list.len();
                let place = *places.entry(key.to_string()).or_insert(next);
                (place < next).then_some(place)
            }
        };
        match place.and_then(|at| self.list.get_mut(at)) {
            Some(member) => member.1 = value,
            None => self.list.push((key, value)),
        }
    }
}

/// Reads a key, borrowed where it holds no escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(value.to_owned()))
    }
}
