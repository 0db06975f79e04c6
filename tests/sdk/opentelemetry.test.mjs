// A conversation as spans, with a real OpenTelemetry SDK.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SpanStatusCode } from '@opentelemetry/api';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { agentParticipant, createRoundtable, followConversation, MemoryConversationStore } from 'agent-roundtable';
import { traceEvents } from 'agent-roundtable/opentelemetry';

function recorder() {
  const exporter = new InMemorySpanExporter();
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  return { tracer: provider.getTracer('test'), spans: () => exporter.getFinishedSpans() };
}

const reply = (content, metadata = {}) => ({
  id: 'r',
  role: 'assistant',
  content,
  timestamp: new Date(),
  state: 'complete',
  metadata,
});

const agent = (id, chat) =>
  agentParticipant({
    id,
    runtime: { id: 'test', version: '1' },
    createAgent: () => ({ model: 'm-1', provider: { name: 'acme', chat } }),
  });

const talk = async () =>
  reply('secret words', { inputTokens: 7, outputTokens: 3, cacheReadTokens: 5, usageProvenance: 'complete' });

function table(participants, extra) {
  return createRoundtable({ conversationId: 'c', participants, limits: { maxTurnsPerRun: 2 }, ...extra });
}

const children = (spans, parent) =>
  spans.filter((span) => span.parentSpanContext?.spanId === parent.spanContext().spanId).map(({ name }) => name);

test('a run holds its turns, and they hold their model calls, in one trace', async () => {
  const { tracer, spans } = recorder();
  const pricing = { version: '1', cost: () => ({ currency: 'EUR', minorUnits: '12' }) };
  const roundtable = table([agent('ana', talk), agent('bo', talk)], { onEvent: traceEvents(tracer), pricing });
  await roundtable.run();
  await roundtable.dispose();
  const all = spans();
  assert.equal(new Set(all.map((span) => span.spanContext().traceId)).size, 1);
  const run = all.find(({ name }) => name === 'invoke_workflow');
  assert.deepEqual(children(all, run), ['invoke_agent ana', 'invoke_agent bo']);
  assert.equal(run.attributes['gen_ai.conversation.id'], 'c');
  assert.deepEqual(
    [run.attributes['agent_roundtable.status'], run.attributes['agent_roundtable.limit']],
    ['limited', 'turns'],
  );
  const turn = all.find(({ name }) => name === 'invoke_agent ana');
  assert.equal(turn.attributes['agent_roundtable.outcome'], 'settled');
  assert.deepEqual(children(all, turn), ['chat m-1']);
  const [call] = all.filter(({ name }) => name === 'chat m-1');
  const { 'gen_ai.provider.name': provider, 'gen_ai.request.model': model } = call.attributes;
  assert.deepEqual([provider, model], ['acme', 'm-1']);
  assert.deepEqual(
    ['input_tokens', 'output_tokens', 'cache_read.input_tokens'].map((name) => call.attributes[`gen_ai.usage.${name}`]),
    [7, 3, 5],
  );
  assert.equal(call.attributes['agent_roundtable.cost'], '12 EUR');
  assert.ok(!JSON.stringify(all.map(({ attributes, status }) => [attributes, status])).includes('secret'));
});

test('what fails is an error, without its message', async () => {
  const { tracer, spans } = recorder();
  const breaks = async () => {
    throw new Error('the secret key is wrong');
  };
  const roundtable = table([agent('ana', breaks)], { onEvent: traceEvents(tracer) });
  assert.equal((await roundtable.run()).status, 'failed');
  await roundtable.dispose();
  const all = spans();
  assert.deepEqual(
    all.map(({ name, status }) => [name, status.code]),
    ['chat m-1', 'invoke_agent ana', 'invoke_workflow'].map((name) => [name, SpanStatusCode.ERROR]),
  );
  assert.ok(all.every(({ attributes }) => attributes['error.type'] !== undefined));
  assert.ok(
    !JSON.stringify(all.map(({ attributes, status, events }) => [attributes, status, events])).includes('secret'),
  );
});

test('a cancelled run ends every span that is open', async () => {
  const { tracer, spans } = recorder();
  const stop = new AbortController();
  const waits = (_, { signal }) =>
    new Promise((_, no) => {
      signal.addEventListener('abort', () => no(signal.reason));
      stop.abort();
    });
  const roundtable = table([agent('ana', waits)], { onEvent: traceEvents(tracer) });
  assert.equal((await roundtable.run({ signal: stop.signal })).status, 'cancelled');
  await roundtable.dispose();
  const named = Object.fromEntries(spans().map((span) => [span.name, span.attributes]));
  assert.deepEqual(Object.keys(named).sort(), ['chat m-1', 'invoke_agent ana', 'invoke_workflow']);
  assert.equal(named['invoke_agent ana']['agent_roundtable.outcome'], 'cancelled');
  assert.equal(named['chat m-1']['agent_roundtable.outcome'], 'cancelled');
});

test('a stored conversation is traced afterwards, with the times it had', async () => {
  const { tracer, spans } = recorder();
  const store = new MemoryConversationStore();
  const live = recorder();
  const roundtable = table([agent('ana', talk)], { store, onEvent: traceEvents(live.tracer) });
  await roundtable.run();
  await roundtable.dispose();
  const observe = traceEvents(tracer);
  const { signal, stop } = stoppable();
  for await (const event of followConversation({ store, conversationId: 'c', afterRevision: 0, signal })) {
    observe(event);
    if (event.type === 'run-ended') stop();
  }
  const told = (all) =>
    all.map(({ name, startTime, endTime, attributes }) => ({ name, startTime, endTime, attributes }));
  assert.deepEqual(told(spans()), told(live.spans()));
});

function stoppable() {
  const controller = new AbortController();
  return { signal: controller.signal, stop: () => controller.abort() };
}
