// Sessions: tools that ask before they act, and the answers that let them.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ToolSuspension } from 'agent-roundtable';
import { calling, execution, reply, scripted, settle, turn } from './support/agent.mjs';
import { answered, arrayJournal, noting, open, resume } from './support/session.mjs';

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

describe('K4 K5 an answer fits one action or none', () => {
  test('A73 K4 a tool cannot raise an approval itself: any suspension of its own is unsupported-wait', async () => {
    for (const kind of ['session/approval', 'session/input', 'else']) {
      const raise = noting('raise', () => {
        throw new ToolSuspension({ kind, reason: 'let me', data: { toolName: 'write', arguments: {} } });
      });
      const provider = scripted(calling(['t', 'raise', {}], ['t2', 'write', {}]), reply('after'));
      const journal = arrayJournal();
      const options = { provider, tools: [raise, noting('write')], permissions: { allow: ['raise'] } };
      const lease = await open(options, { journal: () => journal });
      // A73: the whole turn fails, and no request of it is shown.
      await assert.rejects(lease.session.runTurn(turn('a1'), execution()), { code: 'unsupported-wait' });
      assert.ok(journal.records.every((record) => record.kind !== 'tool-result'));
      // Nothing is left pending.
      assert.equal((await lease.session.checkpoint()).data.pending, null);
      assert.deepEqual(await lease.session.runTurn(turn('a2'), execution()), { kind: 'speak', content: 'after' });
      await lease.release();
    }
  });

  test('K5 conversation, turn, group, member, kind, request and data are all matched', async () => {
    const { write, options } = asked();
    const lease = await open(options);
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    const good = answered(requests[0], true);
    const request = (changes) => [{ ...good, request: { ...good.request, ...changes } }];
    const data = (changes) => request({ data: { ...requests[0].data, ...changes } });
    const cases = {
      turn: request({ turnId: 'other' }),
      group: request({ groupId: 'other' }),
      participant: request({ participantId: 'other' }),
      member: request({ memberId: 'other' }),
      'member of none': request({ memberId: null }),
      'request kind': request({ kind: 'reconciliation' }),
      'response kind': [{ ...good, response: { kind: 'input', content: 'yes' } }],
      'response kind beside a yes': [{ ...good, response: { kind: 'reconciliation', approved: true } }],
      request: request({ id: 'other' }),
      arguments: data({ arguments: { path: 'b' } }),
      'more arguments': data({ arguments: { path: 'a', force: true } }),
      tool: data({ toolName: 'read' }),
      'tool call': data({ toolCallId: 't2' }),
      action: data({ actionId: 'a1:call:1:action:1' }),
      'parent call': data({ parentCallId: 'a1:call:2' }),
      execution: data({ executionId: 'a2' }),
      'no data': request({ data: undefined }),
      twice: [good, { ...good, responseId: 'another' }],
      nothing: [null],
      'not an answer': [{ ...good, response: { kind: 'approval', approved: 'yes' } }],
      'no answer id': [{ ...good, responseId: '' }],
    };
    for (const [name, responses] of Object.entries(cases)) {
      const resumed = lease.session.resumeTurn({ ...turn('a1'), attemptId: 'b' }, responses, execution());
      await assert.rejects(resumed, { code: 'identity-mismatch' }, name);
    }
    const turns = { conversationId: 'x', participantId: 'x', turnId: 'x', groupId: 'x' };
    for (const [key, value] of Object.entries(turns)) {
      const resumed = lease.session.resumeTurn({ ...turn('a1'), [key]: value }, [good], execution());
      await assert.rejects(resumed, { code: 'identity-mismatch' }, key);
    }
    await assert.rejects(lease.session.resumeTurn({ ...turn('a1'), turnId: 'x' }, [], execution()), {
      code: 'identity-mismatch',
    });
    // Turn and answer agree with each other, and with another participant's session.
    const others = { ...turn('a1'), participantId: 'x' };
    await assert.rejects(
      lease.session.resumeTurn(others, [answered(requests[0], true, { turn: others })], execution()),
      { code: 'identity-mismatch' },
    );
    assert.deepEqual(write.calls, []);
    const ordered = { ...requests[0].data };
    const reversed = Object.fromEntries(Object.entries(ordered).reverse());
    assert.deepEqual(
      await lease.session.resumeTurn(
        turn('a1'),
        [{ ...good, request: { ...good.request, data: reversed } }],
        execution(),
      ),
      {
        kind: 'speak',
        content: 'done',
      },
    );
    assert.equal(write.calls.length, 1);
    await lease.release();
  });

  test('K5 the same answers again are refused once the turn is over', async () => {
    const { write, options } = asked();
    const lease = await open(options);
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    await resume(lease, requests);
    await assert.rejects(resume(lease, requests), { code: 'identity-mismatch' });
    assert.equal(write.calls.length, 1);
    await lease.release();
  });
});

describe('F waits and approvals', () => {
  test('F parallel requests have distinct ids, and an answer runs exactly the one it names', async () => {
    const write = noting('write');
    const calls = [1, 2, 3].map((n) => [`t${n}`, 'write', { n }]);
    const lease = await open({ provider: scripted(calling(...calls), reply('done')), tools: [write] });
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    assert.equal(new Set(requests.map(({ id }) => id)).size, 3);
    const rest = await resume(lease, [requests[1]]);
    assert.deepEqual(rest, { kind: 'wait', requests: [requests[0], requests[2]] });
    assert.deepEqual(
      write.calls.map(({ args }) => args.n),
      [2],
    );
    assert.deepEqual(await lease.session.resumeTurn(turn('a1'), [], execution()), rest);
    const no = [answered(requests[0], true), answered(requests[2], false)];
    assert.equal((await lease.session.resumeTurn(turn('a1'), no, execution())).kind, 'speak');
    assert.deepEqual(
      write.calls.map(({ args }) => args.n),
      [2, 1],
    );
    await lease.release();
  });

  test('F siblings that may run finish before the turn waits, and do not run again', async () => {
    const [read, write] = [noting('read'), noting('write')];
    const provider = scripted(calling(['w', 'write', {}], ['r', 'read', {}]), reply('done'));
    const lease = await open({ provider, tools: [read, write], permissions: { allow: ['read'] } });
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    assert.equal(read.calls.length, 1);
    await resume(lease, requests);
    assert.deepEqual([read.calls.length, write.calls.length], [1, 1]);
    const results = provider.requests[1].messages.filter(({ role }) => role === 'tool');
    assert.deepEqual(
      results.map(({ toolCallId, content }) => [toolCallId, content]),
      [
        ['w', 'write ran'],
        ['r', 'read ran'],
      ],
    );
    await lease.release();
  });

  test('F an approval grants nothing beyond its call: the same call again asks anew, a reused id inherits nothing', async () => {
    const write = noting('write');
    const same = () => calling(['t1', 'write', { path: 'a' }]);
    const lease = await open({ provider: scripted(same(), same(), reply('done')), tools: [write] });
    const first = await lease.session.runTurn(turn('a1'), execution());
    const second = await resume(lease, first.requests);
    assert.equal(second.kind, 'wait');
    assert.notEqual(second.requests[0].id, first.requests[0].id);
    assert.equal(second.requests[0].data.executionId, 'a1', 'it is the same execution');
    await assert.rejects(resume(lease, first.requests), { code: 'identity-mismatch' });
    assert.equal(write.calls.length, 1);
    assert.equal((await resume(lease, second.requests)).kind, 'speak');
    assert.equal(write.calls.length, 2);
    assert.notEqual(write.calls[0].idempotencyKey, write.calls[1].idempotencyKey);
    await lease.release();
  });

  test('F however many waits there were, nothing before the last runs again', async () => {
    const write = noting('write');
    const rounds = 6;
    const replies = Array.from({ length: rounds }, (_, n) => calling(['t', 'write', { n }]));
    const provider = scripted(...replies, reply('done'));
    const lease = await open({ provider, tools: [write] });
    let outcome = await lease.session.runTurn(turn('a1'), execution());
    for (let n = 0; n < rounds; n++) outcome = await resume(lease, outcome.requests);
    assert.equal(outcome.kind, 'speak');
    assert.deepEqual(
      write.calls.map(({ args }) => args.n),
      [0, 1, 2, 3, 4, 5],
    );
    assert.equal(provider.requests.length, rounds + 1, 'no model call is made again either');
    await lease.release();
  });

  test('F history is no evidence: a checkpoint in which the same call was approved and ran grants nothing', async () => {
    const write = noting('write');
    const call = () => calling(['t1', 'write', { path: 'a' }]);
    const before = await open({ provider: scripted(call(), reply('done')), tools: [write] });
    const first = await before.session.runTurn(turn('a1'), execution());
    await resume(before, first.requests);
    const checkpoint = await before.session.checkpoint();
    await before.release();
    assert.match(JSON.stringify(checkpoint.append), /write ran/);

    const provider = scripted(call(), reply('not done'));
    const lease = await open({ provider, tools: [write] }, { checkpoint });
    const said = [['ana', JSON.stringify({ kind: 'approval', approved: true, requestId: first.requests[0].id })]];
    const second = await lease.session.runTurn(turn('a2', said), execution());
    assert.equal(second.kind, 'wait');
    await assert.rejects(resume(lease, first.requests, true, execution(), turn('a2')), { code: 'identity-mismatch' });
    assert.equal(write.calls.length, 1);
    await resume(lease, second.requests, false, execution(), turn('a2'));
    assert.equal(write.calls.length, 1);
    await lease.release();
  });

  test('F a session that waits takes no other turn, and what waits is not cleared by one', async () => {
    const { write, options } = asked();
    const lease = await open(options);
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    await assert.rejects(lease.session.runTurn(turn('a2'), execution()), { code: 'EXECUTION_RECOVERY_REQUIRED' });
    assert.equal((await resume(lease, requests)).kind, 'speak');
    assert.equal(write.calls.length, 1);
    await lease.release();
  });
});

describe('the policy', () => {
  const one = (name = 'write') => ({
    tools: [noting(name)],
    provider: scripted(calling(['t', name, {}]), reply('done')),
  });
  const run = async (options) => {
    const lease = await open(options);
    const outcome = await lease.session.runTurn(turn('a1'), execution());
    return { lease, outcome, ran: options.tools[0].calls.length };
  };

  test('deny beats ask beats allow, patterns cover the whole name, what no pattern fits is asked', async () => {
    const cases = [
      [undefined, 'ask'],
      [{}, 'ask'],
      [{ allow: ['*'] }, 'allow'],
      [{ allow: ['wri*'] }, 'allow'],
      [{ allow: ['w*t*e'] }, 'allow'],
      [{ allow: ['w*x'] }, 'ask'],
      [{ allow: ['w*x*e'] }, 'ask'],
      [{ allow: ['*'], deny: ['*rit'] }, 'allow'],
      [{ allow: ['rit'] }, 'ask'],
      [{ allow: ['WRITE'] }, 'ask'],
      [{ allow: ['write'], ask: ['w*e'] }, 'ask'],
      [{ allow: ['*'], ask: ['*'], deny: ['*t*'] }, 'deny'],
      [{ default: 'allow' }, 'allow'],
      [{ default: 'deny', ask: ['read'] }, 'deny'],
      [{ default: 'deny', allow: ['write'] }, 'allow'],
    ];
    for (const [permissions, expected] of cases) {
      const { lease, outcome, ran } = await run({ ...one(), permissions });
      const found = outcome.kind === 'wait' ? 'ask' : ran === 1 ? 'allow' : 'deny';
      assert.equal(found, expected, JSON.stringify(permissions));
      await lease.release();
    }
  });

  test('rules in an object are read once; a function is read before each call and when an approval returns', async () => {
    const kept = { allow: ['write'] };
    const options = one();
    const lease = await open({ ...options, permissions: kept });
    kept.allow.length = 0;
    assert.equal((await lease.session.runTurn(turn('a1'), execution())).kind, 'speak');
    await lease.release();

    let reads = 0;
    const again = one();
    const asking = await open({
      ...again,
      permissions: async () => {
        reads++;
        return {};
      },
    });
    const { requests } = await asking.session.runTurn(turn('a1'), execution());
    assert.equal(reads, 1);
    await resume(asking, requests);
    assert.deepEqual([reads, again.tools[0].calls.length], [2, 1]);
    await asking.release();
  });

  test('a later deny beats a stored yes; nothing turns a stored no into a yes', async () => {
    for (const [later, approved, runs] of [
      [{ deny: ['write'] }, true, 0],
      [{ default: 'deny' }, true, 0],
      [{ allow: ['*'] }, true, 1],
      [{}, true, 1],
      [{ allow: ['*'] }, false, 0],
    ]) {
      let rules = {};
      const options = one();
      const lease = await open({ ...options, permissions: () => rules, decide: () => 'ask' });
      const { requests } = await lease.session.runTurn(turn('a1'), execution());
      rules = later;
      assert.deepEqual(await resume(lease, requests, approved), { kind: 'speak', content: 'done' });
      assert.equal(options.tools[0].calls.length, runs, JSON.stringify([later, approved]));
      await lease.release();
    }
  });

  test('decide is asked where the rules say ask, with the call, and again when an approval returns', async () => {
    const decided = [];
    let says = 'ask';
    const decide = async (call) => {
      decided.push(call);
      return says;
    };
    const options = one();
    const lease = await open({ ...options, decide });
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    assert.deepEqual(decided, [{ toolName: 'write', arguments: {}, toolCallId: 't' }]);
    says = 'deny';
    await resume(lease, requests);
    assert.deepEqual([decided.length, options.tools[0].calls.length], [2, 0]);
    await lease.release();

    for (const [permissions, asked] of [
      [{ allow: ['*'] }, 0],
      [{ deny: ['*'] }, 0],
      [{}, 1],
    ]) {
      let count = 0;
      const { lease } = await run({
        ...one(),
        permissions,
        decide: () => {
          count++;
          return 'allow';
        },
      });
      assert.equal(count, asked, JSON.stringify(permissions));
      await lease.release();
    }
  });

  test('a policy that fails lets nothing run, and its error is the turn’s', async () => {
    const failing = {
      'rules throw': {
        permissions: () => {
          throw new Error('no rules');
        },
      },
      'rules reject': { permissions: async () => Promise.reject(new Error('no rules')) },
      'rules are none': { permissions: () => ({ allow: 7 }) },
      'rules are absent': { permissions: () => undefined },
      'decide throws': {
        decide: () => {
          throw new Error('no rules');
        },
      },
      'decide says nothing': { decide: () => undefined },
      'decide says else': { decide: () => 'yes' },
    };
    for (const [name, extra] of Object.entries(failing)) {
      const options = { ...one(), ...extra };
      const lease = await open(options);
      const error = await lease.session.runTurn(turn('a1'), execution()).then(
        () => assert.fail(name),
        (e) => e,
      );
      assert.match(error.message, /no rules|permissions|decide/, name);
      assert.deepEqual(options.tools[0].calls, [], name);
      await lease.release();
    }
  });

  test('a decision that never comes holds the turn until it is stopped', async () => {
    const lease = await open({ ...one(), decide: () => new Promise(() => {}) });
    const controller = new AbortController();
    const running = lease.session.runTurn(turn('a1'), execution({ signal: controller.signal }));
    await settle();
    controller.abort(new Error('enough'));
    await assert.rejects(running, /enough/);
    await lease.release();
  });

  test('what decide does to its arguments does not reach the tool', async () => {
    const write = noting('write');
    const provider = scripted(calling(['t', 'write', { path: 'a' }]), reply('done'));
    const decide = (call) => {
      call.arguments.path = 'b';
      return 'allow';
    };
    const lease = await open({ provider, tools: [write], decide });
    await lease.session.runTurn(turn('a1'), execution());
    assert.deepEqual(write.calls[0].args, { path: 'a' });
    await lease.release();
  });
});
