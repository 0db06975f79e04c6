// What stays on the JavaScript side: identities, signals and functions; and what happens to text that crosses.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { instanceCount, trapNextCall } from './support/traps.mjs';
import {
  createRoundtable,
  loadRoundtable,
  MemoryConversationStore,
  renderSharedIncrement,
  sessionParticipant,
  version,
} from 'agent-roundtable';
import { calling, execution, open, reply, scripted, settle, tool, turn } from './support/agent.mjs';
import { action, answers, attempt, done, open as openRuntime, waits } from './support/runtime.mjs';
import { chair, context, given, speak } from './support/selector.mjs';
import { noting, open as openSession, resume } from './support/session.mjs';

test("K15 a provider and a tool are called as the host's own objects, with a real signal and its own reason", async () => {
  const reason = { why: 'an object of the host' };
  const controller = new AbortController();
  const seen = [];
  class Provider {
    name = 'p';
    #replies = [calling(['t', 'look', {}])];
    async chat(_, { signal }) {
      seen.push(signal);
      return this.#replies.shift();
    }
  }
  class Look {
    name = 'look';
    description = '';
    parameters = { type: 'object' };
    #never = new Promise(() => {});
    execute(_, { signal }) {
      seen.push(signal);
      return this.#never;
    }
  }
  const lease = await open({ provider: new Provider(), tools: [new Look()] });
  const running = lease.session.runTurn(turn(), execution({ signal: controller.signal }));
  await settle();
  controller.abort(reason);
  await assert.rejects(running, (error) => error === reason);
  assert.equal(seen.length, 2);
  for (const signal of seen) {
    assert.ok(signal instanceof AbortSignal);
    assert.equal(signal.reason, reason);
  }
  await lease.release();
});

test("K15 every function of a provider, a tool, options and a runtime is called on the host's own object", async () => {
  class Streaming {
    name = 'p';
    #said = [];
    #reply = () => (this.#said.length === 1 ? calling(['t', 'look', {}]) : reply('done'));
    async cached() {
      this.#said.push('cached');
      return undefined;
    }
    async *chatStream() {
      yield this.#reply();
    }
    supportsTools() {
      return this.#said.length === 0;
    }
    said = () => this.#said;
  }
  class Options {
    model = 'm';
    provider = new Streaming();
    tools = [tool('look', () => 1)];
    #disposed = 0;
    dispose() {
      this.#disposed++;
    }
    disposed = () => this.#disposed;
  }
  const options = new Options();
  const lease = await open(() => options);
  assert.deepEqual(await lease.session.runTurn(turn(), execution()), { kind: 'speak', content: 'done' });
  await lease.release();
  assert.deepEqual([options.provider.said(), options.disposed()], [['cached', 'cached'], 1]);

  class Runtime {
    #log = [];
    async run() {
      this.#log.push('run');
      return waits([action('t')]);
    }
    async resume() {
      this.#log.push('resume');
      return done('x');
    }
    async dispose() {
      this.#log.push('dispose');
    }
    log = () => this.#log;
  }
  const runtime = new Runtime();
  const foreign = await openRuntime(runtime);
  const outcome = await foreign.session.runTurn(turn('a1'), execution());
  await foreign.session.resumeTurn(attempt('a2'), answers(outcome), execution());
  await foreign.release();
  assert.deepEqual(runtime.log(), ['run', 'resume', 'dispose']);
});

test('K15 who holds what outlives the engine: after a trap the provider is held until its session is released', async () => {
  const provider = scripted(reply('again'));
  const lease = await open({ provider });
  trapNextCall('agenthandle_handle');
  await assert.rejects(lease.session.runTurn(turn(), execution()), { name: 'EngineLostError' });
  await assert.rejects(open({ provider }), { code: 'resource-reused' });
  await lease.release().catch(() => undefined);
  const next = await open({ provider });
  assert.deepEqual(await next.session.runTurn(turn(), execution()), { kind: 'speak', content: 'again' });
  await next.release();
});

test('K15 a wait that is parked outlives the engine: after a trap another session takes it over, with one effect', async () => {
  const write = noting('write');
  const parked = await openSession({ provider: scripted(calling(['t', 'write', { path: 'a' }])), tools: [write] });
  const { requests } = await parked.session.runTurn(turn(), execution());
  const checkpoint = await parked.session.checkpoint();
  const before = instanceCount();
  trapNextCall('agenthandle_pending');
  await assert.rejects(resume(parked, requests), { name: 'EngineLostError' });
  await assert.rejects(parked.session.checkpoint(), { name: 'EngineLostError' });
  await parked.release().catch(() => undefined);
  const next = await openSession({ provider: scripted(reply('done')), tools: [write] }, { checkpoint });
  assert.equal(instanceCount(), before + 1);
  assert.deepEqual(await resume(next, requests), { kind: 'speak', content: 'done' });
  assert.deepEqual(
    write.calls.map(({ args }) => args),
    [{ path: 'a' }],
  );
  await next.release();
});

test('K15 A76 a conversation that waits is loaded into the next engine after a trap, answered and finished', async () => {
  const write = noting('write');
  const agent = sessionParticipant({
    id: 'ana',
    runtime: { id: 'r', version: '1' },
    createSessionOptions: () => ({
      model: 'm',
      provider: {
        name: 'p',
        chat: async (messages) => (messages.length === 1 ? calling(['t', 'write', {}]) : reply('done')),
      },
      tools: [{ ...write }],
    }),
  });
  const store = new MemoryConversationStore();
  const limits = { maxTurnsPerRun: 1 };
  const first = createRoundtable({ conversationId: 'trapped', participants: [agent], limits, store, leaseMs: 1_000 });
  const { requests } = await first.run();
  trapNextCall('version');
  assert.throws(version, { name: 'EngineLostError' });
  await assert.rejects(first.run(), { code: 'internal' });
  await first.dispose().catch(() => undefined);
  const registry = { resolveParticipant: () => ({ reference: agent.runtime, factory: agent.factory }) };
  const second = await loadRoundtable({ conversationId: 'trapped', store, registry });
  const [{ id: requestId }] = requests;
  const response = { kind: 'approval', approved: true };
  await second.resume({ requestId, responseId: 'yes', expectedRevision: second.snapshot().revision, response });
  assert.equal((await second.run()).status, 'limited');
  assert.deepEqual(
    second.snapshot().messages.map(({ content }) => content),
    ['done'],
  );
  assert.equal(write.calls.length, 1);
  await second.dispose();
});

test('K15 a selector decides again after a trap', async () => {
  const selector = chair(scripted(speak('ana')));
  trapNextCall('decisionPrompt');
  await assert.rejects(selector.select(context(), given()), { name: 'EngineLostError' });
  assert.equal((await selector.select(context(), given())).participantId, 'ana');
});

test('K15 lone surrogates are U+FFFD wherever text of a conversation is shown', async () => {
  const text = renderSharedIncrement({ turn: turn('a', [['ana', 'x\ud800y']], 'p\udc00'), firstTurn: true });
  assert.equal(text, 'Purpose: p\ufffd\n\n### From ana\n> x\ufffdy');
  const provider = scripted(speak('ana'));
  const people = [{ id: 'ana', kind: 'agent', description: 'a\ud800' }];
  await chair(provider).select(context(people, [['ana', '\udc00']]), given());
  const prompt = provider.requests[0].messages[0].content;
  assert.ok(prompt.includes('- ana (agent: a\ufffd)') && prompt.includes('> \ufffd\n'), prompt);
});

test('K14 an abort of a decision whose journal failed as well has that failure as its cause', async () => {
  const controller = new AbortController();
  const reason = new Error('stop');
  const boom = new Error('ledger away');
  const services = {
    async admitModelCall() {},
    async recordUsage() {
      controller.abort(reason);
      throw boom;
    },
  };
  const deciding = chair(scripted(speak('ana'))).select(context(), given({ signal: controller.signal, services }));
  await assert.rejects(deciding, (error) => {
    assert.equal(error.name, 'AbortError');
    assert.equal(error.reason, reason);
    assert.equal(error.cause.cause, boom);
    return true;
  });
});

test('K15 a tool is given arguments that hold no half of a pair, and a key never reaches it', async () => {
  const given = [];
  const look = tool('look', (args) => given.push(args));
  const provider = scripted(
    calling(['t', 'look', '{"\ud800":1}'], ['u', 'look', '{"x":"\\ud83d\\ude00"}']),
    reply('ok'),
  );
  const lease = await open({ provider, tools: [look] });
  await lease.session.runTurn(turn(), execution());
  assert.deepEqual(given, [{ x: '\u{1f600}' }]);
  await lease.release();
});
