/** Past events followed by live ones, without a gap and without an event twice. */

import type { RoundtableEvent } from '../types.js';
import { deepFreeze } from '../values.js';

/**
 * @param past events of the journal, already being read
 * @param live events since the moment that `past` ends at
 * @param after neither holds an event of this revision or an earlier one
 */
export function withPast(
  past: Promise<readonly RoundtableEvent[]>,
  live: AsyncIterableIterator<RoundtableEvent>,
  after: number,
): AsyncIterableIterator<RoundtableEvent> {
  // A failure is told to whoever asks for the first event; nobody may.
  past.catch(() => {});
  const events = follow(past, live, after);
  const iterator: AsyncIterableIterator<RoundtableEvent> = {
    next: () => events.next(),
    // A generator that was never asked for anything does not reach its `finally`.
    async return() {
      await live.return?.();
      return events.return(undefined);
    },
    [Symbol.asyncIterator]: () => iterator,
  };
  return iterator;
}

async function* follow(
  past: Promise<readonly RoundtableEvent[]>,
  live: AsyncIterableIterator<RoundtableEvent>,
  after: number,
): AsyncGenerator<RoundtableEvent, undefined> {
  try {
    for (const event of await past) yield deepFreeze(event);
    for await (const event of live) if (event.type === 'delta' || event.revision > after) yield event;
  } finally {
    await live.return?.();
  }
}
