/// <reference lib="esnext.disposable" preserve="true" />
/** The shapes of a conversation: what hosts give it and what it gives them. */

import type { ExecutionJournal, ExecutionRecord } from './runtime/types.js';
import type { ConversationStore } from './store-types.js';
import type { PricePolicy, UsageRecord, UsageReport } from './usage-types.js';

export type * from './usage-types.js';

/** Plain JSON. Numbers are finite; a member whose value is `undefined` counts as absent. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue };

/** Names a versioned implementation that a registry can find again. */
export interface RuntimeReference {
  id: string;
  version: string;
}

/**
 * A participant's private state at a boundary, opaque to the engine. `data` replaces the previous
 * head; `append` is added to what earlier checkpoints of this participant appended.
 */
export interface ParticipantCheckpoint {
  version: string;
  data: JsonValue;
  append?: readonly JsonValue[];
}

/** A published message. `revision` is the one that published it. */
export interface SharedMessage {
  readonly id: string;
  readonly participantId: string;
  readonly content: string;
  readonly revision: number;
  readonly turnId: string;
  readonly groupId: string;
  /** Only in team conversations. */
  readonly roomId?: string;
  /** Only in team conversations. */
  readonly mentions?: readonly string[];
}

/** One participant's contribution to a group. A retry keeps `turnId` and has another `attemptId`. */
export interface ParticipantTurn {
  conversationId: string;
  participantId: string;
  turnId: string;
  attemptId: string;
  groupId: string;
  /** What the conversation is for. */
  purpose?: string;
  /** `messages`: those published up to `baseRevision` that this participant neither wrote nor was given before. */
  context: { baseRevision: number; messages: readonly SharedMessage[] };
  /**
   * Of a turn that is tried again: its attempts so far, oldest first. None of them has a result; what they did to the
   * world all the same, their runtime must know. One that does not rejects with an error whose code is
   * `EXECUTION_RECOVERY_REQUIRED`, and the host is asked to reconcile the turn.
   */
  earlierAttempts?: readonly string[];
  /** A host has said `retry` of the attempt before this one: what is uncertain of it may be done again. */
  reconciled?: 'retry';
}

/** What a turn came to. `content` may be empty and is at most 1 MiB of UTF-16 units. */
export type ParticipantOutcome =
  | { kind: 'speak'; content: string }
  | { kind: 'yield' }
  | { kind: 'failed'; message: string }
  | { kind: 'wait'; requests: readonly ParticipantRequest[] };

/** What accompanies a turn. */
export interface ParticipantExecutionOptions {
  /** Fires when the turn should stop; its reason says why. */
  signal: AbortSignal;
  /**
   * Streams text to observers, in order; resolves when they have it, or when the signal fires. Rejects with
   * `invalid-config` what is no string.
   */
  onDelta(text: string): Promise<void>;
  services: TurnServices;
}

/** One participant's state in one conversation, exclusive to one running turn. */
export interface ParticipantSession {
  runTurn(turn: ParticipantTurn, options: ParticipantExecutionOptions): Promise<ParticipantOutcome>;
  /** Continues the same turn after its `wait`, with all answers in request order. */
  resumeTurn?(
    turn: ParticipantTurn,
    responses: readonly ParticipantResponse[],
    options: ParticipantExecutionOptions,
  ): Promise<ParticipantOutcome>;
  /** The private state after a turn; asked for once the turn's result is saved. */
  checkpoint?(): Promise<ParticipantCheckpoint>;
}

/** A session and the way to give it back; `release` is called once. */
export interface ParticipantLease {
  session: ParticipantSession;
  release(): Promise<void>;
}

/** Opens sessions of a participant. */
export interface ParticipantFactory {
  /** Whether sessions can continue after a wait: they have `resumeTurn` and `checkpoint`. */
  supportsContinuation?: boolean;
  /** The checkpoint versions its sessions understand. */
  checkpointVersions?: readonly string[];
  /** `metered`: every model call is admitted and reported through the turn's services. */
  modelCalls?: 'none' | 'metered';
  openSession(context: {
    conversationId: string;
    participantId: string;
    /** What to restore: the last head with every append joined. */
    checkpoint?: ParticipantCheckpoint;
    /** The conversation this one was forked from. */
    forkedFrom?: { conversationId: string; revision: number };
  }): Promise<ParticipantLease>;
}

/** A participant that a runtime speaks for. */
export interface AgentParticipant {
  kind: 'agent';
  id: string;
  description?: string;
  runtime: RuntimeReference;
  factory: ParticipantFactory;
}

/** A person or remote system; answers through `submitInput` and `resume`. */
export interface ExternalParticipant {
  kind: 'external';
  id: string;
  description?: string;
}

export type ParticipantDefinition = AgentParticipant | ExternalParticipant;

/** What a turn asks for before it can go on. `id` was never used before in the conversation. */
export type ParticipantRequest = { id: string; reason: string } & (
  | { kind: 'input'; participantId: string }
  | { kind: 'approval' | 'reconciliation'; data: JsonValue }
);

/** A question the conversation waits on. `memberId` is absent where a selection asks. */
export type ConversationRequest = {
  id: string;
  reason: string;
  participantId: string;
  groupId: string;
  turnId: string;
} & ({ kind: 'input'; memberId?: string } | { kind: 'approval' | 'reconciliation'; memberId: string; data: JsonValue });

/** An answer; exactly the members of its kind, which is the request's kind. */
export type RequestResponse =
  | { kind: 'input'; content: string }
  | { kind: 'input'; declined: true; reason?: string }
  | { kind: 'approval'; approved: boolean; reason?: string }
  | { kind: 'reconciliation'; data: JsonValue };

/** A request with its answer, as a continued turn is given it. */
export interface ParticipantResponse {
  request: ConversationRequest;
  responseId: string;
  response: RequestResponse;
}

/** Who goes next. `parallel` names agents, in publication order; `wait` names an external participant. */
export type Selection =
  | { kind: 'speak'; participantId: string }
  | { kind: 'parallel'; participantIds: readonly string[] }
  | { kind: 'wait'; participantId: string; reason: string }
  | { kind: 'finish'; reason: string };

/** A turn of a committed group. */
export interface CompletedTurn {
  readonly id: string;
  readonly groupId: string;
  readonly participantId: string;
  readonly outcome: 'speak' | 'yield';
  /** When its first attempt started, ISO 8601. */
  readonly startedAt: string;
  /** When its result was saved, ISO 8601. */
  readonly settledAt: string;
}

/** What a selector sees; nothing private. */
export interface SelectionContext {
  participants: readonly { readonly id: string; readonly kind: 'agent' | 'external'; readonly description?: string }[];
  messages: readonly SharedMessage[];
  turns: readonly CompletedTurn[];
  /** Turns left in this run. */
  remainingTurns: number;
}

/** Decides who goes next. */
export interface TurnSelector {
  /** Under which reference a load finds it again. */
  reference?: RuntimeReference;
  modelCalls?: 'none' | 'metered';
  /** Its private state, saved with each decision. */
  checkpoint?(): Promise<ParticipantCheckpoint>;
  select(context: SelectionContext, options: SelectorOptions): Selection | Promise<Selection>;
  /** Called once by the conversation's `dispose()`, which waits for it as long as `settleTimeoutMs` says. */
  release?(): Promise<void>;
}

/** What accompanies a selection. */
export interface SelectorOptions {
  signal: AbortSignal;
  services: TurnServices;
  /** Unique among the attempts of the conversation, for the ids of model calls; a retry has another. */
  attemptId?: string;
}

/** Caps; each a positive safe integer. The journal keeps them, and `run({ limits })` replaces them. */
export interface RunLimits {
  /** Attempted member turns per run, continued ones included. */
  maxTurnsPerRun: number;
  /** How long a run may take before it stops dispatching. */
  timeoutMs?: number;
  /**
   * How long a signalled attempt may take to settle before it is given up, in milliseconds. `dispose()` waits as long
   * for a session that opens, and 5 seconds longer for one that is released, as for the selector after them, which it
   * reports; default for ever.
   */
  settleTimeoutMs?: number;
  maxModelCallsPerRun?: number;
  maxModelCallsPerConversation?: number;
  maxModelCallsPerParticipant?: number;
  /** Reported tokens, checked before each dispatch and admission; calls in flight may overrun it. */
  maxTokensPerRun?: number;
}

/** Time, where the host's own is not wanted. */
export interface Clock {
  /** Epoch milliseconds; must not go back. */
  now(): number;
  setTimeout(callback: () => void, delayMs: number): unknown;
  clearTimeout(handle: unknown): void;
}

/** What {@link createRoundtable} takes. It is copied; later edits change nothing. */
export interface RoundtableOptions {
  /** 1 to 512 UTF-16 units without control characters. */
  conversationId: string;
  purpose?: string;
  /** In declared order; 1 to 1,000. */
  participants: readonly ParticipantDefinition[];
  /** Default: `roundRobin()`. */
  selector?: TurnSelector;
  limits: RunLimits;
  /** How many members of a group run at once. Default 1. */
  maxConcurrentParticipants?: number;
  /** Default: a store of this conversation's own, in memory. */
  store?: ConversationStore;
  /** `durable` is refused where store, factories and selector cannot all be brought back. Default `none`. */
  recovery?: 'none' | 'durable';
  /** How long a claim on the stored conversation lasts unrenewed. Default 30,000. */
  leaseMs?: number;
  pricing?: PricePolicy;
  /** Told what became durable, and streamed text; awaited, one event at a time. */
  onEvent?(event: RoundtableEvent): void | Promise<void>;
  /** Told what `onEvent` or `pricing` threw; what it throws itself is dropped. */
  onEventError?(error: unknown, event: RoundtableEvent): void | Promise<void>;
  /**
   * Fixes every generated id of the journal; for tests and reproductions. The ids of claims and store
   * operations stay random: they tell this handle from every other.
   */
  seed?: string;
  clock?: Clock;
}

/** A conversation. Every method rejects with a `RoundtableError` that has a stable `code`. */
export interface Roundtable {
  /**
   * Advances until an outcome. Completed and failed are final and repeat; the others leave a
   * conversation that goes on with the next call.
   * @throws `busy` while another call is at work, `stale-claim` when another host took over,
   *   `unavailable` when the store did not answer or a participant's session did not open (`cause` says why), `disposed`
   */
  run(options?: { signal?: AbortSignal; limits?: Partial<RunLimits> }): Promise<RunResult>;
  /**
   * Accepts a person's words; never executes anyone. The same `inputId` and content again gives the same receipt.
   * @throws `invalid-config` for a malformed argument, `conflict`, `busy`, `disposed`
   */
  submitInput(input: {
    participantId: string;
    inputId: string;
    expectedRevision: number;
    content: string;
    replyToRequestId?: string;
    /** Who brought it; kept in the journal. */
    by?: string;
  }): Promise<{ revision: number; messageId: string }>;
  /**
   * Accepts an answer; the next `run()` continues the member. The same `responseId` again gives the same receipt.
   * @throws `invalid-config` for a malformed argument, `conflict`, `busy`, `disposed`
   */
  resume(input: {
    requestId: string;
    responseId: string;
    expectedRevision: number;
    response: RequestResponse;
    by?: string;
  }): Promise<{ revision: number; requestId: string; responseId: string }>;
  /**
   * Closes an open request: a selection's wait counts as a yield, a member's turn is given a declined answer.
   * @throws `invalid-config` for a malformed argument, `conflict`, `busy`, `disposed`
   */
  withdraw(input: {
    requestId: string;
    expectedRevision: number;
    by: string;
    reason: string;
  }): Promise<{ revision: number }>;
  /**
   * Says what became of a turn that no process saw settle: `retry` where nothing happened, `settle` where
   * it happened and this came of it, `fail`. Executes nobody. Such turns are listed by the error
   * `recovery-required`. The same decision again gives the same revision until the turn goes on.
   * Without `checkpoint` the participant goes on from the one saved last, and there must be one.
   * @throws `invalid-config` for a malformed argument, `conflict` for another turn or what cannot be saved,
   *   `busy`, `disposed`
   */
  reconcile(input: {
    turnId: string;
    expectedRevision: number;
    by: string;
    decision: ReconcileDecision;
  }): Promise<{ revision: number }>;
  /** The state at the last durable revision: frozen, built on first access, shared until the next change. */
  snapshot(): ConversationSnapshot;
  /**
   * Events from now on, or from a revision: then first those of the journal that came after it, read
   * from the store, and no event twice. Each call is one consumer with a buffer of 1,024 events, in which unread
   * deltas of one attempt merge; one that falls further behind ends with an error. It ends normally
   * with `dispose()` or when `signal` fires.
   */
  events(options?: { signal?: AbortSignal; afterRevision?: number }): AsyncIterableIterator<RoundtableEvent>;
  /**
   * Ends an active run as `cancelled`, waits for running work and releases every session once;
   * called from inside a callback of this conversation it resolves at once. Idempotent.
   * @throws an AggregateError with `code`, listing the releases that failed or took too long
   */
  dispose(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** What became of a turn whose outcome was unknown. */
export type ReconcileDecision =
  | { kind: 'retry' }
  | { kind: 'settle'; outcome: ParticipantOutcome; checkpoint?: ParticipantCheckpoint }
  | { kind: 'fail'; message: string };

/** A turn that is stored as running and that no process saw settle. */
export interface UnsettledTurn {
  readonly turnId: string;
  readonly participantId: string;
  readonly groupId: string;
  readonly attemptId: string;
  /** When its first attempt began, ISO 8601. */
  readonly startedAt: string;
  /** A result known all the same, to settle with: stored without its checkpoint, or returned too late. */
  readonly outcome?: ParticipantOutcome;
  /** What it threw too late. */
  readonly error?: string;
}

/** Finds again what a stored conversation names. */
export interface RoundtableRegistry {
  /** The runtime under this reference, with the reference it has today. */
  resolveParticipant(reference: RuntimeReference): ParticipantRegistration | Promise<ParticipantRegistration>;
  /** Needed where host code selects. */
  resolveSelector?(reference: RuntimeReference): SelectorRegistration | Promise<SelectorRegistration>;
  /**
   * Brings a saved private state to another version of its runtime; asked when the id is equal and the
   * version is not. Without it such a runtime is refused.
   */
  migrate?(context: {
    participantId: string;
    from: RuntimeReference;
    to: RuntimeReference;
    checkpoint: ParticipantCheckpoint;
  }): ParticipantCheckpoint | Promise<ParticipantCheckpoint>;
}

export interface ParticipantRegistration {
  reference: RuntimeReference;
  factory: ParticipantFactory;
}

export interface SelectorRegistration {
  reference: RuntimeReference;
  /** The versions of saved state that `create` understands. */
  checkpointVersions?: readonly string[];
  /** Called when a conversation is loaded, and again where another host decided meanwhile. */
  create(context: { checkpoint?: ParticipantCheckpoint }): TurnSelector | Promise<TurnSelector>;
}

/** What {@link loadRoundtable} takes. */
export interface LoadOptions {
  conversationId: string;
  store: ConversationStore;
  registry: RoundtableRegistry;
  /** The policy of the stored version, where there is one. */
  pricing?: PricePolicy;
  /**
   * Turns that no process saw settle: `refuse` rejects with `recovery-required`; `reconcile` gives a
   * conversation on which everything else is refused until they are reconciled. Default `refuse`.
   */
  unsettled?: 'refuse' | 'reconcile';
  onEvent?(event: RoundtableEvent): void | Promise<void>;
  onEventError?(error: unknown, event: RoundtableEvent): void | Promise<void>;
  clock?: Clock;
}

/** How a run ended, and the revision of its end. */
export type RunResult = { revision: number } & (
  | { status: 'completed'; reason: string }
  | { status: 'limited'; reason: 'turns' | 'time' | 'model-calls' | 'tokens' }
  | { status: 'cancelled' }
  | { status: 'failed'; message: string; code?: string }
  | { status: 'waiting'; requests: ConversationRequest[] }
);

/** The public state of a conversation at one revision. */
export interface ConversationSnapshot {
  readonly conversationId: string;
  /** 0 before the first call that writes. */
  readonly revision: number;
  readonly status: 'open' | 'waiting' | 'completed' | 'failed' | 'recovery-required';
  readonly purpose?: string;
  readonly participants: SelectionContext['participants'];
  readonly messages: readonly SharedMessage[];
  readonly turns: readonly CompletedTurn[];
  /** Open requests, in selection and request order. */
  readonly requests: readonly ConversationRequest[];
  /** One record for each model call, in the order of their admission. */
  readonly usage: readonly UsageRecord[];
}

/** What every event has. `at` is ISO 8601. */
export interface EventBase {
  readonly conversationId: string;
  /** The run it belongs to, or the latest; absent before the first. */
  readonly runId?: string;
  readonly at: string;
}

/** Streamed text: a preview, not durable. `index` counts from 0 in each attempt. */
export type DeltaEvent = EventBase & {
  readonly type: 'delta';
  readonly groupId: string;
  readonly turnId: string;
  readonly attemptId: string;
  readonly participantId: string;
  readonly index: number;
  readonly text: string;
};

/** Something that became durable at `revision`. */
export type DurableEvent = EventBase & { readonly revision: number } & (
    | { readonly type: 'run-started' }
    | { readonly type: 'selected'; readonly selection: Selection }
    | {
        readonly type: 'group-started';
        readonly groupId: string;
        readonly participantIds: readonly string[];
        readonly baseRevision: number;
      }
    | {
        readonly type: 'turn-started';
        readonly turnId: string;
        readonly attemptId: string;
        readonly participantId: string;
      }
    | {
        readonly type: 'turn-stopped';
        readonly turnId: string;
        readonly attemptId: string;
        readonly participantId: string;
        readonly reason: 'cancelled' | 'time' | 'model-calls' | 'group-failed' | 'interrupted';
      }
    | { readonly type: 'prepared'; readonly groupId: string; readonly turnId: string; readonly participantId: string }
    /** Also sent for unprompted input, and with an empty list where all members yielded. */
    | { readonly type: 'published'; readonly groupId: string; readonly messages: readonly SharedMessage[] }
    | { readonly type: 'requested'; readonly requests: readonly ConversationRequest[] }
    | { readonly type: 'answered'; readonly requestId: string }
    | { readonly type: 'usage'; readonly record: UsageRecord }
    | { readonly type: 'run-ended'; readonly result: RunResult }
  );

export type RoundtableEvent = DeltaEvent | DurableEvent;

/** What a turn may ask of the conversation, on its own account. */
export interface TurnServices {
  /** The conversation's own journal, for what this turn's execution must not lose. */
  journal: ConversationJournal;
  /**
   * Await this before a model call. Idempotent per call id.
   * @throws `model-call-limit` where a limit is spent, `conflict` where the id names another call, the
   *   signal's reason once it fired
   */
  admitModelCall(call: { callId: string; providerId: string; modelId: string }): Promise<void>;
  /**
   * Reports a call; an identical report is a no-op, and a final one cannot be replaced.
   * @throws `conflict` for a call that was not admitted, or whose final report stands
   */
  recordUsage(report: UsageReport): Promise<void>;
}

/**
 * An execution journal kept with the conversation. A turn's records stay readable across its waits and
 * retries, and are dropped once its result is prepared or it fails. They are private: no event, snapshot
 * or selector shows them. A selector has no execution to record.
 */
export interface ConversationJournal extends ExecutionJournal {
  /** Whether records outlive the process: the conversation has `recovery: 'durable'`. */
  readonly durable: boolean;
  /**
   * Resolves when the record is stored. Dates in it come back as dates. The same record again is a
   * no-op. An attempt whose signal fired may record until it returns.
   * @throws `conflict` where the id names another record of this turn, or the attempt is over; the
   *   signal's reason where it is over and was stopped; `invalid-config` for what is no such record
   */
  append(record: ExecutionRecord): Promise<void>;
  /**
   * The stored records of one execution of this turn, in their order.
   * @throws `conflict` where another attempt, or none, is the turn's latest
   */
  read(executionId: string): Promise<readonly ExecutionRecord[]>;
}
