import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRoundtable, externalParticipant, MemoryConversationStore, readConversation } from 'agent-roundtable';
import { agent, decisions, speaker } from './support/conversations.mjs';
import { sealed, unsealed } from './support/sealed.mjs';

const SECRET = 'SECRET';

/** A conversation with a group, a wait of a member, usage, and unprompted input; its snapshot at each revision. */
async function written(store) {
  const ask = { kind: 'wait', requests: [{ id: 'q', kind: 'approval', reason: 'may I', data: { tool: 't' } }] };
  const metered = async (turn, _responses, { services }) => {
    await services.admitModelCall({ callId: 'k', providerId: 'p', modelId: 'm' });
    const report = { callId: 'k', outcome: 'completed', provenance: 'reported', tokens: { input: 3 }, final: true };
    await services.recordUsage(report);
    await services.journal.append({ id: 'r', executionId: turn.attemptId, kind: 'x', text: SECRET });
    return { kind: 'speak', content: 'counted' };
  };
  const turns = [metered, async () => ask, async () => ({ kind: 'speak', content: 'done' })];
  const next = (turn, responses, options) => turns.shift()(turn, responses, options);
  const bo = agent(
    'bo',
    {
      runTurn: (turn, options) => next(turn, undefined, options),
      resumeTurn: next,
      checkpoint: async () => ({ version: SECRET, data: SECRET, append: [SECRET] }),
    },
    { supportsContinuation: true, checkpointVersions: [SECRET], modelCalls: 'metered' },
  );
  const snapshots = new Map();
  const roundtable = createRoundtable({
    conversationId: 'c',
    purpose: 'agree',
    participants: [speaker('ana', 'hello'), bo, externalParticipant({ id: 'pia', description: 'a person' })],
    selector: decisions({ kind: 'parallel', participantIds: ['ana', 'bo'] }, { kind: 'speak', participantId: 'bo' }),
    limits: { maxTurnsPerRun: 9 },
    store,
    onEvent: () => void note(),
  });
  const note = () => {
    const snapshot = roundtable.snapshot();
    snapshots.set(snapshot.revision, snapshot);
  };
  const { revision } = await roundtable.run();
  const response = { kind: 'approval', approved: true };
  await roundtable.resume({ requestId: 'q', responseId: 'a', expectedRevision: revision, response });
  note();
  await roundtable.run();
  note();
  return { snapshots, last: roundtable.snapshot() };
}

const read = (store, atRevision) =>
  readConversation({ store, conversationId: 'c', ...(atRevision === undefined ? {} : { atRevision }) });

test('C52 a conversation is read at any revision, as its own handle saw it then', async () => {
  const store = new MemoryConversationStore();
  const { snapshots, last } = await written(store);
  assert.deepEqual(await read(store), last);
  assert.equal(last.status, 'completed');
  assert.ok(snapshots.size > 8);
  for (const [revision, snapshot] of snapshots) assert.deepEqual(await read(store, revision), snapshot);
});

test('C52 reading takes no claim and calls nothing but read', async () => {
  const store = new MemoryConversationStore();
  const { last } = await written(store);
  await store.claim('c', 'another', 30_000);
  const reader = { read: (...call) => store.read(...call) };
  assert.deepEqual(await readConversation({ store: reader, conversationId: 'c' }), last);
});

test('C52 a snapshot that was read is frozen throughout', async () => {
  const store = new MemoryConversationStore();
  await written(store);
  const isFrozen = (value) => {
    if (typeof value !== 'object' || value === null) return true;
    return Object.isFrozen(value) && Object.values(value).every(isFrozen);
  };
  for (let revision = 1; revision < 9; revision++) assert.ok(isFrozen(await read(store, revision)));
});

test('C54 what is private is in no snapshot that is read', async () => {
  const store = new MemoryConversationStore();
  const { last } = await written(store);
  for (let revision = 1; revision <= last.revision; revision++) {
    const text = JSON.stringify(await read(store, revision));
    assert.ok(!text.includes(SECRET));
    // Settled words are private until their group is committed.
    const { messages } = JSON.parse(text);
    assert.equal(text.includes('counted'), messages.length > 0);
  }
});

test('C52 a journal is read over as many pages as the store makes of it', async () => {
  const store = new MemoryConversationStore();
  const { last } = await written(store);
  for (const size of [1, 2, 3, 7]) {
    const calls = [];
    const paged = {
      async read(id, { after, limit }) {
        calls.push(after);
        return store.read(id, { after, limit: Math.min(size, limit) });
      },
    };
    assert.deepEqual(await readConversation({ store: paged, conversationId: 'c' }), last);
    assert.equal(calls.length, Math.ceil(last.revision / size));
    const early = await readConversation({ store: paged, conversationId: 'c', atRevision: 4 });
    assert.deepEqual(early, await read(store, 4));
  }
});

test('C52 a conversation or revision that there is not, or not any more, is not-found', async () => {
  const store = new MemoryConversationStore();
  const { last } = await written(store);
  const missing = (call) => assert.rejects(call, { name: 'RoundtableError', code: 'not-found' });
  await missing(readConversation({ store, conversationId: 'd' }));
  await missing(read(store, last.revision + 1));
  const gone = { read: async () => ({ revision: last.revision, batches: [] }) };
  await missing(readConversation({ store: gone, conversationId: 'c' }));
  const refuses = {
    async read() {
      throw Object.assign(new Error('compacted'), { code: 'not-found' });
    },
  };
  await missing(readConversation({ store: refuses, conversationId: 'c' }));
});

test('C43 a journal that does not fold is invalid-record with the index of the entry and the reason', async () => {
  const store = new MemoryConversationStore();
  await written(store);
  const { revision, batches } = await store.read('c', { after: 0 });
  const entries = batches.flatMap((batch) => batch.entries);
  const change = (at, line) => {
    let index = 0;
    const changed = batches.map((batch) => ({
      ...batch,
      entries: batch.entries.map((entry) => (index++ === at ? line : entry)),
    }));
    return { read: async (_, { after, limit }) => ({ revision, batches: changed.slice(after, after + limit) }) };
  };
  for (const [at, entry] of entries.entries()) {
    const lines = [
      '',
      '7',
      `${entry} `,
      `${entry}\n`,
      entry.slice(1),
      entry.replace('{', '{"x":1,'),
      '{"unknown/1":{}}',
      unsealed(entry),
      sealed('{"unknown/1":{}}'),
    ];
    for (const line of lines) {
      await assert.rejects(readConversation({ store: change(at, line), conversationId: 'c' }), (error) => {
        assert.equal(error.code, 'invalid-record', line);
        assert.match(error.message, new RegExp(`^entry ${at} does not fold: .`), line);
        return true;
      });
    }
  }
  const swapped = [batches[1], batches[0], ...batches.slice(2)];
  const odd = { read: async () => ({ revision, batches: swapped }) };
  await assert.rejects(readConversation({ store: odd, conversationId: 'c' }), { code: 'invalid-record' });
  await assert.rejects(
    readConversation({ store: { read: async () => ({ revision, batches }) }, conversationId: 'd' }),
    {
      code: 'invalid-record',
      message: /entry 0 /,
    },
  );
});

test('C45 a store that fails, or gives something odd, is unavailable', async () => {
  const failing = async () => {
    throw new Error('down');
  };
  const odd = [{}, 7, { revision: 1, batches: 7 }, { revision: -1, batches: [] }, { revision: 1, batches: [{}] }];
  odd.push({ revision: 1, batches: [{ revision: 1, operationId: 'create', entries: [7] }] });
  for (const call of [failing, ...odd.map((value) => async () => value)]) {
    const reading = readConversation({ store: { read: call }, conversationId: 'c' });
    await assert.rejects(reading, { name: 'RoundtableError', code: 'unavailable' });
  }
});

test('C52 options are checked at the door', async () => {
  const store = new MemoryConversationStore();
  const refused = (options, message) => assert.rejects(readConversation(options), { code: 'invalid-config', message });
  await refused(undefined, /options/);
  await refused({ conversationId: 'c' }, /store/);
  await refused({ store: {}, conversationId: 'c' }, /store/);
  await refused({ store, conversationId: '' }, /conversationId/);
  await refused({ store, conversationId: 'x'.repeat(513) }, /conversationId/);
  await refused({ store, conversationId: 'c', revision: 1 }, /revision/);
  for (const atRevision of [0, -1, 1.5, Number.NaN, 2 ** 53, '1', null]) {
    await refused({ store, conversationId: 'c', atRevision }, /atRevision/);
  }
});

test('C52 what is said arrives whole, wherever in it the first character stands that is not ASCII', async () => {
  const said = ['é', '語', '🙂', ''].flatMap((odd) =>
    [0, 1, 30, 63, 64, 65, 5000].flatMap((place) => [
      `${'a'.repeat(place)}${odd}`,
      `${'a'.repeat(place)}${odd}b${odd}`,
    ]),
  );
  for (const content of [...said, '🙂'.repeat(3000), 'é'.repeat(100_000)].filter((text) => text !== '')) {
    const store = new MemoryConversationStore();
    const table = createRoundtable({
      conversationId: 'c',
      participants: [speaker('ana', content)],
      limits: { maxTurnsPerRun: 1 },
      store,
    });
    await table.run();
    const [message] = (await read(store)).messages;
    assert.ok(message.content === content, `${content.length} units`);
    assert.deepEqual(table.snapshot().messages, [message]);
  }
});
