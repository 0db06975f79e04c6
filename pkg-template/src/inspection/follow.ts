/** A conversation's durable events, followed from anywhere that can read its store. */

import { safeInteger } from '../conversation/calls.js';
import { readClock } from '../conversation/clock.js';
import { checked } from '../conversation/engine-handle.js';
import type { ConversationStore } from '../store-types.js';
import type { Clock, DurableEvent } from '../types.js';
import { BadValue, deepFreeze, exactly, isFunction, readSignal } from '../values.js';
import { readSource, StoredJournal } from './stored-journal.js';

/** How often a store is asked for more, in milliseconds; the second where it tells of changes itself. */
const POLL_MS = 1000;
const WATCHED_POLL_MS = 30_000;
/** The longest delay that a host's timer takes. */
const MAX_DELAY = 2 ** 31 - 1;

/** What {@link followConversation} takes. */
export interface FollowOptions {
  store: ConversationStore;
  conversationId: string;
  /** The first event is of the revision after this one. Default 0: from the beginning. */
  afterRevision?: number;
  /** Ends it. */
  signal?: AbortSignal;
  /**
   * How often the store is asked for more, in milliseconds. Default 1,000, or 30,000 where the store has
   * `watch`, which tells of most changes at once.
   */
  pollMs?: number;
  /** For the time between; default: the environment's. */
  clock?: Clock;
}

/**
 * The events of a stored conversation after a revision, those of other hosts included: each once, in order,
 * and every one durable, so there are no deltas. It takes no claim. Nothing is read ahead of the consumer
 * but one page of the journal, so that one who is slow costs nothing and misses nothing.
 *
 * It goes on from run to run; it ends when the conversation has completed or failed, when `signal` fires, or
 * when the consumer stops. The events of a revision come one after the other; to go on later, join after the
 * last revision of which all were handled.
 * @throws RoundtableError at once `invalid-config`; from the iterator `not-found` for a conversation that
 *   there is not (any more) or whose next events were compacted, `invalid-record` naming the entry that does
 *   not fold, the store's own, or `unavailable`
 */
export function followConversation(options: FollowOptions): AsyncIterableIterator<DurableEvent> {
  const following = new Following(checked(() => readOptions(options)));
  const events = following.events();
  const iterator: AsyncIterableIterator<DurableEvent> = {
    next: () => events.next(),
    // A generator that waits would hear of it only after that.
    return() {
      following.stop();
      return events.return(undefined);
    },
    [Symbol.asyncIterator]: () => iterator,
  };
  return iterator;
}

type Read = ReturnType<typeof readOptions>;

function readOptions(options: unknown) {
  const optional = ['afterRevision', 'signal', 'pollMs', 'clock'];
  const given = exactly(options, 'options', ['store', 'conversationId'], optional);
  const pollMs = given.has('pollMs') ? safeInteger(given.get('pollMs'), 'pollMs') : undefined;
  if (pollMs === 0 || (pollMs ?? 0) > MAX_DELAY) throw new BadValue('pollMs', `must be from 1 to ${MAX_DELAY}`);
  return {
    ...readSource(given),
    after: given.has('afterRevision') ? safeInteger(given.get('afterRevision'), 'afterRevision') : 0,
    signal: readSignal(given.get('signal'), 'signal'),
    pollMs,
    clock: readClock(given.get('clock')),
  };
}

class Following {
  readonly #options: Read;
  #stopped = false;
  /** The store told of a change since it was last asked. */
  #changed = false;
  #wake: () => void = () => {};
  #unwatch: (() => void) | undefined;

  constructor(options: Read) {
    this.#options = options;
  }

  readonly stop = (): void => {
    this.#stopped = true;
    this.#unwatch?.();
    this.#wake();
  };

  async *events(): AsyncGenerator<DurableEvent, undefined> {
    const { store, conversationId, after, signal } = this.#options;
    if (signal?.aborted === true) this.stop();
    if (this.#stopped) return;
    signal?.addEventListener('abort', this.stop);
    const journal = new StoredJournal(store, conversationId);
    this.#unwatch = this.#watch();
    try {
      for (;;) {
        this.#changed = false;
        const page = await this.#orStopped(journal.next({ eventsAfter: after }));
        for (const event of JSON.parse(page ?? '[]') as DurableEvent[]) {
          if (this.#stopped) return;
          yield deepFreeze(event);
        }
        if (this.#stopped) return;
        if (journal.revision < journal.latest) continue;
        if (journal.read((reader) => reader.ended())) return;
        await this.#pause(this.#unwatch === undefined ? POLL_MS : WATCHED_POLL_MS);
      }
    } finally {
      this.stop();
      journal.close();
      signal?.removeEventListener('abort', this.stop);
    }
  }

  /** Begins to be told of changes, where the store can do that; what ends it. */
  #watch(): (() => void) | undefined {
    const { store, conversationId } = this.#options;
    if (!isFunction(store.watch)) return undefined;
    try {
      const end: unknown = store.watch(conversationId, () => {
        this.#changed = true;
        this.#wake();
      });
      return isFunction(end) ? end : undefined;
    } catch {
      // Then it is asked as often as any other.
      return undefined;
    }
  }

  async #orStopped<T>(reading: Promise<T>): Promise<T | undefined> {
    const stopped = new Promise<undefined>((resolve) => {
      this.#wake = () => {
        if (this.#stopped) resolve(undefined);
      };
    });
    if (this.#stopped) this.#wake();
    return Promise.race([reading, stopped]);
  }

  /** Until it is time to ask again, there is a change, or it is stopped. */
  #pause(defaultMs: number): Promise<void> {
    const { clock, pollMs = defaultMs } = this.#options;
    return new Promise((resolve) => {
      const wake = (): void => {
        if (clock === undefined) clearTimeout(timer as ReturnType<typeof setTimeout>);
        else clock.clearTimeout(timer);
        resolve();
      };
      const timer: unknown = clock === undefined ? setTimeout(wake, pollMs) : clock.setTimeout(wake, pollMs);
      this.#wake = wake;
      if (this.#changed || this.#stopped) wake();
    });
  }
}
