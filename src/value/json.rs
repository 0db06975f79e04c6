//! JSON as the engine understands it: every number a double, objects in input order, text canonical
//! by RFC 8785. Parsing is strict: bounded depth, no duplicate keys, no lone surrogates.

use super::hash::FixedState;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::HashSet;
use std::fmt;
use std::rc::Rc;

/// How deep arrays and objects of one value may nest.
pub const MAX_DEPTH: usize = 100;
/// How deep a value may nest that holds such values within the engine's own shapes.
pub(super) const MAX_ENCLOSING: usize = MAX_DEPTH + 20;

/// One JSON value. Objects keep the order they were read in; keys are unique.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A finite double (`NaN` and infinities can only come from a host and never pass a check).
    Number(f64),
    /// Well-formed Unicode.
    String(String),
    /// Elements in order.
    Array(Vec<Json>),
    /// Members in input order.
    Object(Vec<(String, Json)>),
}

/// Why a text is not a JSON value the engine accepts. The message names positions, never contents.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct JsonError {
    /// What is wrong and where.
    pub message: String,
}

impl Json {
    /// Parses one complete JSON text.
    pub fn parse(text: &str) -> Result<Json, JsonError> {
        Json::parse_within(text, MAX_DEPTH)
    }

    /// Parses one complete JSON text that may hold values of full depth within the engine's own shapes.
    pub fn parse_enclosing(text: &str) -> Result<Json, JsonError> {
        Json::parse_within(text, MAX_ENCLOSING)
    }

    fn parse_within(text: &str, depth: usize) -> Result<Json, JsonError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let value = Depth(depth).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
        value.map_err(|error| JsonError { message: error.to_string() })
    }

    /// The RFC 8785 text of this value.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        write_canonical(self, &mut out);
        out
    }

    /// The member under `key`, where this is an object that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The text, where this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(text) => Some(text),
            _ => None,
        }
    }

    /// What kind of value this is, for messages that must not show the value itself.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }
}

fn write_canonical(value: &Json, out: &mut String) {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Number(number) => out.push_str(ryu_js::Buffer::new().format(*number)),
        Json::String(text) => write_string(text, out),
        Json::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Json::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (index, (key, item)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(key, out);
                out.push(':');
                write_canonical(item, out);
            }
            out.push('}');
        }
    }
}

/// A JSON string with the escapes of RFC 8785, which are those of `JSON.stringify`.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    loop {
        // What stops the scan is an ASCII character, so this never cuts a longer one in two.
        let (plain, tail) = rest.split_at(plain_len(rest.as_bytes()));
        out.push_str(plain);
        let mut chars = tail.chars();
        match chars.next() {
            Some('"') => out.push_str("\\\""),
            Some('\\') => out.push_str("\\\\"),
            Some('\u{8}') => out.push_str("\\b"),
            Some('\t') => out.push_str("\\t"),
            Some('\n') => out.push_str("\\n"),
            Some('\u{c}') => out.push_str("\\f"),
            Some('\r') => out.push_str("\\r"),
            Some(other) => out.push_str(&format!("\\u{:04x}", other as u32)),
            None => break,
        }
        rest = chars.as_str();
    }
    out.push('"');
}

/// How many bytes stand before the first that must be escaped: a control character, `"` or `\`.
pub(super) fn plain_len(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = ONES << 7;
    // Eight bytes at a time: the high bit of a byte is set where that byte is below the limit.
    let below = |eight: u64, limit: u64| eight.wrapping_sub(ONES * limit) & !eight & HIGH;
    let has_special = |chunk: &[u8; 8]| {
        let eight = u64::from_ne_bytes(*chunk);
        let is = |byte: u8| below(eight ^ (ONES * u64::from(byte)), 1);
        below(eight, u64::from(b' ')) | is(b'"') | is(b'\\') != 0
    };
    let (chunks, _) = bytes.as_chunks::<8>();
    let start = 8 * chunks.iter().take_while(|chunk| !has_special(chunk)).count();
    let rest = bytes.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|byte| **byte >= b' ' && **byte != b'"' && **byte != b'\\').count()
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Json::Null => serializer.serialize_unit(),
            Json::Bool(value) => serializer.serialize_bool(*value),
            Json::Number(value) => serializer.serialize_f64(*value),
            Json::String(value) => serializer.serialize_str(value),
            Json::Array(items) => serializer.collect_seq(items),
            Json::Object(members) => serializer.collect_map(members.iter().map(|(k, v)| (k, v))),
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Depth(MAX_ENCLOSING).deserialize(deserializer)
    }
}

/// Reads a value in which so many arrays and objects may stand inside each other.
#[derive(Clone, Copy)]
struct Depth(usize);

impl Depth {
    fn deeper<E: de::Error>(self) -> Result<Depth, E> {
        match self.0.checked_sub(1) {
            Some(left) => Ok(Depth(left)),
            None => Err(E::custom("nested too deep")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Depth {
    type Value = Json;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Depth {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }
    fn visit_none<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Number(value as f64))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Number(value))
    }
    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::String(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::String(value))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let inner = self.deeper()?;
        let mut members: Vec<(String, Json)> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            members.push((key, map.next_value_seed(inner)?));
        }
        if has_duplicate_keys(&members) {
            return Err(de::Error::custom("duplicate key"));
        }
        Ok(Json::Object(members))
    }
}

fn has_duplicate_keys(members: &[(String, Json)]) -> bool {
    const FEW: usize = 16;
    if members.len() <= FEW {
        return members.iter().enumerate().any(|(at, (key, _))| members.iter().take(at).any(|(other, _)| other == key));
    }
    let mut seen = HashSet::with_capacity_and_hasher(members.len(), FixedState::default());
    members.iter().any(|(key, _)| !seen.insert(key.as_str()))
}

/// A JSON value kept as its canonical text: what the engine carries for a host without looking inside.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CanonicalJson(Rc<str>);

impl CanonicalJson {
    /// The canonical text of `value`.
    #[must_use]
    pub fn of(value: &Json) -> Self {
        CanonicalJson(value.canonical().into())
    }

    /// Takes a text that must already be canonical.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        if Json::parse_enclosing(text)?.canonical() == text {
            return Ok(CanonicalJson(text.into()));
        }
        Err(JsonError { message: "not in canonical form".to_owned() })
    }

    /// Takes a text that the engine wrote for such a value.
    pub(super) fn written(text: &str) -> Self {
        CanonicalJson(text.into())
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name under which canonical JSON is serialised, for [`super::write`] to know it.
pub(super) const CANONICAL: &str = "CanonicalJson";

impl Serialize for CanonicalJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_newtype_struct(CANONICAL, &Verbatim(&self.0))
    }
}

/// Canonical text as itself where the serialiser takes it, else as the value it is the text of.
struct Verbatim<'a>(&'a str);

impl Serialize for Verbatim<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_str(self.0);
        }
        Json::parse_enclosing(self.0).map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for CanonicalJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(CanonicalJson::of(&Json::deserialize(deserializer)?))
    }
}

/// Reads an optional member that may hold `null`: present, it is a value, whatever that value is. For
/// `#[serde(default, deserialize_with = ...)]`.
pub fn present_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CanonicalJson>, D::Error> {
    CanonicalJson::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn canonical_numbers_follow_ecmascript() {
        for (text, canonical) in [
            ("1.0", "1"),
            ("1e21", "1e+21"),
            ("-0", "0"),
            ("1E-7", "1e-7"),
            ("123456789012345680000", "123456789012345680000"),
        ] {
            assert_eq!(Json::parse(text).unwrap().canonical(), canonical);
        }
    }

    #[test]
    fn canonical_keys_sort_by_utf16_units() {
        let value = Json::parse("{\"\u{fb33}\":1,\"\u{1f600}\":2,\"b\":3,\"a\":4}").unwrap();
        assert_eq!(value.canonical(), "{\"a\":4,\"b\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}");
    }

    #[test]
    fn refuses_duplicate_keys_lone_surrogates_and_depth() {
        assert!(Json::parse("{\"a\":1,\"a\":1}").is_err());
        assert!(Json::parse("\"\\ud800\"").is_err());
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(Json::parse(&nested(MAX_DEPTH)).is_ok());
        assert!(Json::parse(&nested(MAX_DEPTH + 1)).is_err());
        assert!(Json::parse(&nested(10_000)).is_err());
        let objects = |depth: usize| format!("{}{{}}{}", "{\"a\":".repeat(depth - 1), "}".repeat(depth - 1));
        assert!(Json::parse(&objects(MAX_DEPTH)).is_ok());
        assert!(Json::parse(&objects(MAX_DEPTH + 1)).is_err(), "an empty object is a level too");
    }

    /// Values of every kind, nested a few levels.
    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Json::Number),
            any::<String>().prop_map(Json::String),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Json::Array),
                prop::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|m| Json::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn canonical_text_is_a_fixed_point(value in any_json()) {
            let text = value.canonical();
            prop_assert_eq!(Json::parse(&text).unwrap().canonical(), text.clone());
            prop_assert!(CanonicalJson::parse(&text).is_ok());
        }
    }
}
