/** What drives a deliberation: agents that discuss in turns, and one that facilitates. */

import type { Deliberation } from '../deliberation/types.js';
import type { AgentOptions } from '../runtime/types.js';
import type { ConversationStore } from '../store-types.js';
import type {
  AgentParticipant,
  Clock,
  ConversationRequest,
  PricePolicy,
  RequestResponse,
  RoundtableEvent,
  RunLimits,
  RuntimeReference,
} from '../types.js';
import type { UsageRecord } from '../usage-types.js';

/** What {@link driveDeliberation} takes. */
export interface DriveOptions {
  /** Keeps the agents' conversation, as a rule beside the sessions. A call on the same store goes on from it. */
  store: ConversationStore;
  /**
   * 1 to 20 participants of the session that runtimes speak for, in the order in which they speak. Agents with one
   * `runtime` reference are found again by their ids; what their factories support must be the same.
   */
  agents: readonly AgentParticipant[];
  /** Without it a person facilitates, and the agents only discuss. */
  facilitator?: AgentFacilitator;
  /** How the conversation is called, 1 to 128 UTF-16 units; default the session's id and `/discussion`. */
  conversationId?: string;
  /** Rounds of this call, 1 to 200; default 10. In a round every agent has one turn. */
  maxRounds?: number;
  /** Limits of the conversation. Each turn is a run of its own. */
  limits?: Omit<RunLimits, 'maxTurnsPerRun' | 'timeoutMs'>;
  /** As for a conversation; default `none`. */
  recovery?: 'none' | 'durable';
  /**
   * A turn that a process began and that nobody saw settle: `refuse` rejects with `recovery-required`; `retry` lets
   * the agent have that turn again, whatever its tools did before. Default `refuse`.
   */
  unsettled?: 'refuse' | 'retry';
  /** How long a host that died keeps others from driving, in milliseconds; default 30,000. */
  leaseMs?: number;
  pricing?: PricePolicy;
  /** Awaited before each round, so that people can be given time to speak. What it throws, the call rejects with. */
  beforeRound?(round: { number: number; session: Deliberation }): void | Promise<void>;
  /** Answers what an agent's turn asks for. Without it, or where it gives nothing, the call ends `waiting`. */
  answer?(request: ConversationRequest): RequestResponse | undefined | Promise<RequestResponse | undefined>;
  /** Told what became durable in the conversation, and streamed text. */
  onEvent?(event: RoundtableEvent): void | Promise<void>;
  onEventError?(error: unknown, event: RoundtableEvent): void | Promise<void>;
  /** Ends the call as `cancelled`; a turn under way is stopped and had again by the next call. */
  signal?: AbortSignal;
  /** Fixes the ids of the conversation; for tests. */
  seed?: string;
  /** That of the deliberations. */
  clock?: Clock;
}

/** An agent that facilitates by one call of the tool `facilitate` after each round. */
export interface AgentFacilitator {
  /** The session's facilitator. It is asked as long as it is that. */
  id: string;
  /** Under which reference a load finds it again; default `agent-roundtable/facilitator`. */
  runtime?: RuntimeReference;
  /** Makes the agent that decides, which has no tools of its own. It is kept until the call ends. */
  createAgent(): AgentOptions | Promise<AgentOptions>;
  /** What it may do beside resolving and going on; default nothing. */
  may?: readonly ('extend' | 'close')[];
}

/** What a call of {@link driveDeliberation} came to. */
export type DriveResult = DriveEnd & {
  conversationId: string;
  /** The session as it was last read. */
  session: Deliberation;
  /** Rounds that this call finished. */
  rounds: number;
  /** Every model call of the conversation, also of earlier calls. */
  usage: readonly UsageRecord[];
};

/** How it ended. */
export type DriveEnd =
  | {
      status: /** The session has an outcome, whoever resolved it. */
        | 'resolved'
        /** Its deadline passed, or it was closed without an outcome; `session.closeReason` says which. */
        | 'expired'
        /** The thread takes no more of what an agent says, and the session is still open. */
        | 'full'
        /** `maxRounds` are over. */
        | 'rounds'
        /** No agent facilitates, and nobody said anything during a whole round. */
        | 'quiet'
        /** None of the agents takes part any more. */
        | 'left'
        | 'cancelled';
    }
  /** A limit of the conversation is spent; `time` where the clocks of this host and of the session disagree. */
  | { status: 'limited'; reason: 'turns' | 'time' | 'model-calls' | 'tokens' }
  /** An agent's turn waits for answers; the next call asks for them again. */
  | { status: 'waiting'; requests: readonly ConversationRequest[] }
  /**
   * The facilitator's reply was no decision (`no-decision`, `multiple-decisions`, `invalid-decision`), and the
   * next call asks again; or the conversation has failed, for good, with the code of its run.
   */
  | { status: 'failed'; code?: string; message: string };
