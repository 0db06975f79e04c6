import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRoundtable, externalParticipant, MemoryConversationStore, RoundtableError } from 'agent-roundtable';

const agent = (id) => ({
  kind: 'agent',
  id,
  runtime: { id: 'r', version: '1' },
  factory: {
    openSession: async () => ({
      session: { runTurn: async () => ({ kind: 'speak', content: `${id} speaks` }) },
      release: async () => {},
    }),
  },
});

function conversation(store, onEvent) {
  const participants = [agent('ana'), externalParticipant({ id: 'pia' })];
  return createRoundtable({ conversationId: 'c', participants, limits: { maxTurnsPerRun: 5 }, store, onEvent });
}

async function take(iterator, count) {
  const events = [];
  while (events.length < count) events.push((await iterator.next()).value);
  return events;
}

test('C18 events from a revision are exactly those that came after it, then the live ones', async () => {
  const told = [];
  const roundtable = conversation(new MemoryConversationStore(), (event) => void told.push(event));
  const { requests, revision } = await roundtable.run();
  for (const afterRevision of [0, 1, 2, revision]) {
    const expected = told.filter((event) => event.revision > afterRevision);
    const events = roundtable.events({ afterRevision });
    assert.deepEqual(await take(events, expected.length), expected);
    await events.return();
  }
  const events = roundtable.events({ afterRevision: 1 });
  const reply = { participantId: 'pia', inputId: 'i', content: 'hello', replyToRequestId: requests[0].id };
  await roundtable.submitInput({ ...reply, expectedRevision: revision });
  const expected = told.filter((event) => event.revision > 1);
  assert.equal(expected.at(-1).type, 'published');
  assert.deepEqual(await take(events, expected.length), expected);
  await roundtable.dispose();
  assert.deepEqual(await events.next(), { done: true, value: undefined });
});

test('C18 a revision that is none is refused with its field', async () => {
  const roundtable = conversation(new MemoryConversationStore());
  for (const afterRevision of [-1, 1.5, Number.NaN, 2 ** 53, '1', null]) {
    assert.throws(
      () => roundtable.events({ afterRevision }),
      (error) =>
        error instanceof RoundtableError && error.code === 'invalid-config' && /afterRevision/.test(error.message),
    );
  }
});

test('C45 a store that cannot be read fails the iterator with a code, not the process', async () => {
  let down = false;
  class Store extends MemoryConversationStore {
    async read(...call) {
      if (down) throw new Error('down');
      return super.read(...call);
    }
  }
  const roundtable = conversation(new Store());
  await roundtable.run();
  down = true;
  roundtable.events({ afterRevision: 0 });
  await assert.rejects(roundtable.events({ afterRevision: 0 }).next(), { code: 'unavailable' });
});
