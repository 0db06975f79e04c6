//! How the shapes of the journal are read: their members in the order in which they are written.

use super::entry::*;
use super::execution::{ExecutionRecord, Records};
use super::model::*;
use super::snapshot::usage::{self, Line};
use super::state::*;
use super::tagged::*;
use super::usage::*;
use crate::value::shape::{Read, Reader, misfit};
use crate::value::{CanonicalJson, Json};
use crate::{reads, reads_names, reads_variants, reads_within_serde};
use std::rc::Rc;

reads_variants!(Entry {
    Created: "created/1",
    RunStarted: "run-started/1",
    Selecting: "selecting/1",
    Selected: "selected/1",
    GroupStarted: "group-started/1",
    TurnStarted: "turn-started/1",
    TurnSettled: "turn-settled/1",
    TurnPrepared: "turn-prepared/1",
    TurnFailed: "turn-failed/1",
    TurnStopped: "turn-stopped/1",
    TurnUnsettled: "turn-unsettled/1",
    LateResult: "late-result/1",
    GroupCommitted: "group-committed/1",
    Answered: "answered/1",
    Withdrawn: "withdrawn/1",
    InputAccepted: "input-accepted/1",
    CallAdmitted: "call-admitted/1",
    UsageReported: "usage-reported/1",
    ExecutionRecorded: "execution-recorded/1",
    Reconciled: "reconciled/1",
    Migrated: "migrated/1",
    RunEnded: "run-ended/1",
    TurnCopied: "turn-copied/1",
    MessageCopied: "message-copied/1",
    CheckpointCopied: "checkpoint-copied/1",
});

reads! {
    RuntimeReference { id, version }
    Participant { id, description, agent }
    AgentTraits {
        runtime, supports_continuation: "supportsContinuation", checkpoint_versions: "checkpointVersions",
        model_calls: "modelCalls",
    }
    Limits {
        max_turns_per_run: "maxTurnsPerRun", timeout_ms: "timeoutMs", settle_timeout_ms: "settleTimeoutMs",
        max_model_calls_per_run: "maxModelCallsPerRun", max_model_calls_per_conversation:
        "maxModelCallsPerConversation", max_model_calls_per_participant: "maxModelCallsPerParticipant",
        max_tokens_per_run: "maxTokensPerRun",
    }
    Message { id, participant_id: "participantId", content, revision, turn_id: "turnId", group_id: "groupId" }
    Checkpoint { version, data, append }
    ParticipantRequest { id, reason, kind, participant_id: "participantId", data by present }
    Request {
        id, reason, kind, participant_id: "participantId", group_id: "groupId", turn_id: "turnId", member_id:
        "memberId", data by present,
    }
    ParticipantResponse { request, response_id: "responseId", response }
    CompletedTurn {
        id, group_id: "groupId", participant_id: "participantId", outcome, started_at: "startedAt" by instant,
        settled_at: "settledAt" by instant,
    }
    ModelCall { call_id: "callId", provider_id: "providerId", model_id: "modelId" }
    UsageReport {
        call_id: "callId", outcome, provenance, tokens, raw by present, r#final: "final", provider_id: "providerId",
        model_id: "modelId",
    }
    Tokens { input, output, cache_read: "cacheRead", cache_write: "cacheWrite", reasoning }
    Money { currency, minor_units: "minorUnits" }
    Price { version, cost }
    Principal { kind, id }
    Settlement { outcome, provenance, tokens, raw by present, r#final: "final" }
    Created {
        conversation_id: "conversationId", at by instant, seed, purpose, participants, selector, context_policy:
        "contextPolicy", limits, max_concurrent_participants: "maxConcurrentParticipants", lease_ms: "leaseMs",
        recovery, price_version: "priceVersion", origin,
    }
    Origin { conversation_id: "conversationId", revision, entries, messages, decisions, decision, members }
    CopiedMember { cursor, prepared }
    RunStarted { run_id: "runId", at by instant, limits }
    Selecting { attempt_id: "attemptId", at by instant }
    Selected { at by instant, selection, checkpoint }
    GroupStarted { group_id: "groupId", at by instant, turn_ids: "turnIds", request_id: "requestId" }
    TurnStarted { turn_id: "turnId", attempt_id: "attemptId", at by instant }
    TurnSettled { turn_id: "turnId", at by instant, outcome }
    TurnPrepared { turn_id: "turnId", at by instant, checkpoint }
    TurnFailed { turn_id: "turnId", at by instant, message, code }
    TurnStopped { turn_id: "turnId", at by instant, reason }
    TurnUnsettled { turn_id: "turnId", at by instant }
    LateResult { turn_id: "turnId", at by instant, outcome, error }
    GroupCommitted { group_id: "groupId", at by instant, message_ids: "messageIds" }
    Answered {
        request_id: "requestId", response_id: "responseId", via, at by instant, response, by, message_id:
        "messageId",
    }
    Withdrawn { request_id: "requestId", response_id: "responseId", at by instant, by, reason }
    InputAccepted {
        input_id: "inputId", participant_id: "participantId", at by instant, content, message_id: "messageId",
        group_id: "groupId", turn_id: "turnId", by,
    }
    CallAdmitted {
        call_id: "callId", attempt_id: "attemptId", at by instant, provider_id: "providerId", model_id: "modelId",
    }
    UsageReported {
        call_id: "callId", attempt_id: "attemptId", at by instant, outcome, provenance, tokens, raw by present,
        r#final: "final", provider_id: "providerId", model_id: "modelId", price,
    }
    ExecutionRecorded { attempt_id: "attemptId", at by instant, record }
    Reconciled { turn_id: "turnId", at by instant, by, decision }
    Migrated { participant_id: "participantId", at by instant, agent, checkpoint }
    RunEnded { run_id: "runId", at by instant, outcome }
    TurnCopied { turn }
    MessageCopied {
        message_id: "messageId", participant_id: "participantId", content, turn_id: "turnId", group_id: "groupId",
        consumed_by: "consumedBy",
    }
    CheckpointCopied { participant_id: "participantId", checkpoint }
    Member { cursor, checkpoint, prepared, calls }
    Group { id, base_revision: "baseRevision", base_messages: "baseMessages", external, turns }
    Turn {
        id, participant, phase, attempt, earlier by or_default, started_at: "startedAt", settled_at: "settledAt",
        outcome, asks, replies, failure, evidence, changed, reconciled, records,
    }
    ReconciledTurn { revision, by, decision }
    Failure { message, code }
    Ask { request, revision, answer }
    Answer { response_id: "responseId", response, message_id: "messageId" }
    Reply { message_id: "messageId", participant_id: "participantId", content }
    Run { id, turns, calls, tokens }
    Receipt {
        revision, via, participant_id: "participantId", request_id: "requestId", response, message_id: "messageId",
    }
    Payer { run, member }
    AnyDecision { kind, outcome, checkpoint, message }
    AnySelection { kind, participant_id: "participantId", participant_ids: "participantIds", reason }
    AnyOutcome { kind, content, requests, message }
    AnyResponse { kind, content, declined, approved, reason, data by present }
    AnyRunOutcome { kind: "status", reason, message, code }
    HostSelector { reference, model_calls: "modelCalls" }
    Line {
        call_id: "callId", provider_id: "providerId", model_id: "modelId", conversation_id: "conversationId",
        run_id: "runId", principal, turn_id: "turnId", group_id: "groupId", attempt_id: "attemptId", revision, price,
        settlement,
    }
}

reads_names! {
    ModelCalls { None: "none", Metered: "metered" }
    Recovery { None: "none", Durable: "durable" }
    RequestKind { Input: "input", Approval: "approval", Reconciliation: "reconciliation" }
    CompletedOutcome { Speak: "speak", Yield: "yield" }
    StopReason {
        Cancelled: "cancelled", Time: "time", ModelCalls: "model-calls", GroupFailed: "group-failed", Interrupted:
        "interrupted",
    }
    LimitReason { Turns: "turns", Time: "time", ModelCalls: "model-calls", Tokens: "tokens" }
    CallOutcome { Completed: "completed", Failed: "failed", Cancelled: "cancelled", CacheHit: "cache-hit" }
    Provenance { Reported: "reported", Partial: "partial", Estimated: "estimated", Unknown: "unknown" }
    PrincipalKind { Participant: "participant", Selector: "selector" }
    Door { SubmitInput: "submit-input", Resume: "resume" }
    Phase {
        Pending: "pending", Running: "running", Settled: "settled", Prepared: "prepared", Parked: "parked", Failed:
        "failed", Unsettled: "unsettled",
    }
}

/// Shapes that name their kind in a member are read with the members of every kind, and then refused or taken.
macro_rules! reads_tagged {
    ($($type:ident by $any:ident, or $blank:expr;)*) => {$(
        impl Read for $type {
            fn read(reader: &mut Reader<'_>) -> Self {
                let any = $any::read(reader);
                any.try_into().unwrap_or_else(|problem| {
                    reader.fail(misfit(problem));
                    $blank
                })
            }
        }
    )*};
}

reads_tagged! {
    Decision by AnyDecision, or Decision::Retry;
    Selection by AnySelection, or Selection::Finish { reason: Rc::default() };
    Outcome by AnyOutcome, or Outcome::Yield;
    Response by AnyResponse, or Response::Approval { approved: false, reason: None };
    RunOutcome by AnyRunOutcome, or RunOutcome::Cancelled;
}

struct HostSelector {
    reference: Option<RuntimeReference>,
    model_calls: Option<ModelCalls>,
}

impl Read for Selector {
    fn read(reader: &mut Reader<'_>) -> Self {
        if reader.is_text() {
            if reader.text() != "round-robin" {
                reader.fail_name(SELECTORS);
            }
            return Selector::RoundRobin;
        }
        if reader.variant() != "host" {
            reader.fail_name(SELECTORS);
        }
        let HostSelector { reference, model_calls } = Read::read(reader);
        reader.end_variant();
        Selector::Host { reference, model_calls }
    }
}

const SELECTORS: &[&str] = &["round-robin", "host"];

impl Read for State {
    fn read(reader: &mut Reader<'_>) -> Self {
        reader.open();
        let state = State {
            revision: reader.member("revision"),
            entries: reader.member("entries"),
            issued: reader.member("issued"),
            created: reader.member("created"),
            limits: reader.member("limits"),
            members: reader.member("members"),
            messages: reader.member("messages"),
            consumed_by: reader.member("consumedBy"),
            turns: reader.member("turns"),
            messages_revision: reader.member("messagesRevision"),
            decision: reader.member("decision"),
            decisions: reader.member("decisions"),
            selector_checkpoint: reader.member("selectorCheckpoint"),
            selecting: reader.member("selecting"),
            group: reader.member("group"),
            run: reader.member("run"),
            last_run: reader.member("lastRun"),
            ended: reader.member("ended"),
            receipts: reader.member("receipts"),
            ledger: reader.member("ledger"),
            // Follows from the participants.
            positions: Rc::default(),
            used_ids: reader.member("usedIds"),
        };
        reader.close();
        state
    }
}

impl Read for Ledger {
    fn read(reader: &mut Reader<'_>) -> Self {
        reader.open();
        let records: Vec<Line> = reader.member("records");
        let records = records.into_iter().map(usage::record);
        let ledger = Ledger {
            records: records.map(|record| (record.call_id.clone(), Rc::new(record))).collect(),
            order: reader.member("order"),
            calls: reader.member("calls"),
            attempts: reader.member("attempts"),
        };
        reader.close();
        ledger
    }
}

/// What came of an attempt late: an outcome, or why there is none.
impl Read for Result<Outcome, Rc<str>> {
    fn read(reader: &mut Reader<'_>) -> Self {
        let evidence = match &*reader.variant() {
            "Ok" => Ok(Read::read(reader)),
            found => {
                if found != "Err" {
                    reader.fail_name(&["Ok", "Err"]);
                }
                Err(Read::read(reader))
            }
        };
        reader.end_variant();
        evidence
    }
}

impl Read for ExecutionRecord {
    fn read(reader: &mut Reader<'_>) -> Self {
        let json = reader.json();
        ExecutionRecord::of(&json).unwrap_or_else(|problem| {
            reader.fail(problem);
            ExecutionRecord { id: Id::default(), execution_id: Id::default(), json: CanonicalJson::of(&Json::Null) }
        })
    }
}

impl Read for Records {
    fn read(reader: &mut Reader<'_>) -> Self {
        Records::from(reader.list::<ExecutionRecord>())
    }
}

impl<V: Read> Read for IdMap<V> {
    fn read(reader: &mut Reader<'_>) -> Self {
        reader.list::<(Id, V)>().into_iter().collect()
    }
}

impl Read for IdSet {
    fn read(reader: &mut Reader<'_>) -> Self {
        reader.list().into_iter().collect()
    }
}

/// A member of a group with its turn and its group.
impl Read for (usize, Id, Id) {
    fn read(reader: &mut Reader<'_>) -> Self {
        reader.open_list();
        let member = usize::read(reader);
        reader.next_item();
        let turn = Id::read(reader);
        reader.next_item();
        let group = Id::read(reader);
        reader.close_list();
        (member, turn, group)
    }
}

reads_within_serde!(
    Participant,
    ExecutionRecord,
    Checkpoint,
    CompletedTurn,
    Decision,
    Limits,
    Message,
    Outcome,
    ParticipantRequest,
    ParticipantResponse,
    Recovery,
    Request,
    Response,
    RunOutcome,
    RuntimeReference,
    Selection,
    Selector,
    StopReason,
    ModelCall,
    ModelCalls,
    Money,
    UsageReport,
);
