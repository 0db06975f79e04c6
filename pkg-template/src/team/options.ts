/** Reads a team's options once: functions are kept here, everything else goes to the engine as text. */

import { readClock } from '../conversation/clock.js';
import { checked } from '../conversation/engine-handle.js';
import {
  type AgentPorts,
  callback,
  object,
  readParticipant,
  readStore,
  type StorePorts,
} from '../conversation/options.js';
import { RoundtableError } from '../errors.js';
import type { Clock } from '../types.js';
import { BadValue, describe, identifier, isFunction } from '../values.js';
import { compiledText } from './compile.js';
import type { LoadTeamOptions, TeamEvent, TeamFunction, TeamOptions, TeamTurnResult } from './types.js';

type Given = Record<string, unknown>;

/** A member as it is called. */
export type MemberPorts = { readonly id: string } & (
  | { readonly run: TeamFunction; readonly agent?: undefined }
  | { readonly agent: AgentPorts; readonly run?: undefined }
);

/** What the engine calls back, and the text it checks. */
export interface ReadTeamOptions {
  /** JSON for the engine. */
  readonly setting: string;
  readonly runId: string;
  /** In declared order. */
  readonly members: readonly MemberPorts[];
  readonly store: StorePorts | undefined;
  readonly durable: boolean;
  readonly parse: ((content: string, memberId: string) => TeamTurnResult) | undefined;
  readonly onEvent: ((event: TeamEvent) => unknown) | undefined;
  readonly onEventError: ((error: unknown, event: TeamEvent) => unknown) | undefined;
  readonly clock: Clock | undefined;
}

/** @throws TeamError `INVALID_TEAM`, RoundtableError `invalid-config` naming the field */
export function readTeamOptions(options: TeamOptions): ReadTeamOptions {
  const given = checked(() => object(options, 'options'));
  const definition = compiledText(given['definition']);
  return checked(() => {
    const limits = readLimits(given, ['inputBytes', 'outputBytes', 'inputOverflow', 'settleTimeoutMs']);
    const plan = {
      order: choice(given, 'order', ['declaration', 'oldest-trigger']),
      softTurnLimit: given['softTurnLimit'] === undefined ? false : flag(given['softTurnLimit'], 'softTurnLimit'),
      selfMention: choice(given, 'selfMention', ['allow', 'ignore']),
      inputOverflow: choice(limits, 'inputOverflow', ['fail', 'drop-tail'], 'limits.'),
      inputBytes: count(limits['inputBytes'], 'limits.inputBytes'),
      outputBytes: count(limits['outputBytes'], 'limits.outputBytes'),
    };
    const seed = given['seed'] === undefined ? undefined : identifier(given['seed'], 'seed');
    const more = `,"options":${JSON.stringify(plan)}${seed === undefined ? '' : `,"seed":${JSON.stringify(seed)}`}`;
    return read(given, limits, definition, more);
  });
}

/** The same for a team whose record was read; `definition` is the stored one. */
export function readLoadOptions(options: LoadTeamOptions, definition: string): ReadTeamOptions {
  return checked(() => {
    const given = object(options, 'options');
    return read(given, readLimits(given, ['settleTimeoutMs']), definition, '');
  });
}

function readLimits(given: Given, known: readonly string[]): Given {
  const limits = given['limits'] === undefined ? {} : object(given['limits'], 'limits');
  for (const key of Object.keys(limits)) {
    // A mistyped limit would be no limit.
    if (!known.includes(key)) throw new BadValue(`limits.${key}`, 'is no limit');
  }
  return limits;
}

function read(given: Given, limits: Given, definition: string, more: string): ReadTeamOptions {
  const runId = identifier(given['runId'], 'runId');
  const lease = count(given['leaseMs'], 'leaseMs') ?? 30_000;
  const settle = count(limits['settleTimeoutMs'], 'limits.settleTimeoutMs') ?? null;
  const { members, traits } = readMembers(given['members'], definition);
  const config: Record<string, never> = {};
  const store = readStore(given['store'], config);
  const times = `"leaseMs":${lease},"settleTimeoutMs":${settle}`;
  const head = `"runId":${JSON.stringify(runId)},${times},"members":${JSON.stringify(traits)}`;
  return {
    setting: `{${head},"definition":${definition}${more}}`,
    runId,
    members,
    store,
    durable: (config as { storeDurability?: string }).storeDurability === 'durable',
    parse: callback(given, 'parse') as ReadTeamOptions['parse'],
    onEvent: callback(given, 'onEvent') as ReadTeamOptions['onEvent'],
    onEventError: callback(given, 'onEventError') as ReadTeamOptions['onEventError'],
    clock: readClock(given['clock']),
  };
}

function readMembers(value: unknown, definition: string): { members: MemberPorts[]; traits: unknown[] } {
  const given = object(value, 'members');
  const ids = (JSON.parse(definition) as { nodes: { id: string }[] }).nodes.map((node) => node.id);
  for (const key of Object.keys(given)) {
    if (!ids.includes(key))
      throw new BadValue(`members[${JSON.stringify(key.slice(0, 64))}]`, 'is no member of the team');
  }
  const members: MemberPorts[] = [];
  const traits = ids.map((id) => {
    const path = `members[${JSON.stringify(id)}]`;
    const member = Object.hasOwn(given, id) ? given[id] : undefined;
    if (isFunction(member)) {
      const run = member as unknown as TeamFunction;
      const { retrySafe } = run;
      members.push({ id, run });
      return [id, { retrySafe: retrySafe === undefined ? false : flag(retrySafe, `${path}.retrySafe`) }];
    }
    if (typeof member !== 'object' || member === null) {
      throw new BadValue(path, `must be a function or an agent participant, not ${describe(member)}`);
    }
    const { data, agent } = readParticipant(object(member, path), path);
    if (agent === undefined) throw new BadValue(`${path}.kind`, "must be 'agent'");
    const runtime = object((data as { runtime?: unknown }).runtime, `${path}.runtime`);
    members.push({ id, agent });
    const reference = {
      id: identifier(runtime['id'], `${path}.runtime.id`),
      version: identifier(runtime['version'], `${path}.runtime.version`),
    };
    return [id, { retrySafe: false, runtime: reference }];
  });
  return { members, traits };
}

function choice(given: Given, key: string, words: readonly string[], path = ''): unknown {
  const value = given[key] ?? words[0];
  if (typeof value === 'string' && words.includes(value)) return value;
  throw new BadValue(`${path}${key}`, `must be ${words.map((word) => `'${word}'`).join(' or ')}`);
}

function flag(value: unknown, path: string): boolean {
  if (typeof value === 'boolean') return value;
  throw new BadValue(path, `must be a boolean, not ${describe(value)}`);
}

function count(value: unknown, path: string): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value;
  throw new BadValue(path, `must be an integer from 1 to ${Number.MAX_SAFE_INTEGER}, not ${describe(value)}`);
}

/** Refuses a store that cannot be read. */
export function readableStore<T>(store: T): T {
  if (typeof store === 'object' && store !== null && isFunction((store as { load?: unknown }).load)) return store;
  throw new RoundtableError('invalid-config', 'store must be a ConversationStore');
}
