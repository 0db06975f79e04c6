// How deliberations end: deadlines, sweeps, one winner, and retention.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DAY, MINUTE, request, stores, table, told } from './support/deliberations.mjs';

const CLOSED = ['conflict', 'SPEAK_FAILED'];

for (const [label, makeStore] of Object.entries(stores)) {
  const on = (t, options) => table(t, makeStore, options);

  test(`D17 a deadline holds without a sweep, and its last instant still counts (${label})`, async (t) => {
    const { d, clock, inbox } = await on(t);
    const { id } = await d.create('fac', request({ timeoutMinutes: 1 }));
    await clock.advance(MINUTE);
    await d.speak('ana', id, { message: 'In time.' });
    await clock.advance(1);
    assert.deepEqual(await told(d.speak('ana', id, { message: 'Late.' })), CLOSED);
    const outcome = { outcome: 'Late', decision: 'approved' };
    assert.deepEqual(await told(d.resolve('fac', id, outcome)), ['conflict', 'RESOLVE_FAILED']);
    const session = await d.get('bo', id);
    assert.equal(session.status, 'expired');
    assert.equal(session.closeReason, 'timeout');
    assert.equal(session.thread.length, 1);
    for (const agent of ['fac', 'ana', 'bo']) assert.equal(inbox(agent, 'expiry').length, 1, agent);
    assert.equal(await d.expireStale(), 0);
  });

  for (const late of [1, 60 * MINUTE]) {
    test(`D18 a sweep ${late} ms late expires once, tells every member once, in date (${label})`, async (t) => {
      const { d, clock, inbox, groups, notices } = await on(t);
      const { id, expiresAt } = await d.create('fac', request());
      const other = await d.create('fac', request({ timeoutMinutes: 600 }));
      await clock.advance(30 * MINUTE);
      assert.equal(await d.expireStale(), 0);
      await clock.advance(late);
      assert.equal(await d.expireStale(), 1);
      assert.equal(await d.expireStale(), 0);
      for (const agent of ['fac', 'ana', 'bo']) {
        const [notice, ...more] = inbox(agent, 'expiry');
        assert.deepEqual(more, []);
        assert.equal(Date.parse(notice.timestamp), clock.now());
        assert.deepEqual(notice.body, {
          round_table_id: id,
          topic: 'Push or pull?',
          reason: 'timeout',
          expires_at: expiresAt,
        });
      }
      assert.deepEqual(groups.ids(), [other.groupId]);
      assert.equal(notices.filter((n) => n.kind === 'expiry').length, 3);
    });
  }

  test(`D19 of overlapping sweeps, and of a resolution and an expiry, one wins (${label})`, async (t) => {
    const { d, host, clock, notices } = await on(t);
    const other = host();
    await d.create('fac', request());
    await clock.advance(31 * MINUTE);
    const counts = await Promise.all([d.expireStale(), other.expireStale(), d.expireStale()]);
    assert.equal(
      counts.reduce((a, b) => a + b),
      1,
    );
    assert.equal(notices.filter((n) => n.kind === 'expiry').length, 3);
    const { id } = await d.create('fac', request());
    const results = await Promise.allSettled([
      d.resolve('fac', id, { outcome: 'A', decision: 'approved' }),
      other.resolve('fac', id, { outcome: 'B', decision: 'rejected' }),
      other.close('fac', id, { reason: 'moot' }),
    ]);
    assert.equal(results.filter((r) => r.status === 'fulfilled').length, 1);
    const closings = notices.filter((n) => n.deliberationId === id && ['resolution', 'expiry'].includes(n.kind));
    assert.equal(new Set(closings.map((n) => n.kind)).size, 1);
    assert.equal(new Set(closings.map((n) => n.to)).size, closings.length);
  });

  test(`D22 closed sessions are purged after retention, counted from their end (${label})`, async (t) => {
    const { d, clock } = await on(t);
    const resolved = await d.create('fac', request());
    const expired = await d.create('fac', request({ timeoutMinutes: 60 }));
    const open = await d.create('fac', request({ timeoutMinutes: 10_080 }));
    await d.resolve('fac', resolved.id, { outcome: 'Pull', decision: 'approved' });
    await clock.advance(7 * DAY);
    assert.equal(await d.purge(), 0);
    await clock.advance(1);
    // Noticed a week late, it is as old as its deadline.
    assert.equal(await d.expireStale(), 2);
    assert.equal(await d.purge(), 1);
    assert.deepEqual(await told(d.get('fac', resolved.id)), ['not-found', 'GET_ROUND_TABLE_FAILED']);
    assert.deepEqual(await told(d.speak('ana', resolved.id, { message: 'x' })), ['not-found', 'SPEAK_FAILED']);
    await clock.advance(60 * MINUTE);
    assert.equal(await d.purge(), 1);
    assert.deepEqual(await told(d.get('fac', expired.id)), ['not-found', 'GET_ROUND_TABLE_FAILED']);
    assert.equal((await d.get('fac', open.id)).status, 'expired');
  });
}
