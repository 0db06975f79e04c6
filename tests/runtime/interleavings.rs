//! The agent loop under hosts that answer in any order, late, twice or not at all.

use crate::host::{agent, calling, options_with_tool, reply, turn};
use agent_roundtable::runtime::agent::{AgentLoop, Effect, Input, RecordBody, ToolOutcome};
use agent_roundtable::runtime::checkpoint::read;
use agent_roundtable::runtime::codec::Value;
use agent_roundtable::runtime::config::AgentOptions;
use agent_roundtable::value::Json;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// What the ledger would say of a call.
#[derive(Default)]
struct Call {
    admitted: bool,
    dispatched: bool,
    settled: bool,
}

/// Answers open effects as the choices say and checks every rule after every step.
struct Chaos {
    agent: AgentLoop,
    open: Vec<Input>,
    answered: Vec<Input>,
    calls: HashMap<String, Call>,
    appended: HashSet<String>,
    saved: Vec<Json>,
    data: Json,
    turns: u32,
    ended: u32,
}

impl Chaos {
    fn step(&mut self, choice: u16) {
        let pick = usize::from(choice >> 4);
        let input = match choice & 15 {
            0 => Input::Aborted,
            1 => Input::DeltaFailed,
            2 if !self.answered.is_empty() => self.answered[pick % self.answered.len()].clone(),
            3 | 4 => {
                self.turns += 1;
                turn(&format!("a{}", self.turns))
            }
            kind if !self.open.is_empty() => {
                let input = self.open.swap_remove(pick % self.open.len());
                self.answered.push(input.clone());
                vary(input, kind)
            }
            _ => return,
        };
        if let Input::AppendRefused { call_id } = &input
            && let Some(call) = self.calls.get_mut(call_id)
        {
            call.settled = true;
        }
        let effects = self.agent.handle(input);
        self.check(effects);
    }

    fn check(&mut self, effects: Vec<Effect>) {
        let ends = effects.iter().filter(|effect| matches!(effect, Effect::Finish(_) | Effect::Fail(_))).count();
        assert!(ends <= 1, "a turn ends once: {effects:?}");
        for effect in effects {
            match effect {
                Effect::Append(record) => {
                    assert!(self.appended.insert(record.id.clone()), "{} appended twice", record.id);
                    let call = self.calls.entry(record.call_id.clone()).or_default();
                    match record.body {
                        RecordBody::ModelRequest => call.admitted = true,
                        RecordBody::ModelCacheHit(_) => assert!(!call.admitted),
                        _ => {
                            assert!(call.admitted && !call.settled, "settled once, after its admission");
                            call.settled = true;
                        }
                    }
                    self.open.push(Input::Appended { call_id: record.call_id, at: 0.0 });
                }
                Effect::CallModel(call) => {
                    let ledger = self.calls.get_mut(&call.call_id).expect("admitted before it is called");
                    assert!(ledger.admitted && !ledger.dispatched && !ledger.settled);
                    ledger.dispatched = true;
                    self.open.push(Input::ModelReplied { call_id: call.call_id, reply: Value::Null });
                }
                Effect::AskCache(call) => {
                    assert!(!self.calls.contains_key(&call.call_id));
                    self.open.push(Input::CacheAnswered { call_id: call.call_id, reply: None });
                }
                Effect::RunTools(runs) => self.open.extend(runs.into_iter().map(|run| Input::ToolSettled {
                    call_id: run.call_id,
                    index: run.index,
                    outcome: ToolOutcome::Returned(Json::Null),
                    at: 0.0,
                })),
                Effect::Flush => self.open.push(Input::Flushed),
                Effect::Finish(_) | Effect::Fail(_) => self.ended += 1,
                Effect::Extend(_) => {}
                Effect::Record(_) | Effect::Sync { .. } | Effect::Permit { .. } => {
                    panic!("a plain agent has no gate: {effect:?}")
                }
            }
        }
        let checkpoint = self.agent.take_checkpoint();
        self.saved.extend(checkpoint.append);
        self.data = checkpoint.data;
    }
}

/// One of the ways an effect can turn out.
fn vary(input: Input, kind: u16) -> Input {
    match (input, kind) {
        (Input::Appended { call_id, .. }, 5) => Input::AppendRefused { call_id },
        (Input::CacheAnswered { call_id, .. }, 5) => Input::CacheFailed { call_id },
        (Input::CacheAnswered { call_id, .. }, 6) => {
            Input::CacheAnswered { call_id, reply: Some(reply("cached", &[])) }
        }
        (Input::ModelReplied { call_id, .. }, 5) => Input::ModelFailed { call_id, message: "no".into() },
        (Input::ModelReplied { call_id, .. }, 6) => Input::ModelReplied { call_id, reply: Value::Null },
        (Input::ModelReplied { call_id, .. }, 7 | 8) => Input::ModelReplied { call_id, reply: reply("words", &[]) },
        (Input::ModelReplied { call_id, .. }, _) => {
            let arguments = r#"{"a":1,"b":2}"#;
            let calls = [("t1", "add", arguments), ("t2", "ghost", ""), ("t1", "add", arguments)];
            Input::ModelReplied { call_id, reply: calling(&calls) }
        }
        (Input::ToolSettled { call_id, index, at, .. }, 5) => {
            Input::ToolSettled { call_id, index, outcome: ToolOutcome::Suspended, at }
        }
        (input, _) => input,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever the host does: no call without admission, one settlement per call, nothing journaled
    /// twice, one end per turn, and a history in which every tool call has its result.
    #[test]
    fn the_loop_keeps_its_rules_in_every_interleaving(
        has_cache in any::<bool>(),
        choices in prop::collection::vec(any::<u16>(), 1..200),
    ) {
        let options = AgentOptions { provider_has_cache: has_cache, max_rounds: Some(4.0), ..options_with_tool() };
        let agent = agent(options);
        let mut chaos = Chaos {
            agent,
            open: Vec::new(),
            answered: Vec::new(),
            calls: HashMap::new(),
            appended: HashSet::new(),
            saved: Vec::new(),
            data: Json::Null,
            turns: 0,
            ended: 0,
        };
        for choice in choices {
            chaos.step(choice);
        }
        chaos.step(0);
        // Every answer still open comes in at last, and in its plainest form.
        while let Some(input) = chaos.open.pop() {
            let effects = chaos.agent.handle(vary(input, 7));
            chaos.check(effects);
        }
        prop_assert_eq!(chaos.ended, chaos.turns, "every turn ended");
        for (call_id, call) in &chaos.calls {
            prop_assert!(!call.dispatched || call.settled, "{} was dispatched and never settled", call_id);
        }
        let restored = read(chaos.agent.config(), "agent/1", &chaos.data, &chaos.saved);
        prop_assert!(restored.is_ok(), "{:?}", restored);
    }
}
