/** What is used of a connection pool, and what its errors mean. */

import { RoundtableError } from '../../errors.js';

/** What a query gives. */
export interface PostgresResult {
  readonly rows: readonly Record<string, unknown>[];
}

/** A connection pool; `Pool` of the package `pg` is one. */
export interface PostgresPool {
  query(text: string, values?: unknown[]): Promise<PostgresResult>;
  connect(): Promise<PostgresClient>;
}

/** A connection of its own, for a while. */
export interface PostgresClient {
  query(text: string, values?: unknown[]): Promise<PostgresResult>;
  /** `true`: the connection is not to be used again. */
  release(destroy?: boolean): void;
  on(event: 'notification', listener: (message: { payload?: string | undefined }) => void): unknown;
  on(event: 'error' | 'end', listener: (error?: Error) => void): unknown;
}

export type Row = Record<string, unknown>;

/** How often a statement is repeated that the server gave up for another's sake. */
const REPETITIONS = 5;

/** The rows of one statement. Errors have a code that says what is known of the outcome. */
export async function rowsOf(
  on: Pick<PostgresPool, 'query'>,
  text: string,
  values: readonly unknown[],
): Promise<readonly Row[]> {
  for (let repetition = 1; ; repetition++) {
    try {
      return (await on.query(text, [...values])).rows;
    } catch (error) {
      const state = stateOf(error);
      // Rolled back as a whole, by a serialization failure or a deadlock.
      if ((state === '40001' || state === '40P01') && repetition < REPETITIONS) continue;
      throw failure(error);
    }
  }
}

/** Whether a unique value was there already. */
export function isDuplicate(error: unknown): boolean {
  return error instanceof RoundtableError && stateOf(error.cause) === '23505';
}

export function failure(error: unknown): RoundtableError {
  if (error instanceof RoundtableError) return error;
  const state = stateOf(error);
  const what = error instanceof Error ? error.message : String(error);
  // An undefined table or schema.
  if (state === '42P01' || state === '3F000') {
    const message = `the tables are missing: call setup() of the store once (${what})`;
    return new RoundtableError('invalid-config', message, { cause: error });
  }
  return new RoundtableError('unavailable', `PostgreSQL failed: ${what}`, { cause: error });
}

function stateOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}
