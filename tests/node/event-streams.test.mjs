// events(): any number of consumers, each with a bounded buffer of its own.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  agent,
  barrier,
  conversation,
  decisions,
  parallel,
  refuses,
  speak,
  speaker,
} from './support/conversations.mjs';

async function collect(iterable) {
  const events = [];
  for await (const event of iterable) events.push(event);
  return events;
}

describe('events()', () => {
  test('gives what onEvent is given, from now on, to any number of consumers', async () => {
    const roundtable = conversation([speaker('a', 'x', 'y')], { limits: { maxTurnsPerRun: 1 } });
    await roundtable.run();
    const before = roundtable.events.length;
    const iterators = [roundtableEvents(roundtable), roundtableEvents(roundtable)];
    const collected = iterators.map(collect);
    await roundtable.run();
    await roundtable.dispose();
    for (const events of await Promise.all(collected)) assert.deepEqual(events, roundtable.events.slice(before));
  });

  test('works without onEvent and does not slow the run', async () => {
    const roundtable = conversation([speaker('a', 'x')], { selector: decisions(speak('a')), onEvent: undefined });
    const iterator = roundtableEvents(roundtable);
    assert.equal((await roundtable.run()).status, 'completed');
    assert.equal((await iterator.next()).value.type, 'run-started');
    await iterator.return();
    assert.deepEqual(await iterator.next(), { done: true, value: undefined });
  });

  test('buffers 1,024 events; one that falls further behind ends with an error', async () => {
    const turns = 400;
    const words = Array.from({ length: turns }, (_, index) => `${index}`);
    const roundtable = conversation([speaker('a', ...words)], { limits: { maxTurnsPerRun: turns } });
    const slow = roundtableEvents(roundtable);
    await roundtable.run();
    const read = [];
    const error = await collect({
      [Symbol.asyncIterator]: () => ({
        next: async () => {
          const step = await slow.next();
          read.push(step.value);
          return step;
        },
      }),
    }).catch((reason) => reason);
    assert.equal(error.code, 'unavailable');
    assert.match(error.message, /1024/);
    assert.equal(read.length, 1024);
    assert.deepEqual(read, roundtable.events.slice(0, 1024));
    assert.deepEqual(await slow.next(), { done: true, value: undefined });
  });

  test('unread deltas of one attempt merge', async () => {
    const pieces = Array.from({ length: 3000 }, (_, index) => `${index},`);
    const meet = barrier(2);
    const member = (id) =>
      agent(id, async (_turn, { onDelta }) => {
        await meet();
        for (const piece of pieces) await onDelta(piece);
        return { kind: 'yield' };
      });
    const roundtable = conversation([member('a'), member('b')], {
      selector: decisions(parallel('a', 'b')),
      maxConcurrentParticipants: 2,
    });
    const iterator = roundtableEvents(roundtable);
    await roundtable.run();
    await roundtable.dispose();
    const streamed = (await collect(iterator)).filter(({ type }) => type === 'delta');
    for (const id of ['a', 'b']) {
      const own = streamed.filter(({ participantId }) => participantId === id);
      assert.equal(own.map(({ text }) => text).join(''), pieces.join(''));
      assert.equal(own.length, 1);
      assert.equal(own[0].index, 0);
    }
  });

  test('ends when its signal fires, by return, and at dispose', async () => {
    const roundtable = conversation([speaker('a', 'x')]);
    const controller = new AbortController();
    const stopped = collect(roundtableEvents(roundtable, { signal: controller.signal }));
    controller.abort();
    assert.deepEqual(await stopped, []);
    assert.deepEqual(await collect(roundtableEvents(roundtable, { signal: AbortSignal.abort() })), []);
    const waiting = roundtableEvents(roundtable).next();
    await roundtable.dispose();
    assert.deepEqual(await waiting, { done: true, value: undefined });
    refuses(() => roundtableEvents(roundtable), 'disposed');
  });

  test('options are checked', () => {
    const roundtable = conversation([speaker('a', 'x')]);
    refuses(() => roundtableEvents(roundtable, { signal: 5 }), 'invalid-config', 'signal');
    refuses(() => roundtableEvents(roundtable, 5), 'invalid-config', 'options');
  });
});

/** `events` is taken by the list the support code keeps; this is the method. */
function roundtableEvents(roundtable, options) {
  return Object.getPrototypeOf(roundtable).events.call(roundtable, options);
}
