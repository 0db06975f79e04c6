/** SQLite through Node's own module, or through better-sqlite3 where Node has none. */

import { RoundtableError } from '../../errors.js';

/** What is used of a database; both drivers have it. */
export interface Database {
  exec(sql: string): unknown;
  prepare(sql: string): Statement;
  close(): void;
}

export interface Statement {
  run(...values: readonly SqlValue[]): unknown;
  get(...values: readonly SqlValue[]): unknown;
  all(...values: readonly SqlValue[]): unknown[];
}

export type SqlValue = string | number | null | Uint8Array;

type Open = new (path: string) => Database;

/** Opens a database file. */
export async function openDatabase(path: string): Promise<Database> {
  const Driver = nodeSqlite() ?? (await betterSqlite());
  return new Driver(path);
}

function nodeSqlite(): Open | undefined {
  // Not an import, which would fail where the module is missing.
  const found = process.getBuiltinModule?.('node:sqlite') as { DatabaseSync?: Open } | undefined;
  return found?.DatabaseSync;
}

async function betterSqlite(): Promise<Open> {
  const name: string = 'better-sqlite3'; // an optional peer: nothing that bundles this needs to find it
  try {
    return ((await import(name)) as { default: Open }).default;
  } catch (error) {
    const message = 'sqliteStore needs a Node.js with node:sqlite (22.13 or later), or the package better-sqlite3';
    throw new RoundtableError('invalid-config', message, { cause: error });
  }
}
