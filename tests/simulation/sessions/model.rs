//! The model: what it replies follows from the seed and from what it is shown, in whichever process.

use super::outside::TOOLS;
use crate::rng::Rng;
use agent_roundtable::runtime::message::{ChatMessage, Role};
use agent_roundtable::value::Json;

/// The reply to a history, as coded JSON.
pub fn reply(seed: u64, history: &[ChatMessage]) -> String {
    let replies = history.iter().filter(|message| message.role == Role::Assistant).count() as u64;
    let since = history.iter().rev().take_while(|message| message.role != Role::User).count();
    let rng = Rng::new(seed.wrapping_mul(0x9e37_79b9) ^ (replies << 8));
    rng.next();
    if since > 6 || rng.chance(350) {
        let words = if rng.chance(100) { String::new() } else { format!("word {replies} after {since}") };
        return message(&words, "");
    }
    let calls: Vec<String> = (0..rng.between(1, 3)).map(|n| call(&rng, replies, n)).collect();
    message("", &format!(r#","toolCalls":[{}]"#, calls.join(",")))
}

fn call(rng: &Rng, replies: u64, n: u64) -> String {
    let name = if rng.chance(40) { "ghost" } else { TOOLS[rng.below(TOOLS.len())].0 };
    // Now and then the same call again, an id again, and arguments that are none.
    let id = if rng.chance(60) { 0 } else { n };
    let arguments = match rng.below(20) {
        0 => "{broken".to_owned(),
        1..4 => "{}".to_owned(),
        _ => format!(r#"{{"n":{replies},"of":{n}}}"#),
    };
    let arguments = Json::String(arguments).canonical();
    format!(r#"{{"id":"t{id}","type":"function","function":{{"name":"{name}","arguments":{arguments}}}}}"#)
}

fn message(words: &str, more: &str) -> String {
    let content = Json::String(words.to_owned()).canonical();
    let at = "1970-01-01T00:00:02.000Z";
    format!(
        r#"{{"id":"r","role":"assistant","content":{content},"timestamp":{{"$date":"{at}"}},"state":"complete"{more}}}"#
    )
}
