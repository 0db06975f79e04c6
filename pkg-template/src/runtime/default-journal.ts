/**
 * Where the executions of sessions are written down when nothing better is given: one list of records for
 * each session, for the life of the process. An execution's records are dropped when its turn has settled, and
 * those of waits that nobody answers when 10,000 other sessions have written since.
 */

import { codedText, revive } from '../values.js';
import type { ExecutionJournal, ExecutionRecord } from './types.js';

/** Records by id, in their order, as coded text. */
type Records = Map<string, { readonly executionId: string; readonly text: string }>;

/** The most sessions that are kept. */
const MAX_SESSIONS = 10_000;

/** Those that wrote last are last. By session id, and then by the store that the session's conversation is in. */
const sessions = new Map<string, Map<string, Records>>();

/**
 * A handle on the records of a session; all of its handles share them. `place` tells conversations of the same id in
 * two stores apart.
 */
export function openDefaultJournal(sessionId: string, place = ''): Required<Omit<ExecutionJournal, 'durable'>> {
  return {
    async append(record: ExecutionRecord): Promise<void> {
      const text = codedText(record, 'record', 2);
      const kept = recordsOf(sessionId, place);
      const known = kept.get(record.id);
      if (known === undefined) kept.set(record.id, { executionId: record.executionId, text });
      else if (known.text !== text && canonical(JSON.parse(known.text)) !== canonical(JSON.parse(text)))
        throw new Error(`the execution journal holds another record ${record.id}`);
    },
    async read(executionId: string): Promise<readonly ExecutionRecord[]> {
      const kept = sessions.get(sessionId)?.get(place);
      const found = [...(kept?.values() ?? [])].filter((record) => record.executionId === executionId);
      return found.map(({ text }) => revive(JSON.parse(text)) as ExecutionRecord);
    },
  };
}

/**
 * Takes over an execution that waits, where its own place has no records of it: the conversation was copied to another
 * store, or is reached through another object.
 */
export function adoptExecution(sessionId: string, place: string, executionId: string): void {
  const places = sessions.get(sessionId);
  const holds = (kept: Records | undefined): boolean =>
    [...(kept?.values() ?? [])].some((record) => record.executionId === executionId);
  if (places === undefined || holds(places.get(place))) return;
  const found = [...places].find(([, kept]) => holds(kept));
  if (found === undefined) return;
  const own = recordsOf(sessionId, place);
  for (const [id, record] of found[1]) if (record.executionId === executionId) own.set(id, record);
  clearDefaultJournal(sessionId, [executionId], found[0]);
}

/** Drops the records of these executions, or all; all handles on the session see that. */
export function clearDefaultJournal(sessionId: string, executionIds?: readonly string[], place = ''): void {
  const places = sessions.get(sessionId);
  const kept = places?.get(place);
  if (places === undefined || kept === undefined) return;
  for (const [id, { executionId }] of kept) if (executionIds?.includes(executionId) ?? true) kept.delete(id);
  if (kept.size === 0) places.delete(place);
  if (places.size === 0) sessions.delete(sessionId);
}

/** Drops all that is known of a session, wherever it is. */
export function forgetDefaultJournal(sessionId: string): void {
  sessions.delete(sessionId);
}

function recordsOf(sessionId: string, place: string): Records {
  const places = sessions.get(sessionId) ?? new Map<string, Records>();
  sessions.delete(sessionId);
  sessions.set(sessionId, places);
  for (const oldest of sessions.keys()) {
    if (sessions.size <= MAX_SESSIONS) break;
    sessions.delete(oldest);
  }
  const kept: Records = places.get(place) ?? new Map();
  places.set(place, kept);
  return kept;
}

/** JSON text in which the order of members does not matter. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => {
    if (typeof member !== 'object' || member === null || Array.isArray(member)) return member;
    return Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
