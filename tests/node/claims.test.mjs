// Claims: one owner at a time, renewed while it works, given back before a call settles.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { externalParticipant, MemoryConversationStore } from 'agent-roundtable';
import { faultyStore, virtualClock } from 'agent-roundtable/testing';
import { agent, conversation, decisions, deferred, rejects, settled, speak } from './support/conversations.mjs';

const person = () => externalParticipant({ id: 'p' });
const input = (inputId, expectedRevision, content = inputId) => ({
  participantId: 'p',
  inputId,
  expectedRevision,
  content,
});
/** A store that notes its calls. */
function noting(store = new MemoryConversationStore()) {
  const calls = [];
  const noted = faultyStore(store, ({ method, args }) => {
    calls.push({ method, args });
    return undefined;
  });
  return Object.assign(noted, { calls, names: () => calls.map(({ method }) => method) });
}

describe('C46 claims', () => {
  test('C46 creating a handle stores nothing; the first call that writes creates the record', async () => {
    const store = noting();
    const roundtable = conversation([person()], { store });
    assert.equal(roundtable.snapshot().revision, 0);
    assert.deepEqual(store.calls, []);
    await roundtable.submitInput(input('i', 0));
    assert.equal(store.names()[0], 'create');
    assert.equal(store.names().at(-1), 'release');
  });

  test('C46 a second conversation with the same id is a conflict and changes nothing', async () => {
    const first = conversation([person()]);
    await first.submitInput(input('i', 0));
    const before = await first.store.load(first.id);
    const second = conversation([person()], { store: first.store, conversationId: first.id });
    await rejects(second.submitInput(input('j', 0)), 'conflict', first.id);
    await rejects(second.run(), 'conflict');
    assert.deepEqual(await first.store.load(first.id), before);
  });

  test('C46 the claim is held while a call works and released before it settles', async () => {
    const store = noting();
    const started = deferred();
    const go = deferred();
    const a = agent('a', async () => {
      started.resolve();
      await go.promise;
      return { kind: 'yield' };
    });
    const roundtable = conversation([a], { store, selector: decisions(speak('a')) });
    const run = roundtable.run();
    await started.promise;
    await rejects(store.claim(roundtable.id, 'other', 1000), 'busy');
    go.resolve();
    await run;
    const claim = await store.claim(roundtable.id, 'other', 1000);
    assert.equal(claim.fence, 2);
    await rejects(roundtable.submitInput({ ...input('i', 0), participantId: 'a' }), 'conflict');
    await store.release(claim);
  });

  test('C46 busy where another owner holds the claim', async () => {
    const store = new MemoryConversationStore();
    const roundtable = conversation([person()], { store });
    await roundtable.submitInput(input('i', 0));
    const claim = await store.claim(roundtable.id, 'other', 60_000);
    await rejects(roundtable.submitInput(input('j', roundtable.snapshot().revision)), 'busy');
    await store.release(claim);
    await roundtable.submitInput(input('j', roundtable.snapshot().revision));
  });

  test('C2a it is renewed at one third of the lease while a turn takes long', async () => {
    const clock = virtualClock();
    const store = noting(new MemoryConversationStore({ clock }));
    const go = deferred();
    const a = agent('a', async () => {
      await go.promise;
      return { kind: 'speak', content: 'x' };
    });
    const roundtable = conversation([a], { store, clock, leaseMs: 3000, selector: decisions(speak('a')) });
    const run = roundtable.run();
    for (let step = 0; step < 20; step++) await clock.advance(500);
    const renewals = store.names().filter((name) => name === 'renew').length;
    assert.ok(renewals >= 8 && renewals <= 11, `${renewals} renewals in 10 s`);
    go.resolve();
    await settled();
    assert.equal((await run).status, 'completed');
    assert.equal(clock.pending, 0);
  });

  test('C46 a stolen claim stops dispatch with stale-claim and the loser writes nothing more', async () => {
    const clock = virtualClock();
    const store = new MemoryConversationStore({ clock });
    const started = deferred();
    const go = deferred();
    let second = 0;
    const a = agent('a', async () => {
      started.resolve();
      await go.promise;
      return { kind: 'speak', content: 'x' };
    });
    const b = agent('b', async () => {
      second += 1;
      return { kind: 'yield' };
    });
    const lose = faultyStore(store, ({ method }) => (method === 'renew' ? { when: 'before' } : undefined));
    const selector = decisions(speak('a'), speak('b'));
    const hung = conversation([a, b], { store: lose, clock, leaseMs: 3000, selector });
    const run = hung.run();
    run.catch(() => {});
    await started.promise;
    await clock.advance(3000);
    const thief = await store.claim(hung.id, 'thief', 60_000);
    const before = await store.load(hung.id);
    go.resolve();
    await clock.advance(100);
    await rejects(run, 'stale-claim');
    assert.equal(second, 0);
    assert.deepEqual(await store.load(hung.id), before);
    assert.equal(thief.fence, 2);
  });
});
