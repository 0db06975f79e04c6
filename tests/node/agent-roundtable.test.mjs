// Agents inside conversations, through the package alone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentParticipant, createRoundtable } from 'agent-roundtable';
import { calling, deferred, reply, scripted, settle, tool, unhandled } from './support/agent.mjs';

let conversations = 0;

function agent(id, options) {
  return agentParticipant({ id, runtime: { id, version: '1' }, createAgent: () => ({ model: 'm', ...options }) });
}

function roundtable(participants, overrides = {}) {
  return createRoundtable({
    conversationId: `agents-${conversations++}`,
    participants,
    limits: { maxTurnsPerRun: participants.length },
    ...overrides,
  });
}

test('agents answer in turn, each shown the others once and the purpose once', async () => {
  const ana = scripted(reply('I say one.'), reply('I say three.'));
  const bo = scripted(reply(' I say two. '), reply('I say four.'));
  const table = roundtable([agent('ana', { provider: ana }), agent('bo', { provider: bo })], {
    purpose: 'Count together',
    limits: { maxTurnsPerRun: 4 },
  });
  assert.equal((await table.run()).status, 'limited');
  const { messages } = table.snapshot();
  assert.deepEqual(
    messages.map((m) => `${m.participantId}: ${m.content}`),
    ['ana: I say one.', 'bo: I say two.', 'ana: I say three.', 'bo: I say four.'],
  );
  const inputs = ({ requests }) => requests.map((r) => r.messages.at(-1).content);
  assert.deepEqual(inputs(ana), ['Purpose: Count together', '### From bo\n> I say two.']);
  assert.deepEqual(inputs(bo), [
    'Purpose: Count together\n\n### From ana\n> I say one.',
    '### From ana\n> I say three.',
  ]);
  assert.deepEqual(
    ana.requests[1].messages.map((m) => m.role),
    ['user', 'assistant', 'user'],
  );
  await table.dispose();
});

test('A65 two agents of a group are both called before either replies', async () => {
  const both = deferred();
  let called = 0;
  const meet = (content) => async () => {
    if (++called === 2) both.resolve();
    await both.promise;
    return reply(content);
  };
  const participants = ['ana', 'bo'].map((id) => agent(id, { provider: scripted(meet(`from ${id}`)) }));
  const selector = { select: () => ({ kind: 'parallel', participantIds: ['bo', 'ana'] }) };
  const table = roundtable(participants, { selector, maxConcurrentParticipants: 2 });
  await table.run();
  assert.deepEqual(
    table.snapshot().messages.map((m) => m.content),
    ['from bo', 'from ana'],
  );
  await table.dispose();
});

test('every call of a turn is in the ledger, with its turn and its tokens', async () => {
  const usage = (inputTokens, outputTokens) => ({
    metadata: { inputTokens, outputTokens, usageProvenance: 'complete' },
  });
  const provider = scripted({ ...calling(['t', 'look', {}]), ...usage(10, 2) }, reply('seen', usage(14, 3)));
  const table = roundtable([agent('ana', { provider, tools: [tool('look', () => 1)] })]);
  await table.run();
  const { usage: ledger, messages } = table.snapshot();
  assert.deepEqual(
    ledger.map((r) => [
      r.providerId,
      r.modelId,
      r.status,
      r.outcome,
      r.provenance,
      r.tokens,
      r.turnId === messages[0].turnId,
    ]),
    [
      ['scripted', 'm', 'settled', 'completed', 'reported', { input: 10, output: 2 }, true],
      ['scripted', 'm', 'settled', 'completed', 'reported', { input: 14, output: 3 }, true],
    ],
  );
  await table.dispose();
});

test('A66 a limit of one call and a tool round: the run is limited, one request is sent', async () => {
  const provider = scripted(calling(['t', 'look', {}]), reply('never'));
  const table = roundtable([agent('ana', { provider, tools: [tool('look', () => 1)] })], {
    limits: { maxTurnsPerRun: 1, maxModelCallsPerRun: 1 },
  });
  const result = await table.run();
  assert.deepEqual([result.status, result.reason], ['limited', 'model-calls']);
  assert.equal(provider.requests.length, 1);
  await table.dispose();
});

test('a cached reply is published, costs no allowance and is in the ledger', async () => {
  const provider = { name: 'p', chat: () => assert.fail('must not be called'), cached: async () => reply('kept') };
  const table = roundtable([agent('ana', { provider })], { limits: { maxTurnsPerRun: 1, maxModelCallsPerRun: 1 } });
  await table.run();
  const { messages, usage } = table.snapshot();
  assert.equal(messages[0].content, 'kept');
  assert.deepEqual(
    usage.map((r) => [r.outcome, r.providerId, r.modelId]),
    [['cache-hit', 'p', 'm']],
  );
  await table.dispose();
});

test('A90 a slow event handler, cancelled mid-delta: the run is cancelled, nothing is unhandled', async () => {
  const controller = new AbortController();
  const provider = {
    name: 'p',
    async *chatStream() {
      for (const text of ['one ', 'two ', 'three ']) yield reply(text, { state: 'interrupted' });
      yield reply('');
    },
  };
  const seen = await unhandled(async () => {
    const table = roundtable([agent('ana', { provider })], {
      onEvent: async (event) => {
        if (event.type !== 'delta') return;
        controller.abort();
        await settle();
      },
    });
    assert.equal((await table.run({ signal: controller.signal })).status, 'cancelled');
    await table.dispose();
  });
  assert.deepEqual(seen, []);
});

test('a cancelled turn is run again from where its participant last settled', async () => {
  const controller = new AbortController();
  const made = [];
  const participant = agentParticipant({
    id: 'ana',
    runtime: { id: 'ana', version: '1' },
    createAgent: ({ restoring }) => {
      const number = made.push(restoring);
      const hanging = (_, { signal }) =>
        new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)));
      const provider =
        number === 1 ? scripted(reply('first'), hanging) : scripted((messages) => reply(`after ${messages.length}`));
      return { provider, model: 'm' };
    },
  });
  const table = roundtable([participant], { limits: { maxTurnsPerRun: 2 } });
  setTimeout(() => controller.abort(), 50);
  assert.equal((await table.run({ signal: controller.signal })).status, 'cancelled');
  const again = await table.run({ limits: { maxTurnsPerRun: 1 } });
  assert.equal(again.status, 'limited');
  assert.deepEqual(
    table.snapshot().messages.map((m) => m.content),
    ['first', 'after 3'],
  );
  assert.deepEqual(made, [false, true]);
  assert.deepEqual(
    table.snapshot().usage.map((r) => r.outcome),
    ['completed', 'cancelled', 'completed'],
  );
  await table.dispose();
});

test('a provider shared by two agents of one conversation: the second does not open, with resource-reused', async () => {
  const provider = scripted(reply('one'), reply('two'));
  const table = roundtable([agent('ana', { provider }), agent('bo', { provider })]);
  await assert.rejects(table.run(), ({ code, cause }) => code === 'unavailable' && cause.code === 'resource-reused');
  assert.deepEqual(
    table.snapshot().messages.map(({ content }) => content),
    ['one'],
  );
  await table.dispose();
});

test('a tool trace and a private history appear in no event and no snapshot', async () => {
  const events = [];
  const provider = scripted(calling(['t', 'look', { canary: 'CANARY-ARGS' }]), reply('public'));
  const table = roundtable(
    [agent('ana', { provider, systemMessage: 'CANARY-SYSTEM', tools: [tool('look', () => 'CANARY-RESULT')] })],
    {
      onEvent: (event) => void events.push(event),
    },
  );
  await table.run();
  assert.ok(!JSON.stringify([events, table.snapshot()]).includes('CANARY'));
  await table.dispose();
});

test('a turn whose text is longer than a message may be fails, naming the bound', async () => {
  const table = roundtable([agent('ana', { provider: scripted(reply('x'.repeat(1024 * 1024 + 1))) })]);
  const result = await table.run();
  assert.equal(result.status, 'failed');
  assert.match(result.message, /ana.*reply\.content.*1048576/s);
  await table.dispose();
});
