/**
 * Streamed text on its way to an observer: strictly in order, one delivery at a time, never blocking
 * whoever pushes. A slow observer does not make the queue grow without end: beyond a number of
 * entries new text joins the last one, and nothing is dropped.
 */

import { BadValue, describe, toWellFormed } from '../values.js';

/** From here on text joins the last entry. */
const MAX_ENTRIES = 256;
/** Above these the queue asks its source to wait. */
const HIGH_ENTRIES = 64;
const HIGH_UNITS = 64 * 1024;

export class DeltaQueue {
  /** What was made of the first part that was no text. */
  refused: Error | undefined;
  readonly #sink: (text: string) => unknown;
  readonly #onFailure: (error: unknown) => void;
  #entries: string[] = [];
  #units = 0;
  /** The first half of a surrogate pair whose second half has not come yet. */
  #half = '';
  #delivering = false;
  #closed = false;
  #failure: { error: unknown } | undefined;
  #waiting: { isMet: () => boolean; done: () => void }[] = [];

  /**
   * @param sink takes one text; what it returns is awaited
   * @param onFailure is told the first error of the sink, at once; nothing is delivered after it
   */
  constructor(sink: (text: string) => unknown, onFailure: (error: unknown) => void) {
    this.#sink = sink;
    this.#onFailure = onFailure;
  }

  /** The first error of the sink. */
  get failure(): { error: unknown } | undefined {
    return this.#failure;
  }

  /** Takes text; ignored once the queue is closed or its sink has failed. */
  push(text: string): void {
    if (this.#closed || this.#failure !== undefined) return;
    const joined = this.#half + text;
    this.#half = '';
    const last = joined.charCodeAt(joined.length - 1);
    if (last >= 0xd800 && last <= 0xdbff) {
      this.#half = joined.slice(-1);
      this.#add(joined.slice(0, -1));
    } else {
      this.#add(joined);
    }
  }

  /**
   * Takes a part of a stream and resolves when more may come; one without text is an empty one. What is no text is
   * refused, with what `refusal` makes of it: whoever awaits that hears of it at once, and nobody has to.
   */
  take(part: unknown, refusal: (problem: string) => Error): Promise<void> {
    const text = part ?? '';
    if (typeof text === 'string') {
      this.push(text);
      return this.ready();
    }
    this.refused ??= refusal(new BadValue('onDelta: text', `must be a string, not ${describe(text)}`).message);
    const refused = Promise.reject(this.refused);
    refused.catch(() => undefined);
    return refused;
  }

  /** Says that one text is over: half a surrogate pair waits for nothing any more. */
  endText(): void {
    const half = this.#half;
    this.#half = '';
    if (!this.#closed && this.#failure === undefined) this.#add(half);
  }

  /** Resolves when the queue is short enough to take more; at once where it will take nothing. */
  ready(): Promise<void> {
    return this.#until(() => this.#entries.length <= HIGH_ENTRIES && this.#units <= HIGH_UNITS);
  }

  /** Resolves when all that was pushed is delivered, the sink has failed, or the queue is closed. */
  async flush(): Promise<void> {
    this.endText();
    await this.#until(() => this.#entries.length === 0 && !this.#delivering);
  }

  /** Drops what is undelivered and takes nothing more. */
  close(): void {
    this.#closed = true;
    this.#drop();
  }

  #add(text: string): void {
    if (text === '') return;
    const whole = toWellFormed(text);
    this.#units += whole.length;
    const end = this.#entries.length - 1;
    if (end + 1 < MAX_ENTRIES) this.#entries.push(whole);
    else this.#entries[end] += whole;
    if (!this.#delivering) void this.#deliver();
  }

  async #deliver(): Promise<void> {
    this.#delivering = true;
    try {
      for (let text = this.#entries.shift(); text !== undefined; text = this.#entries.shift()) {
        this.#units -= text.length;
        await this.#sink(text);
        this.#wake();
      }
    } catch (error) {
      this.#failure = { error };
      this.#drop();
      if (!this.#closed) this.#onFailure(error);
    } finally {
      this.#delivering = false;
      this.#wake();
    }
  }

  #drop(): void {
    this.#entries = [];
    this.#units = 0;
    this.#half = '';
    this.#wake();
  }

  #until(isMet: () => boolean): Promise<void> {
    if (this.#closed || this.#failure !== undefined || isMet()) return Promise.resolve();
    return new Promise((done) => this.#waiting.push({ isMet, done }));
  }

  #wake(): void {
    const over = this.#closed || this.#failure !== undefined;
    const waiting = this.#waiting;
    this.#waiting = waiting.filter(({ isMet }) => !over && !isMet());
    for (const { isMet, done } of waiting) if (over || isMet()) done();
  }
}
