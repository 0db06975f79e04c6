/** A new conversation that goes on from a revision of another. */

import { checked } from '../conversation/engine-handle.js';
import { readClock } from '../conversation/clock.js';
import { RoundtableError } from '../errors.js';
import type { ConversationStore, RecordSummary } from '../store-types.js';
import type { Clock } from '../types.js';
import { BadValue, exactly, identifier, isFunction } from '../values.js';
import { fromStore, positiveRevision, readSource, StoredJournal } from './stored-journal.js';

/** What {@link forkRoundtable} takes. */
export interface ForkOptions {
  store: ConversationStore;
  conversationId: string;
  /** Default: the last revision that has no open group. */
  atRevision?: number;
  newConversationId: string;
  /** For the time that the fork is made at; default: the environment's. */
  clock?: Clock;
}

/**
 * Makes a conversation that begins with the messages, turns, private states and cursors that another had at a
 * revision, and goes on by itself: load it like any other. Its participants are opened with `forkedFrom`.
 * Requests, answers and the ledger stay behind, counters start at zero, and a fork of a conversation that has
 * ended is open. The origin is read, not claimed, and not changed.
 * @throws RoundtableError `conflict` where a group is open at `atRevision`, the new id exists, or the copy is
 *   longer than 32 Mi UTF-16 units; `not-found`, `invalid-record`, `invalid-config`, the store's own, or
 *   `unavailable`
 */
export async function forkRoundtable(options: ForkOptions): Promise<{ conversationId: string; revision: number }> {
  const { store, conversationId, atRevision, newConversationId, now } = checked(() => readOptions(options));
  const journal = await upTo(store, conversationId, atRevision);
  let entries: readonly string[];
  const at = new Date(now()).toISOString();
  try {
    entries = JSON.parse(journal.read((reader) => reader.fork(newConversationId, at))) as string[];
  } finally {
    journal.close();
  }
  const created = JSON.parse(entries[0] ?? '') as { 'created/1': { participants: { id: string }[] } };
  const members = created['created/1'].participants.map(({ id }) => id);
  const summary: RecordSummary = { status: 'open', members, createdAt: at, updatedAt: at };
  const record = { conversationId: newConversationId, kind: 'roundtable', schemaVersion: 1, entries, summary } as const;
  try {
    await fromStore(newConversationId, () => store.create(record));
  } catch (error) {
    if (!(error instanceof RoundtableError) || error.code !== 'unavailable') throw error;
    // The acknowledgement may have been lost, and no more than that.
    if (!(await isWritten(store, newConversationId, entries))) throw error;
  }
  return { conversationId: newConversationId, revision: 1 };
}

function readOptions(options: unknown) {
  const required = ['store', 'conversationId', 'newConversationId'];
  const given = exactly(options, 'options', required, ['atRevision', 'clock']);
  const source = readSource(given);
  if (!isFunction(source.store.create)) throw new BadValue('store', 'must be a ConversationStore');
  const newConversationId = identifier(given.get('newConversationId'), 'newConversationId');
  if (newConversationId === source.conversationId) {
    throw new BadValue('newConversationId', 'is the id of the origin', 'conflict');
  }
  const at = given.get('atRevision');
  const clock = readClock(given.get('clock'));
  return {
    ...source,
    atRevision: at === undefined ? undefined : positiveRevision(at, 'atRevision'),
    newConversationId,
    now: clock === undefined ? Date.now : () => clock.now(),
  };
}

/** The journal up to a revision, or to the last that has no open group. */
async function upTo(store: ConversationStore, conversationId: string, at: number | undefined): Promise<StoredJournal> {
  const journal = await StoredJournal.upTo(store, conversationId, at);
  const [revision, rest] = journal.read((reader) => [reader.revision(), reader.rest()] as const);
  if (at !== undefined || rest === revision) return journal;
  journal.close();
  if (rest === 0) {
    const what = 'has no revision without an open group any more';
    throw new RoundtableError('not-found', `the conversation ${JSON.stringify(conversationId)} ${what}`);
  }
  return StoredJournal.upTo(store, conversationId, rest);
}

async function isWritten(store: ConversationStore, conversationId: string, entries: readonly string[]) {
  try {
    const found = await store.read(conversationId, { after: 0, limit: 1 });
    return JSON.stringify(found?.batches[0]?.entries) === JSON.stringify(entries);
  } catch {
    return false;
  }
}
