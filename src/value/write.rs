//! Writes the engine's own shapes as JSON text, straight into a string.
//!
//! The text is that of `JSON.stringify` for the same value: members in the order of the shape, no spaces,
//! the escapes of RFC 8785, numbers as ECMAScript formats them.

use super::json::{CANONICAL, JsonError, write_string};
use serde::ser::{
    self, Impossible, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, Serializer,
};
use std::fmt::{Display, Write};

/// The JSON text of a shape. Refused are maps whose keys are not text, and bytes.
pub fn write<T: Serialize + ?Sized>(value: &T) -> Result<String, JsonError> {
    let mut text = String::with_capacity(256);
    value.serialize(Writer { text: &mut text, verbatim: false })?;
    Ok(text)
}

impl ser::Error for JsonError {
    fn custom<T: Display>(message: T) -> Self {
        JsonError { message: message.to_string() }
    }
}

struct Writer<'a> {
    text: &'a mut String,
    /// The next string is JSON already.
    verbatim: bool,
}

impl<'a> Writer<'a> {
    fn raw(self, text: &str) -> Result<(), JsonError> {
        self.text.push_str(text);
        Ok(())
    }

    fn number(self, number: impl Display) -> Result<(), JsonError> {
        write!(self.text, "{number}").map_err(ser::Error::custom)
    }

    fn list(self) -> List<'a> {
        self.text.push('[');
        List { text: self.text, is_first: true, end: "]" }
    }

    fn object(self) -> List<'a> {
        self.text.push('{');
        List { text: self.text, is_first: true, end: "}" }
    }

    /// Opens the object of a variant, whose name needs no escapes.
    fn variant(&mut self, name: &'static str) {
        self.text.push_str("{\"");
        self.text.push_str(name);
        self.text.push_str("\":");
    }
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = JsonError;
    type SerializeSeq = List<'a>;
    type SerializeTuple = List<'a>;
    type SerializeTupleStruct = List<'a>;
    type SerializeTupleVariant = Impossible<(), JsonError>;
    type SerializeMap = List<'a>;
    type SerializeStruct = List<'a>;
    type SerializeStructVariant = List<'a>;

    /// `false` where a value that is JSON text already may give it as it is.
    fn is_human_readable(&self) -> bool {
        !self.verbatim
    }

    fn serialize_bool(self, value: bool) -> Result<(), JsonError> {
        self.raw(if value { "true" } else { "false" })
    }
    fn serialize_i8(self, value: i8) -> Result<(), JsonError> {
        self.serialize_i64(value.into())
    }
    fn serialize_i16(self, value: i16) -> Result<(), JsonError> {
        self.serialize_i64(value.into())
    }
    fn serialize_i32(self, value: i32) -> Result<(), JsonError> {
        self.serialize_i64(value.into())
    }
    fn serialize_i64(self, value: i64) -> Result<(), JsonError> {
        self.number(value)
    }
    fn serialize_u8(self, value: u8) -> Result<(), JsonError> {
        self.serialize_u64(value.into())
    }
    fn serialize_u16(self, value: u16) -> Result<(), JsonError> {
        self.serialize_u64(value.into())
    }
    fn serialize_u32(self, value: u32) -> Result<(), JsonError> {
        self.serialize_u64(value.into())
    }
    fn serialize_u64(self, value: u64) -> Result<(), JsonError> {
        self.number(value)
    }
    fn serialize_f32(self, value: f32) -> Result<(), JsonError> {
        self.serialize_f64(f64::from(value))
    }
    fn serialize_f64(self, value: f64) -> Result<(), JsonError> {
        if !value.is_finite() {
            return self.serialize_unit();
        }
        self.raw(ryu_js::Buffer::new().format_finite(value))
    }
    fn serialize_char(self, value: char) -> Result<(), JsonError> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, value: &str) -> Result<(), JsonError> {
        if self.verbatim {
            return self.raw(value);
        }
        write_string(value, self.text);
        Ok(())
    }
    fn serialize_bytes(self, _: &[u8]) -> Result<(), JsonError> {
        Err(ser::Error::custom("bytes have no JSON form"))
    }
    fn serialize_none(self) -> Result<(), JsonError> {
        self.serialize_unit()
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), JsonError> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), JsonError> {
        self.raw("null")
    }
    fn serialize_unit_struct(self, _: &'static str) -> Result<(), JsonError> {
        self.serialize_unit()
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), JsonError> {
        self.serialize_str(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<(), JsonError> {
        value.serialize(Writer { verbatim: name == CANONICAL, ..self })
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), JsonError> {
        self.variant(variant);
        value.serialize(Writer { text: self.text, verbatim: false })?;
        self.raw("}")
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<List<'a>, JsonError> {
        Ok(self.list())
    }
    fn serialize_tuple(self, _: usize) -> Result<List<'a>, JsonError> {
        Ok(self.list())
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<List<'a>, JsonError> {
        Ok(self.list())
    }
    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self::SerializeTupleVariant, JsonError> {
        Err(ser::Error::custom("a variant with several unnamed parts has no form here"))
    }
    fn serialize_map(self, _: Option<usize>) -> Result<List<'a>, JsonError> {
        Ok(self.object())
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<List<'a>, JsonError> {
        Ok(self.object())
    }
    fn serialize_struct_variant(
        mut self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<List<'a>, JsonError> {
        self.variant(variant);
        Ok(List { end: "}}", ..self.object() })
    }
}

/// An array or object that is being written.
struct List<'a> {
    text: &'a mut String,
    is_first: bool,
    end: &'static str,
}

impl List<'_> {
    /// Begins the next element and gives the place for it.
    fn next(&mut self) -> Writer<'_> {
        if !self.is_first {
            self.text.push(',');
        }
        self.is_first = false;
        Writer { text: self.text, verbatim: false }
    }

    /// A member under a key that needs no escapes.
    fn field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), JsonError> {
        self.text.push_str(if self.is_first { "\"" } else { ",\"" });
        self.is_first = false;
        self.text.push_str(key);
        self.text.push_str("\":");
        value.serialize(Writer { text: self.text, verbatim: false })
    }

    fn close(self) -> Result<(), JsonError> {
        self.text.push_str(self.end);
        Ok(())
    }
}

impl SerializeSeq for List<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        value.serialize(self.next())
    }
    fn end(self) -> Result<(), JsonError> {
        self.close()
    }
}

impl SerializeTuple for List<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        value.serialize(self.next())
    }
    fn end(self) -> Result<(), JsonError> {
        self.close()
    }
}

impl SerializeTupleStruct for List<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        value.serialize(self.next())
    }
    fn end(self) -> Result<(), JsonError> {
        self.close()
    }
}

impl SerializeMap for List<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), JsonError> {
        let writer = self.next();
        let at = writer.text.len();
        key.serialize(writer)?;
        if !self.text.get(at..).is_some_and(|key| key.starts_with('"')) {
            return Err(ser::Error::custom("a key that is not text"));
        }
        self.text.push(':');
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), JsonError> {
        value.serialize(Writer { text: self.text, verbatim: false })
    }
    fn end(self) -> Result<(), JsonError> {
        self.close()
    }
}

impl SerializeStruct for List<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), JsonError> {
        self.field(key, value)
    }
    fn end(self) -> Result<(), JsonError> {
        self.close()
    }
}

impl SerializeStructVariant for List<'_> {
    type Ok = ();
    type Error = JsonError;
    fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Result<(), JsonError> {
        self.field(key, value)
    }
    fn end(self) -> Result<(), JsonError> {
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::CanonicalJson;
    use proptest::prelude::*;
    use serde::Serialize;
    use std::collections::BTreeMap;

    #[derive(Serialize)]
    #[serde(rename_all = "kebab-case", rename_all_fields = "camelCase")]
    enum Shape {
        Plain,
        Wrapped(Option<bool>),
        Wide { by_how: u64, data: CanonicalJson },
        Flat(Flat),
    }

    #[derive(Serialize)]
    struct Flat {
        #[serde(skip_serializing_if = "Option::is_none")]
        left_out: Option<u8>,
        pair: (i8, char),
        #[serde(flatten)]
        kind: Tagged,
    }

    #[derive(Serialize)]
    #[serde(tag = "kind", rename_all = "kebab-case")]
    enum Tagged {
        Empty,
        Full { texts: Vec<String>, counts: BTreeMap<String, u32> },
        Inner(Inner),
    }

    #[derive(Serialize)]
    struct Inner {
        nothing: (),
    }

    proptest! {
        #[test]
        fn writes_the_text_that_serde_json_writes(texts: Vec<String>, counts: BTreeMap<String, u32>, by_how: u64) {
            let data = CanonicalJson::parse("{\"a\":[1.5,\"é\\n\",null]}").unwrap();
            let flat = |kind| Shape::Flat(Flat { left_out: None, pair: (-1, '"'), kind });
            let shapes = [
                Shape::Plain,
                Shape::Wrapped(None),
                Shape::Wrapped(Some(true)),
                Shape::Wide { by_how, data },
                flat(Tagged::Empty),
                flat(Tagged::Full { texts, counts }),
                flat(Tagged::Inner(Inner { nothing: () })),
            ];
            prop_assert_eq!(write(&shapes).unwrap(), serde_json::to_string(&shapes).unwrap());
        }
    }

    #[test]
    fn numbers_are_those_of_ecmascript() {
        let numbers = [1.0, -0.0, 0.1, 1e21, 1e-7, f64::NAN, f64::INFINITY];
        assert_eq!(write(&numbers).unwrap(), "[1,0,0.1,1e+21,1e-7,null,null]");
    }

    #[test]
    fn refuses_what_has_no_json_form() {
        assert!(write(&BTreeMap::from([(1, 1)])).is_err());
        assert!(write(&BTreeMap::from([("a", 1)])).is_ok());
    }
}
