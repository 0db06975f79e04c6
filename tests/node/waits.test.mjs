// Waits: parked with their private state, answered exactly once, continued as the same turn.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { externalParticipant } from 'agent-roundtable';
import {
  agent,
  answer,
  approval,
  barrier,
  conversation,
  decisions,
  journal,
  parallel,
  question,
  rejects,
  settled,
  speak,
  speaker,
  transcript,
  wait,
  waiter,
  waits,
} from './support/conversations.mjs';

const person = (id = 'p') => externalParticipant({ id });
const approve = (approved, reason) => ({ kind: 'approval', approved, ...(reason === undefined ? {} : { reason }) });

/** Resumes with the revision of the last run. */
function resume(roundtable, requestId, response, responseId = `answer to ${requestId}`, extra = {}) {
  const expectedRevision = roundtable.snapshot().revision;
  return roundtable.resume({ requestId, responseId, expectedRevision, response, ...extra });
}

/** One member `a` with these turns, selected once. */
const one = (...turns) => {
  const a = waiter('a', ...turns);
  return Object.assign(conversation([a, person()], { selector: decisions(speak('a')) }), { a });
};
const fails = async (roundtable, ...parts) => {
  const result = await roundtable.run();
  assert.equal(result.status, 'failed');
  for (const part of ['a', ...parts]) assert.ok(result.message.includes(part), result.message);
  assert.deepEqual(roundtable.snapshot().requests, []);
};

describe('C25 what a wait needs', () => {
  test('C25 requests: at least one, at most 64, unique', async () => {
    await fails(one(waits()), 'request');
    await fails(one(waits(approval('q'), approval('q'))), 'q');
    const many = (count) => waits(...Array.from({ length: count }, (_, index) => approval(`q${index}`)));
    await fails(one(many(65)), '64');
    assert.equal((await one(many(64)).run()).requests.length, 64);
  });

  test('C25 ids never used before, in this turn or another', async () => {
    const roundtable = one(waits(approval('q')), waits(approval('q')));
    await roundtable.run();
    await resume(roundtable, 'q', approve(true));
    await fails(roundtable, 'q');

    const b = waiter('b', waits(approval('q')));
    const across = conversation([waiter('a', waits(approval('q')), { kind: 'yield' }), b], {
      selector: decisions(speak('a'), speak('b')),
    });
    await across.run();
    await resume(across, 'q', approve(true));
    const result = await across.run();
    assert.equal(result.status, 'failed');
    assert.match(result.message, /b.*q/);
  });

  test('C25 a checkpoint of a listed version, supportsContinuation, resumeTurn', async () => {
    const runTurn = async () => waits(approval('q'));
    const resumeTurn = async () => ({ kind: 'yield' });
    const checkpoint = async () => ({ version: 'v1', data: 1 });
    const all = { supportsContinuation: true, checkpointVersions: ['v1'] };
    const attempt = (session, factory) =>
      conversation([agent('a', { runTurn, ...session }, factory)], { selector: decisions(speak('a')) });
    await fails(attempt({ resumeTurn }, all), 'checkpoint');
    await fails(attempt({ checkpoint }, all), 'resumeTurn');
    await fails(attempt({ checkpoint, resumeTurn }, { ...all, supportsContinuation: false }), 'continuation');
    await fails(attempt({ checkpoint, resumeTurn }, { ...all, checkpointVersions: ['v2'] }), 'v1');
    await fails(attempt({ checkpoint, resumeTurn }, { supportsContinuation: true }), 'v1');
    await fails(attempt({ checkpoint: () => Promise.reject(new Error('lost')), resumeTurn }, all), 'lost');
    assert.equal((await attempt({ checkpoint, resumeTurn }, all).run()).status, 'waiting');
  });
});

describe('C26 parking', () => {
  test('C26 checkpoint and all requests in one append; waiting lists all of them', async () => {
    const roundtable = one(waits(approval('q1'), question('q2', 'p')));
    const result = await roundtable.run();
    assert.equal(result.status, 'waiting');
    assert.deepEqual(
      result.requests.map(({ id }) => id),
      ['q1', 'q2'],
    );
    const [turn] = roundtable.a.seen[0];
    assert.deepEqual(result.requests[0], {
      ...approval('q1'),
      participantId: 'a',
      memberId: 'a',
      groupId: turn.groupId,
      turnId: turn.turnId,
    });
    assert.equal(result.requests[1].participantId, 'p');
    assert.equal(result.requests[1].memberId, 'a');
    const { batches } = await roundtable.store.read(roundtable.id, { after: 0 });
    const parked = batches.filter(({ entries }) => entries.some((entry) => entry.includes('turn-prepared/1')));
    assert.equal(parked.length, 1);
    assert.ok(parked[0].entries.some((entry) => entry.includes('"version":"v1"')));
    const requested = roundtable.events.find(({ type }) => type === 'requested');
    assert.equal(requested.revision, parked[0].revision);
    assert.deepEqual(requested.requests, result.requests);
  });

  test('C26 the slot is given back and prepared siblings keep their results', async () => {
    let runs = 0;
    const sibling = agent('b', async () => {
      runs += 1;
      return { kind: 'speak', content: 'ready' };
    });
    const a = waiter('a', waits(approval('q')), { kind: 'speak', content: 'after' });
    const roundtable = conversation([a, sibling], { selector: decisions(parallel('a', 'b')) });
    const first = await roundtable.run();
    assert.equal(first.status, 'waiting', 'b ran although a holds no slot any more');
    assert.deepEqual(transcript(roundtable), []);
    await resume(roundtable, 'q', approve(true));
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: after', 'b: ready']);
    assert.equal(runs, 1);
  });
});

describe('C27 resume', () => {
  test('C27 executes nothing; the next run continues the same turn with all responses in request order', async () => {
    const roundtable = one(waits(approval('q1'), approval('q2')), { kind: 'speak', content: 'done' });
    await roundtable.run();
    const receipt = await resume(roundtable, 'q2', approve(false, 'too risky'), 'r2', { by: 'Ada' });
    assert.deepEqual(receipt, { revision: roundtable.snapshot().revision, requestId: 'q2', responseId: 'r2' });
    assert.deepEqual(
      roundtable.snapshot().requests.map(({ id }) => id),
      ['q1'],
      'an answered one never reappears',
    );
    const partial = await roundtable.run();
    assert.equal(partial.status, 'waiting', 'continued only when all are answered');
    assert.equal(roundtable.a.seen.length, 1);
    await resume(roundtable, 'q1', approve(true), 'r1');
    assert.equal(roundtable.a.seen.length, 1);
    assert.equal((await roundtable.run()).status, 'completed');
    const [[before], [after, responses]] = roundtable.a.seen;
    assert.equal(after.turnId, before.turnId);
    assert.equal(after.groupId, before.groupId);
    assert.deepEqual(after.context, before.context);
    assert.notEqual(after.attemptId, before.attemptId);
    assert.deepEqual(
      responses.map(({ request, responseId, response }) => [request.id, responseId, response]),
      [
        ['q1', 'r1', approve(true)],
        ['q2', 'r2', approve(false, 'too risky')],
      ],
    );
    assert.deepEqual(responses[0].request, {
      ...approval('q1'),
      participantId: 'a',
      memberId: 'a',
      groupId: before.groupId,
      turnId: before.turnId,
    });
    const [, answered] = (await journal(roundtable)).find(([kind]) => kind === 'answered/1');
    assert.equal(answered.by, 'Ada');
  });

  test('C27 the kind of the answer is the kind of the request, with exact keys', async () => {
    const roundtable = one(waits(approval('q')));
    await roundtable.run();
    for (const [response, part, code = 'invalid-config'] of [
      [{ kind: 'input', content: 'yes' }, 'approval', 'conflict'],
      [{ kind: 'reconciliation', data: 1 }, 'approval', 'conflict'],
      [{ kind: 'approval' }, 'approved'],
      [{ kind: 'approval', approved: 'yes' }, 'approved'],
      [{ kind: 'approval', approved: 1 }, 'approved'],
      [{ kind: 'approval', approved: true, content: 'x' }, 'content'],
      [{ kind: 'approval', approved: true, reason: 5 }, 'reason'],
      [{ kind: 'input', declined: false }, 'declined'],
      [{ kind: 'input', declined: true, content: 'x' }, 'content'],
      [{ kind: 'other' }, 'kind'],
      [null, 'response'],
      ['yes', 'response'],
    ]) {
      await rejects(resume(roundtable, 'q', response), code, part);
    }
    assert.equal(roundtable.snapshot().requests.length, 1);
  });

  test('C27 a member that is ready continues although a sibling still waits', async () => {
    const a = waiter('a', waits(approval('qa')), { kind: 'speak', content: 'a' });
    const b = waiter('b', waits(approval('qb')), { kind: 'speak', content: 'b' });
    const roundtable = conversation([a, b], { selector: decisions(parallel('a', 'b')) });
    assert.equal((await roundtable.run()).requests.length, 2);
    await resume(roundtable, 'qb', approve(true));
    const second = await roundtable.run();
    assert.deepEqual(
      second.requests.map(({ id }) => id),
      ['qa'],
    );
    assert.equal(b.seen.length, 2);
    assert.deepEqual(transcript(roundtable), []);
    await resume(roundtable, 'qa', approve(true));
    await roundtable.run();
    assert.equal(b.seen.length, 2);
    assert.deepEqual(transcript(roundtable), ['a: a', 'b: b']);
  });

  test('a request that does not exist is a conflict; malformed calls name the field', async () => {
    const roundtable = one(waits(approval('q')));
    await roundtable.run();
    await rejects(resume(roundtable, 'other', approve(true)), 'conflict', 'requestId');
    const valid = {
      requestId: 'q',
      responseId: 'r',
      expectedRevision: roundtable.snapshot().revision,
      response: approve(true),
    };
    for (const [extra, part] of [
      [{ requestId: 5 }, 'requestId'],
      [{ responseId: '' }, 'responseId'],
      [{ expectedRevision: '3' }, 'expectedRevision'],
      [{ by: {} }, 'by'],
      [{ surprise: 1 }, 'surprise'],
    ]) {
      await rejects(roundtable.resume({ ...valid, ...extra }), 'invalid-config', part);
    }
    await rejects(roundtable.resume(undefined), 'invalid-config', 'input');
  });
});

test('F a bare answer names nothing and is refused, whether one request is open or several', async () => {
  for (const requests of [[question('q1', 'p')], [question('q1', 'p'), question('q2', 'p'), approval('q3')]]) {
    const roundtable = one(waits(...requests));
    const { revision } = await roundtable.run();
    const open = roundtable.snapshot().requests;
    const bare = { responseId: 'r', expectedRevision: revision };
    for (const response of [approve(true), { kind: 'input', content: 'yes' }]) {
      await rejects(roundtable.resume({ ...bare, response }), 'invalid-config', 'requestId');
      const several = requests.map(({ id }) => id);
      await rejects(roundtable.resume({ ...bare, response, requestId: several }), 'invalid-config', 'requestId');
    }
    const input = { participantId: 'p', inputId: 'i', expectedRevision: revision, content: 'yes' };
    await rejects(roundtable.submitInput(input), 'conflict', 'replyToRequestId');
    assert.deepEqual(roundtable.snapshot().requests, open);
    assert.equal(roundtable.snapshot().revision, revision);
    await roundtable.dispose();
  }
});

describe('C28 answers are consumed once', () => {
  test('C28 the same response id: the same receipt if identical, else a conflict', async () => {
    const roundtable = one(waits(approval('q')));
    await roundtable.run();
    const receipt = await resume(roundtable, 'q', approve(true), 'r');
    assert.deepEqual(await resume(roundtable, 'q', approve(true), 'r'), receipt);
    await rejects(resume(roundtable, 'q', approve(false), 'r'), 'conflict');
    await rejects(resume(roundtable, 'other', approve(true), 'r'), 'conflict');
    await roundtable.run();
    assert.deepEqual(await resume(roundtable, 'q', approve(true), 'r'), receipt, 'also after the run');
  });

  test('C28 a second answer to a consumed request is a conflict', async () => {
    const roundtable = one(waits(approval('q'), approval('q2')));
    await roundtable.run();
    await resume(roundtable, 'q', approve(true), 'r');
    await rejects(resume(roundtable, 'q', approve(true), 'r2'), 'conflict');
  });
});

describe('C29 repeated waits and private replies', () => {
  test('C29 a member may wait any number of times', async () => {
    const roundtable = one(waits(approval('q1')), waits(approval('q2'), approval('q3')), waits(approval('q4')), {
      kind: 'speak',
      content: 'at last',
    });
    for (const ids of [['q1'], ['q2', 'q3'], ['q4']]) {
      const result = await roundtable.run();
      assert.deepEqual(
        result.requests.map(({ id }) => id),
        ids,
      );
      for (const id of ids) await resume(roundtable, id, approve(true));
    }
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: at last']);
    assert.deepEqual(
      roundtable.a.seen.map(([, responses]) => responses?.map(({ request }) => request.id)),
      [undefined, ['q1'], ['q2', 'q3'], ['q4']],
    );
  });

  test('C29 replies are private until the commit, then published just before the message, and not given back', async () => {
    const seen = [];
    const b = agent('b', async (turn) => {
      seen.push(turn.context.messages.map(({ content }) => content));
      return { kind: 'speak', content: 'b' };
    });
    const a = waiter('a', waits(question('q1', 'p'), question('q2', 'p')), { kind: 'speak', content: 'a' });
    const roundtable = conversation([b, a, person()], {
      selector: decisions(parallel('b', 'a'), speak('a'), speak('b')),
    });
    const result = await roundtable.run();
    await roundtable.submitInput({
      participantId: 'p',
      inputId: 'i2',
      content: 'second',
      expectedRevision: result.revision,
      replyToRequestId: 'q2',
    });
    await answer(roundtable, result, 'first');
    assert.deepEqual(transcript(roundtable), []);
    assert.ok(!JSON.stringify(roundtable.events).includes('first'));
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['b: b', 'p: first', 'p: second', 'a: a', 'b: b']);
    assert.deepEqual(
      a.seen[2][0].context.messages.map(({ content }) => content),
      ['b'],
      'a is not given its own replies',
    );
    assert.deepEqual(seen[1], ['first', 'second', 'a']);
  });

  test('C30a replies are published also when the member yields', async () => {
    const roundtable = one(waits(question('q', 'p')), { kind: 'yield' });
    await answer(roundtable, await roundtable.run(), 'my words');
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['p: my words']);
    assert.deepEqual(
      roundtable.snapshot().turns.map(({ participantId, outcome }) => [participantId, outcome]),
      [['a', 'yield']],
    );
  });
});

test('C30 an input request names a registered external participant', async () => {
  for (const id of ['a', 'b', 'stranger']) {
    const roundtable = conversation([waiter('a', waits(question('q', id))), speaker('b')], {
      selector: decisions(speak('a')),
    });
    const result = await roundtable.run();
    assert.equal(result.status, 'failed');
    assert.ok(result.message.includes(id), result.message);
  }
});

describe('C30b ways out', () => {
  test('C30b an input answer may be declined', async () => {
    const roundtable = one(waits(question('q', 'p')), { kind: 'speak', content: 'without you' });
    await roundtable.run();
    await resume(roundtable, 'q', { kind: 'input', declined: true, reason: 'no time' });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(roundtable.a.seen[1][1][0].response, { kind: 'input', declined: true, reason: 'no time' });
    assert.deepEqual(transcript(roundtable), ['a: without you']);
  });

  test('C30b declining a selection counts as a yield', async () => {
    const roundtable = conversation([person()], { selector: decisions(wait('p')) });
    const { requests } = await roundtable.run();
    await resume(roundtable, requests[0].id, { kind: 'input', declined: true });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), []);
    assert.equal(roundtable.snapshot().turns[0].outcome, 'yield');
  });

  test("C30b withdraw gives a member's turn the declined answer", async () => {
    const roundtable = one(waits(question('q1', 'p'), approval('q2')), { kind: 'speak', content: 'moving on' });
    const { revision } = await roundtable.run();
    const receipt = await roundtable.withdraw({
      requestId: 'q1',
      expectedRevision: revision,
      by: 'Ada',
      reason: 'stale',
    });
    assert.deepEqual(receipt, { revision: roundtable.snapshot().revision });
    assert.deepEqual(
      roundtable.snapshot().requests.map(({ id }) => id),
      ['q2'],
    );
    await roundtable.withdraw({ requestId: 'q2', expectedRevision: receipt.revision, by: 'Ada', reason: 'stale too' });
    assert.equal((await roundtable.run()).status, 'completed');
    const [first, second] = roundtable.a.seen[1][1].map(({ response }) => response);
    assert.deepEqual(first, { kind: 'input', declined: true, reason: 'stale' });
    assert.deepEqual(second, { kind: 'approval', approved: false, reason: 'stale too' });
    const [, withdrawn] = (await journal(roundtable)).find(([kind]) => kind === 'withdrawn/1');
    assert.equal(withdrawn.by, 'Ada');
  });

  test("C30b withdraw of a selection's wait counts as a yield of that person", async () => {
    const roundtable = conversation([person()], { selector: decisions(wait('p')) });
    const { requests, revision } = await roundtable.run();
    await roundtable.withdraw({ requestId: requests[0].id, expectedRevision: revision, by: 'Ada', reason: 'gone' });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(
      roundtable.snapshot().turns.map(({ participantId, outcome }) => [participantId, outcome]),
      [['p', 'yield']],
    );
  });

  test('C30b withdraw of a closed or unknown request, or with a stale revision', async () => {
    const roundtable = one(waits(approval('q')));
    const { revision } = await roundtable.run();
    const withdraw = (requestId, expectedRevision) =>
      roundtable.withdraw({ requestId, expectedRevision, by: 'Ada', reason: 'x' });
    await rejects(withdraw('other', revision), 'conflict', 'requestId');
    await rejects(withdraw('q', revision - 1), 'conflict');
    await rejects(
      roundtable.withdraw({ requestId: 'q', expectedRevision: revision, by: 'Ada' }),
      'invalid-config',
      'reason',
    );
    await withdraw('q', revision);
    await rejects(withdraw('q', roundtable.snapshot().revision), 'conflict');
  });
});

test('C33 a parked member continues with its live session; several waits at once have distinct answers', async () => {
  const meet = barrier(2);
  const member = (id) =>
    waiter(
      id,
      async () => {
        await meet();
        return waits(approval(`q-${id}`));
      },
      { kind: 'speak', content: id },
    );
  const members = [member('a'), member('b')];
  const roundtable = conversation(members, { selector: decisions(parallel('a', 'b')), maxConcurrentParticipants: 2 });
  await roundtable.run();
  await resume(roundtable, 'q-a', approve(true));
  await resume(roundtable, 'q-b', approve(true));
  assert.equal((await roundtable.run()).status, 'completed');
  await settled();
  for (const { calls } of members) assert.equal(calls.filter(([kind]) => kind === 'open').length, 1);
});
