/** Teams as hosts know them. */

import type { ConversationStore } from '../store-types.js';
import type {
  AgentParticipant,
  Clock,
  ConversationRequest,
  JsonValue,
  ParticipantExecutionOptions,
  ParticipantResponse,
  RequestResponse,
  UsageRecord,
} from '../types.js';
import type { TeamPause } from './pause.js';

/** What a team is. Texts may be empty; lists keep their order, which breaks every tie. */
export interface TeamDefinition {
  /** Ids: 1 to 512 UTF-16 units, not padded, without control characters. */
  id: string;
  definitionVersion: number;
  data: {
    task: string;
    /** Turns in one batch. */
    globalConcurrency: number;
    /** Turns of each member. */
    maxTurnsPerMember: number;
    /** Without it no result may have posts. */
    communication?: {
      rooms: readonly { id: string; members: readonly string[] }[];
      /** How many of each room's last messages an input shows; messages that asked for the turn come on top. */
      tailMessages: number;
    };
  };
  nodes: readonly {
    /** The member's address. */
    id: string;
    data: {
      role: string;
      brief: string;
      /** Whether it has a turn before anybody mentions it. Default true. */
      initialTurn?: boolean;
      /** What it shares with members of the same lane id, which must declare it alike. */
      lane?: { id: string; [key: string]: JsonValue };
    };
  }[];
  /** Always empty: messages request turns. */
  edges: readonly [];
}

/** What a member is shown. */
export interface TeamTurnInput {
  readonly task: string;
  readonly role: string;
  readonly brief: string;
  /** The member's own previous result. */
  readonly result: TeamTurnResult | null;
  /** Of the member's rooms, in saved order. */
  readonly messages: readonly TeamMessage[];
  /** How many messages were left out to keep `limits.inputBytes`. */
  readonly omitted?: number;
}

/** What a turn comes to. */
export interface TeamTurnResult {
  summary: string;
  data?: JsonValue;
  posts?: readonly { roomId: string; text: string; mentions: readonly string[] }[];
}

/** An accepted post. */
export interface TeamMessage {
  readonly roomId: string;
  readonly text: string;
  readonly mentions: readonly string[];
  /** `<position>/<i>`, i from 0. */
  readonly id: string;
  readonly sender: string;
  /** `team/<member>/<n>`, n from 1. */
  readonly position: string;
}

/** What accompanies a function's turn. */
export interface TeamTurnOptions extends ParticipantExecutionOptions {
  readonly position: string;
  /** Return what this gives to wait for the host. The reason is not empty and has no control characters. */
  pause(reason: string, request: JsonValue): TeamPause;
  /** Answers the host gave when it resumed this turn. */
  readonly responses: readonly ParticipantResponse[];
  /** How many messages came into the member's rooms since its input was made. */
  readonly newerMessages: number;
}

/** A member that is a function of its input. */
export interface TeamFunction {
  (input: TeamTurnInput, options: TeamTurnOptions): TeamTurnResult | TeamPause | Promise<TeamTurnResult | TeamPause>;
  /** Whether a turn that a crash interrupted may be repeated unasked. Default false: the team pauses and asks. */
  retrySafe?: boolean;
}

export type TeamMember = AgentParticipant | TeamFunction;

interface TeamSetting {
  /** The record's id in the store: 1 to 512 UTF-16 units. */
  runId: string;
  /** A member for each node, by its id. */
  members: Readonly<Record<string, TeamMember>>;
  /** Reads an agent's words; default: a JSON object that keeps the contract, else `{ summary: words }`. */
  parse?(content: string, memberId: string): TeamTurnResult;
  onEvent?(event: TeamEvent): void | Promise<void>;
  /** Told what `onEvent` threw. */
  onEventError?(error: unknown, event: TeamEvent): void | Promise<void>;
  /** How long a claim on the record lasts unrenewed. Default 30,000. */
  leaseMs?: number;
  clock?: Clock;
}

/** What {@link createTeam} takes. */
export interface TeamOptions extends TeamSetting {
  definition: TeamDefinition;
  /** Default: a store of this team's own, in memory. */
  store?: ConversationStore;
  limits?: {
    /** UTF-8 bytes of a turn's input as canonical JSON; more is `INPUT_LIMIT`, and no call. */
    inputBytes?: number;
    /** `drop-tail`: leaves out the oldest messages that asked for nothing instead. Default `fail`. */
    inputOverflow?: 'fail' | 'drop-tail';
    /** UTF-8 bytes of a turn's result as canonical JSON; more is `OUTPUT_LIMIT`, and nothing is posted. */
    outputBytes?: number;
    /**
     * How long a member may take to return once its signal fired, before its attempt is given up as one of
     * which nobody knows the outcome; what it returns later is ignored. Not part of the record. Default: any time.
     */
    settleTimeoutMs?: number;
  };
  /** Who of several is first: the one declared first, or the one whose message is oldest. */
  order?: 'declaration' | 'oldest-trigger';
  /** Ends the run `limited` with its results where a member is at its cap. */
  softTurnLimit?: boolean;
  /** Whether a member that mentions itself gets another turn. Default `allow`. */
  selfMention?: 'allow' | 'ignore';
  /** Fixes every generated id of the record. */
  seed?: string;
}

/** What {@link loadTeam} takes. */
export interface LoadTeamOptions extends TeamSetting {
  store: ConversationStore;
  /** Compared with the stored one where it is given. */
  definition?: TeamDefinition;
  /** The others are in the record. */
  limits?: Pick<NonNullable<TeamOptions['limits']>, 'settleTimeoutMs'>;
}

/** A team. Methods reject with a `TeamError` or a `RoundtableError`, which both have a stable `code`. */
export interface Team {
  /**
   * Goes on until an outcome. What is complete or failed stays so and repeats without a call.
   * @throws `busy`, `stale-claim`, `unavailable`, `disposed`, `STORED_GRAPH_MISMATCH`, `INVALID_EVENT`
   */
  run(options?: { signal?: AbortSignal }): Promise<TeamOutcome>;
  /**
   * Takes up a turn that waits, under the same position and with its original input, and goes on until an
   * outcome. An agent's turn goes on once all its requests are answered.
   * @throws as `run`, and `not-found` for a turn or request that is not open, `conflict` for an answer of
   *   another kind
   */
  resume(
    input: {
      /** One of the two is needed. */
      position?: string;
      requestId?: string;
      responseId?: string;
      response?: RequestResponse;
      expectedRevision?: number;
      by?: string;
    },
    options?: { signal?: AbortSignal },
  ): Promise<TeamOutcome>;
  /** The state at the last durable revision, frozen. */
  snapshot(): TeamSnapshot;
  /** Stops everything and gives every session back. */
  dispose(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export type TeamOutcome = { revision: number } & (
  | { status: 'completed'; output: TeamResult }
  | { status: 'paused'; reason: string; requests: ConversationRequest[]; output: TeamResult }
  | { status: 'limited'; output: TeamResult }
  | { status: 'cancelled' }
  | {
      status: 'failed';
      code: 'TEAM_NODE_FAILED' | 'TEAM_TURN_LIMIT';
      members: { id: string; code: string }[];
      /** Members that were still to be heard, with the messages that asked for them. */
      pending: { id: string; messages: string[] }[];
      /** What there is. */
      output: TeamResult;
    }
);

/** Every member's last result, in declared order; null where it completed no turn. */
export interface TeamResult {
  task: string;
  agents: { name: string; role: string; result: TeamTurnResult | null }[];
}

/** A team at one revision. */
export interface TeamSnapshot {
  readonly runId: string;
  readonly revision: number;
  readonly definition: TeamDefinition;
  readonly members: readonly {
    readonly id: string;
    readonly status: 'idle' | 'in-flight' | 'paused' | 'failed';
    /** Turns dispatched so far. */
    readonly turns: number;
    readonly queued: boolean;
    /** Ids of the messages that asked for its next turn. */
    readonly triggers: readonly string[];
    readonly inFlight: string | null;
    readonly pauseReason: string | null;
    readonly failureCode: string | null;
    readonly result: TeamTurnResult | null;
  }[];
  readonly messages: readonly TeamMessage[];
  readonly requests: readonly ConversationRequest[];
  readonly output: TeamResult;
  readonly usage: readonly UsageRecord[];
}

/** What became durable, and streamed text. */
export type TeamEvent = { readonly runId: string; readonly at: string } & (
  | ({ readonly revision: number; readonly nodeId: string; readonly position: string } & (
      | { readonly type: 'dispatched' }
      | { readonly type: 'completed'; readonly result: TeamTurnResult; readonly messages: readonly TeamMessage[] }
      | { readonly type: 'failed'; readonly code: string }
      | { readonly type: 'paused'; readonly reason: string }
      | { readonly type: 'resumed' }
    ))
  | {
      readonly type: 'delta';
      readonly nodeId: string;
      readonly position: string;
      readonly attemptId: string;
      readonly index: number;
      readonly text: string;
    }
);

/** A checked definition. */
export interface CompiledTeam {
  /** A frozen copy. */
  readonly definition: TeamDefinition;
  /** How many turns there can be, and how many at once. */
  readonly bounds: { readonly minDispatches: number; readonly maxDispatches: number; readonly maxConcurrency: number };
  /** What is wrong first with a member's result, or null. */
  validateResult(memberId: string, result: unknown): null | { code: 'INVALID_TEAM'; path: string; message: string };
  /** A result as a member may read it: without posts to rooms it is not in. Summaries and data stay. */
  redactResult(readerId: string, output: TeamResult): TeamResult;
}
