//! Rebuilds a conversation's history from its log.

use super::entry::settle_entry;
use super::log::SessionLog;
use super::message::epoch_ms;
use super::node::Node;
use super::vocabulary::EventKind;

/// What a log says about the conversation it belongs to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The session of the first entry.
    pub session_id: Option<String>,
    /// The directory of the last `session_init`.
    pub cwd: Option<String>,
    /// The timestamp of the first entry.
    pub created_at: Option<String>,
    /// The timestamp of the last entry.
    pub updated_at: Option<String>,
    /// The messages that joined the history, in order.
    pub messages: Vec<RecordedMessage>,
    /// Events of background tasks, as JSON texts in order.
    pub background_task_events: Vec<String>,
    /// Events of groups of background tasks, as JSON texts in order.
    pub background_job_group_events: Vec<String>,
    /// Events of the memory, as JSON texts in order.
    pub memory_events: Vec<String>,
}

/// A message as it was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedMessage {
    /// When it was said, in epoch milliseconds.
    pub timestamp_ms: f64,
    /// The message as a JSON text; its date in ISO 8601 with milliseconds and `Z`.
    pub json: String,
}

impl RecordedMessage {
    /// Reads a checked message whose date is settled.
    pub(super) fn of(node: &Node<'_>) -> RecordedMessage {
        RecordedMessage {
            timestamp_ms: node.get("timestamp").and_then(epoch_ms).unwrap_or_default(),
            json: node.to_json(),
        }
    }
}

/// Rebuilds the history of a decoded log.
#[must_use]
pub fn rebuild_history(log: &SessionLog) -> History {
    let mut history = History::default();
    for (_, kind, mut node) in log.nodes(EventKind::ALL) {
        let text = |key: &str| node.get(key).and_then(Node::as_str).map(str::to_owned);
        history.session_id = history.session_id.take().or_else(|| text("sessionId"));
        history.created_at = history.created_at.take().or_else(|| text("timestamp"));
        history.updated_at = text("timestamp");
        match kind {
            EventKind::SessionInit => history.cwd = text("cwd"),
            EventKind::HistoryMutation => {
                settle_entry(kind, &mut node);
                history.messages.extend(node.get("message").map(RecordedMessage::of));
            }
            EventKind::BackgroundTaskEvent => {
                history.background_task_events.extend(auxiliary(&node, "backgroundEvent"));
            }
            EventKind::BackgroundJobGroupEvent => {
                history.background_job_group_events.extend(auxiliary(&node, "backgroundJobGroupEvent"));
            }
            EventKind::MemoryEvent => history.memory_events.extend(auxiliary(&node, "memoryEvent")),
            _ => {}
        }
    }
    history
}

/// The payload under its own key, or else under `data`.
fn auxiliary(node: &Node<'_>, key: &str) -> Option<String> {
    node.get(key).or_else(|| node.get("data")).map(Node::to_json)
}
