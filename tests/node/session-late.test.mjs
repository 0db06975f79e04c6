// Replies that come when the attempt that asked for them has ended: they count while nobody has asked again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { calling, deferred, execution, reply, scripted, services, settle, turn } from './support/agent.mjs';
import { call, done } from './support/parked.mjs';
import { arrayJournal, noting, open } from './support/session.mjs';

const never = () => new Promise(() => {});
const next = (attemptId, ...earlierAttempts) => ({ ...turn('a1'), attemptId, earlierAttempts });

/** Opens a session whose tools may run, on this journal. */
async function allowed(journal, write, replies, extra = {}) {
  const provider = scripted(...replies);
  const options = { provider, tools: [write], permissions: { allow: ['*'] }, ...extra };
  return { provider, ...(await open(options, { journal: () => journal })) };
}

/** Runs a turn, stops it when all has come to rest, and releases its session. */
async function stopped(lease, of, options = {}) {
  const controller = new AbortController();
  const running = lease.session.runTurn(of, execution({ signal: controller.signal, ...options }));
  await settle();
  controller.abort(new Error('enough'));
  await assert.rejects(running, /enough/);
  await lease.release();
}

test('C32 a reply that came late is paid for once: the next attempt goes on from it', async () => {
  const journal = arrayJournal();
  const late = deferred();
  const noted = services();
  const first = await allowed(journal, noting('write'), [call(), () => late.promise]);
  await stopped(first, turn('a1'), { services: noted });
  late.resolve(reply('late words'));
  await settle();
  assert.equal(noted.reports.at(-1).outcome, 'completed');
  const write = noting('write');
  const second = await allowed(journal, write, []);
  const outcome = await second.session.runTurn(next('a2', 'a1'), execution());
  assert.deepEqual(outcome, { kind: 'speak', content: 'late words' });
  assert.deepEqual([write.calls, second.provider.requests], [[], []]);
  await second.release();
});

test('C32 a reply that came late counts no more when the model was asked again', async () => {
  const journal = arrayJournal();
  const late = deferred();
  await stopped(await allowed(journal, noting('write'), [call(), () => late.promise]), turn('a1'));
  await stopped(await allowed(journal, noting('write'), [never]), next('a2', 'a1'));
  late.resolve(reply('late words'));
  await settle();
  assert.ok(journal.records.some(({ response }) => response?.content === 'late words'));
  const write = noting('write');
  const third = await allowed(journal, write, [reply('done')]);
  assert.deepEqual(await third.session.runTurn(next('a3', 'a1', 'a2'), execution()), done);
  assert.deepEqual([write.calls.length, third.provider.requests.length], [0, 1]);
  await third.release();
});

test('C32 a late reply of which nothing came leaves no round and no key behind', async () => {
  const again = () => calling(['t2', 'write', { path: 'b' }]);
  const plain = noting('write');
  const whole = await allowed(arrayJournal(), plain, [call(), again(), reply('done')]);
  await whole.session.runTurn(turn('a1'), execution());
  await whole.release();

  const journal = arrayJournal();
  const late = deferred();
  await stopped(await allowed(journal, noting('write'), [call(), () => late.promise], { maxRounds: 3 }), turn('a1'));
  await stopped(await allowed(journal, noting('write'), [never], { maxRounds: 3 }), next('a2', 'a1'));
  late.resolve(again());
  await settle();
  // It came after the second attempt had read the records, and before that asked.
  const { records } = journal;
  const asked = records.findIndex(({ id }) => id.startsWith('a2'));
  assert.equal(records[asked].kind, 'model-request');
  const [reply2] = records.splice(records.length - 1, 1);
  assert.equal(reply2.kind, 'model-response');
  records.splice(asked, 0, reply2);
  const write = noting('write');
  const third = await allowed(journal, write, [again(), reply('done')], { maxRounds: 3 });
  assert.deepEqual(await third.session.runTurn(next('a3', 'a1', 'a2'), execution()), done);
  assert.ok(third.provider.requests[0].options.tools, 'a round is left for tools');
  assert.deepEqual(
    write.calls.map(({ idempotencyKey }) => idempotencyKey),
    [plain.calls[1].idempotencyKey],
  );
  await third.release();
});
