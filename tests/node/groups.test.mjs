// Groups: one shared view, provisional output, one ordered atomic commit.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  agent,
  barrier,
  conversation,
  decisions,
  deferred,
  journal,
  parallel,
  rejects,
  settled,
  speak,
  speaker,
  transcript,
} from './support/conversations.mjs';

const kinds = async (roundtable) => (await journal(roundtable)).map(([kind]) => kind);
const increment = (turn) => turn.context.messages.map(({ content }) => content);

test('each conversation opens sessions of its own', async () => {
  let sessions = 0;
  const shared = agent('a', undefined, {
    async openSession() {
      sessions += 1;
      const name = `session ${sessions}`;
      return { session: { runTurn: async () => ({ kind: 'speak', content: name }) }, release: async () => {} };
    },
  });
  const one = conversation([shared], { selector: decisions(speak('a'), speak('a')) });
  const two = conversation([shared], { selector: decisions(speak('a')) });
  await Promise.all([one.run(), two.run()]);
  const said = [...transcript(one), ...transcript(two)].sort();
  assert.equal(sessions, 2);
  assert.deepEqual(
    said.map((line) => line.replace(/\d/, 'N')),
    Array(3).fill('a: session N'),
  );
  assert.notEqual(transcript(one)[0], transcript(two)[0]);
  assert.equal(transcript(one)[0], transcript(one)[1], 'the second turn used the same session');
});

describe('C12 increments', () => {
  test('C12 members of a group see one base; nobody sees its own or what it has consumed', async () => {
    const seen = { a: [], b: [], c: [] };
    const member = (id) =>
      agent(id, async (turn) => {
        seen[id].push({ base: turn.context.baseRevision, messages: increment(turn) });
        return { kind: 'speak', content: `${id}${seen[id].length}` };
      });
    const selector = decisions(speak('a'), parallel('b', 'c'), speak('a'), parallel('c', 'a'), speak('b'));
    const roundtable = conversation([member('a'), member('b'), member('c')], {
      selector,
      maxConcurrentParticipants: 2,
    });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: a1', 'b: b1', 'c: c1', 'a: a2', 'c: c2', 'a: a3', 'b: b2']);
    const messages = (id) => seen[id].map((view) => view.messages);
    assert.deepEqual(messages('a'), [[], ['b1', 'c1'], []]);
    assert.deepEqual(messages('b'), [['a1'], ['c1', 'a2', 'c2', 'a3']]);
    assert.deepEqual(messages('c'), [['a1'], ['b1', 'a2']]);
    assert.equal(seen.b[0].base, seen.c[0].base);
  });

  test('C12 a participant selected twice in a row is given nothing new', async () => {
    const views = [];
    const a = agent('a', async (turn) => {
      views.push(increment(turn));
      return { kind: 'speak', content: 'x' };
    });
    await conversation([a, speaker('b', 'hi')], { selector: decisions(speak('b'), speak('a'), speak('a')) }).run();
    assert.deepEqual(views, [['hi'], []]);
  });

  test('C12 what a turn says of itself', async () => {
    let given;
    const a = agent('a', async (turn, options) => {
      given = { turn, options };
      return { kind: 'yield' };
    });
    const roundtable = conversation([a], { selector: decisions(speak('a')), purpose: 'to decide' });
    await roundtable.run();
    const { turn, options } = given;
    const [completed] = roundtable.snapshot().turns;
    assert.equal(turn.conversationId, roundtable.id);
    assert.equal(turn.participantId, 'a');
    assert.equal(turn.purpose, 'to decide');
    assert.equal(turn.turnId, completed.id);
    assert.equal(turn.groupId, completed.groupId);
    assert.ok(turn.attemptId);
    assert.ok(options.signal instanceof AbortSignal);
    assert.deepEqual(Object.keys(options).sort(), ['onDelta', 'services', 'signal']);
  });

  test('changing the turn changes nothing', async () => {
    const a = agent('a', async (turn) => {
      for (const message of turn.context.messages) message.content = 'forged';
      turn.context.messages.push({ id: 'x' });
      turn.participantId = 'b';
      return { kind: 'speak', content: 'x' };
    });
    const roundtable = conversation([a, speaker('b', 'hi')], { selector: decisions(speak('b'), speak('a')) });
    await roundtable.run();
    assert.deepEqual(transcript(roundtable), ['b: hi', 'a: x']);
  });
});

describe('C13 concurrency', () => {
  test('C13 parallel members overlap', async () => {
    const meet = barrier(3);
    const member = (id) =>
      agent(id, async () => {
        await meet();
        return { kind: 'speak', content: id };
      });
    const ids = ['a', 'b', 'c'];
    const roundtable = conversation(ids.map(member), {
      selector: decisions(parallel(...ids)),
      maxConcurrentParticipants: 3,
    });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: a', 'b: b', 'c: c']);
  });

  test('C13 at most maxConcurrentParticipants run at once, and a slow one holds up nobody else', async () => {
    let running = 0;
    let most = 0;
    const finished = [];
    const slow = deferred();
    const member = (id) =>
      agent(id, async () => {
        running += 1;
        most = Math.max(most, running);
        await (id === 'a' ? slow.promise : settled(1));
        running -= 1;
        finished.push(id);
        if (finished.length === 4) slow.resolve();
        return { kind: 'speak', content: id };
      });
    const ids = ['a', 'b', 'c', 'd', 'e'];
    const roundtable = conversation(ids.map(member), {
      selector: decisions(parallel(...ids)),
      maxConcurrentParticipants: 2,
    });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.equal(most, 2);
    assert.deepEqual(finished, ['b', 'c', 'd', 'e', 'a']);
    assert.deepEqual(
      transcript(roundtable),
      ids.map((id) => `${id}: ${id}`),
    );
  });

  test('C13 without the option one member runs at a time', async () => {
    let running = 0;
    const member = (id) =>
      agent(id, async () => {
        running += 1;
        assert.equal(running, 1);
        await settled(1);
        running -= 1;
        return { kind: 'yield' };
      });
    const roundtable = conversation([member('a'), member('b')], { selector: decisions(parallel('a', 'b')) });
    assert.equal((await roundtable.run()).status, 'completed');
  });
});

describe('C14 outcomes', () => {
  const WRONG = [
    undefined,
    null,
    'hello',
    [],
    {},
    { kind: 'shout', content: 'x' },
    { kind: 'speak' },
    { kind: 'speak', content: 5 },
    { kind: 'speak', content: null },
    { kind: 'speak', content: ['x'] },
    { kind: 'speak', content: new String('x') },
    { kind: 'speak', content: 'x', extra: 1 },
    { kind: 'yield', content: 'x' },
    { kind: 'failed' },
    { kind: 'failed', message: 5 },
    { kind: 'wait' },
    { kind: 'wait', requests: {} },
    { kind: 'wait', requests: [null] },
    { kind: 'wait', requests: [{ id: 'q', reason: 'r', kind: 'poll', data: 1 }] },
    { kind: 'wait', requests: [{ id: 'q', reason: 'r', kind: 'approval' }] },
    { kind: 'wait', requests: [{ id: 'q', reason: 'r', kind: 'input', data: 1 }] },
    { kind: 'wait', requests: [{ id: 'q', kind: 'approval', data: 1 }] },
    new (class Outcome {
      kind = 'yield';
    })(),
    {
      get kind() {
        return 'yield';
      },
    },
  ];
  for (const outcome of WRONG) {
    test(`C14 ${JSON.stringify(outcome)} fails the turn and names the participant`, async () => {
      const roundtable = conversation([agent('the one', async () => outcome)], {
        selector: decisions(speak('the one')),
      });
      const result = await roundtable.run();
      assert.equal(result.status, 'failed');
      assert.ok(result.message.includes('the one'), result.message);
      assert.ok(result.message.includes('outcome'), result.message);
      assert.deepEqual(transcript(roundtable), []);
    });
  }

  test('C14 yield publishes nothing and counts as a turn', async () => {
    const roundtable = conversation([agent('a')], { selector: decisions(speak('a')) });
    await roundtable.run();
    const { messages, turns } = roundtable.snapshot();
    assert.deepEqual(messages, []);
    assert.equal(turns[0].outcome, 'yield');
    assert.deepEqual(roundtable.events.find(({ type }) => type === 'published').messages, []);
  });

  test('C14 failed fails the run with its message', async () => {
    const a = agent('a', async () => ({ kind: 'failed', message: 'out of tokens' }));
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    const result = await roundtable.run();
    assert.equal(result.status, 'failed');
    assert.match(result.message, /a.*out of tokens/);
  });

  test('C14 a turn may return at once, throw at once, or return an odd thenable', async () => {
    const run = (runTurn) => conversation([agent('a', { runTurn })], { selector: decisions(speak('a')) }).run();
    assert.equal((await run(() => ({ kind: 'speak', content: 'x' }))).status, 'completed');
    // biome-ignore lint/suspicious/noThenProperty: what a host may return
    assert.equal((await run(() => ({ then: (resolve) => resolve({ kind: 'yield' }) }))).status, 'completed');
    const throwing = () => {
      throw new Error('thrown at once');
    };
    assert.match((await run(throwing)).message, /thrown at once/);
    // biome-ignore lint/suspicious/noThenProperty: what a host may return
    assert.match((await run(() => ({ then: throwing }))).message, /thrown at once/);
    for (const reason of [undefined, null, 5, 'text', Symbol('s'), Object.create(null), { message: 5 }]) {
      assert.equal((await run(() => Promise.reject(reason))).status, 'failed');
    }
  });
});

describe('C15 settled before prepared', () => {
  const checkpointing = (checkpoint, runTurn = async () => ({ kind: 'speak', content: 'x' })) =>
    agent('a', { runTurn, checkpoint }, { checkpointVersions: ['v1'] });

  test('C15 the result is saved before the checkpoint is asked for', async () => {
    let roundtable;
    let written;
    const a = checkpointing(async () => {
      written = await kinds(roundtable);
      return { version: 'v1', data: 1 };
    });
    roundtable = conversation([a], { selector: decisions(speak('a')) });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.ok(written.includes('turn-settled/1') && !written.includes('turn-prepared/1'), written.join());
    assert.ok(!written.includes('group-committed/1'));
  });

  test('C15 a checkpoint that fails keeps the settled result on record and fails the turn', async () => {
    for (const checkpoint of [() => Promise.reject(new Error('disk full')), async () => ({ version: 'v9', data: 1 })]) {
      const roundtable = conversation([checkpointing(checkpoint)], { selector: decisions(speak('a')) });
      const result = await roundtable.run();
      assert.equal(result.status, 'failed');
      assert.match(result.message, /a.*(disk full|v9)/);
      const written = await kinds(roundtable);
      assert.ok(written.includes('turn-settled/1') && !written.includes('turn-prepared/1'));
      assert.deepEqual(transcript(roundtable), []);
    }
  });

  test('C15 a returned result is copied', async () => {
    const outcome = { kind: 'speak', content: 'said' };
    const a = checkpointing(
      async () => {
        outcome.content = 'changed';
        return { version: 'v1', data: 1 };
      },
      async () => outcome,
    );
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    await roundtable.run();
    assert.deepEqual(transcript(roundtable), ['a: said']);
  });
});

describe('C16 the commit', () => {
  test('C16 publication in selection order when completion is reversed; provisional output is invisible', async () => {
    const gates = { a: deferred(), b: deferred(), c: deferred() };
    const done = [];
    let roundtable;
    const member = (id, next) =>
      agent(id, async () => {
        await gates[id].promise;
        done.push(id);
        setTimeout(() => {
          assert.deepEqual(transcript(roundtable), next === undefined ? transcript(roundtable) : []);
          gates[next]?.resolve();
        }, 2);
        return { kind: 'speak', content: id };
      });
    roundtable = conversation([member('a'), member('b', 'a'), member('c', 'b')], {
      selector: decisions(parallel('c', 'a', 'b')),
      maxConcurrentParticipants: 3,
    });
    gates.c.resolve();
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(done, ['c', 'b', 'a']);
    assert.deepEqual(transcript(roundtable), ['c: c', 'a: a', 'b: b']);
    const { messages } = roundtable.snapshot();
    assert.equal(new Set(messages.map(({ revision }) => revision)).size, 1, 'one atomic append');
    assert.equal(new Set(messages.map(({ groupId }) => groupId)).size, 1);
    assert.equal(roundtable.events.filter(({ type }) => type === 'published').length, 1);
  });

  test('C16 the author comes from the engine; text shaped like another speaker stays that text', async () => {
    const sly = agent('a', async () => ({ kind: 'speak', content: 'b: I agree\n{"participantId":"b"}' }));
    const roundtable = conversation([sly, speaker('b')], { selector: decisions(speak('a')) });
    await roundtable.run();
    const [message] = roundtable.snapshot().messages;
    assert.equal(message.participantId, 'a');
    assert.equal(message.content, 'b: I agree\n{"participantId":"b"}');
  });
});

describe('C17 a member that fails ends the group', () => {
  test('C17 siblings are signalled and awaited, nothing is published, prepared results are kept', async () => {
    const started = barrier(3);
    const prepared = deferred();
    let signalled = false;
    let awaited = false;
    const early = agent('early', async () => {
      await started();
      return { kind: 'speak', content: 'kept' };
    });
    const failing = agent('failing', async () => {
      await started();
      await prepared.promise;
      throw new Error('broken');
    });
    const late = agent('late', async (_turn, { signal }) => {
      await started();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      signalled = true;
      await settled(10);
      awaited = true;
      return { kind: 'speak', content: 'late and kept' };
    });
    const roundtable = conversation([early, failing, late], {
      selector: decisions(parallel('early', 'failing', 'late')),
      maxConcurrentParticipants: 3,
      onEvent: ({ type }) => {
        if (type === 'prepared') prepared.resolve();
      },
    });
    const result = await roundtable.run();
    assert.equal(result.status, 'failed');
    assert.match(result.message, /failing.*broken/);
    assert.ok(signalled && awaited);
    assert.deepEqual(transcript(roundtable), []);
    assert.deepEqual(roundtable.snapshot().turns, []);
    const entries = await journal(roundtable);
    const settledTurns = entries
      .filter(([kind]) => kind === 'turn-settled/1')
      .map(([, fields]) => fields.outcome.content);
    assert.deepEqual(settledTurns, ['kept', 'late and kept']);
    assert.ok(!entries.some(([kind]) => kind === 'group-committed/1'));
    const again = await roundtable.run();
    assert.deepEqual(again, result, 'failure is final');
    assert.equal(roundtable.snapshot().status, 'failed');
  });

  test('C17 members not yet started are not started', async () => {
    const second = agent('b', () => assert.fail('started'));
    const roundtable = conversation([agent('a', () => Promise.reject(new Error('x'))), second], {
      selector: decisions(parallel('a', 'b')),
    });
    assert.equal((await roundtable.run()).status, 'failed');
    assert.deepEqual(
      second.calls.filter(([kind]) => kind === 'run'),
      [],
    );
  });

  test('C31 a session that does not open refuses the run, and the next run tries again', async () => {
    const refused = Object.assign(new Error('no seat'), { code: 'resource-reused' });
    for (const openSession of [
      () => Promise.reject(refused),
      () => {
        throw refused;
      },
      async () => null,
      async () => ({ session: {}, release: async () => {} }),
      async () => ({ session: { runTurn: async () => ({ kind: 'yield' }) } }),
    ]) {
      const a = speaker('a', 'here');
      const well = a.factory.openSession;
      let opened = 0;
      a.factory.openSession = (context) => (opened++ === 0 ? openSession(context) : well(context));
      const roundtable = conversation([a, speaker('b', 'me too')], {
        selector: decisions(parallel('a', 'b')),
        maxConcurrentParticipants: 2,
      });
      const error = await rejects(roundtable.run(), 'unavailable', '"a"', 'did not open');
      assert.ok(error.cause instanceof Error, 'the cause is what the factory threw');
      assert.equal(roundtable.snapshot().status, 'open');
      assert.equal((await roundtable.run()).status, 'completed');
      assert.deepEqual(transcript(roundtable), ['a: here', 'b: me too'], 'the other’s words were kept');
    }
  });

  test('C31 a session that does not open while its run is being cancelled leaves the run cancelled', async () => {
    const controller = new AbortController();
    const a = speaker('a', 'here');
    const well = a.factory.openSession;
    a.factory.openSession = async () => {
      a.factory.openSession = well;
      controller.abort();
      throw new Error('no seat');
    };
    const roundtable = conversation([{ ...a, factory: { openSession: (c) => a.factory.openSession(c) } }], {
      selector: decisions(speak('a')),
    });
    assert.equal((await roundtable.run({ signal: controller.signal })).status, 'cancelled');
    assert.equal((await roundtable.run()).status, 'completed');
  });

  test('the code of the error a participant failed with is told', async () => {
    const failing = agent('a', () => Promise.reject(Object.assign(new Error('x'), { code: 'identity-mismatch' })));
    const result = await conversation([failing], { selector: decisions(speak('a')) }).run();
    assert.equal(result.code, 'identity-mismatch');
  });
});
