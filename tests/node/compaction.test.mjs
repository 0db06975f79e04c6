// What compaction takes from those who look on: earlier revisions, and nothing else.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createRoundtable,
  exportTranscript,
  followConversation,
  forkRoundtable,
  MemoryConversationStore,
  readConversation,
} from 'agent-roundtable';
import { rejects, settled } from './support/conversations.mjs';
import { durable, load, steady } from './support/stored.mjs';

const TURNS = 60;
const words = Array.from({ length: 2 * TURNS }, (_, index) => `${index} ${'x'.repeat(1000)}`);
const agents = () => [steady('a', words), steady('b', words)];

/** A conversation long enough for a snapshot, with what was read of it at each revision and its events. */
async function written() {
  const memory = new MemoryConversationStore();
  const store = durable(memory, { watch: memory.watch.bind(memory) });
  const options = { conversationId: 'c', participants: agents(), recovery: 'durable', store };
  const roundtable = createRoundtable({ ...options, limits: { maxTurnsPerRun: 1 } });
  for (let turn = 0; turn < TURNS; turn++) await roundtable.run();
  const { revision } = roundtable.snapshot();
  const snapshots = new Map();
  for (let at = 1; at <= revision; at++) snapshots.set(at, await read(store, at));
  const events = await take(followConversation({ store, conversationId: 'c' }), revision);
  const covered = (await store.load('c')).snapshot.revision;
  assert.ok(covered > 3 && covered < revision, `${covered} of ${revision}`);
  return { store, roundtable, revision, covered, snapshots, events };
}

const read = (store, atRevision) => readConversation({ store, conversationId: 'c', atRevision });

/** Every event up to a revision. */
async function take(iterator, until) {
  const found = [];
  for (;;) {
    const { value } = await iterator.next();
    found.push(value);
    if (value.revision === until && value.type === 'run-ended') break;
  }
  await iterator.return();
  return found;
}

const follow = (store, afterRevision) => followConversation({ store, conversationId: 'c', afterRevision });

test('C53 after compaction every revision that a snapshot reaches is read as before, earlier ones are not-found', async () => {
  const { store, roundtable, revision, covered, snapshots } = await written();
  await store.compact('c', covered + 1);
  assert.deepEqual(await read(store), roundtable.snapshot());
  assert.equal(exportTranscript(await read(store), 'jsonl'), exportTranscript(snapshots.get(revision), 'jsonl'));
  for (let at = 1; at <= revision; at++) {
    if (at < covered) await rejects(read(store, at), 'not-found');
    else assert.deepEqual(await read(store, at), snapshots.get(at), `at ${at}`);
  }
});

test('C53 after compaction who joins at a revision that a snapshot reaches sees exactly the next onwards', async () => {
  const { store, revision, covered, events } = await written();
  await store.compact('c', covered + 1);
  for (const after of [covered, covered + 1, revision - 1]) {
    const expected = events.filter((event) => event.revision > after);
    assert.deepEqual(await take(follow(store, after), revision), expected, `after ${after}`);
  }
  for (const after of [0, 1, covered - 1]) await rejects(follow(store, after).next(), 'not-found');
});

test('C53 compaction does not disturb who follows already, and who is left behind is told', async () => {
  const { store, roundtable, revision, covered, events } = await written();
  const waiting = follow(store, revision);
  const next = waiting.next();
  // Reads one batch at a time, and is early.
  const small = { ...store, read: (id, { after }) => store.read(id, { after, limit: 1 }) };
  const slow = followConversation({ store: small, conversationId: 'c' });
  assert.deepEqual((await slow.next()).value, events[0]);
  await settled();
  await store.compact('c', covered + 1);
  await roundtable.run();
  const { value } = await next;
  assert.deepEqual([value.type, value.revision], ['run-started', revision + 1]);
  await waiting.return();
  const behind = async () => {
    for (let step = await slow.next(); !step.done; step = await slow.next());
  };
  await rejects(behind(), 'not-found', 'c');
  assert.deepEqual(await slow.next(), { done: true, value: undefined });
});

test('C53 after compaction a conversation is loaded, goes on and is forked as before', async () => {
  const { store, revision, covered, snapshots } = await written();
  await store.compact('c', covered + 1);
  const loaded = await load('c', store, agents(), undefined);
  assert.deepEqual(loaded.snapshot(), snapshots.get(revision));
  await loaded.run();
  assert.equal(loaded.snapshot().messages.length, TURNS + 1);
  const made = await forkRoundtable({ store, conversationId: 'c', newConversationId: 'f' });
  const fork = await load(made.conversationId, store, agents(), undefined);
  assert.equal(fork.snapshot().messages.length, TURNS + 1);
  await fork.run();
  const contents = (snapshot) => snapshot.messages.map(({ content }) => content);
  await loaded.run();
  assert.deepEqual(contents(fork.snapshot()), contents(loaded.snapshot()));
  await rejects(forkRoundtable({ store, conversationId: 'c', newConversationId: 'g', atRevision: 2 }), 'not-found');
});

test('C53 after compaction a handle tells events from a revision that a snapshot reaches on', async () => {
  const { store, roundtable, revision, covered, events } = await written();
  await store.compact('c', covered + 1);
  const told = await take(roundtable.events({ afterRevision: covered }), revision);
  assert.deepEqual(
    told,
    events.filter((event) => event.revision > covered),
  );
  await rejects(roundtable.events({ afterRevision: covered - 1 }).next(), 'not-found');
});

test('C53 a compacted journal whose snapshot cannot be read is invalid-record', async () => {
  const { store, covered } = await written();
  await store.compact('c', covered + 1);
  const spoilt = {
    ...store,
    async load(id) {
      const record = await store.load(id);
      return { ...record, snapshot: { ...record.snapshot, state: record.snapshot.state.replace('"c"', '"d"') } };
    },
  };
  await rejects(read(spoilt), 'invalid-record', 'snapshot');
});

test('C53 what is read does not depend on snapshots', async () => {
  const { store, snapshots, revision } = await written();
  const bare = { read: store.read };
  for (const at of [1, 7, revision]) assert.deepEqual(await read(bare, at), snapshots.get(at));
});
