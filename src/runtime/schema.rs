//! The part of JSON Schema that tool arguments are checked against: `type`, `properties`, `required`,
//! `items`, `enum`, `anyOf`, `additionalProperties`, `minimum`, `maximum`, and `true`/`false` as a
//! schema. Other keywords inform the model and are not checked.

use super::codec::ValueError;
use crate::value::Json;

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
        ("properties", Json::Object(members)) => {
            members.iter().try_for_each(|(key, schema)| check_schema(schema, &format!("{path}.{key}")))
        }
        ("properties", _) => refuse("an object of schemas"),
        ("required", Json::Array(keys)) if keys.iter().all(|key| key.as_str().is_some()) => Ok(()),
        ("required", _) => refuse("an array of strings"),
        ("items" | "additionalProperties", schema) => check_schema(schema, path),
        ("anyOf", Json::Array(schemas)) => {
            let mut numbered = schemas.iter().enumerate();
            numbered.try_for_each(|(i, schema)| check_schema(schema, &format!("{path}[{i}]")))
        }
        ("anyOf", _) => refuse("an array of schemas"),
        ("enum", Json::Array(_)) => Ok(()),
        ("enum", _) => refuse("an array"),
        ("minimum" | "maximum", Json::Number(_)) => Ok(()),
        ("minimum" | "maximum", _) => refuse("a number"),
        _ => Ok(()),
    }
}

/// Checks `value` against a schema that [`check_schema`] accepted. The first fault found is named
/// with its path, so that a model can mend its call.
pub fn check(value: &Json, schema: &Json, path: &str) -> Result<(), ValueError> {
    match schema {
        Json::Bool(false) => return Err(ValueError::new(path, "not allowed")),
        Json::Object(_) => {}
        _ => return Ok(()),
    }
    check_type(value, schema, path)?;
    check_enum(value, schema, path)?;
    match value {
        Json::Object(members) => check_members(members, schema, path)?,
        Json::Array(items) => check_items(items, schema, path)?,
        Json::Number(number) => check_range(*number, schema, path)?,
        _ => {}
    }
    check_any_of(value, schema, path)
}

fn check_type(value: &Json, schema: &Json, path: &str) -> Result<(), ValueError> {
    let names: Vec<&str> = match schema.get("type") {
        Some(Json::String(name)) => vec![name],
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
        _ => return Ok(()),
    };
    if names.iter().any(|name| has_type(value, name)) {
        return Ok(());
    }
    Err(ValueError::new(path, format!("expected {}, found {}", names.join(" or "), value.type_name())))
}

fn has_type(value: &Json, name: &str) -> bool {
    match value {
        Json::Number(number) if name == "integer" => number.fract() == 0.0,
        other => other.type_name() == name,
    }
}

fn check_enum(value: &Json, schema: &Json, path: &str) -> Result<(), ValueError> {
    let Some(Json::Array(allowed)) = schema.get("enum") else {
        return Ok(());
    };
    let text = value.canonical();
    if allowed.iter().any(|one| one.canonical() == text) {
        return Ok(());
    }
    Err(ValueError::new(path, format!("expected one of {}", Json::Array(allowed.clone()).canonical())))
}

fn check_members(members: &[(String, Json)], schema: &Json, path: &str) -> Result<(), ValueError> {
    if let Some(Json::Array(required)) = schema.get("required") {
        let missing = required.iter().filter_map(Json::as_str).find(|key| members.iter().all(|(k, _)| k != key));
        if let Some(key) = missing {
            return Err(ValueError::new(format!("{path}.{key}"), "missing"));
        }
    }
    for (key, member) in members {
        let at = format!("{path}.{key}");
        match (schema.get("properties").and_then(|p| p.get(key)), schema.get("additionalProperties")) {
            (Some(property), _) => check(member, property, &at)?,
            (None, Some(additional)) => check(member, additional, &at)?,
            (None, None) => {}
        }
    }
    Ok(())
}

fn check_items(items: &[Json], schema: &Json, path: &str) -> Result<(), ValueError> {
    let Some(each) = schema.get("items") else {
        return Ok(());
    };
    items.iter().enumerate().try_for_each(|(i, item)| check(item, each, &format!("{path}[{i}]")))
}

fn check_range(number: f64, schema: &Json, path: &str) -> Result<(), ValueError> {
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(Json::Number(least)), _) if number < *least => {
            Err(ValueError::new(path, format!("less than the minimum {}", Json::Number(*least).canonical())))
        }
        (_, Some(Json::Number(most))) if number > *most => {
            Err(ValueError::new(path, format!("more than the maximum {}", Json::Number(*most).canonical())))
        }
        _ => Ok(()),
    }
}

fn check_any_of(value: &Json, schema: &Json, path: &str) -> Result<(), ValueError> {
    match schema.get("anyOf") {
        Some(Json::Array(choices)) if choices.iter().all(|choice| check(value, choice, path).is_err()) => {
            Err(ValueError::new(path, "fits none of the schemas under anyOf"))
        }
        _ => Ok(()),
    }
}
