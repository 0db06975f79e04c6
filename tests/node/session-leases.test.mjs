// What a session holds while it is open: its options, provider, tools, and itself.
import assert from 'node:assert/strict';
import { test } from 'node:test';
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
