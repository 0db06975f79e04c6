//! The options of a conversation, checked before anything is stored or called.

use super::error::{Code, RoundtableError};
use super::fields::{Fields, MAX_ID, MAX_TEXT};
use crate::record::entry::Created;
use crate::record::fold::{CONTEXT_POLICY, MAX_SAFE_INTEGER};
use crate::record::model::{AgentTraits, Id, Limits, ModelCalls, Participant, Recovery, RuntimeReference, Selector};
use crate::record::state::{IdSet, State};
use crate::value::Json;
use serde::{Deserialize, Serialize};
use std::rc::Rc;

/// The most participants of a conversation.
pub const MAX_PARTICIPANTS: usize = 1000;
/// How long a claim lasts where the host says nothing, in milliseconds.
pub const DEFAULT_LEASE_MS: u64 = 30_000;

/// Checked options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// The conversation's id.
    pub conversation_id: Id,
    /// All ids derive from it.
    pub seed: Rc<str>,
    /// What the conversation is for.
    pub purpose: Option<Rc<str>>,
    /// In declared order.
    pub participants: Rc<[Participant]>,
    /// Who decides.
    pub selector: Selector,
    /// The caps.
    pub limits: Limits,
    /// How many members run at once.
    pub max_concurrent_participants: u64,
    /// How long a claim lasts unrenewed, in milliseconds.
    pub lease_ms: u64,
    /// What is promised.
    pub recovery: Recovery,
    /// The version of the price policy.
    pub price_version: Option<Id>,
}

/// Caps that a run replaces; what is absent stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitsPatch {
    /// See [`Limits`].
    pub max_turns_per_run: Option<u64>,
    /// See [`Limits`].
    pub timeout_ms: Option<u64>,
    /// See [`Limits`].
    pub settle_timeout_ms: Option<u64>,
    /// See [`Limits`].
    pub max_model_calls_per_run: Option<u64>,
    /// See [`Limits`].
    pub max_model_calls_per_conversation: Option<u64>,
    /// See [`Limits`].
    pub max_model_calls_per_participant: Option<u64>,
    /// See [`Limits`].
    pub max_tokens_per_run: Option<u64>,
}

impl Config {
    /// Checks a host's options, given as plain data: functions replaced by what they declare
    /// (`supportsContinuation`, `checkpointVersions`, `modelCalls`), the price policy by its
    /// `priceVersion`, the store by its `storeDurability`, an absent selector or the built-in one by
    /// `"round-robin"`. Every error is `invalid-config` and names the field and its bound.
    pub fn read(options: &Json) -> Result<Config, RoundtableError> {
        let fields = Fields::of(options, "options")?;
        let config = Config {
            conversation_id: fields.text("conversationId", 1, MAX_ID)?,
            seed: fields.text("seed", 1, MAX_ID)?,
            purpose: fields.optional_text("purpose", 0, MAX_TEXT)?,
            participants: participants(&fields)?,
            selector: selector(&fields)?,
            limits: limits(&fields.object("limits")?)?,
            max_concurrent_participants: fields.optional_count("maxConcurrentParticipants")?.unwrap_or(1),
            lease_ms: fields.optional_count("leaseMs")?.unwrap_or(DEFAULT_LEASE_MS),
            recovery: match fields.optional_choice("recovery", &["none", "durable"])? {
                Some("durable") => Recovery::Durable,
                _ => Recovery::None,
            },
            price_version: fields.optional_text("priceVersion", 1, MAX_ID)?,
        };
        config.check_metering(&config.limits)?;
        config.check_recovery(durable_store(&fields)?)?;
        Ok(config)
    }

    /// The options of a stored conversation as they are today: those that are stored, with the
    /// `participants` and the `storeDurability` of a host's plain data.
    pub(super) fn bound(state: &State, fields: &Fields<'_>) -> Result<Config, RoundtableError> {
        let created = &state.created;
        let config = Config {
            conversation_id: created.conversation_id.clone(),
            seed: created.seed.clone(),
            purpose: created.purpose.clone(),
            participants: participants(fields)?,
            selector: created.selector.clone(),
            limits: state.limits,
            max_concurrent_participants: created.max_concurrent_participants,
            lease_ms: created.lease_ms,
            recovery: created.recovery,
            price_version: created.price_version.clone(),
        };
        config.check_metering(&config.limits)?;
        config.check_recovery(durable_store(fields)?)?;
        Ok(config)
    }

    /// The caps that result from a run's own, `invalid-config` where they ask for what cannot be kept.
    pub fn check_patch(&self, patch: &LimitsPatch, saved: &Limits) -> Result<Limits, RoundtableError> {
        let merged = patch.over(saved);
        self.check_metering(&merged)?;
        Ok(merged)
    }

    /// The first entry.
    #[must_use]
    pub fn created(&self, at: Rc<str>) -> Created {
        Created {
            conversation_id: self.conversation_id.clone(),
            at,
            seed: self.seed.clone(),
            purpose: self.purpose.clone(),
            participants: self.participants.clone(),
            selector: self.selector.clone(),
            context_policy: RuntimeReference { id: CONTEXT_POLICY.0.into(), version: CONTEXT_POLICY.1.into() },
            limits: self.limits,
            max_concurrent_participants: self.max_concurrent_participants,
            lease_ms: self.lease_ms,
            recovery: self.recovery,
            price_version: self.price_version.clone(),
            origin: None,
        }
    }

    /// A cap on calls or tokens, or a price, counts only where everyone says whether they call models.
    fn check_metering(&self, limits: &Limits) -> Result<(), RoundtableError> {
        let needed = if limits.max_model_calls_per_run.is_some() {
            "limits.maxModelCallsPerRun"
        } else if limits.max_model_calls_per_conversation.is_some() {
            "limits.maxModelCallsPerConversation"
        } else if limits.max_model_calls_per_participant.is_some() {
            "limits.maxModelCallsPerParticipant"
        } else if limits.max_tokens_per_run.is_some() {
            "limits.maxTokensPerRun"
        } else if self.price_version.is_some() {
            "pricing"
        } else {
            return Ok(());
        };
        for (index, participant) in self.participants.iter().enumerate() {
            if participant.agent.as_ref().is_some_and(|agent| agent.model_calls.is_none()) {
                return Err(invalid(format!(
                    "{needed} needs participants[{index}].factory.modelCalls to be 'none' or 'metered'"
                )));
            }
        }
        if matches!(self.selector, Selector::Host { model_calls: None, .. }) {
            return Err(invalid(format!("{needed} needs selector.modelCalls to be 'none' or 'metered'")));
        }
        Ok(())
    }

    fn check_recovery(&self, durable_store: bool) -> Result<(), RoundtableError> {
        if self.recovery == Recovery::None {
            return Ok(());
        }
        if !durable_store {
            return Err(invalid("recovery 'durable' needs a store with durability 'durable'".to_owned()));
        }
        for (index, participant) in self.participants.iter().enumerate() {
            if participant.agent.as_ref().is_some_and(|agent| agent.checkpoint_versions.is_empty()) {
                return Err(invalid(format!(
                    "recovery 'durable' needs participants[{index}].factory.checkpointVersions"
                )));
            }
        }
        if matches!(self.selector, Selector::Host { reference: None, .. }) {
            return Err(invalid("recovery 'durable' needs selector.reference".to_owned()));
        }
        Ok(())
    }
}

impl LimitsPatch {
    /// Checks the `limits` of `run()`.
    pub fn read(limits: &Json) -> Result<LimitsPatch, RoundtableError> {
        let fields = Fields::of(limits, "limits")?;
        // A mistyped cap would be no cap.
        fields.check_names(&LIMITS)?;
        Ok(LimitsPatch {
            max_turns_per_run: fields.optional_count("maxTurnsPerRun")?,
            timeout_ms: fields.optional_count("timeoutMs")?,
            settle_timeout_ms: fields.optional_count("settleTimeoutMs")?,
            max_model_calls_per_run: fields.optional_count("maxModelCallsPerRun")?,
            max_model_calls_per_conversation: fields.optional_count("maxModelCallsPerConversation")?,
            max_model_calls_per_participant: fields.optional_count("maxModelCallsPerParticipant")?,
            max_tokens_per_run: fields.optional_count("maxTokensPerRun")?,
        })
    }

    fn over(&self, saved: &Limits) -> Limits {
        Limits {
            max_turns_per_run: self.max_turns_per_run.unwrap_or(saved.max_turns_per_run),
            timeout_ms: self.timeout_ms.or(saved.timeout_ms),
            settle_timeout_ms: self.settle_timeout_ms.or(saved.settle_timeout_ms),
            max_model_calls_per_run: self.max_model_calls_per_run.or(saved.max_model_calls_per_run),
            max_model_calls_per_conversation: self
                .max_model_calls_per_conversation
                .or(saved.max_model_calls_per_conversation),
            max_model_calls_per_participant: self
                .max_model_calls_per_participant
                .or(saved.max_model_calls_per_participant),
            max_tokens_per_run: self.max_tokens_per_run.or(saved.max_tokens_per_run),
        }
    }
}

const LIMITS: [&str; 7] = [
    "maxTurnsPerRun",
    "timeoutMs",
    "settleTimeoutMs",
    "maxModelCallsPerRun",
    "maxModelCallsPerConversation",
    "maxModelCallsPerParticipant",
    "maxTokensPerRun",
];

fn limits(fields: &Fields<'_>) -> Result<Limits, RoundtableError> {
    let patch = LimitsPatch::read(fields.value())?;
    let Some(max_turns_per_run) = patch.max_turns_per_run else {
        return Err(invalid(format!("limits.maxTurnsPerRun is required: an integer from 1 to {MAX_SAFE_INTEGER}")));
    };
    let none = Limits {
        max_turns_per_run,
        timeout_ms: None,
        settle_timeout_ms: None,
        max_model_calls_per_run: None,
        max_model_calls_per_conversation: None,
        max_model_calls_per_participant: None,
        max_tokens_per_run: None,
    };
    Ok(patch.over(&none))
}

fn participants(fields: &Fields<'_>) -> Result<Rc<[Participant]>, RoundtableError> {
    let list = fields.list("participants", 1, MAX_PARTICIPANTS)?;
    let mut ids = IdSet::default();
    let mut participants = Vec::with_capacity(list.len());
    for item in &list {
        let participant = participant(item)?;
        if !ids.insert(participant.id.clone()) {
            return Err(invalid(format!("{}.id is used by an earlier participant", item.path())));
        }
        participants.push(participant);
    }
    Ok(participants.into())
}

fn participant(fields: &Fields<'_>) -> Result<Participant, RoundtableError> {
    let id: Id = fields.text("id", 1, MAX_ID)?;
    if id.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')) {
        return Err(invalid(format!("{}.id holds a control character or line break", fields.path())));
    }
    let description = fields.optional_text("description", 0, MAX_TEXT)?;
    let agent = match fields.choice("kind", &["agent", "external"])? {
        "agent" => Some(AgentTraits {
            runtime: fields.reference("runtime")?,
            supports_continuation: fields.optional_bool("supportsContinuation")?.unwrap_or(false),
            checkpoint_versions: checkpoint_versions(fields)?,
            model_calls: model_calls(fields)?,
        }),
        _ => None,
    };
    Ok(Participant { id, description, agent })
}

fn checkpoint_versions(fields: &Fields<'_>) -> Result<Rc<[Id]>, RoundtableError> {
    fields.optional_texts("checkpointVersions", 64, MAX_ID).map(|versions| versions.unwrap_or_default().into())
}

fn selector(fields: &Fields<'_>) -> Result<Selector, RoundtableError> {
    match fields.get("selector") {
        None => Ok(Selector::RoundRobin),
        Some(Json::String(name)) if name == "round-robin" => Ok(Selector::RoundRobin),
        Some(_) => {
            let fields = fields.object("selector")?;
            let reference = fields.get("reference").map(|_| fields.reference("reference")).transpose()?;
            Ok(Selector::Host { reference, model_calls: model_calls(&fields)? })
        }
    }
}

fn durable_store(fields: &Fields<'_>) -> Result<bool, RoundtableError> {
    Ok(fields.optional_choice("storeDurability", &["memory", "durable"])? == Some("durable"))
}

fn model_calls(fields: &Fields<'_>) -> Result<Option<ModelCalls>, RoundtableError> {
    Ok(fields.optional_choice("modelCalls", &["none", "metered"])?.map(|choice| match choice {
        "none" => ModelCalls::None,
        _ => ModelCalls::Metered,
    }))
}

impl Fields<'_> {
    /// A reference.
    pub(super) fn reference(&self, key: &str) -> Result<RuntimeReference, RoundtableError> {
        let fields = self.object(key)?;
        Ok(RuntimeReference { id: fields.text("id", 1, MAX_ID)?, version: fields.text("version", 1, MAX_ID)? })
    }
}

fn invalid(message: String) -> RoundtableError {
    RoundtableError::new(Code::InvalidConfig, message)
}
