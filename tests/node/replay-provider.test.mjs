// The replay provider on the packed package: acceptance rows 1 to 8, 34, matching, deltas, counting.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createReplayProvider,
  createReplayProviderFromSource,
  decodeSessionLog,
  ReplayError,
  SessionLogDecodeError,
  SessionLogPayloadResolutionError,
} from 'agent-roundtable';
import { AT, entry, memory, reference, response, said, sample, thrown, toText } from './support/session-log.mjs';

const replay = (entries, options = {}) =>
  createReplayProvider({ entries: decodeSessionLog(toText(entries)), ...options });
const call = (provider, messages = [], options = {}) =>
  provider.chat(messages, { model: 'm', callId: 'c', ...options });

test('R1 one response with its date, and then exhaustion', async () => {
  const provider = replay([response(said('four', { timestamp: '2027-01-05T09:00:01+01:00' }))]);
  const message = await call(provider);
  assert.deepEqual(message, { ...said('four'), timestamp: new Date(AT) });
  const first = await call(provider).catch((error) => error);
  assert.ok(first instanceof ReplayError && first instanceof Error);
  assert.deepEqual([first.code, first.call, first.total, first.name], ['LOG_EXHAUSTED', 2, 1, 'ReplayError']);
  assert.match(first.message, /exhausted/);
  const second = await call(provider).catch((error) => error);
  assert.equal(second.message, first.message);
});

test('R2 a tool call and then text, in order', async () => {
  const provider = createReplayProvider({ entries: decodeSessionLog(sample('valid-2-tool-turn.jsonl')) });
  const first = await call(provider);
  assert.equal(first.toolCalls[0].function.arguments, '{"city":"Oslo"}');
  assert.deepEqual(first.metadata, { inputTokens: 12, outputTokens: 7 });
  assert.equal((await call(provider)).content, 'It is 09:00.');
});

test('R3 diagnostics alone hold no response', () => {
  const provider = replay([entry('user', { content: 'hi' }), entry('text_delta', { delta: 'x' })]);
  assert.equal(provider.recordedResponseCount, 0);
  assert.deepEqual([provider.name, provider.version, provider.supportsTools()], ['replay', '1.0.0', true]);
});

test('R4 a stream is lazy and yields one chunk', async () => {
  const provider = replay([response(said('four'))], { name: 'n', version: '2' });
  assert.deepEqual([provider.name, provider.version], ['n', '2']);
  const stream = provider.chatStream([], { model: 'm', callId: 'c' });
  assert.equal(provider.consumed, 0);
  const chunks = await collect(stream);
  assert.deepEqual(chunks, [{ ...said('four'), timestamp: new Date(AT) }]);
  assert.equal(provider.consumed, 1);
});

async function collect(stream) {
  const all = [];
  for await (const one of stream) all.push(one);
  return all;
}

test('R5 R7 references without a source are unresolved, in diagnostics too', () => {
  for (const one of [
    response(said(reference('a.json', '"x"'))),
    entry('user', { content: reference('a.json', '"x"') }),
  ]) {
    const error = thrown(() => createReplayProvider({ entries: [one] }));
    assert.ok(error instanceof SessionLogPayloadResolutionError);
    assert.deepEqual([error.code, error.metadata], ['UNRESOLVED_REFERENCE', { relativePath: 'a.json', depth: 0 }]);
  }
});

test('R6 hydrated content is replayed', async () => {
  const source = memory({ 'a.json': '"far away"' });
  const provider = createReplayProvider({
    entries: [response(said(reference('a.json', '"far away"')))],
    externalPayloadSource: source,
  });
  assert.equal((await call(provider)).content, 'far away');
  assert.equal(source.reads.length, 1);
});

test('R8 an unknown role is refused at construction', () => {
  const error = thrown(() => createReplayProvider({ entries: [response(said('x', { role: 'robot' }))] }));
  assert.ok(error instanceof SessionLogDecodeError);
  assert.deepEqual([error.code, error.issues[0].path], ['INVALID_EVENT', '[0].response.role']);
});

test('R34 an unresolved response does not decode', () => {
  const error = thrown(() => createReplayProvider({ entries: [response({ kind: 'other' })] }));
  assert.equal(error.code, 'INVALID_EVENT');
});

test('concurrent calls are answered in the order they were made, and answers are copies', async () => {
  const provider = replay([response(said('one')), response(said('two'), 2)]);
  const [one, two] = await Promise.all([call(provider), call(provider)]);
  assert.deepEqual([one.content, two.content], ['one', 'two']);
  one.content = 'changed';
  one.timestamp.setTime(0);
  provider.reset();
  assert.deepEqual(await call(provider), { ...said('one'), timestamp: new Date(AT) });
});

test('a signal that is aborted already uses nothing', async () => {
  const provider = replay([response(said('one'))]);
  const reason = new Error('stop');
  await assert.rejects(call(provider, [], { signal: AbortSignal.abort(reason) }), reason);
  await assert.rejects(collect(provider.chatStream([], { signal: AbortSignal.abort(reason) })), reason);
  assert.equal(provider.consumed, 0);
});

test('use is counted, asserted and reset', async () => {
  const provider = replay([response(said('one')), response(said('two'), 2)]);
  await call(provider);
  assert.deepEqual([provider.recordedResponseCount, provider.consumed, provider.remaining], [2, 1, 1]);
  const error = thrown(() => provider.assertExhausted());
  assert.deepEqual([error.code, error.remaining, error.total], ['LOG_NOT_EXHAUSTED', 1, 2]);
  await call(provider);
  provider.assertExhausted();
  provider.reset();
  assert.equal(provider.consumed, 0);
});

test('the inherited forms use a slot, echo model and metadata and drop usage', async () => {
  const toolCalls = [{ id: 'c', type: 'function', function: { name: 'n', arguments: '{}' } }];
  const provider = replay([
    response(said(null, { toolCalls, metadata: { inputTokens: 1 } })),
    response(said('two'), 2),
  ]);
  const request = { messages: [], model: 'm', metadata: { trace: 't' } };
  assert.deepEqual(await provider.generateResponse(request), {
    content: null,
    toolCalls,
    model: 'm',
    metadata: { trace: 't' },
  });
  const [chunk] = await collect(provider.generateStreamingResponse(request));
  assert.deepEqual([chunk.content, provider.remaining], ['two', 0]);
  const capabilities = provider.getCapabilities();
  assert.deepEqual(capabilities, { functionCalling: true, nativeWebSearch: false, nativeWebFetch: false });
  assert.equal(provider.validateConfig(), true);
});

const asked = (content, round) =>
  entry('provider_request', {
    executionId: 'x',
    round,
    provider: 'p',
    model: 'm',
    messages: [{ id: 'u', role: 'user', state: 'complete', timestamp: AT, content }],
  });
const live = (content) => [{ id: 'other', role: 'user', state: 'complete', timestamp: new Date(), content }];
const recorded = [asked('a', 1), response(said('one')), asked('b', 2), response(said('two'), 2)];

test('strict compares requests and leaves the cursor on a mismatch', async () => {
  const provider = replay(recorded, { match: 'strict' });
  const error = await call(provider, live('b')).catch((e) => e);
  assert.ok(error instanceof ReplayError);
  assert.deepEqual(
    [error.code, error.call, error.path, provider.consumed],
    ['REQUEST_MISMATCH', 1, 'messages[0].content', 0],
  );
  assert.match(error.expected, /^[0-9a-f]{64}$/);
  assert.notEqual(error.expected, error.actual);
  assert.equal((await call(provider, live('a'))).content, 'one');
  await assert.rejects(call(provider, live('b'), { model: 'k' }), { path: 'model' });
  await assert.rejects(call(provider, live('b'), { tools: [{ name: 't' }] }), { path: 'tools[0]' });
  assert.equal((await call(provider, live('b'))).content, 'two');
});

test('hash answers alike requests in any order; a response without request matches nothing', async () => {
  const provider = replay(recorded, { match: 'hash' });
  assert.equal((await call(provider, live('b'))).content, 'two');
  await assert.rejects(call(provider, live('b')), { code: 'REQUEST_MISMATCH' });
  assert.equal((await call(provider, live('a'))).content, 'one');
  for (const match of ['hash', 'strict']) {
    const without = replay([response(said('one'))], { match });
    await assert.rejects(call(without, live('a')), { code: 'REQUEST_MISMATCH', path: 'request' });
  }
});

const delta = (sequence, text) =>
  entry('provider_stream_raw_delta', { executionId: 'x', round: 1, sequence, delta: text });

test('deltas drive the callback and the stream', async () => {
  const log = [delta(1, 'lo'), delta(0, 'hel'), response(said('hello', { metadata: { outputTokens: 2 } }))];
  const provider = replay(log, { deltas: true });
  const pieces = [];
  const message = await call(provider, [], { onDelta: async (text) => void pieces.push(text) });
  assert.deepEqual([pieces, message.content], [['hel', 'lo'], 'hello']);
  provider.reset();
  const chunks = await collect(provider.chatStream([], {}));
  assert.deepEqual(
    chunks.map(({ content, state, metadata }) => [content, state, metadata]),
    [
      ['hel', 'interrupted', undefined],
      ['lo', 'complete', { outputTokens: 2 }],
    ],
  );
  const silent = replay(log);
  await call(silent, [], { onDelta: () => assert.fail('deltas are off') });
});

test('options of the wrong type are refused at the door', async () => {
  const entries = decodeSessionLog('');
  for (const bad of [{ match: 'any' }, { deltas: 1 }, { name: 3 }]) {
    assert.throws(() => createReplayProvider({ entries, ...bad }), TypeError);
  }
  assert.throws(() => createReplayProvider({ entries, maxExternalPayloadDepth: -1 }), { code: 'INVALID_LIMIT' });
  assert.throws(
    () => createReplayProvider({ entries: {} }),
    (e) => e.issues[0].path === 'entries',
  );
  await assert.rejects(createReplayProviderFromSource({ readText: () => 7 }), TypeError);
});

test('errors of another copy of the package are recognised', () => {
  const twin = Object.assign(new Error('x'), { [Symbol.for('agent-roundtable/ReplayError')]: true });
  assert.ok(twin instanceof ReplayError);
  assert.ok(!(new Error('x') instanceof ReplayError));
});
