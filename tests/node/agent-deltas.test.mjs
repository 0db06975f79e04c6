// Streamed text: in order, one delivery at a time, before the outcome; a failing or slow observer.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordProvider } from 'agent-roundtable';
import { calling, deferred, execution, open, reply, runOnce, settle, tool, turn, unhandled } from './support/agent.mjs';

/** A provider that streams by `onDelta` as `script` says, then replies. */
const streaming = (script, content = 'done') => ({
  name: 'p',
  async chat(_, { onDelta, signal }) {
    await script(onDelta, signal);
    return reply(content);
  },
});

test('A11 a slow sink is given texts in order and one at a time', async () => {
  const log = [];
  let busy = false;
  const onDelta = async (text) => {
    assert.equal(busy, false);
    busy = true;
    await settle();
    busy = false;
    log.push(text);
  };
  await runOnce({ provider: streaming((push) => void ['1', '2', '3'].map(push)) }, { onDelta });
  assert.deepEqual(log, ['1', '2', '3']);
});

test('A12 the outcome comes after everything was delivered', async () => {
  const gate = deferred();
  const log = [];
  const onDelta = async (text) => {
    await gate.promise;
    log.push(text);
  };
  const running = runOnce({ provider: streaming((push) => void ['1', '2'].map(push)) }, { onDelta }).then(() =>
    log.push('outcome'),
  );
  await settle();
  assert.deepEqual(log, []);
  gate.resolve();
  await running;
  assert.deepEqual(log, ['1', '2', 'outcome']);
});

test('A13 A14 K9 the first failure of the sink stops the turn, and nothing is delivered after it', async () => {
  const failure = new Error('observer gone');
  const log = [];
  const onDelta = async (text) => {
    log.push(text);
    if (text === '2') throw failure;
  };
  let reason;
  const provider = streaming(async (push, signal) => {
    for (const text of ['1', '2', '3']) push(text);
    await settle();
    push('4');
    reason = signal.reason;
    await new Promise(() => {});
  });
  await assert.rejects(runOnce({ provider }, { onDelta }), (error) => error === failure);
  await settle();
  assert.deepEqual([log, reason], [['1', '2'], failure]);
});

test('A14 a sink that fails at once is given nothing of what is pushed before anybody hears of it', async () => {
  const failure = new Error('observer gone');
  const log = [];
  const onDelta = (text) => {
    log.push(text);
    throw failure;
  };
  const provider = streaming((push) => void ['1', '2', '3'].map(push));
  await assert.rejects(runOnce({ provider }, { onDelta }), (error) => error === failure);
  assert.deepEqual(log, ['1']);
});

test('A13 a sink that fails during the last flush fails the turn, which leaves no trace', async () => {
  const failure = new Error('late');
  const gate = deferred();
  const provider = streaming((push) => void push('1'));
  const lease = await open({ provider });
  const running = lease.session.runTurn(turn(), execution({ onDelta: () => gate.promise }));
  await settle();
  gate.reject(failure);
  await assert.rejects(running, (error) => error === failure);
  assert.deepEqual((await lease.session.checkpoint()).append, []);
});

test('A15 a sink that fails while nobody waits gives no unhandled rejection', async () => {
  const seen = await unhandled(async () => {
    const provider = streaming(async (push) => {
      push('1');
      await settle();
      await settle();
    });
    const onDelta = () => {
      throw new Error('at once');
    };
    await assert.rejects(runOnce({ provider }, { onDelta }), /at once/);
  });
  assert.deepEqual(seen, []);
});

test('K9 a slow sink never makes the queue drop text or grow without end', async () => {
  const gate = deferred();
  const given = [];
  const onDelta = async (text) => {
    given.push(text);
    await gate.promise;
  };
  const all = Array.from({ length: 10_000 }, (_, i) => `${i},`);
  const running = runOnce({ provider: streaming((push) => void all.forEach(push)) }, { onDelta });
  await settle();
  gate.resolve();
  await running;
  assert.equal(given.join(''), all.join(''));
  assert.ok(given.length <= 300, `${given.length} deliveries`);
});

test('K9 awaiting onDelta, and a stream by itself, go at the pace of the sink', async () => {
  let pushed = 0;
  const awaiting = streaming(async (push) => {
    for (; pushed < 1000; pushed++) await push('x');
  });
  const stream = {
    name: 'p',
    async *chatStream() {
      for (; pushed < 1000; pushed++) yield reply('x', { state: 'interrupted' });
      yield reply('');
    },
  };
  const long = 'x'.repeat(16 * 1024);
  const large = streaming(async (push) => {
    for (; pushed < 60; pushed++) await push(long);
    pushed = 1000;
  });
  for (const [provider, most] of [
    [awaiting, 100],
    [stream, 100],
    [large, 10],
  ]) {
    pushed = 0;
    const opened = deferred();
    const running = runOnce({ provider }, { onDelta: () => opened.promise });
    await settle();
    assert.ok(pushed < most, `${pushed} pushed while nothing was taken`);
    opened.resolve();
    await running;
    assert.equal(pushed, 1000);
  }
});

test('K9 few long texts hold up their source as many short ones do', async () => {
  let pushed = 0;
  const provider = streaming(async (push) => {
    for (; pushed < 40; pushed++) await push('x'.repeat(8192));
  });
  const opened = deferred();
  const running = runOnce({ provider }, { onDelta: () => opened.promise });
  await settle();
  assert.ok(pushed < 20, `${pushed} pushed while nothing was taken`);
  opened.resolve();
  await running;
  assert.equal(pushed, 40);
});

test('K9 what is undelivered when the turn is stopped is never delivered', async () => {
  const controller = new AbortController();
  const gate = deferred();
  const delivered = [];
  const onDelta = async (text) => {
    delivered.push(text);
    await gate.promise;
  };
  const provider = streaming(async (push) => {
    for (const text of ['1', '2', '3']) push(text);
    await new Promise(() => {});
  });
  const running = runOnce({ provider }, { onDelta, signal: controller.signal });
  await settle();
  controller.abort(new Error('stop'));
  await assert.rejects(running, /stop/);
  gate.resolve();
  await settle();
  assert.deepEqual(delivered, ['1']);
});

test('K15 split surrogate pairs are joined, lone halves become U+FFFD', async () => {
  const options = execution();
  const lease = await open({
    provider: streaming((push) => {
      push('a\ud83d');
      push('\ude00b');
      push('\udc00');
      push('');
      push('\ud83d');
      push('c');
      push('\ud83d');
    }),
  });
  await lease.session.runTurn(turn(), options);
  assert.equal(options.deltas.join('|'), 'a|\u{1f600}b|\ufffd|\ufffdc|\ufffd');
});

test('half a pair at the end of a round is not joined with the next round', async () => {
  const call = { id: 't', type: 'function', function: { name: 'x', arguments: '{}' } };
  const texts = ['\ud83d', '\ude00'];
  const rounds = [reply('', { toolCalls: [call] }), reply('end')];
  const chat = async (_, { onDelta }) => {
    onDelta(texts.shift());
    return rounds.shift();
  };
  const options = execution();
  await (await open({ provider: { name: 'p', chat } })).session.runTurn(turn(), options);
  assert.deepEqual(options.deltas, ['\ufffd', '\ufffd']);
});

test('K9 text streamed after the turn is over goes nowhere, and parts without text are passed over', async () => {
  let kept;
  const options = execution();
  const lease = await open({
    provider: streaming((push) => {
      kept = push;
      push(null);
      push('1');
      push(undefined);
    }),
  });
  await lease.session.runTurn(turn(), options);
  await kept('late');
  await settle();
  assert.deepEqual(options.deltas, ['1']);
});

test('what is streamed and is no text fails the call by name, whether or not the provider waits for it', async () => {
  for (const bad of [5, false, {}, ['x'], Symbol('x')]) {
    for (const awaited of [true, false]) {
      const options = execution();
      const chat = async (_, { onDelta }) => {
        void onDelta('1');
        const told = onDelta(bad);
        if (awaited) await told;
        return reply('done');
      };
      const seen = await unhandled(async () => {
        const recorded = recordProvider({ name: 'p', chat }, { sessionId: 's', write: () => {} });
        for (const provider of [{ name: 'p', chat }, recorded])
          await assert.rejects(runOnce({ provider }, options), {
            code: 'EXECUTION_REPLY_INVALID',
            message: /onDelta: text must be a string, not a/,
          });
      });
      assert.deepEqual(seen, []);
      assert.equal(options.services.reports[0].outcome, 'failed', 'the call was made');
    }
  }
});

test('K9 what was streamed and not delivered when the turn is stopped is not delivered later', async () => {
  const controller = new AbortController();
  const taking = deferred();
  const delivered = [];
  const onDelta = async (text) => {
    delivered.push(text);
    await taking.promise;
  };
  const provider = streaming((push) => {
    for (const text of ['1', '2', '3']) push(text);
    return new Promise(() => {});
  });
  const running = runOnce({ provider }, { onDelta, signal: controller.signal });
  await settle();
  controller.abort(new Error('stop'));
  await assert.rejects(running, /stop/);
  taking.resolve();
  await settle();
  assert.deepEqual(delivered, ['1']);
});

test('A13 K9 a sink that fails stops the tools that run as well', async () => {
  const failure = new Error('observer gone');
  let reason;
  const look = tool('look', async (_args, { signal }) => {
    await settle();
    reason = signal.reason;
    return 1;
  });
  const provider = {
    name: 'p',
    async *chatStream() {
      yield { ...calling(['t', 'look', {}]), content: 'one' };
    },
  };
  const onDelta = async () => {
    await new Promise((resolve) => setTimeout(resolve, 5));
    throw failure;
  };
  await assert.rejects(runOnce({ provider, tools: [look] }, { onDelta }), (error) => error === failure);
  await settle();
  assert.equal(reason, failure);
});

test('on abort the flush is skipped', async () => {
  const controller = new AbortController();
  const reason = new Error('stop');
  const provider = streaming((push) => {
    push('1');
    push('2');
  });
  const delivered = [];
  const onDelta = async (text) => {
    delivered.push(text);
    controller.abort(reason);
    await new Promise(() => {});
  };
  await assert.rejects(runOnce({ provider }, { onDelta, signal: controller.signal }), (error) => error === reason);
  await settle();
  assert.deepEqual(delivered, ['1']);
});

test('text of rounds in between is streamed too', async () => {
  const options = execution();
  let round = 0;
  const provider = {
    name: 'p',
    async chat(_, { onDelta }) {
      onDelta(`round ${++round} `);
      if (round === 2) return reply('end');
      const call = { id: 't', type: 'function', function: { name: 'x', arguments: '{}' } };
      return reply('thinking', { toolCalls: [call] });
    },
  };
  const lease = await open({ provider });
  assert.deepEqual(await lease.session.runTurn(turn(), options), { kind: 'speak', content: 'end' });
  assert.deepEqual(options.deltas, ['round 1 ', 'round 2 ']);
});
