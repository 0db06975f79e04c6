//! Reads a host's plain data member by member; every refusal names the path, the rule and the bound,
//! never the value.

use super::error::{Code, RoundtableError};
use crate::record::fold::MAX_SAFE_INTEGER;
use crate::value::Json;
pub use crate::value::bounds::{MAX_CONTENT, MAX_ID, MAX_TEXT};
use crate::value::text::utf16_len;
use std::rc::Rc;

/// An object and where it stands.
pub struct Fields<'a> {
    value: &'a Json,
    path: String,
}

impl<'a> Fields<'a> {
    /// An object at a path.
    pub fn of(value: &'a Json, path: impl Into<String>) -> Result<Self, RoundtableError> {
        let path = path.into();
        match value {
            Json::Object(_) => Ok(Fields { value, path }),
            other => Err(invalid(format!("{path} must be an object, not {}", other.type_name()))),
        }
    }

    /// The object itself.
    pub fn value(&self) -> &'a Json {
        self.value
    }

    /// Where it stands.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Refuses members of any other name.
    pub fn check_names(&self, names: &[&str]) -> Result<(), RoundtableError> {
        let Json::Object(members) = self.value else { return Ok(()) };
        match members.iter().find(|(name, _)| !names.contains(&name.as_str())) {
            Some((name, _)) => Err(invalid(format!("{}.{name} is none of {}", self.path, names.join(", ")))),
            None => Ok(()),
        }
    }

    /// A member, where it is present.
    pub fn get(&self, key: &str) -> Option<&'a Json> {
        self.value.get(key)
    }

    /// A text of so many UTF-16 units.
    pub fn text(&self, key: &str, min: usize, max: usize) -> Result<Rc<str>, RoundtableError> {
        self.optional_text(key, min, max)?.ok_or_else(|| self.missing(key, "a string"))
    }

    /// A text, where it is present.
    pub fn optional_text(&self, key: &str, min: usize, max: usize) -> Result<Option<Rc<str>>, RoundtableError> {
        self.get(key).map(|value| checked_text(value, &self.at(key), min, max)).transpose()
    }

    /// A list of texts, where it is present.
    pub fn optional_texts(&self, key: &str, most: usize, max: usize) -> Result<Option<Vec<Rc<str>>>, RoundtableError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let items = checked_list(value, &self.at(key), 0, most)?;
        let texts =
            items.iter().enumerate().map(|(i, item)| checked_text(item, &format!("{}[{i}]", self.at(key)), 1, max));
        texts.collect::<Result<_, _>>().map(Some)
    }

    /// A positive safe integer, where it is present.
    pub fn optional_count(&self, key: &str) -> Result<Option<u64>, RoundtableError> {
        let rule = || invalid(format!("{} must be an integer from 1 to {MAX_SAFE_INTEGER}", self.at(key)));
        match self.get(key) {
            None => Ok(None),
            Some(Json::Number(n)) if n.fract() == 0.0 && *n >= 1.0 && *n <= MAX_SAFE_INTEGER as f64 => {
                Ok(Some(*n as u64))
            }
            Some(_) => Err(rule()),
        }
    }

    /// `true` or `false`, where it is present.
    pub fn optional_bool(&self, key: &str) -> Result<Option<bool>, RoundtableError> {
        match self.get(key) {
            None => Ok(None),
            Some(Json::Bool(value)) => Ok(Some(*value)),
            Some(other) => Err(invalid(format!("{} must be a boolean, not {}", self.at(key), other.type_name()))),
        }
    }

    /// One of several words.
    pub fn choice(&self, key: &str, words: &[&'static str]) -> Result<&'static str, RoundtableError> {
        self.optional_choice(key, words)?.ok_or_else(|| self.missing(key, &words.join(" or ")))
    }

    /// One of several words, where it is present.
    pub fn optional_choice(&self, key: &str, words: &[&'static str]) -> Result<Option<&'static str>, RoundtableError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let word = value.as_str().and_then(|text| words.iter().find(|word| **word == text));
        word.copied().map(Some).ok_or_else(|| invalid(format!("{} must be {}", self.at(key), words.join(" or "))))
    }

    /// An object.
    pub fn object(&self, key: &str) -> Result<Fields<'a>, RoundtableError> {
        self.optional_object(key)?.ok_or_else(|| self.missing(key, "an object"))
    }

    /// An object, where it is present.
    pub fn optional_object(&self, key: &str) -> Result<Option<Fields<'a>>, RoundtableError> {
        self.get(key).map(|value| Fields::of(value, self.at(key))).transpose()
    }

    /// A list of objects.
    pub fn list(&self, key: &str, min: usize, max: usize) -> Result<Vec<Fields<'a>>, RoundtableError> {
        let value = self.get(key).ok_or_else(|| self.missing(key, "a list"))?;
        let items = checked_list(value, &self.at(key), min, max)?;
        items.iter().enumerate().map(|(i, item)| Fields::of(item, format!("{}[{i}]", self.at(key)))).collect()
    }

    fn at(&self, key: &str) -> String {
        if self.path == "options" { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn missing(&self, key: &str, what: &str) -> RoundtableError {
        invalid(format!("{} is required: {what}", self.at(key)))
    }
}

fn checked_text(value: &Json, path: &str, min: usize, max: usize) -> Result<Rc<str>, RoundtableError> {
    let Json::String(text) = value else {
        return Err(invalid(format!("{path} must be a string, not {}", value.type_name())));
    };
    let len = utf16_len(text);
    if len < min || len > max {
        return Err(invalid(format!("{path} must have {min} to {max} UTF-16 units, it has {len}")));
    }
    Ok(text.as_str().into())
}

fn checked_list<'a>(value: &'a Json, path: &str, min: usize, max: usize) -> Result<&'a [Json], RoundtableError> {
    let Json::Array(items) = value else {
        return Err(invalid(format!("{path} must be a list, not {}", value.type_name())));
    };
    if items.len() < min || items.len() > max {
        return Err(invalid(format!("{path} must have {min} to {max} elements, it has {}", items.len())));
    }
    Ok(items)
}

fn invalid(message: String) -> RoundtableError {
    RoundtableError::new(Code::InvalidConfig, message)
}
