// How the drive of a deliberation ends: by the session, by its bounds, by the host, by what a model says.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentParticipant, readConversation, sessionParticipant } from 'agent-roundtable';
import { scriptedProvider } from 'agent-roundtable/testing';
import { agent } from './support/conversations.mjs';
import { MINUTE, stores, told } from './support/deliberations.mjs';
import { APPROVE, driven, GO_ON, heard, judge, reader, voice } from './support/drive.mjs';

/** An agent that is at work until `free` is called, and a promise for its beginning. */
function slow(id, words) {
  const begun = resolvers();
  const freed = resolvers();
  const work = async ({ signal }) => {
    begun.resolve();
    const stopped = new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    await Promise.race([freed.promise, stopped]);
    return words;
  };
  return Object.assign(reader(id, work, work), { begun: begun.promise, free: freed.resolve });
}

function resolvers() {
  let resolve;
  const promise = new Promise((resolved) => {
    resolve = resolved;
  });
  return { promise, resolve };
}

test('a deadline that passes in a turn ends the drive as expired, and what that turn would say is no entry', async (t) => {
  const { drive, thread, clock, inbox } = await driven(t, stores.memory, { timeoutMinutes: 2 });
  const bo = slow('bo', 'Too late.');
  const running = drive({ agents: [reader('ana', 'In time.'), bo] });
  await bo.begun;
  await clock.advance(2 * MINUTE + 1);
  const result = await running;
  assert.equal(result.status, 'expired');
  assert.equal(result.session.closeReason, 'timeout');
  assert.deepEqual(await thread(), ['ana: In time.']);
  assert.equal(inbox('pat', 'expiry').length, 1);
});

test('a deadline that is moved in a turn lets the agents go on', async (t) => {
  const { drive, thread, clock, d, id } = await driven(t, stores.memory, { timeoutMinutes: 2 });
  const bo = slow('bo', 'In time after all.');
  const running = drive({ agents: [bo], maxRounds: 1 });
  await bo.begun;
  await d.extend('fac', id, { minutes: 3 });
  await clock.advance(2 * MINUTE + 1);
  bo.free();
  assert.equal((await running).status, 'rounds');
  assert.deepEqual(await thread(), ['bo: In time after all.']);
});

for (const [how, status, close] of [
  ['resolved', 'resolved', (d, id) => d.resolve('fac', id, { outcome: 'Push.', decision: 'rejected' })],
  ['closed early', 'expired', (d, id) => d.close('fac', id, { reason: 'moot' })],
]) {
  test(`a session that somebody else ${how} in a turn ends the drive as ${status}`, async (t) => {
    const { drive, thread, d, id, store } = await driven(t);
    const bo = slow('bo', 'Unheard.');
    const running = drive({ agents: [bo] });
    await bo.begun;
    await close(d, id);
    bo.free();
    const result = await running;
    assert.equal(result.status, status);
    assert.equal(result.session.status, status);
    assert.deepEqual(await thread(), []);
    const { status: ended } = await readConversation({ store, conversationId: result.conversationId });
    assert.equal(ended, 'completed');
    // Again it says the same, and asks nobody.
    assert.equal((await drive({ agents: [bo] })).status, status);
  });
}

test('a facilitator who decides when somebody else has closed the session does not decide', async (t) => {
  const { drive, d, id } = await driven(t);
  const close = async () => d.resolve('fac', id, { outcome: 'By hand.', decision: 'rejected' });
  const provider = {
    name: 'of-fac',
    chat: async () => {
      await close();
      const toolCalls = [
        { id: 'c', type: 'function', function: { name: 'facilitate', arguments: JSON.stringify(APPROVE) } },
      ];
      return { id: 'r', role: 'assistant', content: null, timestamp: new Date(0), state: 'complete', toolCalls };
    },
  };
  const facilitator = { id: 'fac', createAgent: () => ({ provider, model: 'm' }) };
  const result = await drive({ agents: [voice('ana', 'A.')], facilitator });
  assert.equal(result.status, 'resolved');
  assert.equal(result.session.outcome, 'By hand.');
});

test('a thread of 200 entries leaves the facilitator to end it, and ends the drive as full otherwise', async (t) => {
  for (const [decisions, status] of [
    [[APPROVE], 'resolved'],
    [[], 'full'],
  ]) {
    const { drive, d, id } = await driven(t);
    for (let n = 0; n < 199; n++) await d.speak('pat', id, { message: `entry ${n}` });
    const [ana, bo] = [voice('ana', 'The last one.'), voice('bo', 'One too many.')];
    const facilitator = decisions.length > 0 ? { facilitator: judge(...decisions) } : {};
    const result = await drive({ agents: [ana, bo], ...facilitator });
    assert.equal(result.status, status);
    assert.equal(result.session.thread.length, 200);
    assert.equal(result.session.thread.at(-1).message, 'The last one.');
    assert.equal(bo.provider.calls.length, 0, 'nobody is asked who could not be heard');
    const [asked] = facilitator.facilitator?.provider.calls ?? [];
    if (asked !== undefined) assert.deepEqual(asked.options.tools[0].parameters.properties.action.enum, ['resolve']);
  }
});

test('an entry that a limit of the thread refuses ends the drive as full', async (t) => {
  const { drive, thread } = await driven(t, stores.memory, {}, { limits: { maxEntriesPerSpeaker: 1 } });
  const result = await drive({ agents: [voice('ana', 'One.', 'Two.'), voice('bo', 'One.', 'Two.')] });
  assert.equal(result.status, 'full');
  assert.deepEqual(await thread(), ['ana: One.', 'bo: One.']);
});

test('words are cut at the 10,000 characters of an entry, in the thread and for the other agents', async (t) => {
  const fits = '\u{1f600}'.repeat(10_000);
  const { drive, d, id } = await driven(t);
  const bo = voice('bo', '', '');
  const ana = agent('ana', async (_turn) => ({ kind: 'speak', content: ana.words.shift() }));
  ana.words = [fits, `${fits}!`];
  await drive({ agents: [ana, bo], maxRounds: 2 });
  const { thread } = await d.get('pat', id);
  assert.equal(thread[0].message, fits);
  const cut = thread[1].message;
  assert.equal([...cut].length, 10_000);
  assert.match(cut, /\n\(cut: this was longer\)$/);
  assert.equal(
    heard(bo)[1],
    `### From ana\n${cut
      .split('\n')
      .map((line) => `> ${line}`)
      .join('\n')}`,
  );
});

test('blank words are none; a round in which nobody speaks ends as quiet where nobody is asked', async (t) => {
  const { drive, thread } = await driven(t);
  const result = await drive({ agents: [reader('ana', ' \n'), agent('bo')] });
  assert.equal(result.status, 'quiet');
  assert.equal(result.rounds, 1);
  assert.deepEqual(await thread(), []);
});

test('a round in which a person spoke is followed by another one', async (t) => {
  const { drive, d, id } = await driven(t);
  const bo = reader('bo', async () => {
    await d.speak('pat', id, { message: 'Anybody?' });
    return { kind: 'yield' };
  });
  assert.deepEqual(await pair(drive({ agents: [reader('ana'), bo] })), ['quiet', 2]);
});

test('rounds are counted for each call, from 1 to 200', async (t) => {
  const { drive, thread } = await driven(t);
  const agents = [reader('ana', 'A1', 'A2', 'A3'), reader('bo', 'B1', 'B2', 'B3')];
  assert.deepEqual(await pair(drive({ agents, maxRounds: 1 })), ['rounds', 1]);
  assert.deepEqual(await pair(drive({ agents, maxRounds: 2 })), ['rounds', 2]);
  assert.deepEqual(await thread(), ['ana: A1', 'bo: B1', 'ana: A2', 'bo: B2', 'ana: A3', 'bo: B3']);
  assert.deepEqual(await pair(drive({ agents, maxRounds: 200 })), ['quiet', 1]);
});

const pair = async (call) => {
  const { status, rounds } = await call;
  return [status, rounds];
};

test('who declines has no more turns; when none is left, the drive ends as left', async (t) => {
  const { drive, thread, d, id } = await driven(t);
  const ana = reader('ana', 'A1', 'A2');
  const bo = reader('bo', async () => {
    await d.decline('bo', id);
    return 'Not any more.';
  });
  const result = await drive({ agents: [ana, bo], maxRounds: 2 });
  assert.equal(result.status, 'rounds');
  assert.deepEqual(await thread(), ['ana: A1', 'ana: A2']);
  assert.equal((await drive({ agents: [ana, bo], beforeRound: () => d.decline('ana', id) })).status, 'left');
});

test('a facilitator that hands over is not asked any more', async (t) => {
  const { drive, d, id } = await driven(t);
  const facilitator = judge();
  const ana = agent('ana', async () => {
    await d.handOver('fac', id, { to: 'pat' });
    return { kind: 'yield' };
  });
  const result = await drive({ agents: [ana], facilitator });
  assert.equal(result.status, 'quiet');
  assert.equal(result.session.facilitator, 'pat');
  assert.equal(facilitator.provider.calls.length, 0);
});

for (const [code, decision] of [
  ['no-decision', 'I would resolve it.'],
  ['multiple-decisions', [GO_ON, GO_ON]],
  ['invalid-decision action', { action: 'close', reason: 'not offered' }],
  ['invalid-decision outcome', { action: 'resolve', decision: 'approved' }],
  ['invalid-decision outcome', { ...APPROVE, outcome: 'x'.repeat(2001) }],
  ['invalid-decision decision', { ...APPROVE, decision: 'maybe' }],
  ['invalid-decision note', { ...APPROVE, note: ' ' }],
  ['invalid-decision minutes', { action: 'extend', minutes: 1.5 }],
  ['invalid-decision message', { ...GO_ON, message: 'x'.repeat(10_001) }],
  ['invalid-decision message', { ...GO_ON, message: 7 }],
]) {
  const shown = JSON.stringify(decision).slice(0, 60);
  test(`a facilitator's reply that is no decision is ${code}, and the next call asks again: ${shown}`, async (t) => {
    const { drive, thread } = await driven(t);
    const agents = [voice('ana', 'A.')];
    const facilitator = { ...judge(decision, { ...APPROVE, outcome: 'x'.repeat(2000) }), may: ['extend'] };
    const result = await drive({ agents, facilitator });
    assert.equal(result.status, 'failed');
    const [name, field] = code.split(' ');
    assert.equal(result.code, name);
    if (field !== undefined) assert.match(result.message, new RegExp(`^${field} `));
    assert.equal(result.session.status, 'open');
    assert.equal((await drive({ agents, facilitator })).status, 'resolved');
    assert.deepEqual(await thread(), ['ana: A.'], 'the round is not had again');
  });
}

test('a decision is carried out once, whatever calls follow', async (t) => {
  const { drive } = await driven(t);
  const agents = [voice('ana', 'A1', 'A2', 'A3')];
  const facilitator = { ...judge({ action: 'extend', minutes: 5 }, GO_ON, APPROVE), may: ['extend'] };
  const first = await drive({ agents, facilitator, maxRounds: 3, limits: { maxModelCallsPerConversation: 4 } });
  assert.equal(first.status, 'limited');
  assert.equal(first.session.expiresAt, '2027-01-01T00:35:00.000Z');
  const result = await drive({ agents, facilitator, limits: { maxModelCallsPerConversation: 9 } });
  assert.equal(result.status, 'resolved');
  assert.equal(result.session.expiresAt, '2027-01-01T00:35:00.000Z');
  const { messages, options } = facilitator.provider.calls[2];
  assert.doesNotMatch(messages[0].content, /refused/);
  assert.deepEqual(options.tools[0].parameters.properties.action.enum, ['go_on', 'resolve']);
});

test('a call that begins within a round goes on with who has not had a turn', async (t) => {
  const { drive, thread } = await driven(t);
  const agents = [voice('ana', 'A1', 'A2'), voice('bo', 'B1', 'B2'), voice('pat', 'P1', 'P2')];
  const first = await drive({ agents, limits: { maxModelCallsPerConversation: 2 } });
  assert.equal(first.status, 'limited');
  await drive({ agents, limits: { maxModelCallsPerConversation: 9 }, maxRounds: 1 });
  assert.deepEqual(await thread().catch(() => []), ['ana: A1', 'bo: B1', 'pat: P1', 'ana: A2', 'bo: B2']);
});

test('an agent that fails ends the drive and its conversation as failed, with its code', async (t) => {
  const { drive, thread } = await driven(t);
  const broken = agent('bo', async () => {
    throw Object.assign(new Error('no network'), { code: 'E_NET' });
  });
  const agents = [reader('ana', 'A1', 'A2'), broken];
  for (let call = 0; call < 2; call++) {
    const result = await drive({ agents });
    assert.deepEqual([result.status, result.code], ['failed', 'E_NET']);
    assert.deepEqual(await thread(), ['ana: A1']);
  }
  // Another conversation takes the thread as it is.
  const bo = voice('bo', 'B1');
  const fresh = await drive({ agents: [agents[0], bo], conversationId: 'again', maxRounds: 1 });
  assert.equal(fresh.status, 'rounds');
  assert.deepEqual(await thread(), ['ana: A1', 'ana: A2', 'bo: B1']);
  assert.match(heard(bo)[0], /### From ana\n> A1\n\n### From ana\n> A2$/);
});

test('a limit of the conversation ends the drive as limited', async (t) => {
  const { drive, thread } = await driven(t);
  const agents = [voice('ana', 'A1', 'A2'), voice('bo', 'B1')];
  const result = await drive({ agents, limits: { maxModelCallsPerConversation: 2 } });
  assert.deepEqual([result.status, result.reason], ['limited', 'model-calls']);
  assert.deepEqual(await thread(), ['ana: A1', 'bo: B1']);
  assert.equal(result.usage.length, 2);
});

test('an abort stops the turn under way; the next call has it again', async (t) => {
  const { drive, thread } = await driven(t);
  const stop = new AbortController();
  const bo = slow('bo', 'At last.');
  const agents = [reader('ana', 'A1'), bo];
  const running = drive({ agents, signal: stop.signal, maxRounds: 1 });
  await bo.begun;
  stop.abort();
  assert.equal((await running).status, 'cancelled');
  assert.equal((await drive({ agents, signal: AbortSignal.abort() })).status, 'cancelled');
  bo.free();
  assert.equal((await drive({ agents, maxRounds: 1 })).status, 'rounds');
  assert.deepEqual(await thread(), ['ana: A1', 'bo: At last.']);
});

test('a turn that asks for approval ends the drive as waiting, until the host answers', async (t) => {
  const { drive, thread, d, id } = await driven(t);
  const provider = scriptedProvider({ replies: [{ toolCalls: [{ name: 'send', arguments: {} }] }, 'Sent.'] });
  let sent = 0;
  const tool = { name: 'send', description: 'sends', parameters: { type: 'object' }, execute: () => ++sent };
  const ana = sessionParticipant({
    id: 'ana',
    runtime: { id: 's', version: '1' },
    createSessionOptions: () => ({ provider, model: 'm', tools: [tool] }),
  });
  const agents = [ana, reader('bo', 'B1')];
  const waiting = await drive({ agents, maxRounds: 1 });
  assert.equal(waiting.status, 'waiting');
  assert.deepEqual(
    waiting.requests.map(({ kind, memberId }) => [kind, memberId]),
    [['approval', 'ana']],
  );
  await d.speak('pat', id, { message: 'Meanwhile.' });
  assert.equal((await drive({ agents, maxRounds: 1 })).status, 'waiting');
  const answer = async ({ kind }) => ({ kind, approved: true });
  assert.equal((await drive({ agents, answer, maxRounds: 1 })).status, 'rounds');
  assert.equal(sent, 1);
  assert.deepEqual(await thread(), ['pat: Meanwhile.', 'ana: Sent.', 'bo: B1']);
});

test('two calls do not drive one session: the second is refused as busy', async (t) => {
  const { drive, thread } = await driven(t);
  const bo = slow('bo', 'B1');
  const running = drive({ agents: [bo], maxRounds: 1, unsettled: 'retry' });
  await bo.begun;
  const second = await drive({ agents: [bo], maxRounds: 1, unsettled: 'retry' }).catch((error) => error);
  assert.equal(second.name, 'RoundtableError');
  assert.match(second.code, /^busy$/);
  bo.free();
  assert.equal((await running).status, 'rounds');
  assert.deepEqual(await thread(), ['bo: B1']);
});

test('options are refused by name before anything is stored or called', async (t) => {
  const { drive, store, id, d } = await driven(t);
  const ana = agent('ana');
  const many = Array.from({ length: 21 }, (_, n) => agent(`a${n}`));
  const create = () => {};
  for (const [field, options] of [
    ['store', { agents: [ana], store: null }],
    ['agents', { agents: [] }],
    ['agents', { agents: many }],
    ['agents[0].kind', { agents: [{ kind: 'external', id: 'ana' }] }],
    ['agents[1].id', { agents: [ana, ana] }],
    ['agents[0].factory', { agents: [{ ...ana, factory: undefined }] }],
    ['agents[0].id', { agents: [agent('fac')], facilitator: { id: 'pat', createAgent: create } }],
    ['facilitator.id', { agents: [ana], facilitator: { id: 'ana', createAgent: create } }],
    ['facilitator.id', { agents: [ana], facilitator: { id: 'pat', createAgent: create } }],
    ['facilitator.createAgent', { agents: [ana], facilitator: { id: 'fac' } }],
    ['facilitator.may[0]', { agents: [ana], facilitator: { id: 'fac', createAgent: create, may: ['resolve'] } }],
    ['conversationId', { agents: [ana], conversationId: 'x'.repeat(129) }],
    ['maxRounds', { agents: [ana], maxRounds: 0 }],
    ['maxRounds', { agents: [ana], maxRounds: 201 }],
    ['unsettled', { agents: [ana], unsettled: 'reconcile' }],
    ['beforeRound', { agents: [ana], beforeRound: 1 }],
    ['signal', { agents: [ana], signal: {} }],
    ['clock', { agents: [ana], clock: 1 }],
  ]) {
    assert.deepEqual(await told(drive(options)), ['invalid', 'INVALID_OPTIONS', field], field);
  }
  const refused = await drive({ agents: [ana], limits: { maxModelCallsPerRun: 0 } }).catch((error) => error);
  assert.deepEqual([refused.name, refused.code], ['RoundtableError', 'invalid-config']);
  assert.deepEqual(await told(drive({ agents: [agent('eve')] })), ['forbidden', 'GET_ROUND_TABLE_FAILED']);
  assert.deepEqual(ana.calls, []);
  assert.equal(await store.load(`${id}/discussion`), undefined);
  assert.equal((await d.get('fac', id)).version, 1);
});

test('the name of a conversation and 20 agents pass at their bounds', async (t) => {
  const ids = Array.from({ length: 20 }, (_, n) => `a${n}`);
  const { drive, d } = await driven(t);
  const { id } = await d.create('fac', { topic: 'T', goal: 'G', participants: ids });
  const { driveDeliberation } = await import('agent-roundtable');
  const { store, clock } = await driven(t);
  const agents = ids.map((one) => reader(one, `from ${one}`));
  const conversationId = 'x'.repeat(128);
  const result = await driveDeliberation(d, id, { store, clock, agents, conversationId, maxRounds: 1 });
  assert.deepEqual([result.status, result.session.thread.length], ['rounds', 20]);
  assert.equal(typeof drive, 'function');
});

test('the provider of the facilitator is free again when the call ends', async (t) => {
  const { drive } = await driven(t);
  let disposed = 0;
  const provider = scriptedProvider({ replies: ['no tool', 'no tool'] });
  const facilitator = { id: 'fac', createAgent: () => ({ provider, model: 'm', dispose: () => void disposed++ }) };
  const ana = agentParticipant({
    id: 'ana',
    runtime: { id: 'a', version: '1' },
    createAgent: () => ({ provider: scriptedProvider({ replies: [''] }), model: 'm' }),
  });
  for (let call = 1; call <= 2; call++) {
    assert.equal((await drive({ agents: [ana], facilitator })).code, 'no-decision');
    assert.equal(disposed, call);
  }
});
