// The storage port: the memory store keeps every rule, and the suite of rules notices a store that breaks one.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { MemoryConversationStore } from 'agent-roundtable';
import { storeConformance } from 'agent-roundtable/testing';
import { BROKEN } from './support/broken-stores.mjs';
import { refuses } from './support/conversations.mjs';

/** A store whose time a test moves. */
function inMemory(wrap = (store) => store) {
  const clock = { time: 1000, now: () => clock.time };
  const elapse = (ms) => {
    clock.time += ms;
  };
  return { store: wrap(new MemoryConversationStore({ clock }), clock), elapse };
}

describe('memory store', () => {
  storeConformance(() => inMemory(), { test });

  test('C46 the lease is counted by the clock that was given', async () => {
    const { store, elapse } = inMemory();
    const record = { conversationId: 'c', kind: 'roundtable', schemaVersion: 1, entries: [] };
    await store.create({ ...record, summary: { status: 'open', members: [], createdAt: '', updatedAt: '' } });
    const claim = await store.claim('c', 'one', 100);
    assert.equal(claim.expiresAt, 1100);
    elapse(99);
    assert.equal((await store.renew(claim, 1)).expiresAt, 1100);
    elapse(1);
    await assert.rejects(store.renew(claim, 1), { code: 'stale-claim' });
  });

  test('the clock option has now', () => {
    for (const clock of [{}, { now: 5 }])
      refuses(() => new MemoryConversationStore({ clock }), 'invalid-config', 'clock.now');
  });
});

describe('the suite notices', () => {
  test('a bare store will do, and every rule has a title of its own', async () => {
    const all = rules(() => new MemoryConversationStore());
    assert.equal(new Set(all.map(({ title }) => title)).size, all.length);
    await all[0].run();
  });

  test('a store is taken down after every rule, failed ones included', async () => {
    let down = 0;
    const dispose = () => {
      down += 1;
    };
    const all = rules(() => ({ store: {}, dispose }));
    for (const { run } of all) await assert.rejects(run());
    assert.equal(down, all.length);
  });

  for (const { fault, breaks, wrap } of BROKEN) {
    test(`a store that ${fault}`, async () => {
      const { title, run } = rules(() => inMemory(wrap)).find((rule) => rule.title.includes(breaks));
      await assert.rejects(run(), (error) => !(error instanceof TypeError), title);
    });
  }

  test('of every rule a store that breaks it', () => {
    const without = rules(() => inMemory()).filter(({ title }) => !BROKEN.some(({ breaks }) => title.includes(breaks)));
    assert.deepEqual(without, []);
  });
});

function rules(makeStore) {
  const found = [];
  storeConformance(makeStore, { test: (title, run) => found.push({ title, run }), batches: 1_000 });
  return found;
}
