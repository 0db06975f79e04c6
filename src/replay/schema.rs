//! The payload of every event, field by field in declared order: the one place that states them.

use super::shapes::{CONTEXT_STATE, GROUP_EVENT, HISTORY_ITEM, MEMORY_EVENT, OWNER_SEGMENT, TASK_EVENT, TOOL_SCHEMA};
use super::vocabulary::EventKind;

/// What a value must be.
#[derive(Debug)]
pub(super) enum Rule {
    /// A string.
    Text,
    /// A string, or null.
    TextOrNull,
    /// A finite number.
    Finite,
    /// An integer, at least 0, without upper bound.
    Count,
    /// An integer.
    Whole,
    /// A boolean.
    Flag,
    /// An ISO 8601 text; it stays text.
    Instant,
    /// An ISO 8601 text or a live date.
    Date,
    /// One of these strings.
    OneOf(&'static [&'static str]),
    /// A string, number or boolean.
    Scalar,
    /// A string, number, boolean or null.
    ScalarOrNull,
    /// Any JSON.
    Json,
    /// A JSON object.
    Record,
    /// What the rule says; for shapes that contain themselves.
    Is(&'static Rule),
    /// A boolean, or what the rule says.
    FlagOr(&'static Rule),
    /// An array of such values.
    List(&'static Rule),
    /// An object with any keys and such values.
    Map(&'static Rule),
    /// An object with these members and no others.
    Closed(&'static [Field]),
    /// A closed object whose members depend on its `type`.
    Variants(&'static [Variant]),
    /// The state of a background task, whose members depend on its kind.
    Task,
    /// The value of one key of a message's metadata.
    MetadataValue,
    /// A message, whose members depend on its role.
    Message,
    /// A message, or the bare text of a forced summary.
    MessageOrText,
}

/// One member of a closed object.
#[derive(Debug)]
pub(super) struct Field {
    pub name: &'static str,
    pub rule: Rule,
    pub required: bool,
}

/// The members that go with some values of `type`.
#[derive(Debug)]
pub(super) struct Variant {
    pub types: &'static [&'static str],
    pub fields: &'static [Field],
}

/// The payload of one event.
#[derive(Debug)]
pub(super) struct Payload {
    pub fields: &'static [Field],
    /// Whether members beyond the declared ones may hold any JSON.
    pub open: bool,
    /// Members of which at least one must be there; empty where none must.
    pub at_least_one: &'static [&'static str],
}

/// Members in their declared order.
macro_rules! shape {
    ($($field:expr),* $(,)?) => { const { &[$($field),*] } };
}
pub(super) use shape;

pub(super) const fn req(name: &'static str, rule: Rule) -> Field {
    Field { name, rule, required: true }
}

pub(super) const fn opt(name: &'static str, rule: Rule) -> Field {
    Field { name, rule, required: false }
}

const fn closed(fields: &'static [Field]) -> Payload {
    Payload { fields, open: false, at_least_one: &[] }
}

use Rule::{Count, Finite, Flag, Json, List, Message, MessageOrText, OneOf, Record, Text};

const MESSAGES: Rule = List(&Message);
const TEXTS: Rule = List(&Text);
const TOOLS: Rule = List(&TOOL_SCHEMA);

/// The correlation key that provider and tool records begin with, followed by their own fields.
macro_rules! correlated {
    ($($field:expr),* $(,)?) => {
        closed(shape![req("executionId", Text), opt("conversationId", Text), req("round", Count), $($field),*])
    };
}

/// What an entry of this event holds beside its envelope.
pub(super) fn payload(kind: EventKind) -> &'static Payload {
    match kind {
        EventKind::SessionInit => {
            &const {
                closed(shape![
                    req("cwd", Text),
                    req("systemPromptLength", Count),
                    req("systemPrompt", Text),
                    req("toolSchemas", TOOLS),
                    req("model", Text),
                    req("provider", Text),
                ])
            }
        }
        EventKind::SessionShutdown => &const { closed(shape![req("reason", Text)]) },
        EventKind::SessionShutdownStepError => &const { closed(shape![req("step", Text), req("error", Text)]) },
        EventKind::Context => &const { closed(CONTEXT_STATE) },
        EventKind::ContextCompact => {
            &const {
                closed(shape![
                    req("trigger", Text),
                    req("before", Rule::Closed(CONTEXT_STATE)),
                    req("after", Rule::Closed(CONTEXT_STATE)),
                ])
            }
        }
        EventKind::Error => {
            &const { closed(shape![req("message", Text), req("stack", Text), req("historyLength", Count)]) }
        }
        EventKind::HistoryMutation => {
            &const {
                closed(shape![
                    req("mutation", OneOf(&["append_message"])),
                    req("index", Count),
                    req("message", Message),
                    opt("executionId", Text),
                    opt("conversationId", Text),
                    opt("batchId", Text),
                    opt("usageObservationId", Text),
                    opt("providerId", Text),
                    opt("modelId", Text),
                    opt("round", Count),
                    opt("providerError", Flag),
                    opt("contextOverflow", Flag),
                ])
            }
        }
        EventKind::ProviderRequest => {
            &const {
                correlated![
                    req("provider", Text),
                    req("model", Text),
                    req("messages", MESSAGES),
                    opt("effort", Text),
                    opt("forcedSummary", Flag),
                    opt("tools", TOOLS),
                ]
            }
        }
        EventKind::ProviderNativeRawPayload => {
            &const {
                correlated![
                    req("provider", Text),
                    req("payloadKind", OneOf(&["request", "response", "stream_event"])),
                    req("sequence", Count),
                    opt("apiSurface", Text),
                    opt("payload", Json),
                    opt("metadata", Record),
                ]
            }
        }
        EventKind::ProviderStreamRawDelta => &const { correlated![req("sequence", Count), req("delta", Text)] },
        EventKind::ProviderResponseRaw => {
            &const { correlated![req("response", Message), req("responseKind", Text), opt("effort", Text)] }
        }
        EventKind::ProviderResponseNormalized => {
            &const { correlated![req("response", Message), opt("toolCallsCount", Count)] }
        }
        EventKind::StructuredOutputTransport => {
            &const {
                correlated![
                    req("provider", Text),
                    req("model", Text),
                    req("mechanism", OneOf(&["response_schema", "json_object", "none"])),
                    req("provenance", OneOf(&["catalog", "vendor-default", "undeclared", "unverified-endpoint"])),
                    req("sent", Flag),
                    req("schemaInPrompt", Flag),
                    opt("reason", Text),
                ]
            }
        }
        EventKind::ProviderFallback => {
            &const {
                correlated![
                    req("fromProvider", Text),
                    req("fromModel", Text),
                    req("toProvider", Text),
                    req("toModel", Text),
                    req("reason", Text),
                ]
            }
        }
        EventKind::AssistantMessageCommitted => &const { correlated![req("message", MessageOrText)] },
        EventKind::ToolExecutionRequest => {
            &const {
                correlated![
                    req("toolName", Text),
                    req("toolCallId", Text),
                    req("parameters", Record),
                    opt("batchId", Text),
                    opt("index", Count),
                    opt("ownerPath", List(&OWNER_SEGMENT)),
                ]
            }
        }
        EventKind::ToolExecutionResult => {
            &const {
                correlated![
                    req("success", Flag),
                    opt("toolName", Text),
                    opt("toolCallId", Text),
                    opt("batchId", Text),
                    opt("index", Count),
                    opt("result", Json),
                    opt("error", Text),
                    opt("metadata", Record),
                ]
            }
        }
        EventKind::ToolBatchStarted => {
            &const {
                correlated![
                    req("mode", OneOf(&["parallel", "sequential"])),
                    req("maxConcurrency", Count),
                    req("requestCount", Count),
                    req("tools", TEXTS),
                    opt("batchId", Text),
                ]
            }
        }
        EventKind::ToolMessageCommitted => {
            &const { correlated![req("message", Message), opt("batchId", Text), opt("index", Count)] }
        }
        EventKind::BackgroundTaskEvent => {
            &const {
                Payload {
                    fields: shape![
                        opt("backgroundEvent", TASK_EVENT),
                        opt("data", TASK_EVENT),
                        opt("backgroundEventType", Text),
                        opt("taskId", Text),
                        opt("originToolCallId", Text),
                    ],
                    open: false,
                    at_least_one: &["backgroundEvent", "data"],
                }
            }
        }
        EventKind::BackgroundJobGroupEvent => {
            &const {
                Payload {
                    fields: shape![opt("backgroundJobGroupEvent", GROUP_EVENT), opt("data", GROUP_EVENT)],
                    open: false,
                    at_least_one: &["backgroundJobGroupEvent", "data"],
                }
            }
        }
        EventKind::MemoryEvent => {
            &const {
                Payload {
                    fields: shape![opt("memoryEvent", MEMORY_EVENT), opt("data", MEMORY_EVENT)],
                    open: false,
                    at_least_one: &["memoryEvent", "data"],
                }
            }
        }
        EventKind::User => &const { closed(shape![req("content", Text)]) },
        EventKind::PreRun => {
            &const {
                closed(shape![
                    req("historyLength", Count),
                    req("historyChars", Count),
                    req("historyEstTokens", Count),
                    req("input", Text),
                    req("history", MESSAGES),
                    req("model", Text),
                    req("provider", Text),
                    req("maxTokens", Finite),
                    req("nativeWebSearchSupported", Flag),
                    req("nativeWebSearchEnabled", Flag),
                    req("nativeWebFetchSupported", Flag),
                    req("nativeWebFetchEnabled", Flag),
                ])
            }
        }
        EventKind::TextDelta => &const { closed(shape![req("delta", Text)]) },
        EventKind::Assistant => {
            &const {
                closed(shape![
                    req("content", Text),
                    req("historyLength", Count),
                    req("estimatedChars", Count),
                    req("history", MESSAGES),
                    req("historyStructure", List(&HISTORY_ITEM)),
                ])
            }
        }
        EventKind::ToolCall => &const { closed(shape![req("tool", Text), req("args", Record)]) },
        EventKind::ToolResult => {
            &const {
                closed(shape![req("tool", Text), req("success", Flag), req("dataChars", Count), req("truncated", Flag)])
            }
        }
        EventKind::ToolBlocked | EventKind::ToolDenied => {
            &const { closed(shape![req("tool", Text), req("reason", Text)]) }
        }
        EventKind::ServerTool => {
            &const { Payload { fields: shape![req("tool", Text)], open: true, at_least_one: &[] } }
        }
    }
}
