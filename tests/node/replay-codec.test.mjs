// Decoding on the packed package: acceptance rows 11 to 26, 30 to 38 and 46 to 62 as hosts meet them.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import vm from 'node:vm';
import {
  createReplayProvider,
  createReplayProviderFromSource,
  decodeSessionLog,
  loadSessionLog,
  rebuildHistory,
  SessionLogDecodeError,
  validateSessionLog,
} from 'agent-roundtable';
import {
  AT,
  entry,
  memory,
  paths,
  reference,
  response,
  said,
  sample,
  thrown,
  toolResult,
  toText,
} from './support/session-log.mjs';

const ask = (forcedSummary) =>
  entry('provider_request', { executionId: 'x', round: 1, provider: 'p', model: 'm', messages: [], forcedSummary });
const append = (message) => entry('history_mutation', { mutation: 'append_message', index: 0, message });

test('R11 forcedSummary is a boolean', () => {
  assert.equal(decodeSessionLog(toText([ask(true)]))[0].forcedSummary, true);
  assert.deepEqual(paths(thrown(() => decodeSessionLog(toText([ask('true')])))), ['line 1.forcedSummary']);
});

test('R12 dates are revived and decoding again changes nothing', () => {
  const log = [
    append(said('a')),
    response(said('b')),
    entry('assistant_message_committed', { executionId: 'x', round: 1, message: 'text' }),
    entry('server_tool', { tool: 't', message: { timestamp: AT } }),
    ask(false),
  ];
  const entries = decodeSessionLog(toText(log));
  assert.deepEqual(entries[0].message.timestamp, new Date(AT));
  assert.deepEqual(entries[1].response.timestamp, new Date(AT));
  assert.deepEqual([entries[1].timestamp, entries[2].message, entries[3].message.timestamp], [AT, 'text', AT]);
  assert.deepEqual(rebuildHistory([...entries]), rebuildHistory(entries));
  assert.ok(Array.isArray(entries) && Object.isFrozen(entries) && Object.isFrozen(entries[1].response));
  assert.deepEqual(JSON.parse(JSON.stringify(entries)), log);
  assert.equal(createReplayProvider({ entries: [...entries] }).recordedResponseCount, 1);
});

test('R13 a null field is named', () => {
  assert.deepEqual(paths(thrown(() => validateSessionLog([entry('user', { content: null })]))), ['[0].content']);
});

test('R14 a forced-summary text and abnormal history fields are accepted', () => {
  const log = [{ ...append(said('a')), providerError: true, usageObservationId: 'u' }];
  assert.equal(decodeSessionLog(toText(log))[0].providerError, true);
});

test('R15 R18 values that are no JSON are refused with their path', () => {
  class Odd {}
  const cyclic = {};
  cyclic.self = cyclic;
  let deep = 1;
  for (let i = 0; i < 10_000; i += 1) deep = [deep];
  const cases = [
    new Odd(),
    new Map(),
    new Set(),
    new Uint8Array(1),
    new URL('http://a/'),
    () => 1,
    Symbol('s'),
    1n,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    new Date(),
    new Date(Number.NaN),
    '\ud800',
    cyclic,
    deep,
    [undefined],
    new Array(2),
    {
      get a() {
        return 1;
      },
    },
    { '\udc00': 1 },
  ];
  for (const value of cases) {
    const payload = {
      executionId: 'x',
      round: 1,
      provider: 'p',
      payloadKind: 'response',
      sequence: 0,
      payload: { a: 1, nested: value },
    };
    const error = thrown(() => validateSessionLog([entry('provider_native_raw_payload', payload)]));
    assert.equal(error.code, 'INVALID_EVENT');
    assert.match(error.issues[0].path, /^\[0\]\.payload\.nested/);
  }
  const sparse = [];
  sparse[1] = entry('user', { content: 'ok' });
  assert.deepEqual(paths(thrown(() => validateSessionLog(sparse))), ['[0]']);
  assert.equal(thrown(() => validateSessionLog(new Array(4e9))).issues.length, 1000);
});

test('undefined members are absent, and plain objects of every kind are plain', () => {
  const bare = Object.assign(Object.create(null), entry('user', { content: 'ok', note: undefined }));
  const foreign = vm.runInNewContext(`(${JSON.stringify(response(said('x')))})`);
  foreign.response.timestamp = vm.runInNewContext(`new Date('${AT}')`);
  assert.deepEqual(validateSessionLog([bare, foreign]), { ok: true, issues: [] });
  const own = JSON.parse('{"tool":"t","__proto__":{"x":1}}');
  assert.equal(validateSessionLog([{ ...entry('server_tool', {}), ...own, ['__proto__']: own }]).ok, true);
  assert.equal({}.x, undefined);
});

test('R16 versions and events are located and show no content', () => {
  const log = [{ ...entry('user', { content: 'secret' }), schemaVersion: 2 }, entry('secret-event', {})];
  const error = thrown(() => decodeSessionLog(toText(log)));
  assert.ok(error instanceof SessionLogDecodeError);
  assert.deepEqual(
    [error.code, error.schemaVersion, paths(error)],
    ['UNSUPPORTED_VERSION', 2, ['line 1.schemaVersion', 'line 2.event']],
  );
  assert.doesNotMatch(String(error) + JSON.stringify(error.issues), /secret/);
});

test('R17 R25 rebuilding and validating decode first', () => {
  const { id: _, ...nameless } = said('a');
  for (const helper of [rebuildHistory, validateSessionLog]) {
    assert.deepEqual(paths(thrown(() => helper([append(nameless)]))), ['[0].message.id']);
    const log = [entry('user', { content: 'x' }), append(said('a', { role: 'robot' }))];
    assert.deepEqual(paths(thrown(() => helper(log))), ['[1].message.role']);
  }
});

test('R19 to R21 R24 what is missing or mistyped is named', () => {
  const context = { maxTokens: 1, usedTokens: 1, usedPercentage: 1, remainingPercentage: 1 };
  const cases = [
    [{ ...entry('user', { content: 'x' }), sessionId: '' }, 'line 2.sessionId'],
    [append(said('a', { timestamp: undefined })), 'line 2.message.timestamp'],
    [
      entry('context_compact', { trigger: 'a', before: { ...context, usedTokens: '1' }, after: context }),
      'line 2.before.usedTokens',
    ],
    [
      entry('tool_execution_request', {
        executionId: 'x',
        round: 1,
        toolName: 't',
        toolCallId: 'c',
        parameters: {},
        ownerPath: [{ type: 'a' }],
      }),
      'line 2.ownerPath[0].id',
    ],
    [entry('text_delta', { delta: 3 }), 'line 2.delta'],
  ];
  for (const [one, path] of cases)
    assert.deepEqual(paths(thrown(() => decodeSessionLog(`\n${toText([one])}`))), [path]);
});

test('R22 a cyclic tool schema stops with its path', () => {
  const parameters = { type: 'object', properties: {} };
  parameters.properties.again = parameters;
  const init = { cwd: '/', systemPromptLength: 0, systemPrompt: '', model: 'm', provider: 'p' };
  const error = thrown(() =>
    validateSessionLog([entry('session_init', { ...init, toolSchemas: [{ name: 'n', description: '', parameters }] })]),
  );
  assert.deepEqual(paths(error), ['[0].toolSchemas[0].parameters.properties.again']);
});

test('R23 a class instance is no entry', () => {
  class Entry {}
  const error = thrown(() => validateSessionLog([Object.assign(new Entry(), entry('user', { content: 'x' }))]));
  assert.deepEqual(paths(error), ['[0]']);
});

test('R26 truncated JSON keeps its line and cause; lone surrogates are no JSON', () => {
  const error = thrown(() => decodeSessionLog(sample('invalid-3-truncated.jsonl')));
  assert.deepEqual([error.code, paths(error), error.cause instanceof SyntaxError], ['INVALID_JSON', ['line 3'], true]);
  const lone = thrown(() => decodeSessionLog(`\n${toText([entry('user', { content: 'x' })]).replace('x', '\ud800')}`));
  assert.deepEqual([lone.code, paths(lone)], ['INVALID_JSON', ['line 2']]);
  assert.throws(() => decodeSessionLog(7), TypeError);
});

test('R30 R37 R46 R47 R58 payloads are hydrated from the exact budget', async () => {
  const inner = '[true]';
  const outer = JSON.stringify({ inner: reference('in.json', inner) });
  const files = { 'in.json': inner, 'out.json': outer };
  const text = toText([toolResult([reference('out.json', outer), reference('in.json', inner)])]);
  const budget = outer.length + 2 * inner.length;
  const source = memory(files);
  const options = { externalPayloadSource: source, maxExternalPayloadTotalBytes: budget };
  assert.deepEqual(decodeSessionLog(text, options)[0].result, [{ inner: [true] }, [true]]);
  assert.deepEqual(source.reads, [
    ['out.json', budget],
    ['in.json', 12],
    ['in.json', 6],
  ]);

  const slow = {
    readText: async () => text,
    externalPayloadSource: { readBytes: async (path) => new TextEncoder().encode(files[path]) },
  };
  assert.deepEqual((await loadSessionLog(slow))[0].result, [{ inner: [true] }, [true]]);
  assert.equal((await createReplayProviderFromSource(slow)).recordedResponseCount, 0);
  await assert.rejects(loadSessionLog(slow, { maxExternalPayloadTotalBytes: budget - 1 }), {
    code: 'MAX_TOTAL_BYTES_EXCEEDED',
  });
});

test('R31 history is rebuilt in order', () => {
  const entries = decodeSessionLog(toText([append(said('a')), append(said('b', { id: 'm2' }))]));
  const history = rebuildHistory(entries);
  assert.deepEqual(
    history.messages.map((message) => message.content),
    ['a', 'b'],
  );
  assert.deepEqual(history.history[1], {
    id: 'm2',
    timestamp: new Date(AT),
    category: 'chat',
    type: 'assistant',
    data: history.messages[1],
  });
  assert.deepEqual([history.sessionId, history.createdAt, history.cwd], ['s', AT, undefined]);
});

test('R32 R33 R35 completeness', () => {
  const key = { executionId: 'x', round: 1 };
  const request = ask(false);
  const tool = entry('tool_execution_request', { ...key, toolName: 't', toolCallId: 'c', parameters: {} });
  const lonely = validateSessionLog(decodeSessionLog(toText([request, tool])));
  assert.deepEqual(
    [lonely.ok, lonely.issues.map((issue) => issue.code)],
    [
      false,
      [
        'PROVIDER_NATIVE_RAW_PAYLOAD_MISSING',
        'PROVIDER_RESPONSE_RAW_MISSING',
        'PROVIDER_RESPONSE_NORMALIZED_MISSING',
        'TOOL_RESULT_MISSING',
      ],
    ],
  );
  assert.deepEqual([lonely.issues[3].toolCallId, lonely.issues[3].eventIndex], ['c', 1]);
  const whole = [
    request,
    entry('provider_native_raw_payload', { ...key, provider: 'p', payloadKind: 'stream_event', sequence: 0 }),
    entry('provider_response_raw', { ...key, response: said('a'), responseKind: 'k' }),
    response(said('a')),
  ];
  assert.deepEqual(validateSessionLog(whole), { ok: true, issues: [] });
  const left = validateSessionLog([toolResult(reference('a', '1')), toolResult({ kind: 'external-payload' })]);
  assert.deepEqual(
    left.issues.map((issue) => issue.code),
    ['UNRESOLVED_REPLAY_PAYLOAD', 'PAYLOAD_REFERENCE_INVALID'],
  );
});

test('R36 only the modules for Node can open paths', () => {
  const code = new URL('../node_modules/agent-roundtable/dist/replay/', import.meta.url);
  for (const name of readdirSync(code).filter((file) => file.endsWith('.js'))) {
    const opens = /node:fs/.test(readFileSync(new URL(name, code), 'utf8'));
    assert.equal(opens, name.startsWith('node-'), name);
  }
});

test('R38 a bare path is no source', async () => {
  await assert.rejects(loadSessionLog('log.jsonl'), TypeError);
  await assert.rejects(createReplayProviderFromSource('log.jsonl'), TypeError);
});

test('R48 R49 R55 to R57 each failure has its code and says what it knows', () => {
  const good = reference('a.json', '1');
  const nested = JSON.stringify([good]);
  const cases = [
    [{ ...good, extra: 1 }, {}, 'INVALID_REFERENCE'],
    [reference('b.json', '1'), {}, 'PAYLOAD_NOT_FOUND'],
    [{ ...good, byteLength: 2 }, {}, 'BYTE_LENGTH_MISMATCH', { expected: 2, actual: 1 }],
    [{ ...good, sha256: '0'.repeat(64) }, {}, 'SHA256_MISMATCH', { expected: '0'.repeat(64) }],
    [reference('bad.json', '{'), {}, 'INVALID_JSON'],
    [reference('n.json', nested), { maxExternalPayloadDepth: 1 }, 'MAX_DEPTH_EXCEEDED', { depth: 1 }],
    [good, { maxExternalPayloadTotalBytes: 0 }, 'MAX_TOTAL_BYTES_EXCEEDED', { expected: 0, actual: 1 }],
  ];
  for (const [result, limits, code, metadata = {}] of cases) {
    const externalPayloadSource = memory({ 'a.json': '1', 'bad.json': '{', 'n.json': nested });
    const error = thrown(() =>
      createReplayProvider({ entries: [toolResult(result)], externalPayloadSource, ...limits }),
    );
    assert.equal(error.code, code);
    for (const [key, value] of Object.entries(metadata)) assert.deepEqual(error.metadata[key], value, `${code} ${key}`);
  }
  const loop = memory({ 'loop.json': sample('loop.json') });
  const error = thrown(() => decodeSessionLog(sample('invalid-5-cycle.jsonl'), { externalPayloadSource: loop }));
  assert.deepEqual([error.code, error.metadata.depth], ['CIRCULAR_REFERENCE', 1]);
});

test('R62 cycles in memory and limits that are none', () => {
  const cyclic = toolResult(reference('a.json', '1'));
  cyclic.metadata = { cyclic };
  const externalPayloadSource = memory({ 'a.json': '1' });
  assert.equal(
    thrown(() => createReplayProvider({ entries: [cyclic], externalPayloadSource })).code,
    'CIRCULAR_REFERENCE',
  );
  for (const bad of [-1, Number.NaN, Number.POSITIVE_INFINITY, 1.5, '5', null]) {
    for (const key of ['maxExternalPayloadDepth', 'maxExternalPayloadTotalBytes']) {
      assert.equal(thrown(() => decodeSessionLog('', { [key]: bad })).code, 'INVALID_LIMIT');
    }
  }
});

test('a source that fails keeps its cause; a promise is refused where nothing can wait', async () => {
  const entries = [toolResult(reference('a.json', '1'))];
  const cause = new Error('disk');
  const failing = {
    readBytes() {
      throw cause;
    },
  };
  const error = thrown(() => createReplayProvider({ entries, externalPayloadSource: failing }));
  assert.deepEqual([error.code, error.cause], ['PAYLOAD_UNREADABLE', cause]);
  const rejecting = { readBytes: () => Promise.reject(cause) };
  await assert.rejects(loadSessionLog({ readText: () => toText(entries), externalPayloadSource: rejecting }), {
    code: 'PAYLOAD_UNREADABLE',
    cause,
  });
  const promising = thrown(() => createReplayProvider({ entries, externalPayloadSource: rejecting }));
  assert.equal(promising.code, 'UNRESOLVED_REFERENCE');
  assert.match(promising.message, /createReplayProviderFromSource/);
  const wrong = { readBytes: () => '1' };
  assert.equal(
    thrown(() => createReplayProvider({ entries, externalPayloadSource: wrong })).code,
    'PAYLOAD_UNREADABLE',
  );
});

test('text comes back exactly', () => {
  const odd = '2027-01-05T08:00:01Z \u0000 \u2028 \u{1f600} 1e5 \\u0041';
  const toolCalls = [{ id: 'c', type: 'function', function: { name: 'n', arguments: '{ "a" : 1.0 }' } }];
  const [one] = decodeSessionLog(toText([response(said(odd, { toolCalls, metadata: { n: 0.1 + 0.2 } }))]));
  assert.deepEqual(one.response, { ...said(odd, { toolCalls, metadata: { n: 0.1 + 0.2 } }), timestamp: new Date(AT) });
});

test('an entry may be as deep as a line, and a log as long as it may', async () => {
  const deep = (depth) => entry('server_tool', { tool: 't', x: JSON.parse('['.repeat(depth) + ']'.repeat(depth)) });
  assert.equal(validateSessionLog([...decodeSessionLog(toText([deep(99)]))]).ok, true);
  assert.deepEqual(paths(thrown(() => decodeSessionLog(toText([deep(100)])))), ['line 1']);
  assert.match(thrown(() => validateSessionLog([deep(100)])).issues[0].message, /nested too deeply/);
  const long = Object.defineProperty(new Uint8Array(), 'length', { value: 1024 ** 3 + 1 });
  await assert.rejects(loadSessionLog({ readText: () => long }), { code: 'INVALID_JSON' });
});
