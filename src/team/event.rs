//! What a team's record says: lines of the journal's format, each an object whose one member is the
//! event's type and version and whose value is its payload.
//!
//! Five of them move the team: dispatched, completed, failed, paused and resumed; their payloads hold
//! nothing else than what a replay needs. The others say what attempts did.

use crate::record::entry::{CallAdmitted, ExecutionRecorded, UsageReported};
use crate::record::model::{Checkpoint, Id, ParticipantRequest, Response, RuntimeReference};
use crate::value::CanonicalJson;
use serde::Serialize;
use std::rc::Rc;

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Event {
    /// Always the first, never again.
    #[serde(rename = "team-created/1")]
    Created(Rc<Created>),
    /// A member has the next turn.
    #[serde(rename = "dispatched/1")]
    Dispatched(At),
    /// A turn came to a result; one that breaks the contract fails its member.
    #[serde(rename = "completed/1")]
    Completed(Completed),
    /// A turn failed, and its member with it.
    #[serde(rename = "failed/1")]
    Failed(Failed),
    /// A turn waits for the host.
    #[serde(rename = "paused/1")]
    Paused(Paused),
    /// A turn goes on, under the same position and with the same input.
    #[serde(rename = "resumed/1")]
    Resumed(At),
    /// A member's code is about to be called.
    #[serde(rename = "attempt-started/1")]
    AttemptStarted(AttemptStarted),
    /// An attempt ended by its signal, without an outcome.
    #[serde(rename = "attempt-stopped/1")]
    AttemptStopped(At),
    /// An agent's private state after its turn.
    #[serde(rename = "checkpointed/1")]
    Checkpointed(Checkpointed),
    /// A request of a paused turn was answered.
    #[serde(rename = "answered/1")]
    Answered(Answered),
    /// A model call is reserved.
    #[serde(rename = "call-admitted/1")]
    CallAdmitted(CallAdmitted),
    /// A model call is settled.
    #[serde(rename = "usage-reported/1")]
    UsageReported(UsageReported),
    /// An attempt wrote a line of its execution's journal.
    #[serde(rename = "execution-recorded/1")]
    ExecutionRecorded(ExecutionRecorded),
}

/// How a team begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Created {
    /// The run's id.
    pub run_id: Id,
    /// When.
    pub at: Rc<str>,
    /// All generated ids derive from it.
    pub seed: Rc<str>,
    /// The compiled definition.
    pub definition: CanonicalJson,
    /// How it is run.
    pub options: Options,
}

/// How a team is run; part of the plan, like the definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Options {
    /// Who is dispatched first.
    pub order: Order,
    /// Whether a member at its cap ends the run with what there is.
    pub soft_turn_limit: bool,
    /// Whether a member that mentions itself gets another turn.
    pub self_mention: SelfMention,
    /// What becomes of an input over its bytes.
    pub input_overflow: Overflow,
    /// UTF-8 bytes of a turn's canonical input, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_bytes: Option<u64>,
    /// UTF-8 bytes of a turn's canonical result, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
}

/// Who of several queued members is dispatched first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Whoever was declared first.
    #[default]
    Declaration,
    /// Whoever has waited longest, by the order of messages.
    OldestTrigger,
}

/// What mentioning oneself does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SelfMention {
    /// It requests a turn like any other mention.
    #[default]
    Allow,
    /// It stays in the message and requests nothing.
    Ignore,
}

/// What becomes of an input that is over its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Overflow {
    /// The turn fails.
    #[default]
    Fail,
    /// Messages that triggered nothing are left out, oldest first, and counted in `omitted`.
    DropTail,
}

/// A turn of a member.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct At {
    /// The member.
    pub node_id: Id,
    /// The turn: `team/<member>/<n>`, n from 1.
    pub position: Id,
}

/// A result.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Completed {
    /// The member.
    pub node_id: Id,
    /// The turn.
    pub position: Id,
    /// What it returned.
    pub result: CanonicalJson,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// The member.
    pub node_id: Id,
    /// The turn.
    pub position: Id,
    /// Why: not empty, without control characters.
    pub code: Rc<str>,
}

/// A pause.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    /// The member.
    pub node_id: Id,
    /// The turn.
    pub position: Id,
    /// Why: not empty, without control characters.
    pub reason: Rc<str>,
    /// What is asked.
    pub request: Ask,
}

/// What a paused turn asks of the host.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// A member's own question.
    Host(CanonicalJson),
    /// An attempt began, nobody saw it end, and it may not be repeated unasked.
    Uncertain(Id),
    /// An agent's requests, in order.
    Wait(Vec<ParticipantRequest>),
}

/// An attempt begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptStarted {
    /// The member.
    pub node_id: Id,
    /// The turn.
    pub position: Id,
    /// This attempt.
    pub attempt_id: Id,
    /// When.
    pub at: Rc<str>,
    /// Whether it may be repeated when nobody saw it end.
    pub retry_safe: bool,
}

/// Private state.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpointed {
    /// The member.
    pub node_id: Id,
    /// The turn.
    pub position: Id,
    /// What can restore it.
    pub runtime: RuntimeReference,
    /// The state.
    pub checkpoint: Checkpoint,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answered {
    /// The member that asked.
    pub node_id: Id,
    /// Its turn.
    pub position: Id,
    /// The request.
    pub request_id: Id,
    /// The answer's own id.
    pub response_id: Id,
    /// When.
    pub at: Rc<str>,
    /// The answer.
    pub response: Response,
    /// Who gave it, as the host says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Rc<str>>,
}
