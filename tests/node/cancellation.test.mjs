// Stopping a run: nothing that settled is lost, what did not settle runs again, and nothing hangs.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  agent,
  approval,
  barrier,
  conversation,
  decisions,
  deferred,
  journal,
  parallel,
  rejects,
  speak,
  speaker,
  transcript,
  waiter,
  waits,
} from './support/conversations.mjs';
import { stubborn, until } from './support/stubborn.mjs';

const kinds = async (roundtable) => (await journal(roundtable)).map(([kind]) => kind);
/** Runs, aborts when `when` resolves, and gives the result. */
async function cancelled(roundtable, when, reason) {
  const controller = new AbortController();
  const run = roundtable.run({ signal: controller.signal });
  await when;
  controller.abort(reason);
  return run;
}

describe('C31 the run ends, never the conversation', () => {
  test('C31 aborted before it began: nothing is dispatched', async () => {
    const a = agent('a', () => assert.fail('dispatched'));
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    const result = await roundtable.run({ signal: AbortSignal.abort() });
    assert.equal(result.status, 'cancelled');
    assert.equal(result.revision, roundtable.snapshot().revision);
    assert.deepEqual(a.calls, []);
  });

  test('C31 aborted while a turn runs: the next run retries it with a new attempt id', async () => {
    const a = stubborn('a', 2);
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    assert.equal((await cancelled(roundtable, a.started[0].promise)).status, 'cancelled');
    assert.equal((await cancelled(roundtable, a.started[1].promise)).status, 'cancelled');
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: a at last']);
    assert.equal(new Set(a.attempts.map(({ turnId }) => turnId)).size, 1);
    assert.equal(new Set(a.attempts.map(({ attemptId }) => attemptId)).size, 3);
    const stopped = roundtable.events.filter(({ type }) => type === 'turn-stopped');
    assert.deepEqual(
      stopped.map(({ reason, attemptId }) => [reason, attemptId]),
      a.attempts.slice(0, 2).map(({ attemptId }) => ['cancelled', attemptId]),
    );
  });

  test('C31 aborted in every phase: no result is lost and every turn happens once', async () => {
    const phases = ['create', 'claim', 'read', 'append', 'openSession', 'select', 'runTurn', 'checkpoint', 'onEvent'];
    for (const phase of phases) {
      const controller = new AbortController();
      let armed = true;
      const at = (name) => {
        if (name !== phase || !armed) return;
        armed = false;
        controller.abort();
      };
      let turns = 0;
      const session = {
        async runTurn(_turn, { signal }) {
          at('runTurn');
          signal.throwIfAborted();
          turns += 1;
          return { kind: 'speak', content: 'once' };
        },
        async checkpoint() {
          at('checkpoint');
          return { version: 'v1', data: turns };
        },
      };
      const factory = {
        checkpointVersions: ['v1'],
        async openSession() {
          at('openSession');
          return { session, release: async () => {} };
        },
      };
      const selector = decisions(() => {
        at('select');
        return speak('a');
      });
      const roundtable = conversation([agent('a', {}, factory)], { selector, onEvent: () => at('onEvent') });
      for (const name of ['create', 'claim', 'read', 'append']) {
        const call = roundtable.store[name].bind(roundtable.store);
        roundtable.store[name] = async (...args) => {
          at(name);
          return call(...args);
        };
      }
      // The store's functions were taken when the conversation was made.
      const again = conversation([agent('a', {}, factory)], {
        selector,
        store: roundtable.store,
        onEvent: () => at('onEvent'),
      });
      const first = await again.run({ signal: controller.signal });
      assert.ok(!armed, `${phase} was reached`);
      assert.equal(first.status, 'cancelled', phase);
      assert.equal((await again.run()).status, 'completed', phase);
      assert.deepEqual(transcript(again), ['a: once'], phase);
      assert.equal(turns, 1, phase);
    }
  });
});

describe('C32 results and rejections after the signal', () => {
  test('C32 a result returned after the abort is kept and published when its group completes', async () => {
    const started = barrier(2);
    const both = deferred();
    const stubbornly = agent('a', async (_turn, { signal }) => {
      await started();
      both.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      return { kind: 'speak', content: 'kept' };
    });
    let tries = 0;
    const b = agent('b', async (_turn, { signal }) => {
      tries += 1;
      if (tries > 1) return { kind: 'speak', content: 'second' };
      await started();
      return until(signal);
    });
    const roundtable = conversation([stubbornly, b], {
      selector: decisions(parallel('a', 'b')),
      maxConcurrentParticipants: 2,
    });
    assert.equal((await cancelled(roundtable, both.promise)).status, 'cancelled');
    assert.deepEqual(transcript(roundtable), []);
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: kept', 'b: second']);
    assert.equal(stubbornly.calls.filter(([kind]) => kind === 'open').length, 1);
  });

  const named = (name) => Object.assign(new Error(name), { name });
  const STOPS = [
    ["the signal's reason", (signal) => signal.reason],
    [
      'an error caused by the reason',
      (signal) => new Error('wrapped', { cause: new Error('twice', { cause: signal.reason }) }),
    ],
    ['an AbortError', () => named('AbortError')],
    ['a TimeoutError', () => named('TimeoutError')],
    ['an error with code ABORT_ERR', () => Object.assign(new Error('x'), { code: 'ABORT_ERR' })],
  ];
  for (const [name, error] of STOPS) {
    test(`C32 rejecting with ${name} counts as stopped`, async () => {
      const started = deferred();
      let tries = 0;
      const a = agent('a', async (_turn, { signal }) => {
        tries += 1;
        if (tries > 1) return { kind: 'yield' };
        started.resolve();
        await until(signal).catch(() => {});
        throw error(signal);
      });
      const roundtable = conversation([a], { selector: decisions(speak('a')) });
      assert.equal((await cancelled(roundtable, started.promise)).status, 'cancelled');
      assert.equal((await roundtable.run()).status, 'completed');
    });
  }

  const cyclic = new Error('round and round');
  cyclic.cause = cyclic;
  const FAILURES = [
    ['another error', () => Promise.reject(new Error('my own fault'))],
    ['a cycle of causes', () => Promise.reject(cyclic)],
    ['a returned failed', async () => ({ kind: 'failed', message: 'my own fault' })],
  ];
  for (const [name, end] of FAILURES) {
    test(`C32 ${name} after the abort is a failure, and it stays final`, async () => {
      const started = deferred();
      const a = agent('a', async (_turn, { signal }) => {
        started.resolve();
        await until(signal).catch(() => {});
        return end();
      });
      const roundtable = conversation([a], { selector: decisions(speak('a')) });
      const result = await cancelled(roundtable, started.promise);
      assert.equal(result.status, 'failed');
      assert.deepEqual(await roundtable.run(), result);
    });
  }

  test('C32 an AbortError without a fired signal is a failure', async () => {
    const a = agent('a', () => Promise.reject(named('AbortError')));
    assert.equal((await conversation([a], { selector: decisions(speak('a')) }).run()).status, 'failed');
  });

  test("the members' signals carry the reason of the run's signal", async () => {
    const reason = new Error('the user left');
    let seen;
    const a = stubborn('a', 1, 'x', {
      async runTurn(_turn, { signal }) {
        a.started[0].resolve();
        await until(signal).catch(() => {});
        seen = signal.reason;
        throw signal.reason;
      },
    });
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    assert.equal((await cancelled(roundtable, a.started[0].promise, reason)).status, 'cancelled');
    assert.equal(seen, reason);
  });

  test('C32 an attempt stopped inside resumeTurn keeps its answers', async () => {
    const started = deferred();
    const a = waiter(
      'a',
      waits(approval('q')),
      async (_turn, _responses, { signal }) => {
        started.resolve();
        return until(signal);
      },
      { kind: 'speak', content: 'approved' },
    );
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    const { revision } = await roundtable.run();
    const response = { kind: 'approval', approved: true };
    await roundtable.resume({ requestId: 'q', responseId: 'r', expectedRevision: revision, response });
    assert.equal((await cancelled(roundtable, started.promise)).status, 'cancelled');
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(a.seen[2][1], a.seen[1][1]);
    const opened = a.calls.filter(([kind]) => kind === 'open').map(([, context]) => context.checkpoint?.data);
    assert.deepEqual(opened, [undefined, { turns: 1 }], 'reopened from the parked checkpoint');
  });
});

describe('C33 retries', () => {
  test('C33 with checkpoints the session is released and a fresh one opened from the last saved one', async () => {
    const checkpoint = async () => ({ version: 'v1', data: { spoken: true } });
    const a = stubborn('a', 1, 'again', { checkpoint }, { checkpointVersions: ['v1'] });
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    await cancelled(roundtable, a.started[0].promise);
    await roundtable.run();
    assert.deepEqual(
      a.calls.map(([kind]) => kind),
      ['open', 'release', 'open'],
    );
    assert.deepEqual(a.calls[0][1], { conversationId: roundtable.id, participantId: 'a' });
  });

  test('C33 without checkpoints the live session is kept', async () => {
    const a = stubborn('a', 1);
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    await cancelled(roundtable, a.started[0].promise);
    await roundtable.run();
    assert.deepEqual(
      a.calls.map(([kind]) => kind),
      ['open'],
    );
  });

  test('C33 the fresh session gets the head with every append joined', async () => {
    let turns = 0;
    let stop = false;
    const stopped = deferred();
    const session = {
      async runTurn(_turn, { signal }) {
        if (stop) {
          stop = false;
          stopped.resolve();
          return until(signal);
        }
        turns += 1;
        return { kind: 'speak', content: `${turns}` };
      },
      checkpoint: async () => ({ version: 'v1', data: { turns }, append: [`turn ${turns}`, null] }),
    };
    const a = agent('a', session, { checkpointVersions: ['v1'] });
    const selector = decisions(speak('a'), speak('a'), () => {
      stop = true;
      return speak('a');
    });
    const roundtable = conversation([a], { selector });
    await cancelled(roundtable, stopped.promise);
    await roundtable.run();
    const restored = a.calls.filter(([kind]) => kind === 'open')[1][1].checkpoint;
    assert.deepEqual(restored, { version: 'v1', data: { turns: 2 }, append: ['turn 1', null, 'turn 2', null] });
  });
});

describe('precedence and finality', () => {
  test('completed and failed are final and repeat on every later run', async () => {
    const roundtable = conversation([speaker('a', 'x')], { selector: decisions(speak('a')) });
    const result = await roundtable.run();
    assert.equal(result.status, 'completed');
    assert.deepEqual(await roundtable.run(), result);
    assert.deepEqual(await roundtable.run({ signal: AbortSignal.abort() }), result);
    assert.equal(roundtable.snapshot().status, 'completed');
  });

  test('cancelled comes before limited turns, completed before cancelled', async () => {
    const controller = new AbortController();
    const a = agent('a', async () => {
      controller.abort();
      return { kind: 'speak', content: 'x' };
    });
    const roundtable = conversation([a], { limits: { maxTurnsPerRun: 1 } });
    assert.equal((await roundtable.run({ signal: controller.signal })).status, 'cancelled');

    const other = new AbortController();
    const select = () => {
      other.abort();
      return { kind: 'finish', reason: 'done' };
    };
    const finishing = conversation([speaker('a')], { selector: { select } });
    assert.equal((await finishing.run({ signal: other.signal })).status, 'completed');
  });

  test('waiting comes before limited turns', async () => {
    const roundtable = conversation([waiter('a', waits(approval('q')))], {
      selector: decisions(speak('a')),
      limits: { maxTurnsPerRun: 1 },
    });
    assert.equal((await roundtable.run()).status, 'waiting');
  });
});

test('C37 run, submitInput, resume and withdraw while one is active are busy', async () => {
  const started = deferred();
  const go = deferred();
  const a = agent('a', async () => {
    started.resolve();
    await go.promise;
    return { kind: 'yield' };
  });
  const roundtable = conversation([a], { selector: decisions(speak('a')) });
  const run = roundtable.run();
  await started.promise;
  const { revision } = roundtable.snapshot();
  const response = { kind: 'approval', approved: true };
  await rejects(roundtable.run(), 'busy');
  await rejects(roundtable.resume({ requestId: 'q', responseId: 'r', expectedRevision: revision, response }), 'busy');
  await rejects(roundtable.withdraw({ requestId: 'q', expectedRevision: revision, by: 'x', reason: 'y' }), 'busy');
  go.resolve();
  assert.equal((await run).status, 'completed');
  assert.ok((await kinds(roundtable)).includes('run-ended/1'));
});
