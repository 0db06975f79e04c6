//! What a seed decides before anything happens: the team, its options, and how rough it gets.

use super::rng::Rng;
use serde_json::{Value, json};

pub struct Member {
    pub id: &'static str,
    pub starts: bool,
    pub retry_safe: bool,
    /// An agent with a private state; functions have none.
    pub is_agent: bool,
}

pub struct Plan {
    pub members: Vec<Member>,
    /// Each room's id and members; `None` where the team has no communication.
    pub rooms: Option<Vec<(&'static str, Vec<usize>)>>,
    pub concurrency: usize,
    pub cap: u64,
    pub tail: usize,
    pub oldest_first: bool,
    pub soft: bool,
    pub ignores_self: bool,
    pub input_bytes: Option<u64>,
    pub drops_tail: bool,
    pub output_bytes: Option<u64>,
    pub lease_ms: u64,
    pub settle_ms: Option<u64>,
    /// Calls and members take up to this long, where nothing delays them.
    pub pace_ms: u64,
    /// In thousandths: how often something goes wrong where it could.
    pub roughness: u32,
    /// Hosts that are at work from the beginning.
    pub hosts: usize,
}

/// One id is another's beginning, and one looks like a position.
const IDS: [&str; 6] = ["a", "a/1", "team/a/1", "b", "c", "d"];
const ROOMS: [&str; 4] = ["r", "../r", "s", "t"];

impl Plan {
    pub fn draw(rng: &Rng) -> Plan {
        let count = rng.between(1, IDS.len() as u64) as usize;
        let member = |id: &&'static str| Member {
            id,
            starts: rng.chance(750),
            retry_safe: rng.chance(500),
            is_agent: rng.chance(300),
        };
        let members: Vec<Member> = IDS[..count].iter().map(member).collect();
        // An agent's turn is never repeated unasked.
        let members = members.into_iter().map(|m| Member { retry_safe: m.retry_safe && !m.is_agent, ..m }).collect();
        let room = |id: &&'static str| (*id, (0..count).filter(|_| rng.chance(650)).collect());
        let rooms = rng.chance(930).then(|| ROOMS[..rng.below(5)].iter().map(room).collect());
        let lease_ms = rng.between(300, 3_000);
        Plan {
            members,
            rooms,
            concurrency: rng.between(1, 3) as usize,
            cap: rng.between(1, 7),
            tail: rng.between(1, 4) as usize,
            oldest_first: rng.chance(400),
            soft: rng.chance(400),
            ignores_self: rng.chance(400),
            input_bytes: rng.chance(200).then(|| rng.between(150, 900)),
            drops_tail: rng.chance(600),
            output_bytes: rng.chance(100).then(|| rng.between(40, 200)),
            lease_ms,
            settle_ms: rng.chance(600).then(|| rng.between(1, lease_ms)),
            pace_ms: rng.between(1, lease_ms / 4),
            roughness: *rng.pick(&[0, 5, 20, 60]),
            hosts: 1 + rng.below(2),
        }
    }

    pub fn definition(&self) -> String {
        let node = |m: &Member| json!({ "id": m.id, "data": { "role": "r", "brief": "b", "initialTurn": m.starts } });
        let mut data = json!({ "task": "t", "globalConcurrency": self.concurrency, "maxTurnsPerMember": self.cap });
        if let Some(rooms) = &self.rooms {
            let names = |members: &Vec<usize>| members.iter().map(|at| self.members[*at].id).collect::<Vec<_>>();
            let room = |(id, members): &(&str, Vec<usize>)| json!({ "id": id, "members": names(members) });
            let rooms: Vec<Value> = rooms.iter().map(room).collect();
            data["communication"] = json!({ "tailMessages": self.tail, "rooms": rooms });
        }
        let nodes: Vec<Value> = self.members.iter().map(node).collect();
        json!({ "id": "t", "definitionVersion": 1, "data": data, "nodes": nodes, "edges": [] }).to_string()
    }

    pub fn options(&self) -> Value {
        let mut options = json!({
            "order": if self.oldest_first { "oldest-trigger" } else { "declaration" },
            "softTurnLimit": self.soft,
            "selfMention": if self.ignores_self { "ignore" } else { "allow" },
            "inputOverflow": if self.drops_tail { "drop-tail" } else { "fail" },
        });
        for (key, bytes) in [("inputBytes", self.input_bytes), ("outputBytes", self.output_bytes)] {
            if let Some(bytes) = bytes {
                options[key] = json!(bytes);
            }
        }
        options
    }

    pub fn position(&self, id: &str) -> Option<usize> {
        self.members.iter().position(|member| member.id == id)
    }

    /// The rooms a member is in.
    pub fn rooms_of(&self, member: usize) -> Vec<&(&'static str, Vec<usize>)> {
        self.rooms.iter().flatten().filter(|(_, members)| members.contains(&member)).collect()
    }
}
