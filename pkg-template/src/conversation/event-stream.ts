/** One consumer of a conversation's events. It buffers, so that it never slows the conversation. */

import { RoundtableError } from '../errors.js';
import type { DeltaEvent, RoundtableEvent } from '../types.js';

/** How many events a consumer may be behind. */
const MAX_BUFFERED = 1024;

interface Entry {
  event: RoundtableEvent;
}

type Step = IteratorResult<RoundtableEvent, undefined>;

interface Waiting {
  resolve(step: Step): void;
}

/** An async iterator over events. Unread deltas of one attempt merge into the first of them. */
export class EventStream implements AsyncIterableIterator<RoundtableEvent> {
  readonly #onEnd: () => void;
  #buffer: Entry[] = [];
  #read = 0;
  readonly #unreadDeltas = new Map<string, Entry>();
  readonly #waiting: Waiting[] = [];
  #ended = false;
  #error: RoundtableError | undefined;

  /** @param onEnd called once, when nothing will be pushed any more */
  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
  }

  push(event: RoundtableEvent): void {
    if (this.#ended) return;
    const waiting = this.#waiting.shift();
    if (waiting !== undefined) {
      waiting.resolve({ done: false, value: event });
    } else if (event.type !== 'delta' || !this.#merge(event)) {
      this.#buffered(event);
    }
  }

  /** Ends it after what is buffered; without an error where it fell behind earlier. */
  end(error?: RoundtableError): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#error = error;
    for (const waiting of this.#waiting.splice(0)) waiting.resolve({ done: true, value: undefined });
    this.#onEnd();
  }

  next(): Promise<Step> {
    const entry = this.#buffer[this.#read];
    if (entry !== undefined) return Promise.resolve({ done: false, value: this.#take(entry) });
    if (this.#error !== undefined) {
      const error = this.#error;
      this.#error = undefined;
      return Promise.reject(error);
    }
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve) => this.#waiting.push({ resolve }));
  }

  return(): Promise<Step> {
    this.#buffer = [];
    this.#read = 0;
    this.end();
    this.#error = undefined;
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #buffered(event: RoundtableEvent): void {
    if (this.#buffer.length - this.#read >= MAX_BUFFERED) {
      this.end(new RoundtableError('unavailable', `this consumer fell more than ${MAX_BUFFERED} events behind`));
      return;
    }
    const entry = { event };
    this.#buffer.push(entry);
    if (event.type === 'delta') this.#unreadDeltas.set(event.attemptId, entry);
  }

  #merge(event: DeltaEvent): boolean {
    const entry = this.#unreadDeltas.get(event.attemptId);
    if (entry === undefined || entry.event.type !== 'delta') return false;
    entry.event = Object.freeze({ ...entry.event, text: entry.event.text + event.text });
    return true;
  }

  #take(entry: Entry): RoundtableEvent {
    this.#read += 1;
    if (this.#read === this.#buffer.length) {
      this.#buffer = [];
      this.#read = 0;
    }
    if (entry.event.type === 'delta') this.#unreadDeltas.delete(entry.event.attemptId);
    return entry.event;
  }
}
