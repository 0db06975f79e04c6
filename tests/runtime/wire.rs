//! Inputs and effects as JSON.

use agent_roundtable::runtime::wire::{OpenError, checkpoint_json, handle, open};
use agent_roundtable::value::Json;

const OPTIONS: &str = r#"{"providerName":"p","providerHasCache":true,"model":"m",
    "tools":[{"name":"add","description":"","parameters":{"type":"object"}}]}"#;

fn reply(extra: &str) -> String {
    format!(
        r#"{{"id":"r","role":"assistant","content":"hi","timestamp":{{"$date":"1970-01-01T00:00:00.000Z"}},"state":"complete"{extra}}}"#
    )
}

#[test]
fn a_turn_crosses_as_json_and_restores_from_its_checkpoint() {
    let mut agent = open(OPTIONS, None).unwrap().agent;
    let mut step = |input: &str| handle(&mut agent, input).unwrap();
    let start = step(r#"{"kind":"start","turnId":"t","attemptId":"a","input":"hello","at":0}"#);
    assert_eq!(
        start,
        concat!(
            r#"[{"kind":"extend","messages":[{"id":"a:input","role":"user","content":"hello","#,
            r#""timestamp":{"$date":"1970-01-01T00:00:00.000Z"},"state":"complete"}]},"#,
            r#"{"kind":"ask-cache","callId":"a:call:1","offerTools":true}]"#
        )
    );
    assert_eq!(
        step(r#"{"kind":"cache-answered","callId":"a:call:1","reply":null}"#),
        r#"[{"kind":"append","callId":"a:call:1","record":{"kind":"model-request","id":"a:call:1:request","callId":"a:call:1"}}]"#
    );
    let called = step(r#"{"kind":"appended","callId":"a:call:1","at":0}"#);
    assert_eq!(called, r#"[{"kind":"call-model","callId":"a:call:1","offerTools":true}]"#);
    let call = r#","toolCalls":[{"id":"x","type":"function","function":{"name":"add","arguments":"{\"n\":1}"}}]"#;
    step(&format!(r#"{{"kind":"model-replied","callId":"a:call:1","reply":{}}}"#, reply(call)));
    let run = step(r#"{"kind":"appended","callId":"a:call:1","at":0}"#);
    assert!(run.contains(r#""index":0,"tool":0,"toolCallId":"x","arguments":{"n":1},"idempotencyKey":""#), "{run}");
    step(r#"{"kind":"tool-returned","callId":"a:call:1","index":0,"at":0,"result":{"sum":1}}"#);
    let metadata = r#","metadata":{"$escaped":{"$date":1}}"#;
    let hit = format!(r#"{{"kind":"cache-answered","callId":"a:call:2","reply":{}}}"#, reply(metadata));
    let record =
        r#""record":{"kind":"model-cache-hit","id":"a:call:2:cache-hit","callId":"a:call:2","response":{"id":"r""#;
    assert!(step(&hit).contains(record));
    let last = step(r#"{"kind":"appended","callId":"a:call:2","at":0}"#);
    assert!(last.ends_with(r#"{"kind":"flush"}]"#), "{last}");
    assert_eq!(step(r#"{"kind":"flushed"}"#), r#"[{"kind":"speak","content":"hi"}]"#);

    let checkpoint = checkpoint_json(&agent.take_checkpoint());
    let restored = open(OPTIONS, Some(&checkpoint)).unwrap().restored;
    let Json::Array(history) = Json::parse(&restored).unwrap().get("history").unwrap().clone() else { panic!() };
    assert_eq!(history.len(), 4);
    assert!(history[3].canonical().contains(r#""metadata":{"$escaped":{"$date":1}}"#));
    let other = OPTIONS.replace("\"description\":\"\"", "\"description\":\"sums\"");
    assert!(open(&other, Some(&checkpoint)).unwrap().restored.ends_with(r#""changed":["tools"],"sessionId":null}"#));
}

#[test]
fn the_ways_a_turn_can_fail_cross_as_codes() {
    let mut agent = open(OPTIONS, None).unwrap().agent;
    let start = r#"{"kind":"start","turnId":"t","attemptId":"a","input":"hello","at":0}"#;
    handle(&mut agent, start).unwrap();
    let busy = handle(&mut agent, start).unwrap();
    assert_eq!(busy, r#"[{"kind":"fail","code":"busy","message":"a turn is already running on this session"}]"#);
    assert!(handle(&mut agent, r#"{"kind":"aborted"}"#).unwrap().contains(r#""code":"aborted""#));
    for bad in ["", "{}", r#"{"kind":"appended","callId":"a"}"#, r#"{"kind":"appended","callId":"a","at":0,"x":1}"#] {
        assert!(handle(&mut agent, bad).is_err(), "{bad}");
    }
}

#[test]
fn what_does_not_open_says_whether_options_or_checkpoint_are_wrong() {
    assert!(matches!(open("{}", None), Err(OpenError::Config(_))));
    assert!(matches!(open(&OPTIONS.replace("\"m\"", "\"\""), None), Err(OpenError::Config(_))));
    for checkpoint in ["[]", r#"{"version":"agent/1"}"#, r#"{"version":"agent/2","data":{},"append":[]}"#] {
        assert!(matches!(open(OPTIONS, Some(checkpoint)), Err(OpenError::Checkpoint(_))), "{checkpoint}");
    }
}
