// Turns that waited and that a host settled itself: the member goes on with its next turn.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRoundtable, forkRoundtable, MemoryConversationStore, sessionParticipant } from 'agent-roundtable';
import { fileStore } from 'agent-roundtable/node';
import { runtimeParticipant } from 'agent-roundtable/runtime';
import { calling, reply, tool } from './support/agent.mjs';
import { deferred } from './support/conversations.mjs';
import { load } from './support/stored.mjs';
import { temporary } from './support/teams.mjs';

const runtime = { id: 'bot', version: '1' };

const selector = {
  reference: { id: 'bot again', version: '1' },
  create: () => selector,
  select: () => ({ kind: 'speak', participantId: 'bot' }),
};

function once(due) {
  const { asks } = due;
  due.asks = false;
  return asks === true;
}

/** Agents that say how much of their own they remember; where `due` says so they ask to write in their second turn, once. */
const kinds = {
  sessionParticipant: (write = () => 'ok', due = {}) =>
    sessionParticipant({
      id: 'bot',
      runtime,
      settleTimeoutMs: 10,
      createSessionOptions: () => ({
        model: 'm',
        provider: {
          name: 'p',
          chat: async (messages) => {
            const said = messages.filter(({ role, content }) => role === 'assistant' && content !== null);
            return said.length === 1 && once(due) ? calling(['t1', 'write', {}]) : reply(`after ${said.length}`);
          },
        },
        tools: [tool('write', write)],
      }),
    }),
  runtimeParticipant: (write = () => 'ok', due = {}) =>
    runtimeParticipant({
      id: 'bot',
      runtime,
      settleTimeoutMs: 10,
      createRuntime: () => ({
        run: async (_input, { history }) => {
          const call = { toolCallId: 't1', toolName: 'write', arguments: {} };
          if (history.length === 1 && once(due)) return { interruptions: [call], state: null };
          return { finalOutput: `after ${history.length}`, newItems: [{}] };
        },
        resume: async (_state, [call], context) => ({ finalOutput: await context.toolCall(call, write), newItems: [] }),
      }),
    }),
};

for (const [kind, make] of Object.entries(kinds)) {
  for (const [where, makeStore, recovery] of [
    ['memory', () => new MemoryConversationStore(), 'none'],
    ['files', async () => fileStore({ directory: await temporary() }), 'durable'],
  ]) {
    for (const reopened of [false, true]) {
      const who = reopened ? 'another handle' : 'the same handle';
      test(`C49 a wait that ended in the unknown is settled by the host, and its member speaks again (${kind}, ${where}, ${who})`, async () => {
        const store = await makeStore();
        const [started, stop] = [deferred(), new AbortController()];
        let effects = 0;
        const write = () => {
          effects += 1;
          started.resolve();
          return new Promise(() => {});
        };
        const limits = { maxTurnsPerRun: 1 };
        const agent = make(write, { asks: true });
        const first = createRoundtable({
          conversationId: 'c',
          participants: [agent],
          selector,
          limits,
          store,
          recovery,
        });
        await first.run();
        const { revision, requests } = await first.run();
        const response = { kind: 'approval', approved: true };
        await first.resume({ requestId: requests[0].id, responseId: 'yes', expectedRevision: revision, response });
        const run = first.run({ signal: stop.signal });
        await started.promise;
        stop.abort();
        await run;
        const second = reopened ? await load('c', store, [make()], selector, { unsettled: 'reconcile' }) : first;
        const { turns } = await second.run().catch((error) => error);
        const { revision: expectedRevision } = second.snapshot();
        const decision = { kind: 'settle', outcome: { kind: 'speak', content: 'It is written.' } };
        await second.reconcile({ turnId: turns[0].turnId, expectedRevision, by: 'a test', decision });
        await second.run();
        const { revision: atRevision } = second.snapshot().messages[1];
        await forkRoundtable({ store, conversationId: 'c', atRevision, newConversationId: 'fork' });
        for (let turn = 0; turn < 2; turn++) assert.equal((await second.run()).status, 'limited');
        const fork = await load('fork', store, [make()], selector);
        assert.equal((await fork.run()).status, 'limited', 'nothing waits in a fork');
        await fork.dispose();
        assert.deepEqual(
          second.snapshot().messages.map(({ content }) => content),
          ['after 0', 'It is written.', 'after 1', 'after 2', 'after 3'],
        );
        assert.equal(effects, 1);
        await Promise.all([first.dispose(), reopened && second.dispose()]);
      });
    }
  }
}
