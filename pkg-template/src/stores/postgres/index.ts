/** Conversations in PostgreSQL. */

import { placeStore } from '../../conversation/place.js';
import { RoundtableError } from '../../errors.js';
import type { Batch, Claim, ConversationStore, RecordSummary, StoredRecord } from '../../store-types.js';
import { checkId, storedBatch, natural, PAGE, positive, readCursor, refused } from '../shared.js';
import { Listener } from './listener.js';
import { isDuplicate, type PostgresPool, type Row, rowsOf } from './pool.js';
import { setUp } from './schema.js';

export type { PostgresClient, PostgresPool, PostgresResult } from './pool.js';

export interface PostgresStoreOptions {
  /** The host's own pool. The store never ends it. A watcher holds one of its connections. */
  pool: PostgresPool;
  /** Where the tables are: up to 40 lower-case letters, digits and underscores. Default `agent_roundtable`. */
  schema?: string;
}

export interface PostgresStore extends ConversationStore {
  /** Makes the tables, or brings them up to date. Idempotent; called once before anything else. */
  setup(): Promise<void>;
  watch(conversationId: string, changed: () => void): () => void;
}

/** How often a call decides anew because others wrote meanwhile, before it says so. */
const ATTEMPTS = 100;
/** The longest lease that is counted, in milliseconds: some three hundred years. */
const LONGEST_LEASE = 1e13;

const IS_FREE = '(expires_at IS NULL OR expires_at <= clock_timestamp())';
/** What a record is found by: everything but the snapshot, which is long, and wanted by a load alone. */
const COLUMNS = 'number, kind, schema_version, revision, first_revision, summary, snapshot_revision';
const EXPIRES = '(extract(epoch FROM expires_at) * 1000)::float8 AS expires_at';

/**
 * Keeps conversations in PostgreSQL, for any number of hosts. Claims and appends are single statements;
 * leases are counted by the database's clock, so that clocks of hosts do not matter.
 */
export function postgresStore(options: PostgresStoreOptions): PostgresStore {
  const { pool, schema = 'agent_roundtable' } = options;
  if (typeof pool?.query !== 'function' || typeof pool.connect !== 'function') {
    throw new RoundtableError('invalid-config', 'pool must have query and connect');
  }
  if (typeof schema !== 'string' || !/^[a-z_][a-z0-9_]{0,39}$/.test(schema)) {
    throw new RoundtableError('invalid-config', 'schema must be lower-case letters, digits and underscores, up to 40');
  }
  return new PostgresConversations(pool, schema);
}

class PostgresConversations implements PostgresStore {
  readonly durability = 'durable';
  readonly identity: string;
  readonly #pool: PostgresPool;
  readonly #schema: string;
  readonly #channel: string;
  readonly #listener: Listener;

  constructor(pool: PostgresPool, schema: string) {
    this.#pool = pool;
    this.#schema = schema;
    this.#channel = `${schema}_changes`;
    this.#listener = new Listener(pool, this.#channel);
    this.identity = `postgres:${schema}`;
    // Databases of several servers may have schemas of one name.
    placeStore(this, pool, this.identity);
  }

  setup(): Promise<void> {
    return setUp(this.#pool, this.#schema);
  }

  watch(conversationId: string, changed: () => void): () => void {
    return this.#listener.watch(coded(conversationId), changed);
  }

  async create(record: Parameters<ConversationStore['create']>[0]): Promise<{ revision: 1 }> {
    const { conversationId, kind, schemaVersion, entries, summary } = record;
    const { createdAt, status, members } = summary;
    const made = await this.#rows(
      `WITH made AS (
         INSERT INTO %.conversations (id, conversation_id, kind, schema_version, revision, first_revision, created_at,
           status, members, summary, fence)
         VALUES ($1, $2, $3, $4, 1, 1, $5, $6, $7, $8, 0) ON CONFLICT (id) DO NOTHING RETURNING number
       ), first AS (
         INSERT INTO %.batches (conversation, revision, operation, entries) SELECT number, 1, $9, $10 FROM made
       )
       SELECT pg_notify($11, $2) FROM made`,
      [
        ...[keyOf(conversationId), coded(conversationId), kind, schemaVersion, coded(createdAt), status],
        ...[members.map(coded), JSON.stringify(summary), coded('create'), JSON.stringify(entries), this.#channel],
      ],
    );
    if (made.length === 0) throw refused('conflict', conversationId, 'exists');
    return { revision: 1 };
  }

  async load(conversationId: string): Promise<StoredRecord | undefined> {
    const columns = `${COLUMNS}, snapshot`;
    return this.#consistent(conversationId, columns, async (row) => {
      const { number, revision, snapshotRevision: at } = row;
      const batches = await this.#batches(number, (at ?? 0) + 1, revision);
      if (batches === undefined) return undefined;
      const { kind, schemaVersion, summary, snapshot } = row;
      const found = { conversationId, kind, schemaVersion, revision, summary, batches };
      return at === undefined ? found : { ...found, snapshot: { revision: at, state: snapshot ?? '' } };
    });
  }

  async read(
    conversationId: string,
    { after, limit }: { after: number; limit?: number },
  ): Promise<{ revision: number; batches: readonly Batch[] } | undefined> {
    const from = natural(after, 'after') + 1;
    const size = limit === undefined ? Number.MAX_SAFE_INTEGER : positive(limit, 'limit');
    return this.#consistent(conversationId, COLUMNS, async ({ number, revision, firstRevision: first }) => {
      if (from < first) throw refused('not-found', conversationId, `has no batches before revision ${first} any more`);
      const batches = await this.#batches(number, from, Math.min(revision, from + size - 1));
      return batches === undefined ? undefined : { revision, batches };
    });
  }

  async claim(conversationId: string, ownerId: string, leaseMs: number): Promise<Claim> {
    const lease = positive(leaseMs, 'leaseMs');
    const [row] = await this.#rows(
      `UPDATE %.conversations SET fence = fence + 1, owner = $2,
         expires_at = clock_timestamp() + $3::float8 * interval '1 millisecond'
       WHERE id = $1 AND ${IS_FREE} RETURNING fence, ${EXPIRES}`,
      [keyOf(conversationId), coded(checkId(ownerId, 'ownerId')), Math.min(lease, LONGEST_LEASE)],
    );
    if (row !== undefined) return claimOf(conversationId, ownerId, row);
    await this.#mustExist(conversationId);
    throw refused('busy', conversationId, 'is claimed by another owner');
  }

  async renew(claim: Claim, leaseMs: number): Promise<Claim> {
    const lease = positive(leaseMs, 'leaseMs');
    const { conversationId, ownerId, fence } = claim;
    const [row] = await this.#rows(
      `UPDATE %.conversations SET expires_at = clock_timestamp() + $4::float8 * interval '1 millisecond'
       WHERE id = $1 AND owner = $2 AND fence = $3::float8 AND expires_at > clock_timestamp()
       RETURNING fence, ${EXPIRES}`,
      [keyOf(conversationId), coded(ownerId), fence, Math.min(lease, LONGEST_LEASE)],
    );
    if (row !== undefined) return claimOf(conversationId, ownerId, row);
    await this.#mustExist(conversationId);
    throw lost(claim);
  }

  async release({ conversationId, ownerId, fence }: Claim): Promise<void> {
    await this.#rows(
      `UPDATE %.conversations SET owner = NULL, expires_at = NULL
       WHERE id = $1 AND owner = $2 AND fence = $3::float8`,
      [keyOf(conversationId), coded(ownerId), fence],
    );
  }

  async append(batch: Parameters<ConversationStore['append']>[0]): Promise<{ revision: number }> {
    const { conversationId, claim, expectedRevision, operationId, entries, summary, snapshot } = batch;
    const { createdAt, status, members } = summary;
    const values = [
      ...[keyOf(conversationId), expectedRevision, coded(checkId(operationId, 'operationId')), JSON.stringify(entries)],
      ...[claim === undefined ? null : coded(claim.ownerId), claim?.fence ?? null],
      ...[coded(createdAt), status, members.map(coded), JSON.stringify(summary)],
      ...[snapshot === undefined ? null : coded(snapshot), this.#channel, coded(conversationId)],
    ];
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const landed = await this.#land(values);
      if (landed !== undefined) return { revision: landed };
      const receipt = await this.#whyNot(batch);
      if (receipt !== undefined) return { revision: receipt };
    }
    throw tooBusy();
  }

  async list(query: Parameters<ConversationStore['list']>[0] = {}): ReturnType<ConversationStore['list']> {
    const { kind, status, member, cursor, limit } = query;
    const size = limit === undefined ? PAGE : positive(limit, 'limit');
    const values: unknown[] = [];
    const value = (given: unknown): string => `$${values.push(given)}`;
    const conditions = ['true'];
    if (kind !== undefined) conditions.push(`kind = ${value(kind)}`);
    if (status !== undefined) conditions.push(`status = ${value(status)}`);
    if (member !== undefined) conditions.push(`members @> ${value([coded(member)])}::text[]`);
    if (cursor !== undefined) {
      const [createdAt, id] = readCursor(cursor);
      const at = value(coded(createdAt));
      conditions.push(`(created_at < ${at} OR (created_at = ${at} AND id > ${value(keyOf(id))}))`);
    }
    const rows = await this.#rows(
      `SELECT conversation_id, kind, revision, summary FROM %.conversations WHERE ${conditions.join(' AND ')}
       ORDER BY created_at DESC, id LIMIT ${value(Math.min(size, Number.MAX_SAFE_INTEGER - 1) + 1)}`,
      values,
    );
    const items = rows.slice(0, size).map((row) => ({
      conversationId: decoded<string>(row['conversation_id']),
      kind: String(row['kind']),
      revision: Number(row['revision']),
      summary: decoded<RecordSummary>(row['summary']),
    }));
    const last = items.at(-1);
    if (last === undefined || rows.length <= size) return { items };
    return { items, nextCursor: JSON.stringify([last.summary.createdAt, last.conversationId]) };
  }

  async compact(conversationId: string, beforeRevision: number): Promise<void> {
    positive(beforeRevision, 'beforeRevision');
    const row = await this.#find(conversationId, COLUMNS);
    if (row === undefined) throw refused('not-found', conversationId, 'does not exist');
    // A snapshot only ever becomes newer, so that what it covers now it covers later too.
    if (beforeRevision > (row.snapshotRevision ?? 0) + 1) {
      throw refused('conflict', conversationId, `has no snapshot that covers revision ${beforeRevision - 1}`);
    }
    await this.#rows(
      `WITH compacted AS (
         UPDATE %.conversations SET first_revision = $2
         WHERE number = $1 AND first_revision < $2 RETURNING number
       )
       UPDATE %.batches SET entries = NULL FROM compacted
       WHERE conversation = compacted.number AND revision < $2 AND entries IS NOT NULL`,
      [row.number, beforeRevision],
    );
  }

  async delete(conversationId: string): Promise<void> {
    const deleted = await this.#rows(
      `WITH deleted AS (DELETE FROM %.conversations WHERE id = $1 AND ${IS_FREE} RETURNING number)
       SELECT pg_notify($2, $3) FROM deleted`,
      [keyOf(conversationId), this.#channel, coded(conversationId)],
    );
    if (deleted.length > 0) return;
    const [found] = await this.#rows('SELECT number FROM %.conversations WHERE id = $1', [keyOf(conversationId)]);
    if (found !== undefined) throw refused('busy', conversationId, 'is claimed');
  }

  /** Everything at once: compares claim and revision, and writes. */
  async #land(values: readonly unknown[]): Promise<number | undefined> {
    try {
      const [row] = await this.#rows(
        `WITH landed AS (
           UPDATE %.conversations SET revision = revision + 1, created_at = $7, status = $8, members = $9, summary = $10,
             snapshot = coalesce($11, snapshot),
             snapshot_revision = CASE WHEN $11::text IS NULL THEN snapshot_revision ELSE revision + 1 END
           WHERE id = $1 AND revision = $2::float8
             AND CASE WHEN $5::text IS NULL THEN ${IS_FREE}
               ELSE owner = $5 AND fence = $6::float8 AND expires_at > clock_timestamp() END
             AND NOT EXISTS (SELECT FROM %.batches WHERE conversation = conversations.number AND operation = $3)
           RETURNING number, revision
         ), written AS (
           INSERT INTO %.batches (conversation, revision, operation, entries) SELECT number, revision, $3, $4 FROM landed
         )
         SELECT revision, pg_notify($12, $13) FROM landed`,
        values,
      );
      return row === undefined ? undefined : Number(row['revision']);
    } catch (error) {
      // The same operation, written by a repetition that was faster.
      if (isDuplicate(error)) return undefined;
      throw error;
    }
  }

  /**
   * The receipt of an append that landed before, or why this one did not; `undefined` where it would now.
   * @throws RoundtableError
   */
  async #whyNot(batch: Parameters<ConversationStore['append']>[0]): Promise<number | undefined> {
    const { conversationId, claim, expectedRevision, operationId } = batch;
    const [row] = await this.#rows(
      `SELECT revision, fence, owner, NOT ${IS_FREE} AS held,
         (SELECT b.revision FROM %.batches b WHERE b.conversation = number AND b.operation = $2) AS receipt
       FROM %.conversations WHERE id = $1`,
      [keyOf(conversationId), coded(operationId)],
    );
    if (row === undefined) throw refused('not-found', conversationId, 'does not exist');
    if (row['receipt'] !== null) return Number(row['receipt']);
    if (claim === undefined) {
      if (row['held'] === true) throw refused('busy', conversationId, 'is claimed');
    } else if (row['held'] !== true || Number(row['fence']) !== claim.fence || row['owner'] !== coded(claim.ownerId)) {
      throw lost(claim);
    }
    const revision = Number(row['revision']);
    if (revision === expectedRevision) return undefined;
    throw refused('conflict', conversationId, `is at revision ${revision}, not ${expectedRevision}`);
  }

  /** Reads a record and what belongs to it, again where it was compacted or deleted in between. */
  async #consistent<T>(
    conversationId: string,
    columns: string,
    read: (row: Found) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const row = await this.#find(conversationId, columns);
      if (row === undefined) return undefined;
      const found = await read(row);
      if (found !== undefined) return found;
    }
    throw tooBusy();
  }

  async #find(conversationId: string, columns: string): Promise<Found | undefined> {
    const [row] = await this.#rows(`SELECT ${columns} FROM %.conversations WHERE id = $1`, [keyOf(conversationId)]);
    if (row === undefined) return undefined;
    const { snapshot_revision: at, snapshot } = row;
    return {
      number: String(row['number']),
      kind: String(row['kind']),
      schemaVersion: Number(row['schema_version']),
      revision: Number(row['revision']),
      firstRevision: Number(row['first_revision']),
      summary: decoded<RecordSummary>(row['summary']),
      ...(at === null ? {} : { snapshotRevision: Number(at) }),
      ...(typeof snapshot === 'string' ? { snapshot: decoded<string>(snapshot) } : {}),
    };
  }

  /** `undefined` where some are not there any more. */
  async #batches(number: string, from: number, to: number): Promise<Batch[] | undefined> {
    if (to < from) return [];
    const rows = await this.#rows(
      `SELECT revision, operation, entries FROM %.batches
       WHERE conversation = $1 AND revision BETWEEN $2 AND $3 AND entries IS NOT NULL ORDER BY revision`,
      [number, from, to],
    );
    if (rows.length !== to - from + 1) return undefined;
    return rows.map(({ revision, operation, entries }) =>
      storedBatch(Number(revision), decoded<string>(operation), decoded<string[]>(entries)),
    );
  }

  async #mustExist(conversationId: string): Promise<void> {
    const rows = await this.#rows('SELECT FROM %.conversations WHERE id = $1', [keyOf(conversationId)]);
    if (rows.length === 0) throw refused('not-found', conversationId, 'does not exist');
  }

  #rows(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return rowsOf(this.#pool, text.replaceAll('%.', `${this.#schema}.`), values);
  }
}

/** A conversation's row. */
interface Found {
  readonly number: string;
  readonly kind: string;
  readonly schemaVersion: number;
  readonly revision: number;
  readonly firstRevision: number;
  readonly summary: RecordSummary;
  readonly snapshotRevision?: number;
  readonly snapshot?: string;
}

function claimOf(conversationId: string, ownerId: string, row: Row): Claim {
  return { conversationId, ownerId, fence: Number(row['fence']), expiresAt: Number(row['expires_at']) };
}

function lost({ conversationId, fence }: Claim): RoundtableError {
  return refused('stale-claim', conversationId, `is not held under fence ${fence} any more`);
}

function tooBusy(): RoundtableError {
  return new RoundtableError('unavailable', 'other hosts write so fast that this one found no gap');
}

/** Text as JSON text: whole, whatever is in it, and equal only where it is equal. */
function coded(text: string): string {
  return JSON.stringify(text);
}

function decoded<T>(text: unknown): T {
  try {
    return JSON.parse(String(text)) as T;
  } catch (error) {
    throw new RoundtableError('invalid-record', 'a value in the database is damaged', { cause: error });
  }
}

/** The UTF-16 units of an id, the higher byte first: in the order of JavaScript's own comparison. */
function keyOf(conversationId: string): Uint8Array {
  return Buffer.from(checkId(conversationId, 'conversationId'), 'utf16le').swap16();
}
