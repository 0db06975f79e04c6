// Deliberations beyond the acceptance: positions, the roster and the deadline in motion, sweeps, caps, options.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { createDeliberations, DeliberationError, MemoryConversationStore } from 'agent-roundtable';
import { DAY, MINUTE, refusal, request, table, told } from './support/deliberations.mjs';

const OUTCOME = { outcome: 'Pull', decision: 'approved' };

test('D31 positions count toward a quorum, and what stood against the decision is recorded', async (t) => {
  const { d } = await table(t);
  const { id, quorum } = await d.create('fac', request({ quorum: 2 }));
  assert.equal(quorum, 2);
  await d.takePosition('ana', id, { stance: 'for' });
  await d.takePosition('ana', id, { stance: 'against', note: 'Too slow.' });
  assert.deepEqual(await told(d.resolve('fac', id, OUTCOME)), ['conflict', 'RESOLVE_FAILED']);
  const { positions } = await d.takePosition('bo', id, { stance: 'for' });
  assert.deepEqual(
    positions.map((one) => [one.participant, one.stance, one.note]),
    [
      ['ana', 'against', 'Too slow.'],
      ['bo', 'for', undefined],
    ],
  );
  assert.deepEqual(await told(d.takePosition('fac', id, { stance: 'for' })), ['forbidden', 'POSITION_FAILED']);
  for (const stance of [undefined, null, 'yes', '']) {
    assert.deepEqual(await told(d.takePosition('ana', id, { stance })), ['invalid', 'INVALID_STANCE', 'stance']);
  }
  const resolved = await d.resolve('fac', id, OUTCOME);
  assert.deepEqual(
    resolved.dissent.map((one) => one.participant),
    ['ana'],
  );
  const { id: second } = await d.create('fac', request());
  await d.takePosition('bo', second, { stance: 'for' });
  const rejected = await d.resolve('fac', second, { outcome: 'No', decision: 'rejected' });
  assert.deepEqual(
    rejected.dissent.map((one) => one.participant),
    ['bo'],
  );
  for (const quorum of [0, 1.5, '2', 3]) {
    assert.equal((await told(d.create('fac', request({ quorum }))))[1], 'INVALID_QUORUM', String(quorum));
  }
});

test('D31 the facilitator hands over, and is a participant then', async (t) => {
  const { d, groups } = await table(t);
  const { id, groupId } = await d.create('fac', request());
  assert.deepEqual(await told(d.handOver('ana', id, { to: 'bo' })), ['forbidden', 'HAND_OVER_FAILED']);
  assert.deepEqual(await told(d.handOver('fac', id, { to: 'eve' })), ['conflict', 'HAND_OVER_FAILED']);
  const { facilitator, participants } = await d.handOver('fac', id, { to: 'bo' });
  assert.deepEqual([facilitator, participants], ['bo', ['ana', 'fac']]);
  assert.equal(groups.get(groupId).owner, 'bo');
  assert.deepEqual(await told(d.resolve('fac', id, OUTCOME)), ['forbidden', 'RESOLVE_FAILED']);
  assert.equal((await d.resolve('bo', id, OUTCOME)).status, 'resolved');
});

test('D31 a participant declines, and is told nothing more', async (t) => {
  const { d, inbox, groups } = await table(t);
  const { id, groupId } = await d.create('fac', request({ quorum: 2 }));
  assert.deepEqual(await told(d.decline('fac', id)), ['forbidden', 'DECLINE_FAILED']);
  assert.equal(await d.decline('ana', id, { note: 'busy' }), undefined);
  assert.deepEqual((await d.get('bo', id)).participants, ['bo']);
  assert.deepEqual(await told(d.get('ana', id)), ['forbidden', 'GET_ROUND_TABLE_FAILED']);
  await d.speak('fac', id, { message: 'Who is left?' });
  assert.deepEqual([inbox('ana', 'entry').length, inbox('bo', 'entry').length], [0, 1]);
  assert.deepEqual(groups.get(groupId).members, ['fac', 'bo']);
  await d.takePosition('bo', id, { stance: 'abstain' });
  assert.equal((await d.resolve('fac', id, OUTCOME)).status, 'resolved', 'a quorum asks for no more than there are');
});

test('D31 a deadline moves once, and never beyond seven days', async (t) => {
  const { d, clock } = await table(t);
  const { id } = await d.create('fac', request({ timeoutMinutes: 10_000 }));
  for (const minutes of [0, -1, 1.5, '5', null, undefined]) {
    assert.deepEqual(await told(d.extend('fac', id, { minutes })), ['invalid', 'INVALID_TIMEOUT', 'minutes']);
  }
  assert.deepEqual(await told(d.extend('fac', id, { minutes: 81 })), ['invalid', 'EXTEND_FAILED', 'minutes']);
  assert.deepEqual(await told(d.extend('ana', id, { minutes: 80 })), ['forbidden', 'EXTEND_FAILED']);
  assert.equal((await d.extend('fac', id, { minutes: 80 })).expiresAt, '2027-01-08T00:00:00.000Z');
  assert.deepEqual(await told(d.extend('fac', id, { minutes: 1 })), ['conflict', 'EXTEND_FAILED']);
  await clock.advance(7 * DAY);
  assert.equal(await d.expireStale(), 0);
  await clock.advance(1);
  assert.equal(await d.expireStale(), 1);
});

test('D31 the facilitator closes early, with a reason that is told', async (t) => {
  const { d, inbox, clock } = await table(t);
  const { id } = await d.create('fac', request());
  for (const reason of [undefined, '', 'timeout', 'x'.repeat(2001), 'a\nb']) {
    assert.equal((await told(d.close('fac', id, { reason })))[0], 'invalid', String(reason).slice(0, 9));
  }
  assert.deepEqual(await told(d.close('ana', id, { reason: 'bored' })), ['forbidden', 'CLOSE_FAILED']);
  const { status, closeReason, outcome } = await d.close('fac', id, { reason: 'moot' });
  assert.deepEqual([status, closeReason, outcome], ['expired', 'moot', null]);
  assert.equal(inbox('ana', 'expiry')[0].body.reason, 'moot');
  assert.deepEqual(await told(d.speak('ana', id, { message: 'x' })), ['conflict', 'SPEAK_FAILED']);
  await clock.advance(7 * DAY + 1);
  assert.equal(await d.purge(), 1, 'retention counts from the closing');
});

test('D31 members are reminded once, before the deadline', async (t) => {
  const { d, inbox, clock } = await table(t);
  await d.create('fac', request({ reminderMinutes: 5 }));
  await clock.advance(25 * MINUTE - 1);
  assert.equal(await d.expireStale(), 0);
  assert.equal(inbox('ana', 'reminder').length, 0);
  await clock.advance(1);
  for (let n = 0; n < 3; n++) assert.equal(await d.expireStale(), 0);
  for (const agent of ['fac', 'ana', 'bo']) assert.equal(inbox(agent, 'reminder').length, 1);
  for (const reminderMinutes of [0, 30, 1.5, '5']) {
    assert.equal((await told(d.create('fac', request({ reminderMinutes }))))[1], 'INVALID_REMINDER');
  }
});

test('D31 the hash seals the thread, and anybody can compute it', async (t) => {
  const { d } = await table(t);
  const { id, threadHash } = await d.create('fac', request());
  assert.equal(threadHash, id);
  for (const message of ['One "two"', 'é😀\n', '</script>']) await d.speak('ana', id, { message });
  const session = await d.get('bo', id);
  const hash = session.thread.reduce((before, { id: entry, from, message, timestamp }) => {
    const text = JSON.stringify([before, entry, from, message, timestamp]);
    return createHash('sha256').update(text).digest('hex');
  }, id);
  assert.equal(session.threadHash, hash);
});

test('D31 versions: a reader fetches what is new, a writer says what it has seen', async (t) => {
  const { d } = await table(t);
  const { id, version } = await d.create('fac', request());
  await d.speak('ana', id, { message: '1' });
  const seen = await d.get('bo', id);
  await d.speak('ana', id, { message: '2' });
  const later = await d.get('bo', id, { since: seen.version });
  assert.deepEqual(
    later.thread.map((entry) => entry.message),
    ['2'],
  );
  assert.equal((await d.get('bo', id, { since: 0 })).thread.length, 2);
  assert.deepEqual((await d.get('bo', id, { since: later.version })).thread, []);
  for (const since of [-1, 1.5, '1', null, 2 ** 53]) {
    assert.deepEqual(await told(d.get('bo', id, { since })), ['invalid', 'INVALID_SINCE', 'since']);
  }
  const stale = { ...OUTCOME, expectedVersion: version };
  assert.deepEqual(await told(d.resolve('fac', id, stale)), ['conflict', 'RESOLVE_FAILED']);
  assert.equal((await d.resolve('fac', id, { ...stale, expectedVersion: later.version })).status, 'resolved');
});

test('D31 caps: open sessions of one facilitator, entries of one speaker, bytes of one thread, closed sessions', async (t) => {
  const { d, clock } = await table(t, undefined, {
    limits: { maxOpenPerFacilitator: 2, maxEntriesPerSpeaker: 2, maxThreadBytes: 30, maxClosed: 1 },
  });
  const { id } = await d.create('fac', request());
  const second = await d.create('fac', request());
  assert.deepEqual(await told(d.create('fac', request())), ['conflict', 'CREATE_ROUND_TABLE_FAILED']);
  await d.create('ana', request({ participants: ['fac'] }));
  await d.speak('ana', id, { message: 'a' });
  await d.speak('ana', id, { message: 'b' });
  assert.deepEqual(await told(d.speak('ana', id, { message: 'c' })), ['conflict', 'SPEAK_FAILED']);
  await d.speak('bo', id, { message: '😀'.repeat(7) });
  assert.deepEqual(await told(d.speak('bo', id, { message: 'x' })), ['conflict', 'SPEAK_FAILED']);
  await d.resolve('fac', id, OUTCOME);
  await clock.advance(MINUTE);
  await d.resolve('fac', second.id, OUTCOME);
  assert.equal(await d.purge(), 1);
  assert.equal((await told(d.get('fac', id)))[0], 'not-found');
  assert.equal((await d.get('fac', second.id)).status, 'resolved');
});

test('D18 sweeps run by themselves, never overlap, and end with dispose', async (t) => {
  let slow = Promise.resolve();
  let running = 0;
  let most = 0;
  const { d, clock, inbox, store, notices } = await table(t, undefined, {
    sweepIntervalMs: 30 * MINUTE,
    notifier: async (notice) => {
      running += 1;
      most = Math.max(most, running);
      notices.push(notice);
      await slow;
      running -= 1;
    },
  });
  await d.create('fac', request({ timeoutMinutes: 1 }));
  await clock.advance(30 * MINUTE);
  assert.equal(inbox('ana', 'expiry').length, 1);
  await clock.advance(7 * DAY + 30 * MINUTE);
  assert.deepEqual((await store.list({ kind: 'deliberation' })).items, []);
  slow = Promise.reject(new Error('down'));
  slow.catch(() => {});
  await d.create('fac', request({ timeoutMinutes: 1 }));
  slow = Promise.resolve();
  await clock.advance(60 * MINUTE);
  assert.ok(inbox('ana', 'invitation').length > 1 || inbox('ana', 'expiry').length === 2);
  await d.dispose();
  assert.equal(clock.pending, 0);
  assert.deepEqual(await told(d.list('fac')), ['unavailable', 'LIST_ROUND_TABLES_FAILED']);
});

test('D20 a notifier that never answers holds nobody up for longer than it may', async (t) => {
  let asked;
  const wasAsked = new Promise((resolve) => {
    asked = resolve;
  });
  const { d, clock, events } = await table(t, undefined, {
    deliveryTimeoutMs: 1000,
    notifier({ to }) {
      if (to !== 'ana') return Promise.resolve();
      asked();
      return new Promise(() => {});
    },
  });
  const creating = d.create('fac', request());
  let isDone = false;
  creating.then(() => {
    isDone = true;
  });
  // Its timer is set once it has been asked.
  await wasAsked;
  await new Promise(setImmediate);
  await clock.advance(999);
  assert.equal(isDone, false);
  await clock.advance(1);
  assert.deepEqual((await creating).uninvited, ['ana']);
  assert.equal(events.filter((event) => event.type === 'delivery-failed').length, 1);
});

test('D17 options are checked at once, and named', () => {
  const good = { store: new MemoryConversationStore(), notifier: async () => {} };
  const { delete: _, ...noDelete } = Object.fromEntries(
    ['create', 'read', 'append', 'list', 'delete'].map((name) => [name, async () => {}]),
  );
  const bad = [
    [{ store: undefined }, 'store'],
    [{ store: noDelete }, 'store.delete'],
    [{ notifier: undefined }, 'notifier'],
    [{ groups: {} }, 'groups.put'],
    [{ directory: {} }, 'directory.has'],
    [{ limits: { retentionMs: 0 } }, 'limits.retentionMs'],
    [{ limits: { retentionMs: -1 } }, 'limits.retentionMs'],
    [{ limits: { retentionMs: Number.NaN } }, 'limits.retentionMs'],
    [{ limits: { maxClosed: 1.5 } }, 'limits.maxClosed'],
    [{ limits: { retention: 1 } }, 'limits.retention'],
    [{ clock: {} }, 'clock.now'],
    [{ clock: { now: () => -5, setTimeout, clearTimeout } }, 'clock.now'],
    [{ seed: 7 }, 'seed'],
    [{ sweepIntervalMs: -1 }, 'sweepIntervalMs'],
    [{ deliveryTimeoutMs: 0 }, 'deliveryTimeoutMs'],
    [{ onEvent: 'x' }, 'onEvent'],
  ];
  for (const [more, field] of bad) {
    const check = (error) => error instanceof DeliberationError && error.code === 'invalid' && error.field === field;
    assert.throws(() => createDeliberations({ ...good, ...more }), check, field);
  }
  assert.throws(() => createDeliberations(), DeliberationError);
});

test('D5 a caller that is no identity is unauthenticated, whatever it asks', async (t) => {
  const { d } = await table(t);
  const { id } = await d.create('fac', request());
  for (const caller of [undefined, null, '', ' ', ' fac', 'fac\n', '\0', 7, {}, 'x'.repeat(513), '\ud800', ' outbox']) {
    for (const call of [
      () => d.create(caller, request()),
      () => d.list(caller),
      () => d.get(caller, id),
      () => d.speak(caller, id, { message: 'x' }),
      () => d.resolve(caller, id, OUTCOME),
    ]) {
      assert.deepEqual(await told(call()), ['unauthenticated', 'UNAUTHENTICATED'], JSON.stringify(caller));
    }
  }
  const odd = 'a/b "c" \u202e😀'.repeat(20);
  const session = await d.create(odd, request());
  assert.equal((await d.get(odd, session.id)).facilitator, odd);
  assert.equal((await refusal(d.get('fac', session.id))).name, 'DeliberationError');
});

test('D12 the same seed gives the same ids, and a taken id is passed over', async (t) => {
  const one = await table(t, undefined, { seed: 's' });
  const two = await table(t, undefined, { seed: 's' });
  const ids = [];
  for (const { d } of [one, two]) {
    const { id } = await d.create('fac', request());
    ids.push([id, (await d.speak('ana', id, { message: 'x' })).threadEntryId]);
  }
  assert.deepEqual(ids[0], ids[1]);
  const { id } = await one.host().create('fac', request());
  assert.notEqual(id, ids[0][0]);
});
