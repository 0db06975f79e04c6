//! Tool calls that cannot be carried out: the model is told, and the loop goes on.

use crate::host::{Host, agent, calling, options, options_with_tool, reply, tool};
use agent_roundtable::runtime::agent::{Effect, ToolOutcome};
use agent_roundtable::runtime::config::AgentOptions;
use agent_roundtable::runtime::outcome::TurnOutcome;
use agent_roundtable::runtime::schema;
use agent_roundtable::runtime::tool::ToolFault;
use agent_roundtable::value::Json;
use agent_roundtable::value::bounds::MAX_TEXT;
use agent_roundtable::value::text::utf16_len;

/// What the model reads after one call of `add`; the turn must end well.
fn answer(name: &str, arguments: &str, outcome: ToolOutcome) -> String {
    let replies = [calling(&[("t1", name, arguments)]), reply("ok", &[])];
    let mut host = Host::new(agent(options_with_tool())).replying(replies);
    host.tool = Box::new(move |_| outcome.clone());
    assert_eq!(host.run("a1"), Effect::Finish(TurnOutcome::Speak("ok".into())));
    let result = &host.requests[1][2];
    assert_eq!((result.tool_call_id.as_deref(), result.name.as_deref()), (Some("t1"), Some(name)));
    result.content.clone().unwrap()
}

fn unused() -> ToolOutcome {
    ToolOutcome::Returned(Json::String("the tool was run".into()))
}

#[test]
fn an_unknown_tool_is_named_with_those_that_exist() {
    let expected = r#"{"error":{"code":"unknown-tool","message":"there is no tool of this name; the tools are: add"}}"#;
    assert_eq!(answer("sub", "{}", unused()), expected);
}

#[test]
fn malformed_arguments_are_explained() {
    for arguments in
        ["{\"a\":1", "nonsense", "{\"a\":1}{}", "{\"a\":1,\"a\":2,\"b\":3}", "{\"a\":\"\\ud800\",\"b\":1}", "NaN"]
    {
        let content = answer("add", arguments, unused());
        assert!(
            content.starts_with(r#"{"error":{"code":"invalid-arguments","message":"the arguments are not valid JSON"#),
            "{content}"
        );
    }
}

#[test]
fn arguments_of_the_wrong_type_name_their_path() {
    for (arguments, message) in [
        ("[]", "arguments: expected object, found array"),
        ("", "arguments.a: missing"),
        (r#"{"a":1}"#, "arguments.b: missing"),
        (r#"{"a":1,"b":"2"}"#, "arguments.b: expected number, found string"),
    ] {
        let content = answer("add", arguments, unused());
        assert_eq!(content, format!(r#"{{"error":{{"code":"invalid-arguments","message":"{message}"}}}}"#));
    }
}

#[test]
fn results_are_text_as_it_is_or_canonical_json() {
    let arguments = r#"{"a":1,"b":2}"#;
    let returned = |json: &str| answer("add", arguments, ToolOutcome::Returned(Json::parse(json).unwrap()));
    assert_eq!(returned("\"plain\\ntext\""), "plain\ntext");
    assert_eq!(returned("{\"b\":1.0,\"a\":[null]}"), "{\"a\":[null],\"b\":1}");
    assert_eq!(returned("null"), "null");
}

#[test]
fn a_tool_that_fails_or_returns_no_json_is_told_to_the_model() {
    let arguments = r#"{"a":1,"b":2}"#;
    let failed = answer("add", arguments, ToolOutcome::Fault(ToolFault::Failed("disk \"full\"".into())));
    assert_eq!(failed, r#"{"error":{"code":"tool-failed","message":"disk \"full\""}}"#);
    let odd = answer("add", arguments, ToolOutcome::Fault(ToolFault::InvalidResult("result: undefined".into())));
    assert_eq!(odd, r#"{"error":{"code":"invalid-result","message":"result: undefined"}}"#);
    let longest = answer("add", arguments, ToolOutcome::Returned(Json::String("x".repeat(1_048_576))));
    assert_eq!(longest.len(), 1_048_576, "the bound itself");
    let long = answer("add", arguments, ToolOutcome::Returned(Json::String("x".repeat(1_048_577))));
    assert_eq!(
        long,
        r#"{"error":{"code":"invalid-result","message":"the result is longer than 1048576 UTF-16 units"}}"#
    );
    let escapes = answer("add", arguments, ToolOutcome::Returned(Json::String("\u{1}".repeat(1_000_000))));
    assert_eq!(escapes.len(), 1_000_000, "what escapes make of it does not count");
    let wordy = answer("add", arguments, ToolOutcome::Fault(ToolFault::Failed("x".repeat(100_000))));
    assert!(wordy.len() < 9_000 && wordy.contains('\u{2026}'));
}

#[test]
fn a_long_message_of_a_fault_is_cut_to_the_bound_of_a_text() {
    let message = |text: String| {
        let json = ToolFault::Failed(text).to_json();
        json.get("error").and_then(|error| error.get("message")).and_then(Json::as_str).unwrap().to_owned()
    };
    let longest = "x".repeat(MAX_TEXT);
    assert_eq!(message(longest.clone()), longest);
    assert_eq!(message(longest.clone() + "x"), longest[1..].to_owned() + "\u{2026}");
    let pairs = message("\u{1f600}".repeat(MAX_TEXT));
    assert_eq!(utf16_len(&pairs), MAX_TEXT - 1, "no half of a pair is kept");
}

#[test]
fn a_refused_call_does_not_keep_its_siblings_from_running() {
    let calls = calling(&[("t1", "add", "oops"), ("t2", "add", r#"{"a":1,"b":2}"#)]);
    let mut host = Host::new(agent(options_with_tool())).replying([calls, reply("ok", &[])]);
    host.run("a1");
    let contents: Vec<_> = host.requests[1][2..].iter().map(|m| m.content.as_deref().unwrap()).collect();
    assert!(contents[0].contains("invalid-arguments"));
    assert_eq!(contents[1], "ran t2");
}

#[test]
fn an_agent_without_tools_answers_an_invented_call() {
    let replies = [calling(&[("t1", "ghost", "{}")]), reply("ok", &[])];
    let mut host = Host::new(agent(options())).replying(replies);
    assert_eq!(host.run("a1"), Effect::Finish(TurnOutcome::Speak("ok".into())));
}

#[test]
fn each_keyword_of_the_schema_subset_accepts_and_refuses() {
    let cases = [
        (r#"{"type":["integer","null"]}"#, "3", "3.5"),
        (r#"{"type":"boolean"}"#, "true", "0"),
        (r#"{"properties":{"x":{"type":"string"}}}"#, r#"{"x":"","y":1}"#, r#"{"x":1}"#),
        (r#"{"properties":{"x":true},"additionalProperties":false}"#, r#"{"x":1}"#, r#"{"x":1,"y":2}"#),
        (r#"{"additionalProperties":{"type":"number"}}"#, r#"{"y":2}"#, r#"{"y":"2"}"#),
        (r#"{"required":["x"]}"#, r#"{"x":null}"#, "{}"),
        (r#"{"items":{"type":"string"}}"#, r#"["a"]"#, r#"["a",1]"#),
        (r#"{"enum":["a",{"b":1,"c":2}]}"#, r#"{"c":2,"b":1.0}"#, r#""b""#),
        (r#"{"anyOf":[{"type":"string"},{"minimum":5}]}"#, "5", "4"),
        (r#"{"minimum":1,"maximum":2}"#, "2", "0.5"),
        (r#"{"minimum":1,"maximum":2}"#, "1", "2.5"),
        (r#"{"items":false}"#, "[]", "[1]"),
        (r#"{"exclusiveMinimum":1}"#, "1.5", "1"),
        (r#"{"exclusiveMaximum":2}"#, "1.5", "2"),
        (r#"{"minimum":1,"exclusiveMinimum":true}"#, "1", "0"),
        (r#"{"const":{"a":1,"b":2}}"#, r#"{"b":2,"a":1}"#, r#"{"a":1}"#),
        (r#"{"minLength":2}"#, r#""é😀""#, r#""é""#),
        (r#"{"maxLength":2}"#, r#""é😀""#, r#""abc""#),
        (r#"{"minItems":1}"#, "[1]", "[]"),
        (r#"{"maxItems":1}"#, "[1]", "[1,2]"),
        (r#"{"prefixItems":[{"type":"string"}],"items":{"type":"number"}}"#, r#"["a",1,2]"#, r#"["a","b"]"#),
        (r#"{"prefixItems":[{"type":"string"}]}"#, r#"["a",true]"#, "[1]"),
        (r#"{"items":[{"type":"string"}],"additionalItems":false}"#, r#"["a"]"#, r#"["a",1]"#),
        (r#"{"patternProperties":{"^x-":{}},"additionalProperties":false,"type":"object"}"#, r#"{"x-a":1}"#, "1"),
        (r#"{"allOf":[{"minimum":1},{"maximum":2}]}"#, "1.5", "3"),
        (r#"{"oneOf":[{"type":"string"},{"minimum":5}]}"#, "5", "4"),
        (r#"{"oneOf":[{"minimum":1},{"minimum":5}]}"#, "4", "6"),
        (r#"{"not":{"type":"string"}}"#, "1", r#""a""#),
        (r##"{"$ref":"#/$defs/a~1b~0c","$defs":{"a/b~c":{"type":"string"}}}"##, r#""a""#, "1"),
        (
            r##"{"properties":{"u":{"$ref":"#/definitions/u"}},"definitions":{"u":{"required":["n"]}}}"##,
            r#"{"u":{"n":1}}"#,
            r#"{"u":{}}"#,
        ),
        (r##"{"items":{"$ref":"#/prefixItems/0"},"prefixItems":[{"type":"string"}]}"##, r#"["a","b"]"#, r#"["a",1]"#),
        (
            r##"{"properties":{"next":{"$ref":"#"}},"required":["v"]}"##,
            r#"{"v":1,"next":{"v":2}}"#,
            r#"{"v":1,"next":{}}"#,
        ),
        (
            r##"{"properties":{"a":{"$ref":"https://example.com/a"},"b":{"$ref":"#/nothing"}},"type":"object"}"##,
            r#"{"a":1,"b":2}"#,
            "1",
        ),
        (r#"{"pattern":"ignored","type":"string"}"#, r#""x""#, "1"),
    ];
    for (text, good, bad) in cases {
        let parsed = Json::parse(text).unwrap();
        assert_eq!(schema::check_schema(&parsed, "s"), Ok(()), "{text}");
        assert_eq!(schema::check(&Json::parse(good).unwrap(), &parsed, "v"), Ok(()), "{text} {good}");
        assert!(schema::check(&Json::parse(bad).unwrap(), &parsed, "v").is_err(), "{text} {bad}");
    }
    for bad in [
        r#"{"type":"text"}"#,
        r#"{"type":["string",1]}"#,
        r#"{"properties":[]}"#,
        r#"{"required":[1]}"#,
        r#"{"items":[1]}"#,
        r#"{"items":1}"#,
        r#"{"prefixItems":{}}"#,
        r#"{"allOf":{}}"#,
        r#"{"oneOf":[null]}"#,
        r#"{"not":[]}"#,
        r#"{"$defs":[]}"#,
        r#"{"definitions":{"a":1}}"#,
        r#"{"exclusiveMinimum":"1"}"#,
        r#"{"minLength":-1}"#,
        r#"{"maxItems":1.5}"#,
        r#"{"maxLength":"1"}"#,
        r#"{"$ref":1}"#,
        r#"{"anyOf":{}}"#,
        r#"{"enum":"a"}"#,
        r#"{"maximum":null}"#,
        "null",
    ] {
        assert!(schema::check_schema(&Json::parse(bad).unwrap(), "s").is_err(), "{bad}");
    }
}

#[test]
fn a_schema_that_leads_into_itself_without_end_refuses_instead_of_going_on() {
    for text in [
        r##"{"$ref":"#"}"##,
        r##"{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}"##,
        r##"{"not":{"$ref":"#"}}"##,
        r##"{"oneOf":[{"$ref":"#"},{"allOf":[{"$ref":"#"},{"$ref":"#"}]}]}"##,
    ] {
        let parsed = Json::parse(text).unwrap();
        assert_eq!(schema::check_schema(&parsed, "s"), Ok(()), "{text}");
        let fault = schema::check(&Json::parse("1").unwrap(), &parsed, "v").unwrap_err();
        assert!(fault.message.contains("1000000 steps"), "{text}: {}", fault.message);
    }
    let each = Json::parse(r#"{"items":{"anyOf":[{"type":"number"}]}}"#).unwrap();
    assert_eq!(
        schema::check(&Json::Array(vec![Json::Number(1.0); 100_000]), &each, "v"),
        Ok(()),
        "many items are fine"
    );
}

#[test]
fn a_tool_is_found_by_its_whole_name() {
    let options = AgentOptions { tools: vec![tool("add", "true"), tool("adder", "true")], ..options() };
    let mut host = Host::new(agent(options)).replying([calling(&[("t1", "adder", "[1]")]), reply("ok", &[])]);
    host.tool = Box::new(|run| ToolOutcome::Returned(Json::Number(run.tool as f64)));
    host.run("a1");
    assert_eq!(host.requests[1][2].content.as_deref(), Some("1"));
}
