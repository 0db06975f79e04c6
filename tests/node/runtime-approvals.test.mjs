// Approvals of a foreign runtime's tools: what waits, who answers, and how the run goes on.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RuntimeParticipantError } from 'agent-roundtable';
import { execution, services, settle, turn } from './support/agent.mjs';
import { action, answers, attempt, done, open, runOnce, waits } from './support/runtime.mjs';

const call = { providerId: 'sdk', modelId: 'm' };
const asks = action('t1', 'write', { path: 'a' });

describe('an approval', () => {
  /** A runtime that asks once; `resumed` has what it was continued with. */
  function asking(result = done('done', [{ whole: 'turn' }])) {
    const resumed = [];
    return {
      resumed,
      run: async () => waits([asks], { deep: { at: 1 } }),
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
      const end = await lease.session.resumeTurn(attempt('a2'), answers(outcome, response), execution());
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
        lease.session.resumeTurn(attempt('a2'), responses, execution()),
        (error) => error instanceof RuntimeParticipantError && error.code === 'identity-mismatch',
        JSON.stringify(responses),
      );
    }
    assert.equal(runtime.resumed.length, 0);
    assert.equal((await lease.session.resumeTurn(attempt('a2'), fitting, execution())).kind, 'speak');
    await assert.rejects(lease.session.resumeTurn(attempt('a3'), fitting, execution()), { code: 'identity-mismatch' });
    await lease.release();
  });

  test('A76 A71 a parked checkpoint is taken over in the same process; settled, nothing is left of it', async () => {
    const lease = await open(asking());
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    const checkpoint = JSON.parse(JSON.stringify(await lease.session.checkpoint()));
    assert.deepEqual(checkpoint.append, []);
    await lease.release();
    const restored = await open(asking(), { checkpoint });
    assert.equal((await restored.session.resumeTurn(attempt('a2'), answers(outcome), execution())).content, 'done');
    const settled = await restored.session.checkpoint();
    assert.deepEqual([settled.data.pending, settled.append], [null, [{ whole: 'turn' }]]);
    await restored.release();
    const late = await open(asking(), { checkpoint });
    await assert.rejects(late.session.resumeTurn(attempt('a3'), answers(outcome), execution()), {
      code: 'journal-missing',
    });
    await late.release();
  });

  test('A74 a journal that knows nothing of the execution', async () => {
    const lease = await open(asking(), { journal: () => ({ append: async () => {}, read: async () => [] }) });
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    await assert.rejects(lease.session.resumeTurn(attempt('a2'), answers(outcome), execution()), {
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
    const results = [waits([asks], { at: 2 }), done('done')];
    const lease = await open({ run: async () => waits([asks]), resume: async () => results.shift() });
    const first = await lease.session.runTurn(turn('a1'), execution());
    const second = await lease.session.resumeTurn(attempt('a2'), answers(first), execution());
    assert.equal(second.kind, 'wait');
    assert.notEqual(second.requests[0].id, first.requests[0].id);
    assert.equal(second.requests[0].data.executionId, 'a1');
    assert.equal((await lease.session.resumeTurn(attempt('a3'), answers(second), execution())).content, 'done');
    await lease.release();
  });

  test('A83 a runtime without resume cannot wait', async () => {
    await assert.rejects(
      runOnce(async () => waits([asks])),
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
    await assert.rejects(lease.session.resumeTurn(attempt('a2'), answers(outcome), stopped), /stop/);
    assert.equal((await lease.session.resumeTurn(attempt('a3'), answers(outcome), execution())).content, 'end');
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
    const resuming = lease.session.resumeTurn(
      attempt('a2'),
      answers(outcome),
      execution({ signal: controller.signal }),
    );
    await settle();
    controller.abort(new Error('stop'));
    await assert.rejects(resuming, /stop/, 'a tool that never ends is not waited for for ever');
    await assert.rejects(lease.session.resumeTurn(attempt('a3'), answers(outcome), execution()), {
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
    await assert.rejects(lease.session.resumeTurn(attempt('a2'), answers(outcome), stopped), /stop/);
    await settle();
    assert.equal(ran, 0);
    assert.equal((await lease.session.resumeTurn(attempt('a3'), answers(outcome), execution())).content, 'disk full');
    assert.equal(ran, 1);
    const keys = records.filter((r) => r.kind === 'tool-intent').map((r) => r.idempotencyKey);
    assert.equal(new Set(keys).size, 1, 'a retried attempt repeats the key');
    await lease.release();
  });
});
