//! No text, however broken, makes the decoder panic, and what it accepts it accepts again.

use super::support::*;
use agent_roundtable::replay::*;
use std::rc::Rc;

/// A small generator (xorshift) so that a failure can be run again.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

const PIECES: [&str; 18] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u",
    "null",
    "1e999",
    "-0",
    "\n",
    "\u{1f600}",
    "\"kind\":\"external-payload\",",
    "\"role\":\"tool\",",
    "\"schemaVersion\":2,",
    "{\"kind\":\"external-payload\"}",
];

fn mutate(line: &str, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = line.as_bytes().to_vec();
    for _ in 0..=dice.roll(3) {
        let at = dice.roll(bytes.len());
        match dice.roll(5) {
            0 => bytes[at] = dice.roll(256) as u8,
            1 => drop(bytes.drain(at..(at + dice.roll(20)).min(line.len()).max(at).min(bytes.len()))),
            2 => bytes.truncate(at + 1),
            3 => {
                let piece = PIECES[dice.roll(PIECES.len())];
                drop(bytes.splice(at..at, piece.bytes()));
            }
            _ => {
                let from = dice.roll(bytes.len());
                let part: Vec<u8> = bytes[from..(from + dice.roll(60)).min(bytes.len())].to_vec();
                drop(bytes.splice(at..at, part));
            }
        }
        if bytes.is_empty() {
            bytes.push(b'{');
        }
    }
    bytes
}

#[test]
fn a_hundred_thousand_broken_lines_never_panic() {
    let mut valid: Vec<String> = every_event().iter().map(ToString::to_string).collect();
    valid.push(response("x", 1, reference("a.json", b"1")).to_string());
    let mut dice = Dice(0x5eed_1234_5678_9abc);
    let mut accepted = 0;
    for round in 0..100_000 {
        let bytes = mutate(&valid[round % valid.len()], &mut dice);
        let Ok(loader) = LogLoader::from_bytes(bytes, PayloadLimits::default(), true) else { continue };
        let Ok(log) = loader.run(Some(&mut Memory::with(&[("a.json", b"1")]))) else { continue };
        accepted += 1;
        let again = (0..log.len()).map(|at| log.json(at).unwrap()).collect::<Vec<_>>().join("\n");
        let twice = load(&again).expect("what was accepted is accepted again");
        assert!((0..log.len()).all(|at| log.json(at) == twice.json(at)));
        let _ = completeness(&log);
        let _ = rebuild_history(&log);
        let log = Rc::new(log);
        for matching in [Match::Order, Match::Hash, Match::Strict] {
            let mut provider = ReplayProvider::new(log.clone(), ReplayOptions { matching, deltas: true });
            let _ = provider.call(&Node::Null);
        }
    }
    assert!(accepted > 1000, "only {accepted} of the mutations were valid: they prove little");
}
