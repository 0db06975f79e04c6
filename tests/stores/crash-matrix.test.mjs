// A process is killed after each of its writes, before and after it hears of it; a fresh one loads what is
// stored, reconciles where the journal says that nobody can know, and goes on to the same end.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { CONVERSATION, openStore, STORES } from './support/durable-stores.mjs';

const PROGRAM = fileURLToPath(new URL('support/crash-program.mjs', import.meta.url));
const MOMENTS = ['landed', 'acknowledged'];
/** How many processes at a time. */
const LANES = 4;

for (const kind of STORES) {
  test(`C50 C47 C48 C49 on the ${kind} store, a process killed after any write is succeeded by another`, async (t) => {
    const root = await mkdtemp(join(tmpdir(), `crashes-${kind}-`));
    t.after(() => rm(root, { recursive: true, force: true }));
    const undisturbed = await inFolder(root, 'undisturbed', async (folder) => {
      const end = JSON.parse((await run('hold', kind, folder)).stdout);
      return { ...end, writes: (await storedKinds(kind, folder)).length, effects: await effects(folder) };
    });
    assert.equal(undisturbed.status, 'completed');

    const crashes = Array.from({ length: undisturbed.writes }, (_, index) => index + 1).flatMap((write) =>
      MOMENTS.map((moment) => ({ write, moment })),
    );
    const rows = await inLanes(crashes, async ({ write, moment }) =>
      inFolder(root, `${write}-${moment}`, async (folder) => {
        const { signal } = await run('hold', kind, folder, write, moment);
        assert.equal(signal, 'SIGKILL');
        const batches = await storedKinds(kind, folder);
        // What is right follows from the entries alone, and is worked out before anything is loaded.
        const expected = expectedOf(batches.flat());
        const { stdout } = await run('recover', kind, folder);
        const { seen, ...end } = JSON.parse(stdout);
        return {
          write,
          moment,
          last: batches.at(-1).map(({ kind }) => kind),
          expected,
          seen,
          end,
          effects: await effects(folder),
        };
      }),
    );
    for (const { write, moment, last, expected, seen } of rows) {
      t.diagnostic(`${kind}, write ${write} ${moment} (${last.join(', ')}): expected ${expected}, seen ${seen}`);
    }
    for (const { write, moment, expected, seen, end, effects } of rows) {
      const where = `write ${write}, ${moment}`;
      assert.equal(seen, expected, where);
      assert.deepEqual(end, { status: undisturbed.status, said: undisturbed.said }, where);
      assert.equal(new Set(effects).size, effects.length, `${where}: no effect twice`);
      assert.equal(effects.length, undisturbed.effects.length, where);
    }
    const refused = rows.filter(({ expected }) => expected === 'recovery-required').length;
    assert.ok(refused > 0 && refused < rows.length, 'both happen');
  });
}

/** `recovery-required` where some turn's last entry says that it runs, or that its checkpoint is due. */
function expectedOf(entries) {
  const last = new Map();
  for (const { kind, entry } of entries) if (entry.turnId !== undefined) last.set(entry.turnId, kind);
  const unsettled = [...last.values()].some((kind) => kind === 'turn-started/1' || kind === 'turn-settled/1');
  return unsettled ? 'recovery-required' : 'finishes';
}

async function storedKinds(kind, folder) {
  const { store, close } = await openStore(kind, folder);
  const { batches } = await store.read(CONVERSATION, { after: 0 });
  await close();
  return batches.map(({ entries }) =>
    entries.map((line) => {
      const [[kind, entry]] = Object.entries(JSON.parse(line));
      return { kind, entry };
    }),
  );
}

function run(...args) {
  const program = [...process.execArgv, PROGRAM, ...args.map(String)];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, program, (error, stdout, stderr) => {
      if (error !== null && error.signal !== 'SIGKILL') reject(new Error(`${args.join(' ')}: ${stderr}`));
      else resolve({ stdout, signal: error?.signal });
    });
  });
}

async function inFolder(root, name, work) {
  const folder = join(root, name);
  await mkdir(folder);
  return work(folder);
}

async function effects(folder) {
  const text = await readFile(join(folder, 'effects'), 'utf8').catch(() => '');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line).turnId);
}

async function inLanes(items, work) {
  const results = [];
  let next = 0;
  const lane = async () => {
    while (next < items.length) {
      const index = next++;
      results[index] = await work(items[index]);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return results;
}
