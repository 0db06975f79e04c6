//! The ledger's shapes: one record for each model call.

use super::model::Id;
use crate::value::CanonicalJson;
use serde::Serialize;
use std::rc::Rc;

/// A model call about to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCall {
    /// Unique in the conversation.
    pub call_id: Id,
    /// Who serves the model.
    pub provider_id: Id,
    /// Which model.
    pub model_id: Id,
}

/// What a participant reports of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageReport {
    /// The admitted call.
    pub call_id: Id,
    /// How it ended.
    pub outcome: CallOutcome,
    /// How far the numbers can be trusted.
    pub provenance: Provenance,
    /// Token counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// The provider's own report, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<CanonicalJson>,
    /// Whether a later report may replace this one.
    pub r#final: bool,
    /// The provider of a cache hit, which had no admission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<Id>,
    /// The model of a cache hit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<Id>,
}

/// How a model call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallOutcome {
    /// With a response.
    Completed,
    /// Without one.
    Failed,
    /// Stopped by a signal.
    Cancelled,
    /// Answered without a call.
    CacheHit,
}

/// How far reported numbers can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// Complete, from the provider.
    Reported,
    /// Some, from the provider.
    Partial,
    /// Counted by the runtime.
    Estimated,
    /// Not known.
    Unknown,
}

/// Token counts: safe integers from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// Prompt tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Reply tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// Prompt tokens read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// Prompt tokens written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Reply tokens spent on reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

/// An amount in a currency's minor units, of any size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Money {
    /// 1 to 16 characters, such as an ISO 4217 code.
    pub currency: Id,
    /// A decimal integer, at most 64 digits.
    pub minor_units: Rc<str>,
}

/// What a call cost under one version of a price policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Price {
    /// The policy's version.
    pub version: Id,
    /// The amount; absent where the policy gives none or failed.
    pub cost: Option<Money>,
}

/// On whose account a call runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Principal {
    /// A participant or the selector.
    pub kind: PrincipalKind,
    /// The participant's id, or the selector's reference id.
    pub id: Id,
}

/// The kinds of principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrincipalKind {
    /// A member of a group.
    Participant,
    /// The selector.
    Selector,
}

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageRecord {
    /// The call.
    pub call_id: Id,
    /// Who served it.
    pub provider_id: Id,
    /// Which model.
    pub model_id: Id,
    /// The conversation that paid.
    pub conversation_id: Id,
    /// The run in which it was admitted.
    pub run_id: Id,
    /// On whose account.
    pub principal: Principal,
    /// The turn, unless the selector called.
    pub turn_id: Option<Id>,
    /// The group, unless the selector called.
    pub group_id: Option<Id>,
    /// The attempt.
    pub attempt_id: Id,
    /// The revision of its last change.
    pub revision: u64,
    /// What it cost, where a policy says.
    pub price: Option<Price>,
    /// How far it has come.
    #[serde(flatten)]
    pub status: UsageStatus,
}

/// Whether a call has been reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum UsageStatus {
    /// Admitted, not reported.
    Reserved,
    /// Reported.
    Settled(Settlement),
}

/// What was reported of a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Settlement {
    /// How it ended.
    pub outcome: CallOutcome,
    /// How far the numbers can be trusted.
    pub provenance: Provenance,
    /// Token counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// The provider's own report.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<CanonicalJson>,
    /// Whether a later report may replace it.
    pub r#final: bool,
}
