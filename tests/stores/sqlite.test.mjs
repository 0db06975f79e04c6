// Conversations in SQLite.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { sqliteStore } from 'agent-roundtable/node';
import { storeConformance } from 'agent-roundtable/testing';
import { batch, record } from './support/records.mjs';
import { Database, driver, skip } from './support/sqlite-driver.mjs';

async function inFile(options = {}) {
  const directory = await mkdtemp(join(tmpdir(), 'sqlite-store-'));
  const path = join(directory, 'conversations.db');
  const stores = [sqliteStore({ path, ...options })];
  const another = ({ clockSkewMs }) => {
    stores.push(sqliteStore({ path, clock: { now: () => Date.now() + clockSkewMs } }));
    return stores.at(-1);
  };
  const dispose = async () => {
    for (const store of stores) await store.close();
    await rm(directory, { recursive: true, force: true });
  };
  return { path, store: stores[0], another, dispose };
}

/** A test with a file of its own. */
function onFile(title, run, options) {
  test(title, async () => {
    const made = await inFile(options);
    try {
      await run(made);
    } finally {
      await made.dispose();
    }
  });
}

describe(`sqlite store, ${driver}`, { skip }, () => {
  storeConformance(() => inFile(), { test });

  onFile('writes ahead, and synchronises at every commit', async ({ path, store }) => {
    await store.create(record('c'));
    const raw = new Database(path);
    assert.deepEqual({ ...raw.prepare('PRAGMA journal_mode').get() }, { journal_mode: 'wal' });
    raw.close();
    assert.equal(store.durability, 'durable');
    assert.equal(store.identity, `sqlite:${path}`);
  });

  onFile('a call waits for a process that writes, without stopping this one', async ({ path, store }) => {
    await store.create(record('c'));
    const raw = new Database(path);
    raw.exec('BEGIN IMMEDIATE');
    let ticks = 0;
    const ticking = setInterval(() => {
      ticks += 1;
    }, 5);
    const appending = store.append(batch(1));
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.ok(ticks > 10, `${ticks} ticks`);
    raw.exec('COMMIT');
    raw.close();
    clearInterval(ticking);
    assert.deepEqual(await appending, { revision: 2 });
  });

  onFile(
    'a call that waits too long is unavailable, and the next one goes on',
    async ({ path, store }) => {
      await store.create(record('c'));
      const raw = new Database(path);
      raw.exec('BEGIN IMMEDIATE');
      await assert.rejects(store.append(batch(1)), { code: 'unavailable' });
      assert.equal((await store.load('c')).revision, 1, 'readers do not wait');
      raw.exec('COMMIT');
      raw.close();
      assert.deepEqual(await store.append(batch(1)), { revision: 2 });
    },
    { busyTimeoutMs: 100 },
  );

  onFile('F compaction takes the entries out of the tables', async ({ path, store }) => {
    await store.create(record('c'));
    for (let revision = 1; revision < 5; revision++) await store.append(batch(revision));
    await store.append(batch(5, { snapshot: 'state' }));
    await store.compact('c', 4);
    const raw = new Database(path);
    const rows = raw.prepare('SELECT revision FROM batches WHERE entries IS NULL ORDER BY revision').all();
    assert.deepEqual(
      rows.map((row) => row.revision),
      [1, 2, 3],
    );
    await store.delete('c');
    for (const table of ['conversations', 'batches', 'snapshots', 'members']) {
      assert.equal(raw.prepare(`SELECT count(*) AS n FROM ${table}`).get().n, 0, table);
    }
    raw.close();
  });

  onFile('F a damaged database or value is invalid-record', async ({ path, store, another }) => {
    await store.create(record('c'));
    const raw = new Database(path);
    for (const damage of [
      'SET snapshot_revision = 1',
      ...[`'["one'`, `'{}'`, `'[7]'`, `'null'`, 'NULL'].map((entries) => `SET entries = ${entries}`),
    ]) {
      raw.exec(`UPDATE ${damage.includes('entries') ? 'batches' : 'conversations'} ${damage}`);
      await assert.rejects(store.load('c'), { code: 'invalid-record' }, damage);
      raw.exec('UPDATE conversations SET snapshot_revision = NULL');
    }
    raw.close();
    await store.close();
    await writeFile(path, (await readFile(path)).fill(7));
    await assert.rejects(another({ clockSkewMs: 0 }).load('c'), { code: 'invalid-record' });
  });

  onFile('F what is written to a file that was removed is not acknowledged; one in its place is used', async (made) => {
    const { path, store, another } = made;
    await store.create(record('c'));
    for (const name of ['', '-wal', '-shm']) await rm(`${path}${name}`, { force: true });
    await assert.rejects(store.append(batch(1)), { code: 'not-found' });
    const host = another({ clockSkewMs: 0 });
    assert.equal(await host.load('c'), undefined);
    await host.create(record('c'));
    await store.append(batch(1));
    assert.equal((await host.load('c')).revision, 2);
  });

  onFile('tables of another version are refused', async ({ path, store, another }) => {
    await store.create(record('c'));
    const raw = new Database(path);
    raw.exec('PRAGMA user_version = 99');
    raw.close();
    await assert.rejects(another({ clockSkewMs: 0 }).load('c'), { code: 'invalid-config', message: /version 99/ });
  });

  test('a file that cannot be opened is unavailable, and is tried again', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'sqlite-store-'));
    const path = join(directory, 'file', 'conversations.db');
    const store = sqliteStore({ path });
    await assert.rejects(
      store.create(record('c')),
      (error) => error.code === 'unavailable' && error.cause !== undefined,
    );
    await import('node:fs/promises').then((fs) => fs.mkdir(join(directory, 'file')));
    assert.deepEqual(await store.create(record('c')), { revision: 1 });
    await store.close();
    await rm(directory, { recursive: true });
  });

  onFile('close waits for the calls before it and refuses those after it', async ({ store }) => {
    const creating = store.create(record('c'));
    await store.close();
    assert.deepEqual(await creating, { revision: 1 });
    await assert.rejects(store.load('c'), { code: 'unavailable' });
    await store.close();
  });

  test('options are checked: path, busyTimeoutMs and clock', () => {
    const path = '/nowhere/x.db';
    for (const options of [{}, { path: '' }, { path: ':memory:' }, { path, busyTimeoutMs: 0 }, { path, clock: {} }]) {
      assert.throws(() => sqliteStore(options), { code: 'invalid-config' }, JSON.stringify(options));
    }
  });
});
