// Deliberations, by the rules of their acceptance (D1 to D29; the others are in deliberation-*.test.mjs): what members
// say and read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MINUTE, request, stores, table, told } from './support/deliberations.mjs';

const CLOSED = ['conflict', 'SPEAK_FAILED'];

for (const [label, makeStore] of Object.entries(stores)) {
  const on = (t, options) => table(t, makeStore, options);

  test(`D1 a new session is open, with an empty thread, an id and a group (${label})`, async (t) => {
    const { d, groups } = await on(t);
    const session = await d.create('fac', request());
    assert.match(session.id, /^rt_[0-9a-f]{12}$/);
    assert.match(session.groupId, new RegExp(`^group://round-table-${session.id}-[0-9a-f]{8}$`));
    const { id, groupId, threadHash, ...rest } = session;
    assert.deepEqual(rest, {
      topic: 'Push or pull?',
      goal: 'Agree on one.',
      facilitator: 'fac',
      participants: ['ana', 'bo'],
      status: 'open',
      version: 1,
      thread: [],
      outcome: null,
      createdAt: '2027-01-01T00:00:00.000Z',
      expiresAt: '2027-01-01T00:30:00.000Z',
    });
    assert.equal(groups.get(groupId).owner, 'fac');
    assert.equal(groups.get(groupId).maxMembers, 3);
  });

  test(`D2 each participant gets one work order, with deadline and roster; the facilitator none (${label})`, async (t) => {
    const { d, inbox } = await on(t);
    const { id, expiresAt } = await d.create('fac', request({ topic: 'A "quoted" topic' }));
    for (const agent of ['ana', 'bo']) {
      const [invitation, ...more] = inbox(agent);
      assert.deepEqual(more, []);
      assert.equal(invitation.kind, 'invitation');
      assert.equal(invitation.type, 'work_order');
      assert.equal(invitation.version, '1.0');
      assert.equal(invitation.deliberationId, id);
      assert.equal(invitation.idempotencyKey, `${id}/invitation/${agent}`);
      assert.equal(invitation.subject, 'invitation: "A \\"quoted\\" topic"');
      const { instructions, ...body } = invitation.body;
      assert.deepEqual(body, {
        round_table_id: id,
        topic: 'A "quoted" topic',
        goal: 'Agree on one.',
        facilitator: 'fac',
        participants: ['ana', 'bo'],
        expires_at: expiresAt,
      });
      assert.doesNotMatch(JSON.stringify(instructions), /\//, 'names no path');
    }
    assert.deepEqual(inbox('fac'), []);
  });

  test(`D3 what a participant says is readable by the others, and they are sent it (${label})`, async (t) => {
    const { d, inbox } = await on(t);
    const { id } = await d.create('fac', request());
    const spoken = await d.speak('ana', id, { message: '  Pull.  ' });
    assert.equal(spoken.threadLength, 1);
    assert.match(spoken.threadEntryId, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/);
    const entry = { id: spoken.threadEntryId, from: 'ana', message: 'Pull.', timestamp: '2027-01-01T00:00:00.000Z' };
    assert.deepEqual((await d.get('bo', id)).thread, [entry]);
    for (const agent of ['bo', 'fac']) {
      const [notice, ...more] = inbox(agent, 'entry');
      assert.deepEqual(more, []);
      assert.equal(notice.from, 'ana');
      assert.deepEqual(notice.body.thread_entry, entry);
    }
    assert.deepEqual(inbox('ana', 'entry'), []);
  });

  test(`D4 the facilitator speaks (${label})`, async (t) => {
    const { d, inbox } = await on(t);
    const { id } = await d.create('fac', request());
    assert.equal((await d.speak('fac', id, { message: 'Begin.' })).threadLength, 1);
    assert.equal(inbox('ana', 'entry').length + inbox('bo', 'entry').length, 2);
  });

  test(`D5 an outsider is refused before any state is revealed (${label})`, async (t) => {
    const { d } = await on(t);
    const { id } = await d.create('fac', request());
    const answers = async () => [
      await told(d.get('eve', id)),
      await told(d.speak('eve', id, { message: 'Hi' })),
      await told(d.resolve('eve', id, { outcome: 'Mine', decision: 'approved' })),
      await told(d.close('eve', id, { reason: 'no' })),
      await told(d.takePosition('eve', id, { stance: 'for' })),
      await told(d.decline('eve', id)),
    ];
    const open = await answers();
    for (const [code] of open) assert.equal(code, 'forbidden');
    await d.resolve('fac', id, { outcome: 'Pull', decision: 'approved' });
    assert.deepEqual(await answers(), open);
  });

  test(`D6 a participant does not resolve (${label})`, async (t) => {
    const { d } = await on(t);
    const { id } = await d.create('fac', request());
    const outcome = { outcome: 'Pull', decision: 'approved' };
    assert.deepEqual(await told(d.resolve('ana', id, outcome)), ['forbidden', 'RESOLVE_FAILED']);
    assert.equal((await d.get('ana', id)).status, 'open');
  });

  test(`D7 the facilitator resolves: stored, told, the group gone, and final (${label})`, async (t) => {
    const { d, inbox, groups, clock } = await on(t);
    const { id, groupId } = await d.create('fac', request());
    await d.speak('ana', id, { message: 'Pull.' });
    await clock.advance(MINUTE);
    const outcome = { outcome: ' Pull it is. ', decision: 'approved', note: 'for now' };
    const resolved = await d.resolve('fac', id, outcome);
    assert.equal(resolved.status, 'resolved');
    assert.equal(resolved.outcome, 'Pull it is.');
    assert.equal(resolved.decision, 'approved');
    assert.equal(resolved.note, 'for now');
    assert.equal(resolved.resolvedAt, '2027-01-01T00:01:00.000Z');
    assert.equal(resolved.thread.length, 1);
    assert.deepEqual(await d.get('bo', id), resolved);
    for (const agent of ['ana', 'bo']) {
      const [notice, ...more] = inbox(agent, 'resolution');
      assert.deepEqual(more, []);
      assert.equal(notice.from, 'fac');
      assert.equal(notice.body.outcome, 'Pull it is.');
      assert.equal(notice.body.resolved_at, resolved.resolvedAt);
    }
    assert.deepEqual(inbox('fac', 'resolution'), []);
    assert.equal(groups.get(groupId), undefined);
    assert.deepEqual(await told(d.speak('ana', id, { message: 'But' })), CLOSED);
    assert.deepEqual(await told(d.resolve('fac', id, outcome)), ['conflict', 'RESOLVE_FAILED']);
  });

  test(`D15 a thread takes 200 entries: of five speakers at 199 exactly one succeeds (${label})`, async (t) => {
    const { d, host } = await on(t);
    const { id } = await d.create('fac', request());
    for (let n = 0; n < 199; n++) await d.speak('ana', id, { message: `${n}` });
    const hosts = [d, host(), host(), d, host()];
    const results = await Promise.allSettled(hosts.map((one, n) => one.speak('bo', id, { message: `last ${n}` })));
    const landed = results.filter((r) => r.status === 'fulfilled');
    assert.deepEqual(
      landed.map((r) => r.value.threadLength),
      [200],
    );
    for (const { reason } of results.filter((r) => r.status === 'rejected')) {
      assert.deepEqual([reason.code, reason.reason], CLOSED);
    }
    assert.equal((await d.get('fac', id)).thread.length, 200);
    assert.deepEqual(await told(d.speak('ana', id, { message: 'more' })), CLOSED);
  });

  test(`D16 ten parallel speakers store ten distinct entries, whichever host they reach (${label})`, async (t) => {
    const { d, host, inbox } = await on(t);
    const { id } = await d.create('fac', request());
    const hosts = [d, host(), host()];
    const said = await Promise.all(
      Array.from({ length: 10 }, (_, n) => hosts[n % 3].speak('ana', id, { message: `m${n}` })),
    );
    assert.deepEqual(
      said.map((s) => s.threadLength).sort((a, b) => a - b),
      [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    );
    const { thread } = await d.get('bo', id);
    assert.equal(new Set(thread.map((entry) => entry.id)).size, 10);
    for (const [n, { threadEntryId, threadLength }] of said.entries()) {
      assert.deepEqual([thread[threadLength - 1].id, thread[threadLength - 1].message], [threadEntryId, `m${n}`]);
    }
    assert.equal(inbox('bo', 'entry').length, 10);
  });

  test(`D23 a list has the caller's own, newest first, each once over its pages (${label})`, async (t) => {
    const { d, clock } = await on(t);
    const own = [];
    for (let n = 0; n < 7; n++) {
      own.unshift((await d.create(n % 2 ? 'fac' : 'ana', request({ participants: n % 2 ? ['ana'] : ['fac'] }))).id);
      if (n % 3 === 0) await clock.advance(1000);
    }
    await d.create('eve', request({ participants: ['bo'] }));
    const listed = [];
    let cursor;
    do {
      const page = await d.list('fac', { limit: 3, ...(cursor && { cursor }) });
      assert.ok(page.items.length <= 3);
      listed.push(...page.items);
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    assert.deepEqual(listed.map((one) => one.id).sort(), [...own].sort());
    const times = listed.map((one) => one.createdAt);
    assert.deepEqual(times, [...times].sort().reverse());
    assert.equal('thread' in listed[0], false);
    assert.equal(listed[0].threadLength, 0);
    for (const status of ['bogus', '', 7, null]) {
      assert.deepEqual(await told(d.list('fac', { status })), ['invalid', 'INVALID_STATUS', 'status']);
    }
    for (const limit of [0, 101, 1.5, '3', null]) {
      assert.deepEqual(await told(d.list('fac', { limit })), ['invalid', 'INVALID_LIMIT', 'limit']);
    }
    for (const bad of ['', 'no cursor', 7]) {
      assert.deepEqual(await told(d.list('fac', { cursor: bad })), ['invalid', 'INVALID_CURSOR', 'cursor']);
    }
    assert.equal((await d.list('fac', { limit: 100 })).items.length, 7);
    assert.deepEqual((await d.list('fac', { status: 'expired' })).items, []);
    await clock.advance(31 * MINUTE);
    assert.deepEqual((await d.list('fac', { status: 'open' })).items, [], 'a deadline needs no sweep');
    assert.equal((await d.list('fac', { status: 'expired' })).items.length, 7);
    assert.deepEqual(await told(d.list('')), ['unauthenticated', 'UNAUTHENTICATED']);
  });

  test(`D24 a decision is one of three, and not to be left out (${label})`, async (t) => {
    const { d } = await on(t);
    const { id } = await d.create('fac', request());
    for (const decision of [undefined, null, '', 'Approved', 'maybe', 7, {}]) {
      const refused = await told(d.resolve('fac', id, { outcome: 'Pull', decision }));
      assert.deepEqual(refused, ['invalid', 'INVALID_DECISION', 'decision']);
    }
    for (const decision of ['approved', 'rejected', 'deferred']) {
      const session = await d.create('fac', request());
      assert.equal((await d.resolve('fac', session.id, { outcome: 'Pull', decision })).decision, decision);
    }
  });

  test(`D27 what a caller does to a result changes nothing (${label})`, async (t) => {
    const { d } = await on(t);
    const input = request();
    const session = await d.create('fac', input);
    input.participants.push('eve');
    await d.speak('ana', session.id, { message: 'Pull.' });
    const read = await d.get('ana', session.id);
    const copy = structuredClone(read);
    read.participants.push('eve');
    read.thread[0].message = 'Push.';
    read.status = 'resolved';
    assert.deepEqual(await d.get('ana', session.id), copy);
  });
}
