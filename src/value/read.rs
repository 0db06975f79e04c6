//! Reads the engine's own shapes from JSON text, by serde's derived code over one parsed value.
//!
//! Derived straight over a text parser, each shape brings a parser of its own into the module; together
//! they were more than a third of it. Here text is parsed in one place and the shapes only pick members.

use super::json::{Json, JsonError};
use serde::de::value::StringDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use std::fmt::Display;

/// The integers a double holds exactly end here.
const MAX_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Reads a shape from one complete JSON text. Numbers are doubles; where the shape wants an integer they
/// must be one.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, JsonError> {
    T::deserialize(Reader(Json::parse_enclosing(text)?))
}

/// Reads an enum whose objects name their variant in the member `tag`. The enum itself is derived without
/// a tag.
pub fn read_tagged<T: DeserializeOwned>(text: &str, tag: &str) -> Result<T, JsonError> {
    let Json::Object(mut members) = Json::parse_enclosing(text)? else {
        return Err(wrong("an object"));
    };
    let at = members.iter().position(|(key, _)| key == tag).ok_or_else(|| wrong(tag))?;
    let variant = Reader(members.remove(at).1).text()?;
    T::deserialize(Reader(Json::Object(vec![(variant, Json::Object(members))])))
}

fn wrong(expected: &str) -> JsonError {
    JsonError { message: format!("expected {expected}") }
}

impl de::Error for JsonError {
    fn custom<T: Display>(message: T) -> Self {
        JsonError { message: message.to_string() }
    }

    // Says what is missing, not what was found: that may be anything a host has.
    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        JsonError { message: format!("expected {expected}") }
    }

    fn invalid_value(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        JsonError { message: format!("expected {expected}") }
    }

    fn unknown_field(_: &str, _: &'static [&'static str]) -> Self {
        JsonError { message: "a member that does not belong there".to_owned() }
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        JsonError { message: format!("expected one of {}", expected.join(", ")) }
    }
}

struct Reader(Json);

impl Reader {
    fn text(self) -> Result<String, JsonError> {
        match self.0 {
            Json::String(text) => Ok(text),
            _ => Err(wrong("text")),
        }
    }

    fn integer(&self) -> Result<u64, JsonError> {
        match self.0 {
            Json::Number(number) if number.fract() == 0.0 && (0.0..=MAX_INTEGER).contains(&number) => Ok(number as u64),
            _ => Err(wrong("a safe integer from 0")),
        }
    }

    fn members(self) -> Result<Members, JsonError> {
        match self.0 {
            Json::Object(members) => Ok(Members { rest: members.into_iter(), value: None }),
            _ => Err(wrong("an object")),
        }
    }

    fn elements(self) -> Result<Elements, JsonError> {
        match self.0 {
            Json::Array(items) => Ok(Elements(items.into_iter())),
            _ => Err(wrong("an array")),
        }
    }
}

impl<'de> Deserializer<'de> for Reader {
    type Error = JsonError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Json::Null => visitor.visit_unit(),
            Json::Bool(value) => visitor.visit_bool(value),
            Json::Number(value) => visitor.visit_f64(value),
            Json::String(value) => visitor.visit_string(value),
            Json::Array(_) => visitor.visit_seq(self.elements()?),
            Json::Object(_) => visitor.visit_map(self.members()?),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Json::Bool(value) => visitor.visit_bool(value),
            _ => Err(wrong("true or false")),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_u64(self.integer()?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_u64(self.integer()?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Json::Number(value) => visitor.visit_f64(value),
            _ => Err(wrong("a number")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_string(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_string(self.text()?)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_string(self.text()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        match self.0 {
            Json::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_seq(self.elements()?)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_map(self.members()?)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_map(self.members()?)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, JsonError> {
        visitor.visit_enum(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 char bytes byte_buf unit unit_struct tuple tuple_struct
    }
}

/// A variant without content is its name; one with content is an object with its name as only member.
impl<'de> EnumAccess<'de> for Reader {
    type Error = JsonError;
    type Variant = Content;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Content), JsonError> {
        let (name, content) = match self.0 {
            Json::String(name) => (name, None),
            Json::Object(members) => match <[(String, Json); 1]>::try_from(members) {
                Ok([(name, content)]) => (name, Some(content)),
                Err(_) => return Err(wrong("an object with one member")),
            },
            _ => return Err(wrong("a name or an object with one member")),
        };
        Ok((seed.deserialize(name_reader(name))?, Content(content)))
    }
}

struct Content(Option<Json>);

impl<'de> VariantAccess<'de> for Content {
    type Error = JsonError;

    fn unit_variant(self) -> Result<(), JsonError> {
        match self.0 {
            None => Ok(()),
            Some(Json::Object(members)) if members.is_empty() => Ok(()),
            Some(_) => Err(wrong("a name alone")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, JsonError> {
        seed.deserialize(Reader(self.0.ok_or_else(|| wrong("a name with a value"))?))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_seq(Reader(self.0.unwrap_or(Json::Null)).elements()?)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, JsonError> {
        visitor.visit_map(Reader(self.0.unwrap_or(Json::Null)).members()?)
    }
}

struct Members {
    rest: std::vec::IntoIter<(String, Json)>,
    value: Option<Json>,
}

impl Members {
    fn advance(&mut self) -> Option<String> {
        let (key, value) = self.rest.next()?;
        self.value = Some(value);
        Some(key)
    }

    fn take(&mut self) -> Reader {
        Reader(self.value.take().unwrap_or(Json::Null))
    }
}

impl<'de> MapAccess<'de> for Members {
    type Error = JsonError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, JsonError> {
        self.advance().map(|key| seed.deserialize(name_reader(key))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, JsonError> {
        seed.deserialize(self.take())
    }
}

struct Elements(std::vec::IntoIter<Json>);

impl<'de> SeqAccess<'de> for Elements {
    type Error = JsonError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, JsonError> {
        self.0.next().map(|item| seed.deserialize(Reader(item))).transpose()
    }
}

fn name_reader(name: String) -> StringDeserializer<JsonError> {
    name.into_deserializer()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::CanonicalJson;
    use crate::value::json::MAX_DEPTH;
    use serde::Deserialize;
    use std::rc::Rc;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Shape {
        name: Rc<str>,
        count: u64,
        #[serde(default)]
        share: Option<f64>,
        kinds: Vec<Kind>,
        data: CanonicalJson,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
    enum Kind {
        Plain,
        Wide { by_how: u64 },
    }

    #[test]
    fn reads_shapes_of_every_kind() {
        let text =
            r#"{"name":"é","count":9007199254740991,"kinds":["plain",{"wide":{"byHow":2}}],"data":[{"b":1.50}]}"#;
        let data = CanonicalJson::parse(r#"[{"b":1.5}]"#).unwrap();
        let kinds = vec![Kind::Plain, Kind::Wide { by_how: 2 }];
        let shape = Shape { name: "é".into(), count: 9_007_199_254_740_991, share: None, kinds, data };
        assert_eq!(read::<Shape>(text).unwrap(), shape);
        assert_eq!(read_tagged::<Kind>(r#"{"byHow":2,"kind":"wide"}"#, "kind").unwrap(), Kind::Wide { by_how: 2 });
        assert_eq!(read_tagged::<Kind>(r#"{"kind":"plain"}"#, "kind").unwrap(), Kind::Plain);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let good = r#"{"name":"a","count":1,"kinds":[],"data":null}"#;
        assert!(read::<Shape>(good).is_ok());
        for (from, to) in [
            ("1", "-1"),
            ("1", "1.5"),
            ("1", "9007199254740992"),
            ("1", "\"1\""),
            ("\"a\"", "1"),
            ("[]", "{}"),
            ("[]", "[\"odd\"]"),
            ("[]", "[{\"plain\":1}]"),
            ("[]", "[{\"wide\":{\"byHow\":1},\"plain\":1}]"),
            ("\"count\":1", "\"count\":1,\"count\":1"),
            ("\"count\":1,", ""),
            ("null}", "null,\"more\":1}"),
            ("null}", "null}}"),
        ] {
            let bad = good.replace(from, to);
            assert!(read::<Shape>(&bad).is_err(), "{bad}");
        }
        for bad in ["[]", "{}", r#"{"kind":1}"#, r#"{"kind":"plain","more":1}"#, r#"{"kind":"wide"}"#] {
            assert!(read_tagged::<Kind>(bad, "kind").is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_of_the_greatest_depth_can_stand_inside_a_shape() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let shape = |depth| format!(r#"{{"name":"a","count":1,"kinds":[],"data":{}}}"#, nested(depth));
        assert!(read::<Shape>(&shape(MAX_DEPTH)).is_ok());
        assert!(read::<Shape>(&shape(MAX_DEPTH + 20)).is_err());
    }
}
