/** Reads a host's options once: functions are kept here, everything else goes to the engine as plain data. */

import type { EngineLink } from '../engine.js';
import { isRoundRobin } from '../round-robin.js';
import { placeOf } from './place.js';
import type { ConversationStore } from '../store-types.js';
import type {
  Clock,
  ParticipantCheckpoint,
  ParticipantFactory,
  PricePolicy,
  RoundtableOptions,
  TurnSelector,
} from '../types.js';
import { BadValue, describe, isFunction, isPlain, isWellFormed, toWellFormed } from '../values.js';
import { readClock } from './clock.js';
import { checked, type MakeHandle } from './engine-handle.js';
import type { ObserverOptions } from './observers.js';

/** Plain data for the engine, which checks it; numbers of any kind pass. */
export type PlainOption = null | boolean | number | string | PlainOption[] | { [key: string]: PlainOption };

/** How an agent's sessions are opened. */
export interface AgentPorts {
  readonly openSession: ParticipantFactory['openSession'];
}

/** A host's own selector. */
export interface SelectorPorts {
  readonly select: TurnSelector['select'];
  readonly checkpoint: TurnSelector['checkpoint'] | undefined;
  readonly release: TurnSelector['release'] | undefined;
}

/** The store's functions that a running conversation uses. */
export type StorePorts = Pick<ConversationStore, 'create' | 'read' | 'claim' | 'renew' | 'release' | 'append'> & {
  /** What tells it apart, within this process. */
  readonly place?: string;
  /** For events of before a compaction. */
  readonly load?: ConversationStore['load'] | undefined;
};

/** What the engine calls back, and the plain data it checks. */
export interface ReadOptions extends ObserverOptions {
  readonly config: { [key: string]: PlainOption };
  /** By position in declared order; absent for external participants. */
  readonly agents: readonly (AgentPorts | undefined)[];
  /** Absent for the built-in policy, which runs in the engine. */
  readonly selector: SelectorPorts | undefined;
  readonly store: StorePorts | undefined;
  readonly cost: PricePolicy['cost'] | undefined;
  readonly clock: Clock | undefined;
  /** Of a conversation that was loaded. */
  readonly loaded?: Loaded;
}

/** What a loaded conversation goes on with. */
export interface Loaded {
  /** The engine that holds its record. */
  readonly link: EngineLink;
  readonly make: MakeHandle;
  /** Of a fork. */
  readonly forkedFrom: Parameters<ParticipantFactory['openSession']>[0]['forkedFrom'];
  /** Makes the selector from its saved state. */
  readonly createSelector: ((saved: { checkpoint?: ParticipantCheckpoint }) => Promise<SelectorPorts>) | undefined;
}

/** @throws RoundtableError `invalid-config` naming the field */
export function readOptions(options: RoundtableOptions): ReadOptions {
  return checked(() => read(options));
}

function read(options: unknown): ReadOptions {
  const given = object(options, 'options');
  const config: { [key: string]: PlainOption } = {};
  const copy = (key: string, kind: Text): void => {
    const value = plain(given[key], key, kind);
    if (value !== undefined) config[key] = value;
  };
  copy('conversationId', 'id');
  copy('purpose', 'text');
  copy('limits', 'id');
  copy('maxConcurrentParticipants', 'id');
  copy('recovery', 'id');
  copy('leaseMs', 'id');
  copy('seed', 'id');
  const agents: (AgentPorts | undefined)[] = [];
  config['participants'] = list(given['participants'], 'participants').map((participant, index) => {
    const path = `participants[${index}]`;
    const { data, agent } = readParticipant(object(participant, path), path);
    agents.push(agent);
    return data;
  });
  const selector = readSelector(given['selector'], config);
  const store = readStore(given['store'], config);
  const cost = readPricing(given['pricing'], config);
  return {
    config,
    agents,
    selector,
    store,
    cost,
    clock: readClock(given['clock']),
    onEvent: callback(given, 'onEvent') as ObserverOptions['onEvent'],
    onEventError: callback(given, 'onEventError') as ObserverOptions['onEventError'],
  };
}

export function readParticipant(
  given: Record<string, unknown>,
  path: string,
): { data: PlainOption; agent: AgentPorts | undefined } {
  const data: { [key: string]: PlainOption } = {};
  copyMembers(given, ['kind', 'id'], path, 'id', data);
  copyMembers(given, ['description'], path, 'text', data);
  if (given['kind'] !== 'agent') return { data, agent: undefined };
  copyMembers(given, ['runtime'], path, 'id', data);
  const factory = object(given['factory'], `${path}.factory`);
  copyMembers(factory, ['supportsContinuation', 'checkpointVersions', 'modelCalls'], `${path}.factory`, 'id', data);
  const openSession = method(factory, 'openSession', `${path}.factory`);
  return { data, agent: { openSession: openSession as AgentPorts['openSession'] } };
}

export function readSelector(value: unknown, config: { [key: string]: PlainOption }): SelectorPorts | undefined {
  if (value === undefined || isRoundRobin(value)) {
    config['selector'] = 'round-robin';
    return undefined;
  }
  const given = object(value, 'selector');
  const data: { [key: string]: PlainOption } = {};
  copyMembers(given, ['reference', 'modelCalls'], 'selector', 'id', data);
  config['selector'] = data;
  return {
    select: method(given, 'select', 'selector') as SelectorPorts['select'],
    checkpoint: callback(given, 'checkpoint', 'selector.') as SelectorPorts['checkpoint'],
    release: callback(given, 'release', 'selector.') as SelectorPorts['release'],
  };
}

export function readStore(value: unknown, config: { [key: string]: PlainOption }): StorePorts | undefined {
  config['storeDurability'] = 'memory';
  if (value === undefined) return undefined;
  const given = object(value, 'store');
  copyMembers({ storeDurability: given['durability'] }, ['storeDurability'], 'store', 'id', config);
  return {
    place: placeOf(given),
    create: method(given, 'create', 'store') as StorePorts['create'],
    read: method(given, 'read', 'store') as StorePorts['read'],
    claim: method(given, 'claim', 'store') as StorePorts['claim'],
    renew: method(given, 'renew', 'store') as StorePorts['renew'],
    release: method(given, 'release', 'store') as StorePorts['release'],
    append: method(given, 'append', 'store') as StorePorts['append'],
    load: callback(given, 'load', 'store.') as StorePorts['load'],
  };
}

export function readPricing(value: unknown, config: { [key: string]: PlainOption }): PricePolicy['cost'] | undefined {
  if (value === undefined) return undefined;
  const given = object(value, 'pricing');
  const version = plain(given['version'], 'pricing.version', 'id');
  if (version === undefined) throw new BadValue('pricing.version', 'is required: a string');
  config['priceVersion'] = version;
  return method(given, 'cost', 'pricing') as PricePolicy['cost'];
}

/** How lone surrogates are met: refused in ids, replaced in text for people. */
type Text = 'id' | 'text';

function copyMembers(
  given: Record<string, unknown>,
  keys: readonly string[],
  path: string,
  kind: Text,
  into: { [key: string]: PlainOption },
): void {
  for (const key of keys) {
    const value = plain(given[key], `${path}.${key}`, kind);
    if (value !== undefined) into[key] = value;
  }
}

/** A deep copy of plain data without absent members. */
export function plain(value: unknown, path: string, kind: Text, depth = 0): PlainOption | undefined {
  if (value === undefined || value === null || typeof value === 'boolean' || typeof value === 'number') return value;
  if (typeof value === 'string') {
    if (kind === 'text') return toWellFormed(value);
    if (!isWellFormed(value)) throw new BadValue(path, 'holds a lone surrogate');
    return value;
  }
  if (typeof value !== 'object' || !(Array.isArray(value) || isPlain(value))) {
    throw new BadValue(path, `must be plain data, not ${describe(value)}`);
  }
  // No option nests deeper than a reference in a list.
  if (depth > 3) throw new BadValue(path, 'is nested too deeply');
  if (Array.isArray(value)) {
    return Array.from(value, (item: unknown, index) => {
      const copied = plain(item, `${path}[${index}]`, kind, depth + 1);
      if (copied === undefined) throw new BadValue(`${path}[${index}]`, 'is undefined');
      return copied;
    });
  }
  const copied: { [key: string]: PlainOption } = Object.create(null) as { [key: string]: PlainOption };
  for (const key of Object.keys(value)) {
    const member = plain((value as Record<string, unknown>)[key], `${path}.${key}`, kind, depth + 1);
    if (member !== undefined) copied[key] = member;
  }
  return copied;
}

export function object(value: unknown, path: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new BadValue(path, `must be an object, not ${describe(value)}`);
}

function list(value: unknown, path: string): unknown[] {
  if (Array.isArray(value)) return Array.from(value as unknown[]);
  throw new BadValue(path, `must be a list, not ${describe(value)}`);
}

export function method(given: Record<string, unknown>, key: string, path: string): unknown {
  const value = given[key];
  if (!isFunction(value)) throw new BadValue(`${path}.${key}`, `must be a function, not ${describe(value)}`);
  return value.bind(given);
}

export function callback(given: Record<string, unknown>, key: string, path = ''): unknown {
  return given[key] === undefined ? undefined : method(given, key, path === '' ? 'options' : path.slice(0, -1));
}
