// The models of the demo: session logs, replayed. For tests and offline work; a product asks real models.
import { createReplayProvider, decodeSessionLog } from 'agent-roundtable';
import { AGENTS, PROVIDER } from './review.mjs';

/** The files of the recorded replies, beside this module. */
export const LOGS = AGENTS.map(({ id }) => ({ id, path: `logs/${id}.jsonl` }));

/**
 * Providers that answer from recorded replies, each only as long as it is asked what was asked then.
 * @param {Record<string, string>} logs the text of each agent's log
 */
export function replayed(logs) {
  return Object.fromEntries(
    Object.entries(logs).map(([id, text]) => {
      const entries = decodeSessionLog(text);
      return [id, createReplayProvider({ entries, name: PROVIDER, match: 'strict', deltas: true })];
    }),
  );
}

/** Why a review failed, and what to do where the recordings do not fit it any more. */
export function explain(result) {
  const known = ['REQUEST_MISMATCH', 'LOG_EXHAUSTED'].includes(result.code);
  if (!known) return `The review failed: ${result.message}`;
  return `The review failed: ${result.message}
The recorded replies answer other questions than were asked just now: the document, a tool, the agenda or the way
the engine renders a turn has changed since. If that is meant, record anew and look at the difference:
  node demo/record.mjs && git diff demo/logs`;
}
