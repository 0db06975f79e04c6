/** A stored journal, read in pages by someone who takes no part in the conversation. */

import { safeInteger } from '../conversation/calls.js';
import { currentEngine } from '../engine.js';
import { RoundtableError } from '../errors.js';
import type { JournalReader } from '../generated/bindings.js';
import type { ConversationStore } from '../store-types.js';
import { BadValue, describe, elements, identifier, isFunction } from '../values.js';
import { ask } from './ask.js';

/** How many batches are asked for at once. */
const PAGE = 256;

/** What is read of a store; without `load`, only a journal that is there from its beginning. */
export type Batches = Pick<ConversationStore, 'read'> & { readonly load?: ConversationStore['load'] | undefined };

/** The store and the id that every inspection names. @throws BadValue naming the option */
export function readSource(given: ReadonlyMap<string, unknown>): {
  store: ConversationStore;
  conversationId: string;
} {
  const store = given.get('store') as ConversationStore | null | undefined;
  if (!isFunction(store?.read)) throw new BadValue('store', 'must be a ConversationStore');
  return { store, conversationId: identifier(given.get('conversationId'), 'conversationId') };
}

/** A revision that there can be. @throws BadValue */
export function positiveRevision(value: unknown, path: string): number {
  const revision = safeInteger(value, path);
  if (revision === 0) throw new BadValue(path, 'must be a revision from 1');
  return revision;
}

/** A journal as far as it was read. Call `close` when done with it. */
export class StoredJournal {
  readonly #store: Batches;
  readonly #conversationId: string;
  readonly #link = currentEngine();
  #reader: JournalReader | undefined;
  /** The store's revision when it was last asked. */
  latest = 0;

  constructor(store: Batches, conversationId: string) {
    this.#store = store;
    this.#conversationId = conversationId;
    this.#reader = ask((engine) => new engine.JournalReader(conversationId), this.#link);
  }

  /** The whole journal, or the part up to a revision. @throws RoundtableError as {@link next} does */
  static async upTo(store: Batches, conversationId: string, until?: number): Promise<StoredJournal> {
    const journal = new StoredJournal(store, conversationId);
    try {
      do await journal.next({ until });
      while (journal.revision < (until ?? journal.latest));
      return journal;
    } catch (error) {
      journal.close();
      throw error;
    }
  }

  get revision(): number {
    return this.read((reader) => reader.revision());
  }

  /** @throws RoundtableError what the engine refuses, or `internal` when it is lost */
  read<T>(question: (reader: JournalReader) => T): T {
    const reader = this.#reader;
    if (reader === undefined) throw new RoundtableError('disposed', 'the journal was closed');
    return ask(() => question(reader), this.#link);
  }

  /**
   * Reads the next page; JSON of its events after a revision, where one is asked for.
   * @param until no batch after this one is read, and that it is missing is an error
   * @throws RoundtableError `not-found`, `invalid-record` naming the entry, the store's own, `unavailable`
   */
  async next({ until, eventsAfter }: { until?: number | undefined; eventsAfter?: number }): Promise<string> {
    const after = this.revision;
    if (until !== undefined && after >= until) return '[]';
    try {
      return await this.#page(after, until, eventsAfter);
    } catch (error) {
      // The beginning may have been compacted: a snapshot holds what it came to.
      const isGone = error instanceof RoundtableError && error.code === 'not-found' && after === 0;
      const latest = Math.min(until ?? Number.MAX_SAFE_INTEGER, eventsAfter ?? Number.MAX_SAFE_INTEGER);
      if (!isGone || !(await this.#restore(latest))) throw error;
      return '[]';
    }
  }

  async #page(after: number, until: number | undefined, eventsAfter: number | undefined): Promise<string> {
    const limit = Math.min(PAGE, (until ?? Number.MAX_SAFE_INTEGER) - after);
    const page = await fromStore(this.#conversationId, async () => {
      const found: unknown = await this.#store.read(this.#conversationId, { after, limit });
      return found === undefined || found === null ? undefined : readPage(found);
    });
    if (page === undefined) throw this.#missing('does not exist');
    if (page.revision < this.latest) throw this.#missing('was deleted and made again');
    this.latest = page.revision;
    const last = until ?? page.revision;
    if (last > page.revision) throw this.#missing(`has no revision ${last}, its last is ${page.revision}`);
    if (page.lines === '' && last > after) throw this.#missing(`has no batch ${after + 1} any more`);
    return this.read((reader) => reader.add(page.lines, eventsAfter));
  }

  /** Gives the engine's reader to whoever goes on with it. */
  release(): JournalReader {
    const reader = this.#reader;
    this.#reader = undefined;
    if (reader === undefined) throw new RoundtableError('disposed', 'the journal was closed');
    return reader;
  }

  /** Begins with the store's snapshot, where there is one of this revision or an earlier one. */
  async #restore(latest: number): Promise<boolean> {
    const record = await fromStore(this.#conversationId, async () => this.#store.load?.(this.#conversationId));
    const snapshot = record?.snapshot;
    if (snapshot === undefined || snapshot.revision > latest) return false;
    if (!this.read((reader) => reader.restore(snapshot.revision, snapshot.state))) {
      const what = `has a snapshot of revision ${snapshot.revision} that cannot be read, and no batches before it`;
      throw new RoundtableError('invalid-record', `the conversation ${JSON.stringify(this.#conversationId)} ${what}`);
    }
    this.latest = record?.revision ?? 0;
    return true;
  }

  close(): void {
    const reader = this.#reader;
    this.#reader = undefined;
    if (!this.#link.lost.aborted) reader?.free();
  }

  #missing(what: string): RoundtableError {
    return new RoundtableError('not-found', `the conversation ${JSON.stringify(this.#conversationId)} ${what}`);
  }
}

/**
 * What a store call gives.
 * @throws RoundtableError the store's own, `not-found` and `conflict` by any error with that code, else `unavailable`
 */
export async function fromStore<T>(conversationId: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof RoundtableError) throw error;
    const code = (error as { code?: unknown } | null | undefined)?.code;
    const known = code === 'not-found' || code === 'conflict' ? code : 'unavailable';
    const what = known === 'unavailable' ? 'the store failed' : `the store refused: ${known}`;
    const message = `${what}, for the conversation ${JSON.stringify(conversationId)}`;
    throw new RoundtableError(known, message, { cause: error });
  }
}

/** A page in the form that the engine folds. */
export function readPage(value: unknown): { revision: number; lines: string } {
  const { revision, batches } = object(value, 'read') as { revision?: unknown; batches?: unknown };
  const lines: string[] = [];
  for (const [index, item] of elements(batches, 'store: batches', Number.MAX_SAFE_INTEGER).entries()) {
    const path = `store: batches[${index}]`;
    const batch = object(item, path);
    const entries = elements(batch['entries'], `${path}.entries`, Number.MAX_SAFE_INTEGER);
    lines.push(String(safeInteger(batch['revision'], `${path}.revision`)), String(entries.length));
    for (const entry of entries) {
      if (typeof entry !== 'string') throw new BadValue(`${path}.entries`, 'must be strings');
      // No entry has a line end; with NUL in its place the engine refuses it, by its index.
      lines.push(entry.replaceAll('\n', '\0'));
    }
  }
  return { revision: safeInteger(revision, 'store: revision'), lines: lines.join('\n') };
}

function object(value: unknown, path: string): Record<string, unknown> {
  if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  throw new BadValue(path, `must be an object, not ${describe(value)}`);
}
