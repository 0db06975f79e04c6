//! Keeps secrets out of a log: what stands under telling keys is replaced before anything is written.

use super::node::Node;
use std::borrow::Cow;

/// What stands in a log instead of a secret.
pub const REDACTED: &str = "[REDACTED]";

/// The words of the keys whose values are secrets; `-` or `_` may stand between words, case is ignored.
const KEYS: [&[&str]; 7] = [
    &["api", "key"],
    &["authorization"],
    &["access", "token"],
    &["refresh", "token"],
    &["secret"],
    &["password"],
    &["x", "api", "key"],
];

/// The member in which tool calls carry JSON as text.
const ENCODED: &str = "arguments";

/// Members that describe tools: a key in them names a parameter and its value is a schema.
const SCHEMAS: [&str; 2] = ["tools", "toolSchemas"];

/// Which keys are telling: the usual ones, and further names compared without regard to the case of ASCII letters.
#[derive(Clone, Debug, Default)]
pub struct Redaction {
    further: Vec<String>,
}

impl Redaction {
    /// The usual keys and these.
    #[must_use]
    pub fn with(further: impl IntoIterator<Item = String>) -> Redaction {
        Redaction { further: further.into_iter().map(|key| key.to_ascii_lowercase()).collect() }
    }

    /// Replaces the secrets in the payload of an entry.
    pub(super) fn payload(&self, payload: &mut Node<'_>) {
        if let Node::Object(members) = payload {
            for (key, value) in members.iter_mut().filter(|(key, _)| !SCHEMAS.contains(&key.as_ref())) {
                self.member(key, value);
            }
        }
    }

    fn value(&self, value: &mut Node<'_>) {
        match value {
            Node::Object(members) => members.iter_mut().for_each(|(key, value)| self.member(key, value)),
            Node::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            _ => {}
        }
    }

    fn member(&self, key: &str, value: &mut Node<'_>) {
        if self.tells(key) {
            *value = Node::String(Cow::Borrowed(REDACTED));
            return;
        }
        match value {
            Node::String(text) if key == ENCODED => {
                if let Some(redacted) = self.encoded(text) {
                    *text = Cow::Owned(redacted);
                }
            }
            _ => self.value(value),
        }
    }

    /// JSON text with its secrets replaced; `None` where it holds none and stays as it is, byte for byte.
    fn encoded(&self, text: &str) -> Option<String> {
        match Node::parse(text) {
            Ok(before) => {
                let mut after = before.clone();
                self.value(&mut after);
                (after != before).then(|| after.to_json())
            }
            // Text that broke off: what follows a telling key cannot be told from the rest.
            Err(_) => text.split('"').any(|part| self.tells(part)).then(|| REDACTED.to_owned()),
        }
    }

    fn tells(&self, key: &str) -> bool {
        let lower = key.to_ascii_lowercase();
        KEYS.iter().any(|words| spells(&lower, words)) || self.further.contains(&lower)
    }
}

/// Whether the text is these words in a row, each two with at most one `-` or `_` between.
fn spells(text: &str, words: &[&str]) -> bool {
    let Some((first, rest)) = words.split_first() else { return text.is_empty() };
    let Some(tail) = text.strip_prefix(first) else { return false };
    if rest.is_empty() {
        return tail.is_empty();
    }
    spells(tail, rest) || tail.strip_prefix(['-', '_']).is_some_and(|tail| spells(tail, rest))
}
