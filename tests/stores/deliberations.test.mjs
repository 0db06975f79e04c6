// Two processes with one deliberation, on SQLite files and on PostgreSQL: whoever appends first wins.
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { createDeliberations } from 'agent-roundtable';
import { skip as noPostgres, startPostgres } from '../../scripts/lib/postgres-server.mjs';
import { openStore } from './support/durable-stores.mjs';
import { skip as noSqlite } from './support/sqlite-driver.mjs';

const HOST = fileURLToPath(new URL('support/deliberation-host.mjs', import.meta.url));
const KINDS = { sqlite: noSqlite, postgres: noPostgres };
const START = Date.parse('2027-01-01T00:00:00Z');
const MINUTE = 60_000;
const RACES = 500;
const TABLE = { topic: 'Push or pull?', goal: 'Agree on one.', participants: ['ana', 'bo'], timeoutMinutes: 1 };

let server;
before(async () => {
  if (noPostgres) return;
  server = await startPostgres();
  process.env.POSTGRES = JSON.stringify(server.config);
});
after(() => server?.remove());

/** This process and another one on a store. */
async function hosts(t, kind) {
  const folder = await mkdtemp(join(tmpdir(), 'deliberations-'));
  const { store, close } = await openStore(kind, folder);
  const time = { now: START };
  const notices = [];
  const d = createDeliberations({
    store,
    clock: { now: () => time.now, setTimeout, clearTimeout },
    sweepIntervalMs: 0,
    notifier: async ({ kind, to, deliberationId }) => {
      notices.push({ kind, to, deliberationId });
    },
  });
  const child = fork(HOST, [kind, folder]);
  const exited = once(child, 'exit');
  await once(child, 'message');
  /** Has the other process do something, at a time of its own. */
  const ask = async (task, at, input = {}) => {
    child.send({ task, at, ...input });
    const [answer] = await once(child, 'message');
    notices.push(...answer.notices);
    return answer.result;
  };
  t.after(async () => {
    await ask('end', START);
    await exited;
    await d.dispose();
    await close();
    await rm(folder, { recursive: true });
  });
  return { d, ask, time, notices };
}

for (const [kind, skip] of Object.entries(KINDS)) {
  test(`D15 199 entries and 50 parallel speakers in two processes leave exactly 200 (${kind})`, { skip }, async (t) => {
    const { d, ask } = await hosts(t, kind);
    const { id } = await d.create('fac', TABLE);
    for (let n = 0; n < 198; n++) await d.speak('ana', id, { message: `${n}` });
    // After this both processes have the session in memory, with 199 entries.
    assert.deepEqual(await ask('speak', START, { id, caller: 'bo', messages: ['198'] }), [199]);
    assert.equal((await d.get('ana', id)).thread.length, 199);
    const messages = Array.from({ length: 25 }, (_, n) => `late ${n}`);
    const [here, there] = await Promise.all([
      Promise.all(
        messages.map((message) =>
          d.speak('fac', id, { message }).then(
            ({ threadLength }) => threadLength,
            ({ code }) => code,
          ),
        ),
      ),
      ask('speak', START, { id, caller: 'bo', messages }),
    ]);
    const landed = [...here, ...there].filter((one) => one !== 'conflict');
    assert.deepEqual(landed, [200]);
    assert.equal((await d.get('ana', id)).thread.length, 200);
  });

  test(`D16 two processes that speak in parallel store every entry once (${kind})`, { skip }, async (t) => {
    const { d, ask } = await hosts(t, kind);
    const { id } = await d.create('fac', TABLE);
    const messages = Array.from({ length: 50 }, (_, n) => `m${n}`);
    const [here, there] = await Promise.all([
      Promise.all(messages.map(async (message) => (await d.speak('ana', id, { message })).threadLength)),
      ask('speak', START, { id, caller: 'bo', messages }),
    ]);
    const lengths = [...here, ...there].sort((a, b) => a - b);
    assert.deepEqual(
      lengths,
      Array.from({ length: 100 }, (_, n) => n + 1),
    );
    const { thread } = await d.get('fac', id);
    for (const [from, told] of [
      ['ana', here],
      ['bo', there],
    ]) {
      const kept = told.map((length) => [thread[length - 1].from, thread[length - 1].message]);
      assert.deepEqual(
        kept,
        messages.map((message) => [from, message]),
      );
    }
  });

  test(`D19 a resolution against an expiry in another process, ${RACES} times: one winner (${kind})`, {
    skip,
  }, async (t) => {
    const { d, ask, time, notices } = await hosts(t, kind);
    const wins = { resolved: 0, expired: 0 };
    for (let n = 0; n < RACES; n++) {
      notices.length = 0;
      const { id } = await d.create('fac', TABLE);
      // The last instant that counts here; the other clock is ahead by a millisecond.
      time.now += MINUTE;
      const resolve = () =>
        d.resolve('fac', id, { outcome: 'Pull', decision: 'approved' }).then(
          () => 'resolved',
          ({ code }) => code,
        );
      // Each has its turns to be first; the others are decided by whoever is faster.
      const resolving = n % 10 === 1 ? await resolve() : undefined;
      const expiring = ask('expire', time.now + 1);
      if (n % 10 === 0) await expiring;
      else if (n % 4 !== 0) await new Promise((next) => setTimeout(next, n % 4));
      const [resolved, expired] = await Promise.all([resolving ?? resolve(), expiring]);
      const { status } = await d.get('ana', id);
      wins[status] += 1;
      assert.equal(resolved, status === 'resolved' ? 'resolved' : 'conflict');
      assert.equal(expired, status === 'expired' ? 1 : 0);
      const closing = notices.filter((notice) => notice.kind === 'resolution' || notice.kind === 'expiry');
      const sets = {
        resolved: ['resolution ana', 'resolution bo'],
        expired: ['expiry ana', 'expiry bo', 'expiry fac'],
      };
      assert.deepEqual(closing.map((notice) => `${notice.kind} ${notice.to}`).sort(), sets[status]);
      assert.ok(closing.every((notice) => notice.deliberationId === id));
      time.now += 2;
    }
    assert.ok(wins.resolved > 0 && wins.expired > 0, JSON.stringify(wins));
    t.diagnostic(JSON.stringify(wins));
  });
}
