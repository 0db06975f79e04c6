// What a conversation shows of itself, and what it leaves behind.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { externalParticipant, MemoryConversationStore } from 'agent-roundtable';
import { faultyStore, virtualClock } from 'agent-roundtable/testing';
import {
  agent,
  approval,
  conversation,
  decisions,
  deferred,
  rejects,
  settled,
  speak,
  speaker,
  transcript,
  waiter,
  waits,
} from './support/conversations.mjs';

const person = () => externalParticipant({ id: 'p', description: 'a person' });
const say = (roundtable, inputId) =>
  roundtable.submitInput({
    participantId: 'p',
    inputId,
    content: inputId,
    expectedRevision: roundtable.snapshot().revision,
  });

describe('snapshot', () => {
  test('before the first call that writes', () => {
    const roundtable = conversation([speaker('a'), person()], { purpose: 'to see' });
    assert.deepEqual(roundtable.snapshot(), {
      conversationId: roundtable.id,
      revision: 0,
      status: 'open',
      purpose: 'to see',
      participants: [
        { id: 'a', kind: 'agent' },
        { id: 'p', kind: 'external', description: 'a person' },
      ],
      messages: [],
      turns: [],
      requests: [],
      usage: [],
    });
  });

  test('is frozen to the bottom; changing it changes nothing', async () => {
    const metered = agent(
      'a',
      async (_turn, { services }) => {
        await services.admitModelCall({ callId: 'c', providerId: 'p', modelId: 'm' });
        return waits(approval('q', { list: [1] }));
      },
      { supportsContinuation: true, checkpointVersions: ['v'] },
    );
    const session = {
      resumeTurn: async () => ({ kind: 'yield' }),
      checkpoint: async () => ({ version: 'v', data: 1 }),
    };
    const { factory } = metered;
    const open = factory.openSession;
    factory.openSession = async (context) => {
      const lease = await open(context);
      return { ...lease, session: { ...lease.session, ...session } };
    };
    const roundtable = conversation([metered, person()], { selector: decisions(speak('a')) });
    await say(roundtable, 'hello');
    await roundtable.run();
    const snapshot = roundtable.snapshot();
    assert.equal(snapshot.usage.length, 1);
    assert.equal(snapshot.requests.length, 1);
    const walk = (value) => {
      if (typeof value !== 'object' || value === null) return;
      assert.ok(Object.isFrozen(value));
      Object.values(value).forEach(walk);
    };
    walk(snapshot);
    assert.throws(() => snapshot.messages.push('x'), TypeError);
    assert.throws(() => {
      snapshot.messages[0].content = 'forged';
    }, TypeError);
  });

  test('is shared until the next change; an older one stays what it was', async () => {
    const roundtable = conversation([speaker('a', '1', '2'), person()], { limits: { maxTurnsPerRun: 1 } });
    await say(roundtable, 'one');
    const first = roundtable.snapshot();
    assert.equal(roundtable.snapshot(), first);
    await say(roundtable, 'two');
    await roundtable.run();
    const second = roundtable.snapshot();
    assert.notEqual(second, first);
    assert.equal(first.messages.length, 1);
    assert.equal(second.messages.length, 3);
    assert.equal(second.messages[0], first.messages[0], 'messages are shared');
  });

  test('the ledger of an older one stays what it was', async () => {
    const between = deferred();
    const go = deferred();
    const a = agent('a', async (_turn, { services }) => {
      await services.admitModelCall({ callId: 'c', providerId: 'p', modelId: 'm' });
      between.resolve();
      await go.promise;
      await services.recordUsage({ callId: 'c', outcome: 'completed', provenance: 'reported', final: true });
      return { kind: 'yield' };
    });
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    const run = roundtable.run();
    await between.promise;
    const before = roundtable.snapshot();
    go.resolve();
    await run;
    assert.equal(roundtable.snapshot().usage[0].status, 'settled');
    assert.equal(before.usage[0].status, 'reserved');
  });

  test('its revision is the one calls return and the store has', async () => {
    const roundtable = conversation([speaker('a', 'x'), person()], { selector: decisions(speak('a')) });
    for (const act of [() => say(roundtable, 'i'), () => roundtable.run()]) {
      const { revision } = await act();
      assert.equal(roundtable.snapshot().revision, revision);
      assert.equal((await roundtable.store.load(roundtable.id)).revision, revision);
    }
  });

  test('status: open, waiting, completed, failed', async () => {
    const roundtable = conversation([waiter('a', waits(approval('q')))], { selector: decisions(speak('a')) });
    assert.equal(roundtable.snapshot().status, 'open');
    const { revision } = await roundtable.run();
    assert.equal(roundtable.snapshot().status, 'waiting');
    const response = { kind: 'approval', approved: false };
    await roundtable.resume({ requestId: 'q', responseId: 'r', expectedRevision: revision, response });
    assert.equal(roundtable.snapshot().status, 'open');
    await roundtable.run();
    assert.equal(roundtable.snapshot().status, 'completed');
    const failing = conversation([speaker('a')], { selector: decisions({ kind: 'nonsense' }) });
    await failing.run();
    assert.equal(failing.snapshot().status, 'failed');
  });

  test('turns tell when they started and settled', async () => {
    const clock = virtualClock(Date.UTC(2027, 0, 1));
    const a = agent('a', async () => {
      await new Promise((resolve) => clock.setTimeout(resolve, 1500));
      return { kind: 'yield' };
    });
    const roundtable = conversation([a], { clock, selector: decisions(speak('a')) });
    const run = roundtable.run();
    await clock.advance(1500);
    await run;
    const [turn] = roundtable.snapshot().turns;
    assert.equal(turn.startedAt, '2027-01-01T00:00:00.000Z');
    assert.equal(turn.settledAt, '2027-01-01T00:00:01.500Z');
  });

  test('an unrelated message never clears a pending approval', async () => {
    const roundtable = conversation([waiter('a', waits(approval('q'))), person()], { selector: decisions(speak('a')) });
    await roundtable.run();
    await rejects(say(roundtable, 'never mind'), 'conflict');
    assert.equal(roundtable.snapshot().requests[0].id, 'q');
    assert.equal((await roundtable.run()).status, 'waiting');
  });
});

describe('a settled cancel leaves nothing behind', () => {
  test('no unhandled rejection, no timer, no host call', async () => {
    const unhandled = [];
    const note = (reason) => unhandled.push(reason);
    process.on('unhandledRejection', note);
    const clock = virtualClock();
    let calls = 0;
    const store = faultyStore(new MemoryConversationStore({ clock }), () => {
      calls += 1;
      return undefined;
    });
    const started = deferred();
    const a = agent('a', async (_turn, { signal, onDelta, services }) => {
      await services.admitModelCall({ callId: 'c', providerId: 'p', modelId: 'm' });
      started.resolve();
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      // Things a careless participant does on its way out, without awaiting them.
      onDelta('late');
      services.admitModelCall({ callId: 'd', providerId: 'p', modelId: 'm' }).catch(() => {});
      throw signal.reason;
    });
    const controller = new AbortController();
    const limits = { maxTurnsPerRun: 3, timeoutMs: 60_000, settleTimeoutMs: 10_000 };
    const roundtable = conversation([a], { clock, store, limits, selector: decisions(speak('a')) });
    const run = roundtable.run({ signal: controller.signal });
    await started.promise;
    controller.abort();
    assert.equal((await run).status, 'cancelled');
    const [before, events] = [calls, roundtable.events.length];
    assert.equal(clock.pending, 0);
    await clock.advance(600_000);
    await settled(20);
    assert.equal(calls, before);
    assert.equal(roundtable.events.length, events);
    assert.deepEqual(unhandled, []);
    process.off('unhandledRejection', note);
  });
});

test('10,000 turns: bytes and store calls of a turn do not grow', async () => {
  const turns = 10_000;
  const store = new MemoryConversationStore();
  const members = ['a', 'b', 'c'].map((id) => agent(id, async () => ({ kind: 'speak', content: 'x'.repeat(100) })));
  const roundtable = conversation(members, { store, limits: { maxTurnsPerRun: turns }, onEvent: undefined });
  assert.equal((await roundtable.run()).reason, 'turns');
  assert.equal(transcript(roundtable).length, turns);
  const { batches } = await store.read(roundtable.id, { after: 0 });
  const bytes = (list) => list.reduce((sum, { entries }) => sum + entries.join('').length, 0) / list.length;
  const [early, late] = [bytes(batches.slice(100, 200)), bytes(batches.slice(-200, -100))];
  assert.ok(Math.abs(late - early) < early * 0.05, `${early} then ${late} bytes a batch`);
  assert.ok(batches.length <= turns * 3);
});
