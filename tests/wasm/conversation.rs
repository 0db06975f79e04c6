//! A conversation through the bindings, with host code in JavaScript around it.

use agent_roundtable::bindings::conversation::{Ports, RoundtableHandle};
use js_sys::{JSON, Promise};
use wasm_bindgen::prelude::{JsCast, JsValue, wasm_bindgen};
use wasm_bindgen_futures::JsFuture;
use wasm_bindgen_test::wasm_bindgen_test;

#[wasm_bindgen(module = "/host.js")]
extern "C" {
    type TestHost;
    #[wasm_bindgen(constructor)]
    fn new(behaviour: &str) -> TestHost;
    #[wasm_bindgen(method)]
    fn ports(this: &TestHost) -> JsValue;
    #[wasm_bindgen(method)]
    fn attach(this: &TestHost, handle: JsValue);
    #[wasm_bindgen(method)]
    fn run(this: &TestHost) -> Promise;
    #[wasm_bindgen(method)]
    fn dispose(this: &TestHost) -> Promise;
    #[wasm_bindgen(method)]
    fn logged(this: &TestHost) -> String;
}

const OPTIONS: &str = r#"{"conversationId":"c","seed":"s","participants":[
    {"kind":"agent","id":"a","runtime":{"id":"r","version":"1"}}],"limits":{"maxTurnsPerRun":3},"selector":{}}"#;

fn host(behaviour: &str) -> TestHost {
    let host = TestHost::new(behaviour);
    let handle = RoundtableHandle::new(JSON::parse(OPTIONS).unwrap(), host.ports().unchecked_into::<Ports>());
    host.attach(handle.unwrap().into());
    host
}

async fn text(promise: Promise) -> String {
    JsFuture::from(promise).await.unwrap().as_string().unwrap()
}

#[wasm_bindgen_test]
async fn promises_of_the_host_drive_a_run_to_its_end() {
    let host = host("speaks");
    let reply = text(host.run()).await;
    assert!(reply.contains(r#""status":"completed","reason":"said""#), "{reply}");
    assert_eq!(text(host.run()).await, reply, "final");
    assert_eq!(text(host.dispose()).await, r#"{"disposed":{"failures":[]}}"#);
    assert!(text(host.run()).await.starts_with("disposed: "));
}

#[wasm_bindgen_test]
async fn c19_streamed_text_precedes_prepared_and_events_keep_their_order() {
    let host = host("streams");
    text(host.run()).await;
    let logged = host.logged();
    let order = ["event: turn-started", "delta: one ", "delta: two\nclosed", "event: prepared", "event: published"];
    let places: Vec<usize> = order.iter().map(|line| logged.find(line).unwrap()).collect();
    assert!(places.is_sorted(), "{logged}");
}

#[wasm_bindgen_test]
async fn c31_abort_fires_the_signal_and_the_turn_runs_again() {
    let aborted = host("aborted");
    assert!(text(aborted.run()).await.contains(r#""status":"cancelled""#));

    let hanging = host("hangs");
    let reply = text(hanging.run()).await;
    assert!(reply.contains(r#""status":"cancelled""#), "{reply}");
    assert!(hanging.logged().contains("signal: cancelled"));
    assert!(hanging.logged().contains("event: turn-stopped"));
    assert!(text(hanging.run()).await.contains(r#""status":"cancelled""#), "tried again, stopped again");
}

#[wasm_bindgen_test]
async fn c37_host_code_may_call_in_while_it_is_called() {
    let host = host("re-enters");
    let reply = text(host.run()).await;
    assert!(reply.contains(r#""status":"completed""#), "{reply}");
    let logged = host.logged();
    assert!(logged.contains("busy: "), "{logged}");
    assert!(logged.contains("revision 3 inside"), "{logged}");
    assert!(logged.contains("answer: "), "{logged}");
}

#[wasm_bindgen_test]
async fn errors_of_host_code_become_results_with_their_message() {
    for (behaviour, part) in [
        ("throws", r#"participant \"a\" failed: broken"#),
        ("selector throws", "no idea"),
        ("port throws", r#""status":"failed""#),
    ] {
        let reply = text(host(behaviour).run()).await;
        assert!(reply.contains(part), "{behaviour}: {reply}");
    }
}

#[wasm_bindgen_test]
fn options_are_checked_with_their_numbers() {
    for (limit, ok) in [("3", true), ("0", false), ("-1", false), ("1.5", false), ("9007199254740992", false)] {
        let options = OPTIONS.replace(r#""maxTurnsPerRun":3"#, &format!(r#""maxTurnsPerRun":{limit}"#));
        let ports = TestHost::new("speaks").ports().unchecked_into::<Ports>();
        let made = RoundtableHandle::new(JSON::parse(&options).unwrap(), ports);
        assert_eq!(made.is_ok(), ok, "{limit}");
        let refusal = made.err().and_then(|error| error.as_string()).unwrap_or_default();
        assert!(ok || refusal.contains("limits.maxTurnsPerRun"), "{refusal}");
    }
}
