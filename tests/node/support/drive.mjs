// What the tests of driven deliberations share: agents that say what is written down, a facilitator that decides
// so, and a session that they are driven in.
import { agentParticipant, driveDeliberation } from 'agent-roundtable';
import { scriptedParticipant, scriptedProvider } from 'agent-roundtable/testing';
import { request, stores, table } from './deliberations.mjs';

export const USAGE = { inputTokens: 10, outputTokens: 2, usageProvenance: 'complete' };

/** An agent of the engine's own loop; `calls` are what its model was asked. */
export function voice(id, ...replies) {
  const provider = scriptedProvider({ name: `of-${id}`, replies });
  const made = agentParticipant({
    id,
    runtime: { id: `voice-of-${id}`, version: '1' },
    createAgent: () => ({ provider, model: 'm' }),
  });
  return Object.assign(made, { provider });
}

/** What an agent's model was shown last in each of its turns. */
export const heard = ({ provider }) => provider.calls.map(({ messages }) => messages.at(-1).content);

/** An agent that says these words in its turns, or does what a function does, and can be brought back. */
export function reader(id, ...steps) {
  return scriptedParticipant({ id, steps, checkpointVersion: 'v1' });
}

/** A facilitator whose model calls the tool with these arguments, one after the other; a string is only words. */
export function judge(...decisions) {
  const replies = decisions.map((decision) => {
    if (typeof decision === 'string') return decision;
    if (typeof decision === 'function') return (...args) => calling(decision(...args));
    return calling(decision);
  });
  const provider = scriptedProvider({ name: 'of-fac', replies });
  return { id: 'fac', createAgent: () => ({ provider, model: 'm' }), provider };
}

function calling(decision) {
  const calls = Array.isArray(decision) ? decision : [decision];
  return { toolCalls: calls.map((args) => ({ name: 'facilitate', arguments: args })), metadata: USAGE };
}

export const GO_ON = { action: 'go_on' };
export const APPROVE = { action: 'resolve', outcome: 'Pull.', decision: 'approved' };

/** A session of `fac` with `ana`, `bo` and `pat`, a person; `drive(options)` drives it. */
export async function driven(t, makeStore = stores.memory, more = {}, options = {}) {
  const set = await table(t, makeStore, options);
  const session = await set.d.create('fac', request({ participants: ['ana', 'bo', 'pat'], ...more }));
  const { id } = session;
  const { store, clock, d } = set;
  const drive = (driving, on = d) => driveDeliberation(on, id, { store, clock, ...driving });
  const thread = async () => (await d.get('pat', id)).thread.map(({ from, message }) => `${from}: ${message}`);
  return { ...set, id, drive, thread };
}
