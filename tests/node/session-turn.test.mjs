// A session's turns: what the model is shown, what is streamed, how a turn is stopped, and whatever a model,
// a provider or a tool can do wrong.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { calling, deferred, execution, reply, scripted, services, settle, tool, turn } from './support/agent.mjs';
import { noting, open, resume } from './support/session.mjs';

const done = { kind: 'speak', content: 'done' };
const allowed = { permissions: { allow: ['*'] } };

/** Runs one turn of a session with these options and releases it. */
async function runOnce(options, overrides) {
  const lease = await open({ ...allowed, ...options });
  try {
    return await lease.session.runTurn(turn(), execution(overrides));
  } finally {
    await lease.release();
  }
}

describe('turns', () => {
  test('A60 a second turn has a peer’s message once and no purpose', async () => {
    const provider = scripted(reply('one'), reply('two'));
    const lease = await open({ provider });
    await lease.session.runTurn(turn('a1', [['ana', 'hello']], 'the purpose'), execution());
    await lease.session.runTurn(turn('a2', [['bo', 'news']], 'the purpose'), execution());
    const [first, second] = provider.requests.map(({ messages }) => messages.at(-1).content);
    assert.equal(first, 'Purpose: the purpose\n\n### From ana\n> hello');
    assert.equal(second, '### From bo\n> news');
    assert.equal(JSON.stringify(provider.requests[1].messages).split('news').length, 2);
    await lease.release();
  });

  test('A60 continuing renders nothing, and the purpose is not repeated after a wait', async () => {
    let rendered = 0;
    const render = ({ firstTurn }) => `${rendered++} ${firstTurn}`;
    const provider = scripted(calling(['t', 'write', {}]), reply('one'), reply('two'));
    const lease = await open({ provider, tools: [noting('write')] }, { render });
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    await resume(lease, requests);
    await lease.session.runTurn(turn('a2'), execution());
    assert.deepEqual(
      provider.requests[2].messages.filter(({ role }) => role === 'user').map(({ content }) => content),
      ['0 true', '1 false'],
    );
    await lease.release();
  });

  test('A61 what is streamed arrives before the outcome, in order, also when the turn waits', async () => {
    const provider = {
      name: 'p',
      async *chatStream(messages) {
        const last = messages.at(-1).role === 'tool';
        for (const text of last ? ['all ', 'done'] : ['let me ', 'write']) yield reply(text, { state: 'interrupted' });
        yield last ? reply('') : { ...calling(['t', 'write', {}]), content: '' };
      },
    };
    const lease = await open({ provider, tools: [noting('write')] });
    const order = [];
    const slow = async (text) => {
      await settle();
      order.push(text);
    };
    const outcome = await lease.session.runTurn(turn('a1'), execution({ onDelta: slow }));
    order.push(outcome.kind);
    const end = await resume(lease, outcome.requests, true, execution({ onDelta: slow }));
    order.push(end.content);
    assert.deepEqual(order, ['let me ', 'write', 'wait', 'all ', 'done', 'all done']);
    await lease.release();
  });

  test('A62 a hanging provider is left with the abort reason', async () => {
    const controller = new AbortController();
    const running = runOnce({ provider: scripted(() => new Promise(() => {})) }, { signal: controller.signal });
    await settle();
    const reason = new Error('enough');
    controller.abort(reason);
    await assert.rejects(running, (error) => error === reason);
  });

  test('A63 an abort inside a tool round with text gives the reason; no text is published', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    const hang = noting('hang', () => {
      controller.abort(reason);
      return new Promise(() => {});
    });
    const provider = scripted({ ...calling(['t', 'hang', {}]), content: 'I will look.' }, reply('never'));
    await assert.rejects(
      runOnce({ provider, tools: [hang] }, { signal: controller.signal }),
      (error) => error === reason,
    );
    assert.equal(provider.requests.length, 1);
  });

  test('A66 a second call that is refused keeps the refusal as cause, and one request is sent', async () => {
    let admitted = 0;
    const refusal = new Error('no more calls');
    const noted = services({
      admit: () => {
        if (admitted++ > 0) throw refusal;
      },
    });
    const provider = scripted(calling(['t', 'write', {}]), reply('never'));
    await assert.rejects(runOnce({ provider, tools: [noting('write')] }, { services: noted }), (error) => {
      assert.equal(error.code, 'EXECUTION_JOURNAL_FAILED');
      assert.equal(error.cause, refusal);
      return true;
    });
    assert.equal(provider.requests.length, 1);
    assert.equal(admitted, 2, 'what was refused is not asked for again');
  });

  test('a resumed turn admits its own calls only, under ids that were never used', async () => {
    const [first, second] = [services(), services()];
    const provider = scripted(calling(['t', 'write', {}]), reply('done'));
    const lease = await open({ provider, tools: [noting('write')] });
    const { requests } = await lease.session.runTurn(turn('a1'), execution({ services: first }));
    await resume(lease, requests, true, execution({ services: second }));
    const ids = (log) => log.filter(([kind]) => kind === 'admit').map(([, { callId }]) => callId);
    assert.equal(ids(first.log).length, 1);
    assert.equal(ids(second.log).length, 1);
    assert.notEqual(ids(first.log)[0], ids(second.log)[0]);
    await lease.release();
  });

  test('a session takes one turn at a time, and none after its release', async () => {
    const reached = deferred();
    const lease = await open({ provider: scripted(() => reached.promise) });
    const running = lease.session.runTurn(turn('a1'), execution());
    await assert.rejects(lease.session.runTurn(turn('a2'), execution()), { code: 'busy' });
    reached.resolve(reply('done'));
    assert.deepEqual(await running, done);
    await lease.release();
    await assert.rejects(lease.session.runTurn(turn('a3'), execution()), { code: 'disposed' });
    await assert.rejects(lease.session.resumeTurn(turn('a3'), [], execution()), { code: 'disposed' });
    await assert.rejects(lease.session.checkpoint(), { code: 'disposed' });
  });
});

describe('bad input', () => {
  const schema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };
  /** What the model is told of one call, in a turn that ends well. */
  async function told(call, tools) {
    const provider = scripted(calling(call), reply('done'));
    assert.deepEqual(await runOnce({ provider, tools }), done);
    const [result] = provider.requests[1].messages.filter(({ role }) => role === 'tool');
    return JSON.parse(result.content).error;
  }

  test('arguments that are no JSON, of the wrong type, and unknown tools are told to the model; nothing is asked or run', async () => {
    for (const [name, args, code] of [
      ['count', '{"n":', 'invalid-arguments'],
      ['count', 'nonsense', 'invalid-arguments'],
      ['count', '{"n":1,"n":2}', 'invalid-arguments'],
      ['count', { n: '1' }, 'invalid-arguments'],
      ['count', [], 'invalid-arguments'],
      ['count', '', 'invalid-arguments'],
      ['ghost', {}, 'unknown-tool'],
      ['', {}, 'unknown-tool'],
    ]) {
      const count = noting('count', 'ran', { parameters: schema });
      // Not even where the policy asks: nobody is asked about a call that cannot be made.
      const provider = scripted(calling(['t', name, args]), reply('done'));
      assert.deepEqual(await runOnce({ provider, tools: [count], permissions: {} }), done);
      assert.equal(JSON.parse(provider.requests[1].messages.at(-1).content).error.code, code, String(args));
      assert.deepEqual(count.calls, []);
    }
  });

  test('tools that throw, reject, or return what is no JSON', async () => {
    const cyclic = {};
    cyclic.self = cyclic;
    for (const [execute, code] of [
      [
        () => {
          throw new Error('boom');
        },
        'tool-failed',
      ],
      [async () => Promise.reject(new Error('boom')), 'tool-failed'],
      [
        () => {
          throw undefined;
        },
        'tool-failed',
      ],
      [() => 1n, 'invalid-result'],
      [() => Number.NaN, 'invalid-result'],
      [() => undefined, 'invalid-result'],
      [() => new Date(), 'invalid-result'],
      [() => new Map(), 'invalid-result'],
      [() => () => 1, 'invalid-result'],
      [() => cyclic, 'invalid-result'],
      [() => 'x'.repeat(1024 * 1024 + 1), 'invalid-result'],
    ]) {
      const error = await told(['t', 'odd', {}], [tool('odd', execute)]);
      assert.equal(error.code, code, String(execute));
    }
  });

  test('a tool that never returns holds its turn until it is stopped, and its siblings finish', async () => {
    const sibling = noting('sibling');
    const provider = scripted(calling(['h', 'hang', {}], ['s', 'sibling', {}]), reply('never'));
    const controller = new AbortController();
    const hang = noting('hang', () => new Promise(() => {}));
    const running = runOnce({ provider, tools: [hang, sibling] }, { signal: controller.signal });
    await settle();
    assert.equal(sibling.calls.length, 1);
    assert.equal(hang.calls[0].signal.aborted, false);
    controller.abort(new Error('enough'));
    await assert.rejects(running, /enough/);
    assert.ok(hang.calls[0].signal.aborted);
  });

  test('providers that throw at once, return nothing or a tool message, or stream and then fail', async () => {
    const boom = new Error('boom');
    const part = reply('a', { state: 'interrupted' });
    const cases = [
      [
        {
          chat: () => {
            throw boom;
          },
        },
        /boom/,
        undefined,
      ],
      [{ chat: async () => Promise.reject(boom) }, /boom/, undefined],
      [{ chat: async () => undefined }, /reply/, 'EXECUTION_REPLY_INVALID'],
      [
        { chat: async () => ({ ...reply('x'), role: 'tool', toolCallId: 't' }) },
        /reply\.role/,
        'EXECUTION_REPLY_INVALID',
      ],
      [
        {
          async *chatStream() {
            yield part;
            throw boom;
          },
        },
        /boom/,
        undefined,
      ],
      [
        {
          async *chatStream() {
            yield part;
          },
        },
        /without a complete message/,
        'EXECUTION_REPLY_INVALID',
      ],
      [{ chatStream: () => undefined }, /async iterable/, 'EXECUTION_REPLY_INVALID'],
    ];
    for (const [provider, message, code] of cases) {
      const lease = await open({ provider: { name: 'p', ...provider } });
      const noted = services();
      const running = lease.session.runTurn(turn('a1'), execution({ services: noted }));
      const error = await running.then(
        () => assert.fail('it should fail'),
        (thrown) => thrown,
      );
      assert.match(error.message, message);
      assert.equal(error.code, code);
      assert.deepEqual(
        noted.reports.map(({ outcome, final }) => [outcome, final]),
        [['failed', true]],
      );
      const { data, append } = await lease.session.checkpoint();
      assert.deepEqual([data.pending, append], [null, []], 'a failed turn leaves no trace');
      await lease.release();
    }
  });

  test('the same goes for a turn that is continued: it stays parked and can be continued again', async () => {
    const write = noting('write');
    const provider = scripted(
      calling(['t', 'write', {}]),
      () => {
        throw new Error('boom');
      },
      reply('done'),
    );
    const lease = await open({ provider, tools: [write] });
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    await assert.rejects(resume(lease, requests), /boom/);
    assert.notEqual((await lease.session.checkpoint()).data.pending, null);
    assert.deepEqual(await resume(lease, requests), done);
    assert.equal(write.calls.length, 1);
    await lease.release();
  });

  test('answers and records that are no plain data are refused without a hang', async () => {
    const lease = await open({
      provider: scripted(calling(['t', 'write', {}]), reply('done')),
      tools: [noting('write')],
    });
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    for (const bad of [undefined, null, 'yes', [new Date()], [() => 1], [{ request: 1n }]])
      await assert.rejects(lease.session.resumeTurn(turn('a1'), bad, execution()), { code: 'identity-mismatch' });
    assert.deepEqual(await resume(lease, requests), done);
    await lease.release();
  });

  test('K15 lone surrogates: refused in tool arguments, U+FFFD in the reason of a denial', async () => {
    const write = noting('write');
    const provider = scripted(calling(['t', 'write', '{"x":"\ud800"}'], ['u', 'write', {}]), reply('done'));
    const lease = await open({ provider, tools: [write] });
    const { requests } = await lease.session.runTurn(turn('a1'), execution());
    assert.equal(requests.length, 1);
    await resume(lease, requests, { kind: 'approval', approved: false, reason: 'no\ud800' });
    const [first, second] = provider.requests[1].messages.filter(({ role }) => role === 'tool');
    assert.match(first.content, /invalid-arguments/);
    assert.match(second.content, /denied: no\ufffd/);
    assert.deepEqual(write.calls, []);
    await lease.release();
  });

  test('histories stay closed: every request has one result per call, after denials, failures and waits', async () => {
    const provider = scripted(
      calling(['a', 'write', {}], ['b', 'read', {}], ['c', 'ghost', {}], ['d', 'deny', {}], ['e', 'fail', {}]),
      calling(['a', 'write', {}]),
      reply('done'),
      reply('next'),
    );
    const fail = noting('fail', () => {
      throw new Error('no');
    });
    const options = {
      provider,
      tools: [noting('write'), noting('read'), noting('deny'), fail],
      permissions: { ask: ['write'], deny: ['deny'], default: 'allow' },
    };
    const lease = await open(options);
    const first = await lease.session.runTurn(turn('a1'), execution());
    const second = await resume(lease, first.requests, false);
    await resume(lease, second.requests, true);
    await lease.session.runTurn(turn('a2'), execution());
    for (const { messages } of provider.requests) {
      const asked = messages.flatMap(({ toolCalls = [] }) => toolCalls.map(({ id }) => id));
      const given = messages.filter(({ role }) => role === 'tool').map(({ toolCallId }) => toolCallId);
      assert.deepEqual(given, asked);
    }
    assert.equal(provider.requests.length, 4);
    await lease.release();
  });
});
