//! The events of a session log.

/// What an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    /// Answers provider calls; the only class that is replayed.
    Response,
    /// A provider or tool record that carries a correlation key.
    Correlated,
    /// What a conversation is rebuilt from.
    History,
    /// State beside the conversation: tasks, groups, memory.
    Auxiliary,
    /// Read by people and tools; nothing is rebuilt from it.
    Diagnostic,
}

macro_rules! events {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $class:ident;)*) => {
        /// The name of an event, as it stands under `event`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum EventKind {
            $($(#[$doc])* $variant,)*
        }

        impl EventKind {
            /// Every event there is.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$variant,)*];

            /// The event of that name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<EventKind> {
                match name {
                    $($name => Some(EventKind::$variant),)*
                    _ => None,
                }
            }

            /// The name as it stands in a log.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(EventKind::$variant => $name,)*
                }
            }

            /// What entries of this event are for.
            #[must_use]
            pub fn class(self) -> EventClass {
                match self {
                    $(EventKind::$variant => EventClass::$class,)*
                }
            }
        }
    };
}

events! {
    /// A session began: directory, system prompt, tools, model.
    SessionInit = "session_init", History;
    /// A session ended.
    SessionShutdown = "session_shutdown", Diagnostic;
    /// One step of the shutdown failed.
    SessionShutdownStepError = "session_shutdown_step_error", Diagnostic;
    /// How full the context window is.
    Context = "context", Diagnostic;
    /// The context was compacted.
    ContextCompact = "context_compact", Diagnostic;
    /// A run failed.
    Error = "error", Diagnostic;
    /// A message joined the history.
    HistoryMutation = "history_mutation", History;
    /// A request to a provider.
    ProviderRequest = "provider_request", Correlated;
    /// What went over the wire, in the provider's own form.
    ProviderNativeRawPayload = "provider_native_raw_payload", Correlated;
    /// One streamed piece of text.
    ProviderStreamRawDelta = "provider_stream_raw_delta", Correlated;
    /// The response before it was normalized.
    ProviderResponseRaw = "provider_response_raw", Correlated;
    /// The response that a replay answers with.
    ProviderResponseNormalized = "provider_response_normalized", Response;
    /// How structured output was asked for.
    StructuredOutputTransport = "structured_output_transport", Diagnostic;
    /// Another provider took over.
    ProviderFallback = "provider_fallback", Diagnostic;
    /// The assistant's message was committed.
    AssistantMessageCommitted = "assistant_message_committed", Correlated;
    /// A tool is about to run.
    ToolExecutionRequest = "tool_execution_request", Correlated;
    /// A tool ran.
    ToolExecutionResult = "tool_execution_result", Correlated;
    /// Several tools are about to run.
    ToolBatchStarted = "tool_batch_started", Correlated;
    /// A tool's message was committed.
    ToolMessageCommitted = "tool_message_committed", Correlated;
    /// Something happened to a background task.
    BackgroundTaskEvent = "background_task_event", Auxiliary;
    /// Something happened to a group of background tasks.
    BackgroundJobGroupEvent = "background_job_group_event", Auxiliary;
    /// Something happened to the memory.
    MemoryEvent = "memory_event", Auxiliary;
    /// What a person wrote.
    User = "user", Diagnostic;
    /// The state before a run.
    PreRun = "pre_run", Diagnostic;
    /// One streamed piece of text, without a correlation key.
    TextDelta = "text_delta", Diagnostic;
    /// The state after an assistant's message.
    Assistant = "assistant", Diagnostic;
    /// A tool was called.
    ToolCall = "tool_call", Diagnostic;
    /// A tool answered.
    ToolResult = "tool_result", Diagnostic;
    /// A hook stopped a tool.
    ToolBlocked = "tool_blocked", Diagnostic;
    /// A permission stopped a tool.
    ToolDenied = "tool_denied", Diagnostic;
    /// A tool of the provider ran.
    ServerTool = "server_tool", Diagnostic;
}
