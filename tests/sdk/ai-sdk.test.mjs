// Language models of the AI SDK behind aiSdkProvider, offline: the SDK's own mock model.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentParticipant, agentSelector, createRoundtable } from 'agent-roundtable';
import { aiSdkProvider } from 'agent-roundtable/ai-sdk';
import { convertArrayToReadableStream, MockLanguageModelV3, MockLanguageModelV4 } from 'ai/test';

const usage = {
  inputTokens: { total: 7, noCache: 2, cacheRead: 5, cacheWrite: undefined },
  outputTokens: { total: 3, text: 2, reasoning: 1 },
};
const finish = { type: 'finish', usage, finishReason: { unified: 'stop', raw: 'stop' } };
const words = (...texts) => [
  { type: 'stream-start', warnings: [] },
  { type: 'text-start', id: '0' },
  ...texts.map((delta) => ({ type: 'text-delta', id: '0', delta })),
  { type: 'text-end', id: '0' },
  finish,
];
const toolCall = (toolCallId, toolName, input, extra = {}) => ({
  type: 'tool-call',
  toolCallId,
  toolName,
  input: JSON.stringify(input),
  ...extra,
});

function modelOf(...replies) {
  return new MockLanguageModelV4({
    provider: 'mock',
    modelId: 'mock-1',
    doStream: async () => ({ stream: convertArrayToReadableStream(replies.shift()) }),
  });
}

const agent = (model, extra = {}) =>
  agentParticipant({
    id: 'bot',
    runtime: { id: 'ai-sdk', version: '1' },
    createAgent: () => ({ provider: aiSdkProvider(model), model: model.modelId, ...extra }),
  });

function table(participants, extra = {}) {
  return createRoundtable({ conversationId: 'c', participants, limits: { maxTurnsPerRun: 1 }, ...extra });
}

test('a model streams, its words are published and its tokens are in the ledger', async () => {
  const model = modelOf(words('hel', 'lo'));
  const deltas = [];
  const roundtable = table([agent(model, { systemMessage: 'Be brief.', temperature: 0.5, maxTokens: 9 })], {
    purpose: 'Greet.',
    onEvent: (event) => void (event.type === 'delta' && deltas.push(event.text)),
  });
  await roundtable.run();
  assert.deepEqual(deltas, ['hel', 'lo']);
  const { messages, usage: records } = roundtable.snapshot();
  assert.equal(messages[0].content, 'hello');
  const [{ providerId, modelId, tokens, provenance }] = records;
  assert.deepEqual([providerId, modelId, provenance], ['mock', 'mock-1', 'reported']);
  assert.deepEqual(tokens, { input: 7, output: 3, cacheRead: 5, reasoning: 1 });
  const [{ prompt, temperature, maxOutputTokens, abortSignal, tools }] = model.doStreamCalls;
  assert.deepEqual(prompt, [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: [{ type: 'text', text: 'Purpose: Greet.' }] },
  ]);
  assert.deepEqual([temperature, maxOutputTokens, tools], [0.5, 9, undefined]);
  assert.ok(abortSignal instanceof AbortSignal);
  await roundtable.dispose();
});

test('tools are offered, called and answered; signed reasoning and provider options go back as they came', async () => {
  const signed = { mock: { signature: 'abc' } };
  const model = modelOf(
    [
      { type: 'reasoning-start', id: 'r' },
      { type: 'reasoning-delta', id: 'r', delta: 'hm' },
      { type: 'reasoning-end', id: 'r', providerMetadata: signed },
      toolCall('search', 'web_search', {}, { providerExecuted: true }),
      toolCall('a', 'add', { a: 1, b: 2 }, { providerMetadata: { mock: { call: 1 } } }),
      toolCall('b', 'add', { a: 3, b: 4 }),
      finish,
    ],
    words('3 and 7'),
  );
  const add = {
    name: 'add',
    description: 'adds',
    parameters: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } },
    execute: ({ a, b }) => a + b,
  };
  const roundtable = table([agent(model, { tools: [add] })]);
  await roundtable.run();
  assert.equal(roundtable.snapshot().messages[0].content, '3 and 7');
  const [first, second] = model.doStreamCalls;
  assert.deepEqual(first.tools, [{ type: 'function', name: 'add', description: 'adds', inputSchema: add.parameters }]);
  assert.deepEqual(second.prompt.slice(1), [
    {
      role: 'assistant',
      content: [
        { type: 'reasoning', text: 'hm', providerOptions: signed },
        {
          type: 'tool-call',
          toolCallId: 'a',
          toolName: 'add',
          input: { a: 1, b: 2 },
          providerOptions: { mock: { call: 1 } },
        },
        { type: 'tool-call', toolCallId: 'b', toolName: 'add', input: { a: 3, b: 4 } },
      ],
    },
    {
      role: 'tool',
      content: [
        { type: 'tool-result', toolCallId: 'a', toolName: 'add', output: { type: 'text', value: '3' } },
        { type: 'tool-result', toolCallId: 'b', toolName: 'add', output: { type: 'text', value: '7' } },
      ],
    },
  ]);
  await roundtable.dispose();
});

test('a model selects', async () => {
  const decide = (input) => [toolCall('d', 'decide_next_speaker', input), finish];
  const chair = modelOf(
    decide({ action: 'speak', participantIds: ['bot'] }),
    decide({ action: 'finish', reason: 'ok' }),
  );
  const selector = agentSelector({
    reference: { id: 'chair', version: '1' },
    createAgent: () => ({ provider: aiSdkProvider(chair), model: chair.modelId }),
  });
  const roundtable = table([agent(modelOf(words('hi')))], { selector, limits: { maxTurnsPerRun: 3 } });
  const result = await roundtable.run();
  assert.deepEqual([result.status, result.reason], ['completed', 'ok']);
  await roundtable.dispose();
});

test('an error in the stream, or a stream that ends in one, fails the turn', async () => {
  for (const [stream, message] of [
    [[{ type: 'error', error: new Error('overloaded') }], /overloaded/],
    [[{ type: 'error', error: 'text' }], /the model failed/],
    [[{ ...finish, finishReason: { unified: 'error', raw: undefined } }], /stopped with an error/],
  ]) {
    const roundtable = table([agent(modelOf(stream))]);
    const result = await roundtable.run();
    assert.equal(result.status, 'failed');
    assert.match(result.message, message);
    await roundtable.dispose();
  }
});

test('chat gives the same reply whole, also from models of other specifications, and the route that answered', async () => {
  const generated = { content: [{ type: 'text', text: 'whole' }], warnings: [], response: { modelId: 'mock-1-small' } };
  const v2 = { provider: 'mock', modelId: 'mock-1', doStream: async () => assert.fail(), doGenerate: undefined };
  const flat = { inputTokens: 7, outputTokens: 3, cachedInputTokens: 5, reasoningTokens: 1 };
  v2.doGenerate = async () => ({ ...generated, usage: flat, finishReason: 'stop' });
  const result = { ...generated, usage, finishReason: { unified: 'stop', raw: undefined } };
  const v3 = new MockLanguageModelV3({ provider: 'mock', modelId: 'mock-1', doGenerate: async () => result });
  const user = { id: 'u', role: 'user', content: 'hi', timestamp: new Date(), state: 'complete' };
  for (const model of [v2, v3]) {
    const reply = await aiSdkProvider(model).chat([user], { model: 'mock-1', callId: 'call' });
    assert.deepEqual([reply.content, reply.state, reply.parts], ['whole', 'complete', undefined]);
    assert.deepEqual(reply.metadata, {
      modelId: 'mock-1-small',
      inputTokens: 7,
      outputTokens: 3,
      cacheReadTokens: 5,
      reasoningTokens: 1,
      usageProvenance: 'complete',
    });
  }
});
