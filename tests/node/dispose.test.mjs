// The end of a handle: everything is settled, released once, and refused afterwards.
import { trapNextCall } from './support/traps.mjs';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  agentParticipant,
  createRoundtable,
  externalParticipant,
  loadRoundtable,
  MemoryConversationStore,
  RoundtableError,
} from 'agent-roundtable';
import { virtualClock } from 'agent-roundtable/testing';
import { open, scripted, unhandled } from './support/agent.mjs';
import {
  agent,
  conversation,
  decisions,
  deferred,
  parallel,
  rejects,
  refuses,
  settled,
  speak,
  speaker,
  transcript,
  wait,
} from './support/conversations.mjs';

const until = (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
const releasing = (id, release, runTurn = async () => ({ kind: 'speak', content: id })) =>
  agent(id, {}, { openSession: async () => ({ session: { runTurn }, release }) });

describe('C37 dispose', () => {
  test('C37 ends an active run as cancelled, awaits running work and releases every session once', async () => {
    const started = deferred();
    const log = [];
    const a = releasing(
      'a',
      async () => {
        log.push('released');
      },
      async (_turn, { signal }) => {
        started.resolve();
        await until(signal).catch(() => {});
        await settled(5);
        log.push('settled');
        throw signal.reason;
      },
    );
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    const run = roundtable.run();
    await started.promise;
    await roundtable.dispose();
    assert.deepEqual(log, ['settled', 'released']);
    assert.equal((await run).status, 'cancelled');
    await roundtable.dispose();
    assert.deepEqual(log, ['settled', 'released']);
  });

  test('C37 afterwards everything is disposed', async () => {
    const roundtable = conversation([speaker('a', 'x'), externalParticipant({ id: 'p' })]);
    await roundtable.dispose();
    const input = { participantId: 'p', inputId: 'i', expectedRevision: 0, content: 'x' };
    const answer = {
      requestId: 'q',
      responseId: 'r',
      expectedRevision: 0,
      response: { kind: 'approval', approved: true },
    };
    await rejects(roundtable.run(), 'disposed');
    await rejects(roundtable.submitInput(input), 'disposed');
    await rejects(roundtable.resume(answer), 'disposed');
    await rejects(roundtable.withdraw({ requestId: 'q', expectedRevision: 0, by: 'x', reason: 'y' }), 'disposed');
    refuses(() => roundtable.snapshot(), 'disposed');
    assert.equal(await roundtable.store.load(roundtable.id), undefined);
  });

  test('C37 called twice while running: both wait for the same end', async () => {
    const started = deferred();
    const a = agent('a', async (_turn, { signal }) => {
      started.resolve();
      return until(signal);
    });
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    const run = roundtable.run();
    await started.promise;
    await Promise.all([roundtable.dispose(), roundtable.dispose()]);
    assert.equal((await run).status, 'cancelled');
    assert.equal(a.calls.filter(([kind]) => kind === 'release').length, 1);
  });

  test('C37 failed releases are reported together', async () => {
    const failures = [new Error('first'), new Error('second')];
    const members = [
      releasing('a', () => Promise.reject(failures[0])),
      releasing('b', async () => {}),
      releasing('c', () => {
        throw failures[1];
      }),
    ];
    const roundtable = conversation(members, {
      selector: decisions(parallel('a', 'b', 'c')),
      maxConcurrentParticipants: 3,
    });
    assert.equal((await roundtable.run()).status, 'completed');
    const error = await roundtable.dispose().catch((reason) => reason);
    assert.ok(error instanceof AggregateError && error instanceof RoundtableError);
    assert.equal(error.code, 'unavailable');
    assert.deepEqual(new Set(error.errors), new Set(failures));
    assert.match(error.message, /2 sessions.*(first.*second|second.*first)/);
    assert.equal(await roundtable.dispose().catch((reason) => reason), error, 'the same answer again');
  });

  test('a failed release of a discarded lease is reported by dispose', async () => {
    const controller = new AbortController();
    let opened = 0;
    const a = agent('a', undefined, {
      checkpointVersions: ['v'],
      async openSession() {
        opened += 1;
        const first = opened === 1;
        const session = {
          async runTurn(_turn, { signal }) {
            if (!first) return { kind: 'yield' };
            controller.abort();
            if (signal.aborted) throw signal.reason;
            return until(signal);
          },
          checkpoint: async () => ({ version: 'v', data: 1 }),
        };
        const release = async () => {
          if (first) throw new Error('stuck');
        };
        return { session, release };
      },
    });
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    await roundtable.run({ signal: controller.signal });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.equal(opened, 2);
    const error = await roundtable.dispose().catch((reason) => reason);
    assert.deepEqual(
      error.errors.map(({ message }) => message),
      ['stuck'],
    );
  });

  test('Symbol.asyncDispose is the same', async () => {
    const roundtable = conversation([speaker('a', 'x')]);
    await roundtable[Symbol.asyncDispose]();
    await rejects(roundtable.run(), 'disposed');
  });

  test('C36 a participant that ignores its signal does not hang dispose where settleTimeoutMs is set', async () => {
    const clock = virtualClock();
    const started = deferred();
    const a = agent('a', () => {
      started.resolve();
      return new Promise(() => {});
    });
    const limits = { maxTurnsPerRun: 3, settleTimeoutMs: 100 };
    const roundtable = conversation([a], { clock, limits, selector: decisions(speak('a')) });
    const run = roundtable.run();
    await started.promise;
    const disposal = roundtable.dispose();
    await clock.advance(100);
    await disposal;
    assert.equal((await run).status, 'cancelled');
    assert.equal(clock.pending, 0, 'no timer outlives it');
  });

  test('C36 nor does a session that does not open; one that opens later is released at once', async () => {
    const clock = virtualClock();
    const [opening, opened, released] = [deferred(), deferred(), deferred()];
    const a = agent('a', {}, { openSession: () => opening.resolve() ?? opened.promise });
    const limits = { maxTurnsPerRun: 3, settleTimeoutMs: 100 };
    const roundtable = conversation([a], { clock, limits, selector: decisions(speak('a')) });
    const run = roundtable.run();
    await opening.promise;
    const disposal = roundtable.dispose();
    await clock.advance(100);
    assert.equal((await run).status, 'cancelled');
    await settled(5);
    await clock.advance(99);
    assert.equal(await Promise.race([disposal, Promise.resolve('waits')]), 'waits');
    await clock.advance(1);
    await disposal;
    assert.equal(clock.pending, 0, 'no timer outlives it');
    opened.resolve({
      session: { runTurn: () => assert.fail('runs') },
      release: async () => released.resolve('released'),
    });
    assert.equal(await released.promise, 'released');
  });

  test('C37 A89 while an agent is made that does not open, or would: the run is cancelled, its options are disposed of', async () => {
    for (const [made, disposals] of [
      [new Error('no network'), 0],
      [{ model: 7 }, 1],
      [{ model: 'm' }, 1],
    ]) {
      const [asked, making] = [deferred(), deferred()];
      const provider = scripted();
      let disposed = 0;
      const a = agentParticipant({
        id: 'a',
        runtime: { id: 'agent', version: '1' },
        createAgent: () => asked.resolve() ?? making.promise,
      });
      const roundtable = conversation([a], { selector: decisions(speak('a')) });
      const seen = await unhandled(async () => {
        const run = roundtable.run();
        await asked.promise;
        const disposal = roundtable.dispose();
        await settled(5);
        if (made instanceof Error) making.reject(made);
        else making.resolve({ provider, ...made, dispose: () => void disposed++ });
        await disposal;
        assert.equal((await run).status, 'cancelled');
      });
      assert.deepEqual([seen, disposed, provider.requests], [[], disposals, []]);
      await (await open({ provider })).release();
    }
  });

  test('C36 C37 nor does a release that never ends, which is reported', async () => {
    const clock = virtualClock();
    const a = releasing('a', () => new Promise(() => {}));
    const limits = { maxTurnsPerRun: 1, settleTimeoutMs: 100 };
    const roundtable = conversation([a], { clock, limits, selector: decisions(speak('a')) });
    assert.equal((await roundtable.run()).status, 'limited');
    const disposal = roundtable.dispose().catch((error) => error);
    await settled(5);
    await clock.advance(100);
    await clock.advance(4_999);
    assert.equal(await Promise.race([disposal, Promise.resolve('waits')]), 'waits', 'it may wait for a tool itself');
    await clock.advance(1);
    const error = await disposal;
    assert.equal(error.code, 'unavailable');
    assert.match(error.message, /"a" was not released in time/);
    assert.equal(clock.pending, 0, 'no timer outlives it');
  });

  for (const loaded of [false, true]) {
    test(`C36 C37 nor does a selector's release that never ends, ${loaded ? 'loaded' : 'created'}`, async () => {
      const clock = virtualClock();
      const store = new MemoryConversationStore({ clock });
      const reference = { id: 's', version: '1' };
      const selector = { ...decisions(wait('p')), reference, release: () => new Promise(() => {}) };
      const limits = { maxTurnsPerRun: 1, settleTimeoutMs: 100 };
      const person = externalParticipant({ id: 'p' });
      let roundtable = conversation([person], { conversationId: 'c', clock, limits, selector, store });
      assert.equal((await roundtable.run()).status, 'waiting');
      if (loaded) {
        const resolveParticipant = () => assert.fail('there is none');
        const registry = { resolveParticipant, resolveSelector: () => ({ reference, create: () => selector }) };
        roundtable = await loadRoundtable({ conversationId: 'c', store, registry, clock });
      }
      const disposal = roundtable.dispose().catch((error) => error);
      await settled(5);
      await clock.advance(5_099);
      assert.equal(await Promise.race([disposal, Promise.resolve('waits')]), 'waits');
      await clock.advance(1);
      const error = await disposal;
      assert.deepEqual([error.code, error.errors.map(({ code }) => code)], ['unavailable', ['unavailable']]);
      assert.match(error.message, /the selector was not released in time/);
      assert.equal(clock.pending, 0, 'no timer outlives it');
    });
  }

  test('C36 C37 a selector that is released in time leaves no timer, and one without a bound has none', async () => {
    for (const [settleTimeoutMs, timers] of [
      [100, 1],
      [undefined, 0],
    ]) {
      const clock = virtualClock();
      const released = deferred();
      const selector = { ...decisions(speak('a')), release: () => released.promise };
      const limits = { maxTurnsPerRun: 1, ...(settleTimeoutMs ? { settleTimeoutMs } : {}) };
      const roundtable = conversation([speaker('a', 'x')], { clock, limits, selector });
      assert.equal((await roundtable.run()).status, 'limited');
      const disposal = roundtable.dispose();
      await settled(5);
      assert.equal(clock.pending, timers);
      released.resolve();
      await disposal;
      assert.equal(clock.pending, 0);
    }
  });
});

describe('C37 dispose from inside a callback resolves at once', () => {
  const CALLBACKS = [
    ['runTurn', (act) => ({ participants: [agent('a', async (_turn, { signal }) => act(signal))] })],
    ['select', (act) => ({ selector: { select: async (_context, { signal }) => act(signal) } })],
    ['onEvent', (act) => ({ onEvent: async () => act() })],
    ['openSession', (act) => ({ participants: [agent('a', {}, { openSession: async () => act() })] })],
  ];
  for (const [name, options] of CALLBACKS) {
    for (const later of [false, true]) {
      test(`C37 from ${name}${later ? ', after an await' : ''}`, async () => {
        let roundtable;
        let resolved = false;
        const act = async (signal) => {
          if (later) await settled(2);
          await roundtable.dispose();
          resolved = true;
          if (signal !== undefined) throw signal.reason;
          throw new Error('never mind');
        };
        const { participants = [speaker('a', 'x')], ...extra } = options(act);
        roundtable = conversation(participants, { selector: decisions(speak('a')), ...extra });
        const result = await roundtable.run();
        assert.ok(resolved);
        assert.ok(['cancelled', 'failed'].includes(result.status), result.status);
        await roundtable.dispose();
        await rejects(roundtable.run(), 'disposed');
      });
    }
  }

  test('C37 after the callback has settled it is not inside any more', async () => {
    const disposed = deferred();
    let released = false;
    const a = releasing(
      'a',
      async () => {
        await settled(5);
        released = true;
      },
      async () => {
        setTimeout(() => roundtable.dispose().then(() => disposed.resolve(released)), 5);
        return { kind: 'speak', content: 'x' };
      },
    );
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    await roundtable.run();
    assert.equal(await disposed.promise, true, 'it waited for the release');
  });

  test('C37 from inside another conversation it waits', async () => {
    const inner = conversation([speaker('b', 'x')], { selector: decisions(speak('b')) });
    const outer = conversation(
      [
        agent('a', async () => {
          await inner.run();
          await inner.dispose();
          await rejects(inner.run(), 'disposed');
          return { kind: 'speak', content: 'done' };
        }),
      ],
      { selector: decisions(speak('a')) },
    );
    assert.equal((await outer.run()).status, 'completed');
    assert.deepEqual(transcript(outer), ['a: done']);
  });
});

describe('a trap of the engine', () => {
  test('rejects what is pending with internal; another conversation on a new engine goes on', async () => {
    const started = deferred();
    const hanging = agent('a', () => {
      started.resolve();
      return new Promise(() => {});
    });
    const roundtable = conversation([hanging], { selector: decisions(speak('a')) });
    const other = conversation([speaker('b', 'x')], { selector: decisions(speak('b')) });
    const run = roundtable.run();
    await started.promise;
    const unhandled = [];
    process.on('unhandledRejection', (reason) => unhandled.push(reason));
    trapNextCall('roundtablehandle_revision');
    refuses(() => other.snapshot(), 'internal');
    const error = await rejects(run, 'internal', 'unreachable');
    assert.equal(error.cause.name, 'EngineLostError');
    await rejects(roundtable.run(), 'internal');
    refuses(() => roundtable.snapshot(), 'internal');
    await rejects(roundtable.dispose(), 'internal');
    await rejects(other.run(), 'internal');

    const next = conversation([speaker('c', 'still here')], { selector: decisions(speak('c')) });
    assert.equal((await next.run()).status, 'completed');
    assert.deepEqual(transcript(next), ['c: still here']);
    await next.dispose();
    await settled();
    assert.deepEqual(unhandled, []);
  });

  test('in the middle of a turn', async () => {
    const roundtable = conversation([speaker('a', 'x')], { selector: decisions(speak('a')) });
    const log = [];
    const stream = Object.getPrototypeOf(roundtable).events.call(roundtable);
    trapNextCall('roundtablehandle_settleSpeak');
    await rejects(roundtable.run(), 'internal').then(() => log.push('rejected'));
    assert.deepEqual(log, ['rejected']);
    await stream.return();
  });
});

test('memory stays flat over many conversations', async () => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc');
  const cycle = async (count) => {
    for (let index = 0; index < count; index++) {
      const roundtable = conversation([speaker('a', 'x')], { selector: decisions(speak('a')), onEvent: undefined });
      await roundtable.run();
      await roundtable.dispose();
    }
    await settled();
    gc();
    return process.memoryUsage().heapUsed + process.memoryUsage().external;
  };
  await cycle(300);
  const before = await cycle(300);
  const after = await cycle(2000);
  assert.ok(after - before < 2_000_000, `${after - before} bytes more after 2,000 conversations`);
});

test('C37 events of a disposed conversation are refused, from now as from a revision', async () => {
  const roundtable = createRoundtable({
    conversationId: 'c',
    participants: [agent('a')],
    limits: { maxTurnsPerRun: 1 },
  });
  await roundtable.dispose();
  for (const options of [undefined, { afterRevision: 0 }]) {
    assert.throws(() => roundtable.events(options), { code: 'disposed' });
  }
});
