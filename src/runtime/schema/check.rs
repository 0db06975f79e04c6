//! Checks values against schemas.

use std::cell::Cell;

use crate::runtime::codec::ValueError;
use crate::value::Json;

/// The most schemas that one check goes through: references and alternatives can multiply without end.
const MAX_STEPS: u32 = 1_000_000;
/// How deep schemas may lead into each other.
const MAX_DEPTH: u32 = 512;

/// Checks `value` against a schema that [`check_schema`](super::check_schema) accepted. The first fault found
/// is named with its path, so that a model can mend its call.
pub fn check(value: &Json, schema: &Json, path: &str) -> Result<(), ValueError> {
    let checker = Checker { root: schema, steps: Cell::new(MAX_STEPS) };
    let found = checker.check(value, schema, path, MAX_DEPTH);
    // A choice that was not looked at to its end has decided nothing.
    if checker.steps.get() == 0 {
        return Err(ValueError::new(path, format!("cannot be checked within {MAX_STEPS} steps of its schema")));
    }
    found
}

struct Checker<'a> {
    /// What `$ref` points into.
    root: &'a Json,
    /// How many more schemas may be gone through.
    steps: Cell<u32>,
}

impl Checker<'_> {
    fn check(&self, value: &Json, schema: &Json, path: &str, depth: u32) -> Result<(), ValueError> {
        match schema {
            Json::Bool(false) => return Err(ValueError::new(path, "not allowed")),
            Json::Object(_) => {}
            _ => return Ok(()),
        }
        let Some(depth) = depth.checked_sub(1) else {
            self.steps.set(0);
            return Ok(());
        };
        self.steps.set(self.steps.get().saturating_sub(1));
        if self.steps.get() == 0 {
            return Ok(());
        }
        check_type(value, schema, path)?;
        check_equal(value, schema, path)?;
        match value {
            Json::Object(members) => self.members(members, schema, path, depth)?,
            Json::Array(items) => self.items(items, schema, path, depth)?,
            Json::Number(number) => check_range(*number, schema, path)?,
            Json::String(text) => {
                check_count("characters", text.chars().count(), ["minLength", "maxLength"], schema, path)?
            }
            _ => {}
        }
        self.combined(value, schema, path, depth)
    }

    fn members(&self, members: &[(String, Json)], schema: &Json, path: &str, depth: u32) -> Result<(), ValueError> {
        if let Some(Json::Array(required)) = schema.get("required") {
            let missing = required.iter().filter_map(Json::as_str).find(|key| members.iter().all(|(k, _)| k != key));
            if let Some(key) = missing {
                return Err(ValueError::new(format!("{path}.{key}"), "missing"));
            }
        }
        let others = schema.get("additionalProperties").filter(|_| schema.get("patternProperties").is_none());
        for (key, member) in members {
            if let Some(schema) = schema.get("properties").and_then(|p| p.get(key)).or(others) {
                self.check(member, schema, &format!("{path}.{key}"), depth)?;
            }
        }
        Ok(())
    }

    fn items(&self, items: &[Json], schema: &Json, path: &str, depth: u32) -> Result<(), ValueError> {
        check_count("items", items.len(), ["minItems", "maxItems"], schema, path)?;
        let (first, others) = match (schema.get("prefixItems"), schema.get("items")) {
            (Some(Json::Array(first)), others) => (first.as_slice(), others),
            (_, Some(Json::Array(first))) => (first.as_slice(), schema.get("additionalItems")),
            (_, others) => (&[] as &[Json], others),
        };
        for (i, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(i).or(others) {
                self.check(item, schema, &format!("{path}[{i}]"), depth)?;
            }
        }
        Ok(())
    }

    /// The keywords under which other schemas apply to the same value.
    fn combined(&self, value: &Json, schema: &Json, path: &str, depth: u32) -> Result<(), ValueError> {
        let fits = |schema: &Json| self.check(value, schema, path, depth).is_ok();
        let under = |keyword: &str| match schema.get(keyword) {
            Some(Json::Array(schemas)) => Some(schemas.as_slice()),
            _ => None,
        };
        if let Some(target) = schema.get("$ref").and_then(Json::as_str).and_then(|reference| self.target(reference)) {
            self.check(value, target, path, depth)?;
        }
        under("allOf").unwrap_or_default().iter().try_for_each(|one| self.check(value, one, path, depth))?;
        if under("anyOf").is_some_and(|choices| !choices.iter().any(fits)) {
            return Err(ValueError::new(path, "fits none of the schemas under anyOf"));
        }
        match under("oneOf").map(|choices| choices.iter().filter(|one| fits(one)).take(2).count()) {
            Some(0) => return Err(ValueError::new(path, "fits none of the schemas under oneOf")),
            Some(2) => return Err(ValueError::new(path, "fits more than one of the schemas under oneOf")),
            _ => {}
        }
        if schema.get("not").is_some_and(fits) {
            return Err(ValueError::new(path, "fits the schema under not"));
        }
        Ok(())
    }

    /// The schema that a JSON pointer leads to; what points elsewhere, or at nothing, is not checked.
    fn target(&self, reference: &str) -> Option<&Json> {
        let pointer = reference.strip_prefix('#')?;
        if pointer.is_empty() {
            return Some(self.root);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self.root, |at, part| match at {
            Json::Array(items) => items.get(part.parse::<usize>().ok()?),
            other => other.get(&part.replace("~1", "/").replace("~0", "~")),
        })
    }
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

fn check_equal(value: &Json, schema: &Json, path: &str) -> Result<(), ValueError> {
    if let Some(Json::Array(allowed)) = schema.get("enum") {
        let text = value.canonical();
        if allowed.iter().all(|one| one.canonical() != text) {
            return Err(ValueError::new(path, format!("expected one of {}", Json::Array(allowed.clone()).canonical())));
        }
    }
    match schema.get("const") {
        Some(only) if only.canonical() != value.canonical() => {
            Err(ValueError::new(path, format!("expected {}", only.canonical())))
        }
        _ => Ok(()),
    }
}

fn check_range(number: f64, schema: &Json, path: &str) -> Result<(), ValueError> {
    type Fails = fn(f64, f64) -> bool;
    let bounds: [(&str, &str, Fails); 4] = [
        ("minimum", "less than the minimum", |number, bound| number < bound),
        ("maximum", "more than the maximum", |number, bound| number > bound),
        ("exclusiveMinimum", "not more than", |number, bound| number <= bound),
        ("exclusiveMaximum", "not less than", |number, bound| number >= bound),
    ];
    for (keyword, problem, fails) in bounds {
        if let Some(Json::Number(bound)) = schema.get(keyword)
            && fails(number, *bound)
        {
            return Err(ValueError::new(path, format!("{problem} {}", Json::Number(*bound).canonical())));
        }
    }
    Ok(())
}

fn check_count(what: &str, count: usize, keywords: [&str; 2], schema: &Json, path: &str) -> Result<(), ValueError> {
    let [least, most] = keywords.map(|keyword| match schema.get(keyword) {
        Some(Json::Number(bound)) => Some(*bound),
        _ => None,
    });
    let found = count as f64;
    match (least, most) {
        (Some(least), _) if found < least => Err(ValueError::new(path, format!("has fewer than {least} {what}"))),
        (_, Some(most)) if found > most => Err(ValueError::new(path, format!("has more than {most} {what}"))),
        _ => Ok(()),
    }
}
