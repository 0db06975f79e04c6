// What the tests of sessions share: opening one, answering its requests, a journal of the host's own.
import { sessionParticipant } from 'agent-roundtable';
import { execution, turn } from './agent.mjs';

/** Opens a session with these options; further members are those of the participant or of `openSession`. */
export async function open(options, { checkpoint, forkedFrom, conversationId = 'c', ...participant } = {}) {
  const { factory } = sessionParticipant({
    id: 'bot',
    runtime: { id: 'bot', version: '1' },
    createSessionOptions: () => ({ model: 'm', ...(typeof options === 'function' ? options() : options) }),
    ...participant,
  });
  return factory.openSession({
    conversationId,
    participantId: 'bot',
    ...(checkpoint ? { checkpoint } : {}),
    ...(forkedFrom ? { forkedFrom } : {}),
  });
}

/** The answer to a request, as the scheduler hands it on. `approved` may be a whole response. */
export function answered(request, approved, { turn: of = turn(), ...extra } = {}) {
  const { groupId, turnId, participantId } = of;
  return {
    request: { ...request, participantId, memberId: participantId, groupId, turnId },
    responseId: `answer to ${request.id}`,
    response: typeof approved === 'object' ? approved : { kind: 'approval', approved },
    ...extra,
  };
}

/** Continues a turn: every request gets the same answer, under another attempt. */
export function resume(lease, requests, approved = true, options = execution(), of = turn()) {
  const continued = { ...of, attemptId: `${of.attemptId}+${resumed++}` };
  const responses = requests.map((request) => answered(request, approved, { turn: of }));
  return lease.session.resumeTurn(continued, responses, options);
}
let resumed = 0;

/** A journal in an array, durable or not. */
export function arrayJournal(records = []) {
  return {
    records,
    async append(record) {
      const known = records.find(({ id }) => id === record.id);
      if (known === undefined) records.push(structuredClone(record));
    },
    async read(executionId) {
      return structuredClone(records.filter((record) => record.executionId === executionId));
    },
  };
}

/** A tool that notes what it is run with. */
export function noting(name, result = `${name} ran`, extra = {}) {
  const calls = [];
  return {
    name,
    description: `does ${name}`,
    parameters: { type: 'object' },
    calls,
    async execute(args, context) {
      calls.push({ args, ...context });
      return typeof result === 'function' ? result(args, context) : result;
    },
    ...extra,
  };
}
