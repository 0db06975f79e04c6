// Stores whose server goes away or whose disk is full: typed errors, nothing lost, and work goes on.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { openStore } from './support/opening.mjs';
import { skip as noPostgres, startPostgres } from '../../scripts/lib/postgres-server.mjs';
import { batch, record } from './support/records.mjs';
import { driver, skip as noSqlite } from './support/sqlite-driver.mjs';

const run = promisify(execFile);

describe('postgres, when the server goes away', { skip: noPostgres }, () => {
  let server;
  let schemas = 0;
  before(async () => {
    server = await startPostgres();
  });
  after(() => server?.remove());

  async function prepared() {
    schemas += 1;
    const opened = await openStore({ kind: 'postgres', config: server.config, schema: `test_${schemas}` });
    await opened.store.setup();
    await opened.store.create(record('c'));
    return opened;
  }

  /**
   * Appends until it is told to stop, as the engine does: after an unknown outcome the same append again.
   * @returns the codes of what was refused
   */
  async function appending(store, isOver) {
    const codes = [];
    for (let revision = 1; !isOver(); ) {
      try {
        assert.deepEqual(await store.append(batch(revision)), { revision: revision + 1 });
        revision += 1;
      } catch (error) {
        assert.ok(error.cause instanceof Error, error.message);
        codes.push(error.code);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    }
    return codes;
  }

  /** The pool may have kept connections that are gone. */
  async function again(call) {
    for (let attempt = 0; ; attempt++) {
      try {
        return await call();
      } catch (error) {
        if (error.code !== 'unavailable' || attempt > 20) throw error;
      }
    }
  }

  async function checkLinear(store) {
    const { batches, revision } = await again(() => store.load('c'));
    assert.deepEqual(
      batches.slice(1).map(({ operationId }) => operationId),
      Array.from({ length: revision - 1 }, (_, i) => `x${i + 1}`),
    );
    assert.deepEqual(await again(() => store.append(batch(revision))), { revision: revision + 1 });
    return revision;
  }

  test('F connections that are cut in mid append: unavailable, then the same append has one receipt', async () => {
    const { store, close } = await prepared();
    const { store: other, pool: killer, close: closeOther } = await prepared();
    let isOver = false;
    const working = appending(store, () => isOver);
    for (let cut = 0; cut < 25; cut++) {
      await new Promise((resolve) => setTimeout(resolve, 20 + 7 * (cut % 5)));
      await killer.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = current_user',
      );
    }
    isOver = true;
    const codes = await working;
    assert.ok(codes.length > 0 && codes.every((code) => code === 'unavailable'), codes.join());
    assert.ok((await checkLinear(store)) > 25);
    assert.equal((await again(() => other.load('c'))).revision, 1);
    await Promise.all([close(), closeOther()]);
  });

  test('F a server that crashes and comes back in mid append: unavailable, then work goes on', async () => {
    const { store, close } = await prepared();
    let isOver = false;
    const working = appending(store, () => isOver);
    for (const signal of ['SIGQUIT', 'SIGINT', 'SIGQUIT']) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      await server.stop(signal);
      await assert.rejects(store.load('c'), { code: 'unavailable' });
      await assert.rejects(store.claim('c', 'one', 1_000), { code: 'unavailable' });
      await server.start();
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
    isOver = true;
    const codes = await working;
    assert.ok(codes.length > 0 && codes.every((code) => code === 'unavailable'), codes.join());
    await checkLinear(store);
    await close();
  });

  test('F a claim and what is stored survive a crash of the server', async () => {
    const { store, close } = await prepared();
    const claim = await store.claim('c', 'one', 60_000);
    await store.append(batch(1, { claim, entries: ['\0'], snapshot: 'state \0' }));
    await server.stop('SIGQUIT');
    await server.start();
    assert.equal((await again(() => store.load('c'))).snapshot.state, 'state \0');
    await assert.rejects(
      again(() => store.claim('c', 'two', 1_000)),
      { code: 'busy' },
    );
    assert.deepEqual(await again(() => store.append(batch(2, { claim }))), { revision: 3 });
    await close();
  });
});

describe('a full disk', () => {
  for (const [kind, skip] of [
    ['file', false],
    ['sqlite', noSqlite],
  ]) {
    test(`F ${kind === 'sqlite' ? driver : kind}: unavailable, nothing lost, and work goes on when there is room`, {
      skip,
    }, async (t) => {
      const disk = await smallDisk(4 << 20);
      if (disk.reason !== undefined) {
        t.skip(disk.reason);
        return;
      }
      try {
        const filler = join(disk.folder, 'filler');
        const where = { kind, directory: join(disk.folder, 'store'), path: join(disk.folder, 'store.db') };
        const { store, close } = await openStore(where);
        await store.create(record('c'));
        await writeFile(filler, Buffer.alloc(2 << 20));
        const entries = ['x'.repeat(10_000)];
        let revision = 1;
        const appendAll = async () => {
          for (;;) {
            await store.append(batch(revision, { entries, ...(revision % 40 === 0 ? { snapshot: entries[0] } : {}) }));
            revision += 1;
          }
        };
        const isFull = ({ code, cause }) =>
          code === 'unavailable' && /ENOSPC|full/i.test(`${cause?.code} ${cause?.message}`);
        await assert.rejects(appendAll(), isFull);
        assert.ok(revision > 20, `full after ${revision}`);
        await assert.rejects(store.append(batch(revision, { entries })), isFull);
        const { store: other, close: closeOther } = await openStore(where);
        assert.equal((await other.read('c', { after: 0 })).batches.length, revision);
        await closeOther();
        await rm(filler);
        for (let more = 0; more < 20; more++) {
          assert.deepEqual(await store.append(batch(revision, { entries })), { revision: revision + 1 });
          revision += 1;
        }
        const { batches } = await store.read('c', { after: 0 });
        assert.deepEqual(
          batches.slice(1).map(({ operationId }) => operationId),
          Array.from({ length: revision - 1 }, (_, i) => `x${i + 1}`),
        );
        await close();
      } finally {
        await disk.remove();
      }
    });
  }
});

/** A file system of a few bytes, or the reason why there is none. */
async function smallDisk(bytes) {
  const folder = await mkdtemp(join(tmpdir(), 'small-disk-'));
  const remove = async () => {
    await run('umount', ['-l', folder]).catch(() => {});
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await run('mount', ['-t', 'tmpfs', '-o', `size=${bytes}`, 'tmpfs', folder]);
    const { blocks, bsize } = await statfs(folder);
    assert.equal(blocks * bsize, bytes);
    await mkdir(join(folder, 'store'));
    return { folder, remove };
  } catch (error) {
    await remove();
    return { reason: `no small disk can be mounted here, which takes root: ${error.message.split('\n')[0]}` };
  }
}
