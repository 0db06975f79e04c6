// Conversations that outlive their handle: durable stores, agents that go on from their checkpoints, registries.
import { loadRoundtable, MemoryConversationStore } from 'agent-roundtable';
import { approval, question, waits } from './conversations.mjs';

const METHODS = ['create', 'load', 'read', 'claim', 'renew', 'release', 'append', 'list', 'compact', 'delete'];

/** A store that says it is durable; `extra` replaces methods. */
export function durable(store = new MemoryConversationStore(), extra = {}) {
  const methods = METHODS.map((method) => [method, store[method].bind(store)]);
  return { durability: 'durable', ...Object.fromEntries(methods), ...extra };
}

/** The batches of a record, oldest first. */
export async function batchesOf(store, conversationId) {
  return (await store.read(conversationId, { after: 0 })).batches;
}

/** A store with a record of these batches, as a process left it that died. */
export async function storeOf(conversationId, batches) {
  const store = durable();
  const summary = { status: 'open', members: [], createdAt: '2027-01-01T00:00:00.000Z', updatedAt: '' };
  const [first, ...rest] = batches;
  await store.create({ conversationId, kind: 'roundtable', schemaVersion: 1, entries: first.entries, summary });
  for (const { revision, operationId, entries } of rest) {
    await store.append({ conversationId, expectedRevision: revision - 1, operationId, entries, summary });
  }
  return store;
}

/**
 * An agent whose every session goes on from its checkpoint: `turns` are its words, one for each turn it
 * has settled; `{ asks, after }` waits first. `work` is called for every execution.
 */
export function steady(id, turns, { work = async () => {}, version = '1', ...extra } = {}) {
  const opened = [];
  const ran = [];
  const factory = {
    supportsContinuation: true,
    checkpointVersions: ['v1'],
    async openSession(context) {
      opened.push(context);
      const state = { turns: 0, asked: false, ...context.checkpoint?.data };
      const settle = (words) => {
        state.turns += 1;
        state.asked = false;
        return words === '' ? { kind: 'yield' } : { kind: 'speak', content: words };
      };
      const session = {
        async runTurn(turn, options) {
          ran.push(turn.turnId);
          await work(turn, options);
          const next = turns[state.turns] ?? '';
          if (typeof next === 'string') return settle(next);
          state.asked = true;
          return waits(...next.asks.map((ask) => ask(turn)));
        },
        async resumeTurn(turn, responses, options) {
          ran.push(turn.turnId);
          await work(turn, options, responses);
          const given = responses.map(({ response }) => response.content ?? response.approved ?? response.data);
          return settle(`${turns[state.turns].after} ${given.join(' ')}`);
        },
        checkpoint: async () => ({ version: 'v1', data: { ...state } }),
      };
      return { session, release: async () => {} };
    },
    ...extra,
  };
  return { kind: 'agent', id, runtime: { id: `runtime-of-${id}`, version }, factory, opened, ran };
}

export const asksLeave = (turn) => approval(`leave for ${turn.turnId}`);
export const asksPerson = (person) => (turn) => question(`question of ${turn.turnId}`, person);

/** A selector that decides this list, one after the other, whoever made it; it keeps its place as a checkpoint. */
export function listed(...list) {
  const created = [];
  const reference = { id: 'listed', version: '1' };
  const create = ({ checkpoint }) => {
    created.push(checkpoint);
    let place = checkpoint?.data ?? 0;
    return {
      reference,
      select: () => list[place++] ?? { kind: 'finish', reason: 'done' },
      checkpoint: async () => ({ version: 's1', data: place }),
    };
  };
  return { reference, checkpointVersions: ['s1'], create, created };
}

/** Finds agents by their runtime's id, and the selector. */
export function registry(agents, selector, extra = {}) {
  return {
    resolveParticipant: ({ id }) => {
      const { runtime: reference, factory } = agents.find((agent) => agent.runtime.id === id);
      return { reference, factory };
    },
    ...(selector === undefined ? {} : { resolveSelector: () => selector }),
    ...extra,
  };
}

/** Loads with `registry(agents, selector)`; `extra` replaces options. */
export function load(conversationId, store, agents, selector, extra = {}) {
  return loadRoundtable({ conversationId, store, registry: registry(agents, selector), ...extra });
}

/** A run with turns enough; the limits of an earlier one were saved. */
export const go = (roundtable) => roundtable.run({ limits: { maxTurnsPerRun: 20 } });

/** Answers every request that is open. */
export async function answerAll(roundtable) {
  for (const request of roundtable.snapshot().requests) {
    const response =
      request.kind === 'approval' ? { kind: 'approval', approved: true } : { kind: 'input', content: 'so be it' };
    const { revision: expectedRevision } = roundtable.snapshot();
    await roundtable.resume({ requestId: request.id, responseId: `to ${request.id}`, expectedRevision, response });
  }
}

/** Runs to the end, answering whatever is asked. */
export async function finish(roundtable) {
  for (;;) {
    const result = await go(roundtable);
    if (result.status !== 'waiting' && result.reason !== 'turns') return result;
    await answerAll(roundtable);
  }
}
