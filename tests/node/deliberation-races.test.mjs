// Races between hosts on one store: whoever appends first wins, and everybody learns the same.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultyStore } from 'agent-roundtable/testing';
import { MINUTE, request, stores, table, told } from './support/deliberations.mjs';

const OUTCOME = { outcome: 'Pull', decision: 'approved' };

for (const [label, makeStore] of Object.entries(stores)) {
  test(`D15 199 entries and 50 parallel speakers on five hosts leave exactly 200 (${label})`, async (t) => {
    const { d, host } = await table(t, makeStore, { notifier: async () => {} });
    const { id } = await d.create('fac', request());
    for (let n = 0; n < 199; n++) await d.speak('ana', id, { message: `${n}` });
    const hosts = [d, host(), host(), host(), host()];
    const speakers = Array.from({ length: 50 }, (_, n) => hosts[n % 5].speak('bo', id, { message: `late ${n}` }));
    const results = await Promise.allSettled(speakers);
    const refused = results
      .filter((r) => r.status === 'rejected')
      .map(({ reason }) => `${reason.code} ${reason.reason}`);
    assert.deepEqual(new Set(refused), new Set(['conflict SPEAK_FAILED']));
    assert.equal(refused.length, 49);
    const { thread, version } = await host().get('ana', id);
    assert.deepEqual([thread.length, version], [200, 201]);
  });
}

test('D19 a resolution against an expiry, 500 times: one winner, one set of notices', async (t) => {
  const { d, host, clock, notices, groups } = await table(t);
  // At the deadline's last instant on one host it has passed on the other, whose clock is ahead.
  const ahead = { ...clock, now: () => clock.now() + 1 };
  const other = host({ clock: ahead });
  const wins = { resolved: 0, expired: 0 };
  const later = async (ticks, call) => {
    for (let left = ticks; left > 0; left--) await Promise.resolve();
    return call();
  };
  for (let n = 0; n < 500; n++) {
    notices.length = 0;
    const { id } = await d.create('fac', request({ timeoutMinutes: 1 }));
    await clock.advance(MINUTE);
    const resolving = later(n % 23, () => d.resolve('fac', id, OUTCOME)).then(
      () => 'resolved',
      ({ code }) => code,
    );
    const [resolved, first] = await Promise.all([resolving, later(n % 19, () => other.expireStale())]);
    const expired = first + (await other.expireStale());
    const { status } = await other.get('ana', id);
    wins[status] += 1;
    assert.equal(resolved, status === 'resolved' ? 'resolved' : 'conflict');
    assert.ok(expired <= (status === 'expired' ? 1 : 0));
    const closing = notices.filter(({ kind }) => kind === 'resolution' || kind === 'expiry');
    const to = closing.map((notice) => `${notice.kind} ${notice.to}`).sort();
    const sets = {
      resolved: ['resolution ana', 'resolution bo'],
      expired: ['expiry ana', 'expiry bo', 'expiry fac'],
    };
    assert.deepEqual(to, sets[status]);
    assert.deepEqual(groups.ids(), []);
  }
  assert.ok(wins.resolved > 0 && wins.expired > 0, JSON.stringify(wins));
});

test('D21 what is repeated with its key is what it was the first time, on any host', async (t) => {
  const { d, host, store, inbox } = await table(t);
  const other = host();
  const wanted = request({ idempotencyKey: 'k1' });
  const [a, b] = await Promise.all([d.create('fac', wanted), other.create('fac', wanted)]);
  assert.equal(a.id, b.id);
  assert.equal((await store.list({ kind: 'deliberation' })).items.length, 1);
  assert.equal(inbox('ana').length, 1);
  const changed = { ...wanted, topic: 'Another' };
  assert.deepEqual(await told(other.create('fac', changed)), ['conflict', 'CREATE_ROUND_TABLE_FAILED']);
  assert.notEqual((await d.create('fac', request({ idempotencyKey: 'k2' }))).id, a.id);
  const said = { message: 'Once.', idempotencyKey: 's1' };
  const first = await Promise.all([d.speak('ana', a.id, said), other.speak('ana', a.id, said)]);
  assert.deepEqual(first[0], first[1]);
  assert.equal((await d.speak('bo', a.id, said)).threadLength, 2, 'the key is the speaker’s own');
  const refused = await told(d.speak('ana', a.id, { ...said, message: 'Twice.' }));
  assert.deepEqual(refused, ['conflict', 'SPEAK_FAILED']);
  await d.resolve('fac', a.id, OUTCOME);
  assert.deepEqual(await other.speak('ana', a.id, said), first[0]);
  for (const idempotencyKey of ['', 'x'.repeat(256), 7, null, '\ud800']) {
    const bad = ['invalid', 'INVALID_IDEMPOTENCY_KEY', 'idempotencyKey'];
    assert.deepEqual(await told(d.speak('ana', a.id, { message: 'x', idempotencyKey })), bad);
    assert.deepEqual(await told(d.create('fac', request({ idempotencyKey }))), bad);
  }
});

test('D16 a lost acknowledgement writes nothing twice', async (t) => {
  const { store, host } = await table(t);
  const lossy = faultyStore(store, ({ method, index }) => {
    return (method === 'append' || method === 'create') && index % 2 === 0 ? { when: 'after' } : undefined;
  });
  const d = host({ store: lossy });
  const { id } = await d.create('fac', request());
  for (let n = 1; n <= 5; n++) assert.equal((await d.speak('ana', id, { message: `${n}` })).threadLength, n);
  assert.equal((await d.get('ana', id)).thread.length, 5);
});

test('D25 where the store stays away the call ends, and the next one goes on', async (t) => {
  const { store, host } = await table(t);
  let isDown = false;
  const d = host({ store: faultyStore(store, () => (isDown ? { when: 'before' } : undefined)) });
  const { id } = await d.create('fac', request());
  isDown = true;
  for (const call of [
    d.get('ana', id),
    d.speak('ana', id, { message: 'x' }),
    d.list('ana'),
    d.expireStale(),
    d.purge(),
  ]) {
    assert.equal((await told(call))[0], 'internal');
  }
  isDown = false;
  assert.equal((await d.speak('ana', id, { message: 'x' })).threadLength, 1);
});

test('D22 a stored line that was changed is an error that names it, and no other session’s', async (t) => {
  const { store, d, host } = await table(t);
  const { id, topic } = await d.create('fac', request());
  await d.speak('ana', id, { message: 'Pull.' });
  const other = await d.create('fac', request());
  /** A host whose store gives the lines changed. */
  const reading = (change) => {
    const forged = Object.create(store, {
      read: {
        value: async (...args) => {
          const found = await store.read(...args);
          const changed = (batch) => ({ ...batch, entries: batch.entries.map(change) });
          return found && args[0] === id ? { ...found, batches: found.batches.map(changed) } : found;
        },
      },
    });
    for (const method of ['create', 'append', 'list', 'delete']) forged[method] = store[method].bind(store);
    return host({ store: forged });
  };
  assert.equal((await reading((line) => line).get('ana', id)).thread[0].message, 'Pull.');
  // What is said is in the hash of its thread as well; a topic is in the sum of its line alone.
  for (const [from, to, entry] of [
    ['Pull.', 'Push.', 2],
    [topic, `${topic}!`, 0],
    ['"bo"', '"eve"', 0],
  ]) {
    const reader = reading((line) => line.replace(from, to));
    const error = await reader.get('ana', id).catch((thrown) => thrown);
    assert.deepEqual([error.code, error.reason], ['internal', 'GET_ROUND_TABLE_FAILED'], to);
    assert.match(String(error.cause), new RegExp(`^entry ${entry}: .*sum differs`), to);
    assert.deepEqual(await told(reader.speak('ana', id, { message: 'x' })), ['internal', 'SPEAK_FAILED']);
    assert.equal((await reader.get('ana', other.id)).status, 'open');
  }
  assert.equal((await d.get('ana', id)).thread.length, 1, 'and nothing was written');
});
