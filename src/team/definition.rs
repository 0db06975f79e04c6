//! A team's definition: checked as a whole, every finding at once, and kept as it was.

use super::issue::{INVALID_ID, INVALID_TEAM, Issue};
use crate::record::fold::MAX_SAFE_INTEGER;
use crate::record::model::Id;
use crate::record::state::IdMap;
use crate::value::bounds::{MAX_CONTENT, MAX_ID, MAX_VALUE};
use crate::value::text::{ecmascript_trim, utf16_len};
use crate::value::{CanonicalJson, Json};
use std::rc::Rc;

/// The most members, and the most rooms.
pub const MAX_MEMBERS: usize = 1000;
/// The most findings that are listed.
const MAX_ISSUES: usize = 1000;

/// A checked definition.
#[derive(Debug, PartialEq)]
pub struct Definition {
    /// The definition's id.
    pub id: Id,
    /// What the team is for.
    pub task: Rc<str>,
    /// Turns in one batch, at most.
    pub concurrency: u64,
    /// Turns of one member, at most.
    pub cap: u64,
    /// What members may say to each other; absent where they may not.
    pub communication: Option<Communication>,
    /// In declared order, which breaks every tie.
    pub members: Vec<Member>,
    /// The whole definition, as it is stored and compared.
    pub json: CanonicalJson,
    positions: IdMap<usize>,
}

/// Rooms, and how much of each a member is shown.
#[derive(Debug, PartialEq)]
pub struct Communication {
    /// Messages of each room in an input, counted from the last.
    pub tail: u64,
    /// In declared order.
    pub rooms: Vec<Room>,
    positions: IdMap<usize>,
}

/// A room.
#[derive(Debug, PartialEq)]
pub struct Room {
    /// Its id.
    pub id: Id,
    /// Positions of its members, in declared order of the room.
    pub members: Vec<usize>,
}

/// A member.
#[derive(Debug, PartialEq)]
pub struct Member {
    /// Its address.
    pub id: Id,
    /// What it is.
    pub role: Rc<str>,
    /// What it is told.
    pub brief: Rc<str>,
    /// Whether it has a turn before anybody mentions it.
    pub initial_turn: bool,
    /// Positions of the rooms it is in.
    pub rooms: Vec<usize>,
}

impl Definition {
    /// Checks a definition, given as plain data.
    pub fn compile(value: &Json) -> Result<Definition, Vec<Issue>> {
        let mut check = Check::default();
        let definition = check.definition(value);
        match definition {
            Some(definition) if check.issues.is_empty() => Ok(definition),
            _ => {
                check.issues.truncate(MAX_ISSUES);
                Err(check.issues)
            }
        }
    }

    /// The position of the member with this id.
    #[must_use]
    pub fn position(&self, id: &str) -> Option<usize> {
        self.positions.get(id).copied()
    }

    /// The position of the room with this id.
    #[must_use]
    pub fn room(&self, id: &str) -> Option<usize> {
        self.communication.as_ref()?.positions.get(id).copied()
    }

    /// The rooms, where there are any.
    #[must_use]
    pub fn rooms(&self) -> &[Room] {
        self.communication.as_ref().map_or(&[], |communication| &communication.rooms)
    }

    /// Whether a member is in a room.
    #[must_use]
    pub fn is_in(&self, member: usize, room: usize) -> bool {
        self.members.get(member).is_some_and(|member| member.rooms.binary_search(&room).is_ok())
    }
}

/// Whether a text is an id: not empty, not padded, without control characters, within the bound.
#[must_use]
pub fn is_identifier(text: &str) -> bool {
    !text.is_empty()
        && ecmascript_trim(text) == text
        && utf16_len(text) <= MAX_ID
        && !text.chars().any(|c| c <= '\u{1f}' || c == '\u{7f}')
}

/// The findings so far.
#[derive(Default)]
struct Check {
    issues: Vec<Issue>,
}

impl Check {
    fn found<T>(&mut self, code: &'static str, path: &str, message: impl Into<String>) -> Option<T> {
        self.issues.push(Issue::new(code, path, message));
        None
    }

    fn definition(&mut self, value: &Json) -> Option<Definition> {
        if !matches!(value, Json::Object(_)) {
            return self.found("INVALID_DEFINITION", "", "must be an object");
        }
        let json = CanonicalJson::of(value);
        if utf16_len(json.as_str()) > MAX_VALUE {
            return self.found("INVALID_DEFINITION", "", format!("has at most {MAX_VALUE} UTF-16 units as JSON"));
        }
        let id = self.identifier(value.get("id"), "/id");
        if limit_of(value.get("definitionVersion")).is_none() {
            self.found::<()>("INVALID_VERSION", "/definitionVersion", limit_rule());
        }
        let members = self.members(value.get("nodes"));
        let positions = members.iter().enumerate().filter_map(|(at, member)| Some((member.as_ref()?.id.clone(), at)));
        let positions: IdMap<usize> = positions.collect();
        match value.get("edges") {
            Some(Json::Array(edges)) if edges.is_empty() => {}
            Some(Json::Array(_)) => {
                self.found::<()>(INVALID_TEAM, "/edges", "must be empty: messages request turns, not edges");
            }
            _ => {
                self.found::<()>("INVALID_DEFINITION", "/edges", "must be a list");
            }
        }
        let data = match value.get("data") {
            Some(data @ Json::Object(_)) => data,
            _ => return self.found("INVALID_DEFINITION", "/data", "must be an object"),
        };
        let task = self.text(data, "task", "/data");
        let concurrency = self.limit(data, "globalConcurrency", "/data");
        let cap = self.limit(data, "maxTurnsPerMember", "/data");
        if let Some(cap) = cap
            && cap.checked_mul(members.len() as u64).is_none_or(|turns| turns > MAX_SAFE_INTEGER)
        {
            let message = "times the number of members must be a safe integer";
            self.found::<()>(INVALID_TEAM, "/data/maxTurnsPerMember", message);
        }
        let communication = match data.get("communication") {
            None => Some(None),
            Some(value) => self.communication(value, &positions).map(Some),
        };
        let (mut members, communication) = (members.into_iter().collect::<Option<Vec<_>>>()?, communication?);
        for (at, room) in communication.iter().flat_map(|c| c.rooms.iter().enumerate()) {
            for member in &room.members {
                if let Some(member) = members.get_mut(*member) {
                    member.rooms.push(at);
                }
            }
        }
        Some(Definition {
            id: id?,
            task: task?,
            concurrency: concurrency?,
            cap: cap?,
            communication,
            members,
            json,
            positions,
        })
    }

    fn members(&mut self, nodes: Option<&Json>) -> Vec<Option<Member>> {
        let Some(Json::Array(nodes)) = nodes else {
            self.found::<()>("INVALID_DEFINITION", "/nodes", "must be a list");
            return Vec::new();
        };
        if nodes.is_empty() || nodes.len() > MAX_MEMBERS {
            self.found::<()>(INVALID_TEAM, "/nodes", format!("must have 1 to {MAX_MEMBERS} members"));
        }
        let (mut ids, mut lanes) = (IdMap::<usize>::default(), IdMap::<String>::default());
        let read = nodes.iter().take(MAX_MEMBERS).enumerate();
        read.map(|(at, node)| {
            let member = self.member(node, &format!("/nodes/{at}"), &mut lanes)?;
            if let Some(first) = ids.insert(member.id.clone(), at) {
                let message = format!("is the id of /nodes/{first} as well");
                return self.found("DUPLICATE_NODE_ID", &format!("/nodes/{at}/id"), message);
            }
            Some(member)
        })
        .collect()
    }

    fn member(&mut self, node: &Json, path: &str, lanes: &mut IdMap<String>) -> Option<Member> {
        if !matches!(node, Json::Object(_)) {
            return self.found("INVALID_DEFINITION", path, "must be an object");
        }
        let id = self.identifier(node.get("id"), &format!("{path}/id"));
        let path = format!("{path}/data");
        let Some(data @ Json::Object(_)) = node.get("data") else {
            return self.found("INVALID_DEFINITION", &path, "must be an object");
        };
        let role = self.text(data, "role", &path);
        let brief = self.text(data, "brief", &path);
        let initial_turn = match data.get("initialTurn") {
            None => Some(true),
            Some(Json::Bool(initial)) => Some(*initial),
            Some(_) => self.found(INVALID_TEAM, &format!("{path}/initialTurn"), "must be a boolean"),
        };
        if let Some(lane) = data.get("lane") {
            self.lane(lane, &format!("{path}/lane"), lanes);
        }
        Some(Member { id: id?, role: role?, brief: brief?, initial_turn: initial_turn?, rooms: Vec::new() })
    }

    /// Members that name the same lane must mean the same.
    fn lane(&mut self, lane: &Json, path: &str, lanes: &mut IdMap<String>) {
        if !matches!(lane, Json::Object(_)) {
            self.found::<()>(INVALID_TEAM, path, "must be an object");
            return;
        }
        let Some(id) = self.identifier(lane.get("id"), &format!("{path}/id")) else { return };
        let declared = lane.canonical();
        if *lanes.entry(id).or_insert_with(|| declared.clone()) != declared {
            self.found::<()>(INVALID_TEAM, path, "is declared otherwise by an earlier member");
        }
    }

    fn communication(&mut self, value: &Json, positions: &IdMap<usize>) -> Option<Communication> {
        let path = "/data/communication";
        if !matches!(value, Json::Object(_)) {
            return self.found(INVALID_TEAM, path, "must be an object");
        }
        let tail = self.limit(value, "tailMessages", path);
        let Some(Json::Array(list)) = value.get("rooms") else {
            return self.found(INVALID_TEAM, &format!("{path}/rooms"), "must be a list");
        };
        if list.len() > MAX_MEMBERS {
            self.found::<()>(INVALID_TEAM, &format!("{path}/rooms"), format!("has at most {MAX_MEMBERS} rooms"));
        }
        let (mut rooms, mut ids) = (Vec::new(), IdMap::<usize>::default());
        for (at, room) in list.iter().take(MAX_MEMBERS).enumerate() {
            let path = format!("{path}/rooms/{at}");
            let Some(room) = self.room(room, &path, positions) else { continue };
            if let Some(first) = ids.insert(room.id.clone(), at) {
                let message = format!("is the id of room {first} as well");
                self.found::<()>(INVALID_TEAM, &format!("{path}/id"), message);
            }
            rooms.push(room);
        }
        Some(Communication { tail: tail?, rooms, positions: ids })
    }

    fn room(&mut self, room: &Json, path: &str, positions: &IdMap<usize>) -> Option<Room> {
        if !matches!(room, Json::Object(_)) {
            return self.found(INVALID_TEAM, path, "must be an object");
        }
        let id = self.identifier(room.get("id"), &format!("{path}/id"));
        let Some(Json::Array(list)) = room.get("members") else {
            return self.found(INVALID_TEAM, &format!("{path}/members"), "must be a list");
        };
        let mut members = Vec::new();
        let mut seen = vec![false; positions.len()];
        for (at, member) in list.iter().enumerate() {
            let path = format!("{path}/members/{at}");
            match member.as_str().and_then(|id| positions.get(id)) {
                None => {
                    self.found::<()>(INVALID_TEAM, &path, "must be the id of a member");
                }
                Some(position) => match seen.get_mut(*position) {
                    Some(seen) if *seen => {
                        self.found::<()>(INVALID_TEAM, &path, "is in the list already");
                    }
                    seen => {
                        seen.into_iter().for_each(|seen| *seen = true);
                        members.push(*position);
                    }
                },
            }
        }
        Some(Room { id: id?, members })
    }

    fn identifier(&mut self, value: Option<&Json>, path: &str) -> Option<Id> {
        match value.and_then(Json::as_str).filter(|text| is_identifier(text)) {
            Some(id) => Some(id.into()),
            None => {
                let rule =
                    "must be a string of 1 to {} UTF-16 units, without white space at its ends or control characters";
                self.found(INVALID_ID, path, rule.replace("{}", &MAX_ID.to_string()))
            }
        }
    }

    fn text(&mut self, data: &Json, key: &str, path: &str) -> Option<Rc<str>> {
        match data.get(key).and_then(Json::as_str).filter(|text| utf16_len(text) <= MAX_CONTENT) {
            Some(text) => Some(text.into()),
            None => {
                let message = format!("must be a string of at most {MAX_CONTENT} UTF-16 units");
                self.found(INVALID_TEAM, &format!("{path}/{key}"), message)
            }
        }
    }

    fn limit(&mut self, data: &Json, key: &str, path: &str) -> Option<u64> {
        match limit_of(data.get(key)) {
            Some(limit) => Some(limit),
            None => self.found(INVALID_TEAM, &format!("{path}/{key}"), limit_rule()),
        }
    }
}

fn limit_rule() -> String {
    format!("must be an integer from 1 to {MAX_SAFE_INTEGER}")
}

/// A positive safe integer.
#[must_use]
pub fn limit_of(value: Option<&Json>) -> Option<u64> {
    match value {
        Some(Json::Number(number)) if number.fract() == 0.0 && (1.0..=MAX_SAFE_INTEGER as f64).contains(number) => {
            // Whole and within the range: nothing is lost.
            Some(*number as u64)
        }
        _ => None,
    }
}
