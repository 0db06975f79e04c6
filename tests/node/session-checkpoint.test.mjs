// The `session/1` checkpoint: what it holds, what it restores, and everything it refuses.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { sessionParticipant } from 'agent-roundtable';
import { calling, execution, reply, scripted, turn } from './support/agent.mjs';
import { make, parked, refused, settled } from './support/checkpoints.mjs';
import { noting, open, resume } from './support/session.mjs';

describe('what it holds', () => {
  test('A36 A75 a settled session is restored equal, with real dates', async () => {
    const checkpoint = await settled();
    assert.equal(checkpoint.version, 'session/1');
    assert.deepEqual(Object.keys(checkpoint.data).sort(), [
      'environment',
      'fingerprint',
      'firstTurnDone',
      'pending',
      'sessionId',
    ]);
    assert.deepEqual([checkpoint.data.pending, checkpoint.data.firstTurnDone], [null, true]);
    const provider = scripted(reply('second'));
    const lease = await open(make({ provider }), { checkpoint: JSON.parse(JSON.stringify(checkpoint)) });
    assert.deepEqual(await lease.session.checkpoint(), { ...checkpoint, append: [] }, 'equal head, nothing to append');
    await lease.session.runTurn(turn('a2', [['ana', 'again']], 'the purpose'), execution());
    const [system, first, second, third] = provider.requests[0].messages;
    assert.deepEqual(
      [system, first, second, third].map(({ content }) => content),
      ['be brief', '### From ana\n> hello', 'first', '### From ana\n> again'],
    );
    assert.ok(first.timestamp instanceof Date && second.metadata.seen instanceof Date);
    assert.equal((await lease.session.checkpoint()).append.length, 2, 'only what the turn added');
    await lease.release();
  });

  test('A37 a parked session is a receipt: the execution, its requests and no history', async () => {
    const { requests, checkpoint } = await parked();
    assert.deepEqual(checkpoint.append, []);
    assert.deepEqual(checkpoint.data.pending, { executionId: 'a1', requestIds: requests.map(({ id }) => id) });
    assert.equal(checkpoint.data.firstTurnDone, true);
    const lease = await open(make(), { checkpoint });
    assert.deepEqual(await lease.session.checkpoint(), checkpoint);
    assert.deepEqual(await resume(lease, requests), { kind: 'speak', content: 'done' });
    assert.equal((await lease.session.checkpoint()).data.pending, null);
    await lease.release();
  });

  test('A37 a receipt names every request, in the order in which they were made', async () => {
    const { requests, checkpoint } = await parked(['t', 'write', {}], ['u', 'write', { n: 2 }], ['v', 'write', {}]);
    assert.equal(requests.length, 3);
    assert.deepEqual(
      checkpoint.data.pending.requestIds,
      requests.map(({ id }) => id),
    );
    const lease = await open(make(), { checkpoint });
    assert.deepEqual(await lease.session.checkpoint(), checkpoint);
    assert.deepEqual(await resume(lease, requests), { kind: 'speak', content: 'done' });
    await lease.release();
  });

  test('A43 A75 no construction input, credential, callable or record is in it', async () => {
    const canary = (name) => `canary-${name}`;
    const write = noting('write', canary('result'), { description: canary('description'), secret: canary('tool') });
    const call = calling(['t', 'write', { path: canary('argument') }]);
    const provider = Object.assign(scripted(call, reply('done')), { name: canary('provider'), apiKey: canary('key') });
    const options = {
      provider,
      model: canary('model'),
      tools: [write],
      systemMessage: canary('system'),
      permissions: { deny: [canary('rule')] },
    };
    const lease = await open(options);
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    const receipt = JSON.stringify(await lease.session.checkpoint());
    assert.doesNotMatch(receipt, /canary/, receipt);
    assert.ok(receipt.length < 1500, `a receipt is short, not ${receipt.length}`);
    await resume(lease, requests);
    const text = JSON.stringify(await lease.session.checkpoint());
    for (const name of ['description', 'tool', 'provider', 'key', 'model', 'system', 'rule'])
      assert.ok(!text.includes(canary(name)), name);
    for (const kind of ['tool-intent', 'execution-start', 'idempotencyKey', 'a1:call:1:request'])
      assert.ok(!text.includes(kind), kind);
    assert.ok(text.includes(canary('argument')) && text.includes(canary('result')), 'the conversation itself is');
    await lease.release();
  });

  test('A40 A41 A42 data shaped like a tag stays data, beside real dates', async () => {
    const metadata = {
      date: { $date: '2027-01-05T08:00:01.000Z' },
      escape: { $escaped: { $date: 1 } },
      nested: { $escaped: { $escaped: {} } },
      real: new Date(7),
    };
    const lease = await open(make({ provider: scripted(reply('x', { metadata })) }));
    await lease.session.runTurn(turn('a1'), execution());
    const checkpoint = JSON.parse(JSON.stringify(await lease.session.checkpoint()));
    await lease.release();
    const provider = scripted(reply('y'));
    const again = await open(make({ provider }), { checkpoint });
    await again.session.runTurn(turn('a2'), execution());
    assert.deepEqual(provider.requests[0].messages[2].metadata, metadata);
    await again.release();
  });

  test('A40 A41 A42 only dates, and objects whose one key looks like a tag, are written differently', async () => {
    const metadata = {
      date: { $date: 'x' },
      escape: { $escaped: [new Date(7)] },
      more: { $date: 'x', $escaped: 'y' },
      none: {},
      real: new Date(7),
    };
    const lease = await open(make({ provider: scripted(reply('x', { metadata })) }));
    await lease.session.runTurn(turn('a1'), execution());
    const [, { metadata: coded }] = (await lease.session.checkpoint()).append;
    const $date = '1970-01-01T00:00:00.007Z';
    assert.deepEqual(coded, {
      date: { $escaped: { $date: 'x' } },
      escape: { $escaped: { $escaped: [{ $date }] } },
      more: { $date: 'x', $escaped: 'y' },
      none: {},
      real: { $date },
    });
    await lease.release();
  });

  test('A36 what a message of each kind holds is restored, member by member', async () => {
    const said = reply('first', { parts: [{ type: 'text', when: new Date(6) }], metadata: { seen: new Date(5) } });
    const call = calling(['t', 'write', { n: 1 }]);
    const allowed = { permissions: { allow: ['*'] } };
    const lease = await open(make({ provider: scripted(call, said), ...allowed }));
    await lease.session.runTurn(turn('a1'), execution());
    const checkpoint = JSON.parse(JSON.stringify(await lease.session.checkpoint()));
    await lease.release();
    const provider = scripted(reply('second'));
    const again = await open(make({ provider, ...allowed }), { checkpoint });
    await again.session.runTurn(turn('a2'), execution());
    const [, asked, called, result, last] = provider.requests[0].messages;
    assert.deepEqual([asked.role, asked.content], ['user', '### From ana\n> hello']);
    assert.deepEqual(called, { ...call, content: null });
    assert.deepEqual(
      { ...result, id: '', timestamp: 0 },
      {
        id: '',
        role: 'tool',
        content: 'write ran',
        timestamp: 0,
        state: 'complete',
        toolCallId: 't',
        name: 'write',
      },
    );
    assert.deepEqual(last, said);
    await again.release();
  });

  test('A36 a turn that failed after its tools ran is in no checkpoint', async () => {
    const failing = () => Promise.reject(new Error('503'));
    const provider = scripted(calling(['t', 'read', {}]), failing, reply('second'));
    const lease = await open(make({ provider, tools: [noting('read')] }));
    await assert.rejects(lease.session.runTurn(turn('a1'), execution()), /503/);
    assert.deepEqual((await lease.session.checkpoint()).append, []);
    await lease.session.runTurn(turn('a2'), execution());
    const { append } = await lease.session.checkpoint();
    assert.deepEqual(
      append.map(({ content }) => content),
      ['### From ana\n> hello', 'second'],
    );
    assert.equal(provider.requests[2].messages.length, 2, 'nor in what the model is shown');
    await lease.release();
  });

  test('A77 its version is among those declared, with continuation and metering', async () => {
    const { factory } = sessionParticipant({ id: 'x', runtime: { id: 'x', version: '1' }, createSessionOptions: make });
    assert.ok(factory.checkpointVersions.includes((await settled()).version));
    assert.deepEqual(
      [factory.checkpointVersions, factory.supportsContinuation, factory.modelCalls],
      [['session/1'], true, 'metered'],
    );
  });

  test('the first turn is over when any outcome was returned, and not when the turn threw', async () => {
    const lease = await open(
      make({ provider: scripted(() => Promise.reject(new Error('no')), reply(' '), reply('x')) }),
    );
    const inputs = [];
    for (const attempt of ['a1', 'a2', 'a3']) {
      await lease.session.runTurn(turn(attempt, [['ana', 'hi']], 'the purpose'), execution()).catch(() => undefined);
      inputs.push((await lease.session.checkpoint()).data.firstTurnDone);
    }
    assert.deepEqual(inputs, [false, true, true]);
    await lease.release();
    for (const firstTurnDone of [false, true]) {
      const provider = scripted(reply('x'));
      const { data, version } = await settled();
      const restored = await open(make({ provider }), { checkpoint: { version, data: { ...data, firstTurnDone } } });
      await restored.session.runTurn(turn('b1', [], 'the purpose'), execution());
      const { content } = provider.requests[0].messages.at(-1);
      assert.equal(content.includes('the purpose'), !firstTurnDone, 'as the checkpoint says');
      await restored.release();
    }
  });
});

describe('what it refuses', () => {
  test('A38 another version', async () => {
    const checkpoint = await settled();
    for (const version of ['session/2', 'agent/1', 'session/1 ', ''])
      await refused({ ...checkpoint, version }, /version/);
  });

  test('A39 K11 every member of the head that is missing or malformed, by name', async () => {
    const checkpoint = await settled();
    const pending = { executionId: 'e', requestIds: ['r'] };
    const cases = [
      ['sessionId', [undefined, null, '', 7, 'x'.repeat(513)], /sessionId/],
      ['environment', [undefined, null, 7], /environment/],
      ['firstTurnDone', [undefined, null, 'yes', 1], /firstTurnDone/],
      ['pending', [undefined, 7, 'x', [], {}], /pending/],
      ['pending', [{ ...pending, executionId: '' }, { requestIds: ['r'] }], /executionId/],
      ['pending', [{ ...pending, requestIds: 'r' }, { executionId: 'e' }], /requestIds/],
      [
        'pending',
        [
          { ...pending, requestIds: [] },
          { ...pending, requestIds: Array(65).fill('r') },
        ],
        /requestIds/,
      ],
      [
        'pending',
        [
          { ...pending, requestIds: [''] },
          { ...pending, requestIds: [7] },
        ],
        /requestIds\[0\]/,
      ],
      ['pending', [{ ...pending, requestIds: ['r', 'r'] }], /requestIds\[1\]/],
      ['fingerprint', [undefined, null, {}, { ...checkpoint.data.fingerprint, model: 'x' }], /fingerprint/],
    ];
    for (const [key, values, says] of cases) {
      for (const value of values) {
        const data = { ...checkpoint.data, [key]: value };
        await refused({ ...checkpoint, data: JSON.parse(JSON.stringify(data)) }, says);
      }
    }
    for (const data of [null, 7, 'x', []]) await refused({ ...checkpoint, data }, /data/);
    const long = 'x'.repeat(513);
    for (const [change, says] of [
      [{ sessionId: long }, /sessionId: expected a string of 1 to 512/],
      [{ pending: { ...pending, executionId: long } }, /executionId: expected a string of 1 to 512/],
      [{ pending: { ...pending, requestIds: ['r', long] } }, /requestIds\[1\]: expected a string of 1 to 512/],
    ])
      await refused({ ...checkpoint, data: { ...checkpoint.data, ...change } }, says);
    await (await open(make(), { checkpoint: { ...checkpoint, data: { ...checkpoint.data, extra: 1 } } })).release();
  });

  test('A39 K11 every message that is malformed, by its place', async () => {
    const checkpoint = await settled();
    const [first, second] = checkpoint.append;
    const cases = [
      [{ ...first, id: '' }, /append\[0\]\.id/],
      [{ ...first, role: 'admin' }, /append\[0\]\.role/],
      [{ ...first, role: 'system' }, /append\[0\]\.role/],
      [{ ...first, state: 'odd' }, /append\[0\]\.state/],
      [{ ...first, content: 7 }, /append\[0\]\.content/],
      [{ ...first, timestamp: '2027-01-01T00:00:00.000Z' }, /append\[0\]\.timestamp/],
      [{ ...first, timestamp: { $date: '2027-02-30T00:00:00.000Z' } }, /append\[0\]\.timestamp/],
      [{ ...first, timestamp: { $date: 'yesterday' } }, /append\[0\]\.timestamp/],
      [{ ...first, content: { $escaped: 7 } }, /append\[0\]\.content/],
      [{ ...first, role: 'tool', toolCallId: 't' }, /append\[0\]/],
      [7, /append\[0\]/],
    ];
    for (const [message, says] of cases) await refused({ ...checkpoint, append: [message, second] }, says);
    const toolCalls = [{ id: 't', type: 'function', function: { name: 'write', arguments: '{}' } }];
    await refused({ ...checkpoint, append: [first, { ...second, toolCalls }] }, /tool call without a result/);
  });

  test('A39 K11 every date and escape that is not as it was written', async () => {
    const checkpoint = await settled();
    const [first, second] = checkpoint.append;
    for (const $date of [
      '2027-01-05T08:00:01Z',
      '2027-01-05T08:00:01.5Z',
      '2027-01-05T08:00:01.000z',
      '2027-01-05T09:00:01.000+01:00',
      '2027-01-05 08:00:01.000Z',
      '+002027-01-05T08:00:01.000Z',
      '2027-02-30T08:00:01.000Z',
      '2027-01-05',
      ' 2027-01-05T08:00:01.000Z',
      '',
      7,
      null,
    ]) {
      await refused({ ...checkpoint, append: [{ ...first, timestamp: { $date } }, second] }, /append\[0\]\.timestamp/);
      const metadata = { list: [{ $date }] };
      await refused({ ...checkpoint, append: [first, { ...second, metadata }] }, /append\[1\]\.metadata\.list\[0\]/);
    }
    for (const $escaped of [7, 'x', null, [], {}, { a: 1 }, { $date: 'x', a: 1 }]) {
      const metadata = { odd: { $escaped } };
      await refused({ ...checkpoint, append: [first, { ...second, metadata }] }, /append\[1\]\.metadata\.odd/);
    }
  });

  test('A39 K11 what is no JSON at all, with its path', async () => {
    const checkpoint = await settled();
    const [first, second] = checkpoint.append;
    const circle = [];
    circle.push(circle);
    const deep = JSON.parse(`${'['.repeat(5000)}${']'.repeat(5000)}`);
    for (const [parts, says] of [
      [new Map(), /checkpoint\.append\[1\]\.parts /],
      [new Date(), /checkpoint\.append\[1\]\.parts /],
      [1n, /checkpoint\.append\[1\]\.parts must be JSON, not a BigInt/],
      [Number.NaN, /checkpoint\.append\[1\]\.parts is NaN/],
      [() => 1, /checkpoint\.append\[1\]\.parts must be JSON, not a function/],
      [circle, /checkpoint\.append\[1\]\.parts\[0\] contains itself/],
      [deep, /checkpoint\.append\[1\]\.parts.* is nested deeper/],
    ])
      await refused({ ...checkpoint, append: [first, { ...second, parts }] }, says);
    for (const value of [7, 'x', []]) await refused(value, /checkpoint/);
    for (const append of [7, null, 'x', {}]) await refused({ ...checkpoint, append }, /array/);
  });

  test('A39 K11 a history in which a call has no result, two, or another one’s', async () => {
    const checkpoint = await settled();
    const [first, second] = checkpoint.append;
    const call = (...ids) => ({
      ...second,
      content: null,
      toolCalls: ids.map((id) => ({ id, type: 'function', function: { name: 'write', arguments: '{}' } })),
    });
    const result = (toolCallId) => ({ ...first, role: 'tool', content: 'x', toolCallId, name: 'write' });
    const good = [first, call('t', 'u'), result('t'), result('u'), second];
    await (await open(make(), { checkpoint: { ...checkpoint, append: good } })).release();
    const { toolCallId: _, ...unnamed } = result('t');
    for (const [append, says] of [
      [[first, call('t', 'u'), result('u'), result('t'), second], /append\[2\]/],
      [[first, call('t'), result('t'), result('t'), second], /append\[3\]/],
      [[first, call('t', 'u'), result('t'), second], /append\[3\]/],
      [[first, call('t'), result('v'), second], /append\[2\]/],
      [[first, call('t'), first, result('t')], /append\[2\]/],
      [[first, call('t'), unnamed, second], /append\[2\]\.toolCallId/],
      [[first, second, result('t')], /append\[2\]/],
      [[first, call('t')], /append/],
      [[{ ...call('t'), role: 'user', content: 'x' }, result('t')], /append\[0\]\.toolCalls/],
      [[{ ...first, content: null }, second], /append\[0\]\.content/],
      [[first, call('t'), { ...result('t'), content: null }, second], /append\[2\]\.content/],
    ])
      await refused({ ...checkpoint, append }, says);
  });
});
