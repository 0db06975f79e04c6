// recordProvider on the packed package: what it writes decodes, is complete, and replays strictly.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { trapNextCall } from './support/traps.mjs';
import {
  createReplayProvider,
  decodeSessionLog,
  recordProvider,
  SessionLogDecodeError,
  validateSessionLog,
  version,
} from 'agent-roundtable';

const at = new Date('2027-01-05T08:00:01.000Z');
const user = (content) => ({ id: 'u', role: 'user', state: 'complete', timestamp: at, content });
const answer = (content, rest = {}) => ({
  id: 'a',
  role: 'assistant',
  state: 'complete',
  timestamp: at,
  content,
  ...rest,
});
const tools = [
  {
    name: 'Clock',
    description: 'time',
    parameters: { $schema: 'x', type: 'object', properties: { password: { type: 'string' } } },
  },
];
const options = (rest = {}) => ({ model: 'm', callId: 'call-1', tools, ...rest });

function recording(provider, rest = {}) {
  const lines = [];
  const recorded = recordProvider(
    { name: 'acme', ...provider },
    { sessionId: 's', write: (line) => void lines.push(line), ...rest },
  );
  return { recorded, lines, entries: () => decodeSessionLog(lines.join('')) };
}

test('a recorded conversation is complete and replays under strict matching', async () => {
  const toolCalls = [{ id: 'c', type: 'function', function: { name: 'Clock', arguments: '{"apiKey":"k","n":1.0}' } }];
  const replies = [answer(null, { toolCalls, metadata: { inputTokens: 3, secret: 'k' } }), answer('nine', { id: 'b' })];
  const { recorded, lines, entries } = recording({
    version: '3',
    async chat(_, { onDelta }) {
      const reply = replies.shift();
      if (reply.content !== null) for (const piece of ['ni', 'ne']) await onDelta(piece);
      return reply;
    },
    supportsTools: () => true,
  });
  assert.deepEqual(
    [recorded.name, recorded.version, recorded.supportsTools(), recorded.chatStream, recorded.cached],
    ['acme', '3', true, undefined, undefined],
  );
  const first = await recorded.chat([user('time?')], options());
  assert.equal(first.toolCalls[0].function.arguments, '{"apiKey":"k","n":1.0}');
  const pieces = [];
  await recorded.chat([user('and now?')], options({ onDelta: (text) => void pieces.push(text) }));
  assert.deepEqual(pieces, ['ni', 'ne']);
  assert.doesNotMatch(lines.join(''), /"k\\?"/);
  assert.ok(lines.every((line) => /^[^\n]+\n$/.test(line)));
  assert.deepEqual(validateSessionLog(entries()), { ok: true, issues: [] });

  const provider = createReplayProvider({ entries: entries(), match: 'strict', deltas: true });
  const replayed = await provider.chat([user('time?')], options({ callId: 'other' }));
  assert.deepEqual(
    [replayed.toolCalls[0].function.arguments, replayed.metadata],
    ['{"apiKey":"[REDACTED]","n":1}', { inputTokens: 3, secret: '[REDACTED]' }],
  );
  const again = [];
  const second = await provider.chat([user('and now?')], options({ onDelta: (text) => void again.push(text) }));
  assert.deepEqual([second, again], [answer('nine', { id: 'b' }), ['ni', 'ne']]);
  provider.assertExhausted();
});

test('streams are recorded whole, split pairs rejoined', async () => {
  const { recorded, entries } = recording({
    chat: () => assert.fail(),
    async *chatStream() {
      yield answer('smile \ud83d', { id: '1', state: 'interrupted' });
      yield answer('\ude00', { id: '2', state: 'interrupted' });
      yield answer('\ud800!', { id: '3', metadata: { outputTokens: 1 } });
    },
  });
  const given = [];
  for await (const message of recorded.chatStream([user('x')], options())) given.push(message.id);
  assert.deepEqual(given, ['1', '2', '3']);
  const provider = createReplayProvider({ entries: entries(), deltas: true });
  const pieces = [];
  const whole = await provider.chat([], { onDelta: (text) => void pieces.push(text) });
  assert.deepEqual([whole.id, whole.content, whole.metadata], ['3', 'smile \u{1f600}\ufffd!', { outputTokens: 1 }]);
  assert.deepEqual(pieces, ['smile ', '\u{1f600}', '\ufffd!']);
});

test('metadata and parts that a log cannot hold are left out', async () => {
  const parts = [
    { type: 'reasoning', signature: 'x' },
    { type: 'text', text: 't' },
  ];
  const reply = answer('ok', { metadata: { deep: { er: { x: 1 } }, none: null, n: 1 }, parts });
  const { recorded, entries } = recording({ chat: async () => reply });
  assert.equal(await recorded.chat([user('x'), reply], options()), reply);
  const provider = createReplayProvider({ entries: entries(), match: 'strict' });
  const { metadata, parts: kept } = await provider.chat([user('x'), reply], options());
  assert.deepEqual([metadata, kept], [{ n: 1 }, [parts[1]]]);
});

test('a cached reply is recorded like any other; further keys are left out', async () => {
  const hit = answer('known', { metadata: { ssn: '1' } });
  const { recorded, entries } = recording(
    { chat: () => assert.fail(), cached: async (messages) => (messages[0].content === 'x' ? hit : undefined) },
    { redact: ['SSN'] },
  );
  assert.equal(await recorded.cached([user('y')], options()), undefined);
  assert.equal(await recorded.cached([user('x')], options()), hit);
  const provider = createReplayProvider({ entries: entries(), match: 'strict' });
  assert.deepEqual((await provider.chat([user('x')], options())).metadata, { ssn: '[REDACTED]' });
});

test('what a log cannot hold fails its call, and so does a failed write', async () => {
  let called = 0;
  const chat = async () => {
    called += 1;
    return answer(7, { metadata: { deep: { er: { x: 1 } }, n: 1 }, parts: [{ type: 'own' }] });
  };
  const { recorded } = recording({ chat });
  const error = await recorded.chat([{ role: 'user' }], options()).catch((e) => e);
  assert.ok(error instanceof SessionLogDecodeError);
  assert.deepEqual([error.issues[0].path, called], ['entry.messages[0].id', 0]);
  const refused = await recorded.chat([user('x')], options()).catch((e) => e);
  assert.equal(refused.issues[0].path, 'entry.response.content');

  const cause = new Error('full');
  const failing = recordProvider({ name: 'p', chat }, { sessionId: 's', write: () => Promise.reject(cause) });
  await assert.rejects(failing.chat([user('x')], options()), cause);
  for (const bad of [{ sessionId: '' }, { write: 1 }, { redact: 'x' }]) {
    assert.throws(() => recordProvider({ name: 'p', chat }, { sessionId: 's', write() {}, ...bad }), TypeError);
  }
});

test('a recorder outlives an engine that another conversation lost', async () => {
  const { recorded, entries } = recording({ chat: async () => answer('ok') });
  await recorded.chat([user('one')], options());
  trapNextCall('version');
  assert.throws(version);
  await recorded.chat([user('two')], options());
  assert.deepEqual(
    entries()
      .filter((one) => one.event === 'provider_request')
      .map((one) => one.round),
    [1, 2],
  );
});
