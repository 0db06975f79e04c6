/** A clock that moves when a test says so. */

import type { Clock } from '../types.js';

/** Give it as the `clock` of a conversation and of its store. */
export interface VirtualClock extends Clock {
  /** How many timers wait. */
  readonly pending: number;
  /**
   * Moves time forward, timer by timer in the order they are due; what follows from each settles
   * before the next.
   */
  advance(ms: number): Promise<void>;
}

interface Timer {
  readonly due: number;
  readonly callback: () => void;
}

/** @param start epoch milliseconds at the beginning; default 2027-01-01 */
export function virtualClock(start = Date.UTC(2027, 0, 1)): VirtualClock {
  let now = start;
  let next = 1;
  const timers = new Map<number, Timer>();
  const firstDue = (until: number): [number, Timer] | undefined => {
    let first: [number, Timer] | undefined;
    for (const entry of timers) {
      if (entry[1].due <= until && (first === undefined || entry[1].due < first[1].due)) first = entry;
    }
    return first;
  };
  return {
    now: () => now,
    setTimeout(callback, delayMs) {
      const handle = next++;
      timers.set(handle, { due: now + Math.max(0, delayMs), callback });
      return handle;
    },
    clearTimeout(handle) {
      timers.delete(handle as number);
    },
    get pending() {
      return timers.size;
    },
    async advance(ms) {
      const until = now + ms;
      await settled();
      for (let due = firstDue(until); due !== undefined; due = firstDue(until)) {
        const [handle, timer] = due;
        timers.delete(handle);
        now = timer.due;
        timer.callback();
        await settled();
      }
      now = until;
      await settled();
    },
  };
}

// Promise callbacks that lead to further ones all run before the next task of the environment's own.
function settled(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
