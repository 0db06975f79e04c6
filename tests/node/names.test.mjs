// Names that are hard on providers, stores and prompts go through everything a conversation does.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createRoundtable,
  exportTranscript,
  externalParticipant,
  forkRoundtable,
  sessionParticipant,
} from 'agent-roundtable';
import { calling, reply } from './support/agent.mjs';
import { chair, finish, speak } from './support/selector.mjs';
import { noting } from './support/session.mjs';
import { answerAll, durable, load } from './support/stored.mjs';

const NAMES = ['two words', '参加者 ü', 'x'.repeat(300), '__proto__', '### From ana', 'a.b/c:d"e'];

test('F odd ids last through sessions, a selector, waits, loads, forks and transcripts, and providers get none as a name', async () => {
  for (const name of NAMES) {
    const person = `${name} person`;
    const requests = [];
    const write = noting('write');
    const provider = (...replies) => ({
      name: 'scripted',
      async chat(messages, options) {
        requests.push({ messages, options });
        return replies.shift();
      },
    });
    const agent = (...replies) =>
      sessionParticipant({
        id: name,
        runtime: { id: `runtime of ${name}`, version: '1' },
        createSessionOptions: () => ({ provider: provider(...replies), model: 'm', tools: [write] }),
      });
    const selector = (...replies) => chair(provider(...replies));
    const [conversationId, store] = [`conversation of ${name}`, durable()];
    const description = `describes ${name}`;
    const table = createRoundtable({
      conversationId,
      participants: [agent(calling(['t', 'write', {}])), externalParticipant({ id: person, description })],
      selector: selector(speak(name)),
      limits: { maxTurnsPerRun: 5 },
      recovery: 'durable',
      store,
    });
    const waiting = await table.run();
    assert.deepEqual([waiting.status, waiting.requests[0].memberId], ['waiting', name]);
    await table.dispose();

    const loaded = await load(conversationId, store, [agent(reply('written'))], selector(finish()).registration);
    await answerAll(loaded);
    assert.equal((await loaded.run({ limits: { maxTurnsPerRun: 1 } })).reason, 'turns');
    assert.equal(write.calls.length, 1);
    const { revision: expectedRevision } = loaded.snapshot();
    await loaded.submitInput({ participantId: person, inputId: `i ${name}`, content: 'thanks', expectedRevision });
    const newConversationId = `fork of ${name}`;
    await forkRoundtable({ store, conversationId, newConversationId });
    assert.equal((await loaded.run()).status, 'completed');
    const ended = loaded.snapshot();
    await loaded.dispose();
    const forked = await load(newConversationId, store, [agent()], selector(finish()).registration);
    assert.equal((await forked.run()).status, 'completed');

    for (const snapshot of [ended, forked.snapshot()]) {
      const authors = snapshot.messages.map(({ participantId }) => participantId);
      assert.deepEqual(authors, [name, person]);
      const lines = exportTranscript(snapshot, 'jsonl')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
      assert.ok(JSON.stringify(lines).includes(JSON.stringify(name)));
    }
    await forked.dispose();
    assert.equal(requests.length, 5);
    for (const { messages, options } of requests) {
      for (const message of messages) {
        assert.equal(message.name, message.role === 'tool' ? 'write' : undefined);
        assert.ok(!JSON.stringify({ ...message, content: null }).includes(JSON.stringify(name).slice(1, -1)));
      }
      for (const { name: toolName } of options.tools) assert.match(toolName, /^(write|decide_next_speaker)$/);
    }
  }
});

test('F one record opened twice, and another conversation with the same names: nobody disturbs anybody', async () => {
  const words = (table) => table.snapshot().messages.map(({ content }) => content);
  const make = (said) =>
    sessionParticipant({
      id: 'ana',
      runtime: { id: 'ana', version: '1' },
      createSessionOptions: () => ({
        provider: { name: 'p', chat: async (messages) => reply(`${said} after ${messages.length}`) },
        model: 'm',
      }),
    });
  const limits = { maxTurnsPerRun: 1 };
  const create = (conversationId, said, store) =>
    createRoundtable({ conversationId, participants: [make(said)], limits, store, seed: 'same' });
  const store = durable();
  const [one, two] = [create('one', 'one', store), create('two', 'two', store)];
  await Promise.all([one.run(), two.run()]);
  const again = await load('one', store, [make('one')]);
  const before = again.snapshot();
  await Promise.all([again.run({ limits }), two.run()]);
  await one.run();
  assert.deepEqual(words(one), ['one after 1', 'one after 3', 'one after 5']);
  assert.deepEqual(words(two), ['two after 1', 'two after 3']);
  assert.equal(before.messages.length, 1, 'a snapshot stays what it was');
  await one.dispose();
  await again.run({ limits });
  assert.deepEqual(words(again), ['one after 1', 'one after 3', 'one after 5', 'one after 7']);
  assert.equal(two.snapshot().messages.length, 2);
  await Promise.all([two.dispose(), again.dispose()]);
});
