/** What one run of a foreign runtime is given: metering, records of its effects, streamed text. */

import { messageOf } from '../conversation/thrown.js';
import { RoundtableError } from '../errors.js';
import type { JsonValue } from '../types.js';
import { jsonText } from '../values.js';
import { named } from './agent-options.js';
import { canonical } from './default-journal.js';
import type { DeltaQueue } from './delta-queue.js';
import { ExecutionError } from './errors.js';
import { actionKey, type Deeds, deedsOf, FAILED, NOT_RUN } from './foreign-deeds.js';
import type { RuntimeContext, RuntimeModelCall, ToolApproval } from './foreign-types.js';
import { argumentsOf } from './foreign-values.js';
import { withFiniteCounts } from './metering.js';
import type { ChatMetadata, ExecutionJournal, ExecutionRecord } from './types.js';

/** What a context is made of. */
export interface ContextSetting {
  readonly history: readonly JsonValue[];
  readonly signal: AbortSignal;
  readonly sessionId: string;
  readonly executionId: string;
  readonly turnId: string;
  /** What the ids of new model calls begin with. */
  readonly attemptId: string;
  /** Metered. */
  readonly journal: ExecutionJournal;
  /** What an earlier attempt of the execution recorded. */
  readonly records: readonly ExecutionRecord[];
  /** What stopped attempts of the turn recorded in executions of their own. */
  readonly earlier: readonly ExecutionRecord[];
  /** A host has decided that a tool of which nobody knows what it did runs again. */
  readonly retried: boolean;
  readonly deltas: DeltaQueue;
}

/** Why a stream failed that nobody reads any more. */
const LEFT = 'the stream was left before its end';

type Body<T = ExecutionRecord> = T extends unknown ? Omit<T, 'executionId' | 'sessionId'> : never;

export class Context implements RuntimeContext {
  readonly history: readonly JsonValue[];
  readonly signal: AbortSignal;
  readonly executionId: string;
  readonly journal: ExecutionJournal;
  /** The first record that was refused: the turn fails with it. */
  journalError: ExecutionError | undefined;
  readonly #setting: ContextSetting;
  /** By all that the call is. */
  readonly #known: Deeds;
  /** By idempotency key, since a run that begins anew has other tool call ids. */
  readonly #earlier: Deeds;
  /** What this attempt calls or has called, by all that the call is. */
  readonly #made = new Map<string, Promise<JsonValue>>();
  /** How many calls of this attempt have used an id. */
  readonly #uses = new Map<string, number>();
  readonly #running = new Set<Promise<unknown>>();
  /** Streamed model calls that were admitted and have not ended. */
  readonly #streams = new Set<string>();
  readonly #ordinals = new Map<string, number>();
  #calls = 0;
  #isOver = false;

  constructor(setting: ContextSetting) {
    this.#setting = setting;
    this.history = setting.history;
    this.signal = setting.signal;
    this.executionId = setting.executionId;
    this.journal = { ...setting.journal, append: (record) => this.#unlessOver(() => this.#append(record)) };
    this.#known = deedsOf(setting.records, setting.retried, actionKey);
    this.#earlier = deedsOf(setting.earlier, setting.retried, ({ idempotencyKey }) => idempotencyKey);
  }

  /** The id that requests of this attempt derive from. */
  get lastCallId(): string {
    return `${this.#setting.attemptId}:call:${this.#calls}`;
  }

  /** What streamed text that was none came to: the turn fails with it, whatever the run makes of it. */
  get deltaError(): Error | undefined {
    return this.#setting.deltas.refused;
  }

  onDelta(text: unknown): Promise<void> {
    return this.#setting.deltas.take(text, (problem) => new ExecutionError('EXECUTION_REPLY_INVALID', problem));
  }

  async modelCall<T>(
    call: RuntimeModelCall,
    request: () => Promise<T> | T,
    usage?: (response: T) => ChatMetadata | undefined,
  ): Promise<T> {
    const callId = await this.#admit(call);
    let response: T;
    try {
      response = await request();
    } catch (error) {
      await this.#failed(callId, error);
      throw error;
    }
    await this.#completed(callId, () => usage?.(response));
    return response;
  }

  async *modelStream<T>(
    call: RuntimeModelCall,
    request: () => AsyncIterable<T>,
    usage?: (last: T) => ChatMetadata | undefined,
  ): AsyncGenerator<T, void, undefined> {
    const callId = await this.#admit(call);
    this.#streams.add(callId);
    let last: { readonly event: T } | undefined;
    let failure: unknown = LEFT;
    try {
      for await (const event of request()) {
        last = { event };
        yield event;
      }
      failure = undefined;
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      if (failure !== undefined && this.#streams.delete(callId)) await this.#failed(callId, failure);
    }
    if (!this.#streams.delete(callId)) return;
    await this.#completed(callId, () => (last === undefined ? undefined : usage?.(last.event)));
  }

  toolCall(call: ToolApproval, execute: () => Promise<JsonValue> | JsonValue): Promise<JsonValue> {
    return this.#unlessOver(() => {
      const args = argumentsOf(call.arguments, 'arguments');
      const action = { toolCallId: call.toolCallId, toolName: call.toolName, arguments: args };
      const key = actionKey(action);
      const made = this.#made.get(key);
      if (made !== undefined) return made;
      const running = this.#toolCall(key, action, execute);
      this.#made.set(key, running);
      const over: Promise<unknown> = running.catch(() => undefined).finally(() => this.#running.delete(over));
      this.#running.add(over);
      return running;
    });
  }

  /** The run is over: nothing more is begun, and streams that nobody reads to their end count as failed. */
  async end(): Promise<void> {
    this.#isOver = true;
    for (const callId of this.#streams) {
      this.#streams.delete(callId);
      // A refusal is the journal's error, with which the turn fails.
      await this.#failed(callId, LEFT).catch(() => undefined);
    }
  }

  /** Resolves when no tool runs and the run is over. */
  async idle(): Promise<true> {
    await Promise.all([this.end(), ...this.#running]);
    return true;
  }

  /** What is begun when the run is over is refused, as its model calls are. */
  async #unlessOver<T>(begin: () => Promise<T>): Promise<T> {
    if (this.#isOver) throw this.#over();
    return begin();
  }

  #over(): unknown {
    return this.signal.aborted ? this.signal.reason : new RoundtableError('conflict', 'the attempt is over');
  }

  async #toolCall(
    key: string,
    action: ToolApproval,
    execute: () => Promise<JsonValue> | JsonValue,
  ): Promise<JsonValue> {
    const { toolCallId, toolName } = action;
    const known = this.#recall(this.#known, key, toolName);
    if (known !== undefined) return known.result;
    const idempotencyKey = this.#key(toolName, action.arguments);
    const earlier = this.#recall(this.#earlier, idempotencyKey, toolName);
    if (earlier !== undefined) return earlier.result;
    const id = this.#recordId(toolCallId);
    if (this.signal.aborted) throw this.signal.reason;
    await this.#record({ id: `${id}:intent`, kind: 'tool-intent', ...action, idempotencyKey });
    if (this.signal.aborted || this.#isOver) {
      this.#made.delete(key);
      await this.#record({ id: `${id}${NOT_RUN}`, kind: 'tool-result', toolCallId, result: null });
      throw this.#over();
    }
    let result: JsonValue;
    try {
      result = JSON.parse(jsonText(await execute(), 'result')) as JsonValue;
    } catch (error) {
      // The tool's own failure is a result as well, for the SDK to tell the model.
      await this.#record({ id: `${id}${FAILED}`, kind: 'tool-result', toolCallId, result: messageOf(error) });
      throw error;
    }
    await this.#record({ id: `${id}:result`, kind: 'tool-result', toolCallId, result });
    return result;
  }

  /** What the ids of a call's records begin with: one for each call, though calls may share an id. */
  #recordId(toolCallId: string): string {
    const use = (this.#uses.get(toolCallId) ?? 0) + 1;
    this.#uses.set(toolCallId, use);
    const id = `${this.#setting.attemptId}:tool:${toolCallId}`;
    return use === 1 ? id : `${this.#setting.attemptId}:tool ${use}:${toolCallId}`;
  }

  /** The result on record; throws the failure on record, and refuses what was begun and has neither. */
  #recall(deeds: Deeds, key: string, toolName: string): { readonly result: JsonValue } | undefined {
    const deed = deeds.get(key);
    if (deed === undefined) return undefined;
    if (deed === 'begun') {
      const problem = `the tool ${toolName} was started and has no result; what it did is unknown`;
      throw this.#refused(new ExecutionError('EXECUTION_RECOVERY_REQUIRED', problem));
    }
    if ('failure' in deed) throw new Error(deed.failure);
    return deed;
  }

  /** The same for the same call of a retried attempt. */
  #key(toolName: string, args: JsonValue): string {
    const call = canonical([this.#setting.turnId, toolName, args]);
    const ordinal = (this.#ordinals.get(call) ?? 0) + 1;
    this.#ordinals.set(call, ordinal);
    return `${ordinal}:${call}`;
  }

  async #admit({ providerId, modelId }: RuntimeModelCall): Promise<string> {
    this.#calls++;
    const callId = this.lastCallId;
    await this.#record({ id: `${callId}:request`, kind: 'model-request', callId, providerId, modelId });
    if (!this.signal.aborted) return callId;
    await this.#failed(callId, this.signal.reason);
    throw this.signal.reason;
  }

  #failed(callId: string, error: unknown): Promise<void> {
    const message = messageOf(error);
    const failure = { id: `${callId}:failure`, kind: 'model-failure' as const, callId, message };
    return this.#record(this.signal.aborted ? { ...failure, cancelled: true } : failure);
  }

  /** What the model said is in the history; the record is for the ledger. */
  async #completed(callId: string, usage: () => ChatMetadata | undefined): Promise<void> {
    let metadata: ChatMetadata | undefined;
    let unread: { readonly error: unknown } | undefined;
    try {
      const read = usage() ?? undefined;
      metadata = read && named(() => withFiniteCounts(read, 'usage'));
    } catch (error) {
      // The call was made all the same.
      unread = { error };
    }
    const response = {
      id: callId,
      role: 'assistant' as const,
      content: null,
      timestamp: new Date(),
      state: 'complete' as const,
      ...(metadata === undefined ? {} : { metadata }),
    };
    await this.#record({ id: `${callId}:response`, kind: 'model-response', callId, response });
    if (unread !== undefined) throw unread.error;
  }

  #record(body: Body): Promise<void> {
    const { executionId, sessionId } = this.#setting;
    return this.#append({ ...body, executionId, sessionId } as ExecutionRecord);
  }

  async #append(record: ExecutionRecord): Promise<void> {
    try {
      await this.#setting.journal.append(record);
    } catch (error) {
      const message = `the execution journal refused a record: ${messageOf(error)}`;
      throw this.#refused(new ExecutionError('EXECUTION_JOURNAL_FAILED', message, { cause: error }));
    }
  }

  #refused(error: ExecutionError): ExecutionError {
    this.journalError ??= error;
    return error;
  }
}
