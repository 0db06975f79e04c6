// Turns of a plain agent: rounds, tools, outcomes, cancellation.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentParticipant, RuntimeParticipantError, ToolSuspension } from 'agent-roundtable';
import {
  calling,
  deferred,
  execution,
  open,
  reply,
  runOnce,
  scripted,
  services,
  settle,
  tool,
  turn,
  unhandled,
} from './support/agent.mjs';

test('A80 a reply is spoken trimmed, with its deltas in order before the outcome', async () => {
  const provider = {
    name: 'p',
    async *chatStream() {
      yield reply(' Good', { state: 'interrupted' });
      yield reply(' morning', { state: 'interrupted' });
      yield reply('.\n', { id: 'last' });
    },
  };
  const options = execution();
  const lease = await open({ provider });
  assert.deepEqual(await lease.session.runTurn(turn(), options), { kind: 'speak', content: 'Good morning.' });
  assert.deepEqual(options.deltas, [' Good', ' morning', '.\n']);
});

test('A9 A10 an empty or blank reply yields', async () => {
  for (const content of ['', ' \n\u2028\ufeff', null]) {
    assert.deepEqual(await runOnce({ provider: scripted(reply(content)) }), { kind: 'yield' });
  }
});

test('A81 a call is admitted with the names of its provider and model, and reported once', async () => {
  const noted = services();
  const metadata = { inputTokens: 10, outputTokens: 5, usageProvenance: 'complete' };
  await runOnce({ provider: scripted(reply('x', { metadata })) }, { services: noted });
  const callId = 'a1:call:1';
  assert.deepEqual(noted.log, [
    ['admit', { callId, providerId: 'scripted', modelId: 'm' }],
    ['report', { callId, outcome: 'completed', provenance: 'reported', tokens: { input: 10, output: 5 }, final: true }],
  ]);
});

test('A82 an agent is disposed of once, before its objects are free', async () => {
  const events = [];
  const provider = scripted();
  const dispose = async () => {
    events.push('dispose');
    await assert.rejects(open({ provider }), { code: 'resource-reused' });
    await settle();
    events.push('disposed');
  };
  const lease = await open({ provider, dispose });
  await Promise.all([lease.release(), lease.release()]);
  await lease.release();
  assert.deepEqual(events, ['dispose', 'disposed']);
  await (await open({ provider })).release();
  await assert.rejects(lease.session.runTurn(turn(), execution()), { code: 'disposed' });
  await assert.rejects(lease.session.checkpoint(), { code: 'disposed' });
});

test('A82 a dispose that fails is reported by the release, and the objects are free', async () => {
  const provider = scripted();
  const lease = await open({
    provider,
    dispose: () => {
      throw new Error('stuck');
    },
  });
  await assert.rejects(lease.release(), /stuck/);
  await (await open({ provider })).release();
});

test('A83 a tool that suspends fails the turn with unsupported-wait, and its effect has not run', async () => {
  const approved = false;
  let ran = false;
  const deploy = tool('deploy', () => {
    if (!approved) throw new ToolSuspension({ kind: 'session/approval', reason: 'ask first', data: {} });
    ran = true;
  });
  const provider = scripted(calling(['t1', 'deploy', {}]), reply('next turn'));
  const lease = await open({ provider, tools: [deploy] });
  await assert.rejects(lease.session.runTurn(turn(), execution()), (error) => {
    assert.ok(error instanceof RuntimeParticipantError);
    assert.equal(error.code, 'unsupported-wait');
    return true;
  });
  assert.equal(ran, false);
  assert.equal((await lease.session.runTurn(turn('a2'), execution())).content, 'next turn');
  assert.equal(provider.requests[1].messages.length, 1, 'the failed turn left nothing');
});

test('A84 the factory declares agent/1, metered calls and no continuation', async () => {
  const participant = agentParticipant({
    id: 'bot',
    description: 'helps',
    runtime: { id: 'r', version: '1' },
    createAgent: () => ({ provider: scripted(), model: 'm' }),
  });
  const { factory, ...rest } = participant;
  assert.deepEqual(rest, { kind: 'agent', id: 'bot', description: 'helps', runtime: { id: 'r', version: '1' } });
  assert.deepEqual(factory.checkpointVersions, ['agent/1']);
  assert.equal(factory.modelCalls, 'metered');
  assert.equal(factory.supportsContinuation, undefined);
  const lease = await factory.openSession({ conversationId: 'c', participantId: 'bot' });
  assert.equal(lease.session.resumeTurn, undefined);
});

test('A85 an abort inside a tool round gives the abort reason, and the tool sees its signal', async () => {
  const controller = new AbortController();
  const reason = new Error('stop now');
  let seen;
  const slow = tool('slow', (_, { signal }) => {
    seen = signal;
    controller.abort(reason);
    return 'partial text';
  });
  const noted = services();
  const provider = scripted(calling(['t1', 'slow', {}]));
  const running = runOnce({ provider, tools: [slow] }, { signal: controller.signal, services: noted });
  await assert.rejects(running, (error) => error === reason);
  assert.equal(seen.reason, reason);
  assert.equal(provider.requests.length, 1);
  assert.deepEqual(
    noted.log.map(([kind]) => kind),
    ['admit', 'report'],
  );
});

test('tools of one round run at the same time and are answered in call order', async () => {
  const both = deferred();
  let started = 0;
  const meet = tool('meet', async ({ n }) => {
    if (++started === 2) both.resolve();
    await both.promise;
    if (n === 1) await settle();
    return { n };
  });
  const provider = scripted(calling(['t1', 'meet', { n: 1 }], ['t2', 'meet', { n: 2 }]), reply('done'));
  await runOnce({ provider, tools: [meet] });
  const results = provider.requests[1].messages.filter((m) => m.role === 'tool');
  assert.deepEqual(
    results.map((m) => [m.toolCallId, m.content, m.name]),
    [
      ['t1', '{"n":1}', 'meet'],
      ['t2', '{"n":2}', 'meet'],
    ],
  );
});

test('what the model is shown: the system message, the history, the tools, the options', async () => {
  const look = tool('look', () => 'seen', { type: 'object', properties: {} });
  const provider = scripted(calling(['t1', 'look', {}]), reply('done'));
  await runOnce({ provider, systemMessage: 'Be kind.', tools: [look], temperature: 0.5, maxTokens: 100 });
  const [first, second] = provider.requests;
  assert.deepEqual(
    first.messages.map((m) => [m.role, m.content]),
    [
      ['system', 'Be kind.'],
      ['user', '### From ana\n> hello'],
    ],
  );
  assert.deepEqual(
    second.messages.map((m) => m.role),
    ['system', 'user', 'assistant', 'tool'],
  );
  const { model, temperature, maxTokens, callId, tools } = first.options;
  assert.deepEqual(
    { model, temperature, maxTokens, callId },
    { model: 'm', temperature: 0.5, maxTokens: 100, callId: 'a1:call:1' },
  );
  assert.deepEqual(tools, [{ name: 'look', description: 'does look', parameters: { type: 'object', properties: {} } }]);
  assert.ok(
    Object.isFrozen(first.messages) && Object.isFrozen(first.messages[1]) && Object.isFrozen(tools[0].parameters),
  );
  assert.ok(first.messages[1].timestamp instanceof Date);
});

test('a tool is given its checked arguments, a signal, its call id and a key that a retry repeats', async () => {
  const keys = [];
  for (const attempt of ['a1', 'a2']) {
    const pay = tool('pay', (args, context) => {
      assert.deepEqual(args, JSON.parse('{"__proto__":{"x":1},"sum":3}'));
      assert.equal(Object.getPrototypeOf(args), Object.prototype);
      assert.equal(context.toolCallId, 't1');
      keys.push(context.idempotencyKey);
      return null;
    });
    const lease = await open({
      provider: scripted(calling(['t1', 'pay', '{"sum":3,"__proto__":{"x":1}}']), reply('ok')),
      tools: [pay],
    });
    await lease.session.runTurn({ ...turn(attempt), turnId: 'the turn' }, execution());
    await lease.release();
  }
  assert.match(keys[0], /^[0-9a-f]{64}$/);
  assert.equal(keys[0], keys[1]);
});

test('a key tells calls apart by tool, arguments, turn, and how often the same call was made', async () => {
  const keysOf = async (turnId, ...calls) => {
    const keys = [];
    const noted = (name) => tool(name, (_args, { idempotencyKey }) => keys.push(idempotencyKey));
    const provider = scripted(...calls.map((call) => calling(call)), reply('ok'));
    const lease = await open({ provider, tools: [noted('pay'), noted('ask')] });
    await lease.session.runTurn({ ...turn('a1'), turnId }, execution());
    await lease.release();
    return keys;
  };
  const keys = await keysOf(
    'one',
    ['t', 'pay', '{"sum":3,"to":"ana"}'],
    ['t', 'pay', { sum: 4, to: 'ana' }],
    ['t', 'ask', { sum: 3, to: 'ana' }],
    ['t', 'pay', '{"to":"ana", "sum":3.0}'],
  );
  assert.equal(new Set(keys).size, 4);
  const [first] = await keysOf('one', ['another id', 'pay', '{"to":"ana","sum":3}']);
  assert.equal(first, keys[0]);
  const [other] = await keysOf('two', ['t', 'pay', '{"sum":3,"to":"ana"}']);
  assert.notEqual(other, keys[0]);
});

test('maxRounds: the last round offers no tools, and a model that still calls one fails the turn', async () => {
  const again = tool('again', () => 'more');
  const call = () => calling(['t', 'again', {}]);
  const polite = scripted(call(), (_, { tools }) => (tools === undefined ? reply('in words') : call()));
  assert.deepEqual(await runOnce({ provider: polite, tools: [again], maxRounds: 2 }), {
    kind: 'speak',
    content: 'in words',
  });
  const stubborn = scripted(...Array.from({ length: 20 }, call));
  await assert.rejects(runOnce({ provider: stubborn, tools: [again] }), {
    code: 'EXECUTION_ROUND_LIMIT',
    message: /maxRounds/,
  });
  assert.equal(stubborn.requests.length, 16, 'the stated default');
});

test('a second turn on a session that runs one is busy', async () => {
  const gate = deferred();
  const provider = scripted(() => gate.promise.then(() => reply('first')), reply('second'));
  const lease = await open({ provider });
  const first = lease.session.runTurn(turn(), execution());
  await assert.rejects(lease.session.runTurn(turn('a2'), execution()), { code: 'busy' });
  gate.resolve();
  assert.deepEqual(await first, { kind: 'speak', content: 'first' });
  await lease.session.runTurn(turn('a3'), execution());
  assert.deepEqual(
    provider.requests[1].messages.map((m) => m.role),
    ['user', 'assistant', 'user'],
  );
});

test('a turn leaves no listener on its signal', async () => {
  const { signal } = new AbortController();
  const listening = new Set();
  const { addEventListener, removeEventListener } = signal;
  signal.addEventListener = (type, listener, options) => {
    listening.add(listener);
    addEventListener.call(signal, type, listener, options);
  };
  signal.removeEventListener = (type, listener) => {
    listening.delete(listener);
    removeEventListener.call(signal, type, listener);
  };
  await runOnce({ provider: scripted(reply('x')) }, { signal });
  await assert.rejects(runOnce({ provider: scripted() }, { signal }));
  assert.equal(listening.size, 0);
});

test('a subclass of ToolSuspension suspends as well, and is told apart', () => {
  class Pause extends ToolSuspension {}
  const request = { kind: 'k', reason: 'because', data: null };
  const pause = new Pause(request);
  assert.ok(pause instanceof Pause && pause instanceof ToolSuspension && pause instanceof Error);
  assert.equal(new ToolSuspension(request) instanceof Pause, false);
  assert.equal(new Error('x') instanceof ToolSuspension, false);
  assert.deepEqual([pause.kind, pause.reason, pause.message, pause.data], ['k', 'because', 'because', null]);
});

test('a signal that has fired before the turn calls nothing', async () => {
  const reason = new Error('too late');
  const noted = services();
  const provider = scripted(reply('never'));
  await assert.rejects(
    runOnce({ provider }, { signal: AbortSignal.abort(reason), services: noted }),
    (e) => e === reason,
  );
  assert.deepEqual([provider.requests.length, noted.log.length], [0, 0]);
});

test('an abort ends a turn whose provider never returns, for chat, chatStream and cached', async () => {
  const never = () => new Promise(() => {});
  const hanging = [
    { name: 'p', chat: never },
    { name: 'p', chatStream: () => ({ [Symbol.asyncIterator]: () => ({ next: never, return: never }) }) },
    { name: 'p', chat: never, cached: never },
  ];
  for (const provider of hanging) {
    const controller = new AbortController();
    const reason = new Error('stop');
    const seen = await unhandled(async () => {
      const running = runOnce({ provider }, { signal: controller.signal });
      await settle();
      controller.abort(reason);
      await assert.rejects(running, (error) => error === reason);
    });
    assert.deepEqual(seen, []);
  }
});

test('an abort ends a turn whose tool, admission, or observer never returns', async () => {
  const never = () => new Promise(() => {});
  const streamer = {
    name: 'p',
    async chat(_, { onDelta }) {
      onDelta('x');
      return reply('x');
    },
  };
  const cases = [
    [{ provider: scripted(calling(['t', 'stuck', {}])), tools: [tool('stuck', never)] }, {}],
    [{ provider: scripted(reply('x')) }, { services: services({ admit: never }) }],
    [{ provider: streamer }, { onDelta: never }],
  ];
  for (const [options, overrides] of cases) {
    const controller = new AbortController();
    const running = runOnce(options, { ...overrides, signal: controller.signal });
    await settle();
    controller.abort(new Error('stop'));
    await assert.rejects(running, /stop/);
  }
});

test('a stream that ignores the signal is left at its next message', async () => {
  const controller = new AbortController();
  let returned = false;
  let yielded = 0;
  const provider = {
    name: 'p',
    async *chatStream() {
      try {
        for (;;) {
          await settle();
          yielded++;
          yield reply('x', { state: 'interrupted' });
        }
      } finally {
        returned = true;
      }
    },
  };
  const running = runOnce({ provider }, { signal: controller.signal });
  await settle();
  controller.abort(new Error('stop'));
  await assert.rejects(running, /stop/);
  const before = yielded;
  await settle();
  await settle();
  await settle();
  assert.ok(returned && yielded <= before + 1);
});
