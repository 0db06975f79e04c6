// Sessions that are reopened: parked waits continued from their records, and what is refused.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openDefaultJournal } from 'agent-roundtable/testing';
import { deferred, execution, reply, scripted, services, settle, turn } from './support/agent.mjs';
import { call, done, parked, reopened } from './support/parked.mjs';
import { answered, arrayJournal, noting, open, resume } from './support/session.mjs';

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
      [async () => journal.records.map((r) => ({ ...r, executionId: 'x' })), 'EXECUTION_RECOVERY_INVALID'],
      [
        async () => journal.records.map((r) => (r.providerId ? { ...r, providerId: 'x' } : r)),
        'EXECUTION_RECOVERY_INVALID',
      ],
      [async () => journal.records.map((r) => (r.modelId ? { ...r, modelId: 'x' } : r)), 'EXECUTION_RECOVERY_INVALID'],
      [async () => [...journal.records, { ...journal.records[0], id: 'x' }], 'EXECUTION_RECOVERY_INVALID'],
      [async () => [...journal.records, { ...journal.records[0], input: 'x' }], 'EXECUTION_RECOVERY_INVALID'],
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
    const first = await reopened(checkpoint, {
      journal,
      write: noting('write', () => new Promise(() => {})),
      settleTimeoutMs: 5,
    });
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
    const participant = { journal: () => journal, settleTimeoutMs: 5 };
    const lease = await open({ provider: scripted(call()), tools: [hanging] }, participant);
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
      const first = await open(options, { journal: () => journal, settleTimeoutMs: 5 });
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
    const first = await open(options, { journal: () => journal, settleTimeoutMs: 5 });
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
