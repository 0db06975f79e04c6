// What a turn that is refused leaves alone, and what a turn that fails for good gives up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRoundtable, sessionParticipant, ToolSuspension } from 'agent-roundtable';
import { forgetDefaultJournal, openDefaultJournal } from 'agent-roundtable/testing';
import { calling, deferred, execution, reply, scripted, settle, turn } from './support/agent.mjs';
import { call, done, parked, reopened } from './support/parked.mjs';
import { noting, open, resume } from './support/session.mjs';
import { durable, load } from './support/stored.mjs';

test('K6 a turn under the attempt id of what waits is refused, and the records stay', async () => {
  const { requests, checkpoint } = await parked();
  const { lease, write } = await reopened(checkpoint);
  const records = openDefaultJournal(checkpoint.data.sessionId);
  const before = await records.read('a1');
  await assert.rejects(lease.session.runTurn(turn('a1'), execution()), { code: 'EXECUTION_RECOVERY_REQUIRED' });
  assert.deepEqual(await records.read('a1'), before);
  assert.deepEqual(await resume(lease, requests), done);
  assert.equal(write.calls.length, 1);
  await lease.release();
});

test('K6 what waits is not gone on with as an attempt that was stopped', async () => {
  const provider = scripted(calling(['r', 'read', {}], ['w', 'write', {}]), reply('done'));
  const tools = [noting('read'), noting('write')];
  const lease = await open({ provider, tools, permissions: { allow: ['read'] } });
  const { requests } = await lease.session.runTurn(turn('a1'), execution());
  const next = { ...turn('a1'), attemptId: 'a2', earlierAttempts: ['a1'] };
  await assert.rejects(lease.session.runTurn(next, execution()), { code: 'EXECUTION_RECOVERY_REQUIRED' });
  assert.deepEqual(await resume(lease, requests), done);
  assert.deepEqual(
    tools.map(({ calls }) => calls.length),
    [1, 1],
  );
  await lease.release();
});

test('K7 a second answer while the turn is continued is busy, and gives up neither name nor records', async () => {
  const { requests, checkpoint } = await parked();
  const said = deferred();
  const { lease, write } = await reopened(checkpoint, { replies: [() => said.promise] });
  const first = resume(lease, requests);
  await settle();
  await assert.rejects(resume(lease, requests), { code: 'busy' });
  await assert.rejects(lease.session.runTurn(turn('a2'), execution()), { code: 'busy' });
  await assert.rejects(reopened(checkpoint), { code: 'resource-reused', message: /is open already/ });
  said.resolve(reply('done'));
  assert.deepEqual(await first, done);
  assert.equal(write.calls.length, 1);
  await lease.release();
});

test('A71 a second turn of the same attempt id is busy, and leaves the records of the first', async () => {
  const said = deferred();
  const lease = await open({ provider: scripted(() => said.promise, reply('done')), tools: [noting('write')] });
  const first = lease.session.runTurn(turn('a1'), execution());
  await settle();
  await assert.rejects(lease.session.runTurn(turn('a1'), execution()), { code: 'busy' });
  said.resolve(call());
  const { requests } = await first;
  assert.deepEqual(await resume(lease, requests), done);
  await lease.release();
});

test('K10 a tool that suspends in a continued turn: what waited is given up, and the session goes on', async () => {
  const raise = noting('raise', () => {
    throw new ToolSuspension({ kind: 'session/input', reason: 'who?', data: null });
  });
  const write = noting('write');
  const provider = scripted(call(), calling(['t2', 'raise', {}]), reply('next'));
  const lease = await open({ provider, tools: [write, raise], permissions: { allow: ['raise'] } });
  const { requests } = await lease.session.runTurn(turn('a1'), execution());
  await assert.rejects(resume(lease, requests), { code: 'unsupported-wait' });
  const { data, append } = await lease.session.checkpoint();
  assert.deepEqual([data.pending, append], [null, []]);
  assert.deepEqual(await openDefaultJournal(data.sessionId).read('a1'), []);
  await assert.rejects(resume(lease, requests), { code: 'identity-mismatch' });
  assert.deepEqual(await lease.session.runTurn(turn('a2'), execution()), { kind: 'speak', content: 'next' });
  assert.equal(write.calls.length, 1);
  await lease.release();
});

test('A64 a release that comes again frees nothing of whoever holds the provider by now', async () => {
  const provider = scripted();
  const first = await open({ provider });
  await first.release();
  const second = await open({ provider });
  await first.release();
  await assert.rejects(open({ provider }, { conversationId: 'other' }), { code: 'resource-reused' });
  await assert.rejects(open({ provider: scripted() }), { code: 'resource-reused' }, 'its name is held as well');
  await second.release();
});

test('A74 a conversation whose waiting execution no process knows any more fails with the code, and nothing runs', async () => {
  const write = noting('write');
  const agent = sessionParticipant({
    id: 'bot',
    runtime: { id: 'r', version: '1' },
    createSessionOptions: () => ({ provider: scripted(call()), model: 'm', tools: [write] }),
  });
  const store = durable();
  const limits = { maxTurnsPerRun: 1 };
  const table = createRoundtable({ conversationId: 'gone', participants: [agent], store, limits, recovery: 'none' });
  const { requests } = await table.run();
  await table.dispose();
  // As where the process that held the records has ended.
  forgetDefaultJournal(JSON.stringify(['gone', 'bot']));
  const again = await load('gone', store, [agent]);
  const { revision: expectedRevision } = again.snapshot();
  const response = { kind: 'approval', approved: true };
  await again.resume({ requestId: requests[0].id, responseId: 'yes', expectedRevision, response });
  const { status, code } = await again.run();
  assert.deepEqual([status, code, write.calls, again.snapshot().messages], ['failed', 'journal-missing', [], []]);
  await again.dispose();
});
