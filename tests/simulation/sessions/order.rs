//! What may follow what among the records of one execution, said a second time.

use super::outside::{TOOLS, action};
use agent_roundtable::record::execution::ExecutionRecord;
use agent_roundtable::value::Json;
use std::collections::BTreeMap;

/// An execution, as far as its records go.
#[derive(Default)]
pub struct Order {
    /// Model calls, and whether they have settled.
    requests: BTreeMap<String, bool>,
    calls: BTreeMap<Slot, Call>,
    is_started: bool,
}

/// What is known of one tool call.
#[derive(Default)]
struct Call {
    answered: Option<bool>,
    /// The tool that was about to run.
    intended: Option<String>,
    has_result: bool,
}

impl Call {
    fn is_open(&self) -> bool {
        self.intended.is_some() && !self.has_result
    }
}

/// A tool call: the model call that asked for it, and which of its calls it is.
type Slot = (String, usize);

impl Order {
    /// Follows one record, or says what is wrong with it. `asked` tells whether somebody was asked
    /// about this action.
    pub fn follow(&mut self, record: &ExecutionRecord, asked: impl Fn(&str) -> bool) -> Result<(), String> {
        let json = Json::parse(record.json.as_str()).map_err(|error| error.to_string())?;
        let text = |key: &str| json.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        let refuse = |what: &str| Err(format!("{} {what}", record.id));
        let kind = text("kind");
        if (kind == "execution-start") == std::mem::replace(&mut self.is_started, true) {
            return refuse("is the start and not the first, or the other way round");
        }
        match kind.as_str() {
            "execution-start" => {}
            "model-request" => {
                if self.calls.values().any(Call::is_open) {
                    return refuse("follows a tool without a result");
                }
                if self.requests.insert(text("callId"), false).is_some() {
                    return refuse("is a call made twice");
                }
            }
            "model-response" | "model-failure" => {
                if self.requests.insert(text("callId"), true) != Some(false) {
                    return refuse("settles a call that was not made, or twice");
                }
                let asked = json.get("response").and_then(|response| response.get("toolCalls"));
                let Some(Json::Array(asked)) = asked else { return Ok(()) };
                self.calls.extend((0..asked.len()).map(|index| ((text("callId"), index), Call::default())));
            }
            "answer" | "tool-intent" | "tool-result" => {
                let slot = slot_of(&record.id).ok_or("a record of a tool names no call")?;
                let Some(call) = self.calls.get_mut(&slot) else { return refuse("is about a call that no reply made") };
                if call.has_result {
                    return refuse("follows the call's result");
                }
                match kind.as_str() {
                    "answer" if call.answered.is_some() => return refuse("comes too late"),
                    "answer" if call.intended.is_some() && !asked(&action(&slot.0, slot.1)) => {
                        return refuse("answers what nobody asked, of a call that is begun");
                    }
                    "answer" => call.answered = Some(json.get("approved") == Some(&Json::Bool(true))),
                    "tool-intent" if call.answered == Some(false) => return refuse("follows a no"),
                    "tool-intent" if call.intended.is_some() => return refuse("is there twice"),
                    "tool-intent" => call.intended = Some(text("toolName")),
                    _ => call.has_result = true,
                }
            }
            other => return refuse(&format!("is of the unknown kind {other}")),
        }
        Ok(())
    }

    /// Whether some tool was about to run.
    pub fn began_tools(&self) -> bool {
        self.calls.values().any(|call| call.intended.is_some())
    }

    /// Whether nobody knows what a tool did that must not run twice. One that waits for an answer (`parked`) was asked
    /// about after somebody took that upon himself; once the answer is on record it may have run again.
    pub fn is_uncertain(&self, parked: &[String]) -> bool {
        let once = |name: &String| TOOLS.iter().any(|(known, idempotent)| known == name && !idempotent);
        let waits = |slot: &Slot, call: &Call| call.answered.is_none() && parked.contains(&action(&slot.0, slot.1));
        let unknown = |(slot, call): (&Slot, &Call)| {
            call.is_open() && call.intended.as_ref().is_some_and(once) && !waits(slot, call)
        };
        self.calls.iter().any(unknown)
    }
}

/// S5: one result for each call and in its order, before anybody speaks again. Messages are coded.
pub fn is_closed(history: &[Json]) -> bool {
    let mut open: Vec<String> = Vec::new();
    for message in history {
        let text = |of: &Json, key: &str| of.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        if text(message, "role") == "tool" {
            if open.is_empty() || open.remove(0) != text(message, "toolCallId") {
                return false;
            }
            continue;
        }
        let calls = match message.get("toolCalls") {
            Some(Json::Array(calls)) => calls.iter().map(|call| text(call, "id")).collect(),
            _ => Vec::new(),
        };
        if !std::mem::replace(&mut open, calls).is_empty() {
            return false;
        }
    }
    open.is_empty()
}

/// From `CALL:KIND:INDEX`.
fn slot_of(id: &str) -> Option<Slot> {
    let (rest, index) = id.rsplit_once(':')?;
    let (call, _) = rest.rsplit_once(':')?;
    Some((call.to_owned(), index.parse().ok()?))
}
