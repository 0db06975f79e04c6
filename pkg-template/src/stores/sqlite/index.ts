/** Conversations in an SQLite database, for the processes of one machine. */

import { statSync } from 'node:fs';
import { resolve } from 'node:path';
import { RoundtableError } from '../../errors.js';
import type { Batch, Claim, ConversationStore, RecordSummary, StoredRecord } from '../../store-types.js';
import {
  checkId,
  storedBatch,
  isSame,
  type Key,
  natural,
  nowOf,
  PAGE,
  positive,
  readCursor,
  refused,
} from '../shared.js';
import { type Database, openDatabase, type SqlValue, type Statement } from './driver.js';
import { setUp } from './schema.js';

export interface SqliteStoreOptions {
  /** The database file; made where it is missing. `:memory:` is refused, since nothing of it would last. */
  path: string;
  /** How long a call waits for other processes that write, in milliseconds. Default 10,000. */
  busyTimeoutMs?: number;
  /** By whose time claims expire. Default: the machine's. */
  clock?: { now(): number };
}

/** The store, and a way to let go of its file. */
export interface SqliteStore extends ConversationStore {
  /** Closes the database when the calls so far are done. Later ones are refused as `unavailable`. */
  close(): Promise<void>;
}

/**
 * Keeps conversations in one SQLite database (WAL, synchronised at every commit). Any number of
 * processes of one machine share it. Uses `node:sqlite`, or `better-sqlite3` where Node has none.
 */
export function sqliteStore(options: SqliteStoreOptions): SqliteStore {
  const { path, clock, busyTimeoutMs = 10_000 } = options;
  if (typeof path !== 'string' || path === '' || path === ':memory:') {
    throw new RoundtableError('invalid-config', 'path must be that of a file');
  }
  return new SqliteConversations(resolve(path), nowOf(clock), positive(busyTimeoutMs, 'busyTimeoutMs'));
}

interface Row {
  readonly number: number;
  readonly conversation_id: string;
  readonly kind: string;
  readonly schema_version: number;
  readonly revision: number;
  readonly first_revision: number;
  readonly members: string;
  readonly summary: string;
  readonly created_at: string;
  readonly fence: number;
  readonly owner: string | null;
  readonly expires_at: number | null;
  readonly snapshot_revision: number | null;
}

class SqliteConversations implements SqliteStore {
  readonly durability = 'durable';
  readonly identity: string;
  readonly #path: string;
  readonly #now: () => number;
  readonly #patience: number;
  readonly #statements = new Map<string, Statement>();
  /** The database, once a call needed it. */
  #open: Database | undefined;
  /** The file that it was opened in. */
  #file: string | undefined;
  #isClosed = false;
  /** The last call: the next one waits for it. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(path: string, now: () => number, patience: number) {
    this.#path = path;
    this.identity = `sqlite:${path}`;
    this.#now = now;
    this.#patience = patience;
  }

  async create(record: Parameters<ConversationStore['create']>[0]): Promise<{ revision: 1 }> {
    const { conversationId, kind, schemaVersion, summary } = record;
    const id = keyOf(conversationId);
    const entries = JSON.stringify(record.entries);
    const kept = JSON.stringify(summary);
    const members = JSON.stringify(summary.members);
    const { createdAt, status } = summary;
    return this.#transaction(() => {
      if (this.#find(conversationId) !== undefined) throw refused('conflict', conversationId, 'exists');
      this.#statement(
        `INSERT INTO conversations (id, conversation_id, kind, schema_version, revision, first_revision, created_at,
           status, members, summary, fence) VALUES (?, ?, ?, ?, 1, 1, ?, ?, ?, ?, 0)`,
      ).run(id, coded(conversationId), kind, schemaVersion, coded(createdAt), status, members, kept);
      const { number } = this.#get(conversationId);
      this.#addBatch(number, 1, 'create', entries);
      this.#setMembers(number, summary.members);
      return { revision: 1 };
    });
  }

  async load(conversationId: string): Promise<StoredRecord | undefined> {
    return this.#reading(() => {
      const row = this.#find(conversationId);
      if (row === undefined) return undefined;
      const { kind, schema_version: schemaVersion, revision, snapshot_revision: at } = row;
      const summary = decoded<RecordSummary>(row.summary);
      const batches = this.#batches(row.number, (at ?? 0) + 1, revision);
      const found = { conversationId, kind, schemaVersion, revision, summary, batches };
      if (at === null) return found;
      const latest = this.#statement('SELECT state FROM snapshots WHERE conversation = ?').get(row.number);
      if (latest === undefined) throw new RoundtableError('invalid-record', 'a snapshot is missing in the database');
      return { ...found, snapshot: { revision: at, state: decoded<string>((latest as { state: string }).state) } };
    });
  }

  async read(
    conversationId: string,
    { after, limit }: { after: number; limit?: number },
  ): Promise<{ revision: number; batches: readonly Batch[] } | undefined> {
    const from = natural(after, 'after') + 1;
    const size = limit === undefined ? Number.MAX_SAFE_INTEGER : positive(limit, 'limit');
    return this.#reading(() => {
      const row = this.#find(conversationId);
      if (row === undefined) return undefined;
      const { number, revision, first_revision: first } = row;
      if (from < first) throw refused('not-found', conversationId, `has no batches before revision ${first} any more`);
      return { revision, batches: this.#batches(number, from, Math.min(revision, from + size - 1)) };
    });
  }

  async claim(conversationId: string, ownerId: string, leaseMs: number): Promise<Claim> {
    const lease = positive(leaseMs, 'leaseMs');
    checkId(ownerId, 'ownerId');
    return this.#transaction(() => {
      const row = this.#get(conversationId);
      if (this.#holder(row) !== undefined) throw refused('busy', conversationId, 'is claimed by another owner');
      return this.#hold(row, { conversationId, ownerId, fence: row.fence + 1, expiresAt: this.#until(lease) });
    });
  }

  async renew(claim: Claim, leaseMs: number): Promise<Claim> {
    const lease = positive(leaseMs, 'leaseMs');
    return this.#transaction(() => {
      const row = this.#get(claim.conversationId);
      const held = this.#mustHold(row, claim);
      return this.#hold(row, { ...held, expiresAt: this.#until(lease) });
    });
  }

  async release({ conversationId, ownerId, fence }: Claim): Promise<void> {
    const id = keyOf(conversationId);
    await this.#transaction(() => {
      this.#statement(
        'UPDATE conversations SET owner = NULL, expires_at = NULL WHERE id = ? AND fence = ? AND owner = ?',
      ).run(id, fence, coded(ownerId));
    });
  }

  async append(batch: Parameters<ConversationStore['append']>[0]): Promise<{ revision: number }> {
    const { conversationId, claim, expectedRevision, operationId, summary, snapshot } = batch;
    const operation = coded(checkId(operationId, 'operationId'));
    const entries = JSON.stringify(batch.entries);
    const kept = JSON.stringify(summary);
    const members = [...summary.members];
    const { createdAt, status } = summary;
    return this.#transaction(() => {
      const row = this.#get(conversationId);
      const { number, revision: last } = row;
      const receipt = this.#statement('SELECT revision FROM batches WHERE conversation = ? AND operation = ?');
      const before = receipt.get(number, operation) as { revision: number } | undefined;
      if (before !== undefined) return { revision: before.revision };
      if (claim !== undefined) this.#mustHold(row, claim);
      else if (this.#holder(row) !== undefined) throw refused('busy', conversationId, 'is claimed');
      if (expectedRevision !== last) {
        throw refused('conflict', conversationId, `is at revision ${last}, not ${expectedRevision}`);
      }
      const revision = last + 1;
      this.#addBatch(number, revision, operationId, entries);
      const listed = JSON.stringify(members);
      this.#statement(
        'UPDATE conversations SET revision = ?, status = ?, members = ?, summary = ? WHERE number = ?',
      ).run(revision, status, listed, kept, number);
      // Apart, since naming it writes its index, even where it stays what it was.
      if (coded(createdAt) !== row.created_at) {
        this.#statement('UPDATE conversations SET created_at = ? WHERE number = ?').run(coded(createdAt), number);
      }
      if (listed !== row.members) this.#setMembers(number, members);
      if (snapshot !== undefined) this.#setSnapshot(number, revision, snapshot);
      return { revision };
    });
  }

  async list(query: Parameters<ConversationStore['list']>[0] = {}): ReturnType<ConversationStore['list']> {
    const { kind, status, member, cursor, limit } = query;
    const size = limit === undefined ? PAGE : positive(limit, 'limit');
    const conditions = ['TRUE'];
    const values: SqlValue[] = [];
    const where = (condition: string, ...given: SqlValue[]): void => {
      conditions.push(condition);
      values.push(...given);
    };
    if (kind !== undefined) where('kind = ?', kind);
    if (status !== undefined) where('status = ?', status);
    if (member !== undefined) where('number IN (SELECT conversation FROM members WHERE member = ?)', coded(member));
    if (cursor !== undefined) {
      const [createdAt, id] = readCursor(cursor);
      where('(created_at < ? OR (created_at = ? AND id > ?))', coded(createdAt), coded(createdAt), keyOf(id));
    }
    return this.#reading(() => {
      const sql = `SELECT * FROM conversations WHERE ${conditions.join(' AND ')} ORDER BY created_at DESC, id LIMIT ?`;
      const rows = this.#statement(sql).all(...values, Math.min(size + 1, Number.MAX_SAFE_INTEGER)) as Row[];
      const items = rows.slice(0, size).map(({ conversation_id: id, kind: of, revision, summary }) => {
        const conversationId = decoded<string>(id);
        return { conversationId, kind: of, revision, summary: decoded<RecordSummary>(summary) };
      });
      const last = items.at(-1);
      if (last === undefined || rows.length <= size) return { items };
      const key: Key = [last.summary.createdAt, last.conversationId];
      return { items, nextCursor: JSON.stringify(key) };
    });
  }

  async compact(conversationId: string, beforeRevision: number): Promise<void> {
    positive(beforeRevision, 'beforeRevision');
    await this.#transaction(() => {
      const { number, first_revision: first, snapshot_revision: at } = this.#get(conversationId);
      if (beforeRevision > (at ?? 0) + 1) {
        throw refused('conflict', conversationId, `has no snapshot that covers revision ${beforeRevision - 1}`);
      }
      if (beforeRevision <= first) return;
      this.#statement(
        'UPDATE batches SET entries = NULL WHERE conversation = ? AND revision >= ? AND revision < ?',
      ).run(number, first, beforeRevision);
      this.#statement('UPDATE conversations SET first_revision = ? WHERE number = ?').run(beforeRevision, number);
    });
  }

  async delete(conversationId: string): Promise<void> {
    await this.#transaction(() => {
      const row = this.#find(conversationId);
      if (row === undefined) return;
      if (this.#holder(row) !== undefined) throw refused('busy', conversationId, 'is claimed');
      this.#statement('DELETE FROM conversations WHERE number = ?').run(row.number);
    });
  }

  async close(): Promise<void> {
    await this.#next(() => {
      this.#isClosed = true;
      this.#leave();
    });
  }

  #leave(): void {
    const open = this.#open;
    this.#open = undefined;
    this.#statements.clear();
    open?.close();
  }

  #find(conversationId: string): Row | undefined {
    const found = this.#statement('SELECT * FROM conversations WHERE id = ?').get(keyOf(conversationId));
    return found as Row | undefined;
  }

  #get(conversationId: string): Row {
    const row = this.#find(conversationId);
    if (row === undefined) throw refused('not-found', conversationId, 'does not exist');
    return row;
  }

  #batches(number: number, from: number, to: number): Batch[] {
    const rows = this.#statement(
      'SELECT revision, operation, entries FROM batches WHERE conversation = ? AND revision BETWEEN ? AND ? ORDER BY revision',
    ).all(number, from, to) as { revision: number; operation: string; entries: string }[];
    return rows.map(({ revision, operation, entries }) =>
      storedBatch(revision, decoded<string>(operation), decoded<string[]>(entries)),
    );
  }

  #addBatch(number: number, revision: number, operationId: string, entries: string): void {
    this.#statement('INSERT INTO batches (conversation, revision, operation, entries) VALUES (?, ?, ?, ?)').run(
      number,
      revision,
      coded(operationId),
      entries,
    );
  }

  #setMembers(number: number, members: readonly string[]): void {
    this.#statement('DELETE FROM members WHERE conversation = ?').run(number);
    const add = this.#statement('INSERT INTO members (member, conversation) VALUES (?, ?)');
    for (const member of new Set(members)) add.run(coded(member), number);
  }

  #setSnapshot(number: number, revision: number, state: string): void {
    this.#statement('INSERT OR REPLACE INTO snapshots (conversation, state) VALUES (?, ?)').run(number, coded(state));
    this.#statement('UPDATE conversations SET snapshot_revision = ? WHERE number = ?').run(revision, number);
  }

  #until(leaseMs: number): number {
    return Math.min(this.#now() + leaseMs, Number.MAX_SAFE_INTEGER);
  }

  #hold({ number }: Row, claim: Claim): Claim {
    this.#statement('UPDATE conversations SET fence = ?, owner = ?, expires_at = ? WHERE number = ?').run(
      claim.fence,
      coded(claim.ownerId),
      claim.expiresAt,
      number,
    );
    return claim;
  }

  #holder({ conversation_id: id, owner, fence, expires_at: expiresAt }: Row): Claim | undefined {
    if (owner === null || expiresAt === null || this.#now() >= expiresAt) return undefined;
    return { conversationId: decoded<string>(id), ownerId: decoded<string>(owner), fence, expiresAt };
  }

  #mustHold(row: Row, claim: Claim): Claim {
    const holder = this.#holder(row);
    if (holder !== undefined && isSame(holder, claim)) return holder;
    throw refused('stale-claim', claim.conversationId, `is not held under fence ${claim.fence} any more`);
  }

  #statement(sql: string): Statement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    if (this.#open === undefined) throw new Error('the database is not open');
    const prepared = this.#open.prepare(sql);
    this.#statements.set(sql, prepared);
    return prepared;
  }

  /** One view for all that is read. */
  #reading<T>(call: () => T): Promise<T> {
    return this.#call(() => this.#within('BEGIN', call));
  }

  #transaction<T>(call: () => T): Promise<T> {
    return this.#call(() => this.#within('BEGIN IMMEDIATE', call));
  }

  #within<T>(begin: string, call: () => T): T {
    this.#open?.exec(begin);
    try {
      const result = call();
      this.#open?.exec('COMMIT');
      return result;
    } catch (error) {
      try {
        this.#open?.exec('ROLLBACK');
      } catch {
        // Some errors, such as a full disk, have rolled back already.
      }
      throw error;
    }
  }

  /** A call on the database, tried again while others write. */
  #call<T>(attempt: () => T): Promise<T> {
    return this.#next(async () => {
      const until = performance.now() + this.#patience;
      for (let pause = 1; ; pause = Math.min(pause * 2, 25)) {
        try {
          if (this.#isClosed) throw new RoundtableError('unavailable', 'the store was closed');
          // What is written to a file that was removed or replaced, nobody finds again.
          if (this.#open !== undefined && fileAt(this.#path) !== this.#file) this.#leave();
          if (this.#open === undefined) {
            this.#open = await opened(this.#path);
            this.#file = fileAt(this.#path);
          }
          return attempt();
        } catch (error) {
          if (!isBusy(error) || performance.now() > until) throw failure(error);
        }
        // Not SQLite's own way to wait, which would stop everything else in this process.
        await new Promise((wake) => setTimeout(wake, pause * Math.random()));
      }
    });
  }

  /** Calls of this handle come one after the other. */
  #next<T>(call: () => T | Promise<T>): Promise<T> {
    const turn = this.#last.then(call);
    this.#last = turn.catch(() => {});
    return turn;
  }
}

/** Tells files apart that were at a path one after the other; `undefined` where there is none. */
function fileAt(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found === undefined ? undefined : `${found.dev} ${found.ino}`;
}

/** Opens the file and makes it ready. */
async function opened(path: string): Promise<Database> {
  const database = await openDatabase(path);
  try {
    database.exec('PRAGMA busy_timeout = 0');
    database.exec('PRAGMA journal_mode = WAL');
    database.exec('PRAGMA synchronous = FULL');
    database.exec('PRAGMA foreign_keys = ON');
    database.exec('BEGIN IMMEDIATE');
    setUp(database);
    database.exec('COMMIT');
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** What a call rejects with: damage is named, of all else the outcome is unknown. */
function failure(error: unknown): RoundtableError {
  if (error instanceof RoundtableError) return error;
  const what = error instanceof Error ? error.message : String(error);
  const isDamaged = isResult(error, 'CORRUPT', 11) || isResult(error, 'NOTADB', 26);
  return new RoundtableError(isDamaged ? 'invalid-record' : 'unavailable', `SQLite failed: ${what}`, { cause: error });
}

function isBusy(error: unknown): boolean {
  return isResult(error, 'BUSY', 5) || isResult(error, 'LOCKED', 6);
}

/** One driver gives results by name, the other by number. */
function isResult(error: unknown, name: string, result: number): boolean {
  if (!(error instanceof Error)) return false;
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  return (
    (typeof code === 'string' && code.startsWith(`SQLITE_${name}`)) ||
    (typeof errcode === 'number' && (errcode & 0xff) === result)
  );
}

/** Text as JSON text: whole, whatever is in it, and equal only where it is equal. */
function coded(text: string): string {
  return JSON.stringify(text);
}

function decoded<T>(text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (error) {
    throw new RoundtableError('invalid-record', 'a value in the database is damaged', { cause: error });
  }
}

/** The UTF-16 units of an id, the higher byte first: in the order of JavaScript's own comparison. */
function keyOf(conversationId: string): Uint8Array {
  return Buffer.from(checkId(conversationId, 'conversationId'), 'utf16le').swap16();
}
