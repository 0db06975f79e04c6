// Sessions: tools that ask before they act, and the answers that let them.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { calling, execution, reply, scripted, turn } from './support/agent.mjs';
import { answered, noting, open, resume } from './support/session.mjs';

const asked = (extra = {}) => {
  const write = noting('write');
  const provider = scripted(calling(['t1', 'write', { path: 'a' }]), reply('done'));
  return { write, provider, options: { provider, tools: [write], ...extra } };
};

describe('A68 A69 A70 one approval', () => {
  test('A68 an ask-rule tool makes one approval wait with execution, action and call ids, and is not run', async () => {
    const { write, options } = asked();
    const lease = await open(options);
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    assert.equal(outcome.kind, 'wait');
    assert.equal(outcome.requests.length, 1);
    const [request] = outcome.requests;
    assert.deepEqual(Object.keys(request).sort(), ['data', 'id', 'kind', 'reason']);
    assert.equal(request.kind, 'approval');
    assert.match(request.reason, /write/);
    assert.deepEqual(request.data, {
      executionId: 'a1',
      actionId: 'a1:call:1:action:0',
      parentCallId: 'a1:call:1',
      toolCallId: 't1',
      toolName: 'write',
      arguments: { path: 'a' },
    });
    assert.deepEqual(write.calls, []);
    await lease.release();
  });

  test('A69 approved, the turn completes without new input and the effect happens once', async () => {
    const { write, provider, options } = asked();
    const lease = await open(options);
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    assert.deepEqual(await resume(lease, requests), { kind: 'speak', content: 'done' });
    assert.equal(write.calls.length, 1);
    assert.deepEqual(write.calls[0].args, { path: 'a' });
    const shown = provider.requests[1].messages;
    assert.deepEqual(
      shown.map(({ role, content }) => [role, content]),
      [
        ['user', '### From ana\n> hello'],
        ['assistant', null],
        ['tool', 'write ran'],
      ],
    );
    await lease.release();
  });

  test('A70 denied, the turn completes, the effect never happens, and the model is told why', async () => {
    const { write, provider, options } = asked();
    const lease = await open(options);
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    const no = { kind: 'approval', approved: false, reason: 'not this file' };
    assert.deepEqual(await resume(lease, requests, no), { kind: 'speak', content: 'done' });
    assert.deepEqual(write.calls, []);
    assert.match(provider.requests[1].messages[2].content, /"denied".*not this file/);
    await lease.release();
  });

  test('A72 an unknown request, and an answer where nothing waits, is identity-mismatch', async () => {
    const { options } = asked();
    const lease = await open(options);
    await assert.rejects(lease.session.resumeTurn(turn('a2'), [], execution()), { code: 'identity-mismatch' });
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    const other = answered({ ...requests[0], id: 'other' }, true);
    await assert.rejects(lease.session.resumeTurn(turn('a1'), [other], execution()), { code: 'identity-mismatch' });
    assert.deepEqual(await resume(lease, requests), { kind: 'speak', content: 'done' });
    await lease.release();
  });
});
