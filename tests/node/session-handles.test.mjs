// Sessions of several conversations and handles in one process: none is in another's way.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRoundtable, MemoryConversationStore, sessionParticipant } from 'agent-roundtable';
import { fileStore } from 'agent-roundtable/node';
import { runtimeParticipant } from 'agent-roundtable/runtime';
import { openDefaultJournal, virtualClock } from 'agent-roundtable/testing';
import { calling, reply, tool } from './support/agent.mjs';
import { deferred } from './support/conversations.mjs';
import { batchesOf, durable, load, storeOf } from './support/stored.mjs';
import { temporary } from './support/teams.mjs';

const runtime = { id: 'bot', version: '1' };
const limits = { maxTurnsPerRun: 1 };
const yes = ({ revision, requests: [request] }) => ({
  requestId: request.id,
  responseId: 'yes',
  expectedRevision: revision,
  response: { kind: 'approval', approved: true },
});

/** A session that asks before it writes. */
function writer(effects, label) {
  return sessionParticipant({
    id: 'bot',
    runtime,
    createSessionOptions: () => ({
      model: 'm',
      provider: {
        name: 'p',
        chat: async (messages) =>
          messages.some(({ role }) => role === 'tool') ? reply('written') : calling(['t1', 'write', { label }]),
      },
      tools: [tool('write', (args) => void effects.push(args.label) ?? 'ok')],
    }),
  });
}

for (const [name, options] of Object.entries({
  'stores of their own by default': () => ({}),
  'two memory stores': () => ({ store: new MemoryConversationStore() }),
  'two memory stores and one seed': () => ({ store: new MemoryConversationStore(), seed: 's' }),
})) {
  test(`F no cross-talk: conversations of one id in ${name} wait, are answered and go on apart`, async () => {
    const effects = [];
    const tables = ['one', 'two'].map((label) =>
      createRoundtable({ conversationId: 'same', participants: [writer(effects, label)], limits, ...options() }),
    );
    for (const table of tables) {
      const waiting = await table.run();
      assert.equal(waiting.status, 'waiting');
      await table.resume(yes(waiting));
    }
    for (const table of tables) assert.equal((await table.run()).status, 'limited');
    assert.deepEqual(effects, ['one', 'two']);
    await Promise.all(tables.map((table) => table.dispose()));
  });
}

/** Participants that say how many turns their private history holds. */
const kinds = {
  sessionParticipant: () =>
    sessionParticipant({
      id: 'bot',
      runtime,
      createSessionOptions: () => ({
        model: 'm',
        provider: {
          name: 'p',
          chat: async (messages) => reply(`turn ${messages.filter(({ role }) => role === 'user').length}`),
        },
      }),
    }),
  runtimeParticipant: () =>
    runtimeParticipant({
      id: 'bot',
      runtime,
      createRuntime: () => ({
        run: async (_input, { history }) => ({ finalOutput: `turn ${history.length + 1}`, newItems: [{}] }),
      }),
    }),
};

for (const [kind, make] of Object.entries(kinds)) {
  for (const [where, makeStore] of Object.entries({
    memory: () => new MemoryConversationStore(),
    files: async () => fileStore({ directory: await temporary() }),
  })) {
    test(`F the same record opened twice: handles take turns, each with the whole history (${kind}, ${where})`, async () => {
      const store = await makeStore();
      const first = createRoundtable({ conversationId: 'c', participants: [make()], limits, store });
      assert.equal((await first.run()).status, 'limited');
      const second = await load('c', store, [make()]);
      for (const table of [second, first, first, second]) assert.equal((await table.run()).status, 'limited');
      assert.deepEqual(
        second.snapshot().messages.map(({ content }) => content),
        ['turn 1', 'turn 2', 'turn 3', 'turn 4', 'turn 5'],
      );
      await Promise.all([first.dispose(), second.dispose()]);
    });
  }
}

for (const [kind, make] of Object.entries(kinds)) {
  test(`F a handle that lost its record while a session opened stands in no other handle's way (${kind})`, async () => {
    const identity = 'one store';
    const store = durable(undefined, { identity });
    const clock = virtualClock();
    const [claimed, opening, open] = [deferred(), deferred(), deferred()];
    const { factory, ...rest } = make();
    const openSession = async (context) => {
      opening.resolve();
      await open.promise;
      return factory.openSession(context);
    };
    const claim = async (...args) => {
      const given = await store.claim(...args);
      claimed.resolve(given);
      return given;
    };
    const first = createRoundtable({
      conversationId: 'c',
      participants: [{ ...rest, factory: { ...factory, openSession } }],
      limits,
      recovery: 'durable',
      clock,
      store: durable(store, { claim, identity }),
    });
    const run = first.run();
    await opening.promise;
    await store.release(await claimed.promise);
    await clock.advance(15_000); // it renews its claim, and hears that it is gone
    open.resolve();
    await assert.rejects(run, { code: 'stale-claim' });
    const { turns } = await load('c', store, [make()]).catch((error) => error);
    const second = await load('c', store, [make()], undefined, { unsettled: 'reconcile' });
    const { revision: expectedRevision } = second.snapshot();
    await second.reconcile({ turnId: turns[0].turnId, expectedRevision, by: 'a test', decision: { kind: 'retry' } });
    assert.equal((await second.run()).status, 'limited');
    await Promise.all([first.dispose(), second.dispose()]);
  });
}

test('A76 a parked wait of a foreign runtime is found again where its record is reached through another store object', async () => {
  const store = new MemoryConversationStore();
  const bound = (target, key) => (typeof target[key] === 'function' ? target[key].bind(target) : target[key]);
  const through = new Proxy(store, { get: bound });
  const effects = [];
  const agent = runtimeParticipant({
    id: 'bot',
    runtime,
    createRuntime: () => ({
      run: async () => ({ interruptions: [{ toolCallId: 't', toolName: 'write', arguments: {} }], state: null }),
      resume: async (_state, [decision], context) => ({
        finalOutput: await context.toolCall(decision, () => `written ${effects.push('w')}`),
        newItems: [],
      }),
    }),
  });
  const first = createRoundtable({ conversationId: 'foreign', participants: [agent], limits, store });
  const waiting = await first.run();
  await first.dispose();
  const again = await load('foreign', through, [agent]);
  await again.resume(yes(waiting));
  assert.equal((await again.run()).status, 'limited');
  assert.deepEqual([again.snapshot().messages[0].content, effects], ['written 1', ['w']]);
  await again.dispose();
});

test('A71 A76 a wait that was copied to another store is taken over whole, and leaves nothing where it was', async () => {
  const effects = [];
  const agent = writer(effects, 'one');
  const store = durable(undefined, { identity: 'the first' });
  const first = createRoundtable({ conversationId: 'moved', participants: [agent], limits, store, recovery: 'none' });
  const waiting = await first.run();
  await first.dispose();
  const { executionId } = waiting.requests[0].data;
  const left = openDefaultJournal(JSON.stringify(['moved', 'bot']), 'identity the first');
  assert.equal((await left.read(executionId)).length, 3);
  const again = await load('moved', await storeOf('moved', await batchesOf(store, 'moved')), [agent]);
  await again.resume(yes(waiting));
  assert.equal((await again.run()).status, 'limited');
  assert.deepEqual([effects, await left.read(executionId)], [['one'], []]);
  await again.dispose();
});
