//! What of a request is compared when a replay matches: model, messages and tool names, and nothing that
//! differs from run to run, such as ids and dates.

use super::hydrate::hex_sha256;
use super::node::Node;
use crate::value::Json;

/// The comparable part of a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Projection(Json);

impl Projection {
    /// Projects a recorded or live request: an object with `model`, `messages` and optionally `tools`,
    /// each tool a name or an object with one.
    pub fn of(request: &Node<'_>) -> Projection {
        Projection(object([
            ("model", copy(request.get("model"))),
            ("tools", each(request.get("tools"), tool)),
            ("messages", each(request.get("messages"), message)),
        ]))
    }

    /// The SHA-256 digest of the canonical text, in lower-case hexadecimal.
    pub fn digest(&self) -> String {
        hex_sha256(self.0.canonical().as_bytes())
    }

    /// Where the two first differ, in the order model, tools, messages; `None` where they are equal.
    pub fn first_difference(&self, other: &Projection) -> Option<String> {
        let mut path = String::new();
        differs(&self.0, &other.0, &mut path).then_some(path)
    }
}

fn tool(node: &Node<'_>) -> Json {
    copy(Some(node.get("name").unwrap_or(node)))
}

fn message(node: &Node<'_>) -> Json {
    let mut members = vec![("role", copy(node.get("role"))), ("content", copy(node.get("content")))];
    if matches!(node.get("toolCalls"), Some(Node::Array(calls)) if !calls.is_empty()) {
        members.push(("toolCalls", each(node.get("toolCalls"), tool_call)));
    }
    object(members)
}

fn tool_call(node: &Node<'_>) -> Json {
    let function = node.get("function").unwrap_or(node);
    object([("name", copy(function.get("name"))), ("arguments", copy(function.get("arguments")))])
}

fn object<'k>(members: impl IntoIterator<Item = (&'k str, Json)>) -> Json {
    Json::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn each(list: Option<&Node<'_>>, project: fn(&Node<'_>) -> Json) -> Json {
    match list {
        Some(Node::Array(items)) => Json::Array(items.iter().map(project).collect()),
        _ => Json::Array(Vec::new()),
    }
}

/// Text as it is; what is neither text nor absent was never recorded and only has to differ.
fn copy(node: Option<&Node<'_>>) -> Json {
    match node {
        Some(Node::String(text)) => Json::String(text.clone().into_owned()),
        Some(Node::Null) | None => Json::Null,
        Some(_) => Json::Bool(false),
    }
}

/// Whether the two differ; `path` is extended to the place where they first do.
fn differs(a: &Json, b: &Json, path: &mut String) -> bool {
    let start = path.len();
    match (a, b) {
        (Json::Array(left), Json::Array(right)) => {
            for index in 0..left.len().max(right.len()) {
                path.push_str(&format!("[{index}]"));
                match (left.get(index), right.get(index)) {
                    (Some(a), Some(b)) if !differs(a, b, path) => path.truncate(start),
                    _ => return true,
                }
            }
            false
        }
        (Json::Object(left), Json::Object(right)) => {
            let only_right = right.iter().filter(|(key, _)| a.get(key).is_none());
            for (key, _) in left.iter().chain(only_right) {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(key);
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) if !differs(a, b, path) => path.truncate(start),
                    _ => return true,
                }
            }
            false
        }
        _ => a != b,
    }
}
