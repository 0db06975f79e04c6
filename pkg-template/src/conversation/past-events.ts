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
  return follow(past, live, after);
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
