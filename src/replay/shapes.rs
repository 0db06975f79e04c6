//! The closed shapes that event payloads are made of: tool schemas, background tasks and their groups,
//! memory events.

use super::schema::Rule::{
    Closed, Count, Finite, Flag, FlagOr, Instant, List, Map, OneOf, Record, Scalar, ScalarOrNull, Task, Text, Variants,
    Whole,
};
use super::schema::{Field, Rule, Variant, opt, req, shape};

/// How full a context window is.
pub(super) const CONTEXT_STATE: &[Field] = &[
    req("maxTokens", Finite),
    req("usedTokens", Finite),
    req("usedPercentage", Finite),
    req("remainingPercentage", Finite),
];

/// One step of the way to the owner of a tool call.
pub(super) static OWNER_SEGMENT: Rule = Closed(shape![req("type", Text), req("id", Text)]);

/// One line of the summary of a history.
pub(super) static HISTORY_ITEM: Rule = Closed(shape![
    req("role", OneOf(ROLES)),
    req("contentLength", Count),
    req("hasToolCalls", Flag),
    req("toolCallNames", List(&Text)),
    opt("metadata", Record),
]);

/// Who can have said a message.
pub(super) const ROLES: &[&str] = &["user", "assistant", "system", "tool"];

/// A tool as it is described to a model.
pub(super) static TOOL_SCHEMA: Rule = Closed(shape![
    req("name", Text),
    req("description", Text),
    req("parameters", Rule::Is(&SCHEMA_ROOT)),
    opt("outputSchema", Rule::Is(&SCHEMA_NODE)),
]);

const SCHEMA_TYPES: &[&str] = &["string", "number", "integer", "boolean", "array", "object", "null"];

macro_rules! schema_node {
    ($type:expr, $properties:expr) => {
        Closed(&[
            $type,
            opt("description", Text),
            opt("enum", List(&Scalar)),
            opt("items", Rule::Is(&SCHEMA_NODE)),
            $properties,
            opt("required", List(&Text)),
            opt("anyOf", List(&SCHEMA_NODE)),
            opt("additionalProperties", FlagOr(&SCHEMA_NODE)),
            opt("minimum", Finite),
            opt("maximum", Finite),
            opt("pattern", Text),
            opt("format", Text),
            opt("default", ScalarOrNull),
        ])
    };
}

/// A node of a parameter schema.
pub(super) static SCHEMA_NODE: Rule =
    schema_node![opt("type", OneOf(SCHEMA_TYPES)), opt("properties", Map(&SCHEMA_NODE))];

/// The root of a parameter schema: an object that names its properties.
pub(super) static SCHEMA_ROOT: Rule =
    schema_node![req("type", OneOf(&["object"])), req("properties", Map(&SCHEMA_NODE))];

/// What happened to a background task.
pub(super) const TASK_EVENT: Rule = Variants(&[
    Variant {
        types: &[
            "background_task_created",
            "background_task_started",
            "background_task_updated",
            "background_task_completed",
            "background_task_failed",
            "background_task_cancelled",
        ],
        fields: shape![req("task", Task)],
    },
    Variant { types: &["background_task_text_delta"], fields: shape![req("taskId", Text), req("delta", Text)] },
    Variant {
        types: &["background_task_tool_start"],
        fields: shape![req("taskId", Text), req("toolName", Text), opt("firstArg", Text)],
    },
    Variant {
        types: &["background_task_tool_end"],
        fields: shape![req("taskId", Text), req("toolName", Text), req("success", Flag), opt("error", Text)],
    },
    Variant {
        types: &["background_task_permission_request"],
        fields: shape![
            req("taskId", Text),
            req("requestId", Text),
            req("toolName", Text),
            req("toolArgs", Map(&Scalar))
        ],
    },
    Variant { types: &["background_task_closed"], fields: shape![req("taskId", Text)] },
    Variant { types: &["background_task_waking"], fields: shape![req("taskId", Text), opt("instruction", Text)] },
]);

/// The kinds of background tasks, as bits in [`TaskField::kinds`].
pub(super) const TASK_KINDS: &[&str] = &["agent", "process", "scheduled", "tool-invocation"];
const AGENT: u8 = 1;
const PROCESS: u8 = 2;
const SCHEDULED: u8 = 4;
const TOOL_INVOCATION: u8 = 8;
const ANY: u8 = AGENT | PROCESS | SCHEDULED | TOOL_INVOCATION;

/// A member that tasks of some kinds have.
#[derive(Debug)]
pub(super) struct TaskField {
    pub field: Field,
    pub kinds: u8,
}

const fn of(kinds: u8, field: Field) -> TaskField {
    TaskField { field, kinds }
}

const STATUSES: Rule =
    OneOf(&["queued", "running", "waiting_permission", "sleeping", "paused", "completed", "failed", "cancelled"]);

const TASK_ERROR: Rule = Closed(shape![
    req(
        "category",
        OneOf(&["validation", "capacity", "permission", "timeout", "runner", "crash", "provider", "process"]),
    ),
    req("message", Text),
    req("recoverable", Flag),
]);

/// The members of a task's state, except its `result` (see [`TASK_RESULT`]).
pub(super) static TASK: &[TaskField] = &[
    of(ANY, req("id", Text)),
    of(ANY, req("kind", OneOf(TASK_KINDS))),
    of(ANY, req("label", Text)),
    of(ANY, req("status", STATUSES)),
    of(ANY, req("mode", OneOf(&["foreground", "background"]))),
    of(ANY, req("parentSessionId", Text)),
    of(ANY, req("depth", Whole)),
    of(ANY, req("cwd", Text)),
    of(ANY, req("updatedAt", Instant)),
    of(ANY, req("unread", Flag)),
    of(ANY, opt("parentTaskId", Text)),
    of(ANY, opt("currentAction", Text)),
    of(ANY, opt("logPath", Text)),
    of(ANY, opt("transcriptPath", Text)),
    of(ANY, opt("startedAt", Instant)),
    of(ANY, opt("lastActivityAt", Instant)),
    of(ANY, opt("completedAt", Instant)),
    of(ANY, opt("pid", Whole)),
    of(ANY, opt("timeoutReason", OneOf(&["idle", "max_runtime", "output_limit", "repetition", "stale_worker"]))),
    of(ANY, opt("metadata", Map(&Scalar))),
    of(ANY, opt("error", TASK_ERROR)),
    of(AGENT, opt("agentType", Text)),
    of(AGENT, opt("resumeSessionId", Text)),
    of(AGENT, opt("promptPreview", Text)),
    of(AGENT, opt("isolation", OneOf(&["none", "worktree"]))),
    of(AGENT, opt("worktreePath", Text)),
    of(AGENT, opt("branchName", Text)),
    of(AGENT, opt("worktreeStatus", Text)),
    of(AGENT, opt("worktreeNextAction", Text)),
    of(AGENT, opt("worktreeBaseRevision", Text)),
    of(AGENT, opt("parentWorktreeStatus", Text)),
    of(ANY ^ AGENT, opt("commandPreview", Text)),
    of(SCHEDULED, opt("schedule", SCHEDULE)),
    of(SCHEDULED, opt("nextFireAt", Instant)),
];

/// The members of a task's result; its `taskId` and `kind` repeat those of the task.
pub(super) static TASK_RESULT: &[TaskField] = &[
    of(ANY, req("taskId", Text)),
    of(ANY, req("kind", OneOf(TASK_KINDS))),
    of(ANY, req("output", Text)),
    of(ANY, opt("metadata", Map(&Scalar))),
    of(PROCESS, opt("exitCode", Whole)),
    of(PROCESS, opt("signalCode", Text)),
    of(
        AGENT,
        opt(
            "usage",
            Closed(shape![req("promptTokens", Whole), req("completionTokens", Whole), req("totalTokens", Whole)]),
        ),
    ),
    of(AGENT, opt("deniedToolCalls", Closed(shape![req("total", Count), req("byReason", Map(&Count))]))),
];

const SCHEDULE: Rule = Closed(shape![
    req("cronExpression", Text),
    opt("agentInstruction", Text),
    opt("command", Text),
    opt("shell", Text),
    opt("env", Map(&Text)),
]);

/// What happened to a group of background tasks.
pub(super) const GROUP_EVENT: Rule = Variants(&[Variant {
    types: &["background_job_group_created", "background_job_group_updated", "background_job_group_completed"],
    fields: shape![req(
        "group",
        Closed(shape![
            req("id", Text),
            req("parentSessionId", Text),
            req("waitPolicy", OneOf(&["detached", "wait_all", "wait_any", "manual"])),
            req("taskIds", List(&Text)),
            req("status", OneOf(&["running", "completed"])),
            req("createdAt", Instant),
            req("updatedAt", Instant),
            req("results", List(&GROUP_RESULT)),
            opt("label", Text),
            opt("completedAt", Instant),
        ]),
    )],
}]);

static GROUP_RESULT: Rule = Closed(shape![
    req("taskId", Text),
    req("label", Text),
    req("status", STATUSES),
    opt("summary", Text),
    opt("outputRef", Text),
    opt("error", TASK_ERROR),
    opt("startedAt", Instant),
    opt("completedAt", Instant),
]);

/// What happened to the memory.
pub(super) const MEMORY_EVENT: Rule = Variants(&[Variant {
    types: &[
        "memory_candidate_extracted",
        "memory_candidate_queued",
        "memory_candidate_saved",
        "memory_candidate_skipped",
        "memory_candidate_approved",
        "memory_candidate_rejected",
        "memory_retrieved",
    ],
    fields: shape![
        req("at", Instant),
        opt("candidateId", Text),
        opt("topic", Text),
        opt("reason", Text),
        opt("data", Record),
    ],
}]);
