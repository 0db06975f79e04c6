// The OpenAI Agents SDK in conversations, offline: its own scripted model in place of a service.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Agent, tool, Usage } from '@openai/agents-core';
import { assistantMessage, functionCall, ScriptedModel } from '@openai/agents-core/testing';
import { createRoundtable, loadRoundtable } from 'agent-roundtable';
import { fileStore } from 'agent-roundtable/node';
import { runtimeParticipant } from 'agent-roundtable/runtime';
import { scriptedParticipant } from 'agent-roundtable/testing';
import { openaiRuntime } from './openai-agents.mjs';

const usage = new Usage({ inputTokens: 7, outputTokens: 3, totalTokens: 10 });
const says = (text) => ({ output: [assistantMessage(text)], usage });
const calls = (name, args, callId) => ({ output: [functionCall(name, args, { callId })], usage });

/** A participant `bot` over the SDK with a tool `write` that must be approved; what it does is in `effects`. */
function bot(model, effects = [], { needsApproval = true, withResume = true } = {}) {
  const createRuntime = () => {
    const runtime = openaiRuntime(
      ({ metered, once }) =>
        new Agent({
          name: 'bot',
          instructions: 'Be brief.',
          model: metered(model, 'openai', 'gpt-test'),
          tools: [
            tool({
              name: 'write',
              description: 'writes a file',
              parameters: {
                type: 'object',
                properties: { path: { type: 'string' } },
                required: ['path'],
                additionalProperties: false,
              },
              needsApproval,
              execute: once(async ({ path }) => {
                effects.push(path);
                return `wrote ${path}`;
              }),
            }),
          ],
        }),
      { environment: 'gpt-test', resources: [model] },
    );
    return withResume ? runtime : { ...runtime, resume: undefined };
  };
  return runtimeParticipant({ id: 'bot', runtime: { id: 'openai-agents', version: '1' }, createRuntime });
}

let made = 0;
function table(participants, extra = {}) {
  const conversationId = `sdk-${made++}`;
  return createRoundtable({ conversationId, participants, limits: { maxTurnsPerRun: 1 }, ...extra });
}

const answer = (roundtable, { requests: [request], revision }, response) =>
  roundtable.resume({
    requestId: request.id,
    responseId: 'r1',
    expectedRevision: revision,
    response: { kind: 'approval', ...response },
  });

const texts = (items) => items.map((item) => (typeof item.content === 'string' ? item.content : item.content[0].text));

test('it is shown what others said, streams, publishes its words, and its calls are in the ledger', async () => {
  const model = new ScriptedModel([says('hello pia'), says('bye')]);
  const deltas = [];
  const roundtable = table([scriptedParticipant({ id: 'pia', steps: ['hi bot', 'later'] }), bot(model)], {
    purpose: 'Greet.',
    limits: { maxTurnsPerRun: 4 },
    onEvent: (event) => void (event.type === 'delta' && event.participantId === 'bot' && deltas.push(event.text)),
  });
  assert.equal((await roundtable.run()).status, 'limited');
  const { messages, usage: records } = roundtable.snapshot();
  assert.deepEqual(
    messages.map((m) => m.content),
    ['hi bot', 'hello pia', 'later', 'bye'],
  );
  assert.equal(deltas.join(''), 'hello piabye');
  assert.deepEqual(texts(model.calls[0].request.input), ['Purpose: Greet.\n\n### From pia\n> hi bot']);
  assert.deepEqual(texts(model.calls[1].request.input), [
    'Purpose: Greet.\n\n### From pia\n> hi bot',
    'hello pia',
    '### From pia\n> later',
  ]);
  assert.deepEqual(
    records.map(({ status, providerId, modelId, tokens, provenance }) => [
      status,
      providerId,
      modelId,
      tokens,
      provenance,
    ]),
    Array(2).fill(['settled', 'openai', 'gpt-test', { input: 7, output: 3 }, 'reported']),
  );
  await roundtable.dispose();
});

test('a tool that must be approved makes the turn wait; approved, it runs once and the same turn ends', async () => {
  const effects = [];
  const model = new ScriptedModel([calls('write', { path: 'a.txt' }, 'call-1'), says('done')]);
  const roundtable = table([bot(model, effects)]);
  const waiting = await roundtable.run();
  assert.equal(waiting.status, 'waiting');
  const [{ kind, data }] = waiting.requests;
  assert.equal(kind, 'approval');
  assert.deepEqual([data.toolCallId, data.toolName, data.arguments], ['call-1', 'write', { path: 'a.txt' }]);
  assert.deepEqual(effects, []);
  await answer(roundtable, waiting, { approved: true });
  assert.equal((await roundtable.run()).status, 'limited');
  assert.deepEqual(effects, ['a.txt']);
  assert.deepEqual(
    roundtable.snapshot().messages.map((m) => m.content),
    ['done'],
  );
  assert.equal(roundtable.snapshot().usage.length, 2);
  await roundtable.dispose();
});

test('denied, it never runs, and the model is told why', async () => {
  const effects = [];
  const model = new ScriptedModel([calls('write', { path: 'a.txt' }, 'call-1'), says('understood')]);
  const roundtable = table([bot(model, effects)]);
  await answer(roundtable, await roundtable.run(), { approved: false, reason: 'not today' });
  assert.equal((await roundtable.run()).status, 'limited');
  assert.deepEqual(effects, []);
  assert.match(JSON.stringify(model.calls[1].request.input), /denied: not today/);
  assert.equal(roundtable.snapshot().messages[0].content, 'understood');
  await roundtable.dispose();
});

test('a parked approval outlives its process: from the store alone, a new runtime goes on', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'sdk-'));
  try {
    const effects = [];
    const before = new ScriptedModel([says('first'), calls('write', { path: 'b.txt' }, 'call-1')]);
    const options = { store: fileStore({ directory }), recovery: 'durable', limits: { maxTurnsPerRun: 2 } };
    const roundtable = table([bot(before, effects)], options);
    const { revision } = await roundtable.run();
    const conversationId = roundtable.snapshot().conversationId;
    assert.equal(roundtable.snapshot().status, 'waiting');
    await roundtable.dispose();

    const after = new ScriptedModel([says('written')]);
    const { factory, runtime } = bot(after, effects);
    const registry = { resolveParticipant: (reference) => ({ reference, factory, runtime }) };
    const loaded = await loadRoundtable({ conversationId, store: fileStore({ directory }), registry });
    const waiting = { requests: loaded.snapshot().requests, revision };
    await answer(loaded, waiting, { approved: true });
    const result = await loaded.run({ limits: { maxTurnsPerRun: 1 } });
    assert.equal(result.status, 'limited', result.message);
    assert.deepEqual(effects, ['b.txt']);
    assert.deepEqual(
      loaded.snapshot().messages.map((m) => m.content),
      ['first', 'written'],
    );
    const shown = JSON.stringify(after.calls[0].request.input);
    assert.match(shown, /first/);
    assert.match(shown, /wrote b\.txt/);
    await loaded.dispose();
  } finally {
    await rm(directory, { recursive: true });
  }
});

test('a spent limit makes no call: the run is limited, and goes on with a larger one', async () => {
  const model = new ScriptedModel([calls('write', { path: 'a' }, 'call-1'), says('done')]);
  const effects = [];
  const roundtable = table([bot(model, effects)], { limits: { maxTurnsPerRun: 1, maxModelCallsPerConversation: 1 } });
  await answer(roundtable, await roundtable.run(), { approved: true });
  const limited = await roundtable.run();
  assert.deepEqual([limited.status, limited.reason], ['limited', 'model-calls']);
  assert.equal(model.calls.length, 1);
  const limits = { maxTurnsPerRun: 1, maxModelCallsPerConversation: 5 };
  assert.equal((await roundtable.run({ limits })).status, 'limited');
  assert.deepEqual(effects, ['a'], 'the effect is not made again by the attempt that goes on');
  assert.equal(roundtable.snapshot().messages[0].content, 'done');
  await roundtable.dispose();
});

test('without resume it takes part as a plain agent: its free tools run, one that must be approved fails the turn', async () => {
  const effects = [];
  const script = () => [calls('write', { path: 'a.txt' }, 'call-1'), says('done')];
  const free = table([bot(new ScriptedModel(script()), effects, { needsApproval: false, withResume: false })]);
  assert.equal((await free.run()).status, 'limited');
  assert.deepEqual(effects, ['a.txt']);
  assert.equal(free.snapshot().messages[0].content, 'done');
  await free.dispose();
  const asking = table([bot(new ScriptedModel(script()), effects, { withResume: false })]);
  const result = await asking.run();
  assert.equal(result.status, 'failed');
  assert.match(result.message, /bot.*no resume/);
  assert.deepEqual([effects, asking.snapshot().requests], [['a.txt'], []]);
  await asking.dispose();
});

test('what README.md shows of the adapter is its code', async () => {
  const [page, adapter] = await Promise.all(
    ['../../README.md', 'openai-agents.mjs'].map((path) => readFile(new URL(path, import.meta.url), 'utf8')),
  );
  const [, section] = page.split('## Agents of other SDKs\n');
  const [, excerpt] = /^```javascript\n([\s\S]*?)^```$/m.exec(section);
  assert.ok(adapter.includes(excerpt));
});
