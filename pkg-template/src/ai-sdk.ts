/** Language models of the AI SDK as providers. The SDK itself is not needed: a model is taken by its shape. */

import type { ChatMessage, ChatMetadata, ChatOptions, ChatProvider, ChatToolCall } from './runtime/types.js';

/** A language model of the AI SDK, of specification `v2`, `v3` or `v4`. */
export interface AiSdkModel {
  readonly provider: string;
  readonly modelId: string;
  doGenerate(options: never): PromiseLike<unknown>;
  doStream(options: never): PromiseLike<{ stream: ReadableStream<unknown> }>;
}

/**
 * A provider over a language model. Calls are admitted under the model's `provider`; give an agent the model's
 * `modelId` as `model`. What the model needs to see again, such as signed reasoning, is kept in the message's
 * `parts`. Tools that the service runs by itself are its own business and not shown.
 */
export function aiSdkProvider(model: AiSdkModel): ChatProvider {
  return {
    name: model.provider,
    async chat(messages, options) {
      const result = (await model.doGenerate(callOptions(messages, options) as never)) as Generated;
      const reply = new Reply(model, options);
      for (const part of result.content) reply.add(part);
      if (result.response !== undefined) reply.add({ type: 'response-metadata', ...result.response });
      reply.add({ type: 'finish', usage: result.usage, finishReason: result.finishReason });
      return reply.message(reply.text);
    },
    async *chatStream(messages, options) {
      const { stream } = await model.doStream(callOptions(messages, options) as never);
      const reader = stream.getReader();
      const reply = new Reply(model, options);
      try {
        for (;;) {
          const { done, value } = await reader.read();
          if (done) break;
          const text = reply.add(value as Part);
          if (text !== '') yield { ...reply.message(text, 'interrupted') };
        }
      } finally {
        // Not awaited: a stream that hangs would not let go.
        void reader.cancel().catch(() => undefined);
      }
      yield reply.message(null);
    },
  };
}

/** A part of a reply or of its stream: what is read of all the specifications. */
interface Part {
  type: string;
  id?: string;
  text?: string;
  delta?: string;
  toolCallId?: string;
  toolName?: string;
  input?: unknown;
  providerExecuted?: boolean;
  providerMetadata?: unknown;
  usage?: Usage | undefined;
  finishReason?: unknown;
  modelId?: string;
  error?: unknown;
}

interface Generated {
  content: readonly Part[];
  usage?: Usage;
  finishReason?: unknown;
  response?: { modelId?: string };
}

/** Numbers in `v2`, objects since. */
interface Usage {
  inputTokens?: number | { total?: number; cacheRead?: number; cacheWrite?: number };
  outputTokens?: number | { total?: number; reasoning?: number };
  cachedInputTokens?: number;
  reasoningTokens?: number;
}

/** What is kept of a reply beside its text and calls; a call is named by its place among them. */
type KeptPart =
  | { type: 'text' | 'reasoning'; text: string; providerOptions?: unknown }
  | { type: 'tool-call'; index: number; providerOptions?: unknown };

/** A reply as it comes together. */
class Reply {
  text = '';
  readonly #model: AiSdkModel;
  readonly #id: string;
  readonly #calls: ChatToolCall[] = [];
  readonly #parts: KeptPart[] = [];
  /** Parts that are being streamed, by their kind and id. */
  readonly #open = new Map<string, KeptPart & { text: string }>();
  #metadata: ChatMetadata = {};

  constructor(model: AiSdkModel, { callId }: ChatOptions) {
    this.#model = model;
    this.#id = `${callId}:reply`;
  }

  /** Takes a part; the text it adds. */
  add(part: Part): string {
    const [kind, step] = /^(text|reasoning)(?:-(start|delta|end))?$/.exec(part.type)?.slice(1) ?? [];
    if (kind === 'text' || kind === 'reasoning') return this.#addText(kind, step, part);
    switch (part.type) {
      case 'tool-call':
        this.#addCall(part);
        break;
      case 'response-metadata':
        if (part.modelId !== undefined && part.modelId !== this.#model.modelId) this.#metadata.modelId = part.modelId;
        break;
      case 'finish':
        this.#finish(part);
        break;
      case 'error':
        throw part.error instanceof Error ? part.error : new Error('the model failed', { cause: part.error });
    }
    return '';
  }

  message(content: string | null, state: ChatMessage['state'] = 'complete'): ChatMessage {
    const message: ChatMessage = { id: this.#id, role: 'assistant', content, timestamp: new Date(), state };
    if (state === 'interrupted') return message;
    if (this.#calls.length > 0) message.toolCalls = this.#calls;
    message.metadata = this.#metadata;
    const isPlain = (part: KeptPart): boolean => part.type !== 'reasoning' && part.providerOptions === undefined;
    if (!this.#parts.every(isPlain)) message.parts = this.#parts;
    return message;
  }

  #addText(type: 'text' | 'reasoning', step: string | undefined, part: Part): string {
    const key = `${type} ${part.id}`;
    let kept = this.#open.get(key);
    if (kept === undefined || step === undefined) {
      kept = { type, text: '' };
      this.#parts.push(kept);
      if (step !== undefined) this.#open.set(key, kept);
    }
    if (part.providerMetadata !== undefined) kept.providerOptions = part.providerMetadata;
    if (step === 'end') this.#open.delete(key);
    const added = (step === undefined ? part.text : part.delta) ?? '';
    kept.text += added;
    if (type === 'reasoning') return '';
    this.text += added;
    return added;
  }

  #addCall({ toolCallId = '', toolName = '', input, providerExecuted, providerMetadata }: Part): void {
    if (providerExecuted === true) return;
    const text = typeof input === 'string' ? input : JSON.stringify(input ?? {});
    const options = providerMetadata === undefined ? {} : { providerOptions: providerMetadata };
    this.#parts.push({ type: 'tool-call', index: this.#calls.length, ...options });
    this.#calls.push({ id: toolCallId, type: 'function', function: { name: toolName, arguments: text } });
  }

  #finish({ usage = {}, finishReason }: Part): void {
    const reason =
      typeof finishReason === 'object' ? (finishReason as { unified?: unknown } | null)?.unified : finishReason;
    if (reason === 'error') throw new Error('the model stopped with an error');
    const { inputTokens: input, outputTokens: output } = usage;
    const found = {
      inputTokens: typeof input === 'object' ? input.total : input,
      outputTokens: typeof output === 'object' ? output.total : output,
      cacheReadTokens: typeof input === 'object' ? input.cacheRead : usage.cachedInputTokens,
      cacheWriteTokens: typeof input === 'object' ? input.cacheWrite : undefined,
      reasoningTokens: typeof output === 'object' ? output.reasoning : usage.reasoningTokens,
    };
    for (const [key, count] of Object.entries(found)) if (typeof count === 'number') this.#metadata[key] = count;
    const known = [found.inputTokens, found.outputTokens].filter((count) => typeof count === 'number').length;
    if (known > 0) this.#metadata.usageProvenance = known === 2 ? 'complete' : 'partial';
  }
}

function callOptions(messages: readonly ChatMessage[], options: ChatOptions): object {
  const { tools, signal, temperature, maxTokens } = options;
  return {
    prompt: prompt(messages),
    ...(signal === undefined ? {} : { abortSignal: signal }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(maxTokens === undefined ? {} : { maxOutputTokens: maxTokens }),
    ...(tools === undefined
      ? {}
      : {
          tools: tools.map(({ name, description, parameters }) => ({
            type: 'function',
            name,
            description,
            inputSchema: parameters,
          })),
          toolChoice: { type: 'auto' },
        }),
  };
}

/** The history in the form of the specification; results of one round are one message. */
function prompt(messages: readonly ChatMessage[]): object[] {
  const made: { role: string; content: unknown }[] = [];
  for (const message of messages) {
    const { role, content } = message;
    if (role === 'system') made.push({ role, content });
    else if (role === 'user') made.push({ role, content: [{ type: 'text', text: content ?? '' }] });
    else if (role === 'assistant') made.push({ role, content: assistantContent(message) });
    else {
      const output = { type: 'text', value: content ?? '' };
      const result = { type: 'tool-result', toolCallId: message.toolCallId, toolName: message.name, output };
      const last = made.at(-1);
      if (last?.role === 'tool') (last.content as object[]).push(result);
      else made.push({ role, content: [result] });
    }
  }
  return made;
}

function assistantContent({ content, toolCalls = [], parts }: ChatMessage): object[] {
  const calls = toolCalls.map(({ id, function: { name, arguments: text } }) => {
    return { type: 'tool-call', toolCallId: id, toolName: name, input: parsed(text) };
  });
  if (Array.isArray(parts)) {
    return (parts as KeptPart[]).flatMap((part): object[] => {
      if (part.type !== 'tool-call') return [part];
      const { index, providerOptions } = part;
      const call = calls[index];
      if (call === undefined) return [];
      return [providerOptions === undefined ? call : { ...call, providerOptions }];
    });
  }
  return content === null || content === '' ? calls : [{ type: 'text', text: content }, ...calls];
}

/** What a model wrote that is no JSON is nothing a service would take back. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
