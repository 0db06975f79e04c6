/** Records a provider's calls as a session log that a replay provider answers from. */

import type { ChatMessage, ChatOptions, ChatProvider } from '../runtime/types.js';
import { currentEngine } from '../engine.js';
import type { RecordedCallHandle, RecorderHandle } from '../generated/bindings.js';
import { outcome } from './errors.js';
import { toWellFormed } from '../values.js';
import { live } from './live.js';

/** Options of {@link recordProvider}. */
export interface RecordOptions {
  /** Stands in every line. */
  sessionId: string;
  /** Takes one line, its line feed included. A call waits for it and fails with it. */
  write(line: string): void | Promise<void>;
  /**
   * Names of further keys whose values are left out. The usual ones always are (such as `apiKey`,
   * `authorization`, `access_token`, `password`), also inside the JSON of tool arguments.
   */
  redact?: readonly string[];
}

/**
 * Wraps a provider so that its requests, streamed text and responses are written down. A request or
 * response that a log cannot hold fails its call with a SessionLogDecodeError; a call that fails leaves a
 * request without response.
 */
export function recordProvider(provider: ChatProvider, options: RecordOptions): ChatProvider {
  const { sessionId, redact = [] } = options;
  if (typeof sessionId !== 'string' || sessionId === '')
    throw new TypeError('sessionId must be a string that is not empty');
  if (typeof options.write !== 'function') throw new TypeError('write must be a function');
  if (!Array.isArray(redact) || !redact.every((key) => typeof key === 'string')) {
    throw new TypeError('redact must be an array of strings');
  }
  let calls = 0;
  let link = currentEngine();
  let recorder = link.engine.openRecorder(sessionId, [...redact], calls);
  const write = (line: string): void | Promise<void> => options.write(line);
  const begin = (messages: readonly ChatMessage[], call: ChatOptions): Promise<RecordedCall> => {
    if (link.lost.aborted) {
      // What another conversation did to the engine is no reason to fail this call.
      link = currentEngine();
      recorder = link.engine.openRecorder(sessionId, [...redact], calls);
    }
    calls += 1;
    return RecordedCall.begin(recorder, provider.name, messages, call, write);
  };

  const { cached, chatStream, supportsTools, hostedTools } = provider;
  return {
    name: provider.name,
    wraps: provider,
    ...(provider.version === undefined ? {} : { version: provider.version }),
    async chat(messages, call) {
      const recorded = await begin(messages, call);
      const tell = async (text: string): Promise<void> => {
        await recorded.delta(text);
        await call.onDelta?.(text);
      };
      // What is no text is for whoever asked to refuse, and nothing to record.
      const onDelta = (text: string): void | Promise<void> =>
        typeof text === 'string' ? tell(text) : call.onDelta?.(text);
      return await recorded.response(await provider.chat(messages, { ...call, onDelta }));
    },
    ...(chatStream === undefined
      ? {}
      : {
          async *chatStream(messages, call) {
            const recorded = await begin(messages, call);
            let whole: ChatMessage | undefined;
            for await (const message of chatStream.call(provider, messages, call)) {
              if (message.content !== null && message.content !== '') await recorded.delta(message.content);
              whole = joined(whole, message);
              // The last message is given on when all of it is written: a consumer may stop there.
              if (message.state === 'complete') await recorded.response(whole);
              yield message;
            }
          },
        }),
    ...(supportsTools === undefined ? {} : { supportsTools: () => supportsTools.call(provider) }),
    ...(hostedTools === undefined ? {} : { hostedTools: () => hostedTools.call(provider) }),
    ...(cached === undefined
      ? {}
      : {
          async cached(messages, call) {
            const hit = await cached.call(provider, messages, call);
            return hit === undefined ? undefined : await (await begin(messages, call)).response(hit);
          },
        }),
  };
}

/** A streamed reply so far: the text of all messages, under the identity of the last. */
function joined(before: ChatMessage | undefined, message: ChatMessage): ChatMessage {
  if (before === undefined) return message;
  const content = before.content === null ? message.content : before.content + (message.content ?? '');
  return { ...before, ...message, content };
}

class RecordedCall {
  readonly #handle: RecordedCallHandle;
  readonly #write: RecordOptions['write'];
  /** The first half of a pair whose second half is still to come. */
  #half = '';

  private constructor(handle: RecordedCallHandle, write: RecordOptions['write']) {
    this.#handle = handle;
    this.#write = write;
  }

  static async begin(
    recorder: RecorderHandle,
    provider: string,
    messages: readonly ChatMessage[],
    { model, tools, callId }: ChatOptions,
    write: RecordOptions['write'],
  ): Promise<RecordedCall> {
    const { json, marks } = live({ callId, model, messages: messages.map(wellFormed), tools });
    const call = new RecordedCall(recorder.request(provider, json, marks, Date.now()), write);
    await call.#lines(call.#handle.outcome());
    return call;
  }

  async delta(text: string): Promise<void> {
    const whole = this.#half + text;
    this.#half = /[\ud800-\udbff]$/.exec(whole)?.[0] ?? '';
    const ready = this.#half === '' ? whole : whole.slice(0, -1);
    if (ready !== '') await this.#lines(this.#handle.delta(toWellFormed(ready), Date.now()));
  }

  async response(message: ChatMessage): Promise<ChatMessage> {
    if (this.#half !== '') await this.#lines(this.#handle.delta(toWellFormed(this.#half), Date.now()));
    const { json, marks } = live(wellFormed(message));
    await this.#lines(this.#handle.response(json, marks, Date.now()));
    this.#handle.free();
    return message;
  }

  async #lines(told: string): Promise<void> {
    for (const line of outcome<{ lines: string[] }>(told).lines) await this.#write(`${line}\n`);
  }
}

function wellFormed(message: ChatMessage): ChatMessage {
  return typeof message?.content === 'string' ? { ...message, content: toWellFormed(message.content) } : message;
}
