// Host code that throws what cannot even be looked at: the run ends with a failure, and nothing is left unhandled.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentParticipant, createRoundtable, sessionParticipant } from 'agent-roundtable';
import { calling, reply, scripted, tool, unhandled } from './support/agent.mjs';

const refuse = () => {
  throw new Error('trapped');
};
const revoked = () => {
  const { proxy, revoke } = Proxy.revocable(new Error('gone'), {});
  revoke();
  return proxy;
};
const thrown = {
  'a revoked proxy': revoked,
  'a proxy that refuses all': () =>
    new Proxy(
      {},
      { get: refuse, has: refuse, getPrototypeOf: refuse, ownKeys: refuse, getOwnPropertyDescriptor: refuse },
    ),
};
const limits = { maxTurnsPerRun: 1 };
const runtime = { id: 'r', version: '1' };
const agent = (options) =>
  agentParticipant({
    id: 'bot',
    runtime,
    createAgent: () => ({ model: 'm', provider: scripted(reply('x')), ...options }),
  });
const gated = (options) =>
  sessionParticipant({
    id: 'bot',
    runtime,
    createSessionOptions: () => ({
      model: 'm',
      provider: scripted(calling(['t1', 'write', {}]), reply('x')),
      tools: [tool('write', () => 'ok')],
      ...options,
    }),
  });
const opening = (openSession) => ({ kind: 'agent', id: 'bot', runtime, factory: { openSession } });

for (const [name, make] of Object.entries(thrown)) {
  const fails = () => {
    throw make();
  };
  const rejects = () => Promise.reject(make());
  const places = {
    'a provider that throws': agent({ provider: { name: 'p', chat: fails } }),
    'a provider that rejects': agent({ provider: { name: 'p', chat: rejects } }),
    'a stream': agent({ provider: { name: 'p', chatStream: fails } }),
    'a cache': agent({ provider: { name: 'p', chat: async () => reply('x'), cached: rejects } }),
    'the rules': gated({ permissions: fails }),
    'the decision': gated({ decide: rejects }),
    'the making of an agent': agentParticipant({ id: 'bot', runtime, createAgent: rejects }),
    'a turn': opening(async () => ({ session: { runTurn: rejects }, release() {} })),
    'a checkpoint': opening(async () => ({
      session: { runTurn: async () => ({ kind: 'speak', content: 'x' }), checkpoint: rejects },
      release() {},
    })),
  };
  for (const [place, participant] of Object.entries(places)) {
    test(`F ${name} from ${place} fails the run, and nothing is left unhandled`, async () => {
      const rejections = await unhandled(async () => {
        const table = createRoundtable({ conversationId: 'c', participants: [participant], limits });
        const result = await table.run().catch((error) => ({ status: 'failed', message: error.message }));
        assert.equal(result.status, 'failed');
        assert.doesNotMatch(result.message, /shape|JSON|EOF/);
        await table.dispose();
      });
      assert.deepEqual(rejections, []);
    });
  }

  test(`F ${name} from a selector fails the run`, async () => {
    const reference = { id: 's', version: '1' };
    const selector = { reference, select: rejects };
    const table = createRoundtable({ conversationId: 'c', participants: [agent({})], selector, limits });
    const result = await table.run();
    assert.equal(result.status, 'failed');
    assert.doesNotMatch(result.message, /shape|JSON|EOF/);
    await table.dispose();
  });

  test(`F ${name} from a tool is told to the model, and the turn goes on`, async () => {
    const told = [];
    const provider = scripted(calling(['t1', 'write', {}]), (messages) => {
      told.push(messages.at(-1));
      return reply('went on');
    });
    const table = createRoundtable({
      conversationId: 'c',
      participants: [agent({ provider, tools: [tool('write', fails)] })],
      limits,
    });
    assert.equal((await table.run()).status, 'limited');
    assert.deepEqual(
      table.snapshot().messages.map(({ content }) => content),
      ['went on'],
    );
    assert.match(told[0].content, /no text/);
    await table.dispose();
  });
}
