//! What a call is reported as.

use agent_roundtable::record::usage::{ModelCall, UsageReport};
use agent_roundtable::runtime::metering::{UsageMetadata, cache_hit, completed, without_reply};

fn call() -> ModelCall {
    ModelCall { call_id: "c".into(), provider_id: "p".into(), model_id: "m".into() }
}

fn usage(input: f64, output: f64, provenance: &str) -> UsageMetadata {
    UsageMetadata {
        input_tokens: Some(input),
        output_tokens: Some(output),
        usage_provenance: Some(provenance.to_owned()),
        ..UsageMetadata::default()
    }
}

fn json(report: &UsageReport) -> String {
    serde_json::to_string(report).unwrap()
}

fn tokens(metadata: &UsageMetadata) -> String {
    json(&completed(&call(), metadata)).replace(r#"{"callId":"c","outcome":"completed","provenance":"#, "")
}

#[test]
fn a49_complete_usage_is_reported_with_its_tokens() {
    let metadata = UsageMetadata { total_tokens: Some(15.0), ..usage(10.0, 5.0, "complete") };
    assert_eq!(tokens(&metadata), r#""reported","tokens":{"input":10,"output":5},"final":true}"#);
}

#[test]
fn a49_complete_usage_with_impossible_counts_is_unknown() {
    let total = UsageMetadata { total_tokens: Some(16.0), ..usage(10.0, 5.0, "complete") };
    let safe = 9_007_199_254_740_991.0;
    let cases = [
        total,
        usage(10.5, 5.0, "complete"),
        usage(-1.0, 5.0, "complete"),
        usage(f64::NAN, 5.0, "complete"),
        usage(f64::INFINITY, 5.0, "complete"),
        usage(safe, 1.0, "complete"),
        UsageMetadata { output_tokens: None, ..usage(10.0, 5.0, "complete") },
    ];
    for metadata in cases {
        assert_eq!(tokens(&metadata), r#""unknown","final":true}"#, "{metadata:?}");
    }
    assert!(tokens(&usage(safe, 0.0, "complete")).starts_with(r#""reported""#));
}

#[test]
fn a50_a_call_without_reply_is_failed_or_cancelled_without_tokens() {
    assert_eq!(
        json(&without_reply(&call(), false)),
        r#"{"callId":"c","outcome":"failed","provenance":"unknown","final":true}"#
    );
    assert_eq!(
        json(&without_reply(&call(), true)),
        r#"{"callId":"c","outcome":"cancelled","provenance":"unknown","final":true}"#
    );
}

#[test]
fn a51_counts_without_a_marker_are_unknown() {
    let metadata = UsageMetadata { usage_provenance: None, ..usage(10.0, 5.0, "") };
    assert_eq!(tokens(&metadata), r#""unknown","final":true}"#);
    assert_eq!(tokens(&usage(10.0, 5.0, "estimated")), r#""unknown","final":true}"#);
}

#[test]
fn a52_fractional_partial_counts_are_rounded() {
    assert_eq!(tokens(&usage(10.5, 5.4, "partial")), r#""partial","tokens":{"input":11,"output":5},"final":true}"#);
}

#[test]
fn a53_only_the_impossible_partial_count_is_dropped() {
    assert_eq!(tokens(&usage(-1.0, 5.0, "partial")), r#""partial","tokens":{"output":5},"final":true}"#);
    assert_eq!(tokens(&usage(f64::INFINITY, -0.4, "partial")), r#""partial","final":true}"#);
    assert_eq!(tokens(&usage(1e300, 1.0, "partial")), r#""partial","tokens":{"output":1},"final":true}"#);
}

#[test]
fn k3_cache_and_reasoning_tokens_are_parts_of_what_they_belong_to() {
    let metadata = UsageMetadata {
        cache_read_tokens: Some(10.0),
        cache_write_tokens: Some(70.0),
        reasoning_tokens: Some(5.0),
        ..usage(10.0, 5.0, "partial")
    };
    let all = r#"{"input":10,"output":5,"cacheRead":10,"cacheWrite":70,"reasoning":5}"#;
    assert_eq!(tokens(&metadata), format!(r#""partial","tokens":{all},"final":true}}"#));
    let beyond = UsageMetadata { cache_read_tokens: Some(11.0), reasoning_tokens: Some(6.0), ..metadata };
    assert!(tokens(&beyond).contains(r#"{"input":10,"output":5,"cacheWrite":70}"#));
}

#[test]
fn k2_a_route_other_than_the_admitted_one_is_on_record() {
    let routed = |provider: Option<&str>, model: Option<&str>| UsageMetadata {
        provider_id: provider.map(Into::into),
        model_id: model.map(Into::into),
        ..usage(1.0, 1.0, "partial")
    };
    assert_eq!(completed(&call(), &routed(Some("p"), Some("m"))).raw, None);
    assert!(json(&completed(&call(), &routed(None, Some("n")))).contains(r#""raw":{"modelId":"n"}"#));
    let both = completed(&call(), &routed(Some("q"), Some("m")));
    assert!(json(&both).contains(r#""raw":{"modelId":"m","providerId":"q"}"#));
}

#[test]
fn a54_a_cache_hit_carries_its_own_identity() {
    assert_eq!(
        json(&cache_hit(&call(), &UsageMetadata::default())),
        r#"{"callId":"c","outcome":"cache-hit","provenance":"unknown","final":true,"providerId":"p","modelId":"m"}"#
    );
}
