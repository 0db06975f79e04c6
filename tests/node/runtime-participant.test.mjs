// runtimeParticipant: what any agent SDK gets from its session. tests/sdk has a real one.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { deferred, execution, services, settle, turn, unhandled } from './support/agent.mjs';
import { action, done, open, runOnce, waits } from './support/runtime.mjs';

const call = { providerId: 'sdk', modelId: 'm' };
const asks = action('t1', 'write', { path: 'a' });
const usage = () => ({ inputTokens: 2, outputTokens: 1, usageProvenance: 'complete' });

describe('a turn', () => {
  test('A1 A60 the runtime is given the rendered increment, the purpose once, and its history', async () => {
    const seen = [];
    const lease = await open(async (input, { history }) => {
      seen.push([input, [...history]]);
      return done('ok', [{ user: input }, { assistant: 'ok' }]);
    });
    await lease.session.runTurn(turn('a1', [['ana', 'one']], 'plan'), execution());
    await lease.session.runTurn(turn('a2', [['ana', 'two']], 'plan'), execution());
    const first = 'Purpose: plan\n\n### From ana\n> one';
    assert.deepEqual(seen, [
      [first, []],
      ['### From ana\n> two', [{ user: first }, { assistant: 'ok' }]],
    ]);
    await lease.release();
  });

  test('A8 A9 A10 text is spoken trimmed; none or a blank yields', async () => {
    assert.deepEqual(await runOnce(async () => done(' hello \n')), { kind: 'speak', content: 'hello' });
    assert.deepEqual(await runOnce(async () => done(null)), { kind: 'yield' });
    assert.deepEqual(await runOnce(async () => done(' \ufeff')), { kind: 'yield' });
  });

  test('A47 A49 a model call is admitted, made and reported; its id derives from the attempt', async () => {
    const noted = services();
    const run = async (_, context) => done(await context.modelCall(call, () => 'hi', usage));
    assert.deepEqual(await runOnce(run, { services: noted }), { kind: 'speak', content: 'hi' });
    assert.deepEqual(noted.log, [
      ['admit', { callId: 'a1:call:1', ...call }],
      [
        'report',
        {
          callId: 'a1:call:1',
          outcome: 'completed',
          provenance: 'reported',
          tokens: { input: 2, output: 1 },
          final: true,
        },
      ],
    ]);
  });

  test('A48 A66 a refused admission calls nothing and fails the turn, even where the runtime goes on', async () => {
    const spent = Object.assign(new Error('spent'), { code: 'model-call-limit' });
    let called = 0;
    const run = async (_, context) => {
      await context.modelCall(call, () => called++).catch(() => undefined);
      return done('never mind');
    };
    const refusing = services({ admit: () => Promise.reject(spent) });
    await assert.rejects(runOnce(run, { services: refusing }), { code: 'EXECUTION_JOURNAL_FAILED', cause: spent });
    assert.equal(called, 0);
  });

  test('A50 a failing call is reported failed and its error passes through', async () => {
    const broken = new Error('503');
    const noted = services();
    const run = (_, context) => context.modelCall(call, () => Promise.reject(broken));
    await assert.rejects(runOnce(run, { services: noted }), (error) => error === broken);
    assert.deepEqual(
      noted.reports.map((r) => r.outcome),
      ['failed'],
    );
  });

  test('A49 a streamed call is reported by its last event, and as failed where it is left or breaks', async () => {
    const noted = services();
    async function* events(...list) {
      for (const event of list) {
        if (event instanceof Error) throw event;
        yield event;
      }
    }
    const seen = [];
    const run = async (_, context) => {
      for await (const event of context.modelStream(call, () => events('a', 'b'), usage)) seen.push(event);
      for await (const _event of context.modelStream(call, () => events('a', 'b'))) break;
      await assert.rejects(async () => {
        for await (const _event of context.modelStream(call, () => events(new Error('cut'))));
      }, /cut/);
      return done(seen.join(''));
    };
    assert.equal((await runOnce(run, { services: noted })).content, 'ab');
    assert.deepEqual(
      noted.reports.map((r) => r.outcome),
      ['completed', 'failed', 'failed'],
    );
  });

  test('A11 A12 A61 streamed text arrives in order before the outcome', async () => {
    const log = [];
    const onDelta = async (text) => {
      await settle();
      log.push(text);
    };
    const run = async (_, context) => {
      void context.onDelta('1');
      void context.onDelta('2');
      return done('x');
    };
    await runOnce(run, { onDelta });
    assert.deepEqual(log, ['1', '2']);
  });

  test('A13 K9 K10 a sink that fails stops the run, fails the turn and leaves no trace', async () => {
    const broken = new Error('sink');
    let signal;
    const lease = await open(async (_, context) => {
      ({ signal } = context);
      void context.onDelta('x');
      return done('x', [{ item: 1 }]);
    });
    const onDelta = () => Promise.reject(broken);
    await assert.rejects(lease.session.runTurn(turn(), execution({ onDelta })), (error) => error === broken);
    assert.equal(signal.aborted, true);
    const { data, append } = await lease.session.checkpoint();
    assert.deepEqual([data.firstTurnDone, append], [false, []]);
    await lease.release();
  });

  test('A62 an abort ends a turn whose runtime never returns; what comes later is nowhere', async () => {
    const controller = new AbortController();
    const late = deferred();
    const lease = await open(() => late.promise);
    const seen = await unhandled(async () => {
      const running = lease.session.runTurn(turn(), execution({ signal: controller.signal }));
      await settle();
      controller.abort(new Error('stop'));
      await assert.rejects(running, /stop/);
      late.resolve(done('late', [{ late: true }]));
    });
    assert.deepEqual(seen, []);
    assert.deepEqual((await lease.session.checkpoint()).append, []);
    await lease.release();
  });

  test('A63 A85 a runtime that resolves with what it has when it is stopped says nothing', async () => {
    const controller = new AbortController();
    const run = (_, { signal }) =>
      new Promise((resolve) => signal.addEventListener('abort', () => resolve(done('partial'))));
    const running = runOnce(run, { signal: controller.signal });
    await settle();
    controller.abort(new Error('stop'));
    await assert.rejects(running, /stop/);
  });

  test('K3 aborted during the admission: no call, and the reservation is settled', async () => {
    const controller = new AbortController();
    const noted = services({ admit: () => controller.abort(new Error('stop')) });
    let called = 0;
    const run = (_, context) => context.modelCall(call, () => called++);
    await assert.rejects(runOnce(run, { signal: controller.signal, services: noted }), /stop/);
    await settle();
    assert.equal(called, 0);
    assert.deepEqual(
      noted.reports.map((r) => r.outcome),
      ['cancelled'],
    );
  });

  test('what is streamed and is no text fails the turn by name, whatever the runtime makes of it', async () => {
    for (const bad of [5, {}, ['x']]) {
      const message = /onDelta: text must be a string, not a/;
      for (const run of [
        async (_, context) => void context.onDelta(bad) ?? done('x'),
        async (_, context) => context.onDelta(bad).catch(() => done('x')),
        async (_, context) => done(await context.onDelta(bad)),
      ]) {
        const seen = await unhandled(() => assert.rejects(runOnce(run), { code: 'EXECUTION_REPLY_INVALID', message }));
        assert.deepEqual(seen, []);
      }
    }
    const options = execution();
    const lease = await open(async (_, context) => {
      for (const part of [undefined, 'x', null]) await context.onDelta(part);
      return done('x');
    });
    await lease.session.runTurn(turn(), options);
    assert.deepEqual(options.deltas, ['x']);
    await lease.release();
  });

  test('a result that is none names what is wrong', async () => {
    for (const [result, message] of [
      [undefined, /result must be a plain object/],
      [{ finalOutput: 7, newItems: [] }, /result\.finalOutput/],
      [{ finalOutput: 'x' }, /result\.newItems/],
      [done('x', [new Date()]), /result\.newItems\[0\]/],
      [waits([{ toolCallId: '', toolName: 'x' }], {}), /result\.interruptions\[0\]\.toolCallId/],
      [{ interruptions: [], state: 1 }, /result\.interruptions is empty/],
      [{ interruptions: [asks] }, /result\.state/],
      [waits(Array(65).fill(asks), {}), /result\.interruptions has 65 elements, more than 64/],
      [waits(Array(300).fill(asks), {}), /result\.interruptions has 300 elements, more than 64/],
    ]) {
      const runtime = { run: async () => result, resume: async () => done('x') };
      await assert.rejects(runOnce(runtime), { code: 'EXECUTION_REPLY_INVALID', message });
    }
  });

  test('a second turn while one runs is busy, and one after the release is refused', async () => {
    const end = deferred();
    const lease = await open(() => end.promise);
    const running = lease.session.runTurn(turn(), execution());
    await assert.rejects(lease.session.runTurn(turn('a2'), execution()), { code: 'busy' });
    end.resolve(done('x'));
    await running;
    await lease.release();
    await assert.rejects(lease.session.runTurn(turn('a3'), execution()), { code: 'disposed' });
  });
});

describe('its checkpoint', () => {
  const settledOf = async (options) => {
    const lease = await open({ run: async () => done('x', [{ n: 1 }]), environment: 'model-1' }, options);
    await lease.session.runTurn(turn('a1'), execution());
    const checkpoint = await lease.session.checkpoint();
    await lease.release();
    return checkpoint;
  };

  test('A75 A77 is restored equal, under a declared version, and holds what the turn added', async () => {
    const checkpoint = await settledOf();
    assert.deepEqual(checkpoint.append, [{ n: 1 }]);
    const seen = [];
    const runtime = {
      run: async (_, { history }) => {
        seen.push([...history]);
        return done('y', [{ n: 2 }]);
      },
      environment: 'model-1',
    };
    const lease = await open(runtime, { checkpoint });
    assert.ok(lease.factory.checkpointVersions.includes(checkpoint.version));
    assert.deepEqual(await lease.session.checkpoint(), { ...checkpoint, append: [] });
    await lease.session.runTurn(turn('a2'), execution());
    assert.deepEqual(seen, [[{ n: 1 }]]);
    assert.deepEqual((await lease.session.checkpoint()).append, [{ n: 2 }]);
    await lease.release();
  });

  test('A38 A39 A75 K11 what does not fit is refused, named, and everything is disposed of', async () => {
    const checkpoint = await settledOf();
    let disposed = 0;
    const runtime = { run: async () => done('x'), environment: 'model-1', dispose: () => void disposed++ };
    const data = (change) => ({ checkpoint: { ...checkpoint, data: { ...checkpoint.data, ...change } } });
    const cases = [
      [{ checkpoint: { ...checkpoint, version: 'runtime/2' } }, /version/],
      [{ checkpoint, conversationId: 'other' }, /sessionId/],
      [data({ environment: 'model-2' }), /environment/],
      [data({ firstTurnDone: 1 }), /firstTurnDone/],
      [data({ sessionId: '' }), /sessionId/],
      [data({ pending: 7 }), /data\.pending/],
      [data({ pending: { executionId: 'e', requests: [], state: 1 } }), /data\.pending/],
      [data({ pending: { executionId: 'e', requests: [{ id: 'r' }], state: 1 } }), /requests\[0\]/],
    ];
    for (const [options, message] of cases)
      await assert.rejects(open(runtime, options), { code: 'checkpoint-invalid', message });
    assert.equal(disposed, cases.length);
    await (await open(runtime, { checkpoint })).release();
  });

  test('a fork takes over a settled history, under a session of its own', async () => {
    const checkpoint = await settledOf();
    const forkedFrom = { conversationId: 'c', revision: 3 };
    const runtime = { run: async () => done('x'), environment: 'model-1' };
    const lease = await open(runtime, { checkpoint, forkedFrom, conversationId: 'd' });
    assert.notEqual((await lease.session.checkpoint()).data.sessionId, checkpoint.data.sessionId);
    await lease.release();
  });
});

describe('its lease', () => {
  test('A16 A17 A59 A64 K7 K8 runtime, resources and session are held until dispose has finished', async () => {
    const client = { name: 'client' };
    const closing = deferred();
    let disposed = 0;
    const dispose = async () => {
      disposed++;
      await closing.promise;
    };
    const runtime = { run: async () => done('x'), resources: [client], dispose };
    const lease = await open(runtime);
    const elsewhere = { conversationId: 'd' };
    const reused = { code: 'resource-reused' };
    await assert.rejects(open(runtime, elsewhere), reused);
    await assert.rejects(open({ run: runtime.run, resources: [client] }, elsewhere), { ...reused, message: /client/ });
    await assert.rejects(open({ run: runtime.run }), reused, 'the same session');
    assert.equal(disposed, 0, 'a refused claim disposes of nothing');
    const releasing = Promise.all([lease.release(), lease.release()]);
    await settle();
    await assert.rejects(open({ run: runtime.run, resources: [client] }, elsewhere), reused);
    closing.resolve();
    await releasing;
    assert.equal(disposed, 1);
    await (await open({ run: runtime.run, resources: [client] }, elsewhere)).release();
  });

  test('what is no runtime is refused, naming the member', async () => {
    for (const [runtime, message] of [
      [null, /createRuntime/],
      [{}, /runtime\.run/],
      [{ run() {}, resume: 7 }, /runtime\.resume/],
      [{ run() {}, dispose: 7 }, /runtime\.dispose/],
      [{ run() {}, resources: 7 }, /runtime\.resources must be an array/],
      [{ run() {}, resources: [{}, null] }, /runtime\.resources\[1\]/],
      [{ run() {}, environment: 7 }, /runtime\.environment/],
      [{ run() {}, environment: 'x'.repeat(8193) }, /runtime\.environment/],
    ]) {
      await assert.rejects(open(runtime), { code: 'invalid-config', message });
    }
  });
});
