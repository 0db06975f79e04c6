//! What a model call is reported as: token counts and provenance from the reply's metadata, which is
//! the only source of usage, and one final report per call.

use super::config::MAX_SAFE_INTEGER;
use serde::Serialize;

/// The usage members of a reply's `metadata`, as the provider gave them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageMetadata {
    /// `inputTokens`
    pub input_tokens: Option<f64>,
    /// `outputTokens`
    pub output_tokens: Option<f64>,
    /// `totalTokens`
    pub total_tokens: Option<f64>,
    /// `cacheReadTokens`: the part of the input that a provider cache served.
    pub cache_read_tokens: Option<f64>,
    /// `cacheWriteTokens`: what the call added to a provider cache.
    pub cache_write_tokens: Option<f64>,
    /// `reasoningTokens`: the part of the output that is not shown.
    pub reasoning_tokens: Option<f64>,
    /// `usageProvenance`: `complete` or `partial`.
    pub provenance: Option<String>,
    /// `providerId` and `modelId`: who answered, where that is not who was asked.
    pub route: ModelRoute,
}

/// Which provider and model answered, as far as a reply says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelRoute {
    /// The provider's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The model's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_id: Option<String>,
}

/// The provider and model a call was admitted for, or a cached reply came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelIdentity {
    /// The provider's name.
    pub provider_id: String,
    /// The model's name.
    pub model_id: String,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallOutcome {
    /// The model replied.
    Completed,
    /// The provider failed, or the call could not be made after its admission.
    Failed,
    /// The turn was cancelled before a reply.
    Cancelled,
    /// The reply came from a cache, without an admission.
    CacheHit,
}

/// How far the token counts can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provenance {
    /// The provider vouches for complete counts.
    Reported,
    /// The provider gave some counts.
    Partial,
    /// Nothing is known.
    Unknown,
}

/// Whole, non-negative token counts; what is unknown is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tokens {
    /// Tokens read by the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Tokens written by the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    /// The part of the input served from a provider cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<u64>,
    /// What was added to a provider cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// The part of the output that is reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

/// The one final report of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallReport {
    /// The call it settles.
    pub call_id: String,
    /// How the call ended.
    pub outcome: CallOutcome,
    /// How far the counts can be trusted.
    pub provenance: Provenance,
    /// The counts, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// The route that answered, where it differs from the one admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<ModelRoute>,
    /// Always `true`: a call is reported once.
    #[serde(rename = "final")]
    pub is_final: bool,
    /// Of a cache hit: whose reply it is.
    #[serde(flatten)]
    pub identity: ModelRoute,
}

/// The report of a reply. `admitted` is what the call was admitted for, where that is known.
#[must_use]
pub fn completed(call_id: &str, metadata: &UsageMetadata, admitted: Option<&ModelIdentity>) -> CallReport {
    let raw = admitted.and_then(|admitted| changed_route(&metadata.route, admitted));
    CallReport { raw, ..report(call_id, CallOutcome::Completed, metadata) }
}

/// The report of a reply that a cache gave.
#[must_use]
pub fn cache_hit(call_id: &str, metadata: &UsageMetadata, identity: ModelIdentity) -> CallReport {
    let identity = ModelRoute { provider_id: Some(identity.provider_id), model_id: Some(identity.model_id) };
    CallReport { identity, ..report(call_id, CallOutcome::CacheHit, metadata) }
}

/// The report of a call that was admitted and gave no reply.
#[must_use]
pub fn without_reply(call_id: &str, cancelled: bool) -> CallReport {
    let outcome = if cancelled { CallOutcome::Cancelled } else { CallOutcome::Failed };
    report(call_id, outcome, &UsageMetadata::default())
}

fn report(call_id: &str, outcome: CallOutcome, metadata: &UsageMetadata) -> CallReport {
    let provenance = provenance_of(metadata);
    let tokens = tokens_of(metadata).filter(|_| provenance != Provenance::Unknown);
    let call_id = call_id.to_owned();
    CallReport { call_id, outcome, provenance, tokens, raw: None, is_final: true, identity: ModelRoute::default() }
}

fn provenance_of(metadata: &UsageMetadata) -> Provenance {
    match metadata.provenance.as_deref() {
        Some("complete") if counts_are_valid(metadata) => Provenance::Reported,
        Some("partial") => Provenance::Partial,
        _ => Provenance::Unknown,
    }
}

fn counts_are_valid(metadata: &UsageMetadata) -> bool {
    let is_count = |n: &f64| n.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(n);
    let (Some(input), Some(output)) = (metadata.input_tokens.filter(is_count), metadata.output_tokens.filter(is_count))
    else {
        return false;
    };
    let sum = input + output;
    is_count(&sum) && metadata.total_tokens.is_none_or(|total| total == sum)
}

fn tokens_of(metadata: &UsageMetadata) -> Option<Tokens> {
    let (input, output) = (whole(metadata.input_tokens), whole(metadata.output_tokens));
    let tokens = Tokens {
        input,
        output,
        cache_read: whole(metadata.cache_read_tokens).filter(|part| input.is_some_and(|all| *part <= all)),
        cache_write: whole(metadata.cache_write_tokens),
        reasoning: whole(metadata.reasoning_tokens).filter(|part| output.is_some_and(|all| *part <= all)),
    };
    (tokens != Tokens::default()).then_some(tokens)
}

/// The nearest whole count; none where the number is no count.
fn whole(count: Option<f64>) -> Option<u64> {
    count.filter(|n| *n >= 0.0).map(f64::round).filter(|n| *n <= MAX_SAFE_INTEGER).map(|n| n as u64)
}

fn changed_route(route: &ModelRoute, admitted: &ModelIdentity) -> Option<ModelRoute> {
    let differs = |said: &Option<String>, asked: &String| said.as_ref().is_some_and(|said| said != asked);
    (differs(&route.provider_id, &admitted.provider_id) || differs(&route.model_id, &admitted.model_id))
        .then(|| route.clone())
}
