// Forks that go on: loaded like any other conversation.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  createRoundtable,
  externalParticipant,
  followConversation,
  forkRoundtable,
  loadRoundtable,
  readConversation,
  roundRobin,
  sessionParticipant,
} from 'agent-roundtable';
import { scriptedProvider } from 'agent-roundtable/testing';
import { parallel, rejects, speak, speaker, transcript, wait } from './support/conversations.mjs';
import {
  asksLeave,
  asksPerson,
  batchesOf,
  durable,
  finish,
  go,
  listed,
  load,
  registry,
  steady,
} from './support/stored.mjs';

function parts() {
  const a = steady('a', ['a one', { asks: [asksLeave], after: 'a two' }, 'a three']);
  const b = steady('b', ['b one', { asks: [asksPerson('pia'), asksLeave], after: 'b two' }, '']);
  return {
    agents: [a, b],
    selector: listed(speak('a'), parallel('b', 'a'), wait('pia'), parallel('a', 'b'), speak('b')),
  };
}

/** A finished conversation of every phase. */
async function finished(store) {
  const { agents, selector } = parts();
  const roundtable = createRoundtable({
    conversationId: 'c',
    participants: [...agents, externalParticipant({ id: 'pia' })],
    selector: selector.create({}),
    limits: { maxTurnsPerRun: 2 },
    recovery: 'durable',
    store,
  });
  // Runs end early and begin again, so that there are revisions between groups.
  for (let result = await roundtable.run(); result.status === 'limited'; ) result = await roundtable.run();
  await finish(roundtable);
  return roundtable;
}

test('F a fork of any revision goes on to the same end, and carries no answers from after the fork point', async () => {
  const store = durable();
  const whole = transcript(await finished(store));
  const { revision } = await readConversation({ store, conversationId: 'c' });
  let forks = 0;
  for (let atRevision = 1; atRevision <= revision; atRevision++) {
    const at = await readConversation({ store, conversationId: 'c', atRevision });
    const newConversationId = `f${atRevision}`;
    const made = await forkRoundtable({ store, conversationId: 'c', atRevision, newConversationId }).catch((error) => {
      assert.equal(error.code, 'conflict');
    });
    if (made === undefined) continue;
    forks += 1;
    const { agents, selector } = parts();
    const roundtable = await load(newConversationId, store, agents, selector);
    const { messages, turns, requests, usage, status } = roundtable.snapshot();
    assert.deepEqual([turns, requests, usage, status], [at.turns, [], [], 'open']);
    assert.deepEqual(
      messages.map((m) => m.id),
      at.messages.map((m) => m.id),
    );
    // Answers are asked for anew, under requests of the fork's own.
    const asked = [];
    for (;;) {
      const result = await go(roundtable);
      if (result.status !== 'waiting') break;
      for (const { id, kind } of result.requests) {
        asked.push(id);
        const response = kind === 'approval' ? { kind, approved: true } : { kind, content: 'so be it' };
        const { revision: expectedRevision } = roundtable.snapshot();
        await roundtable.resume({ requestId: id, responseId: `to ${id}`, expectedRevision, response });
      }
    }
    assert.deepEqual(transcript(roundtable), whole);
    const known = (await batchesOf(store, 'c')).flatMap((batch) => batch.entries).join('\n');
    assert.ok(asked.every((id) => !known.includes(JSON.stringify(id))));
    for (const { opened } of agents) {
      for (const { forkedFrom, conversationId } of opened) {
        assert.deepEqual(forkedFrom, { conversationId: 'c', revision: atRevision });
        assert.equal(conversationId, newConversationId);
      }
    }
    await roundtable.dispose();
  }
  assert.ok(forks > 4, `${forks}`);
});

test('C52a a fork of a conversation that has ended is open, and the origin stays ended', async () => {
  const store = durable();
  await finished(store);
  const origin = await readConversation({ store, conversationId: 'c' });
  assert.equal(origin.status, 'completed');
  await forkRoundtable({ store, conversationId: 'c', newConversationId: 'f' });
  const { agents, selector } = parts();
  const roundtable = await load('f', store, agents, selector);
  assert.equal(roundtable.snapshot().status, 'open');
  await roundtable.submitInput({ participantId: 'pia', inputId: 'i', content: 'once more', expectedRevision: 1 });
  assert.equal((await go(roundtable)).status, 'completed');
  assert.equal(transcript(roundtable).at(-1), 'pia: once more');
  assert.deepEqual(await readConversation({ store, conversationId: 'c' }), origin);
});

test('C52a the built-in policy goes on where its round was', async () => {
  const store = durable();
  const agents = () => ['a', 'b', 'c'].map((id) => steady(id, [`${id} one`, `${id} two`]));
  const limits = { maxTurnsPerRun: 2 };
  const common = { limits, recovery: 'durable', store, selector: roundRobin() };
  await createRoundtable({ conversationId: 'c', participants: agents(), ...common }).run();
  await forkRoundtable({ store, conversationId: 'c', newConversationId: 'f' });
  const roundtable = await load('f', store, agents(), undefined);
  await roundtable.run();
  assert.deepEqual(transcript(roundtable), ['a: a one', 'b: b one', 'c: c one', 'a: a two']);
});

test('C52a counters start at zero', async () => {
  const store = durable();
  const made = () => {
    const metered = steady('a', ['one', 'two'], {
      work: ({ turnId }, { services }) => services.admitModelCall({ callId: turnId, providerId: 'p', modelId: 'm' }),
      modelCalls: 'metered',
    });
    return [metered];
  };
  const limits = { maxTurnsPerRun: 5, maxModelCallsPerConversation: 1 };
  const participants = made();
  const origin = createRoundtable({ conversationId: 'c', participants, limits, recovery: 'durable', store });
  assert.equal((await origin.run()).reason, 'model-calls');
  await forkRoundtable({ store, conversationId: 'c', newConversationId: 'f', atRevision: 1 });
  const roundtable = await load('f', store, made(), undefined);
  assert.equal((await roundtable.run()).reason, 'model-calls');
  assert.deepEqual(transcript(roundtable), ['a: one']);
  assert.equal(roundtable.snapshot().usage.length, 1);
});

test('C52a a session that was forked keeps its history under an id of its own', async () => {
  const store = durable();
  const made = (...replies) => {
    const provider = scriptedProvider({ replies });
    const participant = sessionParticipant({
      id: 'ana',
      runtime: { id: 'r', version: '1' },
      createSessionOptions: () => ({ provider, model: 'm' }),
    });
    return { provider, participant };
  };
  const first = made('first');
  const options = { limits: { maxTurnsPerRun: 1 }, recovery: 'durable', store };
  const participants = [first.participant, externalParticipant({ id: 'pia' })];
  await createRoundtable({ conversationId: 'c', participants, purpose: 'agree', ...options }).run();
  await forkRoundtable({ store, conversationId: 'c', newConversationId: 'f' });
  const second = made('second', 'third');
  const roundtable = await load('f', store, [second.participant], undefined);
  const { requests, revision } = await roundtable.run();
  const answer = { participantId: 'pia', inputId: 'i', content: 'go on', replyToRequestId: requests[0].id };
  await roundtable.submitInput({ ...answer, expectedRevision: revision });
  await roundtable.run();
  const shown = second.provider.calls[0].messages.map(({ role, content }) => `${role}: ${content}`);
  assert.deepEqual(shown, ['user: Purpose: agree', 'assistant: first', 'user: ### From pia\n> go on']);
  // And again from the fork's own checkpoint.
  await roundtable.dispose();
  const third = made('third');
  const again = await load('f', store, [third.participant], undefined);
  assert.equal((await again.run()).status, 'waiting');
  const checkpoints = (await batchesOf(store, 'f')).flatMap(({ entries }) => entries.map((line) => JSON.parse(line)));
  const ids = checkpoints.flatMap((entry) => {
    const { checkpoint } = entry['checkpoint-copied/1'] ?? entry['turn-prepared/1'] ?? {};
    return checkpoint === undefined ? [] : [checkpoint.data.sessionId];
  });
  assert.equal(ids.length, 2);
  assert.notEqual(ids[0], ids[1]);
});

test('C48 a fork in which a participant has spoken and left no checkpoint is refused by load', async () => {
  const store = durable();
  const agent = speaker('ana', 'hello');
  await createRoundtable({ conversationId: 'c', participants: [agent], limits: { maxTurnsPerRun: 1 }, store }).run();
  await forkRoundtable({ store, conversationId: 'c', newConversationId: 'f' });
  const reading = loadRoundtable({ conversationId: 'f', store, registry: registry([speaker('ana', 'x')]) });
  await rejects(reading, 'recovery-required', '"ana"');
});

test('C52 a fork is followed from its beginning: what was copied is history, not news', async () => {
  const store = durable();
  const agents = () => [steady('a', ['one', 'two'])];
  const options = { limits: { maxTurnsPerRun: 1 }, recovery: 'durable', store };
  await createRoundtable({ conversationId: 'c', participants: agents(), ...options }).run();
  await forkRoundtable({ store, conversationId: 'c', newConversationId: 'f' });
  const roundtable = await load('f', store, agents(), undefined);
  const live = [];
  const events = roundtable.events();
  await roundtable.run();
  const controller = new AbortController();
  for await (const event of followConversation({ store, conversationId: 'f', signal: controller.signal })) {
    live.push(event);
    if (event.type === 'run-ended') controller.abort();
  }
  for (const event of live) assert.deepEqual((await events.next()).value, event);
  assert.deepEqual(
    live.find(({ type }) => type === 'published').messages.map((m) => m.content),
    ['two'],
  );
  await roundtable.dispose();
});
