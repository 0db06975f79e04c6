/** Records and batches that rules write. */

import type { Batch, Claim, ConversationStore, RecordSummary } from '../../store-types.js';
import { holds } from './checks.js';

type Created = Parameters<ConversationStore['create']>[0];
type Appended = Parameters<ConversationStore['append']>[0];

/** Long enough that no rule outlives it. */
export const LONG = 600_000;
/** More than any rule lists. */
const MANY = 10_000;
/** Short enough to wait for. */
export const SHORT = 400;

export function summary(extra: Partial<RecordSummary> = {}): RecordSummary {
  return {
    status: 'open',
    members: ['a', 'b'],
    createdAt: '2027-01-01T00:00:00.000Z',
    updatedAt: '2027-01-01T00:00:00.000Z',
    ...extra,
  };
}

export function record(conversationId: string, extra: Partial<Created> = {}): Created {
  return { conversationId, kind: 'roundtable', schemaVersion: 1, entries: ['{"one":1}'], summary: summary(), ...extra };
}

/** A batch for `c`. */
export function batch(
  claim: Claim | undefined,
  expectedRevision: number,
  operationId: string,
  extra: Partial<Appended> = {},
): Appended {
  return {
    conversationId: 'c',
    ...(claim === undefined ? {} : { claim }),
    expectedRevision,
    operationId,
    entries: [`{"${operationId}":1}`],
    summary: summary({ status: 'waiting', updatedAt: '2027-01-01T00:00:01.000Z' }),
    ...extra,
  };
}

/** Creates `c` with batches up to a revision, and a snapshot at another. */
export async function written(store: ConversationStore, until: number, snapshotAt?: number): Promise<void> {
  await store.create(record('c'));
  for (let revision = 2; revision <= until; revision++) {
    const snapshot = revision === snapshotAt ? { snapshot: `state at ${revision}` } : {};
    await store.append(batch(undefined, revision - 1, `x${revision}`, snapshot));
  }
}

export function revisions(found: { batches: readonly Batch[] } | undefined): number[] | undefined {
  return found?.batches.map((one) => one.revision);
}

/** Every batch after a revision, in pages. */
export async function readAll(
  store: ConversationStore,
  conversationId: string,
  limit: number,
  from = 0,
): Promise<Batch[]> {
  const all: Batch[] = [];
  for (;;) {
    const page = await store.read(conversationId, { after: from + all.length, limit });
    if (page === undefined || page.batches.length === 0) return all;
    all.push(...page.batches);
    holds(from + all.length <= page.revision, 'read gives no more batches than there are revisions');
  }
}

/** Every id of a listing, in pages. */
export async function listAll(
  store: ConversationStore,
  query: Parameters<ConversationStore['list']>[0],
  between?: () => Promise<unknown>,
): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await store.list({ ...query, ...(cursor === undefined ? {} : { cursor }) });
    ids.push(...page.items.map((item) => item.conversationId));
    cursor = page.nextCursor;
    holds(ids.length < MANY, 'a listing comes to an end');
    await between?.();
  } while (cursor !== undefined);
  return ids;
}
