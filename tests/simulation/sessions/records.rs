//! Where a session writes down what it does: in the conversation's own journal, or in one that ends with its process.

use super::outside::Planted;
use super::turn::{Performance, text};
use agent_roundtable::record::execution::ExecutionRecord;
use agent_roundtable::record::usage::ModelCall;
use agent_roundtable::runtime::metering;
use agent_roundtable::value::Json;
use serde_json::json;

impl Performance {
    /// What the execution has on record.
    pub(super) fn records(&self) -> Vec<ExecutionRecord> {
        match self.outside.forgets {
            true => self.outside.remembered(&self.execution_id),
            false => self.host.records(&self.attempt.id, &self.execution_id).0.unwrap(),
        }
    }

    /// Sends a record; what comes after it waits.
    pub(super) fn write(&self, record: &Json) {
        let kind = text(record, "kind");
        if kind == "tool-intent" && self.outside.planted == Some(Planted::IntentUnsaved) {
            return;
        }
        let again = kind == "tool-result" && self.outside.planted == Some(Planted::ResultTwice);
        for suffix in if again { &["", ":again:0"][..] } else { &[""][..] } {
            let record = self.whole(record, suffix);
            if self.outside.forgets {
                self.outside.remember(&self.host.world, record);
                continue;
            }
            let promise = self.host.record(&self.attempt.id, record);
            self.written.borrow_mut().push(promise);
        }
    }

    /// Into the conversation's own journal an admission and its record leave together, and so do a record and its
    /// report. Another journal is told of a call once it is admitted.
    pub(super) async fn write_and_wait(&self, effect: &Json) -> String {
        let call_id = text(effect, "callId");
        let call = ModelCall { call_id: call_id.as_str().into(), provider_id: "p".into(), model_id: "m".into() };
        if let Some(record) = effect.get("record") {
            let report = match text(record, "kind").as_str() {
                "model-request" => None,
                "model-response" => Some(metering::completed(&call, &metering::UsageMetadata::default())),
                _ => Some(metering::without_reply(&call, record.get("cancelled").is_some())),
            };
            if report.is_none() {
                let admission = self.host.admit(&self.attempt.id, call);
                self.written.borrow_mut().push(admission);
                if self.outside.forgets {
                    self.untold().await;
                }
            }
            if !self.outside.forgets || self.refused.borrow().is_none() {
                self.write(record);
            }
            if let Some(report) = report {
                let told = self.host.report(&self.attempt.id, report);
                self.written.borrow_mut().push(told);
            }
        }
        self.untold().await;
        let at = self.host.world.executor.wall_ms();
        match self.refused.borrow().is_none() {
            true => json!({ "kind": "appended", "callId": call_id, "at": at }).to_string(),
            false => json!({ "kind": "append-refused", "callId": call_id }).to_string(),
        }
    }

    /// Waits for everything that is on its way.
    pub(super) async fn untold(&self) {
        loop {
            let Some(next) = self.written.borrow_mut().pop() else { return };
            if let Err(refusal) = next.wait().await {
                self.refused.borrow_mut().get_or_insert(refusal);
            }
        }
    }

    fn whole(&self, record: &Json, suffix: &str) -> ExecutionRecord {
        let Json::Object(mut members) = record.clone() else { panic!("{record:?}") };
        let mut set = |key: &str, value: &str| {
            members.retain(|(known, _)| known != key);
            members.push((key.to_owned(), Json::String(value.to_owned())));
        };
        set("executionId", &self.execution_id);
        set("sessionId", &self.session_id());
        match text(record, "kind").as_str() {
            "model-request" => {
                set("providerId", "p");
                set("modelId", "m");
            }
            "model-response" if self.outside.planted == Some(Planted::ResponseForged) => set("callId", "another"),
            _ => {}
        }
        if !suffix.is_empty() {
            let id = text(record, "id");
            let (base, index) = id.rsplit_once(':').unwrap();
            set("id", &format!("{}:again:{index}", base.rsplit_once(':').unwrap().0));
        }
        ExecutionRecord::parse(&Json::Object(members).canonical()).unwrap()
    }
}
