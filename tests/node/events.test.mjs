// Observers: told in order of what became durable, awaited, and unable to change anything.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { externalParticipant } from 'agent-roundtable';
import { virtualClock } from 'agent-roundtable/testing';
import {
  agent,
  approval,
  barrier,
  conversation,
  decisions,
  deferred,
  parallel,
  rejects,
  settled,
  speak,
  speaker,
  transcript,
  waiter,
  waits,
} from './support/conversations.mjs';

const types = (roundtable) => roundtable.events.map(({ type }) => type);

/** An agent that streams these pieces, awaiting each, and says them all. */
function streamer(id, ...pieces) {
  return agent(id, async (_turn, { onDelta }) => {
    for (const piece of pieces) await onDelta(piece);
    return { kind: 'speak', content: pieces.join('') };
  });
}
const deltas = (roundtable) => roundtable.events.filter(({ type }) => type === 'delta');
describe('C18 events', () => {
  test('C18 in order, with conversation, run, time and revision', async () => {
    const roundtable = conversation([streamer('a', 'he', 'llo'), speaker('b', 'hi')], {
      selector: decisions(speak('a'), speak('b')),
    });
    const result = await roundtable.run();
    assert.deepEqual(types(roundtable), [
      'run-started',
      'selected',
      'group-started',
      'turn-started',
      'delta',
      'delta',
      'prepared',
      'published',
      'selected',
      'group-started',
      'turn-started',
      'prepared',
      'published',
      'selected',
      'run-ended',
    ]);
    let revision = 0;
    for (const event of roundtable.events) {
      assert.equal(event.conversationId, roundtable.id);
      assert.equal(event.runId, roundtable.events[0].runId);
      assert.match(event.at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      if (event.type === 'delta') assert.equal(event.revision, undefined);
      else assert.ok(event.revision >= revision);
      revision = event.revision ?? revision;
    }
    const at = (type) => roundtable.events.find((event) => event.type === type);
    assert.deepEqual(at('run-ended').result ?? roundtable.events.at(-1).result, result);
    assert.deepEqual(at('selected').selection, speak('a'));
    assert.deepEqual(at('group-started').participantIds, ['a']);
    assert.equal(at('turn-started').participantId, 'a');
    assert.deepEqual(at('published').messages, [roundtable.snapshot().messages[0]]);
    assert.equal(at('prepared').turnId, at('turn-started').turnId);
  });

  test('C18 a group: started before dispatch, prepared per member, published once in selection order', async () => {
    const meet = barrier(2);
    let roundtable;
    const member = (id, delay) =>
      agent(id, async () => {
        assert.ok(types(roundtable).includes('group-started'));
        await meet();
        await settled(delay);
        return { kind: 'speak', content: id };
      });
    roundtable = conversation([member('a', 15), member('b', 1)], {
      selector: decisions(parallel('a', 'b')),
      maxConcurrentParticipants: 2,
    });
    await roundtable.run();
    const prepared = roundtable.events.filter(({ type }) => type === 'prepared');
    assert.deepEqual(
      prepared.map(({ participantId }) => participantId),
      ['b', 'a'],
    );
    const published = roundtable.events.filter(({ type }) => type === 'published');
    assert.equal(published.length, 1);
    assert.deepEqual(
      published[0].messages.map(({ content }) => content),
      ['a', 'b'],
    );
  });

  test('C18 requested and answered', async () => {
    const roundtable = conversation([waiter('a', waits(approval('q')))], { selector: decisions(speak('a')) });
    const { revision, requests } = await roundtable.run();
    const response = { kind: 'approval', approved: true };
    const receipt = await roundtable.resume({ requestId: 'q', responseId: 'r', expectedRevision: revision, response });
    const requested = roundtable.events.find(({ type }) => type === 'requested');
    assert.deepEqual(requested.requests, requests);
    const answered = roundtable.events.find(({ type }) => type === 'answered');
    assert.equal(answered.requestId, 'q');
    assert.equal(answered.revision, receipt.revision);
  });

  test('C18 what an event tells is durable by then', async () => {
    const problems = [];
    let roundtable;
    const onEvent = async (event) => {
      const stored = await roundtable.store.load(roundtable.id);
      if (event.type !== 'delta' && event.revision > stored.revision) problems.push(event.type);
      if (event.type === 'published' && transcript(roundtable).length === 0) problems.push('not in the snapshot');
    };
    roundtable = conversation([streamer('a', 'x')], { selector: decisions(speak('a')), onEvent });
    await roundtable.run();
    assert.deepEqual(problems, []);
  });

  test('C18 observers are awaited, one event at a time, before the next dispatch', async () => {
    let telling = 0;
    const log = [];
    const onEvent = async ({ type }) => {
      telling += 1;
      assert.equal(telling, 1);
      await settled(2);
      log.push(type);
      telling -= 1;
    };
    const a = agent('a', async () => {
      log.push('turn');
      return { kind: 'speak', content: 'x' };
    });
    await conversation([a], { selector: decisions(speak('a')), onEvent }).run();
    assert.ok(log.indexOf('group-started') < log.indexOf('turn'), log.join());
    assert.equal(log.at(-1), 'run-ended', 'run() resolves after its last event was told');
  });

  test('C18 an exception goes to onEventError; an exception there is dropped', async () => {
    const errors = [];
    const onEvent = ({ type }) => {
      if (type === 'selected') throw new Error('at once');
      return type === 'prepared' ? Promise.reject(new Error('later')) : undefined;
    };
    const onEventError = async (error, event) => {
      errors.push([error.message, event.type]);
      throw new Error('again');
    };
    const roundtable = conversation([speaker('a', 'x')], { selector: decisions(speak('a')), onEvent, onEventError });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(errors, [
      ['at once', 'selected'],
      ['later', 'prepared'],
      ['at once', 'selected'],
    ]);
    const silent = conversation([speaker('a', 'x')], { selector: decisions(speak('a')), onEvent });
    assert.equal((await silent.run()).status, 'completed');
  });

  test('C18 an observer that never returns cannot block cancellation or dispose', async () => {
    for (const type of ['run-started', 'group-started', 'prepared', 'published']) {
      const reached = deferred();
      const onEvent = (event) => {
        if (event.type !== type) return undefined;
        reached.resolve();
        return new Promise(() => {});
      };
      const controller = new AbortController();
      const roundtable = conversation([speaker('a', 'x')], { selector: decisions(speak('a')), onEvent });
      const run = roundtable.run({ signal: controller.signal });
      await reached.promise;
      await settled();
      controller.abort();
      assert.equal((await run).status, 'cancelled', type);
      await roundtable.dispose();
    }
  });

  test('C18 events are frozen, and the messages are those of the snapshot', async () => {
    const roundtable = conversation([speaker('a', 'x')], { selector: decisions(speak('a')) });
    await roundtable.run();
    const frozen = (value) => {
      if (typeof value !== 'object' || value === null) return;
      assert.ok(Object.isFrozen(value));
      Object.values(value).forEach(frozen);
    };
    roundtable.events.forEach(frozen);
    const published = roundtable.events.find(({ type }) => type === 'published');
    assert.equal(published.messages[0], roundtable.snapshot().messages[0]);
  });

  test('C18 an observer may call in again', async () => {
    let roundtable;
    const inputs = [];
    const onEvent = (event) => {
      if (event.type === 'run-ended') {
        const expectedRevision = roundtable.snapshot().revision;
        inputs.push(roundtable.submitInput({ participantId: 'p', inputId: 'i', content: 'x', expectedRevision }));
        inputs[0].catch(() => {});
      }
    };
    roundtable = conversation([speaker('a', 'x'), externalParticipant({ id: 'p' })], {
      limits: { maxTurnsPerRun: 1 },
      onEvent,
    });
    await roundtable.run();
    await rejects(inputs[0], 'busy');
  });

  test('C54 nothing private is in an event, a snapshot or a selection context', async () => {
    const a = agent(
      'a',
      {
        runTurn: async () => ({
          kind: 'wait',
          requests: [{ id: 'q', reason: 'r', kind: 'input', participantId: 'p' }],
        }),
        resumeTurn: async () => ({ kind: 'speak', content: 'CANARY unpublished' }),
        checkpoint: async () => ({ version: 'v', data: 'CANARY checkpoint' }),
      },
      { supportsContinuation: true, checkpointVersions: ['v'] },
    );
    const failing = agent('b', () => settled(20).then(() => Promise.reject(new Error('broken'))));
    const selector = decisions(parallel('a', 'b'));
    const roundtable = conversation([a, failing, externalParticipant({ id: 'p' })], { selector });
    const first = await roundtable.run();
    assert.equal(first.status, 'failed');
    const seen = JSON.stringify([roundtable.events, roundtable.snapshot(), selector.contexts, first]);
    assert.ok(!seen.includes('CANARY'));
  });
});

describe('C19 deltas', () => {
  test('C19 in the order they were streamed, all before prepared, also when nobody awaited them', async () => {
    const a = agent('a', async (_turn, { onDelta }) => {
      for (let index = 0; index < 50; index++) onDelta(`${index},`);
      return { kind: 'yield' };
    });
    const onEvent = async (event) => {
      await settled(0);
      roundtable.seen.push(event);
    };
    const roundtable = Object.assign(conversation([a], { selector: decisions(speak('a')), onEvent }), { seen: [] });
    await roundtable.run();
    const streamed = roundtable.seen.filter(({ type }) => type === 'delta');
    assert.deepEqual(
      streamed.map(({ index, text }) => [index, text]),
      Array.from({ length: 50 }, (_, index) => [index, `${index},`]),
    );
    const last = roundtable.seen.findLastIndex(({ type }) => type === 'delta');
    assert.ok(last < roundtable.seen.findIndex(({ type }) => type === 'prepared'));
  });

  test('C19 parallel deltas carry turn, attempt, participant and an index of their own', async () => {
    const roundtable = conversation([streamer('a', '1', '2'), streamer('b', '3', '4')], {
      selector: decisions(parallel('a', 'b')),
      maxConcurrentParticipants: 2,
    });
    await roundtable.run();
    const turns = new Map(roundtable.snapshot().turns.map(({ participantId, id }) => [participantId, id]));
    for (const id of ['a', 'b']) {
      const own = deltas(roundtable).filter(({ participantId }) => participantId === id);
      assert.deepEqual(
        own.map(({ index }) => index),
        [0, 1],
      );
      assert.ok(own.every(({ turnId, attemptId, groupId }) => turnId === turns.get(id) && attemptId && groupId));
    }
  });

  test('onDelta resolves when the observer has it', async () => {
    const log = [];
    const onEvent = async ({ type }) => {
      if (type !== 'delta') return;
      await settled(5);
      log.push('told');
    };
    const a = agent('a', async (_turn, { onDelta }) => {
      await onDelta('x');
      log.push('resolved');
      return { kind: 'yield' };
    });
    await conversation([a], { selector: decisions(speak('a')), onEvent }).run();
    assert.deepEqual(log, ['told', 'resolved']);
  });

  test('onDelta resolves at abort although the observer hangs', async () => {
    const streaming = deferred();
    const controller = new AbortController();
    const onEvent = ({ type }) => (type === 'delta' ? new Promise(() => {}) : undefined);
    const a = agent('a', async (_turn, { onDelta, signal }) => {
      const told = onDelta('x');
      streaming.resolve();
      await told;
      signal.throwIfAborted();
    });
    const roundtable = conversation([a], { selector: decisions(speak('a')), onEvent });
    const run = roundtable.run({ signal: controller.signal });
    await streaming.promise;
    controller.abort();
    assert.equal((await run).status, 'cancelled');
  });

  test('two halves of a surrogate pair are rejoined, a lone one becomes U+FFFD', async () => {
    const [high, low] = ['\ud83d', '\ude42'];
    for (const [pieces, joined] of [
      [[`a${high}`, `${low}b`], 'a🙂b'],
      [[high, low], '🙂'],
      [[high, '', low], '🙂'],
      [[`${high}`, 'x'], '\ufffdx'],
      [[`x${low}`], 'x\ufffd'],
      [['x', high], 'x\ufffd'],
      [[high, high, low], '\ufffd🙂'],
    ]) {
      const a = agent('a', async (_turn, { onDelta }) => {
        for (const piece of pieces) await onDelta(piece);
        return { kind: 'yield' };
      });
      const roundtable = conversation([a], { selector: decisions(speak('a')) });
      await roundtable.run();
      const texts = deltas(roundtable).map(({ text }) => text);
      assert.equal(texts.join(''), joined);
      for (const text of texts) assert.ok(text.isWellFormed() && text !== '');
      assert.deepEqual(
        deltas(roundtable).map(({ index }) => index),
        texts.map((_, index) => index),
      );
    }
  });

  test('deltas after the turn returned are dropped; text must be a string', async () => {
    let late;
    const a = agent('a', async (_turn, { onDelta }) => {
      late = onDelta;
      for (const text of [5, null, undefined, {}]) await rejects(onDelta(text), 'invalid-config', 'onDelta');
      return { kind: 'yield' };
    });
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    await roundtable.run();
    await late('too late');
    assert.deepEqual(deltas(roundtable), []);
  });

  test('index counts from 0 in each attempt', async () => {
    let tries = 0;
    const controller = new AbortController();
    const a = agent('a', async (_turn, { onDelta, signal }) => {
      tries += 1;
      await onDelta('x');
      await onDelta('y');
      if (tries === 1) {
        controller.abort();
        await settled();
        throw signal.reason;
      }
      return { kind: 'yield' };
    });
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    await roundtable.run({ signal: controller.signal });
    await roundtable.run();
    assert.deepEqual(
      deltas(roundtable).map(({ index }) => index),
      [0, 1, 0, 1],
    );
    assert.equal(new Set(deltas(roundtable).map(({ attemptId }) => attemptId)).size, 2);
  });
});

test('the times of events are those of the clock', async () => {
  const clock = virtualClock(Date.UTC(2030, 0, 1));
  const roundtable = conversation([streamer('a', 'x')], { clock, selector: decisions(speak('a')) });
  await roundtable.run();
  for (const { at } of roundtable.events) assert.equal(at, '2030-01-01T00:00:00.000Z');
});
