/** The shapes of agent runtimes: what hosts give them and what they ask of a model. */

import type { JsonValue } from '../types.js';

/** A tool call as a model asks for it. `arguments` should be JSON text; it is checked before the tool sees it. */
export interface ChatToolCall {
  id: string;
  type: 'function';
  function: { name: string; arguments: string };
}

/** What a provider says of a message. Usage is read from here and nowhere else. */
export interface ChatMetadata {
  inputTokens?: number;
  outputTokens?: number;
  totalTokens?: number;
  /** The part of the input that the provider's cache served. */
  cacheReadTokens?: number;
  /** What the call added to the provider's cache. */
  cacheWriteTokens?: number;
  /** The part of the output that is reasoning. */
  reasoningTokens?: number;
  /** `complete`: the counts are whole and add up; `partial`: some of them are known. */
  usageProvenance?: 'complete' | 'partial';
  /** The provider that answered, where it is not the one that was asked. */
  providerId?: string;
  /** The model that answered, where it is not the one that was asked. */
  modelId?: string;
  [key: string]: unknown;
}

/** One message of a private history. */
export interface ChatMessage {
  id: string;
  role: 'user' | 'assistant' | 'system' | 'tool';
  /** `null` where an assistant only calls tools. */
  content: string | null;
  timestamp: Date;
  /** `interrupted`: not the whole message. */
  state: 'complete' | 'interrupted';
  /** Of an assistant message. */
  toolCalls?: readonly ChatToolCall[];
  /** Of a tool message: the call it answers. */
  toolCallId?: string;
  /** Of a tool message: the tool's name. */
  name?: string;
  metadata?: ChatMetadata;
  /** What the provider wants to see again; plain data, dates allowed. */
  parts?: unknown;
}

/**
 * What arguments are checked against, and whatever else a model should read. Checked are `true` and `false` as
 * schemas, `type`, `enum`, `const`; `properties`, `required`, `additionalProperties` (not beside
 * `patternProperties`); `items`, `prefixItems`, `minItems`, `maxItems`; `minLength`, `maxLength`; `minimum`,
 * `maximum`, `exclusiveMinimum`, `exclusiveMaximum`; `allOf`, `anyOf`, `oneOf`, `not`; `$ref` to a place in the
 * same schema. Other keywords inform the model alone.
 */
export type JsonSchema = boolean | { readonly [keyword: string]: JsonValue };

/** What a model is told of a tool. */
export interface ToolSchema {
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonSchema;
}

/** What accompanies a model call. */
export interface ChatOptions {
  model: string;
  /** Absent where the model cannot call any, as in the last round of a turn. */
  tools?: readonly ToolSchema[];
  /** Fires when nobody waits for the reply any more. */
  signal?: AbortSignal;
  /**
   * Streams text of the reply; for `chat` only. Await it, so that a slow reader slows the stream. `undefined` and `null`
   * are no text; anything else than a string is refused, and the call fails with `EXECUTION_REPLY_INVALID`.
   */
  onDelta?(text: string): void | Promise<void>;
  /** Unique among all calls. */
  callId: string;
  temperature?: number;
  maxTokens?: number;
}

/** A model service. Its methods may throw, reject or ignore the signal; none of it hangs a turn that is aborted. */
export interface ChatProvider {
  /** Under which name calls are admitted; 1 to 512 UTF-16 units. */
  readonly name: string;
  readonly version?: string;
  /** Resolves to a complete assistant message. */
  chat(messages: readonly ChatMessage[], options: ChatOptions): Promise<ChatMessage>;
  /**
   * Preferred over `chat` where present. Each message has in `content` only the text since the one
   * before; tool calls come whole and once; the last has state `complete` and the metadata.
   */
  chatStream?(messages: readonly ChatMessage[], options: ChatOptions): AsyncIterable<ChatMessage>;
  supportsTools?(): boolean;
  /** Names of tools that the service itself runs in every call; an agent that selects must have none. */
  hostedTools?(): readonly string[];
  /** What its calls go on to, where it wraps another provider: that belongs to the same session as this one. */
  readonly wraps?: object;
  /** Asked before a call is admitted; a reply from here costs nothing. */
  cached?(messages: readonly ChatMessage[], options: ChatOptions): Promise<ChatMessage | undefined>;
}

/** Something a model can do. What goes wrong in it is told to the model, and the turn goes on. */
export interface Tool {
  /** Unique within an agent; 1 to 512 UTF-16 units. */
  name: string;
  description: string;
  parameters: JsonSchema;
  /** Whether running it twice with one key does no harm. */
  idempotent?: boolean;
  /**
   * @param args what the model gave, checked against `parameters`
   * @param context `idempotencyKey` is the same for the same call of a retried attempt
   * @returns plain JSON; `undefined` is none
   */
  execute(
    args: JsonValue,
    context: { signal: AbortSignal; toolCallId: string; idempotencyKey: string },
  ): Promise<JsonValue> | JsonValue;
}

/** What an agent is made of. The object, its provider and its tools belong to one session at a time. */
export interface AgentOptions {
  provider: ChatProvider;
  model: string;
  /** Shown to the model before the history; never part of a checkpoint. */
  systemMessage?: string;
  /** At most 256. */
  tools?: readonly Tool[];
  /** The most model calls of one turn; default 16. The last one offers no tools, so that it answers in words. */
  maxRounds?: number;
  /** Passed on to the provider. */
  temperature?: number;
  /** Passed on to the provider. */
  maxTokens?: number;
  /** Called once after the last use, before the provider and tools are free for another session. */
  dispose?(): void | Promise<void>;
}

/** Which tools may be called. In a pattern `*` stands for any run of characters; it covers the whole name, and case counts. */
export interface Permissions {
  allow?: readonly string[];
  /** Beats `ask` and `allow`. */
  deny?: readonly string[];
  /** Beats `allow`. */
  ask?: readonly string[];
  /** For a tool that no pattern fits. Default `ask`. */
  default?: 'allow' | 'ask' | 'deny';
}

/** An agent behind a permission gate. */
export interface SessionOptions extends AgentOptions {
  /**
   * Default: every tool is asked for. A function is called before each tool call, and once more when an
   * approval returns: a denial then beats the approval. Where it throws, the turn fails with its error.
   */
  permissions?: Permissions | (() => Permissions | Promise<Permissions>);
  /** Called where the rules say `ask`, also when an approval returns; then only `deny` changes anything. */
  decide?(call: {
    toolName: string;
    arguments: JsonValue;
    toolCallId: string;
  }): 'allow' | 'ask' | 'deny' | Promise<'allow' | 'ask' | 'deny'>;
  /** What a checkpoint must match to be restored, such as a working directory. Default: an empty text. */
  environment?: string;
}

/** Where a runtime writes down what it is about to do and what came of it. */
export interface ExecutionJournal {
  /** Whether records outlive the process. */
  readonly durable?: boolean;
  /** Resolves when the record is kept. The same id with the same content again is a no-op. */
  append(record: ExecutionRecord): Promise<void>;
  /** The records of one execution, in their order. */
  read?(executionId: string): Promise<readonly ExecutionRecord[]>;
}

/** One line of an execution journal. A request holds no messages: they follow from what is before it. */
export type ExecutionRecord = { id: string; executionId: string; sessionId: string } & (
  | { kind: 'execution-start'; turnId: string; input: string }
  | { kind: 'model-request'; callId: string; providerId: string; modelId: string }
  | { kind: 'model-response'; callId: string; response: ChatMessage }
  /** `cancelled`: the turn had been stopped by then. */
  | { kind: 'model-failure'; callId: string; message: string; cancelled?: boolean }
  | { kind: 'model-cache-hit'; callId: string; providerId: string; modelId: string; response: ChatMessage }
  | { kind: 'tool-intent'; toolCallId: string; toolName: string; arguments: JsonValue; idempotencyKey: string }
  | { kind: 'tool-result'; toolCallId: string; result: JsonValue }
  | { kind: 'answer'; requestId: string; responseId: string; approved: boolean; reason?: string }
);
