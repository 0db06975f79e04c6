// What the package offers to tests of others.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { agentParticipant, MemoryConversationStore } from 'agent-roundtable';
import { faultyStore, scriptedParticipant, scriptedProvider, virtualClock } from 'agent-roundtable/testing';
import { approval, conversation, decisions, speak, transcript, waits } from './support/conversations.mjs';

const record = {
  conversationId: 'c',
  kind: 'roundtable',
  schemaVersion: 1,
  entries: [],
  summary: { status: 'open', members: [], createdAt: '', updatedAt: '' },
};

describe('virtualClock', () => {
  test('moves when it is told to; timers fire in the order they are due, what follows settles in between', async () => {
    const clock = virtualClock(1000);
    const log = [];
    clock.setTimeout(() => log.push(['late', clock.now()]), 50);
    clock.setTimeout(async () => {
      log.push(['early', clock.now()]);
      await null;
      clock.setTimeout(() => log.push(['nested', clock.now()]), 10);
    }, 20);
    const cancelled = clock.setTimeout(() => log.push(['never']), 30);
    clock.clearTimeout(cancelled);
    assert.equal(clock.pending, 2);
    await clock.advance(19);
    assert.deepEqual(log, []);
    await clock.advance(81);
    assert.deepEqual(log, [
      ['early', 1020],
      ['nested', 1030],
      ['late', 1050],
    ]);
    assert.equal(clock.now(), 1100);
    assert.equal(clock.pending, 0);
  });
});

describe('faultyStore', () => {
  const faulty = (fault) =>
    faultyStore(new MemoryConversationStore(), ({ method }) => (method === 'create' ? fault : undefined));

  test('before: not written', async () => {
    const store = faulty({ when: 'before' });
    await assert.rejects(store.create(record), /create/);
    assert.equal(await store.load('c'), undefined);
  });

  test('after: written, the acknowledgement lost; the error may be given', async () => {
    const error = new Error('mine');
    const store = faulty({ when: 'after', error });
    await assert.rejects(store.create(record), error);
    assert.equal((await store.load('c')).revision, 1);
  });

  test('answer and hang', async () => {
    assert.equal(await faulty({ when: 'answer', value: 5 }).create(record), 5);
    const hanging = faulty({ when: 'hang' });
    const winner = await Promise.race([
      hanging.create(record),
      new Promise((resolve) => setTimeout(resolve, 5, 'nobody')),
    ]);
    assert.equal(winner, 'nobody');
    assert.equal((await hanging.load('c')).revision, 1);
  });

  test('tells the method, how often it was called before, and the arguments', async () => {
    const calls = [];
    const store = faultyStore(new MemoryConversationStore(), (call) => {
      calls.push(call);
      return undefined;
    });
    await store.load('x');
    await store.load('y');
    assert.deepEqual(calls, [
      { method: 'load', index: 0, args: ['x'] },
      { method: 'load', index: 1, args: ['y'] },
    ]);
    assert.equal(store.durability, 'memory');
  });
});

describe('scriptedParticipant', () => {
  test('words, outcomes, code, streamed pieces, then it yields', async () => {
    const a = scriptedParticipant({
      id: 'a',
      description: 'scripted',
      deltas: 2,
      steps: ['hello', { kind: 'yield' }, ({ turn }) => `turn ${turn.participantId}`],
    });
    const roundtable = conversation([a], { selector: decisions(speak('a'), speak('a'), speak('a'), speak('a')) });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: hello', 'a: turn a']);
    const streamed = roundtable.events.filter(({ type }) => type === 'delta').map(({ text }) => text);
    assert.deepEqual(streamed, ['he', 'll', 'o', 'tu', 'rn', ' a']);
    assert.equal(roundtable.snapshot().participants[0].description, 'scripted');
  });

  test('waits and continues with checkpoints; tells what happens', async () => {
    const log = [];
    const a = scriptedParticipant({
      id: 'a',
      checkpointVersion: 'v1',
      steps: [waits(approval('q')), ({ responses }) => `approved: ${responses[0].response.approved}`],
      onCall: ({ kind }) => log.push(kind),
    });
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    const { revision } = await roundtable.run();
    const response = { kind: 'approval', approved: true };
    await roundtable.resume({ requestId: 'q', responseId: 'r', expectedRevision: revision, response });
    await roundtable.run();
    await roundtable.dispose();
    assert.deepEqual(transcript(roundtableCopy(roundtable)), ['a: approved: true']);
    assert.deepEqual(log, ['open', 'run', 'checkpoint', 'resume', 'checkpoint', 'release']);
  });

  test('an error is thrown', async () => {
    const a = scriptedParticipant({ id: 'a', steps: [new Error('as written')] });
    const result = await conversation([a], { selector: decisions(speak('a')) }).run();
    assert.match(result.message, /as written/);
  });
});

describe('scriptedProvider', () => {
  const withAgent = (provider, tools = []) => {
    const a = agentParticipant({
      id: 'a',
      runtime: { id: 'r', version: '1' },
      createAgent: () => ({ provider, model: 'm', tools }),
    });
    return conversation([a], { selector: decisions(speak('a')) });
  };

  test('drives an agent through a tool call to its words', async () => {
    const provider = scriptedProvider({
      replies: [
        { toolCalls: [{ name: 'add', arguments: { a: 1, b: 2 } }], metadata: { inputTokens: 5, outputTokens: 1 } },
        (messages) => `the sum is ${messages.at(-1).content}`,
      ],
    });
    const add = { name: 'add', description: 'adds', parameters: { type: 'object' }, execute: ({ a, b }) => a + b };
    const roundtable = withAgent(provider, [add]);
    const result = await roundtable.run();
    assert.equal(result.status, 'completed', result.message);
    assert.deepEqual(transcript(roundtable), ['a: the sum is 3']);
    assert.equal(provider.calls.length, 2);
    assert.equal(provider.remaining, 0);
    assert.equal(provider.calls[0].options.model, 'm');
  });

  test('streams in pieces', async () => {
    const roundtable = withAgent(scriptedProvider({ replies: ['hello there'], stream: 4 }));
    await roundtable.run();
    assert.deepEqual(transcript(roundtable), ['a: hello there']);
    const streamed = roundtable.events.filter(({ type }) => type === 'delta').map(({ text }) => text);
    assert.equal(streamed.join(''), 'hello there');
    assert.ok(streamed.length > 1);
  });

  test('fails as written, and when the replies are used up', async () => {
    for (const [provider, message] of [
      [scriptedProvider({ replies: [new Error('rate limit')] }), /rate limit/],
      [scriptedProvider({ replies: [] }), /no reply for call 1/],
    ]) {
      assert.match((await withAgent(provider).run()).message, message);
    }
  });
});

/** A disposed conversation has no snapshot; its published events have the messages. */
function roundtableCopy({ events }) {
  const messages = events.filter(({ type }) => type === 'published').flatMap((event) => event.messages);
  return { snapshot: () => ({ messages }) };
}
