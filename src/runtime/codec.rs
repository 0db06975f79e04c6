//! Strict coding of private values: JSON plus dates.
//!
//! A date is written `{"$date": ISO-8601}`. A plain object whose one key is `$date` or `$escaped` is
//! wrapped as `{"$escaped": object}`, so no data can look like a tag: what was plain stays plain.

use crate::value::json;
use crate::value::{Json, instant};

const DATE: &str = "$date";
const ESCAPED: &str = "$escaped";
/// How deep the coded form may nest: a record, a message in it, and what that holds.
const MAX_DEPTH: usize = json::MAX_DEPTH + 2;

/// A value of a runtime's private history.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A double.
    Number(f64),
    /// Well-formed Unicode.
    String(String),
    /// Elements in order.
    Array(Vec<Value>),
    /// Members in order; keys are unique.
    Object(Vec<(String, Value)>),
    /// An instant in epoch milliseconds.
    Date(f64),
}

/// What is wrong with a value, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct ValueError {
    /// Where, as `messages[3].metadata.size`.
    pub path: String,
    /// What, without showing the value.
    pub message: String,
}

impl ValueError {
    /// An error at `path`.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        ValueError { path: path.into(), message: message.into() }
    }
}

impl Value {
    /// The member under `key`, where this is an object that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The value as plain JSON; none where it holds a date.
    #[must_use]
    pub fn to_plain(&self) -> Option<Json> {
        Some(match self {
            Value::Null => Json::Null,
            Value::Bool(flag) => Json::Bool(*flag),
            Value::Number(number) => Json::Number(*number),
            Value::String(text) => Json::String(text.clone()),
            Value::Array(items) => Json::Array(items.iter().map(Value::to_plain).collect::<Option<_>>()?),
            Value::Object(members) => {
                let plain = members.iter().map(|(key, value)| Some((key.clone(), value.to_plain()?)));
                Json::Object(plain.collect::<Option<_>>()?)
            }
            Value::Date(_) => return None,
        })
    }

    /// What kind of value this is, for messages.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            Value::Date(_) => "date",
        }
    }
}

/// Writes `value` as JSON. Refused: numbers that are not finite, dates that are none, nesting deeper
/// than a message or a record may, in the coded form. `path` is where the value stands.
pub fn encode(value: &Value, path: &str) -> Result<Json, ValueError> {
    encode_at(value, path, 0)
}

fn encode_at(value: &Value, path: &str, depth: usize) -> Result<Json, ValueError> {
    let is_nested = matches!(value, Value::Array(_) | Value::Object(_) | Value::Date(_));
    if is_nested && depth >= MAX_DEPTH {
        return Err(ValueError::new(path, format!("nested deeper than {MAX_DEPTH}")));
    }
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(flag) => Json::Bool(*flag),
        Value::Number(number) if number.is_finite() => Json::Number(*number),
        Value::Number(_) => return Err(ValueError::new(path, "a number that is not finite")),
        Value::String(text) => Json::String(text.clone()),
        Value::Date(ms) => {
            let iso = instant::format_iso(*ms).ok_or_else(|| ValueError::new(path, "an invalid date"))?;
            Json::Object(vec![(DATE.to_owned(), Json::String(iso))])
        }
        Value::Array(items) => {
            let coded = items.iter().enumerate().map(|(i, item)| encode_at(item, &format!("{path}[{i}]"), depth + 1));
            Json::Array(coded.collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let looks_tagged = matches!(members.as_slice(), [(key, _)] if key == DATE || key == ESCAPED);
            let inner = depth + usize::from(looks_tagged) + 1;
            if inner > MAX_DEPTH {
                return Err(ValueError::new(path, format!("nested deeper than {MAX_DEPTH}")));
            }
            let coded = members.iter().map(|(k, v)| Ok((k.clone(), encode_at(v, &format!("{path}.{k}"), inner)?)));
            let object = Json::Object(coded.collect::<Result<_, _>>()?);
            if looks_tagged { Json::Object(vec![(ESCAPED.to_owned(), object)]) } else { object }
        }
    })
}

/// Reads what [`encode`] wrote and nothing else: a date must be the text `toISOString` gives, an
/// escape must hold an object that needed it.
pub fn decode(coded: &Json, path: &str) -> Result<Value, ValueError> {
    Ok(match coded {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(*flag),
        Json::Number(number) => Value::Number(*number),
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => {
            let values = items.iter().enumerate().map(|(i, item)| decode(item, &format!("{path}[{i}]")));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        Json::Object(members) => match members.as_slice() {
            [(key, tagged)] if key == DATE => Value::Date(decode_date(tagged, path)?),
            [(key, tagged)] if key == ESCAPED => decode_escaped(tagged, path)?,
            _ => decode_members(members, path)?,
        },
    })
}

fn decode_date(tagged: &Json, path: &str) -> Result<f64, ValueError> {
    let instant = tagged.as_str().and_then(|text| {
        let ms = instant::parse_iso(text)?;
        (instant::format_iso(ms).as_deref() == Some(text)).then_some(ms)
    });
    instant.ok_or_else(|| ValueError::new(path, "not a date as written by toISOString"))
}

fn decode_escaped(tagged: &Json, path: &str) -> Result<Value, ValueError> {
    match tagged {
        Json::Object(members) if matches!(members.as_slice(), [(key, _)] if key == DATE || key == ESCAPED) => {
            decode_members(members, path)
        }
        _ => Err(ValueError::new(path, "an escape that holds nothing to escape")),
    }
}

fn decode_members(members: &[(String, Json)], path: &str) -> Result<Value, ValueError> {
    let values = members.iter().map(|(k, v)| Ok((k.clone(), decode(v, &format!("{path}.{k}"))?)));
    Ok(Value::Object(values.collect::<Result<_, _>>()?))
}
