// Participants, selectors and stores that tests write in one line.
import assert from 'node:assert/strict';
import { createRoundtable, MemoryConversationStore, RoundtableError } from 'agent-roundtable';

/** An agent; `session` has what differs from one that yields. Every call is noted in `calls`. */
export function agent(id, session = {}, factory = {}) {
  const calls = [];
  const made = typeof session === 'function' ? { runTurn: session } : session;
  return {
    kind: 'agent',
    id,
    runtime: { id: `runtime-of-${id}`, version: '1' },
    calls,
    factory: {
      async openSession(context) {
        calls.push(['open', context]);
        const lease = {
          session: { runTurn: async () => ({ kind: 'yield' }), ...made },
          async release() {
            calls.push(['release']);
          },
        };
        return lease;
      },
      ...factory,
    },
  };
}

/** An agent that says these words, one turn after the other, and yields when they are used up. */
export function speaker(id, ...words) {
  return agent(id, async () => {
    const content = words.shift();
    return content === undefined ? { kind: 'yield' } : { kind: 'speak', content };
  });
}

/** An agent whose sessions can wait: `turns` are outcomes or functions; it keeps a checkpoint. */
export function waiter(id, ...turns) {
  const seen = [];
  const next = async (...args) => {
    seen.push(args);
    const turn = turns.shift() ?? { kind: 'yield' };
    return typeof turn === 'function' ? turn(...args) : turn;
  };
  const made = agent(
    id,
    {
      runTurn: (turn, options) => next(turn, undefined, options),
      resumeTurn: (turn, responses, options) => next(turn, responses, options),
      checkpoint: async () => ({ version: 'v1', data: { turns: seen.length } }),
    },
    { supportsContinuation: true, checkpointVersions: ['v1'] },
  );
  return Object.assign(made, { seen });
}

/** A selector that decides this list, one after the other, then finishes. */
export function decisions(...list) {
  const contexts = [];
  return {
    contexts,
    select(context) {
      contexts.push(context);
      const next = list.shift() ?? { kind: 'finish', reason: 'done' };
      return typeof next === 'function' ? next(context) : next;
    },
  };
}

export const speak = (participantId) => ({ kind: 'speak', participantId });
export const parallel = (...participantIds) => ({ kind: 'parallel', participantIds });
export const wait = (participantId, reason = 'your turn') => ({ kind: 'wait', participantId, reason });
export const finish = (reason = 'done') => ({ kind: 'finish', reason });
export const approval = (id, data = { tool: 'rm' }) => ({ id, reason: `may I ${id}?`, kind: 'approval', data });
export const question = (id, participantId) => ({ id, reason: `what about ${id}?`, kind: 'input', participantId });
export const waits = (...requests) => ({ kind: 'wait', requests });

let count = 0;

/** A conversation that notes its events in `events`; `extra` replaces any option. */
export function conversation(participants, extra = {}) {
  const events = [];
  const store = extra.store ?? new MemoryConversationStore(extra.clock ? { clock: extra.clock } : undefined);
  count += 1;
  const options = {
    conversationId: `conversation-${count}`,
    participants,
    limits: { maxTurnsPerRun: 20 },
    onEvent: (event) => {
      events.push(event);
    },
    ...extra,
    store,
  };
  const roundtable = createRoundtable(options);
  return Object.assign(roundtable, { events, store, id: options.conversationId });
}

/** Answers the first request of a waiting run with words. */
export function answer(roundtable, { requests: [request], revision }, content, inputId = `input to ${request.id}`) {
  const { id: replyToRequestId, participantId } = request;
  return roundtable.submitInput({ participantId, inputId, expectedRevision: revision, content, replyToRequestId });
}

/** What was published, as `author: words`. */
export function transcript(roundtable) {
  return roundtable.snapshot().messages.map((message) => `${message.participantId}: ${message.content}`);
}

/** The entries in the store, parsed: `[kind, fields]`. */
export async function journal(roundtable) {
  const found = await roundtable.store.read(roundtable.id, { after: 0 });
  const entries = (found?.batches ?? []).flatMap((batch) => batch.entries);
  return entries.map((line) => Object.entries(JSON.parse(line))[0]);
}

/** A promise with its functions. */
export function deferred() {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
}

/** Opens when so many have arrived. */
export function barrier(count) {
  const open = deferred();
  let arrived = 0;
  return () => {
    arrived += 1;
    if (arrived === count) open.resolve();
    return open.promise;
  };
}

/** Lets everything that is ready run. */
export const settled = (ms = 5) => new Promise((resolve) => setTimeout(resolve, ms));

/** Asserts a RoundtableError with this code whose message holds every one of `parts`. */
export async function rejects(promise, code, ...parts) {
  const error = await promise.then(
    (value) => assert.fail(`resolved with ${JSON.stringify(value)}`),
    (reason) => reason,
  );
  check(error, code, parts);
  return error;
}

/** The same for a call that throws. */
export function refuses(call, code, ...parts) {
  let error;
  try {
    call();
  } catch (thrown) {
    error = thrown;
  }
  check(error, code, parts);
  return error;
}

function check(error, code, parts) {
  assert.ok(error instanceof RoundtableError, `not a RoundtableError: ${error?.stack ?? error}`);
  assert.equal(error.code, code, error.message);
  for (const part of parts) assert.ok(error.message.includes(part), `${error.message} does not name ${part}`);
}
