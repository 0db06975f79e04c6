import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createRoundtable,
  externalParticipant,
  forkRoundtable,
  MemoryConversationStore,
  readConversation,
} from 'agent-roundtable';
import { faultyStore, virtualClock } from 'agent-roundtable/testing';
import {
  agent,
  answer,
  decisions,
  finish,
  parallel,
  rejects,
  speak,
  wait,
  waits,
  question,
} from './support/conversations.mjs';

/** An agent whose private state is what it was shown and said. */
function keeper(id, ...outcomes) {
  const history = [];
  let fresh = [];
  const next = async (turn) => {
    const said = outcomes.shift() ?? { kind: 'speak', content: `${id} says ${history.length}` };
    fresh.push(...turn.context.messages.map((message) => message.content), `SECRET of ${id}`);
    return said;
  };
  return agent(
    id,
    {
      runTurn: next,
      resumeTurn: next,
      checkpoint: async () => {
        history.push(...fresh);
        const append = fresh;
        fresh = [];
        return { version: '1', data: { id }, append };
      },
    },
    { supportsContinuation: true, checkpointVersions: ['1'] },
  );
}

function conversation(store, choices, ana = keeper('ana')) {
  return createRoundtable({
    conversationId: 'c',
    purpose: 'agree',
    participants: [ana, keeper('bo'), externalParticipant({ id: 'pia' })],
    selector: { ...decisions(...choices), reference: { id: 's', version: '1' } },
    limits: { maxTurnsPerRun: 9 },
    store,
  });
}

const lines = async (store, id) => (await store.read(id, { after: 0 })).batches.flatMap((batch) => batch.entries);
const read = (store, conversationId) => readConversation({ store, conversationId });
const fork = (store, options) => forkRoundtable({ store, conversationId: 'c', newConversationId: 'f', ...options });

test('C52a a fork begins with what was published, and its first entry names the origin', async () => {
  const store = new MemoryConversationStore();
  const roundtable = conversation(store, [parallel('ana', 'bo'), speak('ana'), finish()]);
  const { revision } = await roundtable.run();
  assert.deepEqual(await fork(store), { conversationId: 'f', revision: 1 });
  const [origin, forked] = [await read(store, 'c'), await read(store, 'f')];
  assert.deepEqual(forked, {
    ...origin,
    conversationId: 'f',
    revision: 1,
    status: 'open',
    messages: origin.messages.map((message) => ({ ...message, revision: 1 })),
  });
  assert.equal(forked.messages.length, 3);
  const [[kind, created]] = Object.entries(JSON.parse((await lines(store, 'f'))[0]));
  assert.equal(kind, 'created/1');
  assert.equal(created.origin.conversationId, 'c');
  assert.equal(created.origin.revision, revision);
  const { items } = await store.list({});
  const listed = items.find((item) => item.conversationId === 'f');
  assert.deepEqual(listed.summary.members, ['ana', 'bo', 'pia']);
  assert.deepEqual([listed.kind, listed.summary.status, listed.revision], ['roundtable', 'open', 1]);
  assert.deepEqual(await read(store, 'c'), origin);
});

test('C52a a fork is made at any revision without an open group; an open one is a conflict', async () => {
  const store = new MemoryConversationStore();
  const roundtable = conversation(store, [speak('ana'), speak('bo'), finish()]);
  const { revision } = await roundtable.run();
  let refused = 0;
  for (let at = 1; at <= revision; at++) {
    const newConversationId = `f${at}`;
    const entries = (await store.read('c', { after: 0, limit: at })).batches.flatMap((batch) => batch.entries);
    const count = (kind) => entries.filter((line) => line.startsWith(`{"${kind}/`)).length;
    const made = fork(store, { atRevision: at, newConversationId });
    if (count('group-started') > count('group-committed')) {
      refused += 1;
      await rejects(made, 'conflict', `revision ${at}`);
      continue;
    }
    await made;
    const { messages, turns } = await readConversation({ store, conversationId: 'c', atRevision: at });
    const forked = await read(store, newConversationId);
    assert.deepEqual(
      forked.messages.map((m) => m.id),
      messages.map((m) => m.id),
    );
    assert.deepEqual(forked.turns, turns);
  }
  assert.ok(refused > 0 && refused < revision);
});

test('F a fork carries no request, answer or word from after the fork point, nor any of an open group', async () => {
  const store = new MemoryConversationStore();
  const ana = keeper('ana', { kind: 'speak', content: 'early' }, waits(question('q', 'pia')));
  const roundtable = conversation(store, [speak('ana'), speak('ana'), wait('pia'), finish()], ana);
  const waiting = await roundtable.run();
  assert.equal(waiting.status, 'waiting');
  await answer(roundtable, waiting, 'the answer', 'i1');
  // The group is open: the fork is made of what was before it.
  await fork(store);
  const text = (await lines(store, 'f')).join('\n');
  assert.ok(text.includes('early') && !text.includes('the answer') && !text.includes('"q"') && !text.includes('i1'));
  const forked = await read(store, 'f');
  assert.deepEqual([forked.status, forked.requests, forked.messages.length], ['open', [], 1]);
  await rejects(fork(store, { atRevision: waiting.revision, newConversationId: 'g' }), 'conflict', 'group is open');
});

test('C52a the ledger stays behind', async () => {
  const store = new MemoryConversationStore();
  const metered = agent(
    'ana',
    async (_turn, { services }) => {
      await services.admitModelCall({ callId: 'k', providerId: 'p', modelId: 'm' });
      return { kind: 'speak', content: 'x' };
    },
    { modelCalls: 'metered' },
  );
  const roundtable = createRoundtable({
    conversationId: 'c',
    participants: [metered],
    selector: { ...decisions(speak('ana')), modelCalls: 'none' },
    limits: { maxTurnsPerRun: 2, maxModelCallsPerConversation: 1 },
    store,
  });
  await roundtable.run();
  await fork(store);
  assert.equal((await read(store, 'c')).usage.length, 1);
  assert.deepEqual((await read(store, 'f')).usage, []);
});

test('C54 private states are copied, and shown nowhere', async () => {
  const store = new MemoryConversationStore();
  await conversation(store, [parallel('ana', 'bo'), speak('ana'), finish()]).run();
  await fork(store);
  const copied = (await lines(store, 'f')).map((line) => JSON.parse(line)['checkpoint-copied/1']).filter(Boolean);
  assert.deepEqual(
    copied.map(({ participantId }) => participantId),
    ['ana', 'bo'],
  );
  assert.deepEqual(copied[0].checkpoint.append, ['SECRET of ana', 'bo says 0', 'SECRET of ana']);
  assert.ok(!JSON.stringify(await read(store, 'f')).includes('SECRET'));
});

test('C52a a fork takes no claim and disturbs nobody', async () => {
  const store = new MemoryConversationStore();
  await conversation(store, [speak('ana')]).run();
  await store.claim('c', 'another', 30_000);
  const { read: reading, create } = store;
  await fork({ read: reading.bind(store), create: create.bind(store) });
  assert.equal((await read(store, 'f')).messages.length, 1);
});

test('C52a an id that exists is a conflict, and the same fork again is the same bytes', async () => {
  const store = new MemoryConversationStore();
  const clock = virtualClock();
  await conversation(store, [speak('ana'), speak('bo')]).run();
  await fork(store, { clock });
  await rejects(fork(store, { clock }), 'conflict', '"f"');
  await rejects(fork(store, { newConversationId: 'c' }), 'conflict', 'newConversationId');
  const first = await lines(store, 'f');
  await store.delete('f');
  await fork(store, { clock });
  assert.deepEqual(await lines(store, 'f'), first);
});

test('C45 a lost acknowledgement of the fork is made good by reading', async () => {
  const store = new MemoryConversationStore();
  await conversation(store, [speak('ana')]).run();
  const lost = (when) => faultyStore(store, ({ method }) => (method === 'create' ? { when } : undefined));
  await rejects(fork(lost('before')), 'unavailable');
  await rejects(read(store, 'f'), 'not-found');
  assert.deepEqual(await fork(lost('after')), { conversationId: 'f', revision: 1 });
  assert.equal((await read(store, 'f')).messages.length, 1);
  // What somebody else has put there meanwhile, such as a fork of another moment, is not taken for this one.
  await rejects(fork(lost('before'), { clock: virtualClock() }), 'unavailable');
});

test('C52a what cannot be forked is refused', async () => {
  const store = new MemoryConversationStore();
  await rejects(fork(store), 'not-found');
  const { revision } = await conversation(store, [speak('ana')]).run();
  await rejects(fork(store, { atRevision: revision + 1 }), 'not-found');
  for (const atRevision of [0, -1, 1.5, Number.NaN, 2 ** 53, '1', null]) {
    await rejects(fork(store, { atRevision }), 'invalid-config', 'atRevision');
  }
  await rejects(fork(store, { newConversationId: '' }), 'invalid-config', 'newConversationId');
  await rejects(fork(store, { newConversationId: undefined }), 'invalid-config', 'newConversationId');
  await rejects(fork({ read: store.read }), 'invalid-config', 'store');
  await rejects(fork(store, { at: 1 }), 'invalid-config', 'at');
  assert.equal((await store.list({})).items.length, 1);
});
