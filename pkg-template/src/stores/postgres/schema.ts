/** The tables, and how they came to be. */

import { RoundtableError } from '../../errors.js';
import { failure, type PostgresPool } from './pool.js';

/**
 * Each is applied once, in this order, and never changed afterwards. `%` stands for the schema.
 *
 * Texts are kept as JSON strings, since PostgreSQL's own text cannot hold U+0000; keys are the UTF-16
 * units of a text, so that they are compared as JavaScript compares. A batch that was compacted has no
 * entries, and keeps its operation id.
 */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE %.conversations (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id bytea NOT NULL UNIQUE,
    conversation_id text NOT NULL,
    kind text NOT NULL,
    schema_version integer NOT NULL,
    revision bigint NOT NULL,
    first_revision bigint NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    status text NOT NULL,
    members text[] NOT NULL,
    summary text NOT NULL,
    fence bigint NOT NULL,
    owner text,
    expires_at timestamptz,
    snapshot_revision bigint,
    snapshot text
  );
  CREATE INDEX newest_first ON %.conversations (created_at DESC, id);
  CREATE INDEX by_member ON %.conversations USING gin (members);
  CREATE TABLE %.batches (
    conversation bigint NOT NULL REFERENCES %.conversations ON DELETE CASCADE,
    revision bigint NOT NULL,
    operation text NOT NULL,
    entries text,
    PRIMARY KEY (conversation, revision)
  );
  CREATE UNIQUE INDEX operations ON %.batches (conversation, operation);
  `,
];

/** Makes or brings up to date the tables; any number of hosts may do it at the same time. */
export async function setUp(pool: PostgresPool, schema: string): Promise<void> {
  const client = await pool.connect().catch((error: unknown) => {
    throw failure(error);
  });
  let isBroken = true;
  try {
    const [found] = (await client.query('SHOW server_encoding')).rows;
    if (found?.['server_encoding'] !== 'UTF8') {
      const encoding = String(found?.['server_encoding']);
      throw new RoundtableError('invalid-config', `the database must have the encoding UTF8, not ${encoding}`);
    }
    await client.query('BEGIN');
    await client.query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`agent-roundtable/${schema}`]);
    await client.query(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
    await client.query(`CREATE TABLE IF NOT EXISTS ${schema}.migrations (version integer PRIMARY KEY)`);
    const { rows } = await client.query(`SELECT coalesce(max(version), 0) AS version FROM ${schema}.migrations`);
    const version = Number(rows[0]?.['version']);
    if (version > MIGRATIONS.length) {
      const message = `the tables have version ${version}, and this is written for ${MIGRATIONS.length}`;
      throw new RoundtableError('invalid-config', message);
    }
    for (const [index, migration] of MIGRATIONS.entries()) {
      if (index < version) continue;
      await client.query(migration.replaceAll('%', schema));
      await client.query(`INSERT INTO ${schema}.migrations VALUES ($1)`, [index + 1]);
    }
    await client.query('COMMIT');
    isBroken = false;
  } catch (error) {
    throw failure(error);
  } finally {
    client.release(isBroken); // which rolls back what was begun
  }
}
