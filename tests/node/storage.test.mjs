// The journal is the truth: what is written, when, under which claim, and what happens when the store fails.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { externalParticipant, MemoryConversationStore } from 'agent-roundtable';
import { faultyStore, virtualClock } from 'agent-roundtable/testing';
import {
  agent,
  conversation,
  decisions,
  journal,
  parallel,
  rejects,
  settled,
  speak,
  speaker,
  transcript,
} from './support/conversations.mjs';

const person = () => externalParticipant({ id: 'p' });
const batches = async (roundtable) => (await roundtable.store.read(roundtable.id, { after: 0 })).batches;
const entryKinds = (batch) => batch.entries.map((entry) => Object.keys(JSON.parse(entry))[0]);

/** A store that notes its calls. */
function noting(store = new MemoryConversationStore()) {
  const calls = [];
  const noted = faultyStore(store, ({ method, args }) => {
    calls.push({ method, args });
    return undefined;
  });
  return Object.assign(noted, { calls, names: () => calls.map(({ method }) => method) });
}

describe('C43 the journal', () => {
  test('C43 is a list of versioned entries, one line of JSON each; equal seeds and times give equal bytes', async () => {
    const lines = async () => {
      const clock = virtualClock();
      const roundtable = conversation([speaker('a', 'x'), speaker('b', 'y')], {
        conversationId: 'same',
        seed: 'seed',
        clock,
        selector: decisions(parallel('a', 'b')),
      });
      await roundtable.run();
      return (await batches(roundtable)).flatMap(({ entries }) => entries);
    };
    const first = await lines();
    for (const line of first) {
      assert.ok(!line.includes('\n'));
      assert.match(Object.keys(JSON.parse(line))[0], /^[a-z-]+\/1$/);
    }
    assert.deepEqual(await lines(), first);
    assert.equal(Object.keys(JSON.parse(first[0]))[0], 'created/1');
  });

  test('C51 without a seed ids differ between conversations', async () => {
    const ids = await Promise.all(
      [1, 2].map(async () => {
        const roundtable = conversation([speaker('a', 'x')], { selector: decisions(speak('a')), conversationId: 'c' });
        await roundtable.run();
        return roundtable.snapshot().messages[0].id;
      }),
    );
    assert.notEqual(ids[0], ids[1]);
  });
});

describe('C44 entries before effects', () => {
  test('C44 a turn is announced before its runtime is called, selecting before a host selector', async () => {
    const seen = {};
    let roundtable;
    const note = async (name) => {
      seen[name] = (await journal(roundtable)).map(([kind]) => kind);
    };
    const a = agent('a', async () => {
      await note('turn');
      return { kind: 'yield' };
    });
    const selector = decisions(async () => {
      await note('selector');
      return speak('a');
    });
    roundtable = conversation([a], { selector });
    await roundtable.run();
    assert.equal(seen.selector.at(-1), 'selecting/1');
    assert.equal(seen.turn.at(-1), 'turn-started/1');
    assert.ok(seen.turn.includes('group-started/1'));
  });

  test('C44 one store call at a time; a commit and the next selecting share a batch', async () => {
    let inFlight = 0;
    const store = new MemoryConversationStore();
    const append = store.append.bind(store);
    store.append = async (batch) => {
      inFlight += 1;
      assert.equal(inFlight, 1);
      await settled(1);
      inFlight -= 1;
      return append(batch);
    };
    const ids = ['a', 'b', 'c', 'd'];
    const roundtable = conversation(
      ids.map((id) => speaker(id, id, id)),
      { store, selector: decisions(parallel(...ids), parallel(...ids)), maxConcurrentParticipants: 4 },
    );
    await roundtable.run();
    const written = (await batches(roundtable)).map(entryKinds);
    assert.ok(written.some((kinds) => kinds.includes('group-committed/1') && kinds.includes('selecting/1')));
  });

  test('C44 store calls per turn and per group stay few', async () => {
    const appends = (store) => store.names().filter((name) => name === 'append').length;
    const single = noting();
    const turns = 20;
    const words = Array.from({ length: turns }, (_, index) => `${index}`);
    const one = conversation([speaker('a', ...words)], { store: single, limits: { maxTurnsPerRun: turns } });
    await one.run();
    assert.ok(appends(single) <= turns * 3, `${appends(single)} appends for ${turns} turns`);

    const grouped = noting();
    const ids = Array.from({ length: 8 }, (_, index) => `m${index}`);
    const members = ids.map((id) => speaker(id, id));
    const group = conversation(members, {
      store: grouped,
      selector: decisions(parallel(...ids)),
      maxConcurrentParticipants: 8,
    });
    await group.run();
    assert.ok(appends(grouped) <= 8, `${appends(grouped)} appends for a group of 8`);
  });

  test('bytes written for a turn depend on that turn alone', async () => {
    const words = Array.from({ length: 60 }, () => 'x'.repeat(500));
    const roundtable = conversation([speaker('a', ...words)], { limits: { maxTurnsPerRun: 60 } });
    await roundtable.run();
    const sizes = (await batches(roundtable)).map(({ entries }) => entries.join('').length);
    const early = sizes.slice(5, 10).reduce((a, b) => a + b);
    const late = sizes.slice(-10, -5).reduce((a, b) => a + b);
    assert.ok(late <= early * 1.1, `${early} then ${late}`);
    assert.ok(late / 5 < 2048, `${late / 5} bytes a batch`);
  });
});

describe('C45 failures of the store', () => {
  const broken = new Error('the connection broke');

  /** A conversation of two turns, the calls of its store, and what happens to one of them. */
  async function losing(fault) {
    const clock = virtualClock();
    const memory = new MemoryConversationStore({ clock });
    const calls = [];
    const store = faultyStore(memory, (call) => {
      calls.push(call.method);
      return fault(call, calls.length - 1);
    });
    const keeping = { checkpointVersions: ['v1'] };
    const words = ['one', 'two'];
    const a = agent(
      'a',
      {
        runTurn: async () => ({ kind: 'speak', content: words.shift() }),
        checkpoint: async () => ({ version: 'v1', data: words.length }),
      },
      keeping,
    );
    const roundtable = conversation([a], { store, clock, selector: decisions(speak('a'), speak('a')) });
    const run = roundtable.run();
    run.catch(() => {});
    for (let step = 0; step < 10; step++) await clock.advance(10_000);
    return { run, roundtable, memory, calls };
  }

  test('C45 one lost acknowledgement of every store call, landed and not landed: nothing lost, nothing twice', async () => {
    const { calls } = await losing(() => undefined);
    assert.ok(calls.filter((method) => method === 'append').length >= 6, calls.join());
    for (const [index, method] of calls.entries()) {
      // A claim that was granted unheard is busy until it expires: tested below.
      if (method === 'claim') continue;
      for (const when of ['before', 'after']) {
        const about = `${method}, call ${index}, ${when === 'after' ? 'landed' : 'not landed'}`;
        const { run, roundtable, memory } = await losing((_call, number) => (number === index ? { when } : undefined));
        assert.equal((await run).status, 'completed', about);
        assert.deepEqual(transcript(roundtable), ['a: one', 'a: two'], about);
        const stored = await memory.read(roundtable.id, { after: 0 });
        assert.equal(stored.revision, roundtable.snapshot().revision, about);
        const ids = stored.batches.map(({ operationId }) => operationId);
        assert.equal(new Set(ids).size, ids.length, about);
        const settledTurns = stored.batches.flatMap(entryKinds).filter((kind) => kind === 'turn-settled/1');
        assert.equal(settledTurns.length, 2, about);
      }
    }
  });

  test('C46 after a claim whose acknowledgement was lost it is unknown who holds it, until it expires', async () => {
    const clock = virtualClock();
    const memory = new MemoryConversationStore({ clock });
    const store = faultyStore(memory, ({ method, index }) =>
      method === 'claim' && index === 0 ? { when: 'after' } : undefined,
    );
    const roundtable = conversation([speaker('a', 'x')], {
      store,
      clock,
      leaseMs: 5000,
      selector: decisions(speak('a')),
    });
    const run = roundtable.run();
    run.catch(() => {});
    await clock.advance(1000);
    await rejects(run, 'unavailable');
    await clock.advance(5000);
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: x']);
  });

  test('C45 an append is repeated three times with growing pauses, then the caller gets unavailable', async () => {
    const clock = virtualClock();
    const attempts = [];
    let down = true;
    const store = faultyStore(new MemoryConversationStore({ clock }), ({ method, args }) => {
      if (method !== 'append' || !down) return undefined;
      attempts.push([clock.now(), args[0].operationId]);
      return { when: 'before', error: broken };
    });
    const roundtable = conversation([speaker('a', 'x')], { store, clock, selector: decisions(speak('a')) });
    const run = roundtable.run();
    run.catch(() => {});
    for (let step = 0; step < 20; step++) await clock.advance(1000);
    const error = await rejects(run, 'unavailable');
    assert.equal(error.cause, broken, 'the cause is what the store threw');
    assert.equal(attempts.length, 4);
    assert.equal(new Set(attempts.map(([, operationId]) => operationId)).size, 1, 'the same append');
    const pauses = attempts.slice(1).map(([at], index) => at - attempts[index][0]);
    assert.ok(pauses[0] > 0 && pauses[1] > pauses[0] && pauses[2] > pauses[1], pauses.join());
    down = false;
    const again = roundtable.run();
    for (let step = 0; step < 60; step++) await clock.advance(1000);
    assert.equal((await again).status, 'completed', 'a store failure never ends a conversation');
    assert.deepEqual(transcript(roundtable), ['a: x']);
    assert.equal(clock.pending, 0);
  });

  test('C45 what an append wrote although it was given up is read before the next call', async () => {
    const clock = virtualClock();
    let down = false;
    const memory = new MemoryConversationStore({ clock });
    const store = faultyStore(memory, ({ method }) => (down && method === 'append' ? { when: 'after' } : undefined));
    let turns = 0;
    const a = agent('a', async () => {
      turns += 1;
      down = true;
      return { kind: 'speak', content: 'x' };
    });
    const roundtable = conversation([a], { store, clock, selector: decisions(speak('a')) });
    const run = roundtable.run();
    run.catch(() => {});
    for (let step = 0; step < 20; step++) await clock.advance(1000);
    await run.catch((error) => assert.equal(error.code, 'unavailable'));
    down = false;
    const again = roundtable.run();
    for (let step = 0; step < 60; step++) await clock.advance(1000);
    assert.equal((await again).status, 'completed');
    assert.equal(turns, 1, 'the settled result was not lost');
    assert.deepEqual(transcript(roundtable), ['a: x']);
  });

  for (const [name, value] of [
    ['a wrong revision', { revision: 77 }],
    ['no revision', {}],
    ['a revision that is no integer', { revision: 2.5 }],
    ['a revision as text', { revision: '2' }],
    ['nothing', undefined],
  ]) {
    test(`C45 a store that returns ${name} is not trusted`, async () => {
      const clock = virtualClock();
      const store = faultyStore(new MemoryConversationStore({ clock }), ({ method }) =>
        method === 'append' ? { when: 'answer', value } : undefined,
      );
      const roundtable = conversation([speaker('a', 'x')], { store, clock, selector: decisions(speak('a')) });
      const run = roundtable.run();
      run.catch(() => {});
      for (let step = 0; step < 60; step++) await clock.advance(1000);
      const error = await run.catch((reason) => reason);
      assert.ok(
        ['unavailable', 'internal', 'conflict', 'invalid-record'].includes(error.code),
        `${error.code ?? error.status}`,
      );
      assert.deepEqual(transcript(roundtable), []);
    });
  }

  test('C46 a foreign claim from the store is refused', async () => {
    for (const change of [
      { ownerId: 'someone' },
      { conversationId: 'other' },
      { fence: -1 },
      { expiresAt: Number.NaN },
    ]) {
      const clock = virtualClock();
      const store = new MemoryConversationStore({ clock });
      store.claim = async (conversationId, ownerId) => ({ conversationId, ownerId, fence: 1, expiresAt: 1, ...change });
      const roundtable = conversation([speaker('a', 'x')], { store, clock });
      const run = roundtable.run();
      run.catch(() => {});
      for (let step = 0; step < 60; step++) await clock.advance(1000);
      const error = await rejects(run, 'unavailable');
      assert.match(error.cause.message, new RegExp(`claim.${Object.keys(change)[0]}|fence`));
    }
  });
});

describe('two handles of one process', () => {
  test('conversations do not interfere', async () => {
    const store = new MemoryConversationStore();
    const all = Array.from({ length: 20 }, (_, index) =>
      conversation([speaker('a', `${index}`), speaker('b', `${index}`)], {
        store,
        selector: decisions(parallel('a', 'b')),
      }),
    );
    await Promise.all(all.map((roundtable) => roundtable.run()));
    all.forEach((roundtable, index) => {
      assert.deepEqual(transcript(roundtable), [`a: ${index}`, `b: ${index}`]);
    });
    const page = await store.list({ status: 'completed' });
    assert.equal(page.items.length, 20);
    assert.deepEqual(page.items[0].summary.members, ['a', 'b']);
  });

  test('the summary follows the conversation', async () => {
    const roundtable = conversation([person()], {
      selector: decisions({ kind: 'wait', participantId: 'p', reason: 'x' }),
    });
    await roundtable.run();
    const { summary } = await roundtable.store.load(roundtable.id);
    assert.equal(summary.status, 'waiting');
    assert.match(summary.createdAt, /^\d{4}-\d\d-\d\dT/);
    assert.ok(summary.updatedAt >= summary.createdAt);
  });
});
