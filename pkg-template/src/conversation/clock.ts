/** Time for one conversation: the host's clock where it gives one, else the environment's. */

import type { Clock } from '../types.js';
import { BadValue, describe, isFunction } from '../values.js';
import { messageOf } from './thrown.js';

/** The latest instant a date can hold. */
const MAX_INSTANT = 8.64e15;

/** How many timers the engine has; it numbers them from 0. */
const TIMERS = 4;
/** One of the host's own, for what the engine knows nothing of. */
export const RELEASE_TIMER = TIMERS;

/** The engine's timers and instants. */
export class Timekeeper {
  readonly #clock: Clock | undefined;
  readonly #fire: (timer: number) => void;
  readonly #handles: unknown[] = Array.from({ length: TIMERS });
  #latest = 0;

  /** @param fire called when a timer runs out */
  constructor(clock: Clock | undefined, fire: (timer: number) => void) {
    this.#clock = clock;
    this.#fire = fire;
  }

  /** Epoch milliseconds. */
  now(): number {
    return this.#clock === undefined ? Date.now() : this.#clock.now();
  }

  /** Milliseconds on a clock that never goes back. */
  mono(): number {
    if (this.#clock === undefined) return performance.now();
    this.#latest = Math.max(this.#latest, this.now());
    return this.#latest;
  }

  start(timer: number, delayMs: number, then = this.#fire): void {
    this.stop(timer);
    const fire = (): void => {
      this.#handles[timer] = undefined;
      then(timer);
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

/**
 * The host's clock, its functions bound to it. One that gives no instant is refused; one that stops giving them
 * later stands still at its last, so that what runs on it is not lost.
 * @throws BadValue
 */
export function readClock(value: unknown): Clock | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== 'object' || value === null) throw new BadValue('clock', 'must be an object');
  const clock = value as Clock;
  for (const name of ['now', 'setTimeout', 'clearTimeout'] as const) {
    if (!isFunction(clock[name])) throw new BadValue(`clock.${name}`, 'must be a function');
  }
  let last = instant(clock);
  return {
    now: () => {
      try {
        last = instant(clock);
      } catch {
        // It stands still.
      }
      return last;
    },
    setTimeout: clock.setTimeout.bind(clock),
    clearTimeout: clock.clearTimeout.bind(clock),
  };
}

/**
 * What a clock gives now, in epoch milliseconds.
 * @throws BadValue where that is no instant
 */
export function instant(clock: { now(): unknown }): number {
  let now: unknown;
  try {
    now = clock.now();
  } catch (error) {
    throw new BadValue('clock.now', `threw: ${messageOf(error)}`);
  }
  if (typeof now === 'number' && now >= 0 && now <= MAX_INSTANT) return now;
  const found = typeof now === 'number' ? String(now) : describe(now);
  throw new BadValue('clock.now', `must give epoch milliseconds from 0 to ${MAX_INSTANT}, not ${found}`);
}
