// What the tests of agents share: scripted providers, a turn, services that take note, a session.
import { agentParticipant } from 'agent-roundtable';

let made = 0;

/** An assistant's reply. */
export function reply(content, extra = {}) {
  return { id: `r${made++}`, role: 'assistant', content, timestamp: new Date(1000), state: 'complete', ...extra };
}

/** A reply that calls tools: `[id, name, arguments]`, arguments as text or as a value. */
export function calling(...calls) {
  const toolCalls = calls.map(([id, name, args]) => ({
    id,
    type: 'function',
    function: { name, arguments: typeof args === 'string' ? args : JSON.stringify(args) },
  }));
  return reply(null, { toolCalls });
}

/** A provider that gives these replies in order; a function among them is called with messages and options. */
export function scripted(...replies) {
  const requests = [];
  return {
    name: 'scripted',
    requests,
    async chat(messages, options) {
      requests.push({ messages, options });
      const next = replies.shift();
      if (next === undefined) throw new Error('the script is over');
      return typeof next === 'function' ? next(messages, options) : next;
    },
  };
}

/** A tool that runs `execute`, called `name`. */
export function tool(name, execute, parameters = { type: 'object' }) {
  return { name, description: `does ${name}`, parameters, execute };
}

/** Services that note what they are asked, in order. */
export function services(overrides = {}) {
  const log = [];
  return {
    log,
    get reports() {
      return log.filter(([kind]) => kind === 'report').map(([, report]) => report);
    },
    async admitModelCall(call) {
      log.push(['admit', call]);
      await overrides.admit?.(call);
    },
    async recordUsage(report) {
      log.push(['report', report]);
      await overrides.report?.(report);
    },
  };
}

/** A turn with these messages (`[participantId, content]`). */
export function turn(attemptId = 'a1', messages = [['ana', 'hello']], purpose) {
  return {
    conversationId: 'c',
    participantId: 'bot',
    turnId: `turn-of-${attemptId}`,
    attemptId,
    groupId: 'g',
    ...(purpose === undefined ? {} : { purpose }),
    context: {
      baseRevision: 1,
      messages: messages.map(([participantId, content], i) => ({
        id: `m${i}`,
        participantId,
        content,
        revision: 1,
        turnId: `t${i}`,
        groupId: 'g',
      })),
    },
  };
}

/** What accompanies a turn; deltas are collected. */
export function execution(overrides = {}) {
  const deltas = [];
  return {
    deltas,
    signal: new AbortController().signal,
    services: services(),
    onDelta: async (text) => void deltas.push(text),
    ...overrides,
  };
}

/** Opens a session of an agent with these options. */
export async function open(options, { checkpoint, ...participant } = {}) {
  const { factory } = agentParticipant({
    id: 'bot',
    runtime: { id: 'bot', version: '1' },
    createAgent: () => (typeof options === 'function' ? options() : { model: 'm', ...options }),
    ...participant,
  });
  return factory.openSession({ conversationId: 'c', participantId: 'bot', ...(checkpoint ? { checkpoint } : {}) });
}

/** Opens a session, runs one turn and releases it. */
export async function runOnce(options, overrides) {
  const lease = await open(options);
  try {
    return await lease.session.runTurn(turn(), execution(overrides));
  } finally {
    await lease.release();
  }
}

/** A promise and its ends. */
export function deferred() {
  let resolve;
  let reject;
  const promise = new Promise((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}

/** Lets everything that is ready to run, run. */
export const settle = () => new Promise((done) => setTimeout(done, 20));

/** Collects unhandled rejections while `body` runs and for a moment after. */
export async function unhandled(body) {
  const seen = [];
  const note = (error) => seen.push(error);
  process.on('unhandledRejection', note);
  try {
    await body();
    await settle();
  } finally {
    process.off('unhandledRejection', note);
  }
  return seen;
}
