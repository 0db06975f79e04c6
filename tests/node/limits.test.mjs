// Caps of a run: time and turns. They end the run, never the conversation.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { virtualClock } from 'agent-roundtable/testing';
import {
  agent,
  approval,
  conversation,
  decisions,
  deferred,
  journal,
  parallel,
  rejects,
  settled,
  speak,
  speaker,
  transcript,
  waiter,
  waits,
} from './support/conversations.mjs';
import { stubborn } from './support/stubborn.mjs';

describe('time', () => {
  const timed = (participants, limits, extra = {}) => {
    const clock = virtualClock();
    const roundtable = conversation(participants, { clock, limits: { maxTurnsPerRun: 20, ...limits }, ...extra });
    return { clock, roundtable };
  };

  test('C31 the time limit fires the signals, awaits running work and leaves a conversation that goes on', async () => {
    const a = stubborn('a', 1);
    const { clock, roundtable } = timed([a], { timeoutMs: 1000 }, { selector: decisions(speak('a')) });
    const run = roundtable.run();
    await clock.advance(999);
    let ended = false;
    run.then(() => {
      ended = true;
    });
    await settled();
    assert.equal(ended, false);
    await clock.advance(1);
    assert.deepEqual({ ...(await run), revision: 0 }, { status: 'limited', reason: 'time', revision: 0 });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.equal(clock.pending, 0, 'no timer is left');
  });

  test('C36 settleTimeoutMs: a participant that ignores its signal does not hang the time limit', async () => {
    const late = deferred();
    const hanging = agent('a', () => late.promise);
    const limits = { timeoutMs: 100, settleTimeoutMs: 50 };
    const { clock, roundtable } = timed([hanging], limits, { selector: decisions(speak('a')) });
    const run = roundtable.run();
    await clock.advance(100);
    await clock.advance(50);
    assert.equal((await run).status, 'limited');
    assert.equal(roundtable.snapshot().status, 'recovery-required');
    await rejects(roundtable.run(), 'recovery-required');
    late.resolve({ kind: 'speak', content: 'too late' });
    await clock.advance(1);
    assert.deepEqual(transcript(roundtable), [], 'never published by itself');
    const [, evidence] = (await journal(roundtable)).find(([kind]) => kind === 'late-result/1');
    assert.deepEqual(evidence.outcome, { kind: 'speak', content: 'too late' });
    assert.equal(clock.pending, 0);
  });

  test('C2a waits longer than 2^31 - 1 ms are armed in parts', async () => {
    const a = stubborn('a', 1);
    const month = 40 * 24 * 3600 * 1000;
    const delays = [];
    const clock = virtualClock();
    const { setTimeout } = clock;
    clock.setTimeout = (callback, delay) => {
      delays.push(delay);
      return setTimeout(callback, delay);
    };
    const limits = { maxTurnsPerRun: 2, timeoutMs: month };
    const roundtable = conversation([a], { clock, limits, leaseMs: month * 3, selector: decisions(speak('a')) });
    const run = roundtable.run();
    await clock.advance(month - 1);
    await clock.advance(1);
    assert.equal((await run).reason, 'time');
    assert.ok(Math.max(...delays) <= 2 ** 31 - 1);
    assert.ok(delays.length > 1);
  });
});

describe('C34 turns', () => {
  test('C34 maxTurnsPerRun counts attempted member turns, continued ones included', async () => {
    const a = waiter('a', waits(approval('q')), { kind: 'speak', content: 'x' });
    const roundtable = conversation([a, speaker('b', 'y')], {
      selector: decisions(speak('a'), speak('b')),
      limits: { maxTurnsPerRun: 1 },
    });
    const { revision } = await roundtable.run();
    const response = { kind: 'approval', approved: true };
    await roundtable.resume({ requestId: 'q', responseId: 'r', expectedRevision: revision, response });
    assert.equal((await roundtable.run()).reason, 'turns', 'the continuation used the only turn');
    assert.deepEqual(transcript(roundtable), ['a: x']);
    assert.equal((await roundtable.run()).reason, 'turns');
    assert.deepEqual(transcript(roundtable), ['a: x', 'b: y']);
  });

  test('C34 a group that does not fit in the remainder is not started, and its decision stays saved', async () => {
    const selector = decisions(speak('a'), parallel('a', 'b'));
    const roundtable = conversation([speaker('a', '1', '2'), speaker('b', '3')], {
      selector,
      limits: { maxTurnsPerRun: 2 },
    });
    assert.equal((await roundtable.run()).reason, 'turns');
    assert.deepEqual(transcript(roundtable), ['a: 1']);
    assert.equal((await roundtable.run()).reason, 'turns');
    assert.deepEqual(transcript(roundtable), ['a: 1', 'a: 2', 'b: 3']);
    assert.equal(selector.contexts.length, 2, 'the decision was not asked for again');
  });

  test('run({ limits }) replaces the saved limits from that run on and is journaled', async () => {
    const words = Array.from({ length: 9 }, (_, index) => `${index}`);
    const roundtable = conversation([speaker('a', ...words)], { limits: { maxTurnsPerRun: 1 } });
    await roundtable.run();
    await roundtable.run({ limits: { maxTurnsPerRun: 3 } });
    assert.equal(roundtable.snapshot().messages.length, 4);
    await roundtable.run();
    assert.equal(roundtable.snapshot().messages.length, 7);
    const runs = (await journal(roundtable)).filter(([kind]) => kind === 'run-started/1').map(([, run]) => run.limits);
    assert.deepEqual(runs, [undefined, { maxTurnsPerRun: 3 }, undefined]);
  });
});
