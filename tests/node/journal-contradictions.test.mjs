// A journal of the host's whose records contradict each other: refused with its code, and no tool is run from it.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { runtimeParticipant } from 'agent-roundtable/runtime';
import { calling, execution, reply, scripted, turn } from './support/agent.mjs';
import { call, done, parked, reopened } from './support/parked.mjs';
import { answered, arrayJournal, noting, open, resume } from './support/session.mjs';

/** Gives these records, whatever is written. */
const fixed = (records) => ({ append: async () => {}, read: async () => structuredClone(records) });

describe('a session', () => {
  const two = calling(['t1', 'write', { path: 'a' }], ['t2', 'ghost', {}]);

  /** What a wait and its answer leave on record, by name. */
  async function recorded(reply) {
    const journal = arrayJournal();
    const { requests, checkpoint } = await parked({ journal, replies: [reply] });
    const before = [...journal.records];
    const { lease } = await reopened(checkpoint, { journal });
    await resume(lease, requests);
    await lease.release();
    const [answer, intent, result] = journal.records.slice(before.length);
    return { requests, checkpoint, before, answer, intent, result };
  }

  test('F is refused where its records contradict each other, and runs no tool', async () => {
    for (const replied of [call(), two]) {
      const { requests, checkpoint, before, answer, intent, result } = await recorded(replied);
      const other = { ...answer, id: 'another', responseId: 'another' };
      const no = { ...answer, approved: false };
      const ghost = { ...other, requestId: answer.requestId.replace(/0$/, '1') };
      const cases = {
        'a result of what was not begun': [[answer, result], /not begun/],
        'a result before anything was asked': [[result], /not begun/],
        'two results': [[answer, intent, result, { ...result, id: 'another', result: 'other' }], /two results/],
        'two equal results': [[answer, intent, result, { ...result, id: 'another' }], /two results/],
        'begun after a no': [[no, intent], /was denied/],
        'begun twice': [[answer, intent, { ...intent, id: 'another' }], /begun already/],
        'begun after its result': [[answer, intent, result, { ...intent, id: 'another' }], /has its result/],
        'a no and a yes': [[no, other], /two answers/],
        'a yes and a no': [[answer, { ...other, approved: false }], /two answers/],
        'one answer to two requests': [[answer, { ...answer, id: 'another', requestId: 'x' }], /two requests have one/],
        'an answer to what nobody asked': [[{ ...other, requestId: 'x' }], /no request/],
        'an answer to a call that cannot be made': [[ghost], /no request/],
      };
      for (const [name, [records, message]] of Object.entries(cases)) {
        const journal = fixed([...before, ...records]);
        const { lease, write, provider } = await reopened(checkpoint, { journal });
        await assert.rejects(resume(lease, requests), { code: 'EXECUTION_RECOVERY_INVALID', message }, name);
        assert.deepEqual([write.calls, provider.requests], [[], []], name);
        await lease.release();
      }
    }
  });

  test('F goes on from records that are there twice, and from a result of what the policy denied', async () => {
    const { requests, checkpoint, before, answer, intent, result } = await recorded(call());
    const denied = { ...result, result: { error: { code: 'denied', message: 'the call was denied' } } };
    for (const records of [
      [answer, answer, intent, intent, result, result],
      [answer, { ...answer, id: 'another' }, intent, result],
      [answer, denied],
    ]) {
      const { lease, write } = await reopened(checkpoint, { journal: fixed([...before, ...records]) });
      assert.deepEqual(await resume(lease, requests), done);
      assert.deepEqual(write.calls, []);
      await lease.release();
    }
  });

  test('F is left to the host where a stopped attempt wrote them, also after a retry', async () => {
    const journal = arrayJournal();
    const allowing = (write, ...replies) => ({
      provider: scripted(...replies),
      tools: [write],
      permissions: { allow: ['*'] },
    });
    const first = await open(allowing(noting('write'), call(), reply('done')), { journal: () => journal });
    await first.session.runTurn(turn('a1'), execution());
    await first.release();
    const [start, request, response, intent, result] = journal.records;
    const records = [start, request, response, intent, result, { ...result, id: 'another', result: 'other' }];
    for (const reconciled of [undefined, 'retry']) {
      const write = noting('write');
      const lease = await open(allowing(write, reply('never')), { journal: () => fixed(records) });
      const next = { ...turn('a1'), attemptId: 'a2', earlierAttempts: ['a1'], ...(reconciled ? { reconciled } : {}) };
      await assert.rejects(lease.session.runTurn(next, execution()), {
        code: 'EXECUTION_RECOVERY_REQUIRED',
        message: /two results/,
      });
      assert.deepEqual(write.calls, []);
      await lease.release();
    }
  });
});

describe('a foreign runtime', () => {
  const read = { toolCallId: 't0', toolName: 'read', arguments: { path: 'a' } };
  const write = { toolCallId: 't1', toolName: 'write', arguments: { path: 'b' } };
  const again = (attemptId) => ({ ...turn('a1'), attemptId });

  /** Reads, asks for its write, and writes. */
  const runtime = (effects) => ({
    run: async (_input, context) => {
      await context.toolCall(read, () => void effects.push('read') ?? 'A');
      return { interruptions: [write], state: null };
    },
    resume: async (_state, [{ approved, ...action }], context) => {
      await context.toolCall(read, () => void effects.push('read again') ?? 'A');
      if (approved) await context.toolCall(action, () => void effects.push('written') ?? 'B');
      return { finalOutput: 'done', newItems: [] };
    },
  });

  async function opened(journal, effects, checkpoint) {
    const { factory } = runtimeParticipant({
      id: 'bot',
      runtime: { id: 'sdk', version: '1' },
      createRuntime: () => runtime(effects),
      journal: () => journal,
    });
    return factory.openSession({ conversationId: 'c', participantId: 'bot', checkpoint });
  }

  const responses = ({ requests: [request] }, change = {}) => [{ ...answered(request, true), ...change }];

  async function recorded() {
    const journal = arrayJournal();
    const { session, release } = await opened(journal, []);
    const outcome = await session.runTurn(turn('a1'), execution());
    const checkpoint = await session.checkpoint();
    const before = [...journal.records];
    await session.resumeTurn(again('a2'), responses(outcome), execution());
    await release();
    return { outcome, checkpoint, before, after: journal.records.slice(before.length) };
  }

  test('F is refused where its records contradict each other, and runs no tool', async () => {
    const { outcome, checkpoint, before, after } = await recorded();
    const [start, intent, result] = before;
    const [answer, , written] = after;
    const cases = {
      'a result of what was not begun': [[start, result], /not begun/],
      'a result of what was asked about': [[...before, answer, written], /not begun/],
      'two results': [[...before, { ...result, id: 'another', result: 'other' }], /two results/],
      'two records of one id': [[...before, { ...result, result: 'other' }], /records\[3\]\.id/],
      'two answers': [[...before, answer, { ...answer, id: 'another', approved: false }], /two answers/],
      'no beginning': [[intent, result], /records\[0\]\.kind/],
      'two beginnings': [[start, { ...start, id: 'another' }], /records\[1\]\.kind/],
      'another session': [[start, { ...intent, sessionId: 'x' }], /records\[1\]\.sessionId/],
      'another execution': [[{ ...start, executionId: 'x' }], /records\[0\]\.executionId/],
      'an intent of nothing': [[start, { ...intent, toolCallId: 7 }], /records\[1\]\.toolCallId/],
      'what is no record': [[start, null], /records\[1\]/],
      'what is no list': ['records', /records/],
    };
    for (const [name, [records, message]] of Object.entries(cases)) {
      const effects = [];
      const { session, release } = await opened(fixed(records), effects, checkpoint);
      const resuming = session.resumeTurn(again('a3'), responses(outcome), execution());
      await assert.rejects(resuming, { code: 'EXECUTION_RECOVERY_INVALID', message }, name);
      assert.deepEqual(effects, [], name);
      await release();
    }
  });

  test('F a no on record stands against a yes, and records of another turn are not this one’s', async () => {
    const { outcome, checkpoint, before, after } = await recorded();
    const [start, ...rest] = before;
    for (const [records, code] of [
      [[...before, { ...after[0], approved: false }], 'EXECUTION_RECOVERY_CONFLICT'],
      [[...before, { ...after[0], responseId: 'another' }], 'EXECUTION_RECOVERY_CONFLICT'],
      [[{ ...start, turnId: 'another' }, ...rest], 'identity-mismatch'],
    ]) {
      const effects = [];
      const { session, release } = await opened(fixed(records), effects, checkpoint);
      await assert.rejects(session.resumeTurn(again('a3'), responses(outcome), execution()), { code });
      assert.deepEqual(effects, []);
      await release();
    }
  });

  test('F goes on from records that are there twice, and a journal that cannot be read is named', async () => {
    const { outcome, checkpoint, before, after } = await recorded();
    const twice = [...before, ...after].flatMap((record) => [record, record]);
    const effects = [];
    const { session, release } = await opened(fixed(twice), effects, checkpoint);
    assert.equal((await session.resumeTurn(again('a3'), responses(outcome), execution())).content, 'done');
    assert.deepEqual(effects, []);
    await release();
    const offline = { append: async () => {}, read: () => Promise.reject(new Error('offline')) };
    const failing = await opened(offline, effects, checkpoint);
    const failed = { code: 'EXECUTION_JOURNAL_FAILED', message: /offline/ };
    await assert.rejects(failing.session.resumeTurn(again('a3'), responses(outcome), execution()), failed);
    await failing.release();
  });

  test('F is left to the host where a stopped attempt wrote them', async () => {
    const { before } = await recorded();
    const effects = [];
    const records = [...before, { ...before[2], id: 'another', result: 'other' }];
    const { session, release } = await opened(fixed(records), effects);
    const next = { ...again('a2'), earlierAttempts: ['a1'] };
    await assert.rejects(session.runTurn(next, execution()), { code: 'EXECUTION_RECOVERY_REQUIRED', message: /two/ });
    assert.deepEqual(effects, []);
    await release();
  });
});
