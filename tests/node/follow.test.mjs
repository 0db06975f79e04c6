import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRoundtable, externalParticipant, followConversation, MemoryConversationStore } from 'agent-roundtable';
import { virtualClock } from 'agent-roundtable/testing';
import { answer, decisions, deferred, parallel, settled, speak, speaker, wait } from './support/conversations.mjs';

/** A conversation that notes the events its observer is told of. */
function conversation(store, ...choices) {
  const told = [];
  const roundtable = createRoundtable({
    conversationId: 'c',
    participants: [
      speaker('ana', 'one', 'two', 'three', 'four'),
      speaker('bo', 'me too'),
      externalParticipant({ id: 'pia' }),
    ],
    selector: decisions(...choices),
    limits: { maxTurnsPerRun: 9 },
    store,
    onEvent: (event) => void told.push(event),
  });
  return Object.assign(roundtable, { told });
}

const follow = (store, options) => followConversation({ store, conversationId: 'c', ...options });

async function all(events) {
  const found = [];
  for await (const event of events) found.push(event);
  return found;
}

async function take(iterator, count) {
  const found = [];
  while (found.length < count) found.push((await iterator.next()).value);
  return found;
}

/** Only what any store has. */
const pollingOnly = (store) => ({ read: (...call) => store.read(...call) });

test('C52 who joins at n sees exactly n+1 onwards, each event once and in order', async () => {
  const store = new MemoryConversationStore();
  const roundtable = conversation(store, parallel('ana', 'bo'), speak('ana'));
  const { revision } = await roundtable.run();
  for (let after = 0; after <= revision; after++) {
    const expected = roundtable.told.filter((event) => event.type !== 'delta' && event.revision > after);
    assert.deepEqual(await all(follow(store, { afterRevision: after })), expected, `after ${after}`);
  }
  assert.deepEqual(await all(follow(store)), await all(follow(store, { afterRevision: 0 })));
});

test('C52 a follower in another place sees what others write, while they write it, from run to run', async () => {
  for (const seen of [(store) => store, pollingOnly]) {
    const store = new MemoryConversationStore();
    const roundtable = conversation(store, parallel('ana', 'bo'), wait('pia'), speak('ana'));
    const run = await roundtable.run();
    const followers = [0, 1, run.revision].map((after) =>
      all(follow(seen(store), { afterRevision: after, pollMs: 5 })),
    );
    await settled(20);
    await answer(roundtable, run, 'hello');
    await settled(20);
    await roundtable.run();
    const told = roundtable.told.filter((event) => event.type !== 'delta');
    const found = await Promise.all(followers);
    assert.deepEqual(found[0], told);
    assert.deepEqual(
      found[1],
      told.filter((event) => event.revision > 1),
    );
    assert.deepEqual(
      found[2],
      told.filter((event) => event.revision > run.revision),
    );
    assert.equal(found[2].at(-1).result.status, 'completed');
  }
});

test('C52 a store is asked every second, or when it tells of a change', async () => {
  const store = new MemoryConversationStore();
  const roundtable = conversation(store, wait('pia'), speak('ana'));
  const { revision } = await roundtable.run();
  const clock = virtualClock();
  const reads = (limit) => {
    const calls = {
      count: 0,
      read(...call) {
        calls.count += 1;
        return store.read(...call);
      },
    };
    if (limit) calls.watch = (...call) => store.watch(...call);
    return calls;
  };
  const [polled, watched] = [reads(false), reads(true)];
  const iterators = [polled, watched].map((of) => follow(of, { afterRevision: revision, clock }));
  const next = iterators.map((iterator) => iterator.next());
  await clock.advance(0);
  assert.deepEqual([polled.count, watched.count], [1, 1]);
  await clock.advance(999);
  assert.equal(polled.count, 1);
  await clock.advance(1);
  assert.deepEqual([polled.count, watched.count], [2, 1]);
  await clock.advance(29_000);
  assert.deepEqual([polled.count, watched.count], [31, 2]);
  await answer(roundtable, roundtable.snapshot(), 'x');
  // Told by the store: at once.
  assert.equal((await next[1]).value.type, 'answered');
  assert.equal(clock.pending, 1);
  await clock.advance(1000);
  assert.equal((await next[0]).value.type, 'answered');
  await Promise.all(iterators.map((iterator) => iterator.return()));
  assert.equal(clock.pending, 0);
});

test('C52 a change that falls between reading and waiting is not missed', async () => {
  const store = new MemoryConversationStore();
  const roundtable = conversation(store, wait('pia'));
  const { revision } = await roundtable.run();
  const gate = deferred();
  const held = {
    async read(...call) {
      const found = await store.read(...call);
      await gate.promise;
      return found;
    },
    watch: (...call) => store.watch(...call),
  };
  const iterator = follow(held, { afterRevision: revision, pollMs: 2 ** 31 - 1 });
  const next = iterator.next();
  await settled();
  await answer(roundtable, roundtable.snapshot(), 'x');
  gate.resolve();
  assert.equal((await next).value.type, 'answered');
  await iterator.return();
});

test('C52 following ends when the signal fires, whatever it waits for, and leaves nothing behind', async () => {
  const store = new MemoryConversationStore();
  const roundtable = conversation(store, wait('pia'));
  const { revision } = await roundtable.run();
  const clock = virtualClock();
  // Before it began, while it waits for more, while it waits for the store, and between two events.
  const before = new AbortController();
  before.abort();
  assert.deepEqual(await all(follow(store, { signal: before.signal })), []);
  for (const source of [store, pollingOnly(store), { read: () => new Promise(() => {}) }]) {
    const controller = new AbortController();
    const iterator = follow(source, { afterRevision: revision, signal: controller.signal, clock });
    const next = iterator.next();
    await settled();
    controller.abort();
    assert.deepEqual(await next, { done: true, value: undefined });
    assert.deepEqual(await iterator.next(), { done: true, value: undefined });
    assert.equal(clock.pending, 0);
  }
  const controller = new AbortController();
  const found = [];
  for await (const event of follow(store, { signal: controller.signal })) {
    found.push(event);
    if (found.length === 2) controller.abort();
  }
  assert.equal(found.length, 2);
});

test('C52 a consumer that stops is waited for by nobody', async () => {
  const store = new MemoryConversationStore();
  const { revision } = await conversation(store, wait('pia')).run();
  const clock = virtualClock();
  const ended = [];
  const watched = {
    read: (...call) => store.read(...call),
    watch: (id) => {
      assert.equal(id, 'c');
      return () => void ended.push(id);
    },
  };
  const iterator = follow(watched, { afterRevision: revision, clock });
  const next = iterator.next();
  await settled();
  await iterator.return();
  assert.deepEqual(await next, { done: true, value: undefined });
  assert.equal(clock.pending, 0);
  assert.ok(ended.length > 0);
  for await (const event of follow(watched, { clock })) {
    assert.equal(event.revision, 2);
    break;
  }
  assert.equal(clock.pending, 0);
});

test('C52 a slow consumer is never more than a page of the journal behind what was read', async () => {
  const store = new MemoryConversationStore();
  const roundtable = conversation(store, ...Array.from({ length: 4 }, () => speak('ana')));
  await roundtable.run();
  const found = await store.read('c', { after: 0 });
  const asked = [];
  const small = {
    async read(id, { after, limit }) {
      asked.push([after, limit]);
      return store.read(id, { after, limit: Math.min(2, limit) });
    },
  };
  const iterator = follow(small);
  assert.deepEqual(asked, []);
  const [first] = await take(iterator, 1);
  assert.equal(first.type, 'run-started');
  await settled();
  assert.equal(asked.length, 1);
  assert.equal(asked[0][1], 256);
  const rest = await all(iterator);
  assert.deepEqual(
    [first, ...rest],
    roundtable.told.filter((event) => event.type !== 'delta'),
  );
  assert.equal(asked.length, Math.ceil(found.revision / 2));
});

test('C52 events that are followed are frozen, and each follower has its own', async () => {
  const store = new MemoryConversationStore();
  await conversation(store, speak('ana')).run();
  const [one, other] = [await all(follow(store)), await all(follow(store))];
  assert.deepEqual(one, other);
  for (const [index, event] of one.entries()) {
    assert.ok(Object.isFrozen(event) && event !== other[index]);
    if (event.type === 'published') assert.ok(event.messages.every(Object.isFrozen));
  }
});

test('C52 a conversation that is not there, or not any more, ends it with not-found', async () => {
  const missing = (iterator) => assert.rejects(iterator.next(), { name: 'RoundtableError', code: 'not-found' });
  const store = new MemoryConversationStore();
  await missing(follow(store));
  const roundtable = conversation(store, wait('pia'));
  const { revision } = await roundtable.run();
  const deleted = follow(store, { afterRevision: revision });
  const next = missing(deleted);
  await settled();
  await store.delete('c');
  await next;
  assert.deepEqual(await deleted.next(), { done: true, value: undefined });
});

test('C52 a conversation that was deleted and made again is not the one that was followed', async () => {
  const store = new MemoryConversationStore();
  const { revision } = await conversation(store, wait('pia')).run();
  const iterator = follow(pollingOnly(store), { afterRevision: revision, pollMs: 1 });
  const next = assert.rejects(iterator.next(), { code: 'not-found', message: /made again/ });
  await settled();
  await store.delete('c');
  const again = conversation(store);
  await again.submitInput({ participantId: 'pia', inputId: 'i', content: 'x', expectedRevision: 0 });
  await next;
});

test('C45 a store that fails ends it with a code, and it can be joined again', async () => {
  const store = new MemoryConversationStore();
  const roundtable = conversation(store, wait('pia'));
  const { revision } = await roundtable.run();
  let down = false;
  const failing = {
    async read(...call) {
      if (down) throw new Error('down');
      return store.read(...call);
    },
  };
  const iterator = follow(failing, { pollMs: 1 });
  const seen = await take(iterator, roundtable.told.length);
  down = true;
  await assert.rejects(iterator.next(), { name: 'RoundtableError', code: 'unavailable' });
  assert.equal(seen.at(-1).revision, revision);
  down = false;
  await answer(roundtable, roundtable.snapshot(), 'x');
  const again = follow(failing, { afterRevision: revision, pollMs: 1 });
  assert.equal((await again.next()).value.type, 'answered');
  await again.return();
});

test('C43 a journal that does not fold ends it with invalid-record', async () => {
  const store = new MemoryConversationStore();
  await conversation(store, speak('ana')).run();
  const odd = {
    async read(...call) {
      const { revision, batches } = await store.read(...call);
      return { revision, batches: batches.map((batch) => ({ ...batch, entries: batch.entries.map(() => '{}') })) };
    },
  };
  await assert.rejects(follow(odd).next(), { code: 'invalid-record', message: /entry 0/ });
});

test('C52 options are checked at the door', () => {
  const store = new MemoryConversationStore();
  const refused = (options, message) =>
    assert.throws(() => followConversation(options), { name: 'RoundtableError', code: 'invalid-config', message });
  refused(undefined, /options/);
  refused({ conversationId: 'c' }, /store/);
  refused({ store, conversationId: 7 }, /conversationId/);
  refused({ store, conversationId: 'c', after: 1 }, /after/);
  refused({ store, conversationId: 'c', signal: {} }, /signal/);
  refused({ store, conversationId: 'c', clock: {} }, /clock/);
  for (const bad of [-1, 1.5, Number.NaN, 2 ** 53, '1', null]) {
    refused({ store, conversationId: 'c', afterRevision: bad }, /afterRevision/);
    refused({ store, conversationId: 'c', pollMs: bad }, /pollMs/);
  }
  refused({ store, conversationId: 'c', pollMs: 0 }, /pollMs/);
  refused({ store, conversationId: 'c', pollMs: 2 ** 31 }, /pollMs/);
});
