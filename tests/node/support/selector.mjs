// What the tests of model-backed selectors share.
import { agentSelector } from 'agent-roundtable';
import { calling, services } from './agent.mjs';

export const TOOL = 'decide_next_speaker';
export const reference = { id: 'chair', version: '1' };

/** A reply that decides; `args` as a value or as text. */
export const deciding = (...args) => calling(...args.map((arg, i) => [`d${i}`, TOOL, arg]));
export const speak = (...participantIds) => deciding({ action: 'speak', participantIds });
export const finish = (reason) => deciding({ action: 'finish', ...(reason === undefined ? {} : { reason }) });

/** A selector over this provider; `extra` has options of the selector. */
export const chair = (provider, extra = {}) =>
  agentSelector({ reference, createAgent: () => ({ provider, model: 'm' }), ...extra });

/** A selection context of these participants (`id` or a whole entry) and messages (`[author, content]`). */
export function context(participants = ['ana', 'bo', 'cy'], messages = [], extra = {}) {
  return {
    participants: participants.map((p) => (typeof p === 'string' ? { id: p, kind: 'agent' } : p)),
    messages: messages.map(([participantId, content], i) =>
      Object.freeze({ id: `m${i}`, participantId, content, revision: i, turnId: `t${i}`, groupId: `g${i}` }),
    ),
    turns: [],
    remainingTurns: 5,
    ...extra,
  };
}

/** What accompanies a selection. */
export const given = (overrides = {}) => ({
  signal: new AbortController().signal,
  services: services(),
  ...overrides,
});
