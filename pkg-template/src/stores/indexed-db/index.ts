/** Conversations in IndexedDB, for the tabs of one origin. */

import { RoundtableError } from '../../errors.js';
import type { Batch, Claim, ConversationStore, StoredRecord } from '../../store-types.js';
import { checkId, storedBatch, natural, nowOf, positive, refused } from '../shared.js';
import { pageOf } from './listing.js';
import { ClaimLocks } from './locks.js';
import {
  ALL,
  type Database,
  openDatabase,
  type StoredBatch,
  type StoredConversation,
  type Transaction,
} from './schema.js';

export interface IndexedDbStoreOptions {
  /** The database; tabs of one origin that name the same one share it. */
  name: string;
  /** By whose time claims expire where the page has no Web Locks. Default: the machine's. */
  clock?: { now(): number };
}

export interface IndexedDbStore extends ConversationStore {
  watch(conversationId: string, changed: () => void): () => void;
  /** Frees the claims of this handle and lets go of the database. Later calls are refused as `unavailable`. */
  close(): Promise<void>;
}

/** How often a call decides anew because another tab claimed meanwhile, before it says so. */
const ATTEMPTS = 100;

/**
 * Keeps conversations in an IndexedDB database, durable before they are acknowledged. A claim holds a Web
 * Lock: a tab that is closed or killed frees it at once, and one that is throttled keeps it. A claim is
 * renewed and released by the handle that took it.
 */
export function indexedDbStore(options: IndexedDbStoreOptions): IndexedDbStore {
  const { name, clock } = options;
  if (typeof name !== 'string' || name === '') {
    throw new RoundtableError('invalid-config', 'name must be that of a database');
  }
  return new IndexedDbConversations(name, nowOf(clock));
}

class IndexedDbConversations implements IndexedDbStore {
  readonly durability = 'durable';
  readonly identity: string;
  readonly #name: string;
  readonly #now: () => number;
  readonly #locks: ClaimLocks;
  readonly #watchers = new Map<string, Set<() => void>>();
  #channel: BroadcastChannel | undefined;
  #database: Promise<Database> | undefined;
  #isClosed = false;

  constructor(name: string, now: () => number) {
    this.#name = name;
    this.identity = `indexeddb:${name}`;
    this.#now = now;
    this.#locks = new ClaimLocks(name);
  }

  async create(record: Parameters<ConversationStore['create']>[0]): Promise<{ revision: 1 }> {
    const { conversationId, kind, schemaVersion, summary } = record;
    checkId(conversationId, 'conversationId');
    const base = { conversationId, kind, schemaVersion, summary: copy(summary), claim: null, snapshotRevision: null };
    const batch = { conversationId, revision: 1, operationId: 'create', entries: [...record.entries] };
    await this.#writing(async (transaction) => {
      const conversations = transaction.objectStore('conversations');
      if ((await conversations.getKey(conversationId)) !== undefined) {
        throw refused('conflict', conversationId, 'exists');
      }
      await conversations.add({ ...base, revision: 1, first: 1, fence: 0 });
      await transaction.objectStore('batches').add(batch);
    });
    this.#tell(conversationId);
    return { revision: 1 };
  }

  async load(conversationId: string): Promise<StoredRecord | undefined> {
    return this.#reading(async (transaction) => {
      const found = await find(transaction, conversationId);
      if (found === undefined) return undefined;
      const { kind, schemaVersion, revision, summary, snapshotRevision: at } = found;
      const batches = await batchesOf(transaction, conversationId, (at ?? 0) + 1, revision);
      const record = { conversationId, kind, schemaVersion, revision, summary, batches };
      if (at === null) return record;
      const snapshot = await transaction.objectStore('snapshots').get(conversationId);
      if (snapshot === undefined) throw damaged(conversationId);
      return { ...record, snapshot: { revision: at, state: snapshot.state } };
    });
  }

  async read(
    conversationId: string,
    { after, limit }: { after: number; limit?: number },
  ): Promise<{ revision: number; batches: readonly Batch[] } | undefined> {
    const from = natural(after, 'after') + 1;
    const size = limit === undefined ? Number.MAX_SAFE_INTEGER : positive(limit, 'limit');
    return this.#reading(async (transaction) => {
      const found = await find(transaction, conversationId);
      if (found === undefined) return undefined;
      const { revision, first } = found;
      if (from < first) throw refused('not-found', conversationId, `has no batches before revision ${first} any more`);
      const to = Math.min(revision, from + size - 1);
      return { revision, batches: await batchesOf(transaction, conversationId, from, to) };
    });
  }

  async claim(conversationId: string, ownerId: string, leaseMs: number): Promise<Claim> {
    const lease = positive(leaseMs, 'leaseMs');
    checkId(ownerId, 'ownerId');
    const free = await this.#guarded(() => this.#locks.take(conversationId));
    if (free === undefined) {
      await this.#reading((transaction) => get(transaction, conversationId));
      throw refused('busy', conversationId, 'is claimed by another owner');
    }
    try {
      const claim = await this.#writing(async (transaction) => {
        const found = await get(transaction, conversationId);
        // With locks, whoever had it has ended: the lock was free.
        if (!this.#locks.areThere && this.#isUnexpired(found)) {
          throw refused('busy', conversationId, 'is claimed by another owner');
        }
        const [fence, expiresAt] = [found.fence + 1, this.#now() + lease];
        await transaction.objectStore('conversations').put({ ...found, fence, claim: { ownerId, expiresAt } });
        return { conversationId, ownerId, fence, expiresAt };
      });
      this.#locks.keep(conversationId, claim.fence, free, lease);
      return claim;
    } catch (error) {
      free();
      throw error;
    }
  }

  async renew(claim: Claim, leaseMs: number): Promise<Claim> {
    const lease = positive(leaseMs, 'leaseMs');
    const { conversationId, ownerId, fence } = claim;
    const isHeld = this.#locks.prolong(conversationId, fence, lease);
    return this.#writing(async (transaction) => {
      const found = await get(transaction, conversationId);
      this.#mustHold(found, claim, isHeld);
      const expiresAt = this.#now() + lease;
      await transaction.objectStore('conversations').put({ ...found, claim: { ownerId, expiresAt } });
      return { conversationId, ownerId, fence, expiresAt };
    });
  }

  async release(claim: Claim): Promise<void> {
    const { conversationId, fence, ownerId } = claim;
    let isSame = false;
    try {
      await this.#writing(async (transaction) => {
        const found = await find(transaction, conversationId);
        isSame = found === undefined || (found.fence === fence && found.claim?.ownerId === ownerId);
        if (found !== undefined && isSame) {
          await transaction.objectStore('conversations').put({ ...found, claim: null });
        }
      });
    } finally {
      if (isSame) this.#locks.drop(conversationId, fence);
    }
  }

  async append(batch: Parameters<ConversationStore['append']>[0]): Promise<{ revision: number }> {
    const { conversationId, claim, expectedRevision, operationId, snapshot } = batch;
    checkId(operationId, 'operationId');
    const entries = [...batch.entries];
    const summary = copy(batch.summary);
    const receipt = await this.#deciding(conversationId, claim, async (transaction, isHeld) => {
      const found = await get(transaction, conversationId);
      const batches = transaction.objectStore('batches');
      const before = await batches.index('operations').getKey([conversationId, operationId]);
      if (before !== undefined) return { revision: before[1], isNew: false };
      if (claim !== undefined) this.#mustHold(found, claim, isHeld);
      else if (isHeld) throw refused('busy', conversationId, 'is claimed');
      if (expectedRevision !== found.revision) {
        throw refused('conflict', conversationId, `is at revision ${found.revision}, not ${expectedRevision}`);
      }
      const revision = found.revision + 1;
      const snapshotRevision = snapshot === undefined ? found.snapshotRevision : revision;
      const added = batches.add({ conversationId, revision, operationId, entries });
      if (snapshot !== undefined) await transaction.objectStore('snapshots').put({ conversationId, state: snapshot });
      await transaction.objectStore('conversations').put({ ...found, revision, summary, snapshotRevision });
      await added;
      return { revision, isNew: true };
    });
    if (receipt.isNew) this.#tell(conversationId);
    return { revision: receipt.revision };
  }

  async list(query: Parameters<ConversationStore['list']>[0] = {}): ReturnType<ConversationStore['list']> {
    return this.#reading(pageOf(query));
  }

  async compact(conversationId: string, beforeRevision: number): Promise<void> {
    positive(beforeRevision, 'beforeRevision');
    await this.#writing(async (transaction) => {
      const found = await get(transaction, conversationId);
      if (beforeRevision > (found.snapshotRevision ?? 0) + 1) {
        throw refused('conflict', conversationId, `has no snapshot that covers revision ${beforeRevision - 1}`);
      }
      if (beforeRevision <= found.first) return;
      await transaction.objectStore('conversations').put({ ...found, first: beforeRevision });
      const range = IDBKeyRange.bound([conversationId, found.first], [conversationId, beforeRevision], false, true);
      const batches = transaction.objectStore('batches');
      for (let at = await batches.openCursor(range); at !== null; at = await at.continue()) {
        const { revision, operationId } = at.value;
        await at.update({ conversationId, revision, operationId });
      }
    });
  }

  async delete(conversationId: string): Promise<void> {
    const isDeleted = await this.#deciding(conversationId, undefined, async (transaction, isHeld) => {
      if ((await find(transaction, conversationId)) === undefined) return false;
      if (isHeld) throw refused('busy', conversationId, 'is claimed');
      await transaction.objectStore('conversations').delete(conversationId);
      await transaction.objectStore('snapshots').delete(conversationId);
      await transaction.objectStore('batches').delete(allOf(conversationId));
      return true;
    });
    if (isDeleted) this.#tell(conversationId);
  }

  watch(conversationId: string, changed: () => void): () => void {
    const call = (): void => changed(); // of its own, so that the same function can watch twice
    const watchers = this.#watchers.get(conversationId) ?? new Set();
    this.#watchers.set(conversationId, watchers.add(call));
    this.#listen();
    return () => {
      watchers.delete(call);
      if (watchers.size === 0 && this.#watchers.get(conversationId) === watchers) {
        this.#watchers.delete(conversationId);
      }
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#locks.dropAll();
    this.#watchers.clear();
    this.#channel?.close();
    const opened = this.#database;
    this.#database = undefined;
    (await opened?.catch(() => undefined))?.close();
  }

  #tell(conversationId: string): void {
    for (const call of this.#watchers.get(conversationId) ?? []) call();
    this.#listen()?.postMessage(conversationId);
  }

  #listen(): BroadcastChannel | undefined {
    if (this.#channel !== undefined || this.#isClosed) return this.#isClosed ? undefined : this.#channel;
    this.#channel = new BroadcastChannel(`agent-roundtable/${this.#name}`);
    this.#channel.onmessage = ({ data }) => {
      for (const call of this.#watchers.get(String(data)) ?? []) call();
    };
    return this.#channel;
  }

  /** A write that depends on whether the conversation is claimed. No tab can claim it unnoticed meanwhile. */
  async #deciding<T>(
    conversationId: string,
    claim: Claim | undefined,
    decide: (transaction: Transaction<'readwrite'>, isHeld: boolean) => Promise<T>,
  ): Promise<T> {
    const isOwn = claim !== undefined && this.#locks.isOwn(conversationId, claim.fence);
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      // Asking for locks takes longer than a transaction lives. A claim in between changes the fence.
      const before = isOwn ? undefined : await this.#reading((transaction) => find(transaction, conversationId));
      const isHeld = isOwn || (await this.#isHeld(conversationId, before));
      const result = await this.#writing(async (transaction) => {
        const found = isOwn ? undefined : await find(transaction, conversationId);
        if (!isOwn && found?.fence !== before?.fence) return undefined;
        return { value: await decide(transaction, isHeld) };
      });
      if (result !== undefined) return result.value;
    }
    throw new RoundtableError('unavailable', 'other tabs claim so fast that this one found no gap');
  }

  async #isHeld(conversationId: string, found: StoredConversation | undefined): Promise<boolean> {
    if (!this.#locks.areThere) return found !== undefined && this.#isUnexpired(found);
    return this.#guarded(() => this.#locks.isHeld(conversationId));
  }

  #isUnexpired({ claim }: StoredConversation): boolean {
    return claim !== null && this.#now() < claim.expiresAt;
  }

  #mustHold(found: StoredConversation, { conversationId, fence, ownerId }: Claim, isHeld: boolean): void {
    const isHolding = this.#locks.areThere ? isHeld : this.#isUnexpired(found);
    if (isHolding && found.fence === fence && found.claim?.ownerId === ownerId) return;
    throw refused('stale-claim', conversationId, `is not held under fence ${fence} any more`);
  }

  #reading<T>(read: (transaction: Transaction<'readonly'>) => Promise<T>): Promise<T> {
    return this.#transacting((database) => database.transaction(ALL, 'readonly'), read);
  }

  #writing<T>(write: (transaction: Transaction<'readwrite'>) => Promise<T>): Promise<T> {
    // Without `strict` a commit would be acknowledged before it is on the disk.
    return this.#transacting((database) => database.transaction(ALL, 'readwrite', { durability: 'strict' }), write);
  }

  async #transacting<T, Mode extends IDBTransactionMode>(
    begin: (database: Database) => Transaction<Mode>,
    work: (transaction: Transaction<Mode>) => Promise<T>,
  ): Promise<T> {
    return this.#guarded(async () => {
      const transaction = begin(await this.#opened());
      const done = transaction.done.catch((error: unknown) => ({ error }));
      try {
        const result = await work(transaction);
        const failed = await done;
        if (failed !== undefined) throw failed.error;
        return result;
      } catch (error) {
        try {
          transaction.abort();
        } catch {
          // It has ended by itself.
        }
        await done;
        throw error;
      }
    });
  }

  async #opened(): Promise<Database> {
    if (this.#isClosed) throw new RoundtableError('unavailable', 'the store was closed');
    const opening = this.#database ?? openDatabase(this.#name, () => this.#forget(opening));
    this.#database = opening;
    try {
      return await opening;
    } catch (error) {
      this.#forget(opening);
      throw error;
    }
  }

  /** The next call opens the database again. */
  #forget(opened: Promise<Database>): void {
    if (this.#database === opened) this.#database = undefined;
  }

  async #guarded<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      if (error instanceof RoundtableError) throw error;
      const what = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
      throw new RoundtableError('unavailable', `IndexedDB failed: ${what}`, { cause: error });
    }
  }
}

type AnyTransaction = Pick<Transaction<'readonly'>, 'objectStore'>;

async function find(transaction: unknown, conversationId: string): Promise<StoredConversation | undefined> {
  checkId(conversationId, 'conversationId');
  return (transaction as AnyTransaction).objectStore('conversations').get(conversationId);
}

async function get(transaction: unknown, conversationId: string): Promise<StoredConversation> {
  const found = await find(transaction, conversationId);
  if (found === undefined) throw refused('not-found', conversationId, 'does not exist');
  return found;
}

async function batchesOf(
  transaction: Transaction<'readonly'>,
  conversationId: string,
  from: number,
  to: number,
): Promise<Batch[]> {
  if (to < from) return [];
  const range = IDBKeyRange.bound([conversationId, from], [conversationId, to]);
  const found: StoredBatch[] = await transaction.objectStore('batches').getAll(range);
  if (found.length !== to - from + 1) throw damaged(conversationId);
  return found.map(({ revision, operationId, entries }) => {
    if (entries === undefined) throw damaged(conversationId);
    return storedBatch(revision, operationId, entries);
  });
}

function allOf(conversationId: string): IDBKeyRange {
  return IDBKeyRange.bound([conversationId], [conversationId, []]);
}

function damaged(conversationId: string): RoundtableError {
  const which = JSON.stringify(conversationId);
  return new RoundtableError('invalid-record', `batches of the conversation ${which} are missing in the database`);
}

function copy(summary: StoredConversation['summary']): StoredConversation['summary'] {
  return { ...summary, members: [...summary.members] };
}
