/** What an agent SDK implements to take part in conversations, and what it is given. */

import type { JsonValue } from '../types.js';
import type { ChatMetadata, ExecutionJournal } from './types.js';

/** One agent of any SDK, for one session. Its private state is its history, which the session keeps for it. */
export interface AgentRuntime {
  /** Runs a turn: gives the agent its history and then `input`, as a user's message, and runs it to its end. */
  run(input: string, context: RuntimeContext): Promise<RuntimeResult>;
  /**
   * Continues the run that gave `state`, with a decision for each of its interruptions, in their order.
   * Without it a run that is interrupted fails its turn.
   */
  resume?(
    state: JsonValue,
    decisions: readonly ToolApprovalDecision[],
    context: RuntimeContext,
  ): Promise<RuntimeResult>;
  /** Objects that no other open session may use, such as a client. The runtime itself is one of them. */
  readonly resources?: readonly object[];
  /** What must be equal for a checkpoint to be taken over: model, instructions, working directory. At most 8,192 UTF-16 units. */
  readonly environment?: string;
  /** Called once after the last use, before the resources are free. */
  dispose?(): void | Promise<void>;
}

/** How a run ended. All of it is plain JSON. */
export type RuntimeResult =
  /** `newItems`: what the whole turn adds to the history. Text that is not blank is spoken, trimmed; else the turn yields. */
  | { finalOutput: string | null; newItems: readonly JsonValue[] }
  /** Tool calls wait for approval, 1 to 64; `state` is what the SDK continues from, kept in the checkpoint. */
  | { interruptions: readonly ToolApproval[]; state: JsonValue };

/**
 * A tool call that must be approved. Its id and name have 1 to 512 UTF-16 units; half a surrogate pair is refused, in
 * its arguments too.
 */
export interface ToolApproval {
  toolCallId: string;
  toolName: string;
  arguments: JsonValue;
}

/** What was decided about it; it covers this call and no other. */
export interface ToolApprovalDecision extends ToolApproval {
  approved: boolean;
  /** Why, to be told to the model. */
  reason?: string;
}

/** What a run works with. */
export interface RuntimeContext {
  /** The items of all settled turns, in order; frozen. */
  readonly history: readonly JsonValue[];
  /** Fires when nobody waits for the run any more. */
  readonly signal: AbortSignal;
  /** One per execution of a turn; a turn that waited continues the same one. */
  readonly executionId: string;
  /** The execution's records; a model call that is recorded here is admitted and reported. */
  readonly journal: ExecutionJournal;
  /**
   * Streams text to observers, in order. Await it, so that a slow reader slows the stream. `undefined` and `null` are no
   * text; anything else than a string is refused, and the turn fails with `EXECUTION_REPLY_INVALID`.
   */
  onDelta(text: string): Promise<void>;
  /**
   * Makes one model call: admitted before `request` is called, reported by what `usage` reads of its
   * response. A refused admission rejects, calls nothing, and fails the turn whatever is done with the error.
   */
  modelCall<T>(
    call: RuntimeModelCall,
    request: () => Promise<T> | T,
    usage?: (response: T) => ChatMetadata | undefined,
  ): Promise<T>;
  /**
   * The same for a response that is streamed; `usage` reads its last event. Not read to its end when the turn is over, it
   * counts as failed.
   */
  modelStream<T>(
    call: RuntimeModelCall,
    request: () => AsyncIterable<T>,
    usage?: (last: T) => ChatMetadata | undefined,
  ): AsyncIterable<T>;
  /**
   * Runs a tool's effect at most once in an execution: its intent is recorded before, its result after. A call
   * is the same where id, name and arguments are: an id that is used again for another action is another call.
   * The same call again, now or when the run is continued, gets what the first came to without another run; an
   * effect that was started and has no result rejects with `EXECUTION_RECOVERY_REQUIRED`. When the turn is over
   * every call is refused with `conflict`.
   */
  toolCall(call: ToolApproval, execute: () => Promise<JsonValue> | JsonValue): Promise<JsonValue>;
}

/** Whose model is called. */
export interface RuntimeModelCall {
  providerId: string;
  modelId: string;
}
