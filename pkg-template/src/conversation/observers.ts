/** Tells a conversation's observers what happened: one ordered queue for events and streamed text. */

import type { RoundtableEvent } from '../types.js';
import { EventStream } from './event-stream.js';
import { callHost, callHostInTurn, isThenable } from './inside.js';

/** What the host gave. */
export interface ObserverOptions {
  readonly onEvent: ((event: RoundtableEvent) => unknown) | undefined;
  readonly onEventError: ((error: unknown, event: RoundtableEvent) => unknown) | undefined;
}

interface Queued {
  readonly event: RoundtableEvent;
  /** Called when the observer is done with it. */
  readonly done: (() => void) | undefined;
}

/** The observers of one conversation: its `onEvent`, awaited, and any number of streams, which buffer. */
export class Observers {
  readonly #conversation: object;
  readonly #options: ObserverOptions;
  readonly #streams = new Set<EventStream>();
  #queue: Queued[] = [];
  #telling = false;
  #closed = false;

  constructor(conversation: object, options: ObserverOptions) {
    this.#conversation = conversation;
    this.#options = options;
  }

  /** Whether anybody is told anything. */
  get present(): boolean {
    return this.#options.onEvent !== undefined || this.#streams.size > 0;
  }

  /**
   * Queues events. Gives whether somebody has yet to be awaited; then, and only then, `done` is
   * called when all of them are delivered.
   */
  tell(events: readonly RoundtableEvent[], done: () => void): boolean {
    for (const stream of this.#streams) for (const event of events) stream.push(event);
    if (this.#options.onEvent === undefined || events.length === 0 || this.#closed) return false;
    let delivered = false;
    let awaited = false;
    const last = events.length - 1;
    const finish = (): void => {
      delivered = true;
      if (awaited) done();
    };
    for (const [index, event] of events.entries()) {
      this.#queue.push({ event, done: index === last ? finish : undefined });
    }
    this.#next();
    awaited = !delivered;
    return awaited;
  }

  /** Tells `onEventError` of a failure outside `onEvent`; what it throws is dropped. */
  report(error: unknown, event: RoundtableEvent): void {
    this.#fail(error, event, () => {});
  }

  /** A new stream of events from now on. `changed` is called when it ends. */
  stream(changed: () => void): EventStream {
    const stream = new EventStream(() => {
      this.#streams.delete(stream);
      changed();
    });
    if (this.#closed) stream.end();
    else this.#streams.add(stream);
    return stream;
  }

  /** Ends every stream and forgets what is queued. */
  close(): void {
    this.#closed = true;
    this.#queue = [];
    for (const stream of this.#streams) stream.end();
  }

  #next(): void {
    if (this.#telling) return;
    this.#telling = true;
    callHostInTurn(this.#conversation, async (call) => {
      for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
        const { event, done } = next;
        try {
          const told = call(() => this.#options.onEvent?.(event));
          if (isThenable(told)) await told;
        } catch (error) {
          await new Promise<void>((resolve) => this.#fail(error, event, resolve));
        }
        done?.();
      }
      this.#telling = false;
    });
  }

  #fail(error: unknown, event: RoundtableEvent, done: () => void): void {
    const { onEventError } = this.#options;
    if (onEventError === undefined) done();
    else callHost(this.#conversation, () => onEventError(error, event), done, done);
  }
}
