/**
 * Sessions and their journals. What the engine decides is appended under compare-and-set; where another
 * host was faster, its entries are folded in and the engine decides again. Calls on one session are made
 * one after the other, so that only hosts compete and never the callers of one.
 */

import { currentEngine, type EngineLink } from '../engine.js';
import type { DeliberationHandle } from '../generated/bindings.js';
import type { Batch, ConversationStore, RecordSummary } from '../store-types.js';
import { DeliberationError, type DeliberationErrorCode } from './errors.js';

/** How often a decision is made anew before a call gives up; each time somebody else's landed. */
const MAX_ATTEMPTS = 1000;
/** How often an append, or a creation, is tried whose outcome is unknown. */
const MAX_REPEATS = 3;
/** How many sessions are kept in memory. */
const MAX_OPEN = 256;

/** What the engine decided. */
export interface Decided {
  readonly entries: string[];
  readonly summary: RecordSummary;
  /** These entries add the items of the outbox from the first to before the end. */
  readonly firstItem: number;
  readonly endItem: number;
  readonly reply?: unknown;
  /** Why the caller is refused; there may be entries all the same. */
  readonly error?: unknown;
}

interface Opened {
  readonly id: string;
  readonly handle: DeliberationHandle;
  revision: number;
}

export class Sessions {
  readonly #store: ConversationStore;
  readonly #nonce = randomHex();
  readonly #tails = new Map<string, Promise<unknown>>();
  /** Least recently used first. */
  readonly #opened = new Map<string, Opened>();
  #link: EngineLink | undefined;
  #operations = 0;

  constructor(store: ConversationStore) {
    this.#store = store;
  }

  /**
   * Decides and appends; what it gives is in the journal. `failed` is the reason of an error that the engine does not give.
   * @throws DeliberationError
   */
  async run(id: string, failed: string, decide: (handle: DeliberationHandle) => string): Promise<Decided> {
    return this.#inTurn(id, failed, async () => {
      let isFresh = !this.#isOpen(id);
      const opened = await this.#open(id, failed);
      for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        const decided = read(decide(opened.handle), failed);
        if (decided.entries.length === 0) {
          // A refusal must not come of a state that is out of date; an append finds that out by itself.
          if (isFresh) return decided;
        } else if (await this.#append(opened, decided, failed)) {
          opened.handle.confirm();
          return decided;
        }
        await this.#refresh(opened, failed);
        isFresh = true;
      }
      throw new DeliberationError('unavailable', 'other hosts were faster each time', { reason: failed });
    });
  }

  /** Reads a session as it is now, or, without `isLatest`, as this host knows it. @throws DeliberationError */
  async look<T>(id: string, failed: string, use: (handle: DeliberationHandle) => T, isLatest = true): Promise<T> {
    return this.#inTurn(id, failed, async () => {
      const isFresh = !this.#isOpen(id);
      const opened = await this.#open(id, failed);
      if (isLatest && !isFresh) await this.#refresh(opened, failed);
      return use(opened.handle);
    });
  }

  /** Whether there is a session. */
  async exists(id: string, failed: string): Promise<boolean> {
    return this.look(id, failed, () => true).catch((error: unknown) => {
      if (error instanceof DeliberationError && error.code === 'not-found') return false;
      throw error;
    });
  }

  /** Stores a session's first batch; `false` where there is another of that id. @throws DeliberationError */
  async create(
    id: string,
    { entries, summary }: Pick<Decided, 'entries' | 'summary'>,
    failed: string,
  ): Promise<boolean> {
    return this.#inTurn(id, failed, async () => {
      let error: unknown;
      for (let repeat = 0; repeat < MAX_REPEATS; repeat++) {
        try {
          await this.#store.create({ conversationId: id, kind: 'deliberation', schemaVersion: 1, entries, summary });
          return true;
        } catch (thrown) {
          error = thrown;
          // After a lost acknowledgement it is there, and it is this one.
          if (codeOf(thrown) === 'conflict') return repeat > 0 && (await this.#firstLine(id)) === entries[0];
        }
      }
      // It may be there all the same, and nobody would know of it.
      await this.#store.delete(id).catch(() => {});
      throw storeFailed(error, failed);
    });
  }

  /** Deletes a session. @throws DeliberationError */
  async delete(id: string, failed: string): Promise<void> {
    return this.#inTurn(id, failed, async () => {
      await this.#store.delete(id);
      this.#forget(id);
    });
  }

  #forget(id: string): void {
    this.#opened.get(id)?.handle.free();
    this.#opened.delete(id);
  }

  forgetAll(): void {
    for (const id of [...this.#opened.keys()]) this.#forget(id);
  }

  #inTurn<T>(id: string, failed: string, work: () => Promise<T>): Promise<T> {
    const checked = async (): Promise<T> => {
      try {
        this.#enterEngine();
        return await work();
      } catch (error) {
        if (error instanceof DeliberationError) throw error;
        this.#opened.delete(id);
        throw internal(error, failed);
      }
    };
    const result = (this.#tails.get(id) ?? Promise.resolve()).then(checked);
    const tail = result.then(nothing, nothing).then(() => {
      if (this.#tails.get(id) === tail) this.#tails.delete(id);
    });
    this.#tails.set(id, tail);
    return result;
  }

  /** What belongs to an engine that trapped is gone. */
  #enterEngine(): void {
    const link = currentEngine();
    if (this.#link !== link) this.#opened.clear();
    this.#link = link;
  }

  #isOpen(id: string): boolean {
    return this.#opened.has(id);
  }

  async #open(id: string, failed: string): Promise<Opened> {
    const known = this.#opened.get(id);
    if (known !== undefined) {
      this.#opened.delete(id);
      this.#opened.set(id, known);
      return known;
    }
    const found = await this.#read(id, 0, failed);
    const lines = found.flatMap((batch) => [...batch.entries]);
    const { engine } = currentEngine();
    const opened = { id, handle: new engine.DeliberationHandle(lines), revision: found.length };
    this.#opened.set(id, opened);
    // A session that is in use by another call has its turn; those stay.
    for (const oldest of [...this.#opened.keys()]) {
      if (this.#opened.size <= MAX_OPEN) break;
      if (!this.#tails.has(oldest)) this.#forget(oldest);
    }
    return opened;
  }

  async #refresh(opened: Opened, failed: string): Promise<void> {
    const found = await this.#read(opened.id, opened.revision, failed);
    try {
      for (const batch of found) opened.handle.follow([...batch.entries]);
    } catch (error) {
      this.#forget(opened.id);
      throw error;
    }
    opened.revision += found.length;
  }

  /** The batches after a revision, all of them. */
  async #read(id: string, after: number, failed: string): Promise<Batch[]> {
    const batches: Batch[] = [];
    for (;;) {
      const found = await this.#store.read(id, { after: after + batches.length }).catch((error: unknown) => {
        throw storeFailed(error, failed);
      });
      if (found === undefined || found === null) {
        this.#forget(id);
        throw new DeliberationError('not-found', 'there is no such session', { reason: failed });
      }
      for (const batch of found.batches) {
        if (batch.revision !== after + batches.length + 1) throw new Error('the store gave batches out of order');
        batches.push(batch);
      }
      if (after + batches.length >= found.revision || found.batches.length === 0) return batches;
    }
  }

  /** Whether it landed. */
  async #append(opened: Opened, { entries, summary }: Decided, failed: string): Promise<boolean> {
    const operationId = `${this.#nonce}-${this.#operations++}`;
    const expectedRevision = opened.revision;
    const batch = { conversationId: opened.id, expectedRevision, operationId, entries, summary };
    let error: unknown;
    for (let repeat = 0; repeat < MAX_REPEATS; repeat++) {
      try {
        const { revision } = await this.#store.append(batch);
        if (revision !== expectedRevision + 1) throw new Error('the store gave the receipt of another append');
        opened.revision = revision;
        return true;
      } catch (thrown) {
        const code = codeOf(thrown);
        if (code === 'conflict' || code === 'busy') return false;
        if (code === 'not-found') {
          this.#forget(opened.id);
          throw new DeliberationError('not-found', 'there is no such session', { reason: failed });
        }
        error = thrown;
      }
    }
    this.#forget(opened.id);
    throw storeFailed(error, failed);
  }

  async #firstLine(id: string): Promise<string | undefined> {
    return (await this.#store.read(id, { after: 0, limit: 1 }))?.batches[0]?.entries[0];
  }
}

/** What the engine answered. @throws DeliberationError where it could not fold its own decision */
export function read<T = Decided>(answer: string, failed: string): T {
  const decided = JSON.parse(answer) as T & { broken?: string };
  if (decided.broken === undefined) return decided;
  throw new DeliberationError('internal', decided.broken, { reason: failed });
}

/** @throws DeliberationError as the engine refused it */
export function finish<T extends { error?: unknown }>(decided: T): T {
  if (decided.error === undefined) return decided;
  const { code, message, ...more } = decided.error as {
    code: DeliberationErrorCode;
    message: string;
    reason: string;
    field?: string;
  };
  throw new DeliberationError(code, message, more);
}

/** What went wrong is the cause, for the host; the message may go to callers. */
export function internal(error: unknown, failed: string): DeliberationError {
  return new DeliberationError('internal', 'the engine, the store or a stored session failed', {
    reason: failed,
    cause: error,
  });
}

export function storeFailed(error: unknown, failed: string): DeliberationError {
  return new DeliberationError('internal', 'the store failed', { reason: failed, cause: error });
}

/** 128 bits, to tell hosts apart. */
export function randomHex(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

function codeOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null ? (error as { code?: unknown }).code : undefined;
}

function nothing(): void {}
