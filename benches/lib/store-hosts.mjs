// Where each store is measured: on the disk, for what it does in a second; and in memory, where the machine has a
// file system there, for what a turn costs, since waiting for a disk would hide all the rest.
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { openStore } from '../../tests/stores/support/opening.mjs';
import { growth, throughput } from './store-work.mjs';

const MEMORY_DISK = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/** What is measured of each store; a store whose driver or server is not there rejects. */
export const MEASURED = {
  memory: async () => {
    const { MemoryConversationStore } = await import('../../pkg/dist/index.js');
    const kept = new MemoryConversationStore();
    const open = async () => ({ store: kept, close: async () => {} });
    return { ...(await throughput(open)), ...(await growth(open)) };
  },
  file: () => inFolders((folder) => ({ kind: 'file', directory: join(folder, 'files') })),
  sqlite: () => inFolders((folder) => ({ kind: 'sqlite', path: join(folder, 'bench.db') })),
  postgres: inPostgres,
  'indexed db': inChromium,
};

async function inFolders(where) {
  const onDisk = await withFolder(tmpdir(), (folder) => throughput(() => openStore(where(folder))));
  const costs = await withFolder(MEMORY_DISK, (folder) => {
    const written = async () => ({ written: writtenBy(process.pid), kept: await sizeOf(folder) });
    return growth(() => openStore(where(folder)), written);
  });
  return { ...onDisk, ...costs };
}

async function inPostgres() {
  const { skip, startPostgres } = await import('../../scripts/lib/postgres-server.mjs');
  if (skip) throw new Error(skip);
  const server = await startPostgres();
  try {
    const open = async (config, schema) => {
      const opened = await openStore({ kind: 'postgres', config, schema });
      await opened.store.setup();
      return opened;
    };
    const onDisk = await throughput(() => open(server.config, 'disk'));
    const config = { ...server.config, options: '-c synchronous_commit=off' };
    const { pool, close } = await open(config, 'counters');
    const written = async () => {
      await pool.query('CHECKPOINT');
      const { rows } = await pool.query('SELECT pg_current_wal_lsn() - $1 AS log, pg_database_size($2) AS kept', [
        '0/0',
        config.database,
      ]);
      return { written: Number(rows[0].log), kept: Number(rows[0].kept) };
    };
    const costs = await growth(() => open(config, 'costs'), written);
    await close();
    return { ...onDisk, ...costs };
  } finally {
    await server.remove();
  }
}

async function inChromium() {
  const { build } = await import('esbuild');
  const { CHROMIUM, serve } = await import('../../tests/support/chromium.mjs');
  const { chromium } = await import('playwright-core');
  return withFolder(tmpdir(), async (site) => {
    const page = fileURLToPath(new URL('../pages/stores.mjs', import.meta.url));
    await build({ entryPoints: [page], bundle: true, format: 'esm', outfile: join(site, 'stores.js') });
    await writeFile(join(site, 'index.html'), '<!doctype html><script type="module" src="stores.js"></script>');
    const server = await serve(site);
    const inTab = (parent, what) =>
      withFolder(parent, async (profile) => {
        const context = await chromium.launchPersistentContext(profile, CHROMIUM);
        try {
          const tab = await context.newPage();
          await tab.exposeFunction('written', async () => ({ kept: await sizeOf(join(profile, 'Default/IndexedDB')) }));
          await tab.goto(server.origin);
          await tab.waitForFunction(() => globalThis.result);
          return await tab.evaluate((name) => globalThis.measure[name](), what);
        } finally {
          await context.close();
        }
      });
    try {
      return { ...(await inTab(tmpdir(), 'throughput')), ...(await inTab(MEMORY_DISK, 'growth')) };
    } finally {
      await server.close();
    }
  });
}

async function withFolder(parent, work) {
  const folder = await mkdtemp(join(parent, 'bench-stores-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Bytes that a process has handed to the system, where the system counts them. */
function writtenBy(pid) {
  const path = `/proc/${pid}/io`;
  return existsSync(path) ? Number(/^wchar: (\d+)$/m.exec(readFileSync(path, 'utf8'))[1]) : Number.NaN;
}

/** Bytes of all files in a folder. */
async function sizeOf(folder) {
  const entries = existsSync(folder) ? await readdir(folder, { recursive: true, withFileTypes: true }) : [];
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name));
  // One may be gone again.
  const sizes = await Promise.all(
    files.map((file) =>
      stat(file).then(
        ({ size }) => size,
        () => 0,
      ),
    ),
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
