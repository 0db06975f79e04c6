//! Whatever members say: a record folds back into the state that wrote it, one text for each event, one
//! line for each message, and every input shows what a scan of everything would.

use crate::support::*;
use agent_roundtable::record::codec::{decode_as, encode};
use agent_roundtable::team::fold::fold;
use agent_roundtable::team::turns::Run;
use agent_roundtable::team::{Event, State};
use agent_roundtable::value::Json;
use proptest::prelude::*;

/// What each turn posts: room, text, mentions as bits.
type Script = Vec<Vec<(usize, String, u8)>>;

fn script() -> impl Strategy<Value = Script> {
    let text = prop::collection::vec(any::<char>(), 0..6).prop_map(|chars| chars.into_iter().collect::<String>());
    prop::collection::vec(prop::collection::vec((0_usize..3, text, any::<u8>()), 0..3), 1..12)
}

const MEMBERS: [&str; 4] = ["a", "b", "c", "d"];
const ROOMS: [(&str, [usize; 3]); 3] = [("x", [0, 1, 2]), ("y", [1, 2, 3]), ("z", [0, 2, 3])];

fn play(script: &Script, tail: u64, concurrency: u64) -> (Team, Shared) {
    let store = Shared::default();
    let rooms: Vec<String> =
        ROOMS.iter().map(|(id, m)| format!("{id}:{}", m.map(|at| MEMBERS[at]).join(","))).collect();
    let rooms: Vec<&str> = rooms.iter().map(String::as_str).collect();
    let mut team = Team::new(&definition(&MEMBERS, &rooms, concurrency, 50, tail), &store);
    let mut turns = script.iter();
    team.run(|run| result(&said(run, turns.next())));
    (team, store)
}

fn said(run: &Run, turn: Option<&Vec<(usize, String, u8)>>) -> String {
    let posts = turn.into_iter().flatten().filter(|(room, ..)| ROOMS[*room].1.contains(&run.member));
    let posts = posts.map(|(room, text, bits)| {
        let mentioned = ROOMS[*room].1.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
        let mentions = mentioned.map(|(_, at)| Json::String(MEMBERS[*at].to_owned())).collect();
        Json::Object(vec![
            ("roomId".into(), Json::String(ROOMS[*room].0.into())),
            ("text".into(), Json::String(text.clone())),
            ("mentions".into(), Json::Array(mentions)),
        ])
    });
    let members = vec![("summary".into(), Json::String("s".into())), ("posts".into(), Json::Array(posts.collect()))];
    Json::Object(members).canonical()
}

/// The messages a member may see, found by looking at all of them.
fn scanned(state: &State, member: usize, seen: usize, triggers: &[usize], tail: usize) -> Vec<String> {
    let before = &state.messages[..seen];
    let mut visible: Vec<usize> = triggers.to_vec();
    for (id, members) in ROOMS.iter().filter(|(_, members)| members.contains(&member)) {
        let _ = members;
        let of_room: Vec<usize> = (0..before.len()).filter(|at| &*before[*at].room_id == *id).collect();
        visible.extend(of_room.iter().rev().take(tail));
    }
    visible.sort_unstable();
    visible.dedup();
    visible.into_iter().map(|at| state.messages[at].id.to_string()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn t24_t28_a_record_folds_into_the_state_that_wrote_it(script in script(), tail in 1_u64..5, concurrency in 1_u64..4) {
        let (team, store) = play(&script, tail, concurrency);
        let (state, revision) = fold(&store.borrow().batches).unwrap();
        prop_assert_eq!(revision, team.machine.revision());
        prop_assert_eq!(format!("{:?}", state.members), format!("{:?}", team.machine.durable().members));
        prop_assert_eq!(&state.messages, &team.machine.durable().messages);
        for batch in &store.borrow().batches {
            for line in &batch.entries {
                let event: Event = decode_as(line).unwrap();
                prop_assert_eq!(&encode(&event).unwrap(), line);
            }
        }
        // Any line left out or doubled is noticed, unless it is the last.
        let batches = store.borrow().batches.clone();
        for at in 1..batches.len() {
            for line in 0..batches[at].entries.len() {
                let mut doubled = batches.clone();
                let copy = doubled[at].entries[line].clone();
                doubled[at].entries.insert(line, copy);
                prop_assert!(fold(&doubled).is_err());
            }
        }
    }

    #[test]
    fn t05_t08_inputs_show_triggers_and_tails_of_ones_own_rooms(script in script(), tail in 1_u64..5) {
        let (team, _) = play(&script, tail, 2);
        let state = team.machine.durable();
        for (at, member) in state.members.iter().enumerate() {
            let Some(turn) = &member.turn else { continue };
            let shown: Vec<String> = match team.input_of(&turn.position).get("messages") {
                Some(Json::Array(messages)) => messages.iter().map(|m| m.get("id").unwrap().as_str().unwrap().to_owned()).collect(),
                _ => Vec::new(),
            };
            prop_assert_eq!(shown, scanned(state, at, turn.seen, &turn.triggers, tail as usize));
        }
    }

    #[test]
    fn t25_every_message_is_one_line_that_reads_back(script in script()) {
        let (_, store) = play(&script, 9, 2);
        let (state, revision) = fold(&store.borrow().batches).unwrap();
        let rooms = state.render_rooms(revision, "s");
        for (at, room) in rooms.rooms.iter().enumerate() {
            let messages: Vec<_> = state.rooms[at].iter().map(|at| &state.messages[*at]).collect();
            prop_assert_eq!(room.text.matches('\n').count(), messages.len());
            prop_assert_eq!(room.jsonl.matches('\n').count(), messages.len());
            for (line, message) in room.jsonl.lines().zip(&messages) {
                let twin = json(line);
                prop_assert_eq!(twin.get("text").unwrap().as_str().unwrap(), &*message.text);
            }
            let plain = |c: char| c == '\n' || !(c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c));
            prop_assert!(room.text.chars().all(plain), "only line ends are left bare");
        }
    }
}
