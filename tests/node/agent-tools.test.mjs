// Tool calls of a model: arguments that do not fit, tools that fail or return oddities, ids that name nothing.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { calling, execution, open, reply, runOnce, scripted, tool, turn } from './support/agent.mjs';

const boom = new Error('boom');
/** An object that is no promise and has a `then`. */
const resolving = (value) => Object.fromEntries([['then', (done) => done(value)]]);

test('what goes wrong in a tool is told to the model, and the turn goes on', async () => {
  const results = {
    throws: [
      () => {
        throw boom;
      },
      '{"error":{"code":"tool-failed","message":"boom"}}',
    ],
    rejects: [
      async () => {
        throw 'text';
      },
      '{"error":{"code":"tool-failed","message":"text"}}',
    ],
    nothing: [() => undefined, /"code":"invalid-result".*undefined/],
    date: [() => new Date(), /"code":"invalid-result".*result.*Date/],
    nan: [() => ({ a: [NaN] }), /"code":"invalid-result".*result\.a\[0\] is NaN/],
    bigint: [() => 1n, /"code":"invalid-result".*BigInt/],
    throwsNull: [
      () => {
        throw null;
      },
      /"code":"tool-failed"/,
    ],
    thenable: [() => resolving({ ok: true }), '{"ok":true}'],
    surrogate: [() => 'a\ud800', 'a\ufffd'],
  };
  for (const [name, [execute, expected]] of Object.entries(results)) {
    const provider = scripted(calling(['t1', name, {}]), reply('went on'));
    assert.deepEqual(await runOnce({ provider, tools: [tool(name, execute)] }), { kind: 'speak', content: 'went on' });
    const { content } = provider.requests[1].messages.at(-1);
    if (typeof expected === 'string') assert.equal(content, expected);
    else assert.match(content, expected, name);
  }
});

test('malformed arguments, a wrong type and an unknown tool are told to the model, and no tool runs', async () => {
  const add = tool('add', () => assert.fail('must not run'), {
    type: 'object',
    properties: { n: { type: 'integer' } },
    required: ['n'],
  });
  const provider = scripted(
    calling(['t1', 'add', '{"n":'], ['t2', 'add', { n: '1' }], ['t3', 'add', ''], ['t4', 'sub', {}]),
    reply('went on'),
  );
  await runOnce({ provider, tools: [add] });
  const contents = provider.requests[1].messages
    .filter((m) => m.role === 'tool')
    .map((m) => JSON.parse(m.content).error);
  assert.deepEqual(
    contents.map((e) => e.code),
    ['invalid-arguments', 'invalid-arguments', 'invalid-arguments', 'unknown-tool'],
  );
  assert.match(contents[1].message, /arguments\.n: expected integer, found string/);
  assert.match(contents[2].message, /arguments\.n: missing/);
  assert.match(contents[3].message, /add/);
});

test('arguments of the wrong type against any keyword that is checked are told to the model, with their path', async () => {
  const $defs = { id: { type: 'integer' } };
  const cases = [
    [{ properties: { n: { type: 'integer' } } }, { n: 1.5 }, 'arguments.n'],
    [{ properties: { n: { type: ['string', 'null'] } } }, { n: 1 }, 'arguments.n'],
    [{ required: ['n'] }, { m: 1 }, 'arguments.n'],
    [{ properties: { n: { enum: ['a', 'b'] } } }, { n: 'c' }, 'arguments.n'],
    [{ properties: { n: { const: [1] } } }, { n: [2] }, 'arguments.n'],
    [{ properties: { n: true }, additionalProperties: false }, { n: 1, m: 2 }, 'arguments.m'],
    [{ additionalProperties: { type: 'string' } }, { m: 2 }, 'arguments.m'],
    [{ properties: { n: { items: { type: 'string' } } } }, { n: ['a', 1] }, 'arguments.n[1]'],
    [{ properties: { n: { minItems: 2 } } }, { n: [1] }, 'arguments.n'],
    [{ properties: { n: { minimum: 1 } } }, { n: 0 }, 'arguments.n'],
    [{ properties: { n: { exclusiveMaximum: 1 } } }, { n: 1 }, 'arguments.n'],
    [{ properties: { n: { maxLength: 2 } } }, { n: 'abc' }, 'arguments.n'],
    [{ properties: { n: { anyOf: [{ type: 'string' }, { type: 'null' }] } } }, { n: 1 }, 'arguments.n'],
    [{ properties: { n: { oneOf: [{ minimum: 1 }, { minimum: 2 }] } } }, { n: 3 }, 'arguments.n'],
    [{ properties: { n: { allOf: [{ minimum: 1 }, { maximum: 2 }] } } }, { n: 3 }, 'arguments.n'],
    [{ properties: { n: { not: { type: 'string' } } } }, { n: 'a' }, 'arguments.n'],
    [{ properties: { n: { $ref: '#/$defs/id' } }, $defs }, { n: 'a' }, 'arguments.n'],
    [{ properties: { n: false } }, { n: 1 }, 'arguments.n'],
    [true, '[1', 'arguments'],
  ];
  for (const [schema, args, path] of cases) {
    const provider = scripted(calling(['t1', 'add', args]), reply('went on'));
    const add = tool('add', () => assert.fail('must not run'), schema);
    assert.equal((await runOnce({ provider, tools: [add] })).content, 'went on');
    const { error } = JSON.parse(provider.requests[1].messages.at(-1).content);
    assert.equal(error.code, 'invalid-arguments', JSON.stringify(schema));
    if (path !== 'arguments') assert.ok(error.message.startsWith(`${path}: `), error.message);
  }
  const fits = { type: 'object', properties: { n: { type: 'integer', minimum: 1 }, s: { maxLength: 2 } } };
  for (const args of [{ n: 1 }, { n: 1e3 }, { s: '\u{1f600}\u{1f600}' }, { other: 1 }, '', '  ']) {
    const provider = scripted(calling(['t1', 'add', args]), reply('ran'));
    await runOnce({ provider, tools: [tool('add', () => 'added', fits)] });
    assert.equal(provider.requests[1].messages.at(-1).content, 'added', JSON.stringify(args));
  }
});

test('arguments whose check would take for ever are refused, and the turn goes on', async () => {
  const choices = (depth) =>
    depth === 0
      ? { type: 'string' }
      : { anyOf: [{ $ref: `#/$defs/d${depth - 1}` }, { $ref: `#/$defs/d${depth - 1}` }] };
  const $defs = Object.fromEntries(Array.from({ length: 41 }, (_, depth) => [`d${depth}`, choices(depth)]));
  const add = tool('add', () => assert.fail('must not run'), { properties: { n: { $ref: '#/$defs/d40' } }, $defs });
  const provider = scripted(calling(['t1', 'add', { n: 1 }]), reply('went on'));
  assert.equal((await runOnce({ provider, tools: [add] })).content, 'went on');
  assert.match(provider.requests[1].messages.at(-1).content, /"code":"invalid-arguments".*steps/);
  const round = tool('round', () => assert.fail('must not run'), { anyOf: [{ $ref: '#' }] });
  const turning = scripted(calling(['t1', 'round', {}]), reply('went on'));
  assert.equal((await runOnce({ provider: turning, tools: [round] })).content, 'went on');
  assert.match(turning.requests[1].messages.at(-1).content, /"code":"invalid-arguments".*steps/);
});

test('a result or an error of a tool that is too long is told to the model in short, and the turn goes on', async () => {
  const outcomes = {
    long: [() => 'x'.repeat(1024 * 1024 + 1), /^\{"error":\{"code":"invalid-result".*longer than 1048576/],
    data: [() => ['x'.repeat(1024 * 1024)], /^\{"error":\{"code":"invalid-result".*longer than 1048576/],
    fits: [() => 'x'.repeat(1024 * 1024), /^x{1048576}$/],
  };
  for (const [name, [execute, expected]] of Object.entries(outcomes)) {
    const provider = scripted(calling(['t1', name, {}]), reply('went on'));
    assert.equal((await runOnce({ provider, tools: [tool(name, execute)] })).content, 'went on');
    assert.match(provider.requests[1].messages.at(-1).content, expected, name);
  }
  const failing = tool('fails', () => {
    throw new Error('y'.repeat(20_000));
  });
  const provider = scripted(calling(['t1', 'fails', {}]), reply('went on'));
  await runOnce({ provider, tools: [failing] });
  const { error } = JSON.parse(provider.requests[1].messages.at(-1).content);
  assert.deepEqual([error.code, error.message], ['tool-failed', 'y'.repeat(8192)]);
  const many = Array.from({ length: 20 }, (_, n) => tool(`${n} ${'z'.repeat(500)}`, () => 1));
  const lost = scripted(calling(['t1', 'nowhere', {}]), reply('went on'));
  await runOnce({ provider: lost, tools: many });
  const { error: unknown } = JSON.parse(lost.requests[1].messages.at(-1).content);
  assert.equal(unknown.code, 'unknown-tool');
  assert.ok(unknown.message.length === 8192 && unknown.message.endsWith('\u2026'), String(unknown.message.length));
});

test('histories are closed: calls without an id, or with one twice, have ids of their own and one result each', async () => {
  const ids = ['', 'same', 'same', '', 'a1:call:1:tool:0'];
  const provider = scripted(calling(...ids.map((id, n) => [id, 'look', { n }])), reply('ok'), reply('again'));
  const seen = [];
  const look = tool('look', ({ n }, { toolCallId }) => {
    seen.push(toolCallId);
    return n;
  });
  const lease = await open({ provider, tools: [look] });
  await lease.session.runTurn(turn('a1'), execution());
  const { append } = await lease.session.checkpoint();
  const { toolCalls } = provider.requests[1].messages[1];
  const results = provider.requests[1].messages.slice(2);
  assert.equal(new Set(toolCalls.map(({ id }) => id)).size, ids.length);
  assert.ok(toolCalls.every(({ id }) => id !== ''));
  assert.deepEqual(
    results.map(({ toolCallId, content }) => [toolCallId, content]),
    toolCalls.map(({ id }, n) => [id, String(n)]),
  );
  assert.deepEqual(
    seen,
    toolCalls.map(({ id }) => id),
  );
  const checkpoint = { ...(await lease.session.checkpoint()), append };
  await lease.release();
  const next = await open({ provider, tools: [look] }, { checkpoint });
  assert.equal((await next.session.runTurn(turn('a2'), execution())).content, 'again');
  await next.release();
});
