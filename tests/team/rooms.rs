//! Rooms as text.

use crate::support::*;
use agent_roundtable::record::codec::seal;
use agent_roundtable::team::fold::fold;
use agent_roundtable::team::rooms::{escaped, line};
use agent_roundtable::team::state::Message;

fn message(sender: &str, mentions: &[&str], text: &str) -> Message {
    Message {
        room_id: "room".into(),
        text: text.into(),
        mentions: mentions.iter().map(|m| (*m).into()).collect(),
        id: format!("team/{sender}/1/0").as_str().into(),
        sender: sender.into(),
        position: format!("team/{sender}/1").as_str().into(),
        revision: 1,
        batch: 0,
    }
}

#[test]
fn t24_a_record_renders_to_the_same_bytes_again() {
    let store = Shared::default();
    let mut team = Team::new(&definition(&["a", "b"], &["room:a,b", "empty:"], 1, 5, 5), &store);
    team.run(|run| match &*run.position {
        "team/a/1" => posts("x", &["room|hi\\u2028there|b,b", "room|plain|"]),
        _ => posts("y", &[]),
    });
    let (state, revision) = fold(&store.borrow().batches).unwrap();
    let rooms = state.render_rooms(revision, "memory");
    assert_eq!(rooms.revision, store.borrow().batches.len() as u64);
    assert!(rooms.rooms[0].text.starts_with("a [team/a/1/0] @b @b: hi\\u2028there\na [team/a/1/1]: plain\n"));
    assert_eq!((rooms.rooms[1].text.as_str(), rooms.rooms[1].jsonl.as_str()), ("", ""));
    assert_eq!(state.render_rooms(revision, "memory"), rooms);
    assert_eq!(rooms.rooms[0].jsonl.lines().count(), rooms.rooms[0].text.lines().count());
    for twin in rooms.rooms[0].jsonl.lines() {
        assert!(json(twin).get("text").is_some());
    }
}

#[test]
fn t25_no_text_or_id_makes_a_line_of_its_own() {
    assert_eq!(
        escaped("\\ \n\r\t\u{0}\u{7f}\u{85}\u{9f}\u{2028}\u{2029}"),
        "\\\\ \\n\\r\\t\\u0000\\u007f\\u0085\\u009f\\u2028\\u2029"
    );
    for hidden in ['\u{61c}', '\u{200b}', '\u{200f}', '\u{202a}', '\u{202e}', '\u{2060}', '\u{2069}', '\u{feff}'] {
        assert_eq!(escaped(&hidden.to_string()), format!("\\u{:04x}", hidden as u32));
    }
    assert_eq!(escaped("\u{200a}\u{2010}\u{202f}\u{206a}é\u{1f600}"), "\u{200a}\u{2010}\u{202f}\u{206a}é\u{1f600}");
    let forged = message("b]: yes", &["x y"], "no");
    assert_eq!(line(&forged), "\"b]: yes\" [\"team/b]: yes/1/0\"] @\"x y\": no\n");
    assert_eq!(line(&message("a/b", &[], "")), "a/b [team/a/b/1/0]: \n");
}

#[test]
fn t25_t27_names_hold_no_id_and_differ_by_store_run_and_room() {
    let store = Shared::default();
    let rooms = ["../../etc/passwd:a", "b:a"];
    Team::new(&definition(&["a"], &rooms, 1, 5, 5), &store).run(|_| posts("x", &[]));
    let (state, revision) = fold(&store.borrow().batches).unwrap();
    let mut names = std::collections::BTreeSet::new();
    for identity in ["one", "two"] {
        let rendered = state.render_rooms(revision, identity);
        names.insert(rendered.index);
        for room in rendered.rooms {
            let hex = room.name.strip_prefix("room-").unwrap();
            assert!(hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()), "{}", room.name);
            names.insert(room.name);
        }
    }
    assert_eq!(names.len(), 6);
}

/// A line that was changed, with the sum of its text, so that what is refused is the event.
fn sealed(line: &str) -> String {
    let body = line.rfind(",\"sum\":").unwrap();
    seal(format!("{}}}", &line[..body]))
}

#[test]
fn t28_what_is_no_team_record_is_refused() {
    let store = Shared::default();
    Team::new(&definition(&["a"], &["room:a"], 1, 5, 5), &store).run(|_| posts("x", &["room|m|"]));
    let batches = store.borrow().batches.clone();
    let code = |edit: &dyn Fn(&mut Vec<agent_roundtable::conversation::input::Batch>)| {
        let mut edited = batches.clone();
        edit(&mut edited);
        fold(&edited).map(|_| ()).unwrap_err().code().unwrap()
    };
    let replace = |from: &'static str, to: &'static str| {
        move |batches: &mut Vec<agent_roundtable::conversation::input::Batch>| {
            let lines = batches.iter_mut().flat_map(|batch| &mut batch.entries);
            lines.for_each(|line| *line = sealed(&line.replace(from, to)));
        }
    };
    assert_eq!(code(&|batches| batches.clear()), "STORED_GRAPH_MISMATCH");
    assert_eq!(code(&replace("team-created/1", "created/1")), "STORED_GRAPH_MISMATCH");
    assert_eq!(code(&replace("team-created/1", "team-created/2")), "STORED_GRAPH_MISMATCH");
    assert_eq!(code(&replace("completed/1", "completed/2")), "INVALID_EVENT");
    assert_eq!(code(&replace("dispatched/1", "unheard-of/1")), "INVALID_EVENT");
    assert_eq!(
        code(&replace(r#""position":"team/a/1","result""#, r#""position":"team/a/1","extra":1,"result""#)),
        "INVALID_EVENT"
    );
    assert_eq!(
        code(&replace(
            r#"{"dispatched/1":{"nodeId":"a","position":"team/a/1"}"#,
            r#"{"dispatched/1":{"nodeId":"a","position":"team/a/2"}"#
        )),
        "INVALID_EVENT"
    );
    assert_eq!(code(&|batches| batches.swap_remove(1).entries.clear()), "INVALID_EVENT");
    assert_eq!(
        code(&|batches| batches[2].entries = [batches[2].entries.clone(), batches[2].entries.clone()].concat()),
        "INVALID_EVENT"
    );
}
