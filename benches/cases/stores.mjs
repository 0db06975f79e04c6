// What each store does in a second: appends by one owner to one conversation, and to eight at the same time;
// and how long a process that knows nothing takes to load it. A store whose driver or server is not there is left out.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openStore } from '../../tests/stores/support/opening.mjs';
import { TEXT } from '../lib/conversation.mjs';

const APPENDS = 2_000;
const TOGETHER = 8;

/** @returns rows of results; times are of the clock, since stores wait for disks and servers */
export default async function stores() {
  const folder = await mkdtemp(join(tmpdir(), 'bench-stores-'));
  const rows = [];
  try {
    for (const [name, measured] of [
      ['memory', async () => measure(async () => ({ store: await memory(), close: async () => {} }))],
      ['file', async () => measure(() => openStore({ kind: 'file', directory: join(folder, 'files') }))],
      ['sqlite', async () => measure(() => openStore({ kind: 'sqlite', path: join(folder, 'x.db') }))],
      ['postgres', () => postgres()],
      ['indexed db', () => indexedDb(folder)],
    ]) {
      rows.push(...(await measured().then(rowsOf, left)).map((row) => ({ ...row, what: `${name}: ${row.what}` })));
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  return { rows };
}

function rowsOf({ one, together, load }) {
  return [
    { what: 'appends to one conversation', value: one, unit: '/s' },
    { what: `appends to ${TOGETHER} at the same time`, value: together, unit: '/s' },
    { what: `load ${APPENDS.toLocaleString('en')} batches of 500 B, nothing known`, value: load, unit: 'ms' },
  ];
}

function left(error) {
  return [{ what: 'left out', note: error.message.split('\n')[0] }];
}

/** Runs in this process and, as text, in a page. */
async function measureStores(open, appends, together, text) {
  const summary = { status: 'open', members: ['a', 'b'], createdAt: '2027-01-01T00:00:00.000Z', updatedAt: '' };
  const work = async (store, conversationId, count) => {
    await store.create({ conversationId, kind: 'roundtable', schemaVersion: 1, entries: [text], summary });
    const claim = await store.claim(conversationId, 'bench', 600_000);
    const start = performance.now();
    for (let revision = 1; revision <= count; revision++) {
      const batch = { conversationId, claim, expectedRevision: revision, operationId: `x${revision}` };
      await store.append({ ...batch, entries: [text], summary });
    }
    const took = performance.now() - start;
    await store.release(claim);
    return took;
  };
  const { store, close } = await open();
  await work(store, 'warm', 100);
  const one = (1_000 * appends) / (await work(store, 'one', appends));
  const each = Math.ceil(appends / together);
  const start = performance.now();
  await Promise.all(Array.from({ length: together }, (_, i) => work(store, `together ${i}`, each)));
  const all = (1_000 * each * together) / (performance.now() - start);
  await close();
  const again = await open();
  await again.store.load('warm'); // connected
  const loading = performance.now();
  const { batches } = await again.store.load('one');
  const load = performance.now() - loading;
  await again.close();
  if (batches.length !== appends + 1) throw new Error(`${batches.length} batches`);
  return { one, together: all, load };
}

const measure = (open) => measureStores(open, APPENDS, TOGETHER, TEXT);

let kept;
async function memory() {
  const { MemoryConversationStore } = await import('../../pkg/dist/index.js');
  kept ??= new MemoryConversationStore();
  return kept;
}

async function postgres() {
  const { skip, startPostgres } = await import('../../scripts/lib/postgres-server.mjs');
  if (skip) throw new Error(skip);
  const server = await startPostgres();
  try {
    return await measure(async () => {
      const opened = await openStore({ kind: 'postgres', config: server.config, schema: 'bench' });
      await opened.store.setup();
      return opened;
    });
  } finally {
    await server.remove();
  }
}

async function indexedDb(folder) {
  const { build } = await import('esbuild');
  const { launchChromium, serve } = await import('../../tests/support/chromium.mjs');
  const page = fileURLToPath(new URL('../../tests/stores/pages/store.mjs', import.meta.url));
  await build({ entryPoints: [page], bundle: true, format: 'esm', outfile: join(folder, 'store.js') });
  await writeFile(join(folder, 'index.html'), '<!doctype html><script type="module" src="store.js"></script>');
  const server = await serve(folder);
  const browser = await launchChromium();
  try {
    const tab = await browser.newPage();
    await tab.goto(server.origin);
    await tab.waitForFunction(() => globalThis.result);
    const program = `(${measureStores})(async () => {
      const store = globalThis.indexedDbStore({ name: 'bench' });
      return { store, close: () => store.close() };
    }, ${APPENDS}, ${TOGETHER}, ${JSON.stringify(TEXT)})`;
    return await tab.evaluate(program);
  } finally {
    await browser.close();
    await server.close();
  }
}
