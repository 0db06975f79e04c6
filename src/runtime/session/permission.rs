//! Which tools may be called: patterns of names, the strictest that fits decides.

use crate::runtime::codec::ValueError;
use crate::value::Json;
use crate::value::bounds::MAX_ID;
use crate::value::text::utf16_len;

/// The most patterns of one list.
pub const MAX_PATTERNS: usize = 1024;

/// What is to become of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// Somebody is asked.
    Ask,
    /// It does not run, and the model is told.
    Deny,
}

/// Patterns of tool names. In a pattern `*` stands for any run of characters, also none; it covers the
/// whole name, and case counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    allow: Vec<String>,
    ask: Vec<String>,
    deny: Vec<String>,
    default: Verdict,
}

impl Verdict {
    /// The name in policies.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Allow => "allow",
            Verdict::Ask => "ask",
            Verdict::Deny => "deny",
        }
    }

    /// Reads what [`Verdict::as_str`] gives.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Verdict::Allow, Verdict::Ask, Verdict::Deny].into_iter().find(|verdict| verdict.as_str() == name)
    }
}

impl Permissions {
    /// Reads `{allow?, ask?, deny?, default?}`; what is not named is asked. The error names the member.
    pub fn read(policy: &Json) -> Result<Self, ValueError> {
        let Json::Object(members) = policy else {
            return Err(ValueError::new("permissions", format!("expected an object, found {}", policy.type_name())));
        };
        let mut read = Permissions { allow: Vec::new(), ask: Vec::new(), deny: Vec::new(), default: Verdict::Ask };
        for (key, value) in members {
            let path = format!("permissions.{key}");
            match key.as_str() {
                "allow" => read.allow = patterns(value, &path)?,
                "ask" => read.ask = patterns(value, &path)?,
                "deny" => read.deny = patterns(value, &path)?,
                "default" => {
                    let verdict = value.as_str().and_then(Verdict::parse);
                    read.default = verdict.ok_or_else(|| ValueError::new(path, "expected 'allow', 'ask' or 'deny'"))?;
                }
                _ => return Err(ValueError::new(path, "not a known member")),
            }
        }
        Ok(read)
    }

    /// Deny beats ask beats allow; a name that no pattern fits takes the default.
    #[must_use]
    pub fn verdict(&self, tool: &str) -> Verdict {
        let fits = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, tool));
        match () {
            () if fits(&self.deny) => Verdict::Deny,
            () if fits(&self.ask) => Verdict::Ask,
            () if fits(&self.allow) => Verdict::Allow,
            () => self.default,
        }
    }
}

fn patterns(value: &Json, path: &str) -> Result<Vec<String>, ValueError> {
    let Json::Array(items) = value else {
        return Err(ValueError::new(path, format!("expected an array, found {}", value.type_name())));
    };
    if items.len() > MAX_PATTERNS {
        return Err(ValueError::new(path, format!("more than {MAX_PATTERNS} patterns")));
    }
    let pattern = |(index, item): (usize, &Json)| {
        let text = item.as_str().filter(|text| (1..=MAX_ID).contains(&utf16_len(text)));
        let refuse = || ValueError::new(format!("{path}[{index}]"), format!("expected 1 to {MAX_ID} UTF-16 units"));
        text.map(str::to_owned).ok_or_else(refuse)
    };
    items.iter().enumerate().map(pattern).collect()
}

/// Whether `pattern` covers all of `name`. Linear: only the last `*` ever takes more.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.find(part).and_then(|at| rest.get(at + part.len()..)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}
