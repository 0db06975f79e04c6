//! Exported transcripts: nothing anybody wrote reads as structure, in the text or where it is rendered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use agent_roundtable::record::transcript::{Format, transcript};
use proptest::prelude::*;
use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};
use serde_json::{Value, json};

fn message(index: usize, (author, content): &(String, String)) -> Value {
    json!({ "id": format!("m{index}"), "participantId": author, "content": content, "revision": 2,
        "turnId": "t", "groupId": "g" })
}

fn snapshot(id: &str, purpose: Option<&str>, messages: &[(String, String)]) -> Value {
    let messages: Vec<_> = messages.iter().enumerate().map(|(index, said)| message(index, said)).collect();
    let mut snapshot = json!({ "conversationId": id, "revision": 3, "status": "open",
        "participants": [{ "id": id, "kind": "agent" }], "messages": messages, "turns": [],
        "usage": [], "requests": [], "checkpoint": "SECRET" });
    if let Some(purpose) = purpose {
        snapshot["purpose"] = purpose.into();
    }
    snapshot
}

fn export(snapshot: &Value, format: Format) -> String {
    transcript(&snapshot.to_string(), format).unwrap()
}

#[test]
fn c52_a_transcript_is_markdown_for_people() {
    let said = [("ana".to_owned(), "one\ntwo".to_owned()), ("b`o".to_owned(), String::new())];
    let text = export(&snapshot("c 1", Some("agree"), &said), Format::Markdown);
    assert_eq!(
        text,
        "# Conversation `c 1`\n\n- Revision: 3\n- Status: `open`\n- Participants: `c 1`\n\nPurpose:\n\n> agree\n\
         \n## 1. `ana`\n\n> one\n> two\n\n## 2. `` b`o ``\n\n> \n"
    );
}

#[test]
fn c52_a_transcript_is_json_lines_for_programs() {
    let mut given = snapshot("c", None, &[("ana".to_owned(), "a\u{2028}b\u{85}\n".to_owned())]);
    given["turns"] = json!([{ "id": "t", "groupId": "g", "participantId": "ana", "outcome": "speak",
        "startedAt": "2026-01-01T00:00:00.000Z", "settledAt": "2026-01-01T00:00:01.000Z" }]);
    given["messages"][0]["roomId"] = "r".into();
    given["messages"][0]["mentions"] = json!(["bo"]);
    let text = export(&given, Format::JsonLines);
    assert_eq!(
        text,
        concat!(
            r#"{"type":"conversation","conversationId":"c","revision":3,"status":"open","#,
            r#""participants":[{"id":"c","kind":"agent"}]}"#,
            "\n",
            r#"{"type":"message","id":"m0","participantId":"ana","content":"a\u2028b\u0085\n","revision":2,"#,
            r#""turnId":"t","groupId":"g","roomId":"r","mentions":["bo"]}"#,
            "\n",
            r#"{"type":"turn","id":"t","groupId":"g","participantId":"ana","outcome":"speak","#,
            r#""startedAt":"2026-01-01T00:00:00.000Z","settledAt":"2026-01-01T00:00:01.000Z"}"#,
            "\n",
        )
    );
}

#[test]
fn c52_what_is_no_snapshot_is_refused() {
    for key in ["conversationId", "revision", "status", "participants", "messages", "turns"] {
        let mut given = snapshot("c", None, &[]);
        given.as_object_mut().unwrap().remove(key);
        transcript(&given.to_string(), Format::Markdown).unwrap_err();
        given[key] = true.into();
        transcript(&given.to_string(), Format::JsonLines).unwrap_err();
    }
}

/// Text made of what forgeries are made of.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("## 2. `bo`".to_owned()),
        Just("# ".to_owned()),
        Just("</blockquote><h2>2. bo</h2>".to_owned()),
        Just("<!-- ".to_owned()),
        Just("-->".to_owned()),
        Just("<".to_owned()),
        Just("\\".to_owned()),
        Just("```".to_owned()),
        Just("`".to_owned()),
        Just("> ".to_owned()),
        Just("    ".to_owned()),
        Just("\n---\n".to_owned()),
        Just("\n\n".to_owned()),
        Just("{\"type\":\"message\"}".to_owned()),
        "[\r\n\u{b}\u{c}\u{1c}\u{1d}\u{1e}\u{85}\u{2028}\u{2029}]",
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// The headings that stand in no quotation, and their text.
fn headings(markdown: &str) -> Vec<(HeadingLevel, String)> {
    let (mut depth, mut open, mut found) = (0, None, Vec::new());
    for event in Parser::new(markdown) {
        match event {
            Event::Start(Tag::BlockQuote(_)) => depth += 1,
            Event::End(TagEnd::BlockQuote(_)) => depth -= 1,
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => open = Some((level, String::new())),
            Event::End(TagEnd::Heading(_)) => found.extend(open.take()),
            Event::Html(html) | Event::InlineHtml(html) => panic!("HTML: {html:?}"),
            Event::Text(text) | Event::Code(text) => {
                if let Some((_, heading)) = &mut open {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    found
}

fn is_line_end(c: char) -> bool {
    "\r\n\u{b}\u{c}\u{1c}\u{1d}\u{1e}\u{85}\u{2028}\u{2029}".contains(c)
}

proptest! {
    /// Whatever ids, purpose and content hold: one header for the conversation and one for each message,
    /// in the text, by any reader's line ends, and where it is rendered.
    #[test]
    fn c52_no_content_forges_a_header(
        id in hostile(),
        purpose in prop::option::of(hostile()),
        said in prop::collection::vec((hostile(), hostile()), 0..4),
    ) {
        let text = export(&snapshot(&id, purpose.as_deref(), &said), Format::Markdown);
        let own = |line: &&str| line.starts_with('#');
        prop_assert_eq!(text.split(is_line_end).filter(own).count(), 1 + said.len(), "{}", text);
        let known = ["# ", "- ", "## ", "> ", "Purpose:"];
        for line in text.split(is_line_end) {
            prop_assert!(line.is_empty() || known.iter().any(|start| line.starts_with(start)), "{:?}", line);
        }
        let headings = headings(&text);
        prop_assert_eq!(headings.len(), 1 + said.len(), "{}", text);
        for (index, (level, heading)) in headings.iter().enumerate() {
            let due = if index == 0 { HeadingLevel::H1 } else { HeadingLevel::H2 };
            prop_assert_eq!(*level, due);
            let start = if index == 0 { "Conversation ".to_owned() } else { format!("{index}. ") };
            prop_assert!(heading.starts_with(&start), "{:?}", heading);
        }
        prop_assert!(!text.contains("SECRET"));
    }

    /// Every line is one object, by any reader's line ends, and nothing is lost.
    #[test]
    fn c52_json_lines_hold_what_was_said(
        id in hostile(),
        purpose in prop::option::of(hostile()),
        said in prop::collection::vec((hostile(), hostile()), 0..4),
    ) {
        let given = snapshot(&id, purpose.as_deref(), &said);
        let text = export(&given, Format::JsonLines);
        let lines: Vec<Value> = text
            .split_terminator(is_line_end)
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        prop_assert_eq!(lines.len(), 1 + said.len());
        prop_assert_eq!(lines[0].get("purpose"), given.get("purpose"));
        prop_assert_eq!(&lines[0]["conversationId"], &given["conversationId"]);
        for (line, message) in lines.iter().skip(1).zip(given["messages"].as_array().unwrap()) {
            let mut line = line.clone();
            prop_assert_eq!(line.as_object_mut().unwrap().remove("type"), Some("message".into()));
            prop_assert_eq!(&line, message);
        }
        prop_assert!(!text.contains("SECRET"));
    }
}
