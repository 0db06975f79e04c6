//! How a team's events are read: their members in the order in which they are written.

use super::event::*;
use crate::{reads, reads_names, reads_variants, reads_within_serde};

reads_variants!(Event {
    Created: "team-created/1",
    Dispatched: "dispatched/1",
    Completed: "completed/1",
    Failed: "failed/1",
    Paused: "paused/1",
    Resumed: "resumed/1",
    AttemptStarted: "attempt-started/1",
    AttemptStopped: "attempt-stopped/1",
    Checkpointed: "checkpointed/1",
    Answered: "answered/1",
    CallAdmitted: "call-admitted/1",
    UsageReported: "usage-reported/1",
    ExecutionRecorded: "execution-recorded/1",
});

reads_variants!(Ask { Host: "host", Uncertain: "uncertain", Wait: "wait" });

reads! {
    Created { run_id: "runId", at by instant, seed, definition, options }
    Options {
        order, soft_turn_limit: "softTurnLimit", self_mention: "selfMention", input_overflow: "inputOverflow",
        input_bytes: "inputBytes", output_bytes: "outputBytes",
    }
    At { node_id: "nodeId", position }
    Completed { node_id: "nodeId", position, result }
    Failed { node_id: "nodeId", position, code }
    Paused { node_id: "nodeId", position, reason, request }
    AttemptStarted { node_id: "nodeId", position, attempt_id: "attemptId", at by instant, retry_safe: "retrySafe" }
    Checkpointed { node_id: "nodeId", position, runtime, checkpoint }
    Answered {
        node_id: "nodeId", position, request_id: "requestId", response_id: "responseId", at by instant, response,
        by,
    }
}

reads_names! {
    Order { Declaration: "declaration", OldestTrigger: "oldest-trigger" }
    SelfMention { Allow: "allow", Ignore: "ignore" }
    Overflow { Fail: "fail", DropTail: "drop-tail" }
}

reads_within_serde!(Options);
