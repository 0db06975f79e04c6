// What a foreign runtime does with its context at odd moments: ids used again, calls left open, calls when all is over.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runtimeParticipant } from 'agent-roundtable/runtime';
import { deferred, execution, services, settle, turn } from './support/agent.mjs';

const model = { providerId: 'sdk', modelId: 'm' };
const done = (finalOutput) => ({ finalOutput, newItems: [] });
const read = { toolCallId: 'call_0', toolName: 'read', arguments: { path: 'a' } };
const remove = { toolCallId: 'call_0', toolName: 'remove', arguments: { path: 'b' } };

async function open(runtime, { journal } = {}) {
  const { factory } = runtimeParticipant({
    id: 'bot',
    runtime: { id: 'sdk', version: '1' },
    createRuntime: () => runtime,
    ...(journal === undefined ? {} : { journal: () => journal }),
  });
  return factory.openSession({ conversationId: 'c', participantId: 'bot' });
}

async function runOnce(run, overrides) {
  const { session, release } = await open({ run });
  try {
    return await session.runTurn(turn(), execution(overrides));
  } finally {
    await release();
  }
}

const approve = ({ requests }) =>
  requests.map((request) => ({
    request: { ...request, participantId: 'bot', memberId: 'bot', groupId: 'g', turnId: 'turn-of-a1' },
    responseId: 'yes',
    response: { kind: 'approval', approved: true },
  }));

describe('a tool call id that is used again', () => {
  test('F names another action: an approved one runs, and is not answered with what the first came to', async () => {
    const effects = [];
    const { session, release } = await open({
      run: async (_input, context) => {
        await context.toolCall(read, () => void effects.push('read') ?? 'A');
        return { interruptions: [remove], state: null };
      },
      resume: async (_state, [decision], context) => {
        // The SDK repeats what is on record, and goes on to what was approved.
        const before = await context.toolCall(read, () => void effects.push('read again') ?? 'A2');
        return done(`${before} ${await context.toolCall(decision, () => void effects.push('remove') ?? 'gone')}`);
      },
    });
    const outcome = await session.runTurn(turn('a1'), execution());
    const resumed = await session.resumeTurn({ ...turn('a1'), attemptId: 'a2' }, approve(outcome), execution());
    assert.equal(resumed.content, 'A gone');
    assert.deepEqual(effects, ['read', 'remove']);
    await release();
  });

  test('F its records are told apart: each action goes on from its own', async () => {
    const records = [];
    const journal = {
      append: async (record) => void records.push(record),
      read: async (executionId) => records.filter((record) => record.executionId === executionId),
    };
    const other = { ...read, arguments: { path: 'b' } };
    const runtime = {
      run: async (_input, context) => {
        await context.toolCall(read, () => 'A');
        await context.toolCall(other, () => Promise.reject(new Error('no b'))).catch(() => undefined);
        return { interruptions: [remove], state: null };
      },
      resume: async (_state, _decisions, context) => {
        const again = () => assert.fail('ran again');
        const failed = await context.toolCall(other, again).catch((error) => error.message);
        return done(`${await context.toolCall(read, again)} ${failed}`);
      },
    };
    const { session, release } = await open(runtime, { journal });
    const outcome = await session.runTurn(turn('a1'), execution());
    const resumed = await session.resumeTurn({ ...turn('a1'), attemptId: 'a2' }, approve(outcome), execution());
    assert.equal(resumed.content, 'A no b');
    const ids = records.map(({ id }) => id);
    assert.equal(new Set(ids).size, ids.length, 'no two records share an id');
    await release();
  });

  test('F two calls of it at the same time: the same action runs once, another one beside it', async () => {
    const effects = [];
    const effect = (name) => async () => {
      effects.push(name);
      await new Promise((resolve) => setTimeout(resolve, 5));
      return name;
    };
    const outcome = await runOnce(async (_input, context) => {
      const calls = [read, read, remove].map((call) => context.toolCall(call, effect(call.toolName)));
      return done((await Promise.all(calls)).join(' '));
    });
    assert.equal(outcome.content, 'read read remove');
    assert.deepEqual(effects, ['read', 'remove']);
  });
});

describe('a model call that is left open', () => {
  test('K3 is reported where its usage cannot be read: it was made', async () => {
    const cannot = (response) => response.usage.input;
    async function* events() {
      yield {};
    }
    for (const call of [
      (context) => context.modelCall(model, () => ({}), cannot),
      async (context) => {
        for await (const _event of context.modelStream(model, events, cannot));
      },
    ]) {
      const noted = services();
      await assert.rejects(
        runOnce((_input, context) => call(context), { services: noted }),
        TypeError,
      );
      assert.deepEqual(
        noted.reports.map(({ outcome, provenance }) => [outcome, provenance]),
        [['completed', 'unknown']],
      );
    }
  });

  test('F a count that is no number costs nobody the response', async () => {
    const noted = services();
    const usage = () => ({ inputTokens: 5, outputTokens: NaN, usageProvenance: 'partial' });
    const run = async (_input, context) => done(await context.modelCall(model, () => 'answer', usage));
    assert.equal((await runOnce(run, { services: noted })).content, 'answer');
    assert.deepEqual(
      noted.reports.map(({ outcome, provenance, tokens }) => [outcome, provenance, tokens]),
      [['completed', 'partial', { input: 5 }]],
    );
  });

  test('K3 a stream that nobody reads to its end has failed when the run is over', async () => {
    async function* events() {
      yield 'a';
      yield 'b';
    }
    const noted = services();
    await runOnce(
      async (_input, context) => {
        await context.modelStream(model, events)[Symbol.asyncIterator]().next();
        return done('x');
      },
      { services: noted },
    );
    assert.deepEqual(
      noted.reports.map(({ outcome }) => outcome),
      ['failed'],
    );
  });
});

test('F when the turn is over its context begins nothing more', async () => {
  for (const signalled of [false, true]) {
    const effects = [];
    const controller = new AbortController();
    let kept;
    const turned = runOnce(
      async (_input, context) => {
        kept = context;
        if (signalled) controller.abort(new Error('stop'));
        return done('x');
      },
      { signal: controller.signal },
    );
    if (signalled) await assert.rejects(turned, /stop/);
    else await turned;
    const refusal = signalled ? /stop/ : { code: 'conflict' };
    await assert.rejects(
      kept.toolCall(read, () => effects.push('late')),
      refusal,
    );
    const record = { id: 'late', executionId: kept.executionId, sessionId: 's', kind: 'execution-start' };
    await assert.rejects(kept.journal.append({ ...record, turnId: 't', input: '' }), refusal);
    assert.deepEqual(effects, []);
  }
});

test('K9 what is streamed when the turn is over goes nowhere, and neither does what was undelivered at its abort', async () => {
  let kept;
  const options = execution();
  await runOnce(async (_input, context) => {
    kept = context;
    void context.onDelta('1');
    return done('x');
  }, options);
  await kept.onDelta('late');
  await settle();
  assert.deepEqual(options.deltas, ['1']);

  const controller = new AbortController();
  const gate = deferred();
  const delivered = [];
  const onDelta = async (text) => {
    delivered.push(text);
    await gate.promise;
  };
  const run = async (_input, context) => {
    for (const text of ['1', '2']) void context.onDelta(text);
    return new Promise(() => {});
  };
  const running = runOnce(run, { onDelta, signal: controller.signal });
  await settle();
  controller.abort(new Error('stop'));
  await assert.rejects(running, /stop/);
  gate.resolve();
  await settle();
  assert.deepEqual(delivered, ['1']);
});

test('a turn leaves no listener on its signal, however it ends', async () => {
  const { signal } = new AbortController();
  const listening = new Set();
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (type, listener, options) => {
    listening.add(listener);
    addEventListener.call(signal, type, listener, options);
  };
  signal.removeEventListener = (type, listener) => {
    listening.delete(listener);
    removeEventListener.call(signal, type, listener);
  };
  await runOnce(async () => done('x'), { signal });
  await assert.rejects(
    runOnce(() => Promise.reject(new Error('no')), { signal }),
    /no/,
  );
  assert.equal(listening.size, 0);
});
