/** What stores have in common: arguments at the door, refusals, the order of listings. */

import { instant } from '../conversation/clock.js';
import { RoundtableError } from '../errors.js';
import type { Batch, Claim, RecordSummary } from '../store-types.js';
import { BadValue, describe, identifier } from '../values.js';

/** How many items a page of a listing has where the query says nothing. */
export const PAGE = 100;

/** A batch that nobody changes afterwards. */
export function frozenBatch(revision: number, operationId: string, entries: readonly string[]): Batch {
  return Object.freeze({ revision, operationId, entries: Object.freeze([...entries]) });
}

/** The same of what a database holds. @throws `invalid-record` for entries that no store was given */
export function storedBatch(revision: number, operationId: string, entries: readonly string[]): Batch {
  if (!Array.isArray(entries) || entries.some((entry) => typeof entry !== 'string'))
    throw new RoundtableError('invalid-record', `the store's batch ${revision} is damaged`);
  return frozenBatch(revision, operationId, entries);
}

/** A summary that is the caller's own, or one that nobody can change. */
export function copySummary(summary: RecordSummary): RecordSummary {
  if (Object.isFrozen(summary) && Object.isFrozen(summary.members)) return summary;
  return { ...summary, members: [...summary.members] };
}

/** Whether two claims are the same one, whenever it was renewed. */
export function isSame(a: Claim, b: Claim): boolean {
  return a.fence === b.fence && a.ownerId === b.ownerId;
}

/** A place in a listing: newest `createdAt` first, then by id in the order of UTF-16 units. */
export type Key = readonly [createdAt: string, conversationId: string];

export function newestFirst(a: Key, b: Key): number {
  if (a[0] !== b[0]) return a[0] > b[0] ? -1 : 1;
  if (a[1] === b[1]) return 0;
  return a[1] < b[1] ? -1 : 1;
}

/** The place after which a page begins. */
export function readCursor(cursor: string): Key {
  try {
    const key: unknown = JSON.parse(cursor);
    if (Array.isArray(key) && key.length === 2 && key.every((part) => typeof part === 'string')) {
      return [key[0] as string, key[1] as string];
    }
  } catch {
    // Refused below, like any other text that no listing gave.
  }
  throw new RoundtableError('invalid-config', 'cursor must be one that a listing gave');
}

export function positive(value: number, name: string): number {
  if (value > 0) return natural(value, name);
  throw new RoundtableError('invalid-config', `${name} must be a positive safe integer, not ${describe(value)}`);
}

export function natural(value: number, name: string): number {
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new RoundtableError('invalid-config', `${name} must be a safe integer, not ${describe(value)}`);
}

/** The `now` of an optional clock; the environment's where there is none. It refuses what is no instant. */
export function nowOf(clock: { now(): number } | undefined): () => number {
  if (clock === undefined) return Date.now;
  if (typeof clock.now === 'function') return () => configured(() => instant(clock));
  throw new RoundtableError('invalid-config', 'clock.now must be a function');
}

/** Refuses ids that are no ids. */
export function checkId(value: string, name: string): string {
  return configured(() => identifier(value, name));
}

function configured<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof BadValue ? new RoundtableError('invalid-config', error.message) : error;
  }
}

/** A refusal that says that nothing was written. */
export function refused(
  code: 'conflict' | 'busy' | 'stale-claim' | 'not-found',
  id: string,
  what: string,
): RoundtableError {
  return new RoundtableError(code, `the conversation ${JSON.stringify(id)} ${what}`);
}
