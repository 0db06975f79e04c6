/**
 * A provider that answers with what a session log recorded, for tests, automation and offline replay; not
 * for production. Tool calls are data to it, but an agent that is given them runs its live tools: replay
 * a log only with tools that may run.
 */

import type { ChatMessage, ChatOptions, ChatProvider, ChatToolCall, ToolSchema } from '../runtime/types.js';
import type { ReplayHandle, SessionLogHandle } from '../generated/bindings.js';
import { outcome } from './errors.js';
import { toWellFormed } from '../values.js';
import { loadLog, logOfEntries } from './load.js';
import { reviveMessage } from './log.js';
import type { PayloadLimits, SessionLogSource, SyncPayloadSource } from './sources.js';

/** How a log is replayed. */
export interface ReplayOptions {
  /** Default `replay`. */
  name?: string | undefined;
  /** Default `1.0.0`. */
  version?: string | undefined;
  /**
   * Which response answers a call. `order` (default): the next one, whatever is asked. `strict`: the next
   * one, if its recorded request is alike. `hash`: the first unused one whose recorded request is alike.
   * Alike are requests with the same model, tool names, and roles, contents and tool calls of messages.
   */
  match?: 'order' | 'hash' | 'strict' | undefined;
  /** Whether recorded pieces of text are given to `onDelta` and yielded one by one. Default false. */
  deltas?: boolean | undefined;
}

/** Options of {@link createReplayProvider}. */
export interface ReplayProviderOptions extends ReplayOptions, PayloadLimits {
  /** What `decodeSessionLog` gave, or entries of the host, which are decoded and whose references are resolved. */
  entries: readonly unknown[];
  externalPayloadSource?: SyncPayloadSource | undefined;
}

/** Options of {@link createReplayProviderFromSource}. */
export interface ReplaySourceOptions extends ReplayOptions, PayloadLimits {}

/** A request in the form of {@link ReplayProvider.generateResponse}. */
export interface GenerationRequest {
  messages: readonly ChatMessage[];
  model?: string;
  tools?: readonly ToolSchema[];
  signal?: AbortSignal;
  temperature?: number;
  maxTokens?: number;
  /** Comes back with the response. */
  metadata?: Record<string, unknown>;
}

/** A response in the form of {@link ReplayProvider.generateResponse}. */
export interface GenerationResponse {
  content: string | null;
  toolCalls: readonly ChatToolCall[] | undefined;
  model: string | undefined;
  metadata: Record<string, unknown> | undefined;
}

/** Answers calls from a log. Calls that run at the same time are answered in the order they were made. */
export interface ReplayProvider extends ChatProvider {
  readonly version: string;
  /** How many responses the log holds; constant. */
  readonly recordedResponseCount: number;
  /** How many of them were used. */
  readonly consumed: number;
  /** How many of them were not. */
  readonly remaining: number;
  /** @throws ReplayError `LOG_NOT_EXHAUSTED` where responses are left */
  assertExhausted(): void;
  /** Goes back to the beginning. */
  reset(): void;
  /**
   * The next response, a copy. A signal that is aborted already rejects before anything is used.
   * @throws ReplayError `LOG_EXHAUSTED` or `REQUEST_MISMATCH`; nothing is used then
   */
  chat(messages: readonly ChatMessage[], options?: Partial<ChatOptions>): Promise<ChatMessage>;
  /** The same as a stream, used when it is first pulled: one message, or one for each piece with `deltas`. */
  chatStream(messages: readonly ChatMessage[], options?: Partial<ChatOptions>): AsyncIterable<ChatMessage>;
  supportsTools(): true;
  getCapabilities(): { functionCalling: true; nativeWebSearch: false; nativeWebFetch: false };
  validateConfig(): true;
  /** As `chat`, in another form; usage is dropped. */
  generateResponse(request: GenerationRequest): Promise<GenerationResponse>;
  /** As `chatStream`, in another form; usage is dropped. */
  generateStreamingResponse(request: GenerationRequest): AsyncIterable<GenerationResponse>;
}

/**
 * Makes a provider from decoded entries. Whatever is wrong with them is thrown here, not by a call.
 * @throws SessionLogDecodeError, SessionLogPayloadResolutionError
 */
export function createReplayProvider(options: ReplayProviderOptions): ReplayProvider {
  if (typeof options !== 'object' || options === null) throw new TypeError('options must be an object');
  const settings = checked(options);
  return new Replay(logOfEntries(options.entries, options), settings);
}

/**
 * Makes a provider from a source whose text and payloads may have to be awaited.
 * @throws what {@link createReplayProvider} throws, and what the source throws
 */
export async function createReplayProviderFromSource(
  source: SessionLogSource,
  options: ReplaySourceOptions = {},
): Promise<ReplayProvider> {
  const settings = checked(options);
  return new Replay(await loadLog(source, options), settings);
}

type Settings = { name: string; version: string; match: 'order' | 'hash' | 'strict'; deltas: boolean };

function checked(options: ReplayOptions): Settings {
  const { name = 'replay', version = '1.0.0', match = 'order', deltas = false } = options;
  for (const [key, text] of Object.entries({ name, version })) {
    if (typeof text !== 'string') throw new TypeError(`${key} must be a string`);
  }
  if (!['order', 'hash', 'strict'].includes(match)) throw new TypeError("match must be 'order', 'hash' or 'strict'");
  if (typeof deltas !== 'boolean') throw new TypeError('deltas must be a boolean');
  return { name, version, match, deltas };
}

/** An answer as the engine tells it. */
interface Reply {
  message: { timestamp: unknown };
  timestamp: number;
  deltas: string[];
}

class Replay implements ReplayProvider {
  readonly name: string;
  readonly version: string;
  readonly recordedResponseCount: number;
  readonly #replay: ReplayHandle;
  readonly #comparing: boolean;
  readonly #deltas: boolean;

  constructor(log: SessionLogHandle, settings: Settings) {
    this.name = settings.name;
    this.version = settings.version;
    this.#comparing = settings.match !== 'order';
    this.#deltas = settings.deltas;
    this.#replay = log.replay(settings.match, settings.deltas);
    this.recordedResponseCount = this.#replay.count();
  }

  get consumed(): number {
    return this.#replay.consumed();
  }

  get remaining(): number {
    return this.recordedResponseCount - this.consumed;
  }

  assertExhausted(): void {
    const failure = this.#replay.assertExhausted();
    if (failure !== undefined) outcome(failure);
  }

  reset(): void {
    this.#replay.reset();
  }

  // Up to the first delta this runs within the call: calls are answered in the order they were made.
  async chat(messages: readonly ChatMessage[], options: Partial<ChatOptions> = {}): Promise<ChatMessage> {
    const { message, deltas } = this.#answer(messages, options);
    if (this.#deltas && options.onDelta !== undefined) {
      for (const delta of deltas) {
        await options.onDelta(delta);
        options.signal?.throwIfAborted();
      }
    }
    return message;
  }

  async *chatStream(
    messages: readonly ChatMessage[],
    options: Partial<ChatOptions> = {},
  ): AsyncGenerator<ChatMessage, void, void> {
    const { message, deltas } = this.#answer(messages, options);
    const last = deltas.pop();
    const { id, role, timestamp } = message;
    for (const content of deltas) {
      yield { id, role, content, timestamp: new Date(timestamp), state: 'interrupted' };
      options.signal?.throwIfAborted();
    }
    yield last === undefined ? message : { ...message, content: last };
  }

  supportsTools(): true {
    return true;
  }

  getCapabilities(): { functionCalling: true; nativeWebSearch: false; nativeWebFetch: false } {
    return { functionCalling: true, nativeWebSearch: false, nativeWebFetch: false };
  }

  validateConfig(): true {
    return true;
  }

  async generateResponse(request: GenerationRequest): Promise<GenerationResponse> {
    return generated(await this.chat(request.messages, request), request);
  }

  async *generateStreamingResponse(request: GenerationRequest): AsyncGenerator<GenerationResponse, void, void> {
    for await (const message of this.chatStream(request.messages, request)) yield generated(message, request);
  }

  #answer(messages: readonly ChatMessage[], options: Partial<ChatOptions>): { message: ChatMessage; deltas: string[] } {
    options.signal?.throwIfAborted();
    const request = this.#comparing ? comparable(messages, options) : undefined;
    const { message, timestamp, deltas } = outcome<Reply>(this.#replay.call(request));
    message.timestamp = timestamp;
    return { message: reviveMessage(message), deltas };
  }
}

function generated(message: ChatMessage, request: GenerationRequest): GenerationResponse {
  const { content, toolCalls } = message;
  return { content, toolCalls, model: request.model, metadata: request.metadata };
}

/** The part of a request that is compared, as JSON. Text is put as a recorder puts it. */
function comparable(messages: readonly ChatMessage[], options: Partial<ChatOptions>): string {
  const compared = messages.map(({ role, content, toolCalls }) => ({ role, content, toolCalls }));
  const request = { model: options.model, tools: options.tools?.map((tool) => tool.name), messages: compared };
  return JSON.stringify(request, (_, value: unknown) => (typeof value === 'string' ? toWellFormed(value) : value));
}
