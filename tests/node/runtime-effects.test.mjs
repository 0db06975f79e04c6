// Waits and effects of a foreign runtime: what it is continued with, and what is never made twice.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { deferred, execution, services, settle, turn } from './support/agent.mjs';
import { action, answers, attempt, done, open, waits } from './support/runtime.mjs';
import { arrayJournal } from './support/session.mjs';

const model = { providerId: 'sdk', modelId: 'm' };
const never = () => assert.fail('ran again');

/** An execution that is stopped by `stop(reason)`. */
function stoppable(overrides = {}) {
  const controller = new AbortController();
  return { ...execution({ signal: controller.signal, ...overrides }), stop: (reason) => controller.abort(reason) };
}

describe('several approvals at once', () => {
  test('A68 K5 each has a request of its own; decisions come in the order of the calls, with their reasons', async () => {
    const asked = ['t1', 't2', 't3'].map((id) => action(id));
    const resumed = [];
    const runtime = {
      run: async () => waits(asked),
      resume: async (_state, decisions) => done(String(resumed.push(decisions))),
    };
    const lease = await open(runtime);
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    assert.equal(new Set(outcome.requests.map(({ id }) => id)).size, 3);
    assert.equal(new Set(outcome.requests.map(({ data }) => data.actionId)).size, 3);
    assert.deepEqual(
      outcome.requests.map(({ data }) => [data.toolCallId, data.arguments]),
      asked.map((one) => [one.toolCallId, one.arguments]),
    );
    const said = [{ approved: true }, { approved: false, reason: 'too late' }, { approved: false }];
    const given = answers(outcome, said);
    for (const some of [given.slice(1), [...given, given[0]]])
      await assert.rejects(lease.session.resumeTurn(attempt('a2'), some, execution()), { code: 'identity-mismatch' });
    await lease.session.resumeTurn(attempt('a2'), given.reverse(), execution());
    assert.deepEqual(resumed, [asked.map((one, index) => ({ ...one, ...said[index] }))]);
    await lease.release();
  });

  test('A68 a wait has 1 to 64 of them, of names that are ids', async () => {
    const many = (count) => Array.from({ length: count }, (_, index) => action(`t${index}`));
    const runtime = (asked) => ({ run: async () => waits(asked), resume: async () => done('x') });
    const most = await open(runtime(many(64)));
    assert.equal((await most.session.runTurn(turn('a1'), execution())).requests.length, 64);
    await most.release();
    for (const [asked, message] of [
      [[], /interruptions is empty/],
      [many(65), /interruptions has 65 elements, more than 64/],
      [[action('t'), action('t\ud800')], /interruptions\[1\]\.toolCallId holds a lone surrogate/],
      [[action('t', 'write\udc00')], /interruptions\[0\]\.toolName holds a lone surrogate/],
      [[action('t', 'w'.repeat(513))], /interruptions\[0\]\.toolName must have 1 to 512/],
      [[action('t', 7)], /interruptions\[0\]\.toolName must be a string/],
      [[action('t', 'write', new Map())], /interruptions\[0\]\.arguments/],
      [[action('t', 'write', { 'a\ud800': 1 })], /interruptions\[0\]\.arguments.*lone surrogate/],
      [[action('t', 'write', { list: ['a\ud800'] })], /interruptions\[0\]\.arguments.*lone surrogate/],
    ]) {
      const lease = await open(runtime(asked));
      await assert.rejects(lease.session.runTurn(turn('a1'), execution()), {
        code: 'EXECUTION_REPLY_INVALID',
        message,
      });
      await lease.release();
    }
  });

  test('A69 answers are on record before the run goes on', async () => {
    const journal = arrayJournal();
    const kinds = () => journal.records.map(({ kind }) => kind);
    let before;
    const runtime = {
      run: async () => waits([action('t1'), action('t2')]),
      resume: async () => {
        before = kinds();
        return done('x');
      },
    };
    const lease = await open(runtime, { journal: () => journal });
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    await lease.session.resumeTurn(
      attempt('a2'),
      answers(outcome, [{ approved: true }, { approved: false, reason: 'no' }]),
      execution(),
    );
    assert.deepEqual(before, ['execution-start', 'answer', 'answer']);
    assert.deepEqual(
      journal.records.slice(1).map(({ requestId, approved, reason }) => [requestId, approved, reason]),
      outcome.requests.map(({ id }, index) => [id, index === 0, index === 0 ? undefined : 'no']),
    );
    await lease.release();
  });

  test('K4 what a runtime does to its objects later changes neither the wait nor what it is continued with', async () => {
    const [args, state] = [{ path: 'a' }, { list: [1] }];
    const seen = [];
    const runtime = {
      run: async () => {
        setTimeout(() => {
          args.path = 'changed';
          state.list.push(2);
        }, 0);
        return waits([action('t1', 'write', args)], state);
      },
      resume: async (given, decisions) => {
        seen.push(structuredClone([given, decisions[0].arguments]));
        given.list.push('changed');
        if (seen.length === 1) throw new Error('try again');
        return done('x');
      },
    };
    const lease = await open(runtime);
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    await settle();
    await assert.rejects(lease.session.resumeTurn(attempt('a2'), answers(outcome), execution()), /try again/);
    await lease.session.resumeTurn(attempt('a3'), answers(outcome), execution());
    assert.deepEqual(seen, [
      [{ list: [1] }, { path: 'a' }],
      [{ list: [1] }, { path: 'a' }],
    ]);
    await lease.release();
  });
});

describe('an effect', () => {
  test('A71 C48 of an attempt that was stopped is not made again by the next, under whatever call id', async () => {
    const effects = [];
    const results = [];
    const run = async (_, context) => {
      const id = `call ${results.length}`;
      results.push(await context.toolCall(action(id, 'pay', { sum: 1 }), () => effects.push('paid')));
      await context.modelCall(model, () => 'x');
      return done('ok');
    };
    const lease = await open(run);
    const stopped = stoppable({ services: services({ admit: () => stopped.stop(new Error('stop')) }) });
    await assert.rejects(lease.session.runTurn(turn('a1'), stopped), /stop/);
    const next = attempt('a2', { earlierAttempts: ['a1'] });
    assert.equal((await lease.session.runTurn(next, execution())).content, 'ok');
    assert.deepEqual([effects, results], [['paid'], [1, 1]]);
    // Settled, nothing is left of either attempt.
    assert.equal((await lease.session.runTurn(next, execution())).content, 'ok');
    assert.equal(effects.length, 2);
    await lease.release();
  });

  test('C48 of which nobody knows what came of it is made again only where a host says so, however often it is tried', async () => {
    const hanging = deferred();
    let made = 0;
    const run = async (_, context) => {
      const effect = () => (++made === 1 ? hanging.promise : 'paid');
      return done(await context.toolCall(action('t', 'pay', { sum: 1 }), effect));
    };
    const lease = await open(run, { settleTimeoutMs: 0 });
    const stopped = stoppable();
    const first = lease.session.runTurn(turn('a1'), stopped);
    await settle();
    stopped.stop(new Error('stop'));
    await assert.rejects(first, /stop/);
    for (const id of ['a2', 'a3'])
      await assert.rejects(lease.session.runTurn(attempt(id, { earlierAttempts: ['a1'] }), execution()), {
        code: 'EXECUTION_RECOVERY_REQUIRED',
      });
    assert.equal(made, 1);
    const retried = attempt('a4', { earlierAttempts: ['a1'], reconciled: 'retry' });
    assert.equal((await lease.session.runTurn(retried, execution())).content, 'paid');
    assert.equal(made, 2);
    await lease.release();
  });

  test('K14 that fails is a failure for whoever asks again, and its record is told apart from a result', async () => {
    const caught = [];
    const failing = (context, effect) =>
      context.toolCall(action('t'), effect).then(
        (value) => caught.push({ value }),
        (error) => caught.push(error.message),
      );
    const runtime = {
      run: async (_, context) => {
        await failing(context, () => Promise.reject(new Error('disk full')));
        await failing(context, never);
        return waits([action('u')]);
      },
      resume: async (_state, _decisions, context) => {
        await failing(context, never);
        return done('x');
      },
    };
    const lease = await open(runtime);
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    await lease.session.resumeTurn(attempt('a2'), answers(outcome), execution());
    assert.deepEqual(caught, ['disk full', 'disk full', 'disk full']);
    await lease.release();
  });

  test('F of another tool is another one, though its call id and arguments are the same', async () => {
    const runtime = {
      run: async (_, context) => {
        const results = [];
        for (const name of ['read', 'write', 'read'])
          results.push(await context.toolCall(action('t', name, {}), () => `${name} ${results.length}`));
        return waits([action('u')], results);
      },
      resume: async (state, _decisions, context) =>
        done([...state, await context.toolCall(action('t', 'write', {}), never)].join(', ')),
    };
    const lease = await open(runtime);
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    const end = await lease.session.resumeTurn(attempt('a2'), answers(outcome), execution());
    assert.equal(end.content, 'read 0, write 1, read 0, write 1');
    await lease.release();
  });

  test('K15 with half a surrogate pair in its arguments is refused, since another could pass for it', async () => {
    const effects = [];
    const run = async (_, context) => {
      const said = [];
      for (const path of ['a\ufffd', 'a\ud800', 'a\udc00', '\u{1f600}'])
        said.push(
          await context
            .toolCall(action('t', 'pay', { path, none: undefined }), () => effects.push(path))
            .catch((error) => error.message),
        );
      return done(said.join(', '));
    };
    const lease = await open(run);
    const refused = 'arguments holds a lone surrogate';
    assert.equal((await lease.session.runTurn(turn('a1'), execution())).content, `1, ${refused}, ${refused}, 2`);
    assert.deepEqual(effects, ['a\ufffd', '\u{1f600}']);
    await lease.release();
  });

  test('F two at the same time under one call id each go on with their own result', async () => {
    const [slow, fast] = [action('t', 'read', { n: 1 }), action('t', 'read', { n: 2 })];
    const late = deferred();
    const runtime = {
      run: async (_, context) => {
        const first = context.toolCall(slow, () => late.promise);
        assert.equal(await context.toolCall(fast, () => 'two'), 'two');
        late.resolve('one');
        await first;
        return waits([action('u')]);
      },
      resume: async (_state, _decisions, context) =>
        done(`${await context.toolCall(slow, never)} ${await context.toolCall(fast, never)}`),
    };
    const lease = await open(runtime);
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    const end = await lease.session.resumeTurn(attempt('a2'), answers(outcome), execution());
    assert.equal(end.content, 'one two');
    await lease.release();
  });

  test('K15 has a copy of its arguments on record, and what asked for it has a copy of its result', async () => {
    const journal = arrayJournal();
    const [args, result] = [{ list: [1] }, { list: [1] }];
    const run = async (_, context) => {
      const given = await context.toolCall(action('t', 'pay', args), () => {
        args.list.push(2);
        return result;
      });
      given.list.push(2);
      const bad = await context.toolCall(action('u', 'pay', 1), () => new Date()).catch((error) => error.message);
      await assert.rejects(context.toolCall(action('v', 'pay', new Map()), never), /^Error: arguments must be a plain/);
      return done(bad);
    };
    const lease = await open(run, { journal: () => journal });
    assert.match((await lease.session.runTurn(turn('a1'), execution())).content, /^result must be a plain object/);
    const of = (kind) => journal.records.find((record) => record.kind === kind);
    assert.deepEqual([of('tool-intent').arguments, of('tool-result').result], [{ list: [1] }, { list: [1] }]);
    assert.deepEqual(result, { list: [1] });
    await lease.release();
  });

  test('C45 that runs when its turn is stopped is on record before the turn ends', async () => {
    const journal = arrayJournal();
    const working = deferred();
    const run = async (_, context) => {
      const effect = context.toolCall(action('t'), () => working.promise);
      await new Promise((_, fail) => context.signal.addEventListener('abort', () => fail(context.signal.reason)));
      return done(await effect);
    };
    const lease = await open(run, { journal: () => journal });
    const stopped = stoppable();
    const running = lease.session.runTurn(turn('a1'), stopped);
    await settle();
    stopped.stop(new Error('stop'));
    setTimeout(() => working.resolve('done'), 20);
    await assert.rejects(running, /stop/);
    assert.deepEqual(
      journal.records.map(({ kind }) => kind),
      ['execution-start', 'tool-intent', 'tool-result'],
    );
    await lease.release();
  });
});
