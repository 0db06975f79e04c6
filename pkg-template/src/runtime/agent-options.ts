/** What a host's `createAgent` gave, read once. Types are checked here, bounds by the engine. */

import { object as record } from '../conversation/options.js';
import { RoundtableError } from '../errors.js';
import {
  BadValue,
  deepFreeze,
  describe,
  elements,
  isInstance,
  isWellFormed,
  jsonText,
  MAX_TEXT,
  text,
} from '../values.js';
import { type Gate, readGate } from './permission.js';
import type { AgentOptions, ChatOptions, ChatProvider, SessionOptions, Tool, ToolSchema } from './types.js';

/** How deep providers may wrap each other. */
const MAX_WRAPPED = 16;

/** Whose session an agent behind a permission gate is. */
export interface SessionIdentity {
  readonly conversationId: string;
  readonly participantId: string;
  /** It may take over the history of another conversation's session. */
  readonly forked: boolean;
  /** Whether it is a conversation's, which is forked only where none of it waits. */
  readonly placed: boolean;
}

/** An agent's parts. */
export interface Agent {
  readonly provider: ChatProvider;
  readonly providerName: string;
  readonly model: string;
  readonly systemMessage: string | undefined;
  readonly tools: readonly Tool[];
  /** Frozen, in the order of `tools`. */
  readonly toolSchemas: readonly ToolSchema[];
  readonly callOptions: Pick<ChatOptions, 'temperature' | 'maxTokens'>;
  /** Who decides which tools run; none for a plain agent. */
  readonly gate: Gate | undefined;
  /** The JSON of the options, for the engine. */
  readonly json: string;
}

/**
 * The objects that a session holds: the options, their provider with what it wraps, and their tools.
 * @throws `invalid-config`, naming the option
 */
export function leasedObjects(options: AgentOptions): readonly object[] {
  return named(() => {
    const { provider, tools } = object(options, 'options');
    const listed = tools === undefined ? [] : elements(tools, 'tools', Infinity);
    return [options, ...wrapped(provider), ...listed.map((tool, index) => object(tool, `tools[${index}]`))];
  });
}

/** A provider and what it wraps, the innermost last. */
function wrapped(provider: unknown): readonly object[] {
  const found: object[] = [object(provider, 'provider') as object];
  let { wraps: next } = provider as Pick<ChatProvider, 'wraps'>;
  for (let path = 'provider.wraps'; next !== undefined; path += '.wraps') {
    const one = object(next, path);
    if (found.includes(one)) throw new BadValue(path, 'is wrapped by itself');
    if (found.length > MAX_WRAPPED) throw new BadValue(path, `is more than ${MAX_WRAPPED} wrappers deep`);
    found.push(one);
    next = (one as Pick<ChatProvider, 'wraps'>).wraps;
  }
  return found;
}

/**
 * Reads options whose objects are claimed; those of a session where `identity` says whose it is.
 * @throws `invalid-config`, naming the option
 */
export function readAgent(options: SessionOptions, identity?: SessionIdentity): Agent {
  return named(() => {
    const { provider, model, systemMessage, maxRounds, temperature, maxTokens } = options;
    const tools: readonly Tool[] = [...(options.tools ?? [])];
    const providerName = string(provider.name, 'provider.name');
    for (const key of ['chat', 'chatStream', 'cached'] as const) optionalFunction(provider[key], `provider.${key}`);
    if (provider.chat === undefined && provider.chatStream === undefined) {
      throw new BadValue('provider', 'has neither chat nor chatStream');
    }
    optionalFunction(options.dispose, 'dispose');
    const toolSchemas = tools.map(readTool);
    const { environment = '' } = options;
    const session = identity && { ...identity, environment: text(environment, 'environment', MAX_TEXT) };
    if (tools.length > 0 && provider.supportsTools?.() === false)
      throw new BadValue('tools', 'are given, and the provider supports none');
    const parts = {
      providerName,
      providerHasCache: provider.cached !== undefined,
      model: string(model, 'model'),
      systemMessage: systemMessage === undefined ? undefined : string(systemMessage, 'systemMessage'),
      tools: toolSchemas.map((schema, index) => ({ ...schema, idempotent: tools[index]?.idempotent === true })),
      session,
      maxRounds: optionalNumber(maxRounds, 'maxRounds'),
      temperature: optionalNumber(temperature, 'temperature'),
      maxTokens: optionalNumber(maxTokens, 'maxTokens'),
    };
    return {
      provider,
      providerName,
      model: parts.model,
      systemMessage: parts.systemMessage,
      tools,
      toolSchemas,
      callOptions: {
        ...(temperature === undefined ? {} : { temperature }),
        ...(maxTokens === undefined ? {} : { maxTokens }),
      },
      gate: identity && readGate(options),
      json: JSON.stringify(parts),
    };
  });
}

function readTool(tool: Tool, index: number): ToolSchema {
  const path = `tools[${index}]`;
  const { idempotent }: { idempotent?: unknown } = tool;
  if (idempotent !== undefined && typeof idempotent !== 'boolean')
    throw new BadValue(`${path}.idempotent`, `must be true or false, not ${describe(idempotent)}`);
  if (typeof tool.execute !== 'function')
    throw new BadValue(`${path}.execute`, `must be a function, not ${describe(tool.execute)}`);
  return deepFreeze({
    name: string(tool.name, `${path}.name`),
    description: string(tool.description, `${path}.description`),
    parameters: JSON.parse(jsonText(tool.parameters, `${path}.parameters`)) as ToolSchema['parameters'],
  });
}

/** @throws BadValue for what is no object */
export function object<T>(value: T, path: string): T & object {
  record(value, path);
  return value as T & object;
}

function string(value: unknown, path: string): string {
  if (typeof value === 'string') {
    if (isWellFormed(value)) return value;
    throw new BadValue(path, 'holds a lone surrogate');
  }
  throw new BadValue(path, `must be a string, not ${describe(value)}`);
}

// A number that JSON has no text for would be absent in it.
function optionalNumber(value: unknown, path: string): number | undefined {
  if (value === undefined || (typeof value === 'number' && Number.isFinite(value))) return value;
  throw new BadValue(path, `must be a finite number, not ${describe(value)}`);
}

function optionalFunction(value: unknown, path: string): void {
  if (value !== undefined && typeof value !== 'function')
    throw new BadValue(path, `must be a function, not ${describe(value)}`);
}

/**
 * Checks the functions among a participant's or selector's options, before anything is asked of them.
 * @throws `invalid-config`, naming the option
 */
export function checkCallbacks(options: unknown, required: string, others: readonly string[]): void {
  named(() => {
    const given = object(options, 'options') as Readonly<Record<string, unknown>>;
    if (given[required] === undefined) throw new BadValue(required, 'is required: a function');
    for (const key of [required, ...others]) optionalFunction(given[key], key);
  });
}

/** Runs `read`; a bad value in it is refused as `invalid-config`. */
export function named<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (isInstance(error, BadValue)) throw new RoundtableError('invalid-config', error.message);
    throw error;
  }
}
