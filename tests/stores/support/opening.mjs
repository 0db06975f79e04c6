// Opens a store by its description, in whatever process.

/** @param where `{ kind: 'file', directory }`, `{ kind: 'sqlite', path }` or `{ kind: 'postgres', config, schema }` */
export async function openStore(where, options = {}) {
  if (where.kind === 'postgres') {
    const { postgresStore } = await import('agent-roundtable/postgres');
    const { default: pg } = await import('pg');
    const pool = new pg.Pool({ ...where.config, max: 4 });
    pool.on('error', () => {}); // connections that are cut while nobody uses them
    const store = postgresStore({ pool, schema: where.schema });
    return { store, pool, close: () => pool.end() };
  }
  const { fileStore, sqliteStore } = await import('agent-roundtable/node');
  if (where.kind === 'file')
    return { store: fileStore({ directory: where.directory, ...options }), close: async () => {} };
  const store = sqliteStore({ path: where.path, ...options });
  return { store, close: () => store.close() };
}
