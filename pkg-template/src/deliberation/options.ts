/** Options, at the door. */

import { readClock } from '../conversation/clock.js';
import type { ConversationStore } from '../store-types.js';
import type { Clock } from '../types.js';
import { BadValue, isFunction } from '../values.js';
import { DeliberationError } from './errors.js';
import type { AgentDirectory, DeliberationEvent, DeliberationsOptions, GroupPort, Notifier } from './types.js';

const DAY_MS = 86_400_000;
const STORE = ['create', 'read', 'append', 'list', 'delete'] as const;

/** Options that are in order. */
export interface Settings {
  readonly store: ConversationStore;
  readonly notifier: Notifier;
  readonly groups: GroupPort | undefined;
  readonly directory: AgentDirectory | undefined;
  readonly limits: Readonly<Record<(typeof LIMITS)[number], number>>;
  readonly clock: Clock | undefined;
  readonly seed: string | undefined;
  readonly sweepIntervalMs: number;
  readonly deliveryTimeoutMs: number;
  readonly onEvent: ((event: DeliberationEvent) => void) | undefined;
}

const LIMITS = ['retentionMs', 'maxClosed', 'maxOpenPerFacilitator', 'maxEntriesPerSpeaker', 'maxThreadBytes'] as const;

/** @throws DeliberationError `invalid`, naming the field */
export function readSettings(options: DeliberationsOptions): Settings {
  const given = object(options, 'options') as Partial<DeliberationsOptions>;
  const limits = object(given.limits ?? {}, 'limits');
  const limit = (name: (typeof LIMITS)[number], otherwise: number): number => {
    return integer(limits[name] ?? otherwise, `limits.${name}`, 1);
  };
  for (const name of Object.keys(limits)) {
    if (!(LIMITS as readonly string[]).includes(name)) throw invalid(`limits.${name}`, 'is not a known limit');
  }
  if (given.seed !== undefined && typeof given.seed !== 'string') throw invalid('seed', 'must be a string');
  const most = Number.MAX_SAFE_INTEGER;
  return {
    store: methods(given.store, 'store', STORE),
    notifier: callable(given.notifier, 'notifier'),
    groups: given.groups === undefined ? undefined : methods(given.groups, 'groups', ['put', 'delete']),
    directory: given.directory === undefined ? undefined : methods(given.directory, 'directory', ['has']),
    limits: {
      retentionMs: limit('retentionMs', 7 * DAY_MS),
      maxClosed: limit('maxClosed', 10_000),
      maxOpenPerFacilitator: limit('maxOpenPerFacilitator', most),
      maxEntriesPerSpeaker: limit('maxEntriesPerSpeaker', most),
      maxThreadBytes: limit('maxThreadBytes', most),
    },
    clock: clock(given.clock),
    seed: given.seed,
    sweepIntervalMs: integer(given.sweepIntervalMs ?? 60_000, 'sweepIntervalMs', 0, 2 ** 31 - 1),
    deliveryTimeoutMs: integer(given.deliveryTimeoutMs ?? 30_000, 'deliveryTimeoutMs', 1, 2 ** 31 - 1),
    onEvent: given.onEvent === undefined ? undefined : callable(given.onEvent, 'onEvent').bind(options),
  };
}

function invalid(field: string, problem: string): DeliberationError {
  return new DeliberationError('invalid', `${field} ${problem}`, { reason: 'INVALID_OPTIONS', field });
}

function object(value: unknown, field: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  throw invalid(field, 'must be an object');
}

function callable<T>(value: T | undefined, field: string): T & ((...args: never[]) => unknown) {
  if (isFunction(value)) return value;
  throw invalid(field, 'must be a function');
}

function methods<T>(value: T | undefined, field: string, names: readonly string[]): T {
  const found = object(value, field);
  for (const name of names) callable(found[name], `${field}.${name}`);
  return value as T;
}

function integer(value: unknown, field: string, min: number, max = Number.MAX_SAFE_INTEGER): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw invalid(field, `must be an integer from ${min} to ${max}`);
}

function clock(value: unknown): Clock | undefined {
  try {
    return readClock(value);
  } catch (error) {
    if (!(error instanceof BadValue)) throw error;
    const at = error.message.indexOf(' ');
    throw invalid(error.message.slice(0, at), error.message.slice(at + 1));
  }
}
