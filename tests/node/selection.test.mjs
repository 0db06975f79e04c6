// Who goes next: decisions are checked before they are saved, and saved before anybody acts on them.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { externalParticipant, roundRobin } from 'agent-roundtable';
import {
  agent,
  answer,
  conversation,
  decisions,
  deferred,
  finish,
  journal,
  parallel,
  rejects,
  speak,
  speaker,
  transcript,
  wait,
} from './support/conversations.mjs';

const person = (id = 'p') => externalParticipant({ id });
const kinds = async (roundtable) => (await journal(roundtable)).map(([kind]) => kind);

describe('C6 kinds of selection', () => {
  test('C6 speak, parallel, wait and finish', async () => {
    const selector = decisions(speak('a'), parallel('b', 'a'), wait('p', 'please'), finish('agreed'));
    const roundtable = conversation([speaker('a', '1', '2'), speaker('b', '3'), person()], { selector });
    const waiting = await roundtable.run();
    assert.equal(waiting.status, 'waiting');
    assert.equal(waiting.requests[0].reason, 'please');
    assert.deepEqual(transcript(roundtable), ['a: 1', 'b: 3', 'a: 2']);
    await answer(roundtable, waiting, 'mine');
    const ended = await roundtable.run();
    assert.deepEqual({ ...ended, revision: 0 }, { status: 'completed', reason: 'agreed', revision: 0 });
  });

  const MALFORMED = [
    [{ kind: 'handoff', participantId: 'a' }, 'selection.kind'],
    [{ kind: 'speak' }, 'selection.participantId'],
    [{ kind: 'speak', participantId: 5 }, 'selection.participantId'],
    [{ kind: 'speak', participantId: '' }, 'selection.participantId'],
    [{ kind: 'speak', participantId: 'a', extra: 1 }, 'selection.extra'],
    [{ kind: 'speak', participantIds: ['a'] }, 'selection.participantId'],
    [{ kind: 'parallel', participantIds: 'ab' }, 'selection.participantIds'],
    [{ kind: 'parallel', participantIds: [1] }, 'selection.participantIds[0]'],
    [{ kind: 'wait', participantId: 'p' }, 'selection.reason'],
    [{ kind: 'wait', participantId: 'p', reason: 'x'.repeat(8193) }, 'selection.reason'],
    [{ kind: 'finish' }, 'selection.reason'],
    [{ kind: 'finish', reason: null }, 'selection.reason'],
    [{}, 'selection.kind'],
    [[], 'selection'],
    [null, 'selection'],
    [undefined, 'selection'],
    ['a', 'selection'],
    [Object.create({ kind: 'finish', reason: 'x' }), 'selection'],
  ];
  for (const [selection, part] of MALFORMED) {
    test(`C6 refuses ${JSON.stringify(selection)?.slice(0, 60)} naming ${part}`, async () => {
      const roundtable = conversation([speaker('a'), person()], { selector: { select: async () => selection } });
      const result = await roundtable.run();
      assert.equal(result.status, 'failed');
      assert.ok(result.message.includes('invalid-selection'), result.message);
      assert.ok(result.message.includes(part), result.message);
      assert.ok(!(await kinds(roundtable)).includes('selected/1'));
    });
  }
});

describe('C7 decisions are checked before they are saved', () => {
  const participants = () => [speaker('a'), speaker('b'), person()];
  const BAD = [
    ['unknown', speak('z'), 'z'],
    ['unknown in parallel', parallel('a', 'z'), 'z'],
    ['duplicate', parallel('a', 'a'), 'a'],
    ['empty', parallel(), ''],
    ['external in parallel', parallel('a', 'p'), 'p'],
    ['agent in wait', wait('a'), 'a'],
    ['unknown in wait', wait('z'), 'z'],
  ];
  for (const [name, selection, id] of BAD) {
    test(`C7 ${name}: the run fails, nothing of the decision is saved, nobody is called`, async () => {
      const members = participants();
      const roundtable = conversation(members, { selector: decisions(selection) });
      const result = await roundtable.run();
      assert.equal(result.status, 'failed');
      assert.match(result.message, /invalid-selection/);
      assert.ok(result.message.includes(id));
      assert.deepEqual(members[0].calls, []);
      const written = await kinds(roundtable);
      assert.ok(!written.includes('selected/1') && !written.includes('group-started/1'), written.join());
      assert.deepEqual({ ...(await roundtable.run()) }, result, 'final');
    });
  }

  test('C7 a group larger than maxTurnsPerRun or 256', async () => {
    const crowd = Array.from({ length: 257 }, (_, index) => speaker(`a${index}`));
    const ids = crowd.map(({ id }) => id);
    for (const [size, maxTurnsPerRun, ok] of [
      [3, 2, false],
      [257, 1000, false],
      [256, 1000, true],
    ]) {
      const selector = decisions(parallel(...ids.slice(0, size)));
      const result = await conversation(crowd, { selector, limits: { maxTurnsPerRun } }).run();
      assert.equal(result.status, ok ? 'completed' : 'failed', result.message);
      if (!ok) assert.match(result.message, /invalid-selection/);
    }
  });

  test('C7 a group within the limit that exceeds the remaining model calls is limited, not refused', async () => {
    const metered = (id) => agent(id, {}, { modelCalls: 'metered' });
    const selector = { ...decisions(parallel('a', 'b')), modelCalls: 'none' };
    const limits = { maxTurnsPerRun: 5, maxModelCallsPerRun: 1 };
    const result = await conversation([metered('a'), metered('b')], { selector, limits }).run();
    assert.deepEqual({ ...result, revision: 0 }, { status: 'limited', reason: 'model-calls', revision: 0 });
  });

  test('C7 a selector that throws or rejects ends the run failed', async () => {
    const throwing = () => {
      throw new Error('no idea');
    };
    for (const select of [
      throwing,
      async () => throwing(),
      () => Promise.reject('a string'),
      // biome-ignore lint/suspicious/noThenProperty: what a host may return
      () => ({ then: throwing }),
    ]) {
      const roundtable = conversation([speaker('a')], { selector: { select } });
      const result = await roundtable.run();
      assert.equal(result.status, 'failed');
      assert.match(result.message, /invalid-selection.*(no idea|a string)/);
    }
  });

  test('C7 a host that wants retries wraps select', async () => {
    let tries = 0;
    const flaky = async () => {
      tries += 1;
      if (tries < 3) throw new Error('again');
      return finish();
    };
    const select = async () => {
      for (;;) {
        try {
          return await flaky();
        } catch {}
      }
    };
    assert.equal((await conversation([speaker('a')], { selector: { select } }).run()).status, 'completed');
    assert.equal(tries, 3);
  });
});

test('C8 speak naming an external participant asks that person, like wait', async () => {
  const roundtable = conversation([speaker('a'), person()], { selector: decisions(speak('p')) });
  const result = await roundtable.run();
  assert.equal(result.status, 'waiting');
  assert.equal(result.requests.length, 1);
  const [request] = result.requests;
  assert.equal(request.kind, 'input');
  assert.equal(request.participantId, 'p');
  assert.equal(request.memberId, undefined);
  assert.ok(request.id && request.groupId && request.turnId);
});

describe('C9 saved decisions', () => {
  test('C9 a saved decision survives a cancelled run and is reused by the next', async () => {
    const running = deferred();
    const controller = new AbortController();
    let tries = 0;
    const slow = agent('a', async (_turn, { signal }) => {
      tries += 1;
      if (tries > 1) return { kind: 'speak', content: 'second try' };
      running.resolve();
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    });
    const selector = decisions(speak('a'));
    const roundtable = conversation([slow], { selector });
    const first = roundtable.run({ signal: controller.signal });
    await running.promise;
    controller.abort();
    assert.equal((await first).status, 'cancelled');
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: second try']);
    assert.equal(selector.contexts.length, 2, 'asked once for the decision and once to finish');
  });

  test('C9 a selector stopped before its decision was saved is asked again', async () => {
    const asked = deferred();
    const controller = new AbortController();
    let times = 0;
    const select = async (_context, { signal }) => {
      times += 1;
      if (times > 1) return finish('second asking');
      asked.resolve();
      await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    };
    const roundtable = conversation([speaker('a')], { selector: { select } });
    const first = roundtable.run({ signal: controller.signal });
    await asked.promise;
    controller.abort();
    assert.equal((await first).status, 'cancelled');
    const second = await roundtable.run();
    assert.equal(second.status, 'completed');
    assert.equal(second.reason, 'second asking');
  });

  test('C9 the decision of a selector that ignores its signal is kept', async () => {
    const asked = deferred();
    const release = deferred();
    const controller = new AbortController();
    let times = 0;
    const select = async () => {
      times += 1;
      if (times > 1) return finish();
      asked.resolve();
      await release.promise;
      return speak('a');
    };
    const roundtable = conversation([speaker('a', 'hello')], { selector: { select } });
    const first = roundtable.run({ signal: controller.signal });
    await asked.promise;
    controller.abort();
    release.resolve();
    assert.equal((await first).status, 'cancelled');
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: hello']);
    assert.equal(times, 2);
  });

  test('C9 the checkpoint of the selector is saved in the entry of its decision', async () => {
    const selector = { ...decisions(speak('a')), checkpoint: async () => ({ version: 's1', data: { round: 1 } }) };
    const roundtable = conversation([speaker('a', 'x')], { selector });
    await roundtable.run();
    const [, selected] = (await journal(roundtable)).find(([kind]) => kind === 'selected/1');
    assert.deepEqual(selected.selection, speak('a'));
    assert.deepEqual(selected.checkpoint, { version: 's1', data: { round: 1 } });
  });

  test('C9 a checkpoint of the selector that fails ends the run failed and saves no decision', async () => {
    for (const checkpoint of [async () => ({ version: 5 }), () => Promise.reject(new Error('lost'))]) {
      const roundtable = conversation([speaker('a')], { selector: { ...decisions(speak('a')), checkpoint } });
      const result = await roundtable.run();
      assert.equal(result.status, 'failed');
      assert.match(result.message, /invalid-selection.*(checkpoint\.|lost)/);
      assert.ok(!(await kinds(roundtable)).includes('selected/1'));
    }
  });
});

describe('C10 the default selector', () => {
  test('C10 goes round in declared order, external participants included, and never finishes', async () => {
    const roundtable = conversation([speaker('b', '1', '3'), person('p'), speaker('a', '2', '4')], {
      selector: undefined,
    });
    const first = await roundtable.run();
    assert.equal(first.status, 'waiting');
    assert.equal(first.requests[0].participantId, 'p');
    await answer(roundtable, first, 'me');
    assert.equal((await roundtable.run()).status, 'waiting');
    assert.deepEqual(transcript(roundtable), ['b: 1', 'p: me', 'a: 2', 'b: 3']);
    const [, created] = (await journal(roundtable))[0];
    assert.equal(created.selector, 'round-robin');
  });

  test('C10 roundRobin() is the same policy, named by its reference', async () => {
    const selector = roundRobin();
    assert.deepEqual(selector.reference, { id: 'roundtable/round-robin', version: '1' });
    assert.equal(selector.modelCalls, 'none');
    const roundtable = conversation([speaker('a', '1', '3'), speaker('b', '2')], {
      selector,
      limits: { maxTurnsPerRun: 3 },
    });
    assert.equal((await roundtable.run()).status, 'limited');
    assert.deepEqual(transcript(roundtable), ['a: 1', 'b: 2', 'a: 3']);
    assert.ok(!(await kinds(roundtable)).includes('selecting/1'));
  });

  test('C10 wrapped by a selector of the host it still goes round', async () => {
    const inner = roundRobin();
    const select = (context) => (context.turns.length < 3 ? inner.select(context) : finish());
    const roundtable = conversation([speaker('a', '1', '3'), speaker('b', '2')], { selector: { select } });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: 1', 'b: 2', 'a: 3']);
  });
});

describe('C11 what a selector sees', () => {
  test('C11 participants, published messages, completed turns and what remains; nothing private', async () => {
    const keeping = agent(
      'a',
      {
        runTurn: async () => ({ kind: 'speak', content: 'public' }),
        checkpoint: async () => ({ version: 'v', data: 'canary' }),
      },
      { checkpointVersions: ['v'] },
    );
    const described = { ...externalParticipant({ id: 'p', description: 'a person' }) };
    const selector = decisions(speak('a'));
    const roundtable = conversation([keeping, described], { selector, limits: { maxTurnsPerRun: 7 } });
    await roundtable.run();
    const [before, after] = selector.contexts;
    assert.deepEqual(before.participants, [
      { id: 'a', kind: 'agent' },
      { id: 'p', kind: 'external', description: 'a person' },
    ]);
    assert.deepEqual([before.messages, before.turns, before.remainingTurns], [[], [], 7]);
    assert.equal(after.messages[0].content, 'public');
    assert.equal(after.turns[0].outcome, 'speak');
    assert.equal(after.turns[0].participantId, 'a');
    assert.equal(after.remainingTurns, 6);
    assert.deepEqual(Object.keys(after).sort(), ['messages', 'participants', 'remainingTurns', 'turns']);
    assert.ok(!JSON.stringify(selector.contexts).includes('canary'));
  });

  test('C11 changing the context changes nothing', async () => {
    const select = (context) => {
      context.messages.push('mine');
      context.turns.length = 0;
      assert.throws(() => context.participants.push('z'), TypeError);
      return context.remainingTurns > 8 ? speak('a') : finish();
    };
    const roundtable = conversation([speaker('a', '1', '2')], { selector: { select }, limits: { maxTurnsPerRun: 10 } });
    await roundtable.run();
    assert.deepEqual(transcript(roundtable), ['a: 1', 'a: 2']);
    assert.equal(roundtable.snapshot().turns.length, 2);
  });

  test('C11 its lists are arrays of their own, as they were when it was asked', async () => {
    const kept = [];
    const select = ({ messages, turns }) => {
      kept.push({ messages, turns });
      return messages.length < 3 ? speak('a') : finish();
    };
    const roundtable = conversation([speaker('a', '1', '2', '3')], { selector: { select } });
    await roundtable.run();
    const published = roundtable.snapshot().messages;
    for (const [index, { messages, turns }] of kept.entries()) {
      const expected = published.slice(0, index);
      assert.ok(Array.isArray(messages) && messages.constructor === Array);
      assert.equal(messages.length, index);
      assert.equal(messages[index], undefined);
      assert.equal(messages.at(-1), expected.at(-1));
      assert.deepEqual([...messages], expected);
      assert.deepEqual(
        messages.map(({ content }) => content),
        expected.map(({ content }) => content),
      );
      assert.equal(JSON.stringify(messages), JSON.stringify(expected));
      assert.deepEqual(messages, expected);
      assert.deepEqual(Object.keys(turns), Object.keys(expected));
      messages.reverse();
      messages.push('mine');
      messages[9] = 'hers';
      delete messages[0];
      assert.equal(messages.length, 10);
    }
    assert.deepEqual(roundtable.snapshot().messages, published);
    assert.deepEqual(transcript(roundtable), ['a: 1', 'a: 2', 'a: 3']);
  });

  test('C11 it is given a signal and services', async () => {
    const select = (_context, { signal, services }) => {
      assert.ok(signal instanceof AbortSignal && !signal.aborted);
      assert.equal(typeof services.admitModelCall, 'function');
      return finish();
    };
    assert.equal((await conversation([speaker('a')], { selector: { select } }).run()).status, 'completed');
  });
});

test('C37 a selector cannot re-enter run', async () => {
  let roundtable;
  const select = async () => {
    await rejects(roundtable.run(), 'busy');
    return finish();
  };
  roundtable = conversation([speaker('a')], { selector: { select } });
  assert.equal((await roundtable.run()).status, 'completed');
});

test('C34 with no turn remaining no selector is asked', async () => {
  const selector = decisions(speak('a'), speak('a'));
  const roundtable = conversation([speaker('a', '1', '2')], { selector, limits: { maxTurnsPerRun: 1 } });
  assert.deepEqual({ ...(await roundtable.run()), revision: 0 }, { status: 'limited', reason: 'turns', revision: 0 });
  assert.equal(selector.contexts.length, 1);
});
