// Conversations in files.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, unlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { fileStore } from 'agent-roundtable/node';
import { storeConformance } from 'agent-roundtable/testing';
import { batch, record } from './support/records.mjs';

async function inFolder() {
  const directory = await mkdtemp(join(tmpdir(), 'file-store-'));
  const store = fileStore({ directory });
  const another = ({ clockSkewMs }) => fileStore({ directory, clock: { now: () => Date.now() + clockSkewMs } });
  return { directory, store, another, dispose: () => rm(directory, { recursive: true, force: true }) };
}

/** A test with a directory of its own. */
function inDirectory(title, run) {
  test(title, async () => {
    const made = await inFolder();
    try {
      await run(made);
    } finally {
      await made.dispose();
    }
  });
}

/** Every file of a directory, relative. */
async function filesOf(directory) {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  return entries.filter((e) => e.isFile()).map((e) => join(e.parentPath ?? e.path, e.name));
}

describe('file store', () => {
  storeConformance(inFolder, { test });

  inDirectory('F hostile ids stay inside the directory', async ({ directory, store }) => {
    const inside = join(directory, 'inside');
    const nested = fileStore({ directory: inside });
    for (const id of [
      '..',
      '../escaped',
      '/tmp/escaped-file-store',
      'a/../../b',
      '.',
      'C:\\x',
      '\0',
      '~'.repeat(300),
    ]) {
      await nested.create(record(id));
    }
    assert.deepEqual(await readdir(directory), ['inside']);
    assert.ok((await readdir(inside)).every((name) => /^[0-9a-f]{64}$/.test(name)));
    assert.ok(!existsSync('/tmp/escaped-file-store'));
    assert.equal((await store.list({})).items.length, 0);
  });

  inDirectory('older batches are in one file of lines that people read', async ({ directory, store }) => {
    await store.create(record('c'));
    for (let revision = 1; revision < 700; revision++) await store.append(batch(revision));
    const files = await filesOf(directory);
    const journals = files.filter((name) => name.endsWith('.jsonl'));
    assert.equal(journals.length, 1);
    const lines = (await readFile(journals[0], 'utf8')).trimEnd().split('\n');
    assert.deepEqual(JSON.parse(lines[99]), { revision: 100, operationId: 'x99', entries: ['entry 99'] });
    assert.ok(lines.length >= 512, `${lines.length} lines`);
    assert.ok(files.length < 300, `${files.length} files`);
  });

  inDirectory('F compaction takes the entries out of the files', async ({ directory, store, another }) => {
    await store.create(record('c'));
    for (let revision = 1; revision < 300; revision++) await store.append(batch(revision));
    await store.append(batch(300, { snapshot: 'state' }));
    await store.compact('c', 200);
    const texts = await Promise.all((await filesOf(directory)).map((name) => readFile(name, 'utf8')));
    assert.ok(texts.every((text) => !text.includes('"entry 198"')));
    assert.ok(texts.some((text) => text.includes('"entry 199"')));
    const fresh = another({ clockSkewMs: 0 });
    assert.deepEqual(await fresh.append(batch(5)), { revision: 6 });
    assert.deepEqual(await fresh.append(batch(301)), { revision: 302 });
    assert.equal((await fresh.read('c', { after: 199 })).batches.length, 103);
  });

  inDirectory('F what processes that were killed left is ignored, and swept later', async (made) => {
    const { directory, store, another } = made;
    await store.create(record('c'));
    for (let revision = 1; revision < 10; revision++) await store.append(batch(revision));
    const folder = join(directory, (await readdir(directory))[0]);
    const incarnation = join(folder, (await readdir(folder))[0]);
    const old = new Date(Date.now() - 48 * 3_600_000);
    const left = [
      join(incarnation, 'tmp-0011'),
      join(incarnation, 'journal-0011.jsonl'),
      join(incarnation, 'snapshot-1'),
    ];
    for (const name of left) await writeFile(name, '{"revision":10,"operat');
    await mkdir(join(directory, '.tmp-0011/x'), { recursive: true });
    for (const name of [...left, join(directory, '.tmp-0011')]) await utimes(name, old, old);
    const recent = join(incarnation, 'tmp-0022');
    await writeFile(recent, '{"rev');
    const fresh = another({ clockSkewMs: 0 });
    for (let revision = 10; revision < 300; revision++) await fresh.append(batch(revision));
    await fresh.create(record('d'));
    assert.equal((await fresh.load('c')).batches.length, 300);
    for (const name of [...left, join(directory, '.tmp-0011')]) assert.ok(!existsSync(name), `${name} was not swept`);
    assert.ok(existsSync(recent), 'what may belong to a living process stays');
  });

  inDirectory('F a torn line after the end of the journal is written over', async ({ directory, store, another }) => {
    await store.create(record('c'));
    for (let revision = 1; revision < 300; revision++) await store.append(batch(revision));
    const [journal] = (await filesOf(directory)).filter((name) => name.endsWith('.jsonl'));
    await writeFile(journal, `{"revision":257,"operationId":"x256","ent`, { flag: 'a' });
    const fresh = another({ clockSkewMs: 0 });
    assert.equal((await fresh.load('c')).batches.length, 300);
    for (let revision = 300; revision < 600; revision++) await fresh.append(batch(revision));
    const all = (await another({ clockSkewMs: 0 }).load('c')).batches;
    assert.deepEqual([all.length, all[256].entries, all.at(-1).entries], [600, ['entry 256'], ['entry 599']]);
    for (const line of (await readFile(journal, 'utf8')).trimEnd().split('\n').slice(0, 512)) JSON.parse(line);
  });

  inDirectory(
    'F a damaged file is an error with its name, never another history',
    async ({ directory, store, another }) => {
      await store.create(record('c'));
      await store.append(batch(1));
      const [file] = (await filesOf(directory)).filter((name) => name.endsWith('000002.json'));
      const text = await readFile(file, 'utf8');
      for (const damage of ['', text.slice(0, 20), 'null', '{}', text.replace('"operationId"', '"x"')]) {
        await writeFile(file, damage);
        const error = { code: 'invalid-record', message: /damaged: (000002\.json|batch 2)/ };
        await assert.rejects(another({ clockSkewMs: 0 }).load('c'), error, JSON.stringify(damage));
      }
    },
  );

  inDirectory(
    'F a file that is missing, or in the place of another, is damage, and nothing is written',
    async (made) => {
      const { directory, store, another } = made;
      await store.create(record('c'));
      const claim = await store.claim('c', 'me', 1000);
      for (let revision = 1; revision < 4; revision++) await store.append(batch(revision, { claim }));
      await store.release(claim);
      const files = await filesOf(directory);
      const [begun, created, claimed, second, third, fourth] = files.sort();
      const texts = new Map(await Promise.all(files.map(async (file) => [file, await readFile(file, 'utf8')])));
      const refused = async (title) => {
        const host = another({ clockSkewMs: 0 });
        await assert.rejects(host.load('c'), { code: 'invalid-record', message: /damaged: 00000\d\.json/ }, title);
        await assert.rejects(host.claim('c', 'other', 1000), { code: 'invalid-record' }, title);
        for (const [file, text] of texts) await writeFile(file, text);
      };
      for (const file of [begun, created, claimed, second, third, fourth]) {
        await unlink(file);
        await refused(`without ${file}`);
      }
      for (const [file, of] of [
        [third, second],
        [fourth, created],
        [second, fourth],
        [created, third],
      ]) {
        await writeFile(file, texts.get(of));
        await refused(`${of} in the place of ${file}`);
      }
      await writeFile(claimed, texts.get(claimed).replace('"fence":1', '"fence":7'));
      await refused('a fence that was not next');
      assert.equal((await another({ clockSkewMs: 0 }).load('c')).batches.length, 4);
    },
  );

  inDirectory('F errors of the file system are unavailable, with their cause', async ({ directory }) => {
    await writeFile(join(directory, 'file'), '');
    const store = fileStore({ directory: join(directory, 'file') });
    const error = await store.create(record('c')).catch((thrown) => thrown);
    assert.equal(error.code, 'unavailable');
    assert.match(error.cause.code, /ENOTDIR|EEXIST/);
  });

  test('options are checked: directory and clock', () => {
    for (const options of [{}, { directory: '' }, { directory: 5 }, { directory: 'x', clock: {} }]) {
      assert.throws(() => fileStore(options), { code: 'invalid-config' }, JSON.stringify(options));
    }
  });
});
