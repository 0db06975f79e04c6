// A process is killed after each of its writes, before and after it hears of it; a fresh one loads what is
// stored, reconciles where the journal says that nobody can know, and goes on to the same end. In a browser
// the process is a page, which is closed.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { launchChromium, serve } from '../support/chromium.mjs';
import { storedEntries } from './support/crash-conversation.mjs';
import { openStore } from './support/durable-stores.mjs';
import { skip as withoutPostgres, startPostgres } from '../../scripts/lib/postgres-server.mjs';
import { skip as withoutSqlite } from './support/sqlite-driver.mjs';

const PROGRAM = fileURLToPath(new URL('support/crash-program.mjs', import.meta.url));
const PAGE = fileURLToPath(new URL('pages/crash.mjs', import.meta.url));
const MOMENTS = ['landed', 'acknowledged'];
/** How many processes at a time. */
const LANES = 4;
const TITLE = 'C47 C48 C49 C50 a process killed after any write is succeeded by another';

test(`${TITLE}: file store`, async (t) => tryAll(t, 'file', inProcesses('file', await temporary(t))));

test(`${TITLE}: sqlite store`, { skip: withoutSqlite }, async (t) =>
  tryAll(t, 'sqlite', inProcesses('sqlite', await temporary(t))),
);

test(`${TITLE}: postgres store`, { skip: withoutPostgres }, async (t) => {
  const server = await startPostgres();
  t.after(() => server.remove());
  process.env.POSTGRES = JSON.stringify(server.config);
  await tryAll(t, 'postgres', inProcesses('postgres', await temporary(t)));
});

test(`${TITLE}: indexed db store`, async (t) => {
  const folder = await temporary(t);
  await build({
    entryPoints: [PAGE],
    bundle: true,
    format: 'esm',
    outfile: join(folder, 'crash.js'),
    logLevel: 'error',
  });
  await writeFile(join(folder, 'index.html'), '<!doctype html><script type="module" src="crash.js"></script>');
  const server = await serve(folder);
  t.after(() => server.close());
  const browser = await launchChromium();
  t.after(() => browser.close());
  await tryAll(t, 'indexed db', inPages(server.origin, await browser.newContext()));
});

/**
 * Tries every crash.
 * @param places gives a place for a conversation of its own: `hold` to its end, `crash` at a write, look at
 *   what is `stored`, and `recover`
 */
async function tryAll(t, store, places) {
  const whole = await places('undisturbed');
  const { effects, ...undisturbed } = await whole.hold();
  assert.equal(undisturbed.status, 'completed');
  const writes = (await whole.stored()).length;
  const crashes = Array.from({ length: writes }, (_, index) => index + 1).flatMap((write) =>
    MOMENTS.map((moment) => ({ write, moment })),
  );
  const rows = await inLanes(crashes, async ({ write, moment }) => {
    const place = await places(`${write} ${moment}`);
    await place.crash(write, moment);
    const batches = await place.stored();
    // What is right follows from the entries alone, and is worked out before anything is loaded.
    const expected = expectedOf(batches.flat());
    const { seen, effects, ...end } = await place.recover();
    return { write, moment, last: batches.at(-1).map(({ kind }) => kind), expected, seen, end, effects };
  });
  for (const { write, moment, last, expected, seen } of rows) {
    t.diagnostic(`${store}, write ${write} ${moment} (${last.join(', ')}): expected ${expected}, seen ${seen}`);
  }
  for (const { write, moment, expected, seen, end, ...row } of rows) {
    const where = `write ${write}, ${moment}`;
    assert.equal(seen, expected, where);
    assert.deepEqual(end, undisturbed, where);
    const turns = row.effects.map(({ turnId }) => turnId);
    assert.equal(new Set(turns).size, turns.length, `${where}: no effect twice`);
    assert.equal(turns.length, effects.length, where);
  }
  const refused = rows.filter(({ expected }) => expected === 'recovery-required').length;
  assert.ok(refused > 0 && refused < rows.length, 'both happen');
}

/** `recovery-required` where some turn's last entry says that it runs, or that its checkpoint is due. */
function expectedOf(entries) {
  const last = new Map();
  for (const { kind, entry } of entries) if (entry.turnId !== undefined) last.set(entry.turnId, kind);
  const unsettled = [...last.values()].some((kind) => kind === 'turn-started/1' || kind === 'turn-settled/1');
  return unsettled ? 'recovery-required' : 'finishes';
}

function inProcesses(kind, root) {
  return async (name) => {
    const folder = join(root, name);
    await mkdir(folder);
    const printed = async (command) => JSON.parse((await run(command, kind, folder)).stdout);
    return {
      hold: () => printed('hold'),
      recover: () => printed('recover'),
      async crash(write, moment) {
        assert.equal((await run('hold', kind, folder, write, moment)).signal, 'SIGKILL');
      },
      async stored() {
        const { store, close } = await openStore(kind, folder);
        const entries = await storedEntries(store);
        await close();
        return entries;
      },
    };
  };
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

function inPages(origin, context) {
  return async (name) => {
    const inPage = async (look) => {
      const page = await context.newPage();
      try {
        await page.goto(`${origin}?name=${encodeURIComponent(name)}`);
        await page.waitForFunction(() => globalThis.result);
        return await look(page);
      } finally {
        await page.close();
      }
    };
    const crash = async (page, at) => {
      page.evaluate((at) => globalThis.hold(...at), at).catch(() => {});
      await page.waitForFunction(() => globalThis.dead);
    };
    return {
      hold: () => inPage((page) => page.evaluate(() => globalThis.hold())),
      recover: () => inPage((page) => page.evaluate(() => globalThis.recover())),
      crash: (...at) => inPage((page) => crash(page, at)),
      stored: () => inPage((page) => page.evaluate(() => globalThis.stored())),
    };
  };
}

async function temporary(t) {
  const folder = await mkdtemp(join(tmpdir(), 'crashes-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
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
