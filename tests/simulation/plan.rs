//! What one schedule is about: who takes part, under which limits, and how rough it gets.

use crate::faults::Mix;
use crate::rng::Rng;
use agent_roundtable::record::model::{Id, Limits};
use serde_json::{Map, Value, json};

pub struct Plan {
    pub mix: Mix,
    pub conversation_id: Id,
    pub roles: Vec<Role>,
    /// Set where host code selects; otherwise the built-in policy does.
    pub host_selector: Option<SelectorPlan>,
    pub limits: Limits,
    pub max_concurrent: u64,
    pub lease_ms: u64,
    pub priced: bool,
    /// How many calls of `run()` the caller makes before the calm end.
    pub runs: u64,
    /// The unit of all waiting in this schedule, in milliseconds.
    pub pace_ms: u64,
    /// Calls a member makes at most in one attempt.
    pub calls_per_attempt: u64,
    /// In so many attempts of a thousand a member that can wait does.
    pub waits_per_mille: u32,
    /// In so many runs of a thousand the caller's signal fires.
    pub aborts_per_mille: u32,
}

#[derive(Clone)]
pub struct Role {
    pub id: Id,
    pub is_external: bool,
    pub has_checkpoint: bool,
    pub can_continue: bool,
    pub is_metered: bool,
    /// What its private states are versioned as.
    pub version: &'static str,
}

pub struct SelectorPlan {
    pub has_reference: bool,
    pub has_checkpoint: bool,
    pub is_metered: bool,
    /// In so many decisions of a thousand it finishes.
    pub finish_per_mille: u32,
}

/// The format version of every checkpoint in a schedule.
pub const CHECKPOINT_VERSION: &str = "sim/1";

impl Plan {
    pub fn draw(seed: u64, rng: &Rng) -> Plan {
        let mix = match seed % 10 {
            0..=2 => Mix::Calm,
            3..=6 => Mix::Faulty,
            _ => Mix::Hostile,
        };
        let is_metered = rng.chance(600);
        let mut roles: Vec<Role> = (0..rng.between(1, 5)).map(|n| draw_role(n, is_metered, rng)).collect();
        if rng.chance(950) {
            roles[0].is_external = false;
        }
        let host_selector = rng.chance(650).then(|| SelectorPlan {
            has_reference: rng.chance(500),
            has_checkpoint: rng.chance(500),
            is_metered: is_metered && rng.chance(500),
            finish_per_mille: *rng.pick(&[0, 30, 150]),
        });
        let pace_ms = *rng.pick(&[1, 10, 400]);
        Plan {
            mix,
            conversation_id: format!("c-{seed}").into(),
            limits: draw_limits(is_metered, pace_ms, rng),
            max_concurrent: rng.between(1, 4),
            lease_ms: (*rng.pick(&[60, 1_500, 30_000, 30_000, 5_000_000_000])).max(4 * pace_ms),
            priced: is_metered && rng.chance(500),
            runs: rng.between(1, 6),
            pace_ms,
            calls_per_attempt: if is_metered { rng.between(0, 3) } else { 0 },
            waits_per_mille: *rng.pick(&[0, 150, 400]),
            aborts_per_mille: *rng.pick(&[0, 200, 600]),
            roles,
            host_selector,
        }
    }

    /// The options as the host's shell hands them to the engine.
    pub fn config(&self, seed: u64) -> Value {
        let participants: Vec<Value> = self.roles.iter().map(|role| role.config(self.is_declared())).collect();
        let mut config = json!({
            "conversationId": &*self.conversation_id,
            "purpose": "A rehearsal.",
            "participants": participants,
            "limits": self.limits,
            "maxConcurrentParticipants": self.max_concurrent,
            "leaseMs": self.lease_ms,
            "seed": format!("seed-{seed}"),
        });
        if let Some(selector) = &self.host_selector {
            config["selector"] = selector.config(self.is_declared());
        }
        if self.priced {
            config["priceVersion"] = json!("prices-1");
        }
        config
    }

    /// C3: limits on calls and tokens, and prices, ask everybody to say whether they call models.
    pub fn is_declared(&self) -> bool {
        let limits = &self.limits;
        let capped = limits.max_model_calls_per_run.is_some()
            || limits.max_model_calls_per_conversation.is_some()
            || limits.max_model_calls_per_participant.is_some()
            || limits.max_tokens_per_run.is_some();
        capped || self.priced
    }
}

impl Role {
    fn config(&self, declare: bool) -> Value {
        if self.is_external {
            return json!({ "kind": "external", "id": &*self.id });
        }
        let mut config = json!({
            "kind": "agent",
            "id": &*self.id,
            "description": "Plays a part.",
            "runtime": { "id": "sim/member", "version": "1" },
            "supportsContinuation": self.can_continue,
            "checkpointVersions": if self.has_checkpoint { vec![self.version] } else { vec![] },
        });
        if declare || self.is_metered {
            config["modelCalls"] = json!(if self.is_metered { "metered" } else { "none" });
        }
        config
    }
}

impl SelectorPlan {
    fn config(&self, declare: bool) -> Value {
        let mut host = Map::new();
        if self.has_reference {
            host.insert("reference".to_owned(), json!({ "id": "sim/selector", "version": "1" }));
        }
        if declare || self.is_metered {
            host.insert("modelCalls".to_owned(), json!(if self.is_metered { "metered" } else { "none" }));
        }
        Value::Object(host)
    }
}

fn draw_role(n: u64, is_metered: bool, rng: &Rng) -> Role {
    let has_checkpoint = rng.chance(700);
    Role {
        id: format!("{}{n}", rng.pick(&["ann", "Bö", "c d", "山"])).into(),
        is_external: rng.chance(300),
        has_checkpoint,
        can_continue: has_checkpoint && rng.chance(700),
        is_metered: is_metered && rng.chance(800),
        version: CHECKPOINT_VERSION,
    }
}

fn draw_limits(is_metered: bool, pace_ms: u64, rng: &Rng) -> Limits {
    let some = |per_mille: u32, low: u64, high: u64| rng.chance(per_mille).then(|| rng.between(low, high));
    let calls = if is_metered { 250 } else { 0 };
    Limits {
        max_turns_per_run: rng.between(1, 9),
        timeout_ms: rng.chance(300).then(|| *rng.pick(&[pace_ms, 20 * pace_ms, 200 * pace_ms, 3_000_000_000])),
        settle_timeout_ms: rng.chance(600).then(|| *rng.pick(&[pace_ms, 10 * pace_ms, 100 * pace_ms])),
        max_model_calls_per_run: some(calls, 1, 8),
        max_model_calls_per_conversation: some(calls, 1, 30),
        max_model_calls_per_participant: some(calls, 1, 15),
        max_tokens_per_run: some(calls, 1, 400),
    }
}
