// Conversations in PostgreSQL, on a server that the test starts.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createRoundtable, sessionParticipant } from 'agent-roundtable';
import { postgresStore } from 'agent-roundtable/postgres';
import { storeConformance } from 'agent-roundtable/testing';
import { deferred } from '../node/support/conversations.mjs';
import { batch, record, until } from './support/records.mjs';
import { skip, startPostgres } from '../../scripts/lib/postgres-server.mjs';

describe('postgres store', { skip }, () => {
  let pg;
  let server;
  let pool;
  let schemas = 0;
  before(async () => {
    pg = (await import('pg')).default;
    server = await startPostgres();
    pool = new pg.Pool(server.config);
    pool.on('error', () => {});
  });
  after(async () => {
    await pool?.end();
    await server?.remove();
  });

  async function inSchema() {
    schemas += 1;
    const schema = `test_${schemas}`;
    const store = postgresStore({ pool, schema });
    await store.setup();
    const another = () => postgresStore({ pool, schema });
    return { schema, store, another, dispose: () => pool.query(`DROP SCHEMA ${schema} CASCADE`) };
  }

  storeConformance(inSchema, { test });

  /** A test with tables of its own. */
  function onTables(title, run) {
    test(title, async () => {
      const made = await inSchema();
      try {
        await run(made);
      } finally {
        await made.dispose();
      }
    });
  }

  onTables('setup can be repeated, also by several hosts at once, and loses nothing', async ({ store, another }) => {
    await store.create(record('c'));
    await Promise.all(Array.from({ length: 8 }, () => another().setup()));
    assert.equal((await store.load('c')).revision, 1);
    const fresh = Array.from({ length: 8 }, () => postgresStore({ pool, schema: 'several' }));
    await Promise.all(fresh.map((one) => one.setup()));
    await fresh[0].create(record('c'));
    await pool.query('DROP SCHEMA several CASCADE');
  });

  test('without setup a call says what to do; tables of a later version are refused', async () => {
    const store = postgresStore({ pool, schema: 'missing' });
    await assert.rejects(store.create(record('c')), { code: 'invalid-config', message: /setup\(\)/ });
    await assert.rejects(store.load('c'), { code: 'invalid-config', message: /setup\(\)/ });
    await store.setup();
    await pool.query('INSERT INTO missing.migrations VALUES (99)');
    await assert.rejects(store.setup(), { code: 'invalid-config', message: /version 99/ });
    await pool.query('DROP SCHEMA missing CASCADE');
  });

  onTables('F watch tells of what another host wrote, and of nothing else', async ({ store, another, schema }) => {
    const rest = { a: 0, b: 0, '\0': 0 };
    const ends = Object.keys(rest).map((id) => {
      return store.watch(id, () => {
        rest[id] += 1;
      });
    });
    await until(() => rest.a > 0 && rest.b > 0); // once when it listens
    const start = { ...rest };
    const host = another();
    await host.create(record('a'));
    await host.create(record('\0'));
    await until(() => rest.a > start.a && rest['\0'] > start['\0']);
    await host.append(batch(1, { conversationId: 'a' }));
    await until(() => rest.a === start.a + 2);
    await host.delete('a');
    await until(() => rest.a === start.a + 3);
    assert.equal(rest.b, start.b);
    ends[0]();
    await host.create(record('a'));
    await host.create(record('b'));
    await until(() => rest.b > start.b);
    assert.equal(rest.a, start.a + 3, 'one that was ended hears nothing');
    for (const end of ends) end();
    await until(async () => (await listeners(schema)) === 0);
  });

  onTables('F watch connects again after a cut, and tells everybody, since it may have missed some', async (made) => {
    let told = 0;
    const end = made.store.watch('c', () => {
      told += 1;
    });
    await until(() => told === 1);
    await pool.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN ${made.schema}_changes'`,
    );
    await until(() => told === 2);
    await made.store.create(record('c'));
    await until(() => told === 3);
    end();
    await until(async () => (await listeners(made.schema)) === 0);
  });

  onTables('F compaction takes the entries out of the tables, and delete everything', async ({ store, schema }) => {
    await store.create(record('c'));
    for (let revision = 1; revision < 5; revision++) await store.append(batch(revision));
    await store.append(batch(5, { snapshot: 'state' }));
    await store.compact('c', 4);
    const { rows } = await pool.query(`SELECT revision FROM ${schema}.batches WHERE entries IS NULL ORDER BY revision`);
    assert.deepEqual(
      rows.map((row) => Number(row.revision)),
      [1, 2, 3],
    );
    await store.delete('c');
    for (const table of ['conversations', 'batches']) {
      assert.equal((await pool.query(`SELECT FROM ${schema}.${table}`)).rows.length, 0, table);
    }
  });

  test('F a database that cannot hold every text is refused by setup', async () => {
    await pool.query("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'");
    const other = new pg.Pool({ ...server.config, database: 'latin' });
    await assert.rejects(postgresStore({ pool: other }).setup(), {
      code: 'invalid-config',
      message: /UTF8, not LATIN1/,
    });
    await other.end();
  });

  test('F no cross-talk: conversations of one id in two databases run at the same time', async () => {
    const pools = ['one', 'two'].map((database) => new pg.Pool({ ...server.config, database }));
    const both = deferred();
    let running = 0;
    const tables = pools.map(async (other) => {
      await pool.query(`CREATE DATABASE ${other.options.database}`);
      const store = postgresStore({ pool: other });
      await store.setup();
      const chat = async () => {
        if (++running === 2) both.resolve();
        await both.promise;
        return { id: 'm', role: 'assistant', content: 'hi', timestamp: new Date(), state: 'complete' };
      };
      const bot = sessionParticipant({
        id: 'bot',
        runtime: { id: 'bot', version: '1' },
        createSessionOptions: () => ({ provider: { name: 'p', chat }, model: 'm' }),
      });
      return createRoundtable({ conversationId: 'c', participants: [bot], limits: { maxTurnsPerRun: 1 }, store });
    });
    const opened = await Promise.all(tables);
    const results = await Promise.all(opened.map((table) => table.run().finally(both.resolve)));
    assert.deepEqual(
      results.map(({ status }) => status),
      ['limited', 'limited'],
    );
    await Promise.all(opened.map((table) => table.dispose()));
    await Promise.all(pools.map((other) => other.end()));
  });

  onTables('F a pool of serializable transactions will do', async ({ schema }) => {
    const strict = new pg.Pool({ ...server.config, options: '-c default_transaction_isolation=serializable' });
    const store = postgresStore({ pool: strict, schema });
    await store.create(record('c'));
    const calls = Array.from({ length: 10 }, (_, n) => store.append(batch(1, { operationId: `x${n}` })));
    const results = await Promise.allSettled(calls);
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    for (const { reason } of results)
      assert.ok(reason === undefined || ['conflict', 'unavailable'].includes(reason.code));
    await strict.end();
  });

  test('types: the pool of pg is what the store takes', async () => {
    const options = '--noEmit --strict --exactOptionalPropertyTypes --module nodenext --target es2022 --skipLibCheck';
    const args = ['node_modules/typescript/bin/tsc', ...options.split(' '), 'tests/stores/pool-types.ts'];
    await promisify(execFile)(process.execPath, args, { cwd: fileURLToPath(new URL('../..', import.meta.url)) });
  });

  test('options are checked: pool and schema', () => {
    const bad = [{}, { pool: {} }, ...['', 'A', 'a-b', 'a"b', 'x'.repeat(41), 5].map((schema) => ({ pool, schema }))];
    for (const options of bad) {
      assert.throws(() => postgresStore(options), { code: 'invalid-config' }, JSON.stringify(options.schema));
    }
    assert.equal(postgresStore({ pool }).identity, 'postgres:agent_roundtable');
  });

  /** How many connections listen. */
  async function listeners(schema) {
    const text = `SELECT FROM pg_stat_activity WHERE query = 'LISTEN ${schema}_changes'`;
    return (await pool.query(text)).rows.length;
  }
});
