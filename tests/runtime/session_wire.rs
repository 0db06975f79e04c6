//! Approvals for a runtime that runs outside of this module.

use crate::session_host::{answer, quote, text};
use agent_roundtable::runtime::session::wire::{answers, requests};
use agent_roundtable::value::Json;

/// The requests of an execution that asks for two tools.
fn asked() -> Vec<Json> {
    let actions: Vec<String> = ["t1", "t2"]
        .iter()
        .map(|id| format!(r#"{{"toolCallId":"{id}","toolName":"write","arguments":{{"n":1}}}}"#))
        .collect();
    let asked = format!(r#"{{"executionId":"a1","callId":"a1:call:1","actions":[{}]}}"#, actions.join(","));
    let Json::Array(requests) = Json::parse(&requests(&asked).unwrap()).unwrap() else { panic!() };
    requests
}

/// What these responses come to where these requests wait.
fn answered(requests: &[Json], responses: &[String]) -> Result<String, String> {
    let waiting: Vec<String> = requests
        .iter()
        .map(|r| format!(r#"{{"id":{},"data":{}}}"#, quote(&text(r, "id")), r.get("data").unwrap().canonical()))
        .collect();
    let answered = format!(
        r#"{{"conversationId":"c","participantId":"bot","turnId":"t","groupId":"g","requests":[{}],"responses":[{}]}}"#,
        waiting.join(","),
        responses.join(",")
    );
    answers(&answered).map_err(|failure| format!("{}: {failure}", failure.code()))
}

#[test]
fn a68_an_outside_runtime_asks_with_the_same_requests() {
    let requests = asked();
    assert_eq!(
        requests[1].canonical(),
        concat!(
            r#"{"data":{"actionId":"a1:call:1:action:1","arguments":{"n":1},"executionId":"a1","#,
            r#""parentCallId":"a1:call:1","toolCallId":"t2","toolName":"write"},"id":"a1:call:1:approval:1","#,
            r#""kind":"approval","reason":"the tool write may only run when it is approved"}"#
        )
    );
    assert_eq!(requests.len(), 2);
}

#[test]
fn k5_an_outside_runtime_has_every_answer_in_the_order_of_its_requests_or_none() {
    let requests = asked();
    let (yes, no) = (answer(&requests[0], true), answer(&requests[1], false));
    let both = r#"[["answer to a1:call:1:approval:0",true,null],["answer to a1:call:1:approval:1",false,null]]"#;
    assert_eq!(answered(&requests, &[no.clone(), yes.clone()]), Ok(both.to_owned()));
    let other = no.replace(r#"{"n":1}"#, r#"{"n":2}"#);
    for (responses, says) in [
        (vec![yes.clone()], "has no answer"),
        (vec![yes.clone(), other], "about another action"),
        (vec![yes.clone(), yes.clone(), no.clone()], "twice"),
        (vec![yes.replace(r#""turnId":"t""#, r#""turnId":"u""#), no], "turn"),
    ] {
        let error = answered(&requests, &responses).unwrap_err();
        assert!(error.starts_with("identity-mismatch: ") && error.contains(says), "{error} should name {says}");
    }
    assert!(answers("{}").unwrap_err().to_string().contains("conversationId"));
}
