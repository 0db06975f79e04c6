/** What is on record of the tool calls of a foreign runtime: which were begun, and what came of them. */

import { canonical } from './default-journal.js';
import type { ToolApproval } from './foreign-types.js';
import type { ExecutionRecord } from './types.js';

/** How the id of a result ends whose tool was not run: the turn was stopped before. */
export const NOT_RUN = ':not-run';
/** How the id of a result ends that is the message of what the tool threw. */
export const FAILED = ':failed';

type Intent = ExecutionRecord & { kind: 'tool-intent' };
type Result = ExecutionRecord & { kind: 'tool-result' };

/** Calls by a key: begun, or what came of them. */
export type Deeds = Map<string, 'begun' | { readonly result: Result['result'] } | { readonly failure: string }>;

/** Tells calls apart by all that they are: models that number their calls anew in each reply use an id for several. */
export function actionKey({ toolCallId, toolName, arguments: args }: ToolApproval): string {
  return canonical([toolCallId, toolName, args]);
}

/** Reads records; where a host has said `retry`, what has no result was not begun. */
export function deedsOf(
  records: readonly ExecutionRecord[],
  retried: boolean,
  keyOf: (intent: Intent) => string,
): Deeds {
  const deeds: Deeds = new Map();
  const begun = new Map<string, Intent>();
  for (const record of records) {
    if (record.kind === 'tool-intent') {
      // The second where a runtime writes records of its own, whose ids are its own as well.
      begun.set(stem(record), record).set(record.toolCallId, record);
      if (!retried) deeds.set(keyOf(record), 'begun');
    } else if (record.kind === 'tool-result') {
      const intent = begun.get(stem(record)) ?? begun.get(record.toolCallId);
      if (intent === undefined) continue;
      const key = keyOf(intent);
      if (record.id.endsWith(NOT_RUN)) deeds.delete(key);
      else if (record.id.endsWith(FAILED)) deeds.set(key, { failure: String(record.result) });
      else deeds.set(key, { result: record.result });
    }
  }
  return deeds;
}

/** What the ids of a call's intent and result begin with. */
function stem({ id }: Intent | Result): string {
  return `stem ${id.slice(0, id.lastIndexOf(':'))}`;
}
