// What a foreign runtime's checkpoint restores, and all that it refuses; whose answers and objects a session takes.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RuntimeParticipantError } from 'agent-roundtable';
import { execution, turn } from './support/agent.mjs';
import { action, answers, attempt, done, open, waits } from './support/runtime.mjs';

const plain = () => ({ run: async () => done('x'), resume: async () => done('y') });

async function settled(items = [{ n: 1 }]) {
  const lease = await open(async () => done('x', items));
  await lease.session.runTurn(turn('a1'), execution());
  const checkpoint = await lease.session.checkpoint();
  await lease.release();
  return checkpoint;
}

async function parked(...actions) {
  const lease = await open({ ...plain(), run: async () => waits(actions) });
  const outcome = await lease.session.runTurn(turn('a1'), execution());
  const checkpoint = await lease.session.checkpoint();
  await lease.release();
  return { outcome, checkpoint: JSON.parse(JSON.stringify(checkpoint)) };
}

async function refused(checkpoint, message, more) {
  await assert.rejects(open(plain(), { checkpoint, ...more }), (error) => {
    assert.ok(error instanceof RuntimeParticipantError, String(error));
    assert.equal(error.code, 'checkpoint-invalid');
    assert.match(error.message, message);
    return true;
  });
}

describe('its history', () => {
  test('A46 K11 is plain JSON, item by item, or refused with the place of what is not', async () => {
    const checkpoint = await settled();
    const circle = [];
    circle.push(circle);
    const deep = JSON.parse(`${'['.repeat(101)}${']'.repeat(101)}`);
    for (const [append, message] of [
      [7, /^append must be an array/],
      ['items', /^append must be an array/],
      [null, /^append must be an array/],
      [Array(2), /^append\[0\] is a hole/],
      [[1, undefined], /^append\[1\] must be JSON, not undefined/],
      [[() => 1], /^append\[0\] must be JSON, not a function/],
      [[{ m: new Map() }], /^append\[0\]\.m /],
      [[new Date()], /^append\[0\] /],
      [[{ n: Number.NaN }], /^append\[0\]\.n is NaN/],
      [[{ n: 1n }], /^append\[0\]\.n must be JSON, not a BigInt/],
      [[circle], /^append\[0\]\[0\] contains itself/],
      [[deep], /nested deeper than 100/],
    ])
      await refused({ ...checkpoint, append }, message);
  });

  test('A44 is a copy that nobody changes, neither who handed it in nor the runtime', async () => {
    const mine = [{ list: [1] }];
    const checkpoint = { ...(await settled()), append: mine };
    const seen = [];
    const lease = await open(
      async (_, { history }) => {
        seen.push(structuredClone(history));
        assert.throws(() => history.push('more'), TypeError);
        for (const { list } of history) assert.throws(() => list.push('more'), TypeError);
        const items = [{ list: [seen.length + 1] }];
        setTimeout(() => items[0].list.push('more'), 0);
        return done('x', items);
      },
      { checkpoint },
    );
    mine[0].list.push(2);
    for (const id of ['a1', 'a2', 'a3']) {
      await lease.session.runTurn(turn(id), execution());
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    assert.deepEqual(seen.at(-1), [{ list: [1] }, { list: [2] }, { list: [3] }]);
    assert.deepEqual((await lease.session.checkpoint()).append, [{ list: [2] }, { list: [3] }, { list: [4] }]);
    assert.deepEqual((await lease.session.checkpoint()).append, [], 'what a checkpoint took, no other takes');
    await lease.release();
  });
});

describe('its head', () => {
  test('A39 K11 a wait that is malformed is refused by the name of its member', async () => {
    const { checkpoint } = await parked(action('t1'), action('t2'));
    const { pending } = checkpoint.data;
    const [first, second] = pending.requests;
    const request = (change) => ({ ...pending, requests: [first, { ...second, ...change }] });
    const about = (change) => request({ data: { ...second.data, ...change } });
    const { state: _, ...stateless } = pending;
    for (const [value, message] of [
      [undefined, /data\.pending/],
      [stateless, /data\.pending\.state/],
      [{ ...pending, more: 1 }, /data\.pending\.more/],
      [{ ...pending, executionId: '' }, /data\.pending\.executionId/],
      [{ ...pending, executionId: 7 }, /data\.pending\.executionId/],
      [{ ...pending, requests: 'all' }, /data\.pending\.requests must be an array/],
      [{ ...pending, requests: [] }, /data\.pending\.requests is empty/],
      [{ ...pending, requests: Array(65).fill(first) }, /more than 64/],
      [request({ id: '' }), /requests\[1\]\.id/],
      [request({ id: 7 }), /requests\[1\]\.id/],
      [request({ id: first.id }), /requests\[1\]\.id is named twice/],
      [request({ kind: 'input' }), /requests\[1\]\.kind/],
      [request({ data: null }), /requests\[1\]\.data/],
      [about({ toolCallId: undefined }), /requests\[1\]\.data\.toolCallId/],
      [about({ toolCallId: 7 }), /requests\[1\]\.data\.toolCallId/],
      [about({ toolName: '' }), /requests\[1\]\.data\.toolName/],
      [about({ arguments: undefined }), /requests\[1\]\.data\.arguments/],
    ])
      await refused({ ...checkpoint, data: { ...checkpoint.data, pending: value } }, message);
    for (const data of [null, 7, 'x', []]) await refused({ ...checkpoint, data }, /data must be a plain object/);
    await (await open(plain(), { checkpoint })).release();
  });

  test('A39 A75 its environment is the same text, also where there is none, and the host is told that it restores', async () => {
    const checkpoint = await settled();
    assert.equal(checkpoint.data.environment, '');
    const { environment: _, ...data } = checkpoint.data;
    for (const value of [data, { ...data, environment: null }, { ...data, environment: 'a' }])
      await refused({ ...checkpoint, data: value }, /environment/);
    const told = [];
    const createRuntime = (context) => {
      told.push(context);
      return plain();
    };
    for (const given of [undefined, checkpoint])
      await (await open(plain(), { checkpoint: given, createRuntime })).release();
    assert.deepEqual(
      told,
      [false, true].map((restoring) => ({ conversationId: 'c', participantId: 'bot', restoring })),
    );
  });

  test('C52a a wait of another conversation is not taken over by its fork', async () => {
    const { checkpoint } = await parked(action('t1'));
    const forkedFrom = { conversationId: 'c', revision: 3 };
    await refused(checkpoint, /fork.*data\.pending/, { forkedFrom, conversationId: 'd' });
    const good = await settled();
    for (const sessionId of ['', 7]) {
      const data = { ...good.data, sessionId };
      await refused({ ...good, data }, /sessionId: expected a string/, { forkedFrom, conversationId: 'd' });
    }
  });

  test('A60 A76 a wait ends the first turn: what is restored from it announces no purpose again', async () => {
    const { outcome, checkpoint } = await parked(action('t1'));
    assert.equal(checkpoint.data.firstTurnDone, true);
    const inputs = [];
    const runtime = { ...plain(), run: async (input) => done(String(inputs.push(input))) };
    const lease = await open(runtime, { checkpoint });
    await lease.session.resumeTurn(attempt('a2'), answers(outcome), execution());
    await lease.session.runTurn(turn('b1', [['ana', 'hi']], 'plan'), execution());
    assert.deepEqual(inputs, ['### From ana\n> hi']);
    await lease.release();
  });

  test('K15 an environment with half a surrogate pair is the same when it comes back from a store', async () => {
    const runtime = () => ({ ...plain(), environment: 'a\ud800' });
    const lease = await open(runtime());
    const checkpoint = await lease.session.checkpoint();
    assert.equal(checkpoint.data.environment, 'a\ufffd');
    await lease.release();
    await (await open(runtime(), { checkpoint })).release();
  });
});

describe('whose it is', () => {
  test('K5 an answer in the turn of another conversation or participant continues nothing', async () => {
    const { outcome, checkpoint } = await parked(action('t1'));
    const lease = await open(plain(), { checkpoint });
    for (const [of, change] of [
      [{ conversationId: 'other' }, {}],
      [{ participantId: 'other' }, { participantId: 'other', memberId: 'other' }],
    ])
      await assert.rejects(
        lease.session.resumeTurn(attempt('a2', of), answers(outcome, { approved: true }, change), execution()),
        { code: 'identity-mismatch', message: /conversation or participant/ },
      );
    assert.equal((await lease.session.resumeTurn(attempt('a2'), answers(outcome), execution())).content, 'y');
    await lease.release();
  });

  test('K5 answers that are no plain data continue nothing, and the wait stays', async () => {
    const { outcome, checkpoint } = await parked(action('t1'));
    const lease = await open(plain(), { checkpoint });
    const [one] = answers(outcome);
    for (const bad of [
      undefined,
      null,
      'yes',
      7,
      [new Date()],
      [() => 1],
      [1n],
      [null],
      [{ ...one, more: 1n }],
      Array(1),
    ])
      await assert.rejects(lease.session.resumeTurn(attempt('a2'), bad, execution()), { code: 'identity-mismatch' });
    assert.equal((await lease.session.resumeTurn(attempt('a2'), answers(outcome), execution())).content, 'y');
    await lease.release();
  });

  test('A17 the runtime itself is held, whatever its resources', async () => {
    const runtime = Object.assign(plain(), { name: 'my agent' });
    const lease = await open(runtime);
    await assert.rejects(open(runtime, { conversationId: 'd' }), { code: 'resource-reused', message: /^my agent / });
    await lease.release();
    await (await open(runtime, { conversationId: 'd' })).release();
  });
});
