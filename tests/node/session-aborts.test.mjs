// What an abort or a failing observer leaves of a session's turn.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openDefaultJournal } from 'agent-roundtable/testing';
import { calling, deferred, execution, reply, scripted, settle, turn, unhandled } from './support/agent.mjs';
import { call, done, parked } from './support/parked.mjs';
import { arrayJournal, noting, open, resume } from './support/session.mjs';

describe('K10 what an abort or a failing observer leaves behind', () => {
  test('K10 an abort after the wait was saved returns the wait, and it can be answered', async () => {
    const controller = new AbortController();
    const stuck = deferred();
    const replies = [call(), reply('done')];
    const provider = {
      name: 'p',
      async chat(_messages, { onDelta }) {
        void onDelta('thinking');
        return replies.shift();
      },
    };
    const write = noting('write');
    const lease = await open({ provider, tools: [write] });
    const options = execution({ signal: controller.signal, onDelta: () => stuck.promise });
    const running = lease.session.runTurn(turn('a1'), options);
    await settle();
    controller.abort(new Error('enough'));
    const outcome = await running;
    assert.equal(outcome.kind, 'wait');
    assert.notEqual((await lease.session.checkpoint()).data.pending, null);
    assert.deepEqual(await resume(lease, outcome.requests), done);
    assert.equal(write.calls.length, 1);
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
