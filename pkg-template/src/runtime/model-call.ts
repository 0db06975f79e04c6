/** One call of a provider, by `chatStream` where it has it, until its reply is whole. */

import {
  BadValue,
  MAX_CONTENT,
  codedText,
  elements,
  isInstance,
  isWellFormed,
  members,
  toWellFormed,
} from '../values.js';
import type { DeltaQueue } from './delta-queue.js';
import { ExecutionError } from './errors.js';
import { withFiniteCounts } from './metering.js';
import type { ChatMessage, ChatOptions, ChatProvider } from './types.js';

/** What a call needs besides the provider. */
export interface ModelRequest {
  readonly messages: readonly ChatMessage[];
  readonly options: ChatOptions;
  readonly signal: AbortSignal;
  readonly deltas: DeltaQueue;
}

/**
 * The reply, in the form the engine reads it in.
 * @throws what the provider throws; `EXECUTION_REPLY_INVALID` where it gives something that is no reply
 */
export async function callModel(provider: ChatProvider, request: ModelRequest): Promise<string> {
  const { messages, options, signal, deltas } = request;
  if (typeof provider.chatStream === 'function') {
    return readStream(provider.chatStream(messages, Object.freeze(options)), signal, deltas);
  }
  const onDelta = (text: unknown): Promise<void> => deltas.take(text, invalid);
  const reply: unknown = await provider.chat(messages, Object.freeze({ ...options, onDelta }));
  if (deltas.refused !== undefined) throw deltas.refused;
  deltas.endText();
  return replyText(reply);
}

/** A cached reply in the form the engine reads it in; nothing where the cache has none. */
export async function askCache(provider: ChatProvider, request: ModelRequest): Promise<string | undefined> {
  const reply: unknown = await provider.cached?.(request.messages, Object.freeze(request.options));
  return reply === undefined || reply === null ? undefined : replyText(reply);
}

/** A provider's message as coded JSON. Lone surrogates in arguments become escapes, which are no valid JSON there. */
function replyText(reply: unknown, extra: Readonly<Record<string, unknown>> = {}): string {
  try {
    const found = members(reply, 'reply');
    for (const [key, value] of Object.entries(extra)) found.set(key, value);
    const metadata = found.get('metadata');
    if (typeof metadata === 'object' && metadata !== null)
      found.set('metadata', withFiniteCounts(metadata, 'reply.metadata'));
    if (found.has('toolCalls'))
      found.set('toolCalls', elements(found.get('toolCalls'), 'reply.toolCalls', Infinity).map(wellFormedCall));
    for (const key of ['id', 'toolCallId', 'name']) refuseLoneSurrogate(found.get(key), `reply.${key}`);
    return codedText(Object.fromEntries(found), 'reply', 1);
  } catch (error) {
    if (isInstance(error, BadValue)) throw invalid(error.message, error);
    throw error;
  }
}

function wellFormedCall(call: unknown, index: number): unknown {
  const path = `reply.toolCalls[${index}]`;
  const found = members(call, path);
  const made = members(found.get('function'), `${path}.function`);
  refuseLoneSurrogate(found.get('id'), `${path}.id`);
  refuseLoneSurrogate(made.get('name'), `${path}.function.name`);
  const text = made.get('arguments');
  if (typeof text === 'string' && !isWellFormed(text)) {
    const escaped = (half: string): string => `\\u${half.charCodeAt(0).toString(16)}`;
    made.set(
      'arguments',
      text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, escaped),
    );
  }
  return { ...Object.fromEntries(found), function: Object.fromEntries(made) };
}

function refuseLoneSurrogate(value: unknown, path: string): void {
  if (typeof value === 'string' && !isWellFormed(value)) throw new BadValue(path, 'holds a lone surrogate');
}

/** Reads a stream to its end; what it yields is joined into one reply. */
async function readStream(stream: unknown, signal: AbortSignal, deltas: DeltaQueue): Promise<string> {
  const iterator = iteratorOf(stream);
  let text: string | undefined;
  let last: unknown;
  const toolCalls: unknown[] = [];
  try {
    for (;;) {
      const step = await iterator.next();
      if (step.done === true) break;
      if (signal.aborted) throw signal.reason;
      last = step.value;
      const chunk = readChunk(last);
      toolCalls.push(...chunk.toolCalls);
      if (chunk.text === null) continue;
      text = (text ?? '') + chunk.text;
      if (text.length > MAX_CONTENT) throw invalid(`reply.content has more than ${MAX_CONTENT} UTF-16 units`);
      deltas.push(chunk.text);
      await deltas.ready();
    }
  } catch (error) {
    // Not awaited: a generator that hangs would not let go.
    void Promise.resolve(iterator.return?.()).catch(() => undefined);
    throw error;
  }
  deltas.endText();
  if (last === undefined) throw invalid('the stream ended without a message');
  if ((last as ChatMessage).state !== 'complete') throw invalid('the stream ended without a complete message');
  const content = text === undefined ? null : toWellFormed(text);
  return replyText(last, toolCalls.length > 0 ? { content, toolCalls } : { content });
}

function iteratorOf(stream: unknown): AsyncIterator<unknown> {
  const method: unknown = (stream as { [Symbol.asyncIterator]?: unknown } | null | undefined)?.[Symbol.asyncIterator];
  if (typeof method !== 'function') throw invalid('chatStream did not return an async iterable');
  return method.call(stream) as AsyncIterator<unknown>;
}

function readChunk(chunk: unknown): { text: string | null; toolCalls: readonly unknown[] } {
  try {
    const found = members(chunk, 'message');
    const content = found.get('content') ?? null;
    if (found.get('role') !== 'assistant') throw new BadValue('message.role', 'must be assistant');
    if (content !== null && typeof content !== 'string')
      throw new BadValue('message.content', 'must be a string or null');
    const calls = found.get('toolCalls');
    return { text: content, toolCalls: calls === undefined ? [] : elements(calls, 'message.toolCalls', Infinity) };
  } catch (error) {
    if (isInstance(error, BadValue)) throw invalid(`the stream yielded no message: ${error.message}`, error);
    throw error;
  }
}

function invalid(problem: string, cause?: unknown): ExecutionError {
  const message = `the provider's reply is not acceptable: ${problem}`;
  return new ExecutionError('EXECUTION_REPLY_INVALID', message, cause === undefined ? undefined : { cause });
}
