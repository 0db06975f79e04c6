// Every field of a deliberation's calls at its bound, where it passes, and one beyond, where its code and name are told.
// Topic, goal, message, outcome, participants and timeout: deliberation-creation.test.mjs.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createDeliberations, MemoryConversationStore } from 'agent-roundtable';
import { request, stores, table, told } from './support/deliberations.mjs';

const OUTCOME = { outcome: 'Pull', decision: 'approved' };
const SAFE = Number.MAX_SAFE_INTEGER;

/** Where a text of a session may stand: its longest length, and its call. Each call has a session of its own. */
const TEXTS = {
  'note of a resolution': [2000, 'NOTE', 'note', (d, id, note) => d.resolve('fac', id, { ...OUTCOME, note })],
  'note of a position': [2000, 'NOTE', 'note', (d, id, note) => d.takePosition('ana', id, { stance: 'for', note })],
  'note of who declines': [2000, 'NOTE', 'note', (d, id, note) => d.decline('ana', id, { note })],
  'reason of a closing': [2000, 'REASON', 'reason', (d, id, reason) => d.close('fac', id, { reason })],
};

for (const [what, [bound, code, field, use]] of Object.entries(TEXTS)) {
  test(`D8 the ${what} has at most ${bound} characters`, async (t) => {
    const { d } = await table(t);
    const fresh = async () => (await d.create('fac', request())).id;
    for (const one of ['x', '😀']) {
      await use(d, await fresh(), one.repeat(bound));
      const beyond = await told(use(d, await fresh(), one.repeat(bound + 1)));
      assert.deepEqual(beyond, ['invalid', `${code}_TOO_LONG`, field]);
    }
    for (const bad of ['', ' \n', null, 7, ['x'], {}]) {
      assert.deepEqual(await told(use(d, await fresh(), bad)), ['invalid', `INVALID_${code}`, field], `${bad}`);
    }
  });
}

test('D8 keys have 1 to 255 characters, for creating and for speaking', async (t) => {
  const { d } = await table(t);
  const { id } = await d.create('fac', request());
  for (const [at, one] of ['x', '😀'].entries()) {
    const idempotencyKey = one.repeat(255);
    const first = await d.create('fac', request({ idempotencyKey }));
    assert.equal((await d.create('fac', request({ idempotencyKey }))).id, first.id);
    assert.equal((await d.speak('ana', id, { message: 'x', idempotencyKey })).threadLength, at + 1);
    assert.equal((await d.speak('ana', id, { message: 'x', idempotencyKey })).threadLength, at + 1);
    const refused = ['invalid', 'INVALID_IDEMPOTENCY_KEY', 'idempotencyKey'];
    for (const bad of [one.repeat(256), `a\n${one}`, ' ']) {
      assert.deepEqual(await told(d.create('fac', request({ idempotencyKey: bad }))), refused);
      assert.deepEqual(await told(d.speak('ana', id, { message: 'x', idempotencyKey: bad })), refused);
    }
  }
});

test('D5 a caller has at most 512 characters', async (t) => {
  const { d } = await table(t);
  for (const one of ['x', '😀']) {
    assert.equal((await d.create(one.repeat(512), request())).facilitator, one.repeat(512));
    const refused = await told(d.create(one.repeat(513), request()));
    assert.deepEqual(refused, ['unauthenticated', 'UNAUTHENTICATED']);
  }
});

test('D12 who takes over is named by an id of 1 to 255 characters', async (t) => {
  const { d } = await table(t);
  for (const to of ['x'.repeat(255), '😀'.repeat(255)]) {
    const { id } = await d.create('fac', request({ participants: [to, 'bo'] }));
    for (const bad of [`${to}x`, '', ' ', 'a\nb', null, undefined, 7, [to], '\ud800']) {
      const refused = await told(d.handOver('fac', id, { to: bad }));
      assert.deepEqual(refused, ['invalid', 'INVALID_PARTICIPANT_ID', 'to'], `${bad}`);
    }
    assert.equal((await d.handOver('fac', id, { to: ' bo ' })).facilitator, 'bo');
    assert.equal((await d.handOver('bo', id, { to })).facilitator, to);
  }
});

test('D8 D31 numbers pass at their bound and fail beyond, each under its own name', async (t) => {
  const { d } = await table(t);
  const { id } = await d.create('fac', request());
  const created = { quorum: [1, 2, 'QUORUM'], reminderMinutes: [1, 29, 'REMINDER'] };
  for (const [field, [least, most, name]] of Object.entries(created)) {
    for (const good of [least, most]) await d.create('fac', request({ [field]: good }));
    for (const bad of [least - 1, most + 1, -1, 1.5, '1', null, Number.NaN, 2 ** 53, [1], true]) {
      const refused = await told(d.create('fac', request({ [field]: bad })));
      assert.deepEqual(refused, ['invalid', `INVALID_${name}`, field], `${field} ${bad}`);
    }
  }
  for (const strict of ['true', 1, 0, null, {}]) {
    assert.deepEqual(await told(d.create('fac', request({ strict }))), ['invalid', 'INVALID_STRICT', 'strict']);
  }
  for (const since of [0, SAFE]) assert.equal((await d.get('ana', id, { since })).id, id);
  assert.deepEqual(await told(d.get('ana', id, { since: SAFE + 1 })), ['invalid', 'INVALID_SINCE', 'since']);
  for (const limit of [1, 100]) assert.ok((await d.list('fac', { limit })).items.length <= limit);
  for (const limit of [0, 101]) {
    assert.deepEqual(await told(d.list('fac', { limit })), ['invalid', 'INVALID_LIMIT', 'limit']);
  }

  const calls = {
    speak: (expectedVersion) => d.speak('ana', id, { message: 'x', expectedVersion }),
    resolve: (expectedVersion) => d.resolve('fac', id, { ...OUTCOME, expectedVersion }),
    takePosition: (expectedVersion) => d.takePosition('ana', id, { stance: 'for', expectedVersion }),
    decline: (expectedVersion) => d.decline('ana', id, { expectedVersion }),
    handOver: (expectedVersion) => d.handOver('fac', id, { to: 'ana', expectedVersion }),
    extend: (expectedVersion) => d.extend('fac', id, { minutes: 1, expectedVersion }),
    close: (expectedVersion) => d.close('fac', id, { reason: 'moot', expectedVersion }),
  };
  for (const [name, call] of Object.entries(calls)) {
    assert.equal((await told(call(SAFE)))[0], 'conflict', name);
    for (const bad of [0, -1, 1.5, SAFE + 1, '1', null]) {
      const refused = await told(call(bad));
      assert.deepEqual(refused, ['invalid', 'INVALID_EXPECTED_VERSION', 'expectedVersion'], `${name} ${bad}`);
    }
  }
});

for (const [label, makeStore] of Object.entries(stores)) {
  test(`D22 what is no id is not found, by anybody and whatever is asked of it (${label})`, async (t) => {
    const { d } = await table(t, makeStore);
    const ids = ['rt_000000000000', '', ' ', 'a/b', '../x', 'x'.repeat(300), 'rt_00000000000\0', '__proto__', 'rt_😀'];
    for (const id of [...ids, null, undefined, 7, {}, ['rt_000000000000']]) {
      const answers = {
        GET_ROUND_TABLE_FAILED: d.get('fac', id),
        SPEAK_FAILED: d.speak('fac', id, { message: 'x' }),
        RESOLVE_FAILED: d.resolve('fac', id, OUTCOME),
        POSITION_FAILED: d.takePosition('fac', id, { stance: 'for' }),
        DECLINE_FAILED: d.decline('fac', id),
        HAND_OVER_FAILED: d.handOver('fac', id, { to: 'ana' }),
        EXTEND_FAILED: d.extend('fac', id, { minutes: 1 }),
        CLOSE_FAILED: d.close('fac', id, { reason: 'moot' }),
      };
      for (const [reason, call] of Object.entries(answers)) {
        assert.deepEqual(await told(call), ['not-found', reason], JSON.stringify(id));
      }
    }
  });
}

test('D5 an outsider is told the same of a session that is open, full, resolved, expired or at another version', async (t) => {
  const { d, clock } = await table(t);
  const make = async (end) => {
    const { id } = await d.create('fac', request({ timeoutMinutes: 1 }));
    await end(id);
    return id;
  };
  const ids = [
    await make(async () => {}),
    await make(async (id) => {
      for (let n = 0; n < 200; n++) await d.speak('ana', id, { message: `${n}` });
    }),
    await make((id) => d.resolve('fac', id, OUTCOME)),
    await make((id) => d.close('fac', id, { reason: 'moot' })),
  ];
  const answers = async (id) => [
    await told(d.get('eve', id, { since: 1 })),
    await told(d.speak('eve', id, { message: 'x', expectedVersion: 99 })),
    await told(d.resolve('eve', id, { ...OUTCOME, expectedVersion: 99 })),
    await told(d.extend('eve', id, { minutes: 10_080 })),
    await told(d.handOver('eve', id, { to: 'ana' })),
  ];
  const first = await answers(ids[0]);
  for (const [code] of first) assert.equal(code, 'forbidden');
  for (const id of ids) assert.deepEqual(await answers(id), first);
  await clock.advance(60_001);
  assert.deepEqual(await answers(ids[0]), first, 'nor does it expire what is overdue');
  assert.equal(await d.expireStale(), 2);
});

test('D17 options pass at their bound and fail beyond', async () => {
  const most = 2 ** 31 - 1;
  const bounds = {
    sweepIntervalMs: [0, most],
    deliveryTimeoutMs: [1, most],
    'limits.retentionMs': [1, SAFE],
    'limits.maxClosed': [1, SAFE],
    'limits.maxOpenPerFacilitator': [1, SAFE],
    'limits.maxEntriesPerSpeaker': [1, SAFE],
    'limits.maxThreadBytes': [1, SAFE],
  };
  const make = (field, value) => {
    const [first, second] = field.split('.');
    const more = { [first]: second === undefined ? value : { [second]: value } };
    const store = new MemoryConversationStore();
    return createDeliberations({ store, notifier: async () => {}, sweepIntervalMs: 0, ...more });
  };
  for (const [field, [least, last]] of Object.entries(bounds)) {
    for (const good of [least, last]) await make(field, good).dispose();
    for (const bad of [least - 1, last + 1, 1.5, '1', Number.NaN]) {
      const refused = { name: 'DeliberationError', code: 'invalid', reason: 'INVALID_OPTIONS', field };
      assert.throws(() => make(field, bad), refused, `${field} ${bad}`);
    }
  }
});
