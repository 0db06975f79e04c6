// What the tests of foreign runtimes share: opening a session over one, its results, answers to its requests.
import { runtimeParticipant } from 'agent-roundtable/runtime';
import { execution, turn } from './agent.mjs';

export const done = (finalOutput, newItems = []) => ({ finalOutput, newItems });

/** A tool call, as a runtime asks to make it. */
export const action = (toolCallId, toolName = 'write', args = { of: toolCallId }) => ({
  toolCallId,
  toolName,
  arguments: args,
});

export const waits = (interruptions, state = { at: 1 }) => ({ interruptions, state });

/** Opens a session over a runtime: an object, or just its `run`. Further members are those of the participant. */
export async function open(
  runtime,
  { checkpoint, forkedFrom, conversationId = 'c', participantId = 'bot', ...options } = {},
) {
  const made = typeof runtime === 'function' ? { run: runtime } : runtime;
  const { factory } = runtimeParticipant({
    id: 'bot',
    runtime: { id: 'sdk', version: '1' },
    createRuntime: () => made,
    ...options,
  });
  const lease = await factory.openSession({ conversationId, participantId, checkpoint, forkedFrom });
  return { ...lease, factory };
}

/** Runs one turn in a session of its own. */
export async function runOnce(runtime, overrides, options) {
  const lease = await open(runtime, options);
  try {
    return await lease.session.runTurn(turn(), execution(overrides));
  } finally {
    await lease.release();
  }
}

/** Answers to a wait of the turn of `turn('a1')`; a response for each request, or one for all. */
export function answers({ requests }, response = { approved: true }, change = {}) {
  return requests.map((request, index) => ({
    request: { ...request, participantId: 'bot', memberId: 'bot', groupId: 'g', turnId: 'turn-of-a1', ...change },
    responseId: `answer to ${request.id}`,
    response: { kind: 'approval', ...(Array.isArray(response) ? response[index] : response) },
  }));
}

/** Another attempt of the turn of `turn('a1')`. */
export const attempt = (attemptId, more = {}) => ({ ...turn('a1'), attemptId, ...more });
