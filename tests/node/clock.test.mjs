// A host's clock that stands still, goes back, or gives no time.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createRoundtable, MemoryConversationStore } from 'agent-roundtable';
import { speaker, transcript } from './support/conversations.mjs';

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

for (const [name, now] of [
  [
    'throws',
    () => {
      throw new Error('no time');
    },
  ],
  ['gives NaN', () => Number.NaN],
  ['gives nothing', () => undefined],
]) {
  test(`C2a a clock that ${name} does not stop a run`, async () => {
    assert.equal((await conversation(now).run()).status, 'limited');
  });
}
