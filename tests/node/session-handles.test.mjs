// Sessions of several conversations and handles in one process: none is in another's way.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRoundtable, MemoryConversationStore, sessionParticipant } from 'agent-roundtable';
import { fileStore } from 'agent-roundtable/node';
import { runtimeParticipant } from 'agent-roundtable/runtime';
import { calling, reply, tool } from './support/agent.mjs';
import { load } from './support/stored.mjs';
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
