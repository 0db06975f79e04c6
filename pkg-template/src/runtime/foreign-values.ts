/** What crosses between a foreign runtime and its session: results, answers and checkpoints, checked. */

import { currentEngine } from '../engine.js';
import type { JsonValue, ParticipantCheckpoint, ParticipantResponse, ParticipantTurn } from '../types.js';
import {
  BadValue,
  deepFreeze,
  describe,
  elements,
  exactly,
  identifier,
  isFunction,
  isInstance,
  jsonText,
  MAX_TEXT,
  members,
  text,
  unboundedJsonText,
} from '../values.js';
import { named, object } from './agent-options.js';
import { ExecutionError, RuntimeParticipantError } from './errors.js';
import type { AgentRuntime, RuntimeResult, ToolApproval } from './foreign-types.js';
import { sessionIdOf } from './leases.js';

/** The version of the checkpoints. */
export const VERSION = 'runtime/1';
/** The most requests of one wait. */
const MAX_REQUESTS = 64;

/** A tool call that waits for an answer. */
export interface ApprovalRequest {
  readonly id: string;
  readonly reason: string;
  readonly kind: 'approval';
  readonly data: { toolCallId: string; toolName: string; arguments: JsonValue; [key: string]: JsonValue };
}

/** A run that waits. */
export interface Pending {
  readonly executionId: string;
  readonly requests: readonly ApprovalRequest[];
  readonly state: JsonValue;
}

/** What a session is at a boundary. */
export interface State {
  readonly history: readonly JsonValue[];
  readonly firstTurnDone: boolean;
  readonly pending: Pending | null;
}

/**
 * What a session over this runtime holds.
 * @throws `invalid-config`, naming the member
 */
export function objectsOf(runtime: AgentRuntime): readonly object[] {
  return named(() => {
    if (typeof runtime !== 'object' || runtime === null)
      throw new BadValue('createRuntime', `must give a runtime, not ${describe(runtime)}`);
    const resources = elements(runtime.resources ?? [], 'runtime.resources', Infinity);
    return [runtime, ...resources.map((resource, index) => object(resource, `runtime.resources[${index}]`))];
  });
}

/**
 * Reads a runtime's members; its environment.
 * @throws `invalid-config`, naming the member
 */
export function readRuntime(runtime: AgentRuntime): string {
  return named(() => {
    if (!isFunction(runtime.run)) throw new BadValue('runtime.run', 'must be a function');
    for (const key of ['resume', 'dispose'] as const)
      if (runtime[key] !== undefined && !isFunction(runtime[key]))
        throw new BadValue(`runtime.${key}`, 'must be a function');
    return text(runtime.environment ?? '', 'runtime.environment', MAX_TEXT);
  });
}

/** @throws `checkpoint-invalid`, naming what does not fit */
export function restore(
  checkpoint: ParticipantCheckpoint,
  sessionId: string,
  environment: string,
  forked: boolean,
  placed: boolean,
): State {
  const refuse = (problem: string): never => {
    throw new RuntimeParticipantError('checkpoint-invalid', problem);
  };
  if (checkpoint.version !== VERSION) refuse(`its version is not ${VERSION}`);
  const { append = [], data }: { append?: unknown; data?: unknown } = checkpoint;
  try {
    const head = members(data, 'data');
    const [written, firstTurnDone, pending] = [head.get('sessionId'), head.get('firstTurnDone'), head.get('pending')];
    if (typeof written !== 'string' || written === '') refuse('data.sessionId: expected a string');
    if (written !== sessionId && !forked)
      refuse('the conversation or participant differs from the one that wrote it (data.sessionId)');
    if (head.get('environment') !== environment) refuse('the environment differs from the one that wrote it');
    if (typeof firstTurnDone !== 'boolean') refuse('data.firstTurnDone: expected true or false');
    // In a fork of a conversation it is what a host had settled there.
    const waits = written === sessionId || !placed ? pending : null;
    if (waits !== null && written !== sessionId)
      refuse('what waits in another conversation cannot be answered in a fork of it (data.pending)');
    return {
      history: deepFreeze(
        elements(append, 'append', Infinity).map((item, index) => jsonCopy(item, `append[${index}]`)),
      ),
      firstTurnDone: firstTurnDone === true,
      pending: waits === null ? null : readPending(waits),
    };
  } catch (error) {
    if (isInstance(error, BadValue)) return refuse(error.message);
    throw error;
  }
}

function readPending(value: unknown): Pending {
  const found = exactly(value, 'data.pending', ['executionId', 'requests', 'state']);
  const requests = elements(found.get('requests'), 'data.pending.requests', MAX_REQUESTS);
  identifier(found.get('executionId'), 'data.pending.executionId');
  if (requests.length === 0) throw new BadValue('data.pending.requests', 'is empty');
  const ids = new Set<string>();
  for (const [index, request] of requests.entries()) {
    const path = `data.pending.requests[${index}]`;
    const given = exactly(request, path, ['id', 'reason', 'kind', 'data']);
    const id = identifier(given.get('id'), `${path}.id`);
    if (ids.has(id)) throw new BadValue(`${path}.id`, 'is named twice');
    ids.add(id);
    if (given.get('kind') !== 'approval') throw new BadValue(`${path}.kind`, 'must be approval');
    const action = members(given.get('data'), `${path}.data`);
    for (const key of ['toolCallId', 'toolName']) identifier(action.get(key), `${path}.data.${key}`);
    if (!action.has('arguments')) throw new BadValue(`${path}.data.arguments`, 'is missing');
  }
  return deepFreeze(JSON.parse(unboundedJsonText(value, 'data.pending', 4)) as unknown) as Pending;
}

/** A result as data of its own, frozen. */
export function readResult(value: unknown): RuntimeResult {
  try {
    const found = members(value, 'result');
    if (found.has('interruptions')) {
      const given = elements(found.get('interruptions'), 'result.interruptions', MAX_REQUESTS);
      if (given.length === 0) throw new BadValue('result.interruptions', 'is empty');
      const interruptions = given.map((item, index) => {
        const path = `result.interruptions[${index}]`;
        const { toolCallId, toolName, arguments: args } = Object.fromEntries(members(item, path));
        for (const [key, name] of Object.entries({ toolCallId, toolName })) identifier(name, `${path}.${key}`);
        const action = { toolCallId, toolName, arguments: argumentsOf(args ?? null, `${path}.arguments`) };
        return action as ToolApproval;
      });
      return { interruptions, state: jsonCopy(found.get('state'), 'result.state') };
    }
    const finalOutput = found.get('finalOutput') ?? null;
    if (finalOutput !== null && typeof finalOutput !== 'string')
      throw new BadValue('result.finalOutput', `must be a string or null, not ${describe(finalOutput)}`);
    const items = elements(found.get('newItems'), 'result.newItems', Infinity);
    const read = (item: unknown, index: number): JsonValue => deepFreeze(jsonCopy(item, `result.newItems[${index}]`));
    return { finalOutput, newItems: items.map(read) };
  } catch (error) {
    if (isInstance(error, BadValue)) throw new ExecutionError('EXECUTION_REPLY_INVALID', error.message);
    throw error;
  }
}

/**
 * A copy of a tool call's arguments. Half a surrogate pair in them is refused: with U+FFFD in its place, other
 * arguments would be the same.
 * @throws BadValue
 */
export function argumentsOf(value: unknown, path: string): JsonValue {
  const text = jsonText(value, path);
  if (text !== JSON.stringify(value)) throw new BadValue(path, 'holds a lone surrogate');
  return JSON.parse(text) as JsonValue;
}

function jsonCopy(value: unknown, path: string): JsonValue {
  return JSON.parse(jsonText(value, path)) as JsonValue;
}

/** An answer and the action it is about. */
export interface ReadAnswer {
  readonly requestId: string;
  readonly responseId: string;
  readonly approved: boolean;
  readonly reason: string | undefined;
  readonly action: ToolApproval;
}

/** @throws `identity-mismatch` for an answer that does not fit what waits in the session */
export function readAnswers(
  sessionId: string,
  turn: ParticipantTurn,
  pending: Pending,
  responses: readonly ParticipantResponse[],
): ReadAnswer[] {
  const { conversationId, participantId, turnId, groupId } = turn;
  const requests = pending.requests.map(({ id, data }) => ({ id, data }));
  const mismatch = (problem: string): RuntimeParticipantError =>
    new RuntimeParticipantError('identity-mismatch', problem);
  if (sessionIdOf(conversationId, participantId) !== sessionId)
    throw mismatch("the turn's conversation or participant is another one");
  let text: string;
  try {
    text = unboundedJsonText({ conversationId, participantId, turnId, groupId, requests, responses }, 'answers', 5);
    text = currentEngine().engine.approvalAnswers(text);
  } catch (error) {
    if (isInstance(error, BadValue)) throw mismatch(error.message);
    if (typeof error === 'string') throw mismatch(error);
    throw error;
  }
  const found = JSON.parse(text) as [string, boolean, string | null][];
  return requests.map(({ id, data }, index) => {
    const [responseId, approved, reason] = found[index] as [string, boolean, string | null];
    const { toolCallId, toolName, arguments: args } = data;
    const action = { toolCallId, toolName, arguments: args };
    return { requestId: id, responseId, approved, reason: reason ?? undefined, action };
  });
}
