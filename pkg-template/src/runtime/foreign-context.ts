/** What one run of a foreign runtime is given: metering, records of its effects, streamed text. */

import { messageOf } from '../conversation/thrown.js';
import type { JsonValue } from '../types.js';
import { jsonText } from '../values.js';
import { canonical } from './default-journal.js';
import type { DeltaQueue } from './delta-queue.js';
import { ExecutionError } from './errors.js';
import type { RuntimeContext, RuntimeModelCall, ToolApproval } from './foreign-types.js';
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

/** How the id of a result ends whose tool was not run: the turn was stopped before. */
const NOT_RUN = ':not-run';
/** How the id of a result ends that is the message of what the tool threw. */
const FAILED = ':failed';

type Body<T = ExecutionRecord> = T extends unknown ? Omit<T, 'executionId' | 'sessionId'> : never;

export class Context implements RuntimeContext {
  readonly history: readonly JsonValue[];
  readonly signal: AbortSignal;
  readonly executionId: string;
  readonly journal: ExecutionJournal;
  /** The first record that was refused: the turn fails with it. */
  journalError: ExecutionError | undefined;
  readonly #setting: ContextSetting;
  readonly #known: Deeds;
  /** By idempotency key, since a run that begins anew has other tool call ids. */
  readonly #earlier: Deeds;
  readonly #running = new Set<Promise<unknown>>();
  readonly #ordinals = new Map<string, number>();
  #calls = 0;

  constructor(setting: ContextSetting) {
    this.#setting = setting;
    this.history = setting.history;
    this.signal = setting.signal;
    this.executionId = setting.executionId;
    this.journal = { ...setting.journal, append: (record) => this.#append(record) };
    this.#known = deedsOf(setting.records, setting.retried, ({ toolCallId }) => toolCallId);
    this.#earlier = deedsOf(setting.earlier, setting.retried, ({ idempotencyKey }) => idempotencyKey);
  }

  /** The id that requests of this attempt derive from. */
  get lastCallId(): string {
    return `${this.#setting.attemptId}:call:${this.#calls}`;
  }

  onDelta(text: string): Promise<void> {
    const { deltas } = this.#setting;
    if (typeof text === 'string') deltas.push(text);
    return deltas.ready();
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
    await this.#completed(callId, usage?.(response));
    return response;
  }

  async *modelStream<T>(
    call: RuntimeModelCall,
    request: () => AsyncIterable<T>,
    usage?: (last: T) => ChatMetadata | undefined,
  ): AsyncGenerator<T, void, undefined> {
    const callId = await this.#admit(call);
    let last: { readonly event: T } | undefined;
    let failure: unknown = 'the stream was left before its end';
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
      if (failure !== undefined) await this.#failed(callId, failure);
    }
    await this.#completed(callId, last === undefined ? undefined : usage?.(last.event));
  }

  toolCall(call: ToolApproval, execute: () => Promise<JsonValue> | JsonValue): Promise<JsonValue> {
    const running = this.#toolCall(call, execute);
    const over: Promise<unknown> = running.catch(() => undefined).finally(() => this.#running.delete(over));
    this.#running.add(over);
    return running;
  }

  /** Resolves when no tool runs. */
  async idle(): Promise<true> {
    await Promise.all(this.#running);
    return true;
  }

  async #toolCall(call: ToolApproval, execute: () => Promise<JsonValue> | JsonValue): Promise<JsonValue> {
    const { toolCallId, toolName } = call;
    const known = this.#recall(this.#known, toolCallId, toolName);
    if (known !== undefined) return known.result;
    const args = JSON.parse(jsonText(call.arguments, 'arguments')) as JsonValue;
    const idempotencyKey = this.#key(toolName, args);
    const earlier = this.#recall(this.#earlier, idempotencyKey, toolName);
    if (earlier !== undefined) return earlier.result;
    const id = `${this.#setting.attemptId}:tool:${toolCallId}`;
    if (this.signal.aborted) throw this.signal.reason;
    this.#known.set(toolCallId, 'begun');
    await this.#record({
      id: `${id}:intent`,
      kind: 'tool-intent',
      toolCallId,
      toolName,
      arguments: args,
      idempotencyKey,
    });
    if (this.signal.aborted) {
      this.#known.delete(toolCallId);
      await this.#record({ id: `${id}${NOT_RUN}`, kind: 'tool-result', toolCallId, result: null });
      throw this.signal.reason;
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
    this.#known.set(toolCallId, { result });
    return result;
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
  #completed(callId: string, metadata: ChatMetadata | undefined): Promise<void> {
    const response = {
      id: callId,
      role: 'assistant' as const,
      content: null,
      timestamp: new Date(),
      state: 'complete' as const,
      ...(metadata === undefined ? {} : { metadata }),
    };
    return this.#record({ id: `${callId}:response`, kind: 'model-response', callId, response });
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

/** What is known of tool calls: begun, or what came of them. */
type Deeds = Map<string, 'begun' | { readonly result: JsonValue } | { readonly failure: string }>;

/** Reads records; where a host has said `retry`, what has no result was not begun. */
function deedsOf(
  records: readonly ExecutionRecord[],
  retried: boolean,
  keyOf: (intent: ExecutionRecord & { kind: 'tool-intent' }) => string,
): Deeds {
  const deeds: Deeds = new Map();
  const keys = new Map<string, string>();
  for (const record of records) {
    if (record.kind === 'tool-intent') {
      keys.set(record.toolCallId, keyOf(record));
      if (!retried) deeds.set(keyOf(record), 'begun');
    } else if (record.kind === 'tool-result') {
      const key = keys.get(record.toolCallId) ?? record.toolCallId;
      if (record.id.endsWith(NOT_RUN)) deeds.delete(key);
      else if (record.id.endsWith(FAILED)) deeds.set(key, { failure: String(record.result) });
      else deeds.set(key, { result: record.result });
    }
  }
  return deeds;
}
