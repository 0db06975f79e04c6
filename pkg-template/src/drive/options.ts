/** Options of a drive, at the door. What concerns the conversation alone is checked where that is made. */

import { DeliberationError } from '../deliberation/errors.js';
import { readClock } from '../conversation/clock.js';
import type { AgentParticipant } from '../types.js';
import { BadValue, describe, elements, identifier, isFunction, readSignal } from '../values.js';
import type { AgentFacilitator, DriveOptions } from './types.js';

const MAX_AGENTS = 20;
const MAX_CONVERSATION_ID = 128;
const MAX_ROUNDS = 200;
const MAY: readonly string[] = ['extend', 'close'];

/** Options that are in order. */
export interface Settings extends Omit<DriveOptions, 'facilitator' | 'conversationId'> {
  readonly conversationId: string;
  readonly maxRounds: number;
  readonly facilitator: (AgentFacilitator & { readonly may: readonly ('extend' | 'close')[] }) | undefined;
}

/** @throws DeliberationError `invalid`, naming the option */
export function readSettings(sessionId: string, options: DriveOptions): Settings {
  try {
    return read(sessionId, options);
  } catch (error) {
    if (!(error instanceof BadValue)) throw error;
    const at = error.message.indexOf(' ');
    throw invalid(error.message.slice(0, at), error.message.slice(at + 1));
  }
}

function read(sessionId: string, options: DriveOptions): Settings {
  const given = object(options, 'options') as unknown as DriveOptions;
  object(given.store, 'store');
  const agents = elements(given.agents, 'agents', MAX_AGENTS).map((agent, index) =>
    readAgent(agent, `agents[${index}]`),
  );
  if (agents.length === 0) throw new BadValue('agents', 'is empty');
  const { conversationId = `${sessionId}/discussion`, maxRounds = 10, unsettled = 'refuse' } = given;
  identifier(conversationId, 'conversationId');
  if (conversationId.length > MAX_CONVERSATION_ID)
    throw new BadValue('conversationId', `has more than ${MAX_CONVERSATION_ID} UTF-16 units`);
  if (!Number.isSafeInteger(maxRounds) || maxRounds < 1 || maxRounds > MAX_ROUNDS)
    throw new BadValue('maxRounds', `must be an integer from 1 to ${MAX_ROUNDS}`);
  if (unsettled !== 'refuse' && unsettled !== 'retry') throw new BadValue('unsettled', 'must be refuse or retry');
  for (const key of ['beforeRound', 'answer', 'onEvent', 'onEventError'] as const) {
    if (given[key] !== undefined && !isFunction(given[key])) throw new BadValue(key, 'must be a function');
  }
  const facilitator = given.facilitator === undefined ? undefined : readFacilitator(given.facilitator);
  const ids = [...agents.map(({ id }) => id), ...(facilitator === undefined ? [] : [facilitator.id])];
  ids.forEach((id, index) => {
    if (ids.indexOf(id) === index) return;
    throw new BadValue(index < agents.length ? `agents[${index}].id` : 'facilitator.id', 'is that of another agent');
  });
  const { signal, clock } = given;
  readSignal(signal, 'signal');
  const checkedClock = readClock(clock);
  return {
    ...given,
    agents,
    facilitator,
    conversationId,
    maxRounds,
    unsettled,
    ...(checkedClock === undefined ? {} : { clock: checkedClock }),
  };
}

function readAgent(agent: unknown, path: string): AgentParticipant {
  const given = object(agent, path);
  if (given['kind'] !== 'agent') throw new BadValue(`${path}.kind`, 'must be agent: people speak through the session');
  identifier(given['id'], `${path}.id`);
  object(given['runtime'], `${path}.runtime`);
  if (!isFunction(object(given['factory'], `${path}.factory`)['openSession']))
    throw new BadValue(`${path}.factory.openSession`, 'must be a function');
  return agent as AgentParticipant;
}

function readFacilitator(value: AgentFacilitator): NonNullable<Settings['facilitator']> {
  const given = object(value, 'facilitator') as unknown as AgentFacilitator;
  identifier(given.id, 'facilitator.id');
  if (given.runtime !== undefined) object(given.runtime, 'facilitator.runtime');
  if (!isFunction(given.createAgent)) throw new BadValue('facilitator.createAgent', 'must be a function');
  const may = given.may === undefined ? [] : elements(given.may, 'facilitator.may', MAY.length);
  may.forEach((one, index) => {
    if (typeof one !== 'string' || !MAY.includes(one))
      throw new BadValue(`facilitator.may[${index}]`, 'must be extend or close');
  });
  const { id, runtime } = given;
  const createAgent = (): ReturnType<AgentFacilitator['createAgent']> => given.createAgent();
  return { id, createAgent, may: may as ('extend' | 'close')[], ...(runtime === undefined ? {} : { runtime }) };
}

function object(value: unknown, path: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  throw new BadValue(path, `must be an object, not ${describe(value)}`);
}

export function invalid(field: string, problem: string): DeliberationError {
  return new DeliberationError('invalid', `${field} ${problem}`, { reason: 'INVALID_OPTIONS', field });
}
