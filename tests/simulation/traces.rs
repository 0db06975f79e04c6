//! Recorded inputs as JSON Lines, which every host replays to the same effects (C51).

use crate::schedule::{self, Verdict, Watch};
use agent_roundtable::conversation::input::{Input, Now};
use agent_roundtable::conversation::replay_trace;
use agent_roundtable::conversation::trace::Step;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;

/// How many traces are kept.
const COUNT: usize = 120;
/// Longer ones say nothing more.
const MAX_LEN: usize = 400_000;
/// What the traces must hold, as their lines show it, and how many of them must.
const WANTED: [(&str, usize); 5] = [
    ("\"kind\":\"parallel\"", 20),
    ("\"kind\":\"wait\"", 20),
    ("{\"aborted\":", 20),
    ("\"the connection broke\"", 20),
    ("\"claimed\":{\"Err\"", 5),
];

/// One input with its time.
pub fn line(now: Now, input: &Input) -> String {
    serde_json::to_string(&Step { now, input: input.clone() }).unwrap()
}

/// The first line: whose trace it is.
pub fn header(config: &serde_json::Value, owner_id: &str) -> String {
    json!({ "config": config, "ownerId": owner_id }).to_string()
}

/// Replays the traces of the first schedules natively against what really happened, and leaves them in
/// `target/tmp/traces` for the other hosts: one file a seed, named so that they sort as recorded, and
/// `hashes.json` with each hash and the hash over all of them.
pub fn record_and_replay() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("traces");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (mut hashes, mut all, mut texts) = (serde_json::Map::new(), Sha256::new(), Vec::new());
    for seed in 0.. {
        if texts.len() == COUNT {
            break;
        }
        let Verdict { failure, trace, digest, .. } = schedule::run(seed, Watch { records: true, ..Watch::default() });
        assert_eq!(failure, None, "seed {seed}");
        let text = trace.join("\n");
        if trace.len() < 40 || text.len() > MAX_LEN {
            continue;
        }
        let hash = replay_trace(&text).unwrap();
        assert_eq!(hash, digest, "seed {seed}: the replayed effects are not those that were performed");
        all.update(hash.as_bytes());
        fs::write(folder.join(format!("{seed:04}.jsonl")), &text).unwrap();
        hashes.insert(format!("{seed:04}.jsonl"), hash.into());
        texts.push(text);
    }
    for (what, least) in WANTED {
        let holding = texts.iter().filter(|text| text.contains(what)).count();
        assert!(holding >= least, "{holding} traces hold {what}, {least} should");
    }
    let all: String = all.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    println!("{} traces, one hash over all effects: {all}", texts.len());
    fs::write(folder.join("hashes.json"), json!({ "all": all, "traces": hashes }).to_string()).unwrap();
}
