// Turns that go on after a wait: what they may still do, and what their answers, ids and keys are held against.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { calling, deferred, execution, reply, scripted, services, settle, turn } from './support/agent.mjs';
import { call, done, parked, reopened } from './support/parked.mjs';
import { answered, arrayJournal, noting, open, resume } from './support/session.mjs';

const never = () => new Promise(() => {});

/** Continues a turn and stops it when all has come to rest; it must end with the reason. */
async function stopped(lease, requests, options = {}) {
  const controller = new AbortController();
  const running = resume(lease, requests, true, execution({ signal: controller.signal, ...options }));
  await settle();
  controller.abort(new Error('enough'));
  await assert.rejects(running, /enough/);
}

test('A72 K5 _CONFLICT an answer on record is neither changed nor given again under another id', async () => {
  let decide = () => 'ask';
  const write = noting('write');
  const lease = await open({ provider: scripted(call(), reply('done')), tools: [write], decide: () => decide() });
  const { requests } = await lease.session.runTurn(turn('a1'), execution());
  // The answer is on record, and what it allows has not begun.
  decide = never;
  await stopped(lease, requests);
  decide = () => 'ask';
  const given = answered(requests[0], true);
  for (const response of [answered(requests[0], false), { ...given, responseId: 'another' }]) {
    const refused = lease.session.resumeTurn({ ...turn('a1'), attemptId: 'b' }, [response], execution());
    await assert.rejects(refused, { code: 'EXECUTION_RECOVERY_CONFLICT' });
  }
  assert.deepEqual(write.calls, []);
  assert.deepEqual(await resume(lease, requests), done);
  assert.equal(write.calls.length, 1);
  await lease.release();
});

test('A72 K5 _CONFLICT the id of an answer serves one request', async () => {
  const write = noting('write');
  const calls = calling(['t1', 'write', { n: 1 }], ['t2', 'write', { n: 2 }]);
  const lease = await open({ provider: scripted(calls, reply('done')), tools: [write] });
  const { requests } = await lease.session.runTurn(turn('a1'), execution());
  const same = requests.map((request) => ({ ...answered(request, true), responseId: 'yes' }));
  const refused = (responses) =>
    assert.rejects(lease.session.resumeTurn({ ...turn('a1'), attemptId: 'b' }, responses, execution()), {
      code: 'EXECUTION_RECOVERY_CONFLICT',
    });
  await refused(same);
  assert.deepEqual(write.calls, []);
  const rest = await lease.session.resumeTurn({ ...turn('a1'), attemptId: 'c' }, [same[0]], execution());
  assert.equal(rest.kind, 'wait');
  await refused([same[1]]);
  assert.deepEqual(await resume(lease, rest.requests), done);
  assert.deepEqual(
    write.calls.map(({ args }) => args.n),
    [1, 2],
  );
  await lease.release();
});

test('F calls of one reply have ids of their own, whatever the provider made them', async () => {
  const write = noting('write');
  const alike = (_messages, { callId }) =>
    calling([`${callId}:tool:1`, 'write', { n: 0 }], ['', 'write', { n: 1 }], [`${callId}:tool:1`, 'write', { n: 2 }]);
  const provider = scripted(alike, reply('done'));
  const lease = await open({ provider, tools: [write] });
  const { requests } = await lease.session.runTurn(turn('a1'), execution());
  assert.equal(new Set(requests.map(({ data }) => data.toolCallId)).size, 3);
  const rest = await resume(lease, [requests[1]]);
  assert.equal((await resume(lease, rest.requests, false)).kind, 'speak');
  assert.deepEqual(
    write.calls.map(({ args }) => args.n),
    [1],
  );
  const results = provider.requests[1].messages.filter(({ role }) => role === 'tool');
  assert.deepEqual(
    results.map(({ toolCallId }) => toolCallId),
    requests.map(({ data }) => data.toolCallId),
  );
  await lease.release();
});

test('K4 one wait has 64 requests, and what is asked beyond is asked after these', async () => {
  const write = noting('write');
  const calls = Array.from({ length: 66 }, (_, n) => [`t${n}`, 'write', { n }]);
  const lease = await open({ provider: scripted(calling(...calls), reply('done')), tools: [write] });
  const first = await lease.session.runTurn(turn('a1'), execution());
  assert.equal(first.requests.length, 64);
  const second = await resume(lease, first.requests);
  assert.deepEqual(
    second.requests.map(({ data }) => data.arguments.n),
    [64, 65],
  );
  assert.equal(write.calls.length, 64);
  assert.deepEqual(await resume(lease, second.requests), done);
  assert.deepEqual(
    write.calls.map(({ args }) => args.n),
    calls.map((_, n) => n),
  );
  await lease.release();
});

test('A66 a turn that waited has the rounds that are left of maxRounds, not all anew', async () => {
  const provider = scripted(call(), call(), call(), reply('never'));
  const lease = await open({ provider, tools: [noting('write')], maxRounds: 3 });
  const first = await lease.session.runTurn(turn('a1'), execution());
  const second = await resume(lease, first.requests);
  assert.equal(second.kind, 'wait');
  await assert.rejects(resume(lease, second.requests), { code: 'EXECUTION_ROUND_LIMIT' });
  assert.equal(provider.requests.length, 3);
  assert.equal(provider.requests[2].options.tools, undefined, 'none are offered in the last round');
  await lease.release();
});

test('A69 each attempt that continues a turn makes its calls under ids of its own', async () => {
  const { requests, checkpoint } = await parked();
  const ids = [];
  const noted = () => services({ admit: ({ callId }) => void ids.push(callId) });
  const { lease } = await reopened(checkpoint, { replies: [never, reply('done')] });
  await stopped(lease, requests, { services: noted() });
  assert.deepEqual(await resume(lease, requests, true, execution({ services: noted() })), done);
  assert.equal(ids.length, 2);
  for (const id of ids) assert.match(id, /^a1\+\d+:call:/, 'the attempt’s, not the execution’s');
  assert.equal(new Set([...ids, 'a1:call:1']).size, 3, String(ids));
  await lease.release();
});

test('A69 the same call once more in a continued turn has a key of its own, and so has another turn’s', async () => {
  const write = noting('write');
  const provider = scripted(call(), call(), reply('done'), call(), reply('done'));
  let asks = true;
  const lease = await open({ provider, tools: [write], decide: () => (asks ? 'ask' : 'allow') });
  const { requests } = await lease.session.runTurn(turn('a1'), execution());
  asks = false;
  assert.deepEqual(await resume(lease, requests), done);
  assert.deepEqual(await lease.session.runTurn(turn('a2'), execution()), done);
  assert.equal(write.calls.length, 3);
  assert.equal(new Set(write.calls.map(({ idempotencyKey }) => idempotencyKey)).size, 3);
  await lease.release();
});

test('A74 an intent that is not what the model asked for is refused, and nothing runs', async () => {
  const journal = arrayJournal();
  const { requests, checkpoint } = await parked({ journal });
  const write = () => noting('write', never, { idempotent: true });
  const first = await reopened(checkpoint, { journal, write: write(), settleTimeoutMs: 5 }).catch(() => undefined);
  const running = resume(first.lease, requests);
  void running.catch(() => undefined);
  await settle();
  await first.lease.release();
  const intended = journal.records.find(({ kind }) => kind === 'tool-intent');
  for (const change of [{ arguments: { path: 'b' } }, { toolName: 'read' }, { idempotencyKey: 'x' }]) {
    const records = journal.records.map((record) => (record === intended ? { ...record, ...change } : record));
    const again = await reopened(checkpoint, {
      journal: arrayJournal(records),
      write: noting('write', 'ran', { idempotent: true }),
    });
    await assert.rejects(resume(again.lease, requests), { code: 'EXECUTION_RECOVERY_INVALID' }, JSON.stringify(change));
    assert.deepEqual(again.write.calls, []);
    await again.lease.release();
  }
});

for (const when of ['long before', 'just before', 'just after', 'long after'])
  test(`C32 a stopped turn ends when what its tool came to is on record (${when} the abort)`, async () => {
    const journal = arrayJournal();
    const { append } = journal;
    const [finish, written] = [deferred(), deferred()];
    journal.append = async (record) => {
      if (record.kind === 'tool-result') await written.promise;
      return append(record);
    };
    const tools = [noting('write', () => finish.promise)];
    const options = { provider: scripted(call()), tools, permissions: { allow: ['*'] } };
    const lease = await open(options, { journal: () => journal });
    const controller = new AbortController();
    const running = lease.session.runTurn(turn('a1'), execution({ signal: controller.signal }));
    let over = false;
    void running.catch(() => (over = true));
    await settle();
    if (when.endsWith('before')) finish.resolve('written');
    if (when === 'long before') await settle();
    controller.abort(new Error('enough'));
    if (when === 'long after') await settle();
    finish.resolve('written');
    await settle();
    assert.equal(over, false);
    written.resolve();
    await assert.rejects(running, /enough/);
    assert.ok(journal.records.some(({ kind }) => kind === 'tool-result'));
    await lease.release();
  });

test('C49 with the default journal, a tool of which nobody knows what it did keeps its records for the host', async () => {
  const hanging = noting('write', never);
  const allowed = (tool, ...replies) => ({
    provider: scripted(...replies),
    tools: [tool],
    permissions: { allow: ['*'] },
  });
  const first = await open(allowed(hanging, call()), { settleTimeoutMs: 5 });
  const running = first.session.runTurn(turn('a1'), execution());
  void running.catch(() => undefined);
  const controller = new AbortController();
  await settle();
  await first.release();
  await assert.rejects(running, { code: 'disposed' });
  controller.abort();
  const next = (attemptId, more = {}) => ({ ...turn('a1'), attemptId, earlierAttempts: ['a1'], ...more });
  const write = noting('write');
  const lease = await open(allowed(write, reply('done')));
  const unknown = { code: 'EXECUTION_RECOVERY_REQUIRED' };
  await assert.rejects(lease.session.runTurn(next('a2'), execution()), unknown);
  await assert.rejects(lease.session.runTurn(next('a3'), execution()), unknown, 'asking does not make it known');
  assert.deepEqual(await lease.session.runTurn(next('a4', { reconciled: 'retry' }), execution()), done);
  assert.deepEqual(
    write.calls.map(({ idempotencyKey }) => idempotencyKey),
    hanging.calls.map(({ idempotencyKey }) => idempotencyKey),
  );
  await lease.release();
});

test('C49 a person’s yes to a tool that was begun before covers one more run, not every one', async () => {
  const journal = arrayJournal();
  const begun = async (tool, permissions, attempt, ends) => {
    const participant = { journal: () => journal, settleTimeoutMs: 5 };
    const lease = await open({ provider: scripted(call()), tools: [tool], permissions }, participant);
    const running = attempt(lease);
    void running.catch(() => undefined);
    await settle();
    if (ends) await lease.release();
    return { lease, running };
  };
  const next = { ...turn('a1'), attemptId: 'a2', earlierAttempts: ['a1'], reconciled: 'retry' };
  const tools = [noting('write', never), noting('write', () => (tools[1].calls.length === 1 ? never() : 'again'))];
  const first = (lease) => lease.session.runTurn(turn('a1'), execution());
  await assert.rejects((await begun(tools[0], { allow: ['*'] }, first, true)).running, { code: 'disposed' });
  const asks = await begun(tools[1], {}, (lease) => lease.session.runTurn(next, execution()));
  const { requests } = await asks.running;
  await stopped(asks.lease, requests);
  assert.deepEqual(
    tools.map(({ calls }) => calls.length),
    [1, 1],
  );
  await assert.rejects(resume(asks.lease, requests), { code: 'EXECUTION_RECOVERY_REQUIRED', message: /write/ });
  assert.equal(tools[1].calls.length, 1);
  await asks.lease.release();
});

test('C49 a call that an earlier attempt had begun is not said to be not run when a later one is stopped', async () => {
  const journal = Object.assign(arrayJournal(), { durable: true });
  const { requests, checkpoint } = await parked({
    journal,
    extra: { tools: [noting('write', 'x', { idempotent: true })] },
  });
  const write = (result) => noting('write', result, { idempotent: true });
  const first = await reopened(checkpoint, { journal, write: write(never) });
  await stopped(first.lease, requests);
  await first.lease.release();
  const { append } = journal;
  const controller = new AbortController();
  const reached = deferred();
  journal.append = async (record) => {
    if (record.kind === 'tool-intent') {
      controller.abort(new Error('enough'));
      reached.resolve();
    }
    return append(record);
  };
  const second = await reopened(checkpoint, { journal, write: write('never') });
  await assert.rejects(resume(second.lease, requests, true, execution({ signal: controller.signal })), /enough/);
  await reached.promise;
  await settle();
  assert.deepEqual(second.write.calls, []);
  await second.lease.release();
  journal.append = append;
  const third = await reopened(checkpoint, { journal, write: write('at last') });
  assert.deepEqual(await resume(third.lease, requests), done);
  assert.equal(third.write.calls.length, 1);
  assert.equal(third.provider.requests[0].messages.at(-1).content, 'at last');
  await third.lease.release();
});

test('A63 what a failed or a stopped turn was shown is not shown to the next', async () => {
  const fail = () => {
    throw new Error('no model today');
  };
  const provider = scripted(call(), fail, reply('done'));
  const lease = await open({ provider, tools: [noting('write')], permissions: { allow: ['*'] } });
  await assert.rejects(lease.session.runTurn(turn('a1', [['ana', 'one']]), execution()), /no model today/);
  assert.deepEqual(await lease.session.runTurn(turn('a2', [['ana', 'two']]), execution()), done);
  assert.deepEqual(
    provider.requests[2].messages.map(({ content }) => content),
    ['### From ana\n> two'],
  );
  await lease.release();
});
