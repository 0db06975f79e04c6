// The SQLite that the store uses on this Node, for tests that look into its file.

const own = process.getBuiltinModule?.('node:sqlite');
const peer = own === undefined ? await import('better-sqlite3').catch(() => undefined) : undefined;

export const driver = own === undefined ? 'better-sqlite3' : 'node:sqlite';
export const Database = own?.DatabaseSync ?? peer?.default;
/** Why tests of SQLite are left out, if they are. */
export const skip =
  Database === undefined && `this Node has no SQLite, and better-sqlite3 could not be installed (see scripts/setup.sh)`;
