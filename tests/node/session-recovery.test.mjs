// Sessions that are reopened: parked waits continued from their records, and what is refused.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openDefaultJournal } from 'agent-roundtable/testing';
import { calling, deferred, execution, reply, scripted, services, settle, turn, unhandled } from './support/agent.mjs';
import { answered, arrayJournal, noting, open, resume } from './support/session.mjs';

const done = { kind: 'speak', content: 'done' };
const call = (name = 'write') => calling(['t1', name, { path: 'a' }]);

/** A session that is parked on one call of `write`, released, and what it left. */
async function parked({ journal, replies = [call()], extra = {} } = {}) {
  const lease = await open(
    { provider: scripted(...replies), tools: [noting('write')], ...extra },
    journal ? { journal: () => journal } : {},
  );
  const { requests } = await lease.session.runTurn(turn('a1'), execution());
  const checkpoint = await lease.session.checkpoint();
  await lease.release();
  return { requests, checkpoint };
}

/** Reopens it, with another provider and other tools of the same make. */
async function reopened(
  checkpoint,
  { journal, replies = [reply('done')], write = noting('write'), extra = {}, settleTimeoutMs } = {},
) {
  const provider = scripted(...replies);
  const participant = { checkpoint, settleTimeoutMs, ...(journal ? { journal: () => journal } : {}) };
  const lease = await open({ provider, tools: [write], ...extra }, participant);
  return { lease, provider, write };
}

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

describe('reopened', () => {
  test('A76 a parked wait is approved after a reload in the process: answered once, effect once', async () => {
    const { requests, checkpoint } = await parked();
    const { lease, provider, write } = await reopened(checkpoint);
    assert.deepEqual(await resume(lease, requests), done);
    assert.equal(write.calls.length, 1);
    assert.deepEqual(
      provider.requests[0].messages.map(({ role }) => role),
      ['user', 'assistant', 'tool'],
    );
    await lease.release();
  });

  test('a parked wait is answered from a host journal that went through JSON and back', async () => {
    const journal = arrayJournal();
    const metadata = { seen: new Date(5), odd: { $date: 'plain' } };
    const { requests, checkpoint } = await parked({ journal, replies: [{ ...call(), metadata }] });
    const stored = structuredClone(journal.records);
    const { lease, provider } = await reopened(JSON.parse(JSON.stringify(checkpoint)), {
      journal: arrayJournal(stored),
    });
    assert.deepEqual(await resume(lease, requests), done);
    assert.deepEqual(provider.requests[0].messages[1].metadata, metadata);
    await lease.release();
  });

  test('two settled turns, a parked third and a restart: the earlier history is there', async () => {
    const provider = scripted(reply('one'), reply('two'), call());
    const tools = [noting('write')];
    const journal = arrayJournal();
    const lease = await open({ provider, tools }, { journal: () => journal });
    const append = [];
    let head;
    let requests;
    for (const attempt of ['a1', 'a2', 'a3']) {
      ({ requests } = await lease.session.runTurn(turn(attempt), execution()));
      const { data, append: added = [] } = await lease.session.checkpoint();
      append.push(...added);
      head = data;
    }
    assert.equal(append.length, 4);
    assert.deepEqual(head.pending, { executionId: 'a3', requestIds: requests.map(({ id }) => id) });
    assert.equal(head.firstTurnDone, true);
    await lease.release();
    const again = await reopened(
      { version: 'session/1', data: head, append },
      { journal: arrayJournal(journal.records) },
    );
    assert.deepEqual(await resume(again.lease, requests, true, execution(), turn('a3')), done);
    assert.deepEqual(
      again.provider.requests[0].messages.map(({ content }) => content),
      ['### From ana\n> hello', 'one', '### From ana\n> hello', 'two', '### From ana\n> hello', null, 'write ran'],
    );
    const saved = await again.lease.session.checkpoint();
    assert.equal(saved.append.length, 4);
    assert.equal(saved.data.pending, null);
    await again.lease.release();
  });

  test('A74 an execution whose records are gone is journal-missing', async () => {
    const { requests, checkpoint } = await parked({ journal: arrayJournal() });
    for (const journal of [arrayJournal(), { append: async () => undefined }, undefined]) {
      const { lease, write } = await reopened(checkpoint, { journal });
      await assert.rejects(resume(lease, requests), { code: 'journal-missing' });
      assert.deepEqual(write.calls, []);
      await lease.release();
    }
  });

  test('A74 a live session is no exception', async () => {
    const journal = { ...arrayJournal(), read: async () => [] };
    const lease = await open({ provider: scripted(call()), tools: [noting('write')] }, { journal: () => journal });
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    await assert.rejects(resume(lease, requests), { code: 'journal-missing' });
    await lease.release();
  });

  test('a journal that cannot be read, or gives what are no records, is refused with its code', async () => {
    const journal = arrayJournal();
    const { requests, checkpoint } = await parked({ journal });
    const cases = [
      [async () => Promise.reject(new Error('offline')), 'EXECUTION_JOURNAL_FAILED'],
      [
        () => {
          throw new Error('offline');
        },
        'EXECUTION_JOURNAL_FAILED',
      ],
      [async () => [new Map()], 'EXECUTION_RECOVERY_INVALID'],
      [async () => [{}], 'EXECUTION_RECOVERY_INVALID'],
      [async () => [null], 'EXECUTION_RECOVERY_INVALID'],
      [async () => 'records', 'EXECUTION_RECOVERY_INVALID'],
      [async () => journal.records.slice(1), 'EXECUTION_RECOVERY_INVALID'],
      [async () => journal.records.slice(0, 2), 'EXECUTION_RECOVERY_INVALID'],
      [async () => journal.records.map((r) => ({ ...r, sessionId: 'x' })), 'EXECUTION_RECOVERY_INVALID'],
    ];
    for (const [read, code] of cases) {
      const { lease, write } = await reopened(checkpoint, { journal: { ...journal, read } });
      await assert.rejects(resume(lease, requests), { code }, String(read));
      assert.deepEqual(write.calls, []);
      await lease.release();
    }
  });

  test('K6 a session restored as parked takes no new turn, and its records stay', async () => {
    const { requests, checkpoint } = await parked();
    const { lease, write } = await reopened(checkpoint);
    await assert.rejects(lease.session.runTurn(turn('a2'), execution()), { code: 'EXECUTION_RECOVERY_REQUIRED' });
    assert.deepEqual(await lease.session.checkpoint(), { ...checkpoint, append: [] });
    assert.deepEqual(await resume(lease, requests), done);
    assert.equal(write.calls.length, 1);
    await lease.release();
  });

  test('an effect that was started and has no result is never replayed', async () => {
    const journal = arrayJournal();
    const { requests, checkpoint } = await parked({ journal });
    const first = await reopened(checkpoint, { journal, write: noting('write', () => new Promise(() => {})) });
    void resume(first.lease, requests).catch(() => undefined);
    await settle();
    assert.equal(first.write.calls.length, 1);
    assert.equal(journal.records.at(-1).kind, 'tool-intent');
    await first.lease.release();
    // As another process would find it.
    const second = await reopened(checkpoint, { journal: arrayJournal(structuredClone(journal.records)) });
    await assert.rejects(resume(second.lease, requests), (error) => {
      assert.equal(error.code, 'EXECUTION_RECOVERY_REQUIRED');
      assert.match(error.message, /write/);
      return true;
    });
    assert.deepEqual(second.write.calls, []);
    await second.lease.release();
  });

  test('an idempotent tool is run again under the same key', async () => {
    const journal = arrayJournal();
    const extra = { idempotent: true };
    const hanging = noting('write', () => new Promise(() => {}), extra);
    const lease = await open({ provider: scripted(call()), tools: [hanging] }, { journal: () => journal });
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    const checkpoint = await lease.session.checkpoint();
    void resume(lease, requests).catch(() => undefined);
    await settle();
    await lease.release();
    const write = noting('write', 'again', extra);
    const second = await reopened(checkpoint, { journal: arrayJournal(structuredClone(journal.records)), write });
    assert.deepEqual(await resume(second.lease, requests), done);
    assert.equal(write.calls[0].idempotencyKey, hanging.calls[0].idempotencyKey);
    await second.lease.release();
  });

  test('a retried attempt gives the same call the same idempotency key', async () => {
    const keys = [];
    for (const attemptId of ['a1', 'a2']) {
      const write = noting('write');
      const lease = await open({
        provider: scripted(call(), reply('done')),
        tools: [write],
        permissions: { allow: ['*'] },
      });
      await lease.session.runTurn({ ...turn('a1'), attemptId }, execution());
      keys.push(write.calls[0].idempotencyKey);
      await lease.release();
    }
    assert.equal(keys[0], keys[1]);
  });

  test('a continued turn that is stopped keeps its answers, and what a tool did is done', async () => {
    const { requests, checkpoint } = await parked();
    const first = await reopened(checkpoint, { replies: [() => new Promise(() => {})] });
    const controller = new AbortController();
    const stopped = resume(first.lease, requests, true, execution({ signal: controller.signal }));
    await settle();
    controller.abort(new Error('enough'));
    await assert.rejects(stopped, /enough/);
    assert.equal(first.write.calls.length, 1);
    await first.lease.release();
    const second = await reopened(checkpoint);
    assert.deepEqual(await resume(second.lease, requests), done);
    assert.deepEqual(second.write.calls, [], 'its result is on record');
    assert.equal(second.provider.requests[0].messages.at(-1).content, 'write ran');
    await second.lease.release();
  });

  test('a tool that ends after the abort is recorded, and its turn goes on from there', async () => {
    const { requests, checkpoint } = await parked();
    const finish = deferred();
    const first = await reopened(checkpoint, { write: noting('write', () => finish.promise) });
    const controller = new AbortController();
    const stopped = resume(first.lease, requests, true, execution({ signal: controller.signal }));
    await settle();
    controller.abort(new Error('enough'));
    let over = false;
    void stopped.catch(() => (over = true));
    await settle();
    assert.equal(over, false, 'a tool that must not run twice is waited for');
    finish.resolve('late');
    await assert.rejects(stopped, /enough/);
    await first.lease.release();
    const second = await reopened(checkpoint);
    assert.deepEqual(await resume(second.lease, requests), done);
    assert.deepEqual(second.write.calls, []);
    assert.equal(second.provider.requests[0].messages.at(-1).content, 'late');
    await second.lease.release();
  });

  test('a stopped turn waits no longer than it may; what its tool comes to then is not on record', async () => {
    const { requests, checkpoint } = await parked();
    const finish = deferred();
    const write = noting('write', () => finish.promise);
    const first = await reopened(checkpoint, { write, settleTimeoutMs: 5 });
    const controller = new AbortController();
    const stopped = resume(first.lease, requests, true, execution({ signal: controller.signal }));
    await settle();
    controller.abort(new Error('enough'));
    await assert.rejects(stopped, /enough/);
    const again = { code: 'EXECUTION_RECOVERY_REQUIRED', message: /write/ };
    await assert.rejects(resume(first.lease, requests), again);
    finish.resolve('too late');
    await settle();
    await assert.rejects(resume(first.lease, requests), again);
    assert.equal(write.calls.length, 1);
    await first.lease.release();
  });

  test('a call that was stopped between its intent and its effect is known not to have run', async () => {
    const journal = Object.assign(arrayJournal(), { durable: true });
    const { requests, checkpoint } = await parked({ journal });
    const { append } = journal;
    const controller = new AbortController();
    journal.append = async (record) => {
      if (record.kind === 'tool-intent') controller.abort(new Error('enough'));
      return append(record);
    };
    const first = await reopened(checkpoint, { journal });
    await assert.rejects(resume(first.lease, requests, true, execution({ signal: controller.signal })), /enough/);
    await settle();
    assert.deepEqual(first.write.calls, []);
    await first.lease.release();
    const second = await reopened(checkpoint, { journal });
    assert.deepEqual(await resume(second.lease, requests), done);
    assert.deepEqual(second.write.calls, []);
    assert.match(second.provider.requests[0].messages.at(-1).content, /not-run/);
    await second.lease.release();
  });

  for (const [where, journalOf] of [
    ['the default journal', () => ({})],
    ['a journal of the host', () => ({ journal: arrayJournal() })],
  ]) {
    /** Runs an allowed tool, and is stopped when it has run once and the model is asked again. */
    const stopped = async ({ journal }, write) => {
      const controller = new AbortController();
      const second = () => {
        controller.abort(new Error('enough'));
        return new Promise(() => {});
      };
      const options = { provider: scripted(call(), second), tools: [write], permissions: { allow: ['*'] } };
      const lease = await open(options, journal ? { journal: () => journal } : {});
      const running = lease.session.runTurn(turn('a1'), execution({ signal: controller.signal }));
      await assert.rejects(running, /enough/);
      await lease.release();
    };
    const next = { ...turn('a1'), attemptId: 'a2', earlierAttempts: ['a1'] };

    test(`C32 a first attempt that was stopped goes on from ${where}: no effect twice, no reply paid twice`, async () => {
      const kept = journalOf();
      const write = noting('write');
      await stopped(kept, write);
      const again = noting('write');
      const provider = scripted(reply('done'));
      const options = { provider, tools: [again], permissions: { allow: ['*'] } };
      const lease = await open(options, kept.journal ? { journal: () => kept.journal } : {});
      const noted = services();
      assert.deepEqual(await lease.session.runTurn(next, execution({ services: noted })), done);
      assert.deepEqual([write.calls.length, again.calls.length], [1, 0]);
      assert.deepEqual(
        provider.requests[0].messages.map(({ content }) => content),
        ['### From ana\n> hello', null, 'write ran'],
      );
      assert.equal(noted.log.filter(([kind]) => kind === 'admit').length, 1);
      const { append, data } = await lease.session.checkpoint();
      assert.deepEqual([append.length, data.pending], [4, null]);
      if (kept.journal === undefined) {
        const records = openDefaultJournal(data.sessionId);
        assert.deepEqual([await records.read('a1'), await records.read('a2')], [[], []]);
      }
      await lease.release();
    });
  }

  test('C32 a first attempt that began no tool begins anew', async () => {
    const controller = new AbortController();
    const hanging = () => {
      controller.abort(new Error('enough'));
      return new Promise(() => {});
    };
    const first = await open({ provider: scripted(hanging) });
    await assert.rejects(first.session.runTurn(turn('a1'), execution({ signal: controller.signal })), /enough/);
    await first.release();
    const provider = scripted(reply('done'));
    const lease = await open({ provider });
    const next = { ...turn('a1', [['ana', 'hello again']]), attemptId: 'a2', earlierAttempts: ['a1'] };
    assert.deepEqual(await lease.session.runTurn(next, execution()), done);
    assert.equal(provider.requests[0].messages[0].content, '### From ana\n> hello again');
    await lease.release();
  });

  for (const reconciled of [undefined, 'retry']) {
    test(`C49 a tool without a result ${reconciled ? 'runs again where a host said so' : 'is for the host to judge'}`, async () => {
      const journal = arrayJournal();
      const hanging = noting('write', () => new Promise(() => {}));
      const options = { provider: scripted(call()), tools: [hanging], permissions: { allow: ['*'] } };
      const first = await open(options, { journal: () => journal });
      const running = first.session.runTurn(turn('a1'), execution());
      void running.catch(() => undefined);
      await settle();
      await first.release();
      await assert.rejects(running, { code: 'disposed' });
      const write = noting('write');
      const second = { provider: scripted(reply('done')), tools: [write], permissions: { allow: ['*'] } };
      const lease = await open(second, { journal: () => journal });
      const next = { ...turn('a1'), attemptId: 'a2', earlierAttempts: ['a1'], ...(reconciled ? { reconciled } : {}) };
      const continued = lease.session.runTurn(next, execution());
      if (reconciled) assert.deepEqual(await continued, done);
      else await assert.rejects(continued, { code: 'EXECUTION_RECOVERY_REQUIRED', message: /write/ });
      assert.equal(write.calls.length, reconciled ? 1 : 0);
      if (reconciled) assert.equal(write.calls[0].idempotencyKey, hanging.calls[0].idempotencyKey);
      await lease.release();
    });
  }

  test('C49 a tool that runs again is asked about where the policy asks by now, unless a person has said yes', async () => {
    const journal = arrayJournal();
    const hanging = noting('write', () => new Promise(() => {}));
    const options = { provider: scripted(call()), tools: [hanging], permissions: { allow: ['*'] } };
    const first = await open(options, { journal: () => journal });
    const running = first.session.runTurn(turn('a1'), execution());
    void running.catch(() => undefined);
    await settle();
    await first.release();
    const write = noting('write');
    const asking = { provider: scripted(reply('done')), tools: [write], permissions: { ask: ['*'] } };
    const lease = await open(asking, { journal: () => journal });
    const next = { ...turn('a1'), attemptId: 'a2', earlierAttempts: ['a1'], reconciled: 'retry' };
    const { kind, requests } = await lease.session.runTurn(next, execution());
    assert.deepEqual([kind, requests.length, write.calls.length], ['wait', 1, 0]);
    assert.deepEqual(await resume(lease, requests), done);
    assert.deepEqual([write.calls.length, write.calls[0].idempotencyKey], [1, hanging.calls[0].idempotencyKey]);
    await lease.release();
  });

  test('_CONFLICT another answer to an answered request, and an answer id that belongs to another', async () => {
    const { requests, checkpoint } = await parked();
    const first = await reopened(checkpoint, { replies: [] });
    await assert.rejects(resume(first.lease, requests), /script is over/);
    await first.lease.release();
    const again = async (responses) => {
      const { lease, write } = await reopened(checkpoint);
      try {
        return await lease.session.resumeTurn(turn('a1'), responses, execution());
      } finally {
        assert.deepEqual(write.calls, []);
        await lease.release();
      }
    };
    const given = answered(requests[0], true);
    await assert.rejects(again([answered(requests[0], false)]), { code: 'EXECUTION_RECOVERY_CONFLICT' });
    await assert.rejects(again([{ ...given, responseId: 'new' }]), { code: 'EXECUTION_RECOVERY_CONFLICT' });
    assert.deepEqual(await again([given]), done, 'the same answer again changes nothing');
  });
});

describe('K10 what an abort or a failing observer leaves behind', () => {
  test('K10 an abort after the wait was saved returns the wait, and it can be answered', async () => {
    const controller = new AbortController();
    const stuck = deferred();
    const provider = {
      name: 'p',
      async chat(_messages, { onDelta }) {
        void onDelta('thinking');
        return call();
      },
    };
    const lease = await open({ provider, tools: [noting('write')] });
    const options = execution({ signal: controller.signal, onDelta: () => stuck.promise });
    const running = lease.session.runTurn(turn('a1'), options);
    await settle();
    controller.abort(new Error('enough'));
    const outcome = await running;
    assert.equal(outcome.kind, 'wait');
    assert.notEqual((await lease.session.checkpoint()).data.pending, null);
    await lease.release();
  });

  test('K10 an abort after the last reply was journaled returns the words', async () => {
    const controller = new AbortController();
    const provider = {
      name: 'p',
      async chat(_messages, { onDelta }) {
        void onDelta('done');
        return reply('done');
      },
    };
    const lease = await open({ provider });
    const options = execution({ signal: controller.signal, onDelta: () => new Promise(() => {}) });
    const running = lease.session.runTurn(turn('a1'), options);
    await settle();
    controller.abort(new Error('enough'));
    assert.deepEqual(await running, done);
    assert.equal((await lease.session.checkpoint()).append.length, 2);
    await lease.release();
  });

  test('K10 an abort while the wait is not saved parks nothing', async () => {
    const journal = arrayJournal();
    const { append } = journal;
    journal.append = (record) => (record.kind === 'model-response' ? new Promise(() => {}) : append(record));
    const controller = new AbortController();
    const lease = await open({ provider: scripted(call()), tools: [noting('write')] }, { journal: () => journal });
    const running = lease.session.runTurn(turn('a1'), execution({ signal: controller.signal }));
    await settle();
    controller.abort(new Error('enough'));
    await assert.rejects(running, /enough/);
    assert.equal((await lease.session.checkpoint()).data.pending, null);
    await lease.release();
  });

  test('K10 an observer that fails when the turn is done leaves neither a wait nor a history', async () => {
    for (const last of [call(), reply('done')]) {
      const provider = {
        name: 'p',
        async chat(_messages, { onDelta }) {
          void onDelta('text');
          return last;
        },
      };
      const lease = await open({ provider, tools: [noting('write')] });
      const failing = execution({ onDelta: async () => Promise.reject(new Error('observer')) });
      await assert.rejects(lease.session.runTurn(turn('a1'), failing), /observer/);
      const { data, append } = await lease.session.checkpoint();
      assert.deepEqual([data.pending, data.firstTurnDone, append], [null, false, []]);
      await lease.release();
    }
  });

  test('K10 a wait that was never saved leaves nothing once its turn has settled', async () => {
    const { checkpoint } = await parked();
    const journal = openDefaultJournal(checkpoint.data.sessionId);
    assert.equal((await journal.read('a1')).length, 3);
    const lease = await open({ provider: scripted(reply('done')) });
    const next = { ...turn('a1'), attemptId: 'a2', earlierAttempts: ['a1'] };
    assert.deepEqual(await lease.session.runTurn(next, execution()), done);
    assert.deepEqual([await journal.read('a1'), await journal.read('a2')], [[], []]);
    await lease.release();
  });

  test('K14 the abort reason comes first, and a journal that failed as well is its cause', async () => {
    const controller = new AbortController();
    const journal = arrayJournal();
    journal.append = async (record) => {
      if (record.kind !== 'tool-result') return;
      controller.abort(new Error('enough'));
      throw new Error('disk full');
    };
    const options = { provider: scripted(call()), tools: [noting('write')], permissions: { allow: ['*'] } };
    const lease = await open(options, { journal: () => journal });
    await assert.rejects(lease.session.runTurn(turn('a1'), execution({ signal: controller.signal })), (error) => {
      assert.equal(error.name, 'AbortError');
      assert.match(error.cause.cause.message, /disk full/);
      return true;
    });
    await lease.release();
  });

  test('nothing is unhandled when turns are stopped at every point', async () => {
    const seen = await unhandled(async () => {
      for (let stopAfter = 0; stopAfter < 12; stopAfter++) {
        const controller = new AbortController();
        const journal = arrayJournal();
        let appended = 0;
        const { append } = journal;
        journal.append = async (record) => {
          if (appended++ === stopAfter) controller.abort(new Error('enough'));
          await append(record);
        };
        const tools = [noting('write'), noting('read')];
        const provider = scripted(calling(['t1', 'write', {}], ['t2', 'read', {}]), reply('done'));
        const lease = await open({ provider, tools, permissions: { allow: ['*'] } }, { journal: () => journal });
        const running = lease.session.runTurn(turn('a1'), execution({ signal: controller.signal }));
        await running.catch((error) => assert.match(error.message, /enough/));
        await lease.release();
      }
    });
    assert.deepEqual(seen, []);
  });
});
