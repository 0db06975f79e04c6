//! The tool calls of one reply: which may run, which wait for an answer, and what came of them.

use super::coded::CodedMessage;
use super::protocol::{PermitCall, ToolOutcome, ToolRun};
use crate::runtime::config::AgentConfig;
use crate::runtime::message::{ChatMessage, ToolCall};
use crate::runtime::session::approval::{Action, ApprovalRequest, MAX_REQUESTS, request_id};
use crate::runtime::session::permission::Verdict;
use crate::runtime::tool::{self, IdempotencyKeys, ToolFault};
use crate::value::Json;

/// A round of tool calls, in call order.
#[derive(Clone, Debug)]
pub(super) struct ToolRound {
    pub(super) call_id: String,
    slots: Vec<Slot>,
    /// Whether a tool asked to suspend.
    pub(super) suspended: bool,
}

#[derive(Clone, Debug)]
struct Slot {
    call: ToolCall,
    /// What is to be run; an error where the call cannot be carried out.
    run: Result<ToolRun, ToolFault>,
    stage: Stage,
    /// An earlier attempt was about to run it, and may have.
    begun_before: bool,
}

/// How far a call has come.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Nothing is decided.
    Open,
    /// A person said yes.
    Approved,
    /// A person, or the policy, said no.
    Denied(Option<String>),
    /// It waits for an answer.
    Asking,
    /// It is about to run, or runs.
    Running,
    /// It has its result.
    Done(Box<CodedMessage>),
}

impl ToolRound {
    pub(super) fn open(
        config: &AgentConfig,
        keys: &mut IdempotencyKeys,
        turn_id: &str,
        call_id: &str,
        calls: &[ToolCall],
    ) -> Self {
        let slot = |(index, call): (usize, &ToolCall)| {
            let run = tool::resolve(config, call).map(|(tool, arguments)| ToolRun {
                call_id: call_id.to_owned(),
                index,
                tool,
                tool_call_id: call.id.clone(),
                idempotency_key: keys.next(turn_id, &call.name, &arguments),
                arguments,
            });
            Slot { call: call.clone(), run, stage: Stage::Open, begun_before: false }
        };
        let slots = calls.iter().enumerate().map(slot).collect();
        ToolRound { call_id: call_id.to_owned(), slots, suspended: false }
    }

    /// Settles what is already decided: calls that cannot be carried out, and calls that were denied.
    /// The results with their positions; a call that has its result already keeps it.
    pub(super) fn settle_decided(&mut self, at: f64) -> Vec<(usize, Json)> {
        let decided = |(index, slot): (usize, &Slot)| match (&slot.stage, &slot.run) {
            (Stage::Denied(reason), _) => Some((index, ToolFault::Denied(reason.clone()))),
            (_, Err(fault)) => Some((index, fault.clone())),
            _ => None,
        };
        let faults: Vec<_> = self.slots.iter().enumerate().filter_map(decided).collect();
        let settle = |(index, fault)| Some((index, self.settle(index, ToolOutcome::Fault(fault), at)?));
        faults.into_iter().filter_map(settle).collect()
    }

    /// The calls that nothing keeps from running but the policy.
    pub(super) fn ready(&self) -> Vec<PermitCall> {
        let ready = |slot: &Slot| match (&slot.stage, &slot.run) {
            (Stage::Open | Stage::Approved, Ok(run)) => Some(PermitCall {
                tool_name: slot.call.name.clone(),
                tool_call_id: run.tool_call_id.clone(),
                arguments: run.arguments.clone(),
            }),
            _ => None,
        };
        self.slots.iter().filter_map(ready).collect()
    }

    /// Applies the verdicts on [`ToolRound::ready`], in their order. A yes outweighs a question, a no
    /// outweighs a yes. What runs now.
    pub(super) fn decide(&mut self, verdicts: &[Verdict]) -> Vec<ToolRun> {
        let mut verdicts = verdicts.iter();
        let mut runs = Vec::new();
        for slot in &mut self.slots {
            let (Stage::Open | Stage::Approved, Ok(run)) = (&slot.stage, &slot.run) else { continue };
            let approved = matches!(slot.stage, Stage::Approved);
            slot.stage = match verdicts.next() {
                Some(Verdict::Ask) if !approved => Stage::Asking,
                Some(Verdict::Allow | Verdict::Ask) => {
                    runs.push(run.clone());
                    Stage::Running
                }
                Some(Verdict::Deny) | None => Stage::Denied(None),
            };
        }
        runs
    }

    /// Notes what came of one call and returns its result as JSON; a second outcome for it is ignored, and
    /// a round in which a tool asked to suspend has no more results.
    pub(super) fn settle(&mut self, index: usize, outcome: ToolOutcome, at: f64) -> Option<Json> {
        let id = format!("{}:result:{index}", self.call_id);
        let slot = self.slots.get_mut(index).filter(|slot| !matches!(slot.stage, Stage::Done(_)))?;
        let result = match outcome {
            ToolOutcome::Returned(result) => result,
            ToolOutcome::Fault(fault) => fault.to_json(),
            ToolOutcome::Suspended => {
                self.suspended = true;
                Json::Null
            }
        };
        let message = |result: &Json| {
            let content = tool::result_content(result)?;
            let message = ChatMessage::tool_result(id.clone(), &slot.call, content, at);
            CodedMessage::of(message, "result").map_err(|error| ToolFault::InvalidResult(error.to_string()))
        };
        let (result, message) = match message(&result) {
            Ok(coded) => (result, coded),
            Err(fault) => {
                let result = fault.to_json();
                let coded = message(&result).ok()?;
                (result, coded)
            }
        };
        slot.stage = Stage::Done(Box::new(message));
        (!self.suspended).then_some(result)
    }

    /// The calls that are about to run, or run.
    pub(super) fn running(&self) -> Vec<&ToolRun> {
        let running = self.slots.iter().filter(|slot| matches!(slot.stage, Stage::Running));
        running.filter_map(|slot| slot.run.as_ref().ok()).collect()
    }

    /// Those of them that must not run twice.
    pub(super) fn running_once(&self, config: &AgentConfig) -> Vec<&ToolRun> {
        let once = |run: &&ToolRun| config.tools.get(run.tool).is_none_or(|tool| !tool.idempotent);
        self.running().into_iter().filter(once).collect()
    }

    /// The calls about to run that nothing can have come of, if none of them runs now.
    pub(super) fn running_first(&self) -> Vec<usize> {
        let first = self.slots.iter().enumerate().filter(|(_, slot)| !slot.begun_before);
        first.filter(|(_, slot)| matches!(slot.stage, Stage::Running)).map(|(index, _)| index).collect()
    }

    pub(super) fn is_settled(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot.stage, Stage::Done(_)))
    }

    /// Whether nothing has come of any call yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot.stage, Stage::Open))
    }

    /// The requests for the calls that wait for an answer, as many as one wait may have.
    pub(super) fn requests(&self, execution_id: &str) -> Vec<ApprovalRequest> {
        let asking = (0..self.slots.len()).filter(|index| matches!(self.stage(*index), Some(Stage::Asking)));
        asking.filter_map(|index| Some(self.action(index, execution_id)?.request())).take(MAX_REQUESTS).collect()
    }

    pub(super) fn into_results(self) -> Vec<CodedMessage> {
        let result = |slot: Slot| match slot.stage {
            Stage::Done(message) => Some(*message),
            _ => None,
        };
        self.slots.into_iter().filter_map(result).collect()
    }

    pub(super) fn tool_call_id(&self, index: usize) -> Option<&str> {
        self.slots.get(index).map(|slot| slot.call.id.as_str())
    }

    /// The position of the call with this id.
    pub(super) fn position(&self, tool_call_id: &str) -> Option<usize> {
        self.slots.iter().position(|slot| slot.call.id == tool_call_id)
    }

    /// The position of the call that this request asks for.
    pub(super) fn position_of_request(&self, id: &str) -> Option<usize> {
        (0..self.slots.len()).find(|index| request_id(&self.call_id, *index) == id)
    }

    /// What is to be run at this position, and the tool's name.
    pub(super) fn run(&self, index: usize) -> Option<(&ToolRun, &str)> {
        let slot = self.slots.get(index)?;
        Some((slot.run.as_ref().ok()?, &slot.call.name))
    }

    pub(super) fn action<'a>(&'a self, index: usize, execution_id: &'a str) -> Option<Action<'a>> {
        let (run, tool_name) = self.run(index)?;
        let (call_id, tool_call_id) = (self.call_id.as_str(), run.tool_call_id.as_str());
        Some(Action { execution_id, call_id, index, tool_call_id, tool_name, arguments: &run.arguments })
    }

    pub(super) fn stage(&self, index: usize) -> Option<&Stage> {
        self.slots.get(index).map(|slot| &slot.stage)
    }

    /// Notes that an earlier attempt was about to run a call.
    pub(super) fn begin_before(&mut self, index: usize) {
        self.set_stage(index, Stage::Running);
        if let Some(slot) = self.slots.get_mut(index) {
            slot.begun_before = true;
        }
    }

    /// Whether an earlier attempt was about to run a call.
    pub(super) fn was_begun(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(|slot| slot.begun_before)
    }

    /// Moves a call that has no result yet.
    pub(super) fn set_stage(&mut self, index: usize, stage: Stage) {
        if let Some(slot) = self.slots.get_mut(index).filter(|slot| !matches!(slot.stage, Stage::Done(_))) {
            slot.stage = stage;
        }
    }
}
