// How deliberations begin: bounds of every field, who takes part, and what a failure leaves.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { faultyStore } from 'agent-roundtable/testing';
import { MINUTE, request, stores, table, told } from './support/deliberations.mjs';

for (const [label, makeStore] of Object.entries(stores)) {
  const on = (t, options) => table(t, makeStore, options);

  test(`D8 texts pass at their bound and fail one beyond, each under its own name (${label})`, async (t) => {
    const { d } = await on(t);
    const { id } = await d.create('fac', request());
    const outcome = (more) => ({ outcome: 'o', decision: 'approved', ...more });
    const texts = {
      TOPIC: [500, (topic) => d.create('fac', request({ topic }))],
      GOAL: [2000, (goal) => d.create('fac', request({ goal }))],
      MESSAGE: [10_000, (message) => d.speak('ana', id, { message })],
      OUTCOME: [
        2000,
        async (text) => {
          const session = await d.create('fac', request());
          return d.resolve('fac', session.id, outcome({ outcome: text }));
        },
      ],
    };
    for (const [name, [bound, use]] of Object.entries(texts)) {
      const field = name.toLowerCase();
      for (const bad of [undefined, null, 7, ['x'], {}, '', ' \n\t\u00a0\ufeff']) {
        assert.deepEqual(await told(use(bad)), ['invalid', `INVALID_${name}`, field], `${name}: ${bad}`);
      }
      for (const one of ['x', 'é', '😀', '\u2028'.replace('\u2028', name === 'TOPIC' ? 'y' : '\u2028')]) {
        const longest = `a${one.repeat(bound - 2)}b`;
        await use(longest);
        const more = `${longest}c`;
        assert.deepEqual(await told(use(more)), ['invalid', `${name}_TOO_LONG`, field], `${name} of ${one}`);
      }
      const padded = `${'a'.repeat(bound)} `;
      assert.deepEqual(await told(use(padded)), ['invalid', `${name}_TOO_LONG`, field], 'counted before trimming');
    }
    for (const control of ['\0', '\n', '\u001b', '\u0085', '\u2028', '\u2029']) {
      assert.deepEqual(await told(texts.TOPIC[1](`a${control}b`)), ['invalid', 'INVALID_TOPIC', 'topic']);
    }
    assert.equal((await d.create('fac', request({ goal: 'two\nlines \0' }))).goal, 'two\nlines \0');
  });

  test(`D9 20 distinct participants pass, 21 fail, 21 of which two are alike pass (${label})`, async (t) => {
    const { d } = await on(t);
    const named = (n) => Array.from({ length: n }, (_, i) => `agent-${i}`);
    assert.equal((await d.create('fac', request({ participants: named(20) }))).participants.length, 20);
    const refused = await told(d.create('fac', request({ participants: named(21) })));
    assert.deepEqual(refused, ['invalid', 'CREATE_ROUND_TABLE_FAILED', 'participants']);
    const { participants } = await d.create('fac', request({ participants: [...named(20), ' agent-3 '] }));
    assert.deepEqual(participants, named(20));
  });

  test(`D10 a participant named three times is one, and invited once (${label})`, async (t) => {
    const { d, inbox } = await on(t);
    const { participants } = await d.create('fac', request({ participants: ['ana', ' ana', 'ana'] }));
    assert.deepEqual(participants, ['ana']);
    assert.equal(inbox('ana').length, 1);
  });

  test(`D11 a timeout is an integer from 1 to 10,080; none is 30 (${label})`, async (t) => {
    const { d } = await on(t);
    const life = async (more) => {
      const { createdAt, expiresAt } = await d.create('fac', request(more));
      return (Date.parse(expiresAt) - Date.parse(createdAt)) / MINUTE;
    };
    for (const minutes of [1, 10_080]) assert.equal(await life({ timeoutMinutes: minutes }), minutes);
    assert.equal(await life({}), 30);
    assert.equal(await life({ timeoutMinutes: undefined }), 30);
    for (const timeoutMinutes of [1.5, 'abc', '30', null, Number.NaN, Number.POSITIVE_INFINITY, [], 30n, true]) {
      const refused = await told(d.create('fac', request({ timeoutMinutes })));
      assert.deepEqual(refused, ['invalid', 'INVALID_TIMEOUT', 'timeoutMinutes'], String(timeoutMinutes));
    }
    for (const timeoutMinutes of [0, -1, 10_081, 2 ** 32 + 5]) {
      const refused = await told(d.create('fac', request({ timeoutMinutes })));
      assert.deepEqual(refused, ['invalid', 'CREATE_ROUND_TABLE_FAILED', 'timeoutMinutes'], String(timeoutMinutes));
    }
  });

  test(`D12 the facilitator is not in the roster, nor is what is no id (${label})`, async (t) => {
    const { d } = await on(t);
    for (const participants of [['fac'], ['ana', ' fac ']]) {
      const refused = await told(d.create('fac', request({ participants })));
      assert.deepEqual(refused, ['invalid', 'FACILITATOR_IN_PARTICIPANTS', 'participants']);
    }
    for (const participants of [undefined, null, [], 'ana', {}, { length: 1 }]) {
      const refused = await told(d.create('fac', request({ participants })));
      assert.deepEqual(refused, ['invalid', 'INVALID_PARTICIPANTS', 'participants']);
    }
    for (const bad of ['', '  ', 7, null, undefined, 'x'.repeat(256), 'a\0b', 'a\nb', '\ud800', () => {}]) {
      const refused = await told(d.create('fac', request({ participants: ['ana', bad] })));
      assert.deepEqual(refused, ['invalid', 'INVALID_PARTICIPANT_ID', 'participants'], String(bad));
    }
    const odd = ['x'.repeat(255), 'a/b c', '😀'.repeat(255), '__proto__', 'group://x'];
    assert.deepEqual((await d.create('fac', request({ participants: odd }))).participants, odd);
  });

  test(`D13 who is not known is left out, and the group is as large as the rest (${label})`, async (t) => {
    const { d, groups, inbox } = await on(t, { directory: { has: async (id) => id !== 'zoe' } });
    const session = await d.create('fac', request({ participants: ['zoe', 'ana'] }));
    assert.deepEqual(session.participants, ['ana']);
    assert.deepEqual(session.excludedParticipants, ['zoe']);
    assert.equal(groups.get(session.groupId).maxMembers, 2);
    assert.deepEqual(inbox('zoe'), []);
    await d.speak('ana', session.id, { message: 'Here.' });
    assert.equal((await d.get('ana', session.id)).thread.length, 1);
    assert.equal('excludedParticipants' in (await d.get('ana', session.id)), false);
    assert.deepEqual(await told(d.get('zoe', session.id)), ['forbidden', 'GET_ROUND_TABLE_FAILED']);
    const strict = await told(d.create('fac', request({ participants: ['zoe', 'ana'], strict: true })));
    assert.deepEqual(strict, ['invalid', 'CREATE_ROUND_TABLE_FAILED', 'participants']);
  });

  test(`D14 with nobody known the session is refused, and nothing is left (${label})`, async (t) => {
    const { d, groups, store, notices } = await on(t, { directory: { has: () => false } });
    assert.deepEqual(await told(d.create('fac', request())), ['invalid', 'CREATE_ROUND_TABLE_FAILED', 'participants']);
    assert.deepEqual(groups.ids(), []);
    assert.deepEqual(notices, []);
    assert.deepEqual((await store.list({ kind: 'deliberation' })).items, []);
  });

  test(`D25 where the store fails during creation there is no session, group or invitation (${label})`, async (t) => {
    for (const when of ['before', 'after']) {
      const { store, host, groups, notices, d } = await on(t);
      const broken = host({ store: faultyStore(store, ({ method }) => (method === 'create' ? { when } : undefined)) });
      // A lost acknowledgement is found out by asking again.
      if (when === 'after') {
        assert.equal((await broken.create('fac', request())).status, 'open');
        continue;
      }
      assert.deepEqual(await told(broken.create('fac', request())), ['internal', 'CREATE_ROUND_TABLE_FAILED']);
      await d.deliverPending();
      assert.deepEqual([groups.ids(), notices, (await d.list('fac')).items], [[], [], []]);
    }
  });
}
