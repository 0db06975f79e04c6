// What a session writes down, and where.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createRoundtable, roundRobin, sessionParticipant } from 'agent-roundtable';
import { openDefaultJournal } from 'agent-roundtable/testing';
import { calling, deferred, execution, reply, scripted, services, settle, turn } from './support/agent.mjs';
import { call, done, parked, reopened } from './support/parked.mjs';
import { arrayJournal, noting, open, resume } from './support/session.mjs';
import { durable } from './support/stored.mjs';

describe('the journal of an execution', () => {
  test('A71 with the default journal, the records are there while something waits and gone when it settled', async () => {
    const { requests, checkpoint } = await parked();
    const { sessionId } = checkpoint.data;
    const kinds = async () => (await openDefaultJournal(sessionId).read('a1')).map(({ kind }) => kind);
    assert.deepEqual(await kinds(), ['execution-start', 'model-request', 'model-response']);
    const { lease, write } = await reopened(checkpoint);
    assert.deepEqual(await resume(lease, requests), done);
    assert.deepEqual(await kinds(), []);
    assert.equal(write.calls.length, 1);
    await lease.release();
  });

  test('A71 a turn without a wait, and one that fails, leave no records', async () => {
    const lease = await open({ provider: scripted(reply('done')), tools: [noting('write')] });
    const { sessionId } = (await lease.session.checkpoint()).data;
    await lease.session.runTurn(turn('a1'), execution());
    await assert.rejects(lease.session.runTurn(turn('a2'), execution()), /script is over/);
    const journal = openDefaultJournal(sessionId);
    assert.deepEqual([...(await journal.read('a1')), ...(await journal.read('a2'))], []);
    await lease.release();
  });

  test('A71 in a conversation, an attempt that the host has settled leaves no records once a turn has', async () => {
    const began = deferred();
    const hanging = noting('write', () => {
      began.resolve();
      return new Promise(() => {});
    });
    let asked = 0;
    const participant = sessionParticipant({
      id: 'bot',
      runtime: { id: 'r', version: '1' },
      settleTimeoutMs: 20,
      createSessionOptions: () => ({
        provider: scripted(asked++ === 0 ? call() : reply('done')),
        model: 'm',
        tools: [hanging],
        permissions: { allow: ['*'] },
      }),
    });
    const store = durable(undefined, { identity: 'here' });
    const limits = { maxTurnsPerRun: 1, settleTimeoutMs: 20 };
    const attempts = [];
    const table = createRoundtable({
      conversationId: 'c',
      participants: [participant],
      selector: roundRobin(),
      store,
      recovery: 'none',
      limits,
      onEvent: ({ attemptId }) => void (attemptId && attempts.push(attemptId)),
    });
    const controller = new AbortController();
    const running = table.run({ signal: controller.signal });
    await began.promise;
    controller.abort();
    await running;
    const journal = openDefaultJournal(JSON.stringify(['c', 'bot']), 'identity here');
    const kept = (await Promise.all(attempts.map((id) => journal.read(id)))).flat();
    assert.ok(
      kept.some(({ kind }) => kind === 'tool-intent'),
      'while nobody has decided, they stay',
    );
    const refused = await table.run().catch((error) => error);
    const { revision: expectedRevision } = table.snapshot();
    const fresh = await open({ provider: scripted(), tools: [noting('write')] });
    const { version, data } = await fresh.session.checkpoint();
    await fresh.release();
    const outcome = { kind: 'speak', content: 'it was written' };
    const decision = { kind: 'settle', outcome, checkpoint: { version, data } };
    await table.reconcile({ turnId: refused.turns[0].turnId, expectedRevision, by: 'host', decision });
    await table.run();
    assert.deepEqual((await Promise.all(attempts.map((id) => journal.read(id)))).flat(), []);
    await table.dispose();
  });

  test('every step of a turn is on record, in order, with an intent before its effect', async () => {
    const journal = arrayJournal();
    const during = [];
    const write = noting('write', () => {
      during.push(...journal.records.map(({ kind }) => kind));
      return { ok: true };
    });
    const provider = scripted(calling(['t1', 'write', { path: 'a' }], ['t2', 'ghost', {}]), reply('done'));
    const lease = await open({ provider, tools: [write], permissions: { allow: ['*'] } }, { journal: () => journal });
    await lease.session.runTurn(turn('a1'), execution());
    assert.deepEqual(
      journal.records.map(({ kind, toolCallId }) => (toolCallId ? `${kind} ${toolCallId}` : kind)),
      [
        'execution-start',
        'model-request',
        'model-response',
        'tool-result t2',
        'tool-intent t1',
        'tool-result t1',
        'model-request',
        'model-response',
      ],
    );
    assert.ok(during.includes('tool-intent') && !during.slice(4).includes('tool-result t1'));
    const [start, request, response, , intent, result] = journal.records;
    const { sessionId } = (await lease.session.checkpoint()).data;
    for (const record of journal.records) assert.deepEqual([record.executionId, record.sessionId], ['a1', sessionId]);
    assert.equal(start.input, '### From ana\n> hello');
    assert.deepEqual([request.callId, request.providerId, request.modelId], ['a1:call:1', 'scripted', 'm']);
    assert.ok(response.response.timestamp instanceof Date);
    assert.equal(intent.toolName, 'write');
    assert.deepEqual(intent.arguments, { path: 'a' });
    assert.equal(intent.idempotencyKey, write.calls[0].idempotencyKey);
    assert.deepEqual(result.result, { ok: true });
    assert.equal(new Set(journal.records.map(({ id }) => id)).size, 8);
    assert.ok(!('messages' in request));
    await lease.release();
  });

  test('an answer is on record before what it allows', async () => {
    const journal = arrayJournal();
    const { requests, checkpoint } = await parked({ journal });
    const { lease } = await reopened(checkpoint, { journal });
    await resume(lease, requests, { kind: 'approval', approved: true, reason: 'go on' });
    const tail = journal.records.slice(3);
    assert.deepEqual(
      tail.map(({ kind }) => kind),
      ['answer', 'tool-intent', 'tool-result', 'model-request', 'model-response'],
    );
    const { id, executionId, sessionId, ...answer } = tail[0];
    assert.deepEqual(answer, {
      kind: 'answer',
      requestId: requests[0].id,
      responseId: `answer to ${requests[0].id}`,
      approved: true,
      reason: 'go on',
    });
    await lease.release();
  });

  test('a host journal is never cleared', async () => {
    const journal = arrayJournal();
    const { requests, checkpoint } = await parked({ journal });
    const { lease } = await reopened(checkpoint, { journal });
    await resume(lease, requests);
    await lease.release();
    assert.equal(journal.records.length, 8);
  });

  test('the conversation’s own journal is used where it is durable, and only there', async () => {
    for (const durable of [true, false]) {
      const own = Object.assign(arrayJournal(), { durable });
      const lease = await open({ provider: scripted(reply('done')), tools: [noting('write')] });
      await lease.session.runTurn(turn('a1'), execution({ services: { ...services(), journal: own } }));
      assert.equal(own.records.length, durable ? 3 : 0);
      await lease.release();
    }
    const [own, host] = [Object.assign(arrayJournal(), { durable: true }), arrayJournal()];
    const lease = await open({ provider: scripted(reply('done')) }, { journal: () => host });
    await lease.session.runTurn(turn('a1'), execution({ services: { ...services(), journal: own } }));
    assert.deepEqual([own.records.length, host.records.length], [0, 3], 'the host’s comes first');
    await lease.release();
  });

  test('start, admission and request are on their way at the same time', async () => {
    const order = [];
    const gate = deferred();
    const note = (what, then) => {
      order.push(what);
      return then;
    };
    const own = {
      durable: true,
      append: ({ kind }) => note(kind, gate.promise),
      read: async () => [],
    };
    const noted = { ...services({ admit: () => note('admit', gate.promise) }), journal: own };
    const lease = await open({ provider: scripted(() => note('call', reply('done'))) });
    const running = lease.session.runTurn(turn('a1'), execution({ services: noted }));
    await settle();
    assert.deepEqual(order, ['execution-start', 'admit', 'model-request']);
    gate.resolve();
    assert.deepEqual(await running, done);
    await lease.release();
  });

  test('A48 nothing is called while a record of the turn is refused, and no reservation stays open', async () => {
    for (const kind of ['execution-start', 'model-request']) {
      const journal = arrayJournal();
      const { append } = journal;
      journal.append = async (record) => {
        if (record.kind === kind) throw new Error(`no ${kind}`);
        return append(record);
      };
      const provider = scripted(reply('never'));
      const lease = await open({ provider }, { journal: () => journal });
      const noted = services();
      await assert.rejects(lease.session.runTurn(turn('a1'), execution({ services: noted })), (error) => {
        assert.equal(error.code, 'EXECUTION_JOURNAL_FAILED');
        assert.match(error.cause.message, /no /);
        return true;
      });
      assert.equal(provider.requests.length, 0, kind);
      assert.deepEqual(
        noted.reports.map(({ final, outcome }) => [final, outcome === 'completed']),
        [[true, false]],
        kind,
      );
      await lease.release();
    }
  });

  test('A48 a model is not called while the result before it is on its way, nor where that is refused', async () => {
    const journal = arrayJournal();
    const { append } = journal;
    const full = deferred();
    journal.append = async (record) => (record.kind === 'tool-result' ? full.promise : append(record));
    const provider = scripted(call(), reply('never'));
    const options = { provider, tools: [noting('write')], permissions: { allow: ['*'] } };
    const lease = await open(options, { journal: () => journal });
    const running = lease.session.runTurn(turn('a1'), execution());
    void running.catch(() => undefined);
    await settle();
    assert.equal(journal.records.at(-1).kind, 'model-request', 'it is on its way as well');
    assert.equal(provider.requests.length, 1);
    full.reject(new Error('full'));
    await assert.rejects(running, { code: 'EXECUTION_JOURNAL_FAILED' });
    assert.equal(provider.requests.length, 1);
    await lease.release();
  });

  test('a tool is not run where its intent is refused, nor a model called where a result is', async () => {
    for (const [kind, ran, called] of [
      ['tool-intent', 0, 1],
      ['tool-result', 1, 1],
    ]) {
      const journal = arrayJournal();
      const { append } = journal;
      journal.append = async (record) => {
        if (record.kind === kind) throw new Error('full');
        return append(record);
      };
      const write = noting('write');
      const provider = scripted(call(), reply('never'));
      const options = { provider, tools: [write], permissions: { allow: ['*'] } };
      const lease = await open(options, { journal: () => journal });
      await assert.rejects(lease.session.runTurn(turn('a1'), execution()), { code: 'EXECUTION_JOURNAL_FAILED' });
      assert.deepEqual([write.calls.length, provider.requests.length], [ran, called], kind);
      await lease.release();
    }
  });
});
