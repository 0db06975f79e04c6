/** A model service that answers what a test wrote down. */

import type { ChatMessage, ChatMetadata, ChatOptions, ChatProvider } from '../runtime/types.js';
import type { JsonValue } from '../types.js';

/** A tool call of a scripted reply; its id is made where none is given. */
export interface ScriptedToolCall {
  id?: string;
  name: string;
  arguments?: JsonValue;
}

/** One reply: words, a message with tool calls or usage, an error to throw, or code that gives one of them. */
export type ScriptedReply =
  | string
  | { content?: string; toolCalls?: readonly ScriptedToolCall[]; metadata?: ChatMetadata }
  | Error
  | ((
      messages: readonly ChatMessage[],
      options: ChatOptions,
    ) => string | { content?: string; toolCalls?: readonly ScriptedToolCall[]; metadata?: ChatMetadata } | Error);

/** A call that a scripted provider was asked for. */
export interface ScriptedCall {
  readonly messages: readonly ChatMessage[];
  readonly options: ChatOptions;
}

/** What a scripted provider is, beside a provider. */
export interface ScriptedProvider extends ChatProvider {
  /** Every call so far. */
  readonly calls: readonly ScriptedCall[];
  /** How many replies are left. */
  readonly remaining: number;
}

/**
 * Gives its replies in order, and fails when they are used up.
 * @param script `stream`: replies come in pieces of so many UTF-16 units through `chatStream`; without
 *   it there is `chat` alone
 */
export function scriptedProvider(script: {
  replies: readonly ScriptedReply[];
  name?: string;
  version?: string;
  stream?: number;
}): ScriptedProvider {
  const replies = [...script.replies];
  const calls: ScriptedCall[] = [];
  const next = (messages: readonly ChatMessage[], options: ChatOptions): ChatMessage => {
    calls.push({ messages, options });
    options.signal?.throwIfAborted();
    const reply = replies.shift();
    if (reply === undefined) throw new Error(`the script has no reply for call ${calls.length}`);
    const given = typeof reply === 'function' ? reply(messages, options) : reply;
    if (given instanceof Error) throw given;
    return message(typeof given === 'string' ? { content: given } : given, calls.length);
  };
  const { name = 'scripted', version, stream } = script;
  return {
    name,
    ...(version === undefined ? {} : { version }),
    calls,
    get remaining() {
      return replies.length;
    },
    supportsTools: () => true,
    chat: async (messages, options) => next(messages, options),
    ...(stream === undefined ? {} : { chatStream: (messages, options) => pieces(next(messages, options), stream) }),
  };
}

function message(
  reply: Exclude<ScriptedReply, string | Error | ((...args: never) => unknown)>,
  call: number,
): ChatMessage {
  const { content, toolCalls, metadata } = reply;
  return {
    id: `reply-${call}`,
    role: 'assistant',
    content: content ?? null,
    timestamp: new Date(0),
    state: 'complete',
    ...(toolCalls === undefined ? {} : { toolCalls: toolCalls.map((tool, index) => toolCall(tool, call, index)) }),
    ...(metadata === undefined ? {} : { metadata }),
  };
}

function toolCall({ id, name, arguments: args = {} }: ScriptedToolCall, call: number, index: number) {
  return {
    id: id ?? `call-${call}-${index + 1}`,
    type: 'function' as const,
    function: { name, arguments: JSON.stringify(args) },
  };
}

async function* pieces(whole: ChatMessage, size: number): AsyncGenerator<ChatMessage, undefined> {
  const { toolCalls: _toolCalls, metadata: _metadata, ...bare } = whole;
  const content = whole.content ?? '';
  const last = Math.max(0, Math.ceil(content.length / size) - 1) * size;
  for (let at = 0; at < last; at += size) {
    yield { ...bare, content: content.slice(at, at + size), state: 'interrupted' };
  }
  yield { ...whole, content: whole.content === null ? null : content.slice(last) };
}
