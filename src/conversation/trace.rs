//! Replays recorded inputs. What a machine does depends on its options, its owner's id and its inputs
//! with their times alone, so a trace of them gives the same effects wherever it is replayed.

use super::config::Config;
use super::error::{Code, RoundtableError};
use super::input::{Input, Now};
use super::machine::Machine;
use crate::record::model::Id;
use crate::value::Json;
use crate::value::read::read;
use crate::value::write::write;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Replays a trace of JSON Lines and gives the SHA-256 (hex) over all effects, each as its JSON text and
/// a line feed, in the order they came.
///
/// The first line is `{"config": options as for Config::read, "ownerId": …}`, each further one
/// `{"now": {"wall", "mono"}, "input": …}`. Refused with `invalid-config` and the number of the line
/// that is not one, or that the machine could not be made from.
pub fn replay_trace(text: &str) -> Result<String, RoundtableError> {
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let (_, header) = lines.next().ok_or_else(|| refused(1, "the trace is empty"))?;
    let mut machine = machine_of(header)?;
    let mut digest = EffectDigest::default();
    for (number, line) in lines {
        let Step { now, input } = read(line).map_err(|error| refused(number, &error.message))?;
        machine.handle_input(now, input);
        while let Some(effect) = machine.poll_effect() {
            digest.add(&effect)?;
        }
    }
    Ok(digest.finish())
}

/// The SHA-256 over a sequence of effects, as [`replay_trace`] gives it.
#[derive(Clone, Default)]
pub struct EffectDigest(Sha256);

impl EffectDigest {
    /// Adds one effect.
    pub fn add(&mut self, effect: &super::Effect) -> Result<(), RoundtableError> {
        let text = write(effect)
            .map_err(|error| RoundtableError::new(Code::Internal, format!("an effect has no JSON text: {error}")))?;
        self.0.update(text.as_bytes());
        self.0.update(b"\n");
        Ok(())
    }

    /// The digest so far, as 64 hexadecimal digits.
    #[must_use]
    pub fn finish(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// One input with its time: a line of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When it came.
    pub now: Now,
    /// What came.
    pub input: Input,
}

fn machine_of(header: &str) -> Result<Machine, RoundtableError> {
    let header = Json::parse(header).map_err(|error| refused(1, &error.to_string()))?;
    let owner = header.get("ownerId").and_then(Json::as_str);
    let (Some(options), Some(owner)) = (header.get("config"), owner) else {
        return Err(refused(1, "the first line has config and ownerId"));
    };
    Machine::new(Config::read(options)?, Id::from(owner))
}

fn refused(line: usize, reason: &str) -> RoundtableError {
    RoundtableError::new(Code::InvalidConfig, format!("trace line {line}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"config":{"conversationId":"c","seed":"s","participants":[{"kind":"external","id":"p"}],"limits":{"maxTurnsPerRun":1}},"ownerId":"o"}"#;

    #[test]
    fn c51_equal_traces_have_equal_hashes_and_other_times_another() {
        let trace = |wall: u32| {
            format!(
                r#"{HEADER}
{{"now":{{"wall":{wall},"mono":0}},"input":{{"called":{{"call":1,"request":{{"run":{{"limits":null}}}}}}}}}}"#
            )
        };
        let hash = replay_trace(&trace(1)).unwrap();
        assert_eq!(hash.len(), 64);
        assert_eq!(replay_trace(&trace(1)).unwrap(), hash);
        assert_ne!(replay_trace(&trace(1000)).unwrap(), hash);
    }

    #[test]
    fn c51_a_line_that_is_no_step_is_named() {
        let error = replay_trace(&format!("{HEADER}\n{{}}")).unwrap_err();
        assert_eq!(error.code, Code::InvalidConfig);
        assert!(error.message.starts_with("trace line 2: "), "{error}");
        assert!(replay_trace("").unwrap_err().message.starts_with("trace line 1: "));
        assert!(replay_trace("{}").unwrap_err().message.starts_with("trace line 1: "));
    }
}
