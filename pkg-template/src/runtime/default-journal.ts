/**
 * Where the executions of sessions are written down when nothing better is given: one list of records for
 * each session, for the life of the process. It outlives a session's release only while something waits.
 */

import { codedText, revive } from '../values.js';
import type { ExecutionJournal, ExecutionRecord } from './types.js';

/** Records by id, in their order, as coded text. */
type Records = Map<string, { readonly executionId: string; readonly text: string }>;

const sessions = new Map<string, Records>();

/** A handle on the records of a session; all of its handles share them. */
export function openDefaultJournal(sessionId: string): Required<Omit<ExecutionJournal, 'durable'>> {
  const kept: Records = sessions.get(sessionId) ?? new Map();
  sessions.set(sessionId, kept);
  return {
    async append(record: ExecutionRecord): Promise<void> {
      const text = codedText(record, 'record', 2);
      const known = kept.get(record.id);
      if (known === undefined) kept.set(record.id, { executionId: record.executionId, text });
      else if (known.text !== text && canonical(JSON.parse(known.text)) !== canonical(JSON.parse(text)))
        throw new Error(`the execution journal holds another record ${record.id}`);
    },
    async read(executionId: string): Promise<readonly ExecutionRecord[]> {
      const found = [...kept.values()].filter((record) => record.executionId === executionId);
      return found.map(({ text }) => revive(JSON.parse(text)) as ExecutionRecord);
    },
  };
}

/** Empties the records of a session; handles on it see that. */
export function clearDefaultJournal(sessionId: string): void {
  sessions.get(sessionId)?.clear();
}

/** Drops a session. Handles that are still about write to what nobody reads. */
export function forgetDefaultJournal(sessionId: string): void {
  sessions.delete(sessionId);
}

/** JSON text in which the order of members does not matter. */
export function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) => {
    if (typeof member !== 'object' || member === null || Array.isArray(member)) return member;
    return Object.fromEntries(Object.entries(member).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
