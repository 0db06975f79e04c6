// The models of the demo: session logs, replayed. For tests and offline work; a product asks real models.
import { createReplayProvider, decodeSessionLog } from 'agent-roundtable';
import { AGENTS, PROVIDER } from './review.mjs';

/** The lists of replies: one for each agent, and how the editor goes on after either decision. */
const LISTS = [...AGENTS.map(({ id }) => id), 'editor-approved', 'editor-denied'];

/** The files of the recorded replies, beside this module. */
export const LOGS = LISTS.map((id) => ({ id, path: `logs/${id}.jsonl` }));

/**
 * Providers that answer from recorded replies, each only as long as it is asked what was asked then.
 * @param {Record<string, string>} logs the text of each log
 * @returns {{providers: Record<string, object>, assertExhausted: () => void}}
 */
export function replayed(logs) {
  const lists = Object.fromEntries(
    Object.entries(logs).map(([id, text]) => {
      const entries = decodeSessionLog(text);
      return [id, createReplayProvider({ entries, name: PROVIDER, match: 'strict', deltas: true })];
    }),
  );
  return {
    providers: byAgent(lists),
    /** Throws where a log was begun and not used up. */
    assertExhausted() {
      for (const list of Object.values(lists)) if (list.consumed > 0) list.assertExhausted();
    },
  };
}

/**
 * One provider for each agent, from one for each list of replies.
 * @template {import('agent-roundtable').ChatProvider} P
 * @param {Record<string, P>} lists
 */
export function byAgent({ 'editor-approved': approved, 'editor-denied': denied, ...agents }) {
  const listOf = (messages) => {
    const last = messages.at(-1);
    if (last.name !== 'save_report') return agents.editor;
    return JSON.parse(last.content).saved === undefined ? denied : approved;
  };
  const editor = {
    name: agents.editor.name,
    chat: (messages, options) => listOf(messages).chat(messages, options),
    chatStream: (messages, options) => listOf(messages).chatStream(messages, options),
  };
  return { ...agents, editor };
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
