// A host's clock that stands still, goes back, or gives no time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRoundtable, forkRoundtable, loadRoundtable, MemoryConversationStore } from 'agent-roundtable';
import { speaker, transcript } from './support/conversations.mjs';

const AT = '2026-01-01T00:00:00.000Z';

const timers = {
  setTimeout: (call, ms) => setTimeout(call, Math.min(ms, 5)),
  clearTimeout: (timer) => clearTimeout(timer),
};

/** A store that loses the first acknowledgement of an append. */
class Forgetful extends MemoryConversationStore {
  #lost = false;
  async append(batch) {
    const receipt = await super.append(batch);
    if (this.#lost) return receipt;
    this.#lost = true;
    throw new Error('lost');
  }
}

function conversation(now, store) {
  const clock = { ...timers, now };
  const participants = [speaker('ana', 'hello')];
  return createRoundtable({ conversationId: 'c', participants, limits: { maxTurnsPerRun: 1 }, clock, store });
}

test('C45 a clock that stands still does not keep a lost acknowledgement from being asked for again', async () => {
  const roundtable = conversation(() => 1e12, new Forgetful());
  assert.equal((await roundtable.run()).status, 'limited');
  assert.deepEqual(transcript(roundtable), ['ana: hello']);
});

test('C2a a clock that goes back does not stop a run', async () => {
  let time = 2e12;
  const roundtable = conversation(() => (time -= 1000), new Forgetful());
  assert.equal((await roundtable.run()).status, 'limited');
});

const broken = () => {
  throw new Error('no time');
};
const noTimes = {
  throws: broken,
  ...Object.fromEntries([Number.NaN, -5, 9e15, Infinity, undefined].map((time) => [`gives ${time}`, () => time])),
};

for (const [name, none] of Object.entries(noTimes)) {
  test(`C2a a clock that ${name} from some moment on stands still, and the conversation ends as it would have`, async () => {
    for (let good = 1; good < 40; good++) {
      let reads = 0;
      const now = () => (reads++ < good ? 1e12 + reads : none());
      const store = new MemoryConversationStore();
      const table = conversation(now, store);
      assert.equal((await table.run()).status, 'limited');
      const { createdAt, updatedAt } = (await store.list({})).items[0].summary;
      for (const at of [createdAt, updatedAt, ...table.snapshot().turns.map((turn) => turn.settledAt)])
        assert.match(at, /^2001-/, `after ${good} reads`);
    }
  });

  test(`C2a a store whose clock ${name} refuses claims by the name of the port`, async () => {
    const store = new MemoryConversationStore({ clock: { now: none } });
    const summary = { status: 'open', members: ['a'], createdAt: AT, updatedAt: AT };
    await store.create({ conversationId: 'c', kind: 'roundtable', schemaVersion: 1, entries: ['{}'], summary });
    const named = { code: 'invalid-config', message: /^clock\.now / };
    await assert.rejects(store.claim('c', 'owner', 1000), named);
  });

  test(`C2 a load and a fork on a clock that ${name} are refused before anything is read`, async () => {
    const store = new Proxy({}, { get: (_, key) => (key === 'durability' ? 'memory' : () => assert.fail('read')) });
    const clock = { ...timers, now: none };
    const named = { code: 'invalid-config', message: /^clock\.now / };
    const registry = { resolveParticipant: () => assert.fail('asked') };
    await assert.rejects(loadRoundtable({ conversationId: 'c', store, registry, clock }), named);
    await assert.rejects(forkRoundtable({ conversationId: 'c', newConversationId: 'd', store, clock }), named);
  });
}
