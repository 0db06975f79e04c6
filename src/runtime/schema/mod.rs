//! The part of JSON Schema that tool arguments are checked against: `true` and `false` as schemas, `type`,
//! `enum`, `const`; `properties`, `required`, `additionalProperties`; `items`, `prefixItems`, `minItems`,
//! `maxItems`; `minLength`, `maxLength`; `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`;
//! `allOf`, `anyOf`, `oneOf`, `not`; `$ref` to a place in the same schema, such as `#/$defs/user`. Other
//! keywords inform the model and are not checked. Where `patternProperties` stands,
//! `additionalProperties` is not checked either, because its keys are those that no pattern fits.

mod check;

use super::codec::ValueError;
use crate::value::Json;
pub use check::check;

const TYPES: [&str; 7] = ["null", "boolean", "number", "integer", "string", "array", "object"];

/// Whether `schema` is one that [`check`] can work with: each keyword it reads has its proper form.
pub fn check_schema(schema: &Json, path: &str) -> Result<(), ValueError> {
    let members = match schema {
        Json::Bool(_) => return Ok(()),
        Json::Object(members) => members,
        other => return Err(ValueError::new(path, format!("expected a JSON schema, found {}", other.type_name()))),
    };
    members.iter().try_for_each(|(keyword, value)| check_keyword(keyword, value, &format!("{path}.{keyword}")))
}

fn check_keyword(keyword: &str, value: &Json, path: &str) -> Result<(), ValueError> {
    let refuse = |what: &str| Err(ValueError::new(path, format!("expected {what}, found {}", value.type_name())));
    match (keyword, value) {
        ("type", Json::String(name)) if TYPES.contains(&name.as_str()) => Ok(()),
        ("type", Json::Array(names)) if names.iter().all(|n| n.as_str().is_some_and(|n| TYPES.contains(&n))) => Ok(()),
        ("type", _) => Err(ValueError::new(path, format!("expected one or more of {}", TYPES.join(", ")))),
        ("properties" | "$defs" | "definitions", Json::Object(members)) => {
            members.iter().try_for_each(|(key, schema)| check_schema(schema, &format!("{path}.{key}")))
        }
        ("properties" | "$defs" | "definitions", _) => refuse("an object of schemas"),
        ("required", Json::Array(keys)) if keys.iter().all(|key| key.as_str().is_some()) => Ok(()),
        ("required", _) => refuse("an array of strings"),
        // An array under `items` is how drafts before 2020-12 write `prefixItems`.
        ("anyOf" | "allOf" | "oneOf" | "prefixItems" | "items", Json::Array(schemas)) => {
            let mut numbered = schemas.iter().enumerate();
            numbered.try_for_each(|(i, schema)| check_schema(schema, &format!("{path}[{i}]")))
        }
        ("anyOf" | "allOf" | "oneOf" | "prefixItems", _) => refuse("an array of schemas"),
        ("items" | "additionalProperties" | "not", schema) => check_schema(schema, path),
        ("enum", Json::Array(_)) => Ok(()),
        ("enum", _) => refuse("an array"),
        ("minimum" | "maximum", Json::Number(_)) => Ok(()),
        ("minimum" | "maximum", _) => refuse("a number"),
        // `true` and `false` are how draft 4 says whether `minimum` itself is allowed; they are not checked.
        ("exclusiveMinimum" | "exclusiveMaximum", Json::Number(_) | Json::Bool(_)) => Ok(()),
        ("exclusiveMinimum" | "exclusiveMaximum", _) => refuse("a number"),
        ("minLength" | "maxLength" | "minItems" | "maxItems", Json::Number(count)) if is_count(*count) => Ok(()),
        ("minLength" | "maxLength" | "minItems" | "maxItems", _) => {
            Err(ValueError::new(path, "expected a whole number that is not negative"))
        }
        ("$ref", Json::String(_)) => Ok(()),
        ("$ref", _) => refuse("a string"),
        _ => Ok(()),
    }
}

fn is_count(number: f64) -> bool {
    number >= 0.0 && number.fract() == 0.0
}
