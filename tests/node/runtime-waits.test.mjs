// Foreign runtimes over waits, stops and retries: what their records keep, and what their state is then.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runtimeParticipant } from 'agent-roundtable/runtime';
import { deferred, execution, services, settle, turn } from './support/agent.mjs';
import { arrayJournal } from './support/session.mjs';

const done = (finalOutput, newItems = []) => ({ finalOutput, newItems });
const write = (toolCallId = 't1') => ({ toolCallId, toolName: 'write', arguments: { path: 'a' } });
const waits = (state = { at: 1 }) => ({ interruptions: [write()], state });
const unknown = { code: 'EXECUTION_RECOVERY_REQUIRED', message: /write/ };
const never = () => new Promise(() => {});

async function open(runtime, { checkpoint, ...options } = {}) {
  const { factory } = runtimeParticipant({
    id: 'bot',
    runtime: { id: 'sdk', version: '1' },
    createRuntime: () => (typeof runtime === 'function' ? { run: runtime } : runtime),
    ...options,
  });
  return factory.openSession({ conversationId: 'c', participantId: 'bot', checkpoint });
}

const yes = ({ requests }) =>
  requests.map((request) => ({
    request: { ...request, participantId: 'bot', memberId: 'bot', groupId: 'g', turnId: 'turn-of-a1' },
    responseId: 'yes',
    response: { kind: 'approval', approved: true, reason: 'go on' },
  }));
const again = (attemptId, more = {}) => ({ ...turn('a1'), attemptId, ...more });
const goesOn = (attemptId, more = {}) => again(attemptId, { earlierAttempts: ['a1'], ...more });

/** Runs the turn until `reached` and stops it; it must end with the reason. */
async function stopped(running, controller, reached) {
  await reached;
  controller.abort(new Error('enough'));
  await assert.rejects(running, /enough/);
}

describe('while it waits', () => {
  test('A68 A76 an answer is on record before the run goes on', async () => {
    const journal = arrayJournal();
    let before;
    const runtime = {
      run: async () => waits(),
      resume: async () => {
        before = journal.records.map(({ kind }) => kind);
        return done('done');
      },
    };
    const lease = await open(runtime, { journal: () => journal });
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    await lease.session.resumeTurn(again('a2'), yes(outcome), execution());
    assert.deepEqual(before, ['execution-start', 'answer']);
    const { requestId, responseId, approved, reason, executionId } = journal.records[1];
    assert.deepEqual(
      [requestId, responseId, approved, reason, executionId],
      [outcome.requests[0].id, 'yes', true, 'go on', 'a1'],
    );
    await lease.release();
  });

  test('A71 K10 a resume that fails leaves the wait, its records and its state as they were', async () => {
    const seen = [];
    const runtime = {
      run: async () => waits({ deep: { at: 1 } }),
      resume: async (state) => {
        seen.push(structuredClone(state));
        state.deep.at = 2;
        if (seen.length === 1) throw new Error('no model today');
        return done('done');
      },
    };
    const lease = await open(runtime);
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    const checkpoint = await lease.session.checkpoint();
    await assert.rejects(lease.session.resumeTurn(again('a2'), yes(outcome), execution()), /no model today/);
    assert.deepEqual(await lease.session.checkpoint(), checkpoint);
    assert.equal((await lease.session.resumeTurn(again('a3'), yes(outcome), execution())).content, 'done');
    assert.deepEqual(seen, [{ deep: { at: 1 } }, { deep: { at: 1 } }]);
    await lease.release();
  });

  test('K7 two leases from one checkpoint: the wait is answered by the one that has the name', async () => {
    const runtime = () => ({ run: async () => waits(), resume: async () => done('done') });
    const first = await open(runtime());
    const outcome = await first.session.runTurn(turn('a1'), execution());
    const checkpoint = await first.session.checkpoint();
    const second = await open(runtime(), { checkpoint });
    const reused = { code: 'resource-reused', message: /is open already/ };
    await assert.rejects(first.session.resumeTurn(again('a2'), yes(outcome), execution()), reused);
    assert.equal((await second.session.resumeTurn(again('a3'), yes(outcome), execution())).content, 'done');
    await Promise.all([first.release(), second.release()]);
  });

  test('A71 a turn of the same attempt id is busy while the first runs, and leaves its records', async () => {
    const end = deferred();
    const lease = await open({ run: () => end.promise, resume: async () => done('done') });
    const first = lease.session.runTurn(turn('a1'), execution());
    await settle();
    await assert.rejects(lease.session.runTurn(turn('a1'), execution()), { code: 'busy' });
    end.resolve(waits());
    const outcome = await first;
    assert.equal((await lease.session.resumeTurn(again('a2'), yes(outcome), execution())).content, 'done');
    await lease.release();
  });

  test('A69 a second answer is busy while the first is on its way, and no effect is made twice', async () => {
    const journal = arrayJournal();
    const { read } = journal;
    const slow = deferred();
    let ran = 0;
    const runtime = {
      run: async () => waits(),
      resume: async (_state, [decision], context) => done(`run ${await context.toolCall(decision, () => ++ran)}`),
    };
    const lease = await open(runtime, { journal: () => journal });
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    let reads = 0;
    journal.read = async (id) => {
      const found = await read(id);
      if (reads++ === 1) await slow.promise;
      return found;
    };
    const first = lease.session.resumeTurn(again('a2'), yes(outcome), execution());
    const second = lease.session.resumeTurn(again('a3'), yes(outcome), execution());
    await assert.rejects(second, { code: 'busy' });
    assert.equal((await first).content, 'run 1');
    slow.resolve();
    assert.equal(ran, 1);
    await lease.release();
  });

  test('A76 the conversation’s own journal is used where it is durable', async () => {
    for (const durable of [true, false]) {
      const own = Object.assign(arrayJournal(), { durable });
      const options = () => execution({ services: { ...services(), journal: own } });
      const lease = await open({ run: async () => waits(), resume: async () => done('done') });
      const outcome = await lease.session.runTurn(turn('a1'), options());
      assert.equal(own.records.length, durable ? 1 : 0);
      assert.equal((await lease.session.resumeTurn(again('a2'), yes(outcome), options())).content, 'done');
      await lease.release();
    }
  });
});

describe('when it is stopped', () => {
  test('K10 an abort when the run is over takes nothing back', async () => {
    const results = [done('done', [{ item: 1 }]), waits()];
    for (const result of results) {
      const controller = new AbortController();
      const run = async (_, context) => {
        void context.onDelta('text');
        return result;
      };
      const lease = await open({ run, resume: async () => done('x') });
      const options = execution({ signal: controller.signal, onDelta: never });
      const running = lease.session.runTurn(turn('a1'), options);
      await settle();
      controller.abort(new Error('enough'));
      const outcome = await running;
      assert.equal(outcome.kind, result === results[0] ? 'speak' : 'wait');
      const { data, append } = await lease.session.checkpoint();
      assert.deepEqual([data.firstTurnDone, data.pending !== null], [true, outcome.kind === 'wait']);
      assert.deepEqual(append, outcome.kind === 'wait' ? [] : [{ item: 1 }]);
      if (outcome.kind === 'wait')
        assert.equal((await lease.session.resumeTurn(again('a2'), yes(outcome), execution())).content, 'x');
      await lease.release();
    }
  });

  test('K10 an observer that fails when the run is over leaves neither a wait nor a history', async () => {
    for (const result of [done('done', [{ item: 1 }]), waits()]) {
      const gate = deferred();
      const run = async (_, context) => {
        void context.onDelta('text');
        return result;
      };
      const lease = await open({ run, resume: async () => done('x') });
      const running = lease.session.runTurn(turn('a1'), execution({ onDelta: () => gate.promise }));
      await settle();
      gate.reject(new Error('observer'));
      await assert.rejects(running, /observer/);
      const { data, append } = await lease.session.checkpoint();
      assert.deepEqual([data.pending, data.firstTurnDone, append], [null, false, []]);
      await lease.release();
    }
  });

  test('C32 what tools came to is used by the attempt that goes on, each call’s own', async () => {
    const controller = new AbortController();
    const effects = [];
    const reached = deferred();
    const calls = (context) =>
      Promise.all(['t1', 't2'].map((id) => context.toolCall(write(id), () => `effect ${effects.push(id)}`)));
    const first = await open(async (_, context) => {
      await calls(context);
      reached.resolve();
      return never();
    });
    const running = first.session.runTurn(turn('a1'), execution({ signal: controller.signal }));
    await stopped(running, controller, reached.promise);
    await first.release();
    const lease = await open(async (_, context) => done((await calls(context)).join()));
    assert.equal((await lease.session.runTurn(goesOn('a2'), execution())).content, 'effect 1,effect 2');
    assert.deepEqual(effects, ['t1', 't2']);
    await lease.release();
  });

  test('C32 a tool that runs when its run gives up at once is waited for, and its result is used', async () => {
    const controller = new AbortController();
    const [began, finish] = [deferred(), deferred()];
    let ran = 0;
    const first = await open((_, context) => {
      void context
        .toolCall(write(), () => {
          ran++;
          began.resolve();
          return finish.promise;
        })
        .catch(() => undefined);
      return new Promise((_resolve, reject) => context.signal.addEventListener('abort', () => reject(new Error('me'))));
    });
    const running = first.session.runTurn(turn('a1'), execution({ signal: controller.signal }));
    let over = false;
    void running.catch(() => (over = true));
    await began.promise;
    controller.abort(new Error('enough'));
    await settle();
    assert.equal(over, false);
    finish.resolve('written');
    await assert.rejects(running, /enough/);
    await first.release();
    const lease = await open(async (_, context) => done(await context.toolCall(write(), () => ran++)));
    assert.equal((await lease.session.runTurn(goesOn('a2'), execution())).content, 'written');
    assert.equal(ran, 1);
    await lease.release();
  });

  for (const ends of ['abort', 'release']) {
    test(`C49 a tool that outlasted its turn stays unknown until the host says retry (${ends})`, async () => {
      const controller = new AbortController();
      const began = deferred();
      const hang = (_, context) =>
        context.toolCall(write(), () => {
          began.resolve();
          return never();
        });
      // Where it is stopped first, the release does not give it its time once more.
      const first = await open(hang, { settleTimeoutMs: ends === 'abort' ? 2 ** 31 - 1 : 20 });
      const running = first.session.runTurn(turn('a1'), execution({ signal: controller.signal }));
      void running.catch(() => undefined);
      await began.promise;
      if (ends === 'abort') controller.abort(new Error('enough'));
      await first.release();
      await assert.rejects(running, ends === 'abort' ? /enough/ : { code: 'disposed' });
      let ran = 0;
      const lease = await open(async (_, context) => done(await context.toolCall(write(), () => `run ${++ran}`)));
      await assert.rejects(lease.session.runTurn(goesOn('a2'), execution()), unknown);
      await assert.rejects(lease.session.runTurn(goesOn('a3'), execution()), unknown, 'asking does not make it known');
      assert.equal(ran, 0);
      const { content } = await lease.session.runTurn(goesOn('a4', { reconciled: 'retry' }), execution());
      assert.deepEqual([content, ran], ['run 1', 1]);
      await lease.release();
    });
  }

  test('A62 a journal that is never done reading ends with the abort, and the wait stays', async () => {
    const journal = arrayJournal();
    const { read } = journal;
    const lease = await open(
      { run: async () => waits(), resume: async () => done('done') },
      { journal: () => journal },
    );
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    const controller = new AbortController();
    journal.read = never;
    const running = lease.session.resumeTurn(again('a2'), yes(outcome), execution({ signal: controller.signal }));
    await stopped(running, controller, settle());
    journal.read = read;
    assert.equal((await lease.session.resumeTurn(again('a3'), yes(outcome), execution())).content, 'done');
    journal.read = never;
    const next = new AbortController();
    const retried = lease.session.runTurn(goesOn('a4'), execution({ signal: next.signal }));
    await stopped(retried, next, settle());
    await lease.release();
  });

  test('A71 an attempt id that is used again finds nothing of a turn that was stopped', async () => {
    const controller = new AbortController();
    const first = await open(never);
    const running = first.session.runTurn(turn('a1', [['ana', 'one']]), execution({ signal: controller.signal }));
    await stopped(running, controller, settle());
    await first.release();
    const lease = await open(async () => done('done'));
    assert.equal((await lease.session.runTurn(turn('a1', [['ana', 'two']]), execution())).content, 'done');
    await lease.release();
  });

  test('K8 a release waits for the turn that runs, and disposes of the runtime after it', async () => {
    const order = [];
    const end = deferred();
    const lease = await open({ run: () => end.promise, dispose: () => void order.push('disposed') });
    const running = lease.session.runTurn(turn('a1'), execution()).then(() => order.push('over'));
    await settle();
    const releasing = lease.release();
    await settle();
    assert.deepEqual(order, []);
    end.resolve(done('done'));
    await Promise.all([running, releasing]);
    assert.deepEqual(order, ['over', 'disposed']);
  });

  test('A48 a tool does not run before its intent is on record, nor where it is refused', async () => {
    const journal = arrayJournal();
    const full = deferred();
    const { append } = journal;
    journal.append = (record) => (record.kind === 'tool-intent' ? full.promise : append(record));
    let ran = 0;
    const lease = await open(async (_, context) => done(String(await context.toolCall(write(), () => ++ran))), {
      journal: () => journal,
    });
    const running = lease.session.runTurn(turn('a1'), execution());
    void running.catch(() => undefined);
    await settle();
    assert.equal(ran, 0);
    full.reject(new Error('full'));
    await assert.rejects(running, { code: 'EXECUTION_JOURNAL_FAILED' });
    assert.equal(ran, 0);
    await lease.release();
  });
});
