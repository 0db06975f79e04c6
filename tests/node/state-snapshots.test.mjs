// Snapshots of the state: written now and then, never needed, never wrong.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRoundtable, externalParticipant } from 'agent-roundtable';
import { parallel, speak, transcript } from './support/conversations.mjs';
import { unsealed } from './support/sealed.mjs';
import {
  answerAll,
  asksLeave,
  asksPerson,
  batchesOf,
  durable,
  finish,
  go,
  listed,
  load,
  steady,
} from './support/stored.mjs';

const turns = Array.from({ length: 60 }, (_, n) =>
  n % 9 === 8 ? { asks: [asksLeave, asksPerson('pia')], after: `later ${n}` } : `words ${n} `.repeat(40),
);

function parts() {
  const agents = [steady('a', turns), steady('b', turns)];
  const selector = listed(
    ...Array.from({ length: 60 }, (_, n) => (n % 3 === 0 ? parallel('a', 'b') : speak(n % 2 ? 'a' : 'b'))),
  );
  return { agents, selector };
}

/** A long conversation; its store notes the snapshots it was given. */
async function long(id) {
  const snapshots = [];
  const store = durable();
  const { append } = store;
  store.append = async (batch) => {
    if (batch.snapshot !== undefined) snapshots.push([batch.expectedRevision + 1, batch.snapshot]);
    return append(batch);
  };
  const { agents, selector } = parts();
  const roundtable = createRoundtable({
    conversationId: id,
    participants: [...agents, externalParticipant({ id: 'pia' })],
    selector: selector.create({}),
    limits: { maxTurnsPerRun: 20 },
    maxConcurrentParticipants: 2,
    recovery: 'durable',
    store,
  });
  for (let runs = 0; runs < 5; runs++) {
    await go(roundtable);
    await answerAll(roundtable);
  }
  await go(roundtable);
  await roundtable.dispose();
  return { id, store, snapshots, roundtable };
}

const without = (store) => ({
  ...store,
  load: async (id) => ({ ...(await store.load(id)), snapshot: undefined, batches: await batchesOf(store, id) }),
});

test('C53 snapshots are written by size: all together no longer than the journal', async () => {
  const { id, store, snapshots } = await long('long-1');
  const batches = await batchesOf(store, id);
  const length = (lines) => lines.reduce((sum, line) => sum + line.length, 0);
  const journal = length(batches.flatMap(({ entries }) => entries));
  assert.ok(snapshots.length > 0, `${journal} units and no snapshot`);
  assert.ok(length(snapshots.map(([, state]) => state)) <= journal);
  let since = 0;
  for (const { revision, entries } of batches) {
    since += length(entries);
    const taken = snapshots.find(([at]) => at === revision);
    if (taken === undefined) continue;
    assert.ok(taken[1].length <= since, `the snapshot at ${revision} is longer than the batches since the last`);
    since = 0;
  }
  const loaded = await store.load(id);
  assert.equal(loaded.snapshot.revision, snapshots.at(-1)[0]);
  assert.ok(loaded.batches.length < batches.length);
});

test('C53 a load with a snapshot and one without give the same conversation, which ends the same', async () => {
  const { id, store } = await long('long-2');
  const [one, other] = [parts(), parts()];
  const quick = await load(id, store, one.agents, one.selector);
  const slow = await load(id, without(store), other.agents, other.selector);
  assert.deepEqual(quick.snapshot(), slow.snapshot());
  assert.equal(quick.snapshot().messages.length > 20, true);
  assert.equal((await finish(quick)).status, 'completed');
  assert.equal((await finish(slow)).status, 'completed');
  assert.deepEqual(quick.snapshot(), slow.snapshot());
  assert.deepEqual(one.selector.created[0], other.selector.created[0]);
});

test('C53 a snapshot that cannot be read is passed over: damaged, of another revision, conversation or version', async () => {
  const { id, store } = await long('long-3');
  const whole = await load(id, store, parts().agents, parts().selector);
  const { snapshot } = await store.load(id);
  const { state, revision } = snapshot;
  const foreign = (await long('long-4')).store;
  for (const bad of [
    { revision, state: state.replace('words 1 ', 'words 2 ') },
    { revision, state: state.slice(0, -1) },
    { revision, state: '' },
    { revision, state: unsealed(state) },
    { revision, state: state.replace('roundtable-state/1', 'roundtable-state/2') },
    { revision: revision - 1, state },
    { revision, state: (await foreign.load('long-4')).snapshot.state },
  ]) {
    const damaged = { ...store, load: async () => ({ ...(await store.load(id)), snapshot: bad }) };
    const { agents, selector } = parts();
    const loaded = await load(id, damaged, agents, selector);
    assert.deepEqual(loaded.snapshot(), whole.snapshot());
  }
});

test('C53 after compaction the snapshot is what there is, and the conversation goes on', async () => {
  const { id, store } = await long('long-5');
  const { agents, selector } = parts();
  const expected = await load(id, without(store), agents, selector);
  const { snapshot } = await store.load(id);
  await store.compact(id, snapshot.revision + 1);
  const now = parts();
  const loaded = await load(id, store, now.agents, now.selector);
  assert.deepEqual(transcript(loaded), transcript(expected));
  assert.equal((await finish(loaded)).status, 'completed');
});

test('C53 C54 a snapshot is for the store alone: unpublished words are in it, and nowhere else', async () => {
  const { id, store } = await long('long-6');
  const { agents, selector } = parts();
  const loaded = await load(id, store, agents, selector);
  const shown = JSON.stringify(loaded.snapshot());
  assert.ok(!shown.includes('"asked"'), 'private states are not shown');
});
