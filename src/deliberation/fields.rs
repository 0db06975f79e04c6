//! Objects, member by member: the entries and views of a session are written and read by hand over one
//! parsed value, which takes a fraction of the code that a derived visitor for each shape does.

use crate::value::Json;
use crate::value::instant::{format_iso, parse_iso};
use std::rc::Rc;

/// An object of the members that have a value, in this order.
pub(super) fn object<const N: usize>(mut members: [(&str, Option<Json>); N]) -> Json {
    Json::Object(present(&mut members))
}

/// Not generic, so that there is one of it.
fn present(members: &mut [(&str, Option<Json>)]) -> Vec<(String, Json)> {
    members.iter_mut().filter_map(|(name, value)| Some(((*name).to_owned(), value.take()?))).collect()
}

pub(super) fn text(value: &str) -> Json {
    Json::String(value.to_owned())
}

pub(super) fn texts(values: &[Rc<str>]) -> Json {
    Json::Array(values.iter().map(|value| text(value)).collect())
}

pub(super) fn number(value: u64) -> Json {
    Json::Number(value as f64)
}

/// An instant as ISO 8601. Those of a session are within the range of dates.
pub(super) fn instant(epoch_ms: f64) -> Json {
    Json::String(format_iso(epoch_ms).unwrap_or_default())
}

/// The members of an object that is read.
pub(super) struct Fields(Vec<(String, Json)>);

impl Fields {
    /// The members of an object.
    pub(super) fn of(value: Json) -> Result<Fields, String> {
        match value {
            Json::Object(members) => Ok(Fields(members)),
            _ => Err("expected an object".to_owned()),
        }
    }

    fn take(&mut self, name: &str) -> Option<Json> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.remove(at).1)
    }

    /// Refuses what nobody took.
    pub(super) fn end(&self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err("a member that does not belong there".to_owned()) }
    }

    pub(super) fn optional_text(&mut self, name: &str) -> Result<Option<Rc<str>>, String> {
        match self.take(name) {
            None => Ok(None),
            Some(Json::String(value)) => Ok(Some(value.into())),
            Some(_) => Err(expected(name, "text")),
        }
    }

    pub(super) fn text(&mut self, name: &str) -> Result<Rc<str>, String> {
        self.optional_text(name)?.ok_or_else(|| expected(name, "text"))
    }

    pub(super) fn optional_instant(&mut self, name: &str) -> Result<Option<f64>, String> {
        let read = |value: Rc<str>| parse_iso(&value).ok_or_else(|| expected(name, "an instant"));
        self.optional_text(name)?.map(read).transpose()
    }

    pub(super) fn instant(&mut self, name: &str) -> Result<f64, String> {
        self.optional_instant(name)?.ok_or_else(|| expected(name, "an instant"))
    }

    pub(super) fn optional_integer(&mut self, name: &str) -> Result<Option<u64>, String> {
        self.take(name).map(|value| integer(&value).ok_or_else(|| expected(name, "a safe integer from 0"))).transpose()
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<Rc<str>>, String> {
        self.list(name, |item| item.as_str().map(Into::into))
    }

    pub(super) fn integers(&mut self, name: &str) -> Result<Vec<u64>, String> {
        self.list(name, integer)
    }

    /// A list that is left out where it is empty.
    fn list<T>(&mut self, name: &str, read: impl Fn(&Json) -> Option<T>) -> Result<Vec<T>, String> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Json::Array(items)) => {
                items.iter().map(read).collect::<Option<_>>().ok_or_else(|| expected(name, "a list"))
            }
            Some(_) => Err(expected(name, "a list")),
        }
    }
}

fn expected(name: &str, what: &str) -> String {
    format!("{name}: expected {what}")
}

/// The safe integer from 0 that a number is.
pub(super) fn integer(value: &Json) -> Option<u64> {
    const MAX: f64 = 9_007_199_254_740_991.0;
    match value {
        Json::Number(n) if n.fract() == 0.0 && (0.0..=MAX).contains(n) => Some(*n as u64),
        _ => None,
    }
}
