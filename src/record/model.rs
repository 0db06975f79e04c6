//! The shapes that journal entries, events and effects are made of.

use crate::value::CanonicalJson;
use serde::Serialize;
use std::rc::Rc;

/// An identifier: 1 to 512 UTF-16 units, shared rather than copied.
pub type Id = Rc<str>;

/// Names a versioned implementation that a host's registry can find again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuntimeReference {
    /// What it is.
    pub id: Id,
    /// Which version of it.
    pub version: Id,
}

/// Whether a runtime or selector calls models, as it declares itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelCalls {
    /// It calls none.
    None,
    /// Every call is admitted and reported through the turn's services.
    Metered,
}

/// A participant as the journal names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Participant {
    /// Unique in the conversation; printed in headers, so free of control characters.
    pub id: Id,
    /// What others are told about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Rc<str>>,
    /// What its factory declared; absent for an external participant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentTraits>,
}

/// What an agent's factory declares about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentTraits {
    /// The runtime a load must find again.
    pub runtime: RuntimeReference,
    /// Whether its sessions can continue after a wait.
    pub supports_continuation: bool,
    /// The checkpoint versions its sessions understand.
    pub checkpoint_versions: Rc<[Id]>,
    /// Whether it calls models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<ModelCalls>,
}

/// Who decides the next turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selector {
    /// The built-in policy: round the participants in declared order for ever.
    RoundRobin,
    /// Host code.
    Host {
        /// Under which reference a load finds it again.
        #[serde(skip_serializing_if = "Option::is_none")]
        reference: Option<RuntimeReference>,
        /// Whether it calls models.
        #[serde(rename = "modelCalls", skip_serializing_if = "Option::is_none")]
        model_calls: Option<ModelCalls>,
    },
}

/// Caps on a run and on the conversation. Every one is a positive safe integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Attempted member turns per run, resumed ones included.
    pub max_turns_per_run: u64,
    /// Milliseconds a run may take before it stops dispatching.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Milliseconds a signalled attempt may take to settle before it is given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settle_timeout_ms: Option<u64>,
    /// Admitted model calls per run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_calls_per_run: Option<u64>,
    /// Admitted model calls in the whole conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_calls_per_conversation: Option<u64>,
    /// Admitted model calls of each participant in the whole conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_model_calls_per_participant: Option<u64>,
    /// Reported tokens per run, checked before each dispatch and admission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens_per_run: Option<u64>,
}

/// What happens when a process dies in mid turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// Nothing is promised.
    None,
    /// Store, participants and selector can all be brought back.
    Durable,
}

/// A published message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// Unique in the conversation.
    pub id: Id,
    /// Its author.
    pub participant_id: Id,
    /// The text.
    pub content: Rc<str>,
    /// The revision that published it.
    pub revision: u64,
    /// The turn it came from.
    pub turn_id: Id,
    /// The group it was published with.
    pub group_id: Id,
}

/// A participant's private state at a boundary, opaque to the engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Checkpoint {
    /// The format of `data` and `append`.
    pub version: Id,
    /// Replaces the previous head.
    pub data: CanonicalJson,
    /// Added to what earlier checkpoints of this participant appended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append: Option<Vec<CanonicalJson>>,
}

/// What a participant asks for before it can go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParticipantRequest {
    /// Unique in the conversation, never used before.
    pub id: Id,
    /// For whoever answers.
    pub reason: Rc<str>,
    /// What kind of answer it takes.
    pub kind: RequestKind,
    /// The external participant asked; only with `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participant_id: Option<Id>,
    /// What is to be approved or reconciled; never with `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<CanonicalJson>,
}

/// The kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestKind {
    /// A person's words.
    Input,
    /// Leave to do one thing.
    Approval,
    /// What became of an uncertain effect.
    Reconciliation,
}

/// A question the conversation waits on, as hosts see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Unique in the conversation.
    pub id: Id,
    /// For whoever answers.
    pub reason: Rc<str>,
    /// What kind of answer it takes.
    pub kind: RequestKind,
    /// Who may answer; the member itself for approvals and reconciliations.
    pub participant_id: Id,
    /// The group that waits.
    pub group_id: Id,
    /// The turn that waits.
    pub turn_id: Id,
    /// The member whose turn asks; absent where a selection asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member_id: Option<Id>,
    /// What is to be approved or reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<CanonicalJson>,
}

/// An answer to a request. Exactly the keys of its kind; see the host interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Response {
    /// Words, or a refusal to give them.
    Input(InputResponse),
    /// Leave given or denied.
    Approval {
        /// Whether it may go ahead.
        approved: bool,
        /// Told to the model on denial.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<Rc<str>>,
    },
    /// What became of the effect.
    Reconciliation {
        /// Opaque to the engine.
        data: CanonicalJson,
    },
}

/// A person's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum InputResponse {
    /// The words.
    Said {
        /// May be empty.
        content: Rc<str>,
    },
    /// No answer will come.
    Declined {
        /// Always true.
        declined: bool,
        /// Why.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<Rc<str>>,
    },
}

/// A request together with its answer, as handed to a resumed turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParticipantResponse {
    /// The question.
    pub request: Request,
    /// Which answer it was.
    pub response_id: Id,
    /// The answer.
    pub response: Response,
}

/// A selector's decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Selection {
    /// One participant.
    Speak {
        /// Who.
        participant_id: Id,
    },
    /// Several agents at once, published in this order.
    Parallel {
        /// Who, in publication order.
        participant_ids: Rc<[Id]>,
    },
    /// Ask a person.
    Wait {
        /// Whom.
        participant_id: Id,
        /// What for.
        reason: Rc<str>,
    },
    /// The conversation is over.
    Finish {
        /// Why.
        reason: Rc<str>,
    },
}

/// What a member's turn came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Outcome {
    /// A message.
    Speak {
        /// May be empty.
        content: Rc<str>,
    },
    /// Nothing to say.
    Yield,
    /// Cannot go on without answers.
    Wait {
        /// The questions, in order.
        requests: Vec<ParticipantRequest>,
    },
    /// The participant says it failed.
    Failed {
        /// Why.
        message: Rc<str>,
    },
}

/// What a host says became of a turn that nobody saw settle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Decision {
    /// Nothing happened: it runs again.
    Retry,
    /// It happened, and this came of it.
    Settle {
        /// `speak`, `yield` or `wait`.
        outcome: Outcome,
        /// The participant's private state after it; absent, the last saved one stands.
        #[serde(skip_serializing_if = "Option::is_none")]
        checkpoint: Option<Checkpoint>,
    },
    /// It failed, and its group with it.
    Fail {
        /// Why.
        message: Rc<str>,
    },
}

/// A turn that took part in a committed group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompletedTurn {
    /// The turn.
    pub id: Id,
    /// Its group.
    pub group_id: Id,
    /// Whose turn it was.
    pub participant_id: Id,
    /// Whether it spoke.
    pub outcome: CompletedOutcome,
    /// When its first attempt started, ISO 8601.
    pub started_at: Rc<str>,
    /// When its result was saved, ISO 8601.
    pub settled_at: Rc<str>,
}

/// How a completed turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompletedOutcome {
    /// With a message.
    Speak,
    /// Without one.
    Yield,
}

/// Why an attempt ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// The run's signal, or `dispose()`.
    Cancelled,
    /// The run's time limit.
    Time,
    /// An admission was refused.
    ModelCalls,
    /// A sibling failed.
    GroupFailed,
    /// The store failed, or the claim was lost, before the attempt could go on.
    Interrupted,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum RunOutcome {
    /// Final: the selector finished.
    Completed {
        /// The selector's reason.
        reason: Rc<str>,
    },
    /// Final: a participant failed, or a selection was bad.
    Failed {
        /// What happened.
        message: Rc<str>,
        /// A stable code, where there is one.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<Rc<str>>,
    },
    /// A cap was reached.
    Limited {
        /// Which.
        reason: LimitReason,
    },
    /// Stopped by the host.
    Cancelled,
    /// Open requests must be answered first.
    Waiting,
}

/// The caps that end a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitReason {
    /// `maxTurnsPerRun`
    Turns,
    /// `timeoutMs`
    Time,
    /// One of the model-call limits.
    ModelCalls,
    /// `maxTokensPerRun`
    Tokens,
}
