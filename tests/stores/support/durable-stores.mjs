// The durable stores that tests of whole processes run on, by name, each in a folder of its own. For
// `postgres` the folder names the tables, and the variable POSTGRES says how to connect, in JSON.
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { fileStore, sqliteStore } from 'agent-roundtable/node';
import { postgresStore } from 'agent-roundtable/postgres';

/** @returns the store and what closes it */
export async function openStore(kind, folder) {
  switch (kind) {
    case 'file':
      return { store: fileStore({ directory: join(folder, 'store') }), close: async () => {} };
    case 'sqlite': {
      const store = sqliteStore({ path: join(folder, 'store.db') });
      return { store, close: () => store.close() };
    }
    case 'postgres': {
      const { default: pg } = await import('pg');
      const pool = new pg.Pool({ ...JSON.parse(process.env.POSTGRES), max: 4 });
      const schema = `s_${createHash('sha256').update(folder).digest('hex').slice(0, 16)}`;
      const store = postgresStore({ pool, schema });
      await store.setup();
      return { store, close: () => pool.end() };
    }
    default:
      throw new Error(`there is no store ${kind}`);
  }
}
