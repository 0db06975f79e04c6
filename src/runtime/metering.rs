//! What a model call is reported as: token counts and provenance from the reply's metadata, which is
//! the only source of usage, and one final report per call.

use super::config::MAX_SAFE_INTEGER;
use crate::record::usage::{CallOutcome, ModelCall, Provenance, Tokens, UsageReport};
use crate::value::{CanonicalJson, Json};
use serde::Deserialize;

/// The usage members of a reply's `metadata`, as the provider gave them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageMetadata {
    /// What the model read.
    pub input_tokens: Option<f64>,
    /// What it wrote.
    pub output_tokens: Option<f64>,
    /// Both together.
    pub total_tokens: Option<f64>,
    /// The part of the input that a provider cache served.
    pub cache_read_tokens: Option<f64>,
    /// What the call added to a provider cache.
    pub cache_write_tokens: Option<f64>,
    /// The part of the output that is reasoning.
    pub reasoning_tokens: Option<f64>,
    /// `complete` or `partial`.
    pub usage_provenance: Option<String>,
    /// The provider that answered, where that is not the one asked.
    pub provider_id: Option<String>,
    /// The model that answered, where that is not the one asked.
    pub model_id: Option<String>,
}

/// The report of a reply to `call`. A route other than the admitted one goes on record as `raw`.
#[must_use]
pub fn completed(call: &ModelCall, metadata: &UsageMetadata) -> UsageReport {
    UsageReport { raw: changed_route(metadata, call), ..report(call, CallOutcome::Completed, metadata) }
}

/// The report of a reply that a cache gave; it carries the identity that had no admission.
#[must_use]
pub fn cache_hit(call: &ModelCall, metadata: &UsageMetadata) -> UsageReport {
    UsageReport {
        provider_id: Some(call.provider_id.clone()),
        model_id: Some(call.model_id.clone()),
        ..report(call, CallOutcome::CacheHit, metadata)
    }
}

/// The report of a call that was admitted and gave no reply.
#[must_use]
pub fn without_reply(call: &ModelCall, cancelled: bool) -> UsageReport {
    let outcome = if cancelled { CallOutcome::Cancelled } else { CallOutcome::Failed };
    report(call, outcome, &UsageMetadata::default())
}

fn report(call: &ModelCall, outcome: CallOutcome, metadata: &UsageMetadata) -> UsageReport {
    let provenance = provenance_of(metadata);
    UsageReport {
        call_id: call.call_id.clone(),
        outcome,
        provenance,
        tokens: tokens_of(metadata).filter(|_| provenance != Provenance::Unknown),
        raw: None,
        r#final: true,
        provider_id: None,
        model_id: None,
    }
}

fn provenance_of(metadata: &UsageMetadata) -> Provenance {
    match metadata.usage_provenance.as_deref() {
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

fn changed_route(metadata: &UsageMetadata, admitted: &ModelCall) -> Option<CanonicalJson> {
    let said = [
        ("modelId", &metadata.model_id, &admitted.model_id),
        ("providerId", &metadata.provider_id, &admitted.provider_id),
    ];
    if said.iter().all(|(_, said, asked)| said.as_deref().is_none_or(|said| said == &***asked)) {
        return None;
    }
    let members = said.into_iter().filter_map(|(key, said, _)| Some((key.to_owned(), Json::String(said.clone()?))));
    Some(CanonicalJson::of(&Json::Object(members.collect())))
}
