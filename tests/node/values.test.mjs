// Values at the boundary: what JSON has no place for is refused with its path, wherever a host hands it in.
import assert from 'node:assert/strict';
import vm from 'node:vm';
import { describe, test } from 'node:test';
import { externalParticipant } from 'agent-roundtable';
import {
  agent,
  approval,
  conversation,
  decisions,
  journal,
  parallel,
  rejects,
  speak,
  transcript,
  waiter,
  waits,
} from './support/conversations.mjs';

const cycle = { deep: {} };
cycle.deep.back = cycle;
const nested = (depth) => {
  let value = 1;
  for (let level = 0; level < depth; level++) value = level % 2 ? [value] : { value };
  return value;
};
const sparse = [1, 2, 3];
delete sparse[1];
class Point {
  x = 1;
}

/** What is refused, with the path inside `data`. */
const REFUSED = [
  ['a Date', { when: new Date() }, 'data.when'],
  ['a URL', { at: new URL('https://example.org') }, 'data.at'],
  ['a class instance', { point: new Point() }, 'data.point'],
  ['a BigInt', { n: 5n }, 'data.n'],
  ['NaN', { n: [Number.NaN] }, 'data.n[0]'],
  ['Infinity', { n: Number.POSITIVE_INFINITY }, 'data.n'],
  ['-Infinity', { n: Number.NEGATIVE_INFINITY }, 'data.n'],
  ['a Map', { m: new Map() }, 'data.m'],
  ['a Set', { s: new Set() }, 'data.s'],
  ['a typed array', { bytes: new Uint8Array(2) }, 'data.bytes'],
  ['a function', { f: () => {} }, 'data.f'],
  ['a symbol', { s: Symbol('s') }, 'data.s'],
  ['a symbol as key', { s: { [Symbol('key')]: 1 } }, 'data.s'],
  ['a sparse array', { list: sparse }, 'data.list[1]'],
  ['undefined in an array', { list: [1, undefined] }, 'data.list[1]'],
  ['an array with further members', { list: Object.assign([1], { extra: 2 }) }, 'data.list'],
  [
    'an accessor',
    {
      get secret() {
        return 1;
      },
    },
    'data.secret',
  ],
  ['a cycle', cycle, 'data.deep.back'],
  ['depth 101', nested(101), 'data'],
  ['depth 10,000', nested(10_000), 'data'],
  ['a boxed string', { s: new String('x') }, 'data.s'],
  ['a key with a lone surrogate', { 'a\ud800': 1 }, 'data['],
  ['a promise', { p: Promise.resolve(1) }, 'data.p'],
  ['a regular expression', { r: /x/ }, 'data.r'],
  ['an error', { e: new Error('x') }, 'data.e'],
  ['a value of more than 4 MiB', { text: 'x'.repeat(4 * 1024 * 1024) }, 'data'],
  ['an object that inherits', Object.create({ inherited: 1 }), 'data'],
];

/** What is kept, as it arrives on the other side. */
const KEPT = [
  ['undefined members are absent', { a: 1, b: undefined }, { a: 1 }],
  ['objects without prototype', Object.assign(Object.create(null), { a: 1 }), { a: 1 }],
  ['objects of another realm', vm.runInNewContext('({ a: [1, { b: null }] })'), { a: [1, { b: null }] }],
  [
    'an own key __proto__ is data',
    JSON.parse('{"__proto__":{"admin":true},"a":1}'),
    JSON.parse('{"__proto__":{"admin":true},"a":1}'),
  ],
  [
    'keys shaped like internal tags',
    { $date: 'x', 'speak/1': {}, kind: 'wait', toJSON: 'text' },
    { $date: 'x', 'speak/1': {}, kind: 'wait', toJSON: 'text' },
  ],
  ['lone surrogates in text become U+FFFD', { s: 'a\ud800b' }, { s: 'a\ufffdb' }],
  ['any other text', { s: 'a\u0000b\u2028c🙂' }, { s: 'a\u0000b\u2028c🙂' }],
  ['-0 is 0', { n: -0 }, { n: 0 }],
  [
    'the extremes of doubles',
    [5e-324, 1.7976931348623157e308, 2 ** 53 + 2, -1.5],
    [5e-324, 1.7976931348623157e308, 2 ** 53 + 2, -1.5],
  ],
  ['depth 100', nested(100), nested(100)],
  ['null', null, null],
  ['a bare string', 'x', 'x'],
];

/** A conversation that waits on an approval with this data. */
async function waitingOn(data) {
  const roundtable = conversation([waiter('a', waits(approval('q', data)))], { selector: decisions(speak('a')) });
  return { roundtable, result: await roundtable.run() };
}

describe('data of an approval', () => {
  for (const [name, data, path] of REFUSED) {
    test(`refuses ${name}`, async () => {
      const { roundtable, result } = await waitingOn(data);
      assert.equal(result.status, 'failed');
      assert.ok(result.message.includes(`requests[0].${path}`), result.message);
      assert.ok(result.message.includes('a'), 'names the participant');
      assert.deepEqual(roundtable.snapshot().requests, []);
    });
  }
  for (const [name, data, kept] of KEPT) {
    test(`keeps: ${name}`, async () => {
      const { roundtable, result } = await waitingOn(data);
      assert.equal(result.status, 'waiting', result.message);
      assert.deepEqual(result.requests[0].data, kept);
      assert.deepEqual(roundtable.snapshot().requests[0].data, kept);
      assert.equal(Object.prototype.admin, undefined);
      if (kept?.a === 1) assert.equal(result.requests[0].data.admin, undefined, 'no prototype was set');
    });
  }
});

describe('data of a checkpoint', () => {
  const keeping = (data) =>
    agent('a', { checkpoint: async () => ({ version: 'v1', data }) }, { checkpointVersions: ['v1'] });
  const run = async (data) => {
    const roundtable = conversation([keeping(data)], { selector: decisions(speak('a')) });
    return { roundtable, result: await roundtable.run() };
  };
  for (const [name, data, path] of REFUSED) {
    test(`refuses ${name}`, async () => {
      const { result } = await run(data);
      assert.equal(result.status, 'failed');
      assert.ok(result.message.includes(`checkpoint.${path}`), result.message);
    });
  }
  for (const [name, data, kept] of KEPT) {
    test(`keeps: ${name}`, async () => {
      const { roundtable, result } = await run(data);
      assert.equal(result.status, 'completed', result.message);
      const [, prepared] = (await journal(roundtable)).find(([kind]) => kind === 'turn-prepared/1');
      assert.deepEqual(prepared.checkpoint.data, kept);
    });
  }

  test('refuses other shapes', async () => {
    for (const [checkpoint, part] of [
      [null, 'checkpoint'],
      [{ data: 1 }, 'checkpoint.version'],
      [{ version: '', data: 1 }, 'checkpoint.version'],
      [{ version: 'v1' }, 'checkpoint.data'],
      [{ version: 'v1', data: 1, extra: 1 }, 'checkpoint.extra'],
      [{ version: 'v1', data: 1, append: {} }, 'checkpoint.append'],
      [{ version: 'v1', data: 1, append: [1, Number.NaN] }, 'checkpoint.append[1]'],
    ]) {
      const broken = agent('a', { checkpoint: async () => checkpoint }, { checkpointVersions: ['v1'] });
      const result = await conversation([broken], { selector: decisions(speak('a')) }).run();
      assert.equal(result.status, 'failed');
      assert.ok(result.message.includes(part), `${result.message} does not name ${part}`);
    }
  });
});

describe('data of an answer', () => {
  for (const [name, data, path] of REFUSED) {
    test(`refuses ${name}`, async () => {
      const request = { ...approval('q'), kind: 'reconciliation' };
      const roundtable = conversation([waiter('a', waits(request))], { selector: decisions(speak('a')) });
      const { revision } = await roundtable.run();
      const response = { kind: 'reconciliation', data };
      const resumed = roundtable.resume({ requestId: 'q', responseId: 'r', expectedRevision: revision, response });
      await rejects(resumed, 'invalid-config', `response.${path}`);
      assert.equal(roundtable.snapshot().revision, revision);
    });
  }
});

describe('text', () => {
  test('content keeps every character; lone surrogates become U+FFFD', async () => {
    const said = 'a\u0000\r\n\u2028\ud800 b\udc00 🙂 \\ " \u001f';
    const roundtable = conversation([agent('a', async () => ({ kind: 'speak', content: said }))], {
      selector: decisions(speak('a')),
    });
    await roundtable.run();
    const kept = 'a\u0000\r\n\u2028\ufffd b\ufffd 🙂 \\ " \u001f';
    assert.deepEqual(transcript(roundtable), [`a: ${kept}`]);
    const [, settled] = (await journal(roundtable)).find(([kind]) => kind === 'turn-settled/1');
    assert.equal(settled.outcome.content, kept);
  });

  test('content may be empty and is at most 1 MiB of UTF-16 units', async () => {
    const say = async (content) => {
      const roundtable = conversation([agent('a', async () => ({ kind: 'speak', content }))], {
        selector: decisions(speak('a')),
      });
      return { result: await roundtable.run(), roundtable };
    };
    assert.equal((await say('')).result.status, 'completed');
    const widest = await say('東'.repeat(1024 * 1024));
    assert.equal(widest.result.status, 'completed', widest.result.message);
    const { result } = await say('x'.repeat(1024 * 1024 + 1));
    assert.equal(result.status, 'failed');
    assert.match(result.message, /outcome\.content.*1048576/);
  });

  test('ids of requests are well-formed text of 1 to 512 units', async () => {
    for (const id of ['', 'x'.repeat(513), 'a\ud800', 5, undefined]) {
      const roundtable = conversation([waiter('a', waits({ ...approval('q'), id }))], {
        selector: decisions(speak('a')),
      });
      const result = await roundtable.run();
      assert.equal(result.status, 'failed');
      assert.match(result.message, /requests\[0\]\.id/);
    }
    const long = '識'.repeat(512);
    const roundtable = conversation([waiter('a', waits(approval(long)))], { selector: decisions(speak('a')) });
    assert.equal((await roundtable.run()).requests[0].id, long);
  });

  test('ids with spaces, other scripts and 300 characters work everywhere', async () => {
    const ids = ['two words', '参加者', 'x'.repeat(300), '__proto__', 'constructor'];
    const participants = ids.map((id) =>
      agent(id, async ({ participantId }) => ({ kind: 'speak', content: participantId })),
    );
    const roundtable = conversation(participants, {
      selector: decisions(parallel(...ids)),
      conversationId: '会話 __proto__',
    });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(
      transcript(roundtable),
      ids.map((id) => `${id}: ${id}`),
    );
  });
});

describe('numbers do not wrap', () => {
  test('expectedRevision', async () => {
    const roundtable = conversation([externalParticipant({ id: 'p' })]);
    for (const expectedRevision of [-1, 2 ** 32 + 5, Number.NaN, 1.5, 2 ** 64, '0', 0n, null, undefined]) {
      const code = typeof expectedRevision === 'number' ? 'conflict' : 'invalid-config';
      const input = { participantId: 'p', inputId: 'i', expectedRevision, content: 'x' };
      await rejects(roundtable.submitInput(input), code, 'evision');
    }
    assert.equal(roundtable.snapshot().revision, 0);
  });
});
