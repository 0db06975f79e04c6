// Host callbacks that throw, return nothing, return odd things: a clear result each time, never a hang.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  calling,
  execution,
  open,
  reply,
  runOnce,
  scripted,
  services,
  tool,
  turn,
  unhandled,
} from './support/agent.mjs';

const boom = new Error('boom');
/** An object that is no promise and has a `then` like this. */
const thenable = (then) => Object.fromEntries([['then', then]]);
const resolving = (value) => thenable((done) => done(value));
const twice = thenable((done, fail) => {
  done(reply('first'));
  fail(boom);
  done(reply('second'));
});

test('a provider that throws at once or later fails the turn with its own error, and the call is reported failed', async () => {
  const unreadable = Object.defineProperty({}, 'then', {
    get() {
      throw boom;
    },
  });
  const chats = [
    () => {
      throw boom;
    },
    async () => {
      throw boom;
    },
    () => thenable((_, fail) => fail(boom)),
    () => unreadable,
  ];
  for (const chat of chats) {
    const noted = services();
    const seen = await unhandled(() =>
      assert.rejects(runOnce({ provider: { name: 'p', chat } }, { services: noted }), (e) => e === boom),
    );
    assert.deepEqual(seen, []);
    assert.deepEqual(noted.reports, [{ callId: 'a1:call:1', outcome: 'failed', provenance: 'unknown', final: true }]);
  }
});

test('a provider may answer at once or through any thenable; the first answer counts', async () => {
  for (const chat of [() => reply('ok'), () => resolving(reply('ok'))]) {
    assert.deepEqual(await runOnce({ provider: { name: 'p', chat } }), { kind: 'speak', content: 'ok' });
  }
  assert.deepEqual(await runOnce({ provider: { name: 'p', chat: () => twice } }), { kind: 'speak', content: 'first' });
});

test('a reply that is none names what is wrong, and its call is reported failed', async () => {
  const cyclic = reply('x', { metadata: {} });
  cyclic.metadata.self = cyclic.metadata;
  const deep = JSON.parse(`${'['.repeat(10_000)}${']'.repeat(10_000)}`);
  const cases = [
    [undefined, /reply must be a plain object, not undefined/],
    [null, /reply must be a plain object, not null/],
    ['text', /reply must be a plain object, not a string/],
    [[reply('x')], /reply must be a plain object, not an array/],
    [
      new (class Message {
        content = 'x';
      })(),
      /reply must be a plain object/,
    ],
    [{}, /reply\.id: missing/],
    [{ ...reply('x'), role: 'tool', toolCallId: 't' }, /reply\.role: expected 'assistant', found 'tool'/],
    [{ ...reply('x'), role: 'user' }, /reply\.role/],
    [reply('x', { id: '\ud800' }), /reply\.id holds a lone surrogate/],
    [reply('x', { id: 'i'.repeat(513) }), /reply\.id: longer than 512/],
    [calling(['t\ud800', 'look', {}]), /reply\.toolCalls\[0\]\.id holds a lone surrogate/],
    [calling(['t', 'look\udc00', {}]), /reply\.toolCalls\[0\]\.function\.name holds a lone surrogate/],
    [calling(['t'.repeat(513), 'look', {}]), /reply\.toolCalls\[0\]\.id: longer than 512/],
    [calling(['t', 'l'.repeat(513), {}]), /reply\.toolCalls\[0\]\.function\.name: longer than 512/],
    [reply(7), /reply\.content: expected a string, found number/],
    [
      reply('x', { parts: ['x', 'y'].map((c) => c.repeat(4_000_000)) }),
      /reply: longer than 7340032 UTF-16 units as JSON/,
    ],
    [reply('x', { timestamp: '2027-01-05' }), /reply\.timestamp: expected a date/],
    [reply('x', { timestamp: new Date(NaN) }), /reply\.timestamp is an invalid date/],
    [reply('x', { state: 'interrupted' }), /reply\.state/],
    [reply('x', { state: undefined }), /reply\.state: missing/],
    [reply('x'.repeat(1024 * 1024 + 1)), /reply\.content: longer than 1048576/],
    [reply('x', { toolCalls: 'none' }), /reply\.toolCalls must be an array/],
    [reply('x', { toolCalls: [{ id: 't' }] }), /reply\.toolCalls\[0\]\.function/],
    [reply('x', { metadata: { n: 1n } }), /reply\.metadata\.n must be JSON, not a BigInt/],
    [reply('x', { metadata: { n: NaN } }), /reply\.metadata\.n is NaN/],
    [reply('x', { metadata: { m: new Map() } }), /reply\.metadata\.m/],
    [reply('x', { metadata: { f() {} } }), /reply\.metadata\.f/],
    [reply('x', { metadata: 'none' }), /reply\.metadata: expected an object/],
    [reply('x', { parts: Object.assign(Array(3), { 0: 1, 2: 3 }) }), /reply\.parts\[1\] is a hole/],
    // The reply is a level of its own around its members, which may have 100.
    [reply('x', { parts: deep }), /nested deeper than 101/],
    [cyclic, /reply\.metadata\.self contains itself/],
  ];
  for (const [odd, message] of cases) {
    const noted = services();
    await assert.rejects(
      runOnce({ provider: { name: 'p', chat: async () => odd } }, { services: noted }),
      (error) => error.code === 'EXECUTION_REPLY_INVALID' && message.test(error.message),
    );
    assert.deepEqual(
      noted.reports.map((r) => r.outcome),
      ['failed'],
      String(message),
    );
  }
});

test('a reply has at most 256 tool calls: one more names the field and the bound', async () => {
  const calls = (count) => reply(null, { toolCalls: Array.from({ length: count }, (_, i) => whole(`t${i}`)) });
  const whole = (id) => ({ id, type: 'function', function: { name: 'x', arguments: '{}' } });
  const ran = [];
  const tools = [tool('x', () => ran.push(1))];
  await runOnce({ provider: scripted(calls(256), reply('done')), tools });
  assert.equal(ran.length, 256);
  for (const count of [257, 300])
    await assert.rejects(runOnce({ provider: scripted(calls(count)), tools }), {
      code: 'EXECUTION_REPLY_INVALID',
      message: /reply\.toolCalls: more than 256 calls in one reply/,
    });
  assert.equal(ran.length, 256);
});

test('members that are undefined count as absent', async () => {
  const odd = reply('ok', {
    name: undefined,
    toolCalls: undefined,
    metadata: { a: undefined, inputTokens: 1, outputTokens: 1, usageProvenance: 'complete' },
  });
  assert.deepEqual(await runOnce({ provider: scripted(odd) }), { kind: 'speak', content: 'ok' });
});

test('a stream that is none, ends early, or yields oddities names what is wrong', async () => {
  const part = (content, extra) => reply(content, { state: 'interrupted', ...extra });
  const streams = [
    [() => undefined, /chatStream did not return an async iterable/],
    [async () => [], /chatStream did not return an async iterable/],
    [async function* () {}, /ended without a message/],
    [
      async function* () {
        yield part('a');
      },
      /ended without a complete message/,
    ],
    [
      async function* () {
        yield undefined;
      },
      /yielded no message: message must be a plain object, not undefined/,
    ],
    [
      async function* () {
        yield reply(5);
      },
      /message\.content must be a string or null/,
    ],
    [
      async function* () {
        for (;;) yield part('x'.repeat(500_000));
      },
      /more than 1048576/,
    ],
    [
      async function* () {
        yield part('a');
        yield { ...reply('b'), role: 'tool', toolCallId: 't' };
      },
      /message\.role must be assistant/,
    ],
    [
      async function* () {
        yield part('SECRET', { role: 'tool', toolCallId: 't' });
        yield reply('b');
      },
      /message\.role must be assistant/,
    ],
  ];
  for (const [chatStream, message] of streams) {
    const provider = { name: 'p', chatStream };
    await assert.rejects(runOnce({ provider }), { code: 'EXECUTION_REPLY_INVALID', message });
  }
  const own = {
    name: 'p',
    async *chatStream() {
      yield part('a');
      throw boom;
    },
  };
  await assert.rejects(runOnce({ provider: own }), (error) => error === boom);
});

test('a stream is preferred to chat; its texts are joined under the last id, its tool calls come whole', async () => {
  const seen = [];
  const look = tool('look', (args) => {
    seen.push(args);
    return 'seen';
  });
  let round = 0;
  const provider = {
    name: 'p',
    chat: () => assert.fail('chat must not be called'),
    async *chatStream(messages, options) {
      assert.equal(options.onDelta, undefined);
      if (round++ === 0) {
        yield reply('Let me ', { state: 'interrupted', id: 'x1' });
        yield { ...calling(['t1', 'look', { at: 1 }]), state: 'interrupted' };
        yield reply('look.', { id: 'x2' });
      } else {
        const said = messages[1];
        assert.deepEqual([said.id, said.content, said.toolCalls.length], ['x2', 'Let me look.', 1]);
        yield reply(null, { state: 'interrupted' });
        yield reply('\ud83d', { state: 'interrupted' });
        yield reply('\ude00 done');
      }
    },
  };
  const options = execution();
  const lease = await open({ provider, tools: [look] });
  assert.deepEqual(await lease.session.runTurn(turn(), options), { kind: 'speak', content: '\u{1f600} done' });
  assert.deepEqual(seen, [{ at: 1 }]);
  assert.deepEqual(options.deltas, ['Let me ', 'look.', '\u{1f600} done'], 'halves of a pair are joined');
});

test('tool calls of a stream are joined, in whichever of its messages they come', async () => {
  let round = 0;
  const [one, two, three] = ['1', '2', '3'].map((id) => calling([id, 'look', { id }]).toolCalls[0]);
  const provider = {
    name: 'p',
    async *chatStream(messages) {
      if (round++ > 0) {
        yield reply(
          messages
            .filter(({ role }) => role === 'tool')
            .map(({ content }) => content)
            .join(' '),
        );
        return;
      }
      yield reply(null, { state: 'interrupted', toolCalls: [one] });
      yield reply('and', { state: 'interrupted' });
      yield reply(null, { state: 'interrupted', toolCalls: [two, three] });
      yield reply(null, { toolCalls: undefined });
    },
  };
  const look = tool('look', ({ id }) => id);
  assert.deepEqual(await runOnce({ provider, tools: [look] }), { kind: 'speak', content: '1 2 3' });
});

test('K15 a lone surrogate in content becomes U+FFFD, in tool arguments it is an error the model is told', async () => {
  assert.deepEqual(await runOnce({ provider: scripted(reply('a\ud800b')) }), { kind: 'speak', content: 'a\ufffdb' });
  const provider = scripted(
    calling(['t1', 'look', '{"x":"\udc00"}'], ['t2', 'look', '{"x":"\ud83d\ude00"}']),
    reply('ok'),
  );
  const look = tool('look', ({ x }) => x);
  await runOnce({ provider, tools: [look] });
  const [bad, good] = provider.requests[1].messages.filter((m) => m.role === 'tool').map((m) => m.content);
  assert.match(bad, /"code":"invalid-arguments"/);
  assert.equal(good, '\u{1f600}');
});

test('a reply keeps nothing that only a tool message has', async () => {
  const odd = scripted(reply('one', { toolCallId: 't', name: 'look' }), reply('two'));
  const lease = await open({ provider: odd });
  await lease.session.runTurn(turn('a1'), execution());
  await lease.session.runTurn(turn('a2'), execution());
  assert.deepEqual(Object.keys(odd.requests[1].messages[1]).sort(), ['content', 'id', 'role', 'state', 'timestamp']);
  await lease.release();
});

test('a refused admission calls nothing and keeps the refusal as cause', async () => {
  const refusal = Object.assign(new Error('spent'), { code: 'model-call-limit' });
  const provider = scripted(reply('never'));
  const noted = services({ admit: () => Promise.reject(refusal) });
  await assert.rejects(runOnce({ provider }, { services: noted }), (error) => {
    assert.equal(error.code, 'EXECUTION_JOURNAL_FAILED');
    assert.equal(error.cause, refusal);
    return true;
  });
  assert.deepEqual([provider.requests.length, noted.reports.length], [0, 0]);
});

test('services that throw at once or return nothing are no hang', async () => {
  const thrown = {
    admitModelCall: () => {
      throw boom;
    },
    recordUsage: () => undefined,
  };
  await assert.rejects(runOnce({ provider: scripted(reply('x')) }, { services: thrown }), {
    code: 'EXECUTION_JOURNAL_FAILED',
    cause: boom,
  });
  const silent = { admitModelCall: () => undefined, recordUsage: () => undefined };
  assert.deepEqual(await runOnce({ provider: scripted(reply('x')) }, { services: silent }), {
    kind: 'speak',
    content: 'x',
  });
  const late = {
    admitModelCall: () => undefined,
    recordUsage: () => {
      throw boom;
    },
  };
  await assert.rejects(runOnce({ provider: scripted(reply('x')) }, { services: late }), { cause: boom });
});

test('K14 an abort in a turn whose journal failed as well has that failure as its cause', async () => {
  const controller = new AbortController();
  const reason = new Error('stop');
  const noted = services({
    report: () => {
      controller.abort(reason);
      throw boom;
    },
  });
  await assert.rejects(
    runOnce({ provider: scripted(reply('x')) }, { signal: controller.signal, services: noted }),
    (error) => {
      assert.equal(error.name, 'AbortError');
      assert.equal(error.reason, reason);
      assert.equal(error.cause.code, 'EXECUTION_JOURNAL_FAILED');
      assert.equal(error.cause.cause, boom);
      return true;
    },
  );
});

test('a cache is asked before admission; a hit is free, a miss is called, a failure is thrown', async () => {
  const noted = services();
  const metadata = { inputTokens: 3, outputTokens: 1, usageProvenance: 'complete' };
  const hit = {
    name: 'p',
    chat: () => assert.fail('must not be called'),
    cached: async () => reply('kept', { metadata }),
  };
  assert.deepEqual(await runOnce({ provider: hit }, { services: noted }), { kind: 'speak', content: 'kept' });
  const report = {
    callId: 'a1:call:1',
    outcome: 'cache-hit',
    provenance: 'reported',
    tokens: { input: 3, output: 1 },
    final: true,
    providerId: 'p',
    modelId: 'm',
  };
  assert.deepEqual(noted.log, [['report', report]]);
  for (const none of [undefined, null]) {
    const miss = { name: 'p', chat: async () => reply('fresh'), cached: () => none };
    assert.deepEqual(await runOnce({ provider: miss }), { kind: 'speak', content: 'fresh' });
  }
  const broken = {
    name: 'p',
    chat: () => assert.fail('must not be called'),
    cached: () => {
      throw boom;
    },
  };
  await assert.rejects(runOnce({ provider: broken }), (error) => error === boom);
  const odd = { name: 'p', chat: () => assert.fail('must not be called'), cached: async () => ({}) };
  await assert.rejects(runOnce({ provider: odd }), { code: 'EXECUTION_REPLY_INVALID' });
});
