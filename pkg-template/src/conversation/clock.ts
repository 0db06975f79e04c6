/** Time for one conversation: the host's clock where it gives one, else the environment's. */

import { BadValue, isFunction } from '../values.js';
import type { Clock } from '../types.js';

/** The latest instant a date can hold. */
const MAX_INSTANT = 8.64e15;

/** How many timers the engine has; it numbers them from 0. */
const TIMERS = 4;

/** The engine's timers and instants. */
export class Timekeeper {
  readonly #clock: Clock | undefined;
  readonly #fire: (timer: number) => void;
  readonly #handles: unknown[] = Array.from({ length: TIMERS });
  #last = 0;
  #latest = 0;

  /** @param fire called when a timer runs out */
  constructor(clock: Clock | undefined, fire: (timer: number) => void) {
    this.#clock = clock;
    this.#fire = fire;
  }

  /** Epoch milliseconds; where the host's clock gives no instant, the last one it gave. */
  now(): number {
    if (this.#clock === undefined) return Date.now();
    try {
      const now = this.#clock.now();
      if (typeof now === 'number' && now >= 0 && now <= MAX_INSTANT) this.#last = now;
    } catch {
      // As for a clock that gives no instant.
    }
    return this.#last;
  }

  /** Milliseconds on a clock that never goes back. */
  mono(): number {
    if (this.#clock === undefined) return performance.now();
    this.#latest = Math.max(this.#latest, this.now());
    return this.#latest;
  }

  start(timer: number, delayMs: number): void {
    this.stop(timer);
    const fire = (): void => {
      this.#handles[timer] = undefined;
      this.#fire(timer);
    };
    this.#handles[timer] =
      this.#clock === undefined ? setTimeout(fire, delayMs) : this.#clock.setTimeout(fire, delayMs);
  }

  stop(timer: number): void {
    const handle = this.#handles[timer];
    if (handle === undefined) return;
    this.#handles[timer] = undefined;
    if (this.#clock === undefined) clearTimeout(handle as ReturnType<typeof setTimeout>);
    else this.#clock.clearTimeout(handle);
  }

  stopAll(): void {
    for (let timer = 0; timer < TIMERS; timer++) this.stop(timer);
  }
}

/** The host's clock, its functions bound to it. */
export function readClock(value: unknown): Clock | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== 'object' || value === null) throw new BadValue('clock', 'must be an object');
  const clock = value as Clock;
  for (const name of ['now', 'setTimeout', 'clearTimeout'] as const) {
    if (!isFunction(clock[name])) throw new BadValue(`clock.${name}`, 'must be a function');
  }
  return {
    now: clock.now.bind(clock),
    setTimeout: clock.setTimeout.bind(clock),
    clearTimeout: clock.clearTimeout.bind(clock),
  };
}
