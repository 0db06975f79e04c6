// The storage port, as the memory store keeps it.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { MemoryConversationStore } from 'agent-roundtable';
import { rejects, refuses } from './support/conversations.mjs';

const summary = (extra = {}) => ({
  status: 'open',
  members: ['a', 'b'],
  createdAt: '2027-01-01T00:00:00.000Z',
  updatedAt: '2027-01-01T00:00:00.000Z',
  ...extra,
});
const record = (conversationId, extra = {}) => ({
  conversationId,
  kind: 'roundtable',
  schemaVersion: 1,
  entries: ['{"one":1}'],
  summary: summary(),
  ...extra,
});
const batch = (claim, expectedRevision, operationId, extra = {}) => ({
  conversationId: 'c',
  claim,
  expectedRevision,
  operationId,
  entries: [`{"${operationId}":1}`],
  summary: summary({ status: 'waiting' }),
  ...extra,
});

/** A store with a record `c` and a clock that a test moves. */
async function prepared() {
  const clock = { time: 1000, now: () => clock.time };
  const store = new MemoryConversationStore({ clock });
  await store.create(record('c'));
  return { store, clock };
}

describe('create and load', () => {
  test('create writes batch 1 under the operation id create; a second one is a conflict', async () => {
    const { store } = await prepared();
    await rejects(store.create(record('c')), 'conflict', '"c"');
    assert.deepEqual(await store.load('c'), {
      conversationId: 'c',
      kind: 'roundtable',
      schemaVersion: 1,
      revision: 1,
      summary: summary(),
      batches: [{ revision: 1, operationId: 'create', entries: ['{"one":1}'] }],
    });
    assert.equal(await store.load('unknown'), undefined);
    assert.equal(await store.read('unknown', { after: 0 }), undefined);
  });

  test('of concurrent creations exactly one succeeds', async () => {
    const store = new MemoryConversationStore();
    const results = await Promise.allSettled(Array.from({ length: 20 }, () => store.create(record('c'))));
    assert.equal(results.filter((result) => result.status === 'fulfilled').length, 1);
  });

  test('what was handed in and handed out can be changed without effect', async () => {
    const { store } = await prepared();
    const given = batch(undefined, 1, 'x');
    await store.append(given);
    given.entries.push('more');
    given.summary.members.push('z');
    const loaded = await store.load('c');
    assert.throws(() => loaded.batches[0].entries.push('more'), TypeError);
    loaded.summary.members.length = 0;
    loaded.batches.length = 0;
    const again = await store.load('c');
    assert.deepEqual(again.batches[1].entries, ['{"x":1}']);
    assert.deepEqual(again.summary.members, ['a', 'b']);
  });
});

describe('claims', () => {
  test('C46 one unexpired owner; the fence grows with each claim', async () => {
    const { store, clock } = await prepared();
    const first = await store.claim('c', 'one', 100);
    assert.deepEqual(first, { conversationId: 'c', ownerId: 'one', fence: 1, expiresAt: 1100 });
    await rejects(store.claim('c', 'two', 100), 'busy');
    clock.time = 1100;
    const second = await store.claim('c', 'two', 100);
    assert.equal(second.fence, 2);
    await store.release(first);
    await rejects(store.claim('c', 'three', 100), 'busy');
    await store.release(second);
    assert.equal((await store.claim('c', 'three', 100)).fence, 3);
    await rejects(store.claim('unknown', 'one', 100), 'not-found');
  });

  test('C46 renewal prolongs a held claim and never revives one that expired or was replaced', async () => {
    const { store, clock } = await prepared();
    const first = await store.claim('c', 'one', 100);
    clock.time = 1050;
    const renewed = await store.renew(first, 100);
    assert.deepEqual(renewed, { ...first, expiresAt: 1150 });
    clock.time = 1149;
    assert.equal((await store.renew(renewed, 1)).expiresAt, 1150);
    clock.time = 1150;
    await rejects(store.renew(renewed, 100), 'stale-claim');
    await store.claim('c', 'two', 100);
    await rejects(store.renew(renewed, 100), 'stale-claim');
  });

  test('of concurrent claims exactly one succeeds', async () => {
    const { store } = await prepared();
    const results = await Promise.allSettled(Array.from({ length: 20 }, (_, n) => store.claim('c', `${n}`, 100)));
    assert.equal(results.filter((result) => result.status === 'fulfilled').length, 1);
    for (const result of results) if (result.status === 'rejected') assert.equal(result.reason.code, 'busy');
  });

  test('a lease is a positive safe integer', async () => {
    const { store } = await prepared();
    for (const lease of [0, -1, 1.5, Number.NaN, 2 ** 53, undefined]) {
      await rejects(store.claim('c', 'one', lease), 'invalid-config', 'leaseMs');
    }
  });
});

describe('append', () => {
  test('C45 needs the held claim and the present revision', async () => {
    const { store, clock } = await prepared();
    const claim = await store.claim('c', 'one', 100);
    assert.deepEqual(await store.append(batch(claim, 1, 'x')), { revision: 2 });
    await rejects(store.append(batch(claim, 1, 'y')), 'conflict', 'revision 2');
    await rejects(store.append(batch({ ...claim, fence: 9 }, 2, 'y')), 'stale-claim');
    await rejects(store.append(batch({ ...claim, ownerId: 'two' }, 2, 'y')), 'stale-claim');
    clock.time = 1100;
    await rejects(store.append(batch(claim, 2, 'y')), 'stale-claim');
    await rejects(store.append({ ...batch(claim, 2, 'y'), conversationId: 'unknown' }), 'not-found');
    const stored = await store.load('c');
    assert.equal(stored.revision, 2);
    assert.equal(stored.summary.status, 'waiting');
  });

  test('C45 is idempotent per operation id, looked up before claim and revision', async () => {
    const { store, clock } = await prepared();
    const claim = await store.claim('c', 'one', 100);
    await store.append(batch(claim, 1, 'x'));
    await store.append(batch(claim, 2, 'y'));
    clock.time = 9999;
    assert.deepEqual(await store.append(batch(claim, 1, 'x')), { revision: 2 });
    assert.deepEqual(await store.append(batch(undefined, 77, 'create')), { revision: 1 });
    assert.equal((await store.load('c')).batches.length, 3);
  });

  test('lands without a claim where the revision matches and nobody holds one', async () => {
    const { store, clock } = await prepared();
    assert.deepEqual(await store.append(batch(undefined, 1, 'x')), { revision: 2 });
    await rejects(store.append(batch(undefined, 1, 'y')), 'conflict');
    await store.claim('c', 'one', 100);
    await rejects(store.append(batch(undefined, 2, 'y')), 'busy');
    clock.time = 1100;
    assert.deepEqual(await store.append(batch(undefined, 2, 'y')), { revision: 3 });
  });

  test('of concurrent appends to one revision exactly one lands', async () => {
    const { store } = await prepared();
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) => store.append(batch(undefined, 1, `x${n}`))),
    );
    assert.equal(results.filter((result) => result.status === 'fulfilled').length, 1);
  });
});

describe('read, snapshots, compaction', () => {
  async function long() {
    const { store, clock } = await prepared();
    for (let revision = 1; revision < 6; revision++) {
      const snapshot = revision === 3 ? { snapshot: 'state at 4' } : {};
      await store.append(batch(undefined, revision, `x${revision}`, snapshot));
    }
    return { store, clock };
  }
  const revisions = (batches) => batches.map((one) => one.revision);

  test('read gives batches after a revision, oldest first, in pages', async () => {
    const { store } = await long();
    const all = await store.read('c', { after: 0 });
    assert.equal(all.revision, 6);
    assert.deepEqual(revisions(all.batches), [1, 2, 3, 4, 5, 6]);
    assert.deepEqual(revisions((await store.read('c', { after: 4 })).batches), [5, 6]);
    assert.deepEqual(revisions((await store.read('c', { after: 1, limit: 2 })).batches), [2, 3]);
    assert.deepEqual(revisions((await store.read('c', { after: 6 })).batches), []);
    for (const limit of [0, -1, 1.5]) await rejects(store.read('c', { after: 0, limit }), 'invalid-config', 'limit');
  });

  test('load gives the latest snapshot and the batches after it', async () => {
    const { store } = await long();
    const loaded = await store.load('c');
    assert.deepEqual(loaded.snapshot, { revision: 4, state: 'state at 4' });
    assert.deepEqual(revisions(loaded.batches), [5, 6]);
  });

  test('compact alone removes batches, only what a snapshot covers; they are not-found then', async () => {
    const { store } = await long();
    await rejects(store.compact('c', 6), 'conflict', 'snapshot');
    await store.compact('c', 4);
    await rejects(store.read('c', { after: 0 }), 'not-found');
    await rejects(store.read('c', { after: 2 }), 'not-found');
    assert.deepEqual(revisions((await store.read('c', { after: 3 })).batches), [4, 5, 6]);
    assert.deepEqual(revisions((await store.load('c')).batches), [5, 6]);
    assert.deepEqual(await store.append(batch(undefined, 1, 'x1')), { revision: 2 });
    await rejects(store.compact('unknown', 1), 'not-found');
  });

  test('delete needs no claim and is refused while one is held', async () => {
    const { store, clock } = await long();
    await store.claim('c', 'one', 100);
    await rejects(store.delete('c'), 'busy');
    clock.time = 1100;
    await store.delete('c');
    assert.equal(await store.load('c'), undefined);
    await store.delete('c');
    await store.create(record('c'));
  });
});

describe('list', () => {
  async function listed() {
    const store = new MemoryConversationStore();
    const at = (day) => summary({ createdAt: `2027-01-0${day}T00:00:00.000Z` });
    await store.create(record('old', { summary: at(1) }));
    await store.create(record('b', { summary: at(2), kind: 'team' }));
    await store.create(record('a', { summary: at(2) }));
    await store.create(record('new', { summary: { ...at(3), status: 'completed', members: ['z'] } }));
    return store;
  }
  const ids = (page) => page.items.map((item) => item.conversationId);

  test('newest createdAt first, then by id', async () => {
    const store = await listed();
    const page = await store.list({});
    assert.deepEqual(ids(page), ['new', 'a', 'b', 'old']);
    assert.equal(page.nextCursor, undefined);
    assert.deepEqual(Object.keys(page.items[0]).sort(), ['conversationId', 'kind', 'revision', 'summary']);
  });

  test('by kind, status and member', async () => {
    const store = await listed();
    assert.deepEqual(ids(await store.list({ kind: 'team' })), ['b']);
    assert.deepEqual(ids(await store.list({ status: 'completed' })), ['new']);
    assert.deepEqual(ids(await store.list({ member: 'a' })), ['a', 'b', 'old']);
    assert.deepEqual(ids(await store.list({ member: 'a', status: 'completed' })), []);
  });

  test('in pages whose cursor stays valid while records come', async () => {
    const store = await listed();
    const first = await store.list({ limit: 2 });
    assert.deepEqual(ids(first), ['new', 'a']);
    await store.create(record('newest', { summary: summary({ createdAt: '2028-01-01T00:00:00.000Z' }) }));
    const second = await store.list({ limit: 2, cursor: first.nextCursor });
    assert.deepEqual(ids(second), ['b', 'old']);
    assert.equal(second.nextCursor, undefined);
    for (const cursor of ['', 'x', '[]', '[1,2]', '{}'])
      await rejects(store.list({ cursor }), 'invalid-config', 'cursor');
    await rejects(store.list({ limit: 0 }), 'invalid-config', 'limit');
  });
});

test('the clock option has now', () => {
  for (const clock of [{}, { now: 5 }])
    refuses(() => new MemoryConversationStore({ clock }), 'invalid-config', 'clock.now');
});
