// Under which session and construction a `session/1` checkpoint is restored, and what of it a fork takes over.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { calling, execution, reply, scripted, turn } from './support/agent.mjs';
import { make, parked, refused, settled } from './support/checkpoints.mjs';
import { noting, open } from './support/session.mjs';

describe('what it is refused for', () => {
  test('A75 another environment, conversation or participant', async () => {
    for (const checkpoint of [await settled(), (await parked()).checkpoint]) {
      await refused(checkpoint, /environment/, { environment: '/home/bo' });
      await refused(checkpoint, /environment/, { environment: undefined });
      await refused(checkpoint, /conversation or participant/, {}, { conversationId: 'other' });
    }
  });

  test('K11 settled, another provider or model; another system message or tool set is told and restored', async () => {
    const checkpoint = await settled();
    await refused(checkpoint, /provider/, { provider: Object.assign(scripted(), { name: 'other' }) });
    await refused(checkpoint, /model/, { model: 'other' });
    const changes = [
      [{ systemMessage: 'be long' }, ['systemMessage']],
      [{ tools: [] }, ['tools']],
      [{ permissions: {} }, []],
      [{ tools: [noting('write', 'x', { description: 'another' })] }, ['tools']],
      [{ tools: [noting('write', 'x', { parameters: { type: 'object', required: [] } })] }, ['tools']],
      [{ tools: [noting('write', 'x', { idempotent: true })] }, []],
      [{ tools: [noting('write'), noting('more')], systemMessage: undefined }, ['systemMessage', 'tools']],
    ];
    for (const [extra, changed] of changes) {
      const events = [];
      const lease = await open(make(extra), { checkpoint, onEvent: (event) => events.push(event) });
      assert.deepEqual(
        events,
        changed.length === 0
          ? []
          : [{ type: 'construction-changed', conversationId: 'c', participantId: 'bot', changed }],
      );
      await lease.release();
    }
  });

  test('K11 parked, any difference', async () => {
    const { checkpoint } = await parked();
    await refused(checkpoint, /provider/, { provider: Object.assign(scripted(), { name: 'other' }) });
    await refused(checkpoint, /model/, { model: 'other' });
    await refused(checkpoint, /systemMessage/, { systemMessage: 'be long' });
    await refused(checkpoint, /tools/, { tools: [noting('write'), noting('more')] });
    const other = (extra) => ({ tools: [noting('write', 'x', extra)] });
    await refused(checkpoint, /tools/, other({ description: 'another' }));
    await refused(checkpoint, /tools/, other({ parameters: { type: 'object', required: [] } }));
    await refused(checkpoint, /tools/, { tools: [] });
    await (await open(make({ permissions: {} }), { checkpoint })).release();
  });

  test('K11 the order in which tools are given counts for nothing', async () => {
    const [one, two] = [() => noting('write'), () => noting('read')];
    const lease = await open(make({ provider: scripted(calling(['t', 'write', {}])), tools: [one(), two()] }));
    await lease.session.runTurn(turn('a1'), execution());
    const checkpoint = await lease.session.checkpoint();
    await lease.release();
    await (await open(make({ tools: [two(), one()] }), { checkpoint })).release();
  });
});

describe('C52a a fork', () => {
  const forkedFrom = { conversationId: 'c', revision: 3 };

  test('C52a takes a session id of its own and keeps its history, again and again', async () => {
    const checkpoint = await settled();
    const provider = scripted(reply('second'));
    const lease = await open(make({ provider }), { checkpoint, forkedFrom, conversationId: 'fork' });
    await lease.session.runTurn(turn('a2'), execution());
    assert.equal(provider.requests[0].messages[2].content, 'first');
    const { data, append } = await lease.session.checkpoint();
    assert.notEqual(data.sessionId, checkpoint.data.sessionId);
    await lease.release();
    const joined = { version: 'session/1', data, append: [...checkpoint.append, ...append] };
    await (await open(make(), { checkpoint: joined, forkedFrom, conversationId: 'fork' })).release();
  });

  test('C52a lives beside what it was forked from', async () => {
    const checkpoint = await settled();
    const origin = await open(make(), { checkpoint });
    const fork = await open(make(), { checkpoint, forkedFrom, conversationId: 'fork' });
    assert.equal((await fork.session.runTurn(turn('a1'), execution())).kind, 'speak');
    assert.equal((await origin.session.runTurn(turn('a1'), execution())).kind, 'speak');
    await Promise.all([origin.release(), fork.release()]);
  });

  test('C52a does not inherit what waits', async () => {
    const { checkpoint } = await parked();
    await refused(checkpoint, /fork/, {}, { forkedFrom, conversationId: 'fork' });
  });
});
