// Several processes on one store, and processes that are killed.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { link, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { END, lifeOf } from './support/life.mjs';
import { openStore } from './support/opening.mjs';
import { skip as noPostgres, startPostgres } from '../../scripts/lib/postgres-server.mjs';
import { batch, record } from './support/records.mjs';
import { driver, skip as noSqlite } from './support/sqlite-driver.mjs';

const LATER = { clock: { now: () => Date.now() + 86_400_000 } };
const program = (name) => fileURLToPath(new URL(`./support/${name}.mjs`, import.meta.url));

let server;
let pool;
let schemas = 0;
const folders = [];
before(async () => {
  if (noPostgres) return;
  server = await startPostgres();
  const { default: pg } = await import('pg');
  pool = new pg.Pool(server.config);
  pool.on('error', () => {});
});
after(async () => {
  await pool?.end();
  await server?.remove();
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
});

async function folder() {
  folders.push(await mkdtemp(join(tmpdir(), 'processes-')));
  return folders.at(-1);
}

const KINDS = {
  file: { label: 'file', skip: false, place: async () => ({ kind: 'file', directory: await folder() }) },
  sqlite: {
    label: `sqlite (${driver})`,
    skip: noSqlite,
    place: async () => ({ kind: 'sqlite', path: join(await folder(), 'x.db') }),
  },
  postgres: {
    label: 'postgres',
    skip: noPostgres,
    place: async () => {
      schemas += 1;
      const where = { kind: 'postgres', config: server.config, schema: `test_${schemas}` };
      const { store, close } = await openStore(where);
      await store.setup();
      await close();
      return where;
    },
  },
};

for (const { label, skip, place } of Object.values(KINDS)) {
  describe(`${label}, several processes`, { skip }, () => {
    test('F processes that fight for conversations leave one linear history each, and lose no append', async () => {
      const [ids, owners, appends] = [['c', 'd'], ['one', 'two', 'three'], 60];
      const where = await place();
      const { store, close } = await openStore(where);
      for (const id of ids) await store.create(record(id));
      const fights = owners.map((owner) => finished('fighter', { where, owner, ids, appends }));
      for (const { code, stderr } of await Promise.all(fights)) assert.equal(code, 0, stderr);
      for (const id of ids) {
        const { batches } = await store.load(id);
        const revisions = batches.map(({ revision }) => revision);
        assert.deepEqual(
          revisions,
          Array.from({ length: 1 + owners.length * appends }, (_, i) => i + 1),
        );
        for (const owner of owners) {
          const own = batches.filter(({ operationId }) => operationId.startsWith(`${owner} `));
          const expected = Array.from({ length: appends }, (_, n) => [`${owner} ${n}`]);
          assert.deepEqual(
            own.map(({ entries }) => entries),
            expected,
          );
        }
      }
      await close();
    });

    test('F a process killed at any call leaves what it was told is stored, and another finishes', async () => {
      const whole = await finished('killed', { where: await place(), base: 0, at: -1 });
      assert.equal(whole.code, 0, whole.stderr);
      await eachCall(Number(whole.lines.at(-1)), async (at, moment) => {
        await killAndFinish(await place(), { base: 0, at, moment });
      });
    });

    test('F a process killed at any moment of a storm of appends loses none it was told of', async () => {
      for (let round = 0; round < 12; round++) {
        const where = await place();
        const { store, close } = await openStore(where, LATER);
        await store.create(record('c'));
        const acknowledged = await killedInStorm(where, 5 + round * 15);
        const { batches } = await store.load('c');
        const operations = batches.slice(1).map(({ operationId }) => operationId);
        assert.deepEqual(
          operations,
          operations.map((_, i) => `x${i + 1}`),
        );
        assert.ok(operations.length >= acknowledged && operations.length <= acknowledged + 1);
        await expire(where);
        assert.deepEqual(await store.append(batch(batches.length)), { revision: batches.length + 1 });
        await close();
      }
    });
  });
}

describe('file, joining', () => {
  test('F a process killed at any call of joining and compacting loses nothing', async () => {
    const base = 252; // the epoch ends within the life
    const template = await folder();
    const { store } = await openStore({ kind: 'file', directory: template });
    await store.create(record('c'));
    for (let revision = 1; revision < base; revision++) await store.append(batch(revision));
    const seeded = async () => {
      const directory = await folder();
      await linkAll(template, directory);
      return { kind: 'file', directory };
    };
    const whole = await finished('killed', { where: await seeded(), base, at: -1 });
    assert.equal(whole.code, 0, whole.stderr);
    await eachCall(Number(whole.lines.at(-1)), async (at, moment) => {
      const where = await seeded();
      await killAndFinish(where, { base, at, moment });
      await rm(where.directory, { recursive: true, force: true });
    });
  });
});

/** A copy of what is never changed once it is written. */
async function linkAll(from, to) {
  for (const entry of await readdir(from, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath ?? entry.path, entry.name);
    const copied = to + path.slice(from.length);
    await (entry.isDirectory() ? mkdir(copied) : link(path, copied));
  }
}

/** Every call of a life, before it and while it is on its way, two processes at a time. */
async function eachCall(calls, run) {
  assert.ok(calls > 10, `${calls} calls`);
  const cases = [];
  for (let at = 1; at <= calls; at++) for (const moment of ['before', 'during']) cases.push([at, moment]);
  const lane = async () => {
    for (let next = cases.shift(); next !== undefined; next = cases.shift()) await run(...next);
  };
  await Promise.all([lane(), lane()]);
}

/** Lets a process be killed, looks at what is stored, and finishes its life. */
async function killAndFinish(where, { base, at, moment }) {
  const what = `killed ${moment} call ${at}`;
  const { signal, lines, stderr } = await finished('killed', { where, base, at, moment });
  assert.equal(signal, 'SIGKILL', `${what}: ${stderr}`);
  const { store, close } = await openStore(where, LATER);
  await expire(where);

  const appended = lines.filter((line) => line.startsWith('append')).length;
  const isCreated = base > 0 || lines.includes('create');
  const known = isCreated ? Math.max(base, 1) + appended : 0;
  const found = await store.load('c');
  const revision = found?.revision ?? 0;
  assert.ok(revision === known || revision === known + 1, `${what}: told of ${known}, found ${revision}`);
  if (found !== undefined) checkBatches(found, what);

  const life = base === 0 ? lifeOf(0) : lifeOf(base);
  for (const { name, run } of life) {
    await run(store).catch((error) => {
      throw new Error(`${what}, then ${name}: ${error.message}`, { cause: error });
    });
  }
  const last = await store.load('c');
  assert.equal(last.revision, END(base), what);
  assert.deepEqual(last.snapshot, { revision: END(base) - 1, state: `state at ${END(base) - 1}` }, what);
  checkBatches(last, what);
  const kept = await store.read('c', { after: Math.max(base, 1) + 1 });
  assert.deepEqual(
    kept.batches.map((each) => each.entries),
    Array.from({ length: 4 }, (_, i) => [`entry ${Math.max(base, 1) + 1 + i}`]),
    what,
  );
  await store.release(await store.claim('c', 'later', 1_000));
  await close();
}

function checkBatches({ revision, snapshot, batches }, what) {
  const from = (snapshot?.revision ?? 0) + 1;
  const revisions = batches.map((each) => each.revision);
  assert.deepEqual(
    revisions,
    Array.from({ length: revision - from + 1 }, (_, i) => from + i),
    what,
  );
}

/** Ends the lease of whoever was killed, where the store has a clock of its own. */
async function expire(where) {
  if (where.kind !== 'postgres') return;
  // What the killed process sent last may still be at work.
  await pool.query(`UPDATE ${where.schema}.conversations SET expires_at = clock_timestamp() - interval '1 second'`);
}

/** How many appends a process was told of before it was killed, some time after its first. */
async function killedInStorm(where, afterMs) {
  const source = `
    const { openStore } = await import(${JSON.stringify(program('opening'))});
    const { batch } = await import(${JSON.stringify(program('records'))});
    const { store } = await openStore(${JSON.stringify(where)});
    const claim = await store.claim('c', 'storm', 600_000);
    for (let revision = 1; ; revision++) {
      await store.append(batch(revision, { claim }));
      (await import('node:fs')).writeSync(1, revision + '\\n');
    }`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', source], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (data) => {
    if (output === '') setTimeout(() => child.kill('SIGKILL'), afterMs);
    output += data;
  });
  await new Promise((resolve) => child.once('close', resolve));
  return output.split('\n').filter(Boolean).length;
}

/** Runs one of the support programs to its end. */
async function finished(name, argument) {
  const args = [program(name), JSON.stringify(argument)];
  const ended = await promisify(execFile)(process.execPath, args, { timeout: 120_000 }).catch((error) => error);
  const { code = 0, signal, stdout, stderr } = ended;
  return { code, signal, stderr, lines: stdout.trim().split('\n').filter(Boolean) };
}
