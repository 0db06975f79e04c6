// runtimeParticipant: what any agent SDK gets from its session. tests/sdk has a real one.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RuntimeParticipantError } from 'agent-roundtable';
import { runtimeParticipant } from 'agent-roundtable/runtime';
import { deferred, execution, services, settle, turn, unhandled } from './support/agent.mjs';

const call = { providerId: 'sdk', modelId: 'm' };
const usage = () => ({ inputTokens: 2, outputTokens: 1, usageProvenance: 'complete' });
const done = (finalOutput, newItems = []) => ({ finalOutput, newItems });
const asks = { toolCallId: 't1', toolName: 'write', arguments: { path: 'a' } };
const waits = (state = { at: 1 }, ...interruptions) => ({
  interruptions: interruptions.length > 0 ? interruptions : [asks],
  state,
});

/** Opens a session over a runtime: an object, or just its `run`. */
async function open(runtime, { checkpoint, forkedFrom, conversationId = 'c', ...options } = {}) {
  const made = typeof runtime === 'function' ? { run: runtime } : runtime;
  const { factory } = runtimeParticipant({
    id: 'bot',
    runtime: { id: 'sdk', version: '1' },
    createRuntime: () => made,
    ...options,
  });
  const lease = await factory.openSession({ conversationId, participantId: 'bot', checkpoint, forkedFrom });
  return { ...lease, factory };
}

/** Runs one turn in a session of its own. */
async function runOnce(runtime, overrides, options) {
  const lease = await open(runtime, options);
  try {
    return await lease.session.runTurn(turn(), execution(overrides));
  } finally {
    await lease.release();
  }
}

/** Answers to a wait of the turn of `turn('a1')`. */
const answers = ({ requests }, response = { approved: true }, change = {}) =>
  requests.map((request) => ({
    request: { ...request, participantId: 'bot', memberId: 'bot', groupId: 'g', turnId: 'turn-of-a1', ...change },
    responseId: `answer to ${request.id}`,
    response: { kind: 'approval', ...response },
  }));

/** Another attempt of the same turn. */
const again = (attemptId) => ({ ...turn('a1'), attemptId });

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
      [waits({}, { toolCallId: '', toolName: 'x' }), /result\.interruptions\[0\]\.toolCallId/],
      [{ interruptions: [], state: 1 }, /result\.interruptions is empty/],
      [{ interruptions: [asks] }, /result\.state/],
      [waits({}, ...Array(65).fill(asks)), /result\.interruptions has 65 elements, more than 64/],
      [waits({}, ...Array(300).fill(asks)), /result\.interruptions has 300 elements, more than 64/],
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

describe('an approval', () => {
  /** A runtime that asks once; `resumed` has what it was continued with. */
  function asking(result = done('done', [{ whole: 'turn' }])) {
    const resumed = [];
    return {
      resumed,
      run: async () => waits({ deep: { at: 1 } }),
      resume: async (state, decisions, context) => {
        resumed.push({ state, decisions });
        return typeof result === 'function' ? result(state, decisions, context) : result;
      },
    };
  }

  test('A68 A69 A70 it waits with the identity of the action, and goes on from its state with the decision', async () => {
    for (const response of [{ approved: true }, { approved: false, reason: 'no' }]) {
      const runtime = asking();
      const lease = await open(runtime);
      const outcome = await lease.session.runTurn(turn('a1'), execution());
      assert.equal(outcome.kind, 'wait');
      const [{ kind, data }] = outcome.requests;
      assert.equal(kind, 'approval');
      const { executionId, toolCallId, toolName } = data;
      assert.deepEqual([executionId, toolCallId, toolName, data.arguments], ['a1', 't1', 'write', { path: 'a' }]);
      assert.deepEqual(Object.keys(data).sort(), [
        'actionId',
        'arguments',
        'executionId',
        'parentCallId',
        'toolCallId',
        'toolName',
      ]);
      const end = await lease.session.resumeTurn(again('a2'), answers(outcome, response), execution());
      assert.deepEqual(end, { kind: 'speak', content: 'done' });
      assert.deepEqual(runtime.resumed, [{ state: { deep: { at: 1 } }, decisions: [{ ...asks, ...response }] }]);
      await lease.release();
    }
  });

  test('A72 K5 answers are matched on turn, group, member, request, kind and data, each once, all of them', async () => {
    const runtime = asking();
    const lease = await open(runtime);
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    const fitting = answers(outcome);
    const [one] = fitting;
    const bad = [
      [],
      [one, one],
      answers(outcome, { approved: true }, { turnId: 'other' }),
      answers(outcome, { approved: true }, { groupId: 'other' }),
      answers(outcome, { approved: true }, { memberId: 'other' }),
      answers(outcome, { approved: true }, { id: 'other' }),
      answers(outcome, { approved: true }, { kind: 'input' }),
      answers(outcome, { approved: true }, { data: { ...one.request.data, arguments: { path: 'b' } } }),
      answers(outcome, { kind: 'reconciliation', data: 1 }),
      answers(outcome, {}),
    ];
    for (const responses of bad) {
      await assert.rejects(
        lease.session.resumeTurn(again('a2'), responses, execution()),
        (error) => error instanceof RuntimeParticipantError && error.code === 'identity-mismatch',
        JSON.stringify(responses),
      );
    }
    assert.equal(runtime.resumed.length, 0);
    assert.equal((await lease.session.resumeTurn(again('a2'), fitting, execution())).kind, 'speak');
    await assert.rejects(lease.session.resumeTurn(again('a3'), fitting, execution()), { code: 'identity-mismatch' });
    await lease.release();
  });

  test('A76 A71 a parked checkpoint is taken over in the same process; settled, nothing is left of it', async () => {
    const lease = await open(asking());
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    const checkpoint = JSON.parse(JSON.stringify(await lease.session.checkpoint()));
    assert.deepEqual(checkpoint.append, []);
    await lease.release();
    const restored = await open(asking(), { checkpoint });
    assert.equal((await restored.session.resumeTurn(again('a2'), answers(outcome), execution())).content, 'done');
    const settled = await restored.session.checkpoint();
    assert.deepEqual([settled.data.pending, settled.append], [null, [{ whole: 'turn' }]]);
    await restored.release();
    const late = await open(asking(), { checkpoint });
    await assert.rejects(late.session.resumeTurn(again('a3'), answers(outcome), execution()), {
      code: 'journal-missing',
    });
    await late.release();
  });

  test('A74 a journal that knows nothing of the execution', async () => {
    const lease = await open(asking(), { journal: () => ({ append: async () => {}, read: async () => [] }) });
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    await assert.rejects(lease.session.resumeTurn(again('a2'), answers(outcome), execution()), {
      code: 'journal-missing',
    });
    await lease.release();
  });

  test('K6 no other turn starts while one waits', async () => {
    const lease = await open(asking());
    await lease.session.runTurn(turn('a1'), execution());
    await assert.rejects(lease.session.runTurn(turn('a2'), execution()), { code: 'EXECUTION_RECOVERY_REQUIRED' });
    await lease.release();
  });

  test('it may wait again, with requests of its own', async () => {
    const results = [waits({ at: 2 }), done('done')];
    const lease = await open({ run: async () => waits(), resume: async () => results.shift() });
    const first = await lease.session.runTurn(turn('a1'), execution());
    const second = await lease.session.resumeTurn(again('a2'), answers(first), execution());
    assert.equal(second.kind, 'wait');
    assert.notEqual(second.requests[0].id, first.requests[0].id);
    assert.equal(second.requests[0].data.executionId, 'a1');
    assert.equal((await lease.session.resumeTurn(again('a3'), answers(second), execution())).content, 'done');
    await lease.release();
  });

  test('A83 a runtime without resume cannot wait', async () => {
    await assert.rejects(
      runOnce(async () => waits()),
      { code: 'unsupported-wait' },
    );
  });

  test('a continued attempt that is stopped and goes on makes no effect twice', async () => {
    const effects = [];
    const runtime = asking(async (_state, [decision], context) => {
      await context.toolCall(decision, () => effects.push(decision.arguments.path));
      return done(await context.modelCall(call, () => 'end'));
    });
    const lease = await open(runtime);
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    const controller = new AbortController();
    const noted = services({ admit: () => controller.abort(new Error('stop')) });
    const stopped = execution({ signal: controller.signal, services: noted });
    await assert.rejects(lease.session.resumeTurn(again('a2'), answers(outcome), stopped), /stop/);
    assert.equal((await lease.session.resumeTurn(again('a3'), answers(outcome), execution())).content, 'end');
    assert.deepEqual(effects, ['a']);
    await lease.release();
  });

  test('an effect that was started and has no result is not made again', async () => {
    let started = 0;
    const never = new Promise(() => {});
    const runtime = asking((_state, [decision], context) =>
      context.toolCall(decision, () => {
        started++;
        return never;
      }),
    );
    const lease = await open(runtime, { settleTimeoutMs: 20 });
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    const controller = new AbortController();
    const resuming = lease.session.resumeTurn(again('a2'), answers(outcome), execution({ signal: controller.signal }));
    await settle();
    controller.abort(new Error('stop'));
    await assert.rejects(resuming, /stop/, 'a tool that never ends is not waited for for ever');
    await assert.rejects(lease.session.resumeTurn(again('a3'), answers(outcome), execution()), {
      code: 'EXECUTION_RECOVERY_REQUIRED',
    });
    assert.equal(started, 1);
    await lease.release();
  });

  test('a tool that was stopped before it ran is run by the attempt that goes on; one that failed fails alike', async () => {
    const controller = new AbortController();
    const records = [];
    const journal = {
      append: async (record) => {
        records.push(record);
        if (record.kind === 'tool-intent' && !controller.signal.aborted) controller.abort(new Error('stop'));
      },
      read: async (executionId) => records.filter((record) => record.executionId === executionId),
    };
    let ran = 0;
    const runtime = asking(async (_state, [decision], context) => {
      const failed = await context
        .toolCall(decision, () => {
          ran++;
          throw new Error('disk full');
        })
        .catch((error) => error.message);
      return done(failed);
    });
    const lease = await open(runtime, { journal: () => journal });
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    const stopped = execution({ signal: controller.signal });
    await assert.rejects(lease.session.resumeTurn(again('a2'), answers(outcome), stopped), /stop/);
    await settle();
    assert.equal(ran, 0);
    assert.equal((await lease.session.resumeTurn(again('a3'), answers(outcome), execution())).content, 'disk full');
    assert.equal(ran, 1);
    const keys = records.filter((r) => r.kind === 'tool-intent').map((r) => r.idempotencyKey);
    assert.equal(new Set(keys).size, 1, 'a retried attempt repeats the key');
    await lease.release();
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
