// What a session holds while it is open: its options, provider, tools, and itself.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentParticipant, agentSelector, sessionParticipant } from 'agent-roundtable';
import { runtimeParticipant } from 'agent-roundtable/runtime';
import { deferred, execution, reply, scripted, settle, turn } from './support/agent.mjs';
import { arrayJournal, noting, open, resume } from './support/session.mjs';

const speak = (content) => ({ kind: 'speak', content });

test('A58 two conversations have separate sessions and answers', async () => {
  const [one, two] = await Promise.all([
    open({ provider: scripted(reply('one')) }, { conversationId: 'c1' }),
    open({ provider: scripted(reply('two')) }, { conversationId: 'c2' }),
  ]);
  const run = (lease) => lease.session.runTurn(turn(), execution());
  assert.deepEqual(await Promise.all([run(one), run(two)]), [speak('one'), speak('two')]);
  const heads = await Promise.all([one, two].map(async ({ session }) => (await session.checkpoint()).data.sessionId));
  assert.equal(new Set(heads).size, 2);
  await Promise.all([one.release(), two.release()]);
});

test('A58 conversations whose long ids begin alike have separate sessions', async () => {
  const ids = ['one', 'two'].map((end) => `${'long '.repeat(100)}${end}`);
  const leases = await Promise.all(
    ids.map((conversationId) => open({ provider: scripted(reply(conversationId.slice(-3))) }, { conversationId })),
  );
  for (const [index, { session }] of leases.entries())
    assert.deepEqual(await session.runTurn(turn(), execution()), speak(['one', 'two'][index]));
  const heads = await Promise.all(leases.map(async ({ session }) => (await session.checkpoint()).data.sessionId));
  assert.equal(new Set(heads).size, 2);
  await Promise.all(leases.map((lease) => lease.release()));
});

test('A59 a shared provider is refused while it is held, and opens after the release', async () => {
  const provider = scripted(reply('x'));
  const lease = await open({ provider });
  await assert.rejects(open({ provider }, { conversationId: 'other' }), { code: 'resource-reused' });
  assert.deepEqual(await lease.session.runTurn(turn(), execution()), speak('x'));
  await lease.release();
  await (await open({ provider }, { conversationId: 'other' })).release();
});

test('A64 a release is idempotent, and the provider can be used again', async () => {
  const provider = scripted();
  let disposed = 0;
  const lease = await open({ provider, dispose: () => void disposed++ });
  await Promise.all([lease.release(), lease.release()]);
  await lease.release();
  assert.equal(disposed, 1);
  await (await open({ provider })).release();
});

test('A67 two tool sets that are built apart both open', async () => {
  const tools = () => [noting('read'), noting('write')];
  const leases = await Promise.all([
    open({ provider: scripted(), tools: tools() }, { conversationId: 'c1' }),
    open({ provider: scripted(), tools: tools() }, { conversationId: 'c2' }),
  ]);
  for (const lease of leases) await lease.release();
});

test('A78 a journal factory that throws frees the provider, and the options are disposed of', async () => {
  const provider = scripted();
  let disposed = 0;
  const journal = () => {
    throw new Error('no journal today');
  };
  const options = { provider, dispose: () => void disposed++ };
  await assert.rejects(open(options, { journal }), /no journal today/);
  await assert.rejects(open(options, { journal: () => ({}) }), { code: 'invalid-config' });
  assert.equal(disposed, 2);
  await (await open({ provider })).release();
});

test('K7 a session is open once: a second lease over the same ids is refused until the first is released', async () => {
  const lease = await open({ provider: scripted() });
  await assert.rejects(open({ provider: scripted() }), (error) => {
    assert.equal(error.code, 'resource-reused');
    assert.match(error.message, /session/);
    return true;
  });
  await lease.release();
  await (await open({ provider: scripted() })).release();
});

test('K8 options of a session whose name is taken are disposed of, and free; shared ones are left alone', async () => {
  let disposed = 0;
  const options = () => ({ provider: scripted(), dispose: () => void disposed++ });
  const holder = options();
  const first = await open(holder);
  const second = options();
  await assert.rejects(open(second), { code: 'resource-reused', message: /is open already/ });
  assert.equal(disposed, 1);
  await assert.rejects(open(second), { code: 'resource-reused', message: /is open already/ }, 'they are free');
  assert.equal(disposed, 2);
  await assert.rejects(open({ ...options(), provider: holder.provider }), {
    code: 'resource-reused',
    message: /scripted/,
  });
  assert.equal(disposed, 2, 'what another session uses is not closed');
  await first.release();

  const runtimes = { run() {}, dispose: () => void disposed++ };
  const { factory } = runtimeParticipant({ ...named, createRuntime: () => ({ ...runtimes }) });
  const context = { conversationId: 'c', participantId: 'x' };
  const lease = await factory.openSession(context);
  await assert.rejects(factory.openSession(context), { code: 'resource-reused', message: /is open already/ });
  assert.equal(disposed, 4);
  await lease.release();
  assert.equal(disposed, 5);
});

test('K7 two leases from one checkpoint never share a journal', async () => {
  const tools = () => [noting('write')];
  const call = { id: 't', type: 'function', function: { name: 'write', arguments: '{}' } };
  const fresh = (replies = []) => ({ provider: scripted(...replies), tools: tools() });
  const first = await open(fresh([reply(null, { toolCalls: [call] })]));
  await assert.rejects(open(fresh()), { code: 'resource-reused' });
  const { requests } = await first.session.runTurn(turn(), execution());
  const checkpoint = await first.session.checkpoint();
  // A parked wait may be taken over, by one lease at a time.
  const second = await open(fresh([reply('done')]), { checkpoint });
  await assert.rejects(open(fresh(), { checkpoint }), { code: 'resource-reused' });
  await assert.rejects(resume(first, requests), { code: 'resource-reused' });
  assert.deepEqual(await resume(second, requests), speak('done'));
  await first.release();
  await assert.rejects(open(fresh()), { code: 'resource-reused' });
  await second.release();
  await (await open(fresh())).release();
});

test('K8 nothing is free before the shutdown has finished', async () => {
  const provider = scripted();
  const closing = deferred();
  const lease = await open({ provider, dispose: () => closing.promise });
  const released = lease.release();
  await settle();
  await assert.rejects(open({ provider }, { conversationId: 'other' }), { code: 'resource-reused' });
  await assert.rejects(open({ provider: scripted() }), { code: 'resource-reused' });
  closing.resolve();
  await released;
  await (await open({ provider })).release();
});

test('K8 a shutdown that fails is told, and frees everything', async () => {
  const provider = scripted();
  const lease = await open({ provider, dispose: () => Promise.reject(new Error('stuck')) });
  await assert.rejects(lease.release(), /stuck/);
  await (await open({ provider })).release();
});

test('A89 K8 options of a session that its checkpoint refuses are disposed of, and free', async () => {
  const provider = scripted();
  let disposed = 0;
  const checkpoint = { version: 'session/2', data: {} };
  await assert.rejects(open({ provider, dispose: () => void disposed++ }, { checkpoint }), {
    code: 'checkpoint-invalid',
  });
  assert.equal(disposed, 1);
  await (await open({ provider })).release();
});

test('A75 A89 K8 a checkpoint that is refused for its environment disposes of what was made for it, once', async () => {
  const first = await open({ provider: scripted(), environment: '/home/ana' });
  const checkpoint = await first.session.checkpoint();
  await first.release();
  const [provider, write] = [scripted(), noting('write')];
  const log = [];
  const dispose = async () => {
    await settle();
    log.push('disposed');
  };
  const opening = open({ provider, tools: [write], environment: '/home/bo', dispose }, { checkpoint });
  await settle();
  await assert.rejects(open({ provider }), { code: 'resource-reused' }, 'nothing is free before it has ended');
  await assert.rejects(opening, { code: 'checkpoint-invalid', message: /environment/ });
  assert.deepEqual(log, ['disposed']);
  await (await open({ provider, tools: [write], environment: '/home/ana' }, { checkpoint })).release();
});

test('A19 K7 a session that is released again frees neither objects nor name of the one that has them since', async () => {
  const provider = scripted();
  const first = await open({ provider });
  await first.release();
  const second = await open({ provider });
  await first.release();
  await assert.rejects(open({ provider }, { conversationId: 'other' }), { code: 'resource-reused' });
  await assert.rejects(open({ provider: scripted() }), { code: 'resource-reused', message: /is open already/ });
  await second.release();

  const client = { name: 'client' };
  const { factory } = runtimeParticipant({ ...named, createRuntime: () => ({ run() {}, resources: [client] }) });
  const openRuntime = (conversationId) => factory.openSession({ conversationId, participantId: 'x' });
  const one = await openRuntime('c');
  await one.release();
  const two = await openRuntime('c');
  await one.release();
  await assert.rejects(openRuntime('d'), { code: 'resource-reused', message: /client/ });
  await two.release();
  await (await openRuntime('d')).release();
});

test('options of the wrong type are refused by name', async () => {
  const cases = [
    [{ environment: 7 }, /environment/],
    [{ environment: 'x'.repeat(8193) }, /environment.*8192/],
    [{ permissions: { allow: 'read' } }, /permissions\.allow/],
    [{ permissions: { allow: [7] } }, /permissions\.allow\[0\]/],
    [{ permissions: { allows: [] } }, /permissions\.allows/],
    [{ permissions: { default: 'maybe' } }, /permissions\.default/],
    [{ permissions: [] }, /permissions/],
    [{ decide: 'yes' }, /decide/],
  ];
  for (const [extra, message] of cases) {
    await assert.rejects(open({ provider: scripted(), ...extra }), (error) => {
      assert.equal(error.code, 'invalid-config', String(error));
      assert.match(error.message, message);
      return true;
    });
  }
});

test('the host journal is asked for once, with the session id', async () => {
  const asked = [];
  const journal = (sessionId) => {
    asked.push(sessionId);
    return arrayJournal();
  };
  const lease = await open({ provider: scripted(reply('a'), reply('b')) }, { journal });
  await lease.session.runTurn(turn('a1'), execution());
  await lease.session.runTurn(turn('a2'), execution());
  assert.deepEqual(asked, [(await lease.session.checkpoint()).data.sessionId]);
  await lease.release();
});

test('ids of any length and script name a session', async () => {
  const long = 'ö\u2028"'.repeat(150);
  const lease = await open({ provider: scripted(reply('x')) }, { conversationId: long });
  const { sessionId } = (await lease.session.checkpoint()).data;
  assert.ok(sessionId.length <= 512);
  assert.deepEqual(await lease.session.runTurn(turn(), execution()), speak('x'));
  await lease.release();
});

test('K8 a release waits for a turn, and ends one that was stopped or takes too long, before it disposes of anything', async () => {
  const call = { id: 't', type: 'function', function: { name: 'write', arguments: '{}' } };
  for (const where of ['model', 'tool', 'stubborn tool']) {
    for (const first of ['release', 'abort']) {
      const order = [];
      const controller = new AbortController();
      const until = (signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            order.push('stopped');
            if (where !== 'stubborn tool') reject(signal.reason);
          });
        });
      const replies = where === 'model' ? [(_m, { signal }) => until(signal)] : [reply(null, { toolCalls: [call] })];
      const options = {
        provider: scripted(...replies),
        tools: [noting('write', (_args, { signal }) => until(signal))],
        permissions: { allow: ['*'] },
        dispose: () => void order.push('disposed'),
      };
      // Where it is stopped first, the time it has is not waited for.
      const lease = await open(options, { settleTimeoutMs: first === 'abort' ? 2 ** 31 - 1 : 20 });
      const running = lease.session.runTurn(turn(), execution({ signal: controller.signal }));
      void running.catch(() => order.push('over'));
      await settle();
      if (first === 'abort') controller.abort(new Error('enough'));
      await Promise.all([lease.release(), lease.release()]);
      assert.deepEqual(order, ['stopped', 'over', 'disposed'], `${where}, ${first}`);
      await assert.rejects(running, first === 'abort' ? /enough/ : { code: 'disposed' });
    }
  }
});

test('K8 a turn that ends while its session is released gives its outcome', async () => {
  const said = deferred();
  const lease = await open({ provider: scripted(() => said.promise) });
  const running = lease.session.runTurn(turn(), execution());
  await settle();
  const releasing = lease.release();
  await assert.rejects(lease.session.runTurn(turn(), execution()), { code: 'disposed' });
  said.resolve(reply('late'));
  assert.deepEqual(await running, speak('late'));
  await releasing;
});

test('K8 a tool that releases its own session does not wait for itself', async () => {
  const call = { id: 't', type: 'function', function: { name: 'write', arguments: '{}' } };
  const tools = [noting('write', () => lease.release().then(() => 'released'))];
  const options = { provider: scripted(reply(null, { toolCalls: [call] })), tools, permissions: { allow: ['*'] } };
  const lease = await open(options, { settleTimeoutMs: 20 });
  await assert.rejects(lease.session.runTurn(turn(), execution()), { code: 'disposed' });
  await lease.release();
});

const participants = { sessionParticipant, agentParticipant, runtimeParticipant };
const factories = {
  sessionParticipant: 'createSessionOptions',
  agentParticipant: 'createAgent',
  runtimeParticipant: 'createRuntime',
};
const named = { id: 'x', runtime: { id: 'r', version: '1' } };

test('F callbacks that are none are refused by name when a participant or selector is made, not in its first turn', () => {
  const refused = (make, message) => assert.throws(make, { code: 'invalid-config', message });
  for (const [create, factory] of Object.entries({ ...factories, agentSelector: 'createAgent' })) {
    const make = { ...participants, agentSelector }[create];
    for (const options of [undefined, null, 5]) refused(() => make(options), /^options must be an object/);
    refused(() => make({ ...named }), new RegExp(`^${factory} is required`));
    refused(() => make({ ...named, [factory]: 5 }), new RegExp(`^${factory} must be a function, not a number`));
  }
  for (const key of ['render', 'onEvent'])
    refused(() => agentParticipant({ ...named, createAgent() {}, [key]: 5 }), new RegExp(`^${key} must be a function`));
  for (const key of ['render', 'journal']) {
    refused(() => sessionParticipant({ ...named, createSessionOptions() {}, [key]: 5 }), new RegExp(`^${key} must be`));
    refused(() => runtimeParticipant({ ...named, createRuntime() {}, [key]: 5 }), new RegExp(`^${key} must be`));
  }
});

test('settleTimeoutMs outside its bounds is refused', () => {
  for (const settleTimeoutMs of [-1, 0.5, 2 ** 31, NaN, '5', null])
    for (const [create, factory] of Object.entries(factories))
      assert.throws(() => participants[create]({ ...named, [factory]: () => {}, settleTimeoutMs }), {
        code: 'invalid-config',
        message: /^settleTimeoutMs/,
      });
});

test('A58 a conversation of the same id on another store leaves the records of a wait alone', async () => {
  const call = { id: 't', type: 'function', function: { name: 'write', arguments: '{}' } };
  const tools = () => [noting('write')];
  const first = await open({ provider: scripted(reply(null, { toolCalls: [call] })), tools: tools() });
  const { requests } = await first.session.runTurn(turn('a1'), execution());
  const checkpoint = await first.session.checkpoint();
  await first.release();
  // Another conversation: opened, run, and released.
  const other = await open({ provider: scripted(reply('other')) });
  assert.deepEqual(await other.session.runTurn(turn('b1'), execution()), speak('other'));
  await other.release();
  const again = await open({ provider: scripted(reply('done')), tools: tools() }, { checkpoint });
  assert.deepEqual(await resume(again, requests), speak('done'));
  await again.release();
});
