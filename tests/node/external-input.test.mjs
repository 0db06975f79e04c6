// What people say: accepted once, attributed, never executing anyone.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { externalParticipant } from 'agent-roundtable';
import {
  agent,
  answer,
  approval,
  conversation,
  decisions,
  deferred,
  finish,
  journal,
  question,
  rejects,
  speak,
  speaker,
  transcript,
  wait,
  waiter,
  waits,
} from './support/conversations.mjs';

const person = (id = 'p') => externalParticipant({ id });
const input = (inputId, content, expectedRevision, extra = {}) => ({
  participantId: 'p',
  inputId,
  content,
  expectedRevision,
  ...extra,
});

describe('C20 submitInput', () => {
  test('C20 publishes unprompted words of a registered person and executes nobody', async () => {
    const a = agent('a', () => assert.fail('executed'));
    const roundtable = conversation([a, person()]);
    const receipt = await roundtable.submitInput(input('i1', 'hello', 0, { by: 'web form' }));
    const [message] = roundtable.snapshot().messages;
    assert.deepEqual(receipt, { revision: message.revision, messageId: message.id });
    assert.deepEqual(transcript(roundtable), ['p: hello']);
    assert.deepEqual(a.calls, []);
    const [, accepted] = (await journal(roundtable)).find(([kind]) => kind === 'input-accepted/1');
    assert.equal(accepted.by, 'web form');
    assert.deepEqual(
      roundtable.events.map(({ type }) => type),
      ['published'],
    );
  });

  test('C20 refuses agents and strangers', async () => {
    const roundtable = conversation([speaker('a'), person()]);
    for (const participantId of ['a', 'stranger']) {
      await rejects(roundtable.submitInput({ ...input('i', 'x', 0), participantId }), 'conflict', 'participantId');
    }
    assert.equal(await roundtable.store.load(roundtable.id), undefined, 'nothing stored');
  });

  test('C20 refuses malformed calls naming the field', async () => {
    const roundtable = conversation([person()]);
    const valid = input('i', 'x', 0);
    for (const [extra, part] of [
      [{ content: 5 }, 'content'],
      [{ content: undefined }, 'content'],
      [{ content: 'x'.repeat(1024 * 1024 + 1) }, 'content'],
      [{ inputId: '' }, 'inputId'],
      [{ inputId: 'x'.repeat(513) }, 'inputId'],
      [{ inputId: 'a\udc00' }, 'inputId'],
      [{ participantId: null }, 'participantId'],
      [{ replyToRequestId: 5 }, 'replyToRequestId'],
      [{ by: 5 }, 'by'],
      [{ surprise: 1 }, 'surprise'],
    ]) {
      await rejects(roundtable.submitInput({ ...valid, ...extra }), 'invalid-config', part);
    }
    for (const nothing of [undefined, null, 5, 'x'])
      await rejects(roundtable.submitInput(nothing), 'invalid-config', 'input');
    assert.equal(await roundtable.store.load(roundtable.id), undefined);
  });

  test('C20 the next turn is given the words', async () => {
    let seen;
    const a = agent('a', async (turn) => {
      seen = turn.context.messages.map(({ participantId, content }) => [participantId, content]);
      return { kind: 'yield' };
    });
    const roundtable = conversation([a, person()], { selector: decisions(speak('a')) });
    await roundtable.submitInput(input('i', 'hello', 0));
    await roundtable.run();
    assert.deepEqual(seen, [['p', 'hello']]);
  });

  test('C30a unprompted input has a group and a turn of its own and makes no completed turn', async () => {
    const roundtable = conversation([person()]);
    await roundtable.submitInput(input('i1', 'one', 0));
    await roundtable.submitInput(input('i2', 'two', roundtable.snapshot().revision));
    const { messages, turns } = roundtable.snapshot();
    assert.deepEqual(turns, []);
    assert.equal(new Set(messages.flatMap(({ groupId, turnId, id }) => [groupId, turnId, id])).size, 6);
  });
});

describe('C21 inputs are idempotent', () => {
  test('C21 the same id and content: the same receipt, at any later time, also after completion', async () => {
    const roundtable = conversation([person()], { selector: decisions() });
    const first = await roundtable.submitInput(input('i', 'hello', 0));
    assert.deepEqual(await roundtable.submitInput(input('i', 'hello', 0)), first);
    await roundtable.submitInput(input('i2', 'more', roundtable.snapshot().revision));
    assert.deepEqual(await roundtable.submitInput(input('i', 'hello', 999)), first);
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(await roundtable.submitInput(input('i', 'hello', 0)), first);
    assert.deepEqual(transcript(roundtable), ['p: hello', 'p: more']);
    await rejects(roundtable.submitInput(input('i3', 'too late', roundtable.snapshot().revision)), 'conflict');
  });

  test('C21 the same id with other content, participant or request is a conflict', async () => {
    const roundtable = conversation([person(), person('q')]);
    await roundtable.submitInput(input('i', 'hello', 0));
    const { revision } = roundtable.snapshot();
    await rejects(roundtable.submitInput(input('i', 'other', revision)), 'conflict', 'i');
    await rejects(roundtable.submitInput({ ...input('i', 'hello', revision), participantId: 'q' }), 'conflict');
    await rejects(roundtable.submitInput(input('i', 'hello', revision, { replyToRequestId: 'r' })), 'conflict');
    assert.equal(roundtable.snapshot().revision, revision);
  });

  test('C21 a repeat while a run is active is answered with its receipt', async () => {
    const running = deferred();
    const go = deferred();
    const a = agent('a', async () => {
      running.resolve();
      await go.promise;
      return { kind: 'yield' };
    });
    const roundtable = conversation([a, person()], { selector: decisions(speak('a')) });
    const receipt = await roundtable.submitInput(input('i', 'hello', 0));
    const run = roundtable.run();
    await running.promise;
    assert.deepEqual(await roundtable.submitInput(input('i', 'hello', 0)), receipt);
    await rejects(roundtable.submitInput(input('i', 'other', 0)), 'conflict');
    await rejects(roundtable.submitInput(input('i2', 'new', roundtable.snapshot().revision)), 'busy');
    go.resolve();
    await run;
  });
});

describe('C22 expectedRevision', () => {
  test('C22 from the last change of the messages up to the present', async () => {
    const roundtable = conversation([speaker('a', 'x'), person()], { selector: decisions(speak('a'), wait('p')) });
    const waiting = await roundtable.run();
    const { messages } = roundtable.snapshot();
    const request = waiting.requests[0];
    const reply = (expectedRevision) =>
      roundtable.submitInput(input('i', 'me', expectedRevision, { replyToRequestId: request.id }));
    await rejects(reply(messages.at(-1).revision - 1), 'conflict', 'evision');
    await rejects(reply(waiting.revision + 1), 'conflict', 'evision');
    await reply(waiting.revision);
  });

  test('C22 answers to other requests do not make it stale', async () => {
    const requests = [question('q1', 'p'), question('q2', 'p')];
    const roundtable = conversation([waiter('a', waits(...requests)), person()], { selector: decisions(speak('a')) });
    const { revision } = await roundtable.run();
    await roundtable.submitInput(input('i1', 'one', revision, { replyToRequestId: 'q1' }));
    assert.ok(roundtable.snapshot().revision > revision);
    await roundtable.submitInput(input('i2', 'two', revision, { replyToRequestId: 'q2' }));
  });

  test('C22 while requests are pending only an answer to one of them, by its own participant', async () => {
    const roundtable = conversation([person(), person('q')], { selector: decisions(wait('p')) });
    const { requests, revision } = await roundtable.run();
    const replyToRequestId = requests[0].id;
    await rejects(roundtable.submitInput(input('i', 'x', revision)), 'conflict', 'replyToRequestId');
    await rejects(roundtable.submitInput(input('i', 'x', revision, { replyToRequestId: 'other' })), 'conflict');
    const foreign = { ...input('i', 'x', revision, { replyToRequestId }), participantId: 'q' };
    await rejects(roundtable.submitInput(foreign), 'conflict');
    await roundtable.submitInput(input('i', 'x', revision, { replyToRequestId }));
    assert.deepEqual(roundtable.snapshot().requests, []);
  });
});

test('C23 input while a group is unfinished is refused: the group keeps its shared view', async () => {
  const controller = new AbortController();
  const running = deferred();
  let tries = 0;
  const a = agent('a', async (turn, { signal }) => {
    tries += 1;
    if (tries === 2) return { kind: 'speak', content: `saw ${turn.context.messages.length}` };
    running.resolve();
    await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  });
  const roundtable = conversation([a, person()], { selector: decisions(speak('a')) });
  const run = roundtable.run({ signal: controller.signal });
  await running.promise;
  controller.abort();
  assert.equal((await run).status, 'cancelled');
  await rejects(roundtable.submitInput(input('i', 'x', roundtable.snapshot().revision)), 'conflict', 'group');
  assert.equal((await roundtable.run()).status, 'completed');
  assert.deepEqual(transcript(roundtable), ['a: saw 0']);
});

describe('C24 one id space', () => {
  const waiting = async () => {
    const roundtable = conversation([waiter('a', waits(question('q1', 'p'), approval('q2'))), person()], {
      selector: decisions(speak('a')),
    });
    return { roundtable, result: await roundtable.run() };
  };

  test('C24 an input id cannot be reused through resume and the other way round', async () => {
    const { roundtable, result } = await waiting();
    const { revision } = result;
    await answer(roundtable, result, 'words', 'one');
    const response = { kind: 'approval', approved: true };
    const approve = (responseId) =>
      roundtable.resume({ requestId: 'q2', responseId, expectedRevision: revision, response });
    await rejects(approve('one'), 'conflict', 'responseId');
    await approve('two');
    await rejects(roundtable.submitInput(input('two', 'x', roundtable.snapshot().revision)), 'conflict');
  });

  test('C24 an input request may be answered through either call, but only once', async () => {
    const resume = ({ roundtable, result }, responseId) =>
      roundtable.resume({
        requestId: 'q1',
        responseId,
        expectedRevision: result.revision,
        response: { kind: 'input', content: 'words' },
      });
    const one = await waiting();
    await answer(one.roundtable, one.result, 'words', 'one');
    await rejects(resume(one, 'one'), 'conflict', 'responseId');
    await rejects(resume(one, 'two'), 'conflict', 'requestId');

    const two = await waiting();
    const receipt = await resume(two, 'one');
    assert.deepEqual(await resume(two, 'one'), receipt);
    await rejects(answer(two.roundtable, two.result, 'words', 'one'), 'conflict');
    await rejects(answer(two.roundtable, two.result, 'words', 'two'), 'conflict');
  });
});

describe('C30a asking a person by selection', () => {
  test('C30a a group of one turn: the answer publishes at once with those ids and completes the turn', async () => {
    const selector = decisions(wait('p', 'name?'), finish());
    const roundtable = conversation([person()], { selector, limits: { maxTurnsPerRun: 1 } });
    const waiting = await roundtable.run();
    const [request] = waiting.requests;
    const receipt = await answer(roundtable, waiting, 'Ada');
    const { messages, turns, requests } = roundtable.snapshot();
    assert.deepEqual(requests, []);
    assert.equal(messages[0].id, receipt.messageId);
    assert.equal(messages[0].groupId, request.groupId);
    assert.equal(messages[0].turnId, request.turnId);
    assert.equal(turns[0].id, request.turnId);
    assert.equal(turns[0].outcome, 'speak');
    assert.ok(turns[0].startedAt <= turns[0].settledAt);
    assert.equal((await roundtable.run()).status, 'completed', 'it did not count for maxTurnsPerRun');
  });

  test('waiting repeats until it is answered, with all open requests', async () => {
    const roundtable = conversation([person()], { selector: decisions(wait('p')) });
    const first = await roundtable.run();
    const second = await roundtable.run();
    assert.deepEqual(second.requests, first.requests);
    assert.equal(roundtable.snapshot().status, 'waiting');
    assert.deepEqual(roundtable.snapshot().requests, first.requests);
  });
});
