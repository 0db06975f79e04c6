// What a process leaves behind when it dies: what goes on by itself, what a host must decide, what is lost.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createRoundtable, externalParticipant } from 'agent-roundtable';
import {
  agent,
  approval,
  decisions,
  deferred,
  parallel,
  rejects,
  settled,
  speak,
  transcript,
  wait,
  waits,
} from './support/conversations.mjs';
import {
  asksLeave,
  asksPerson,
  batchesOf,
  durable,
  finish,
  go,
  listed,
  load,
  steady,
  storeOf,
} from './support/stored.mjs';

let count = 0;

function parts(work) {
  const a = steady('a', ['a one', { asks: [asksLeave], after: 'a two' }, 'a three'], { work });
  const b = steady('b', ['b one', { asks: [asksPerson('pia'), asksLeave], after: 'b two' }, ''], { work });
  const selector = listed(speak('a'), parallel('b', 'a'), wait('pia', 'what now?'), parallel('a', 'b'), speak('b'));
  return { agents: [a, b], selector };
}

function create({ agents, selector }, extra = {}) {
  count += 1;
  const options = {
    conversationId: `left-${count}`,
    participants: [...agents, externalParticipant({ id: 'pia' })],
    selector: selector.create({}),
    limits: { maxTurnsPerRun: 20 },
    maxConcurrentParticipants: 2,
    recovery: 'durable',
    seed: 'a seed',
    store: durable(),
    ...extra,
  };
  return Object.assign(createRoundtable(options), { id: options.conversationId, store: options.store });
}

/** The phase of each turn that a journal leaves open, from the kinds of its entries alone. */
function left(batches) {
  const turns = new Map();
  for (const [kind, fields] of batches.flatMap(({ entries }) =>
    entries.map((line) => Object.entries(JSON.parse(line))[0]),
  )) {
    const name = kind.slice(0, kind.indexOf('/'));
    if (name.startsWith('turn-')) turns.set(fields.turnId, name);
    if (name === 'group-committed') turns.clear();
  }
  return [...turns].filter(([, name]) => name === 'turn-started' || name === 'turn-settled').map(([turnId]) => turnId);
}

/** A conversation whose process died with `a` in its first turn. */
async function died(extra = {}) {
  const stuck = deferred();
  const started = deferred();
  const made = parts(async () => {
    started.resolve();
    await stuck.promise;
  });
  const roundtable = create(made, extra);
  roundtable.run().catch(() => {});
  await started.promise;
  const store = await storeOf(roundtable.id, await batchesOf(roundtable.store, roundtable.id));
  stuck.resolve();
  return { id: roundtable.id, store };
}

const reconciling = { unsettled: 'reconcile' };

/** The unsettled turns and the revision, as a load tells them. */
async function unsettled(id, store) {
  const { agents, selector } = parts();
  const error = await rejects(load(id, store, agents, selector), 'recovery-required');
  return error.turns;
}

describe('C48 a process that died', () => {
  test('C48 C50 after every batch: it goes on by itself, or the turns it left running are listed and reconciled', async () => {
    const whole = create(parts());
    assert.equal((await finish(whole)).status, 'completed');
    const [expected, batches] = [transcript(whole), await batchesOf(whole.store, whole.id)];
    let listedTimes = 0;
    for (let upto = 1; upto <= batches.length; upto++) {
      const kept = batches.slice(0, upto);
      const lost = left(kept);
      const store = await storeOf(whole.id, kept);
      const { agents, selector } = parts();
      let roundtable;
      if (lost.length === 0) {
        roundtable = await load(whole.id, store, agents, selector);
      } else {
        listedTimes += 1;
        const { turns } = await rejects(load(whole.id, store, agents, selector), 'recovery-required', ...lost);
        assert.deepEqual(turns.map(({ turnId }) => turnId).sort(), lost.sort());
        roundtable = await load(whole.id, store, agents, selector, reconciling);
        assert.equal(roundtable.snapshot().status, 'recovery-required');
        for (const { turnId, outcome } of turns) {
          const { revision: expectedRevision } = roundtable.snapshot();
          assert.equal(
            (await rejects(roundtable.run(), 'recovery-required')).turns.some((turn) => turn.turnId === turnId),
            true,
          );
          assert.ok(outcome === undefined || ['speak', 'yield', 'wait'].includes(outcome.kind));
          await roundtable.reconcile({ turnId, expectedRevision, by: 'operator', decision: { kind: 'retry' } });
        }
        assert.notEqual(roundtable.snapshot().status, 'recovery-required');
      }
      const started = agents.map((one) => one.ran.length);
      assert.deepEqual(started, [0, 0], 'loading runs nobody');
      const last = await finish(roundtable);
      assert.equal(last.status, 'completed', `after batch ${upto}: ${JSON.stringify(last)}`);
      assert.deepEqual(transcript(roundtable), expected, `after batch ${upto}`);
      await roundtable.dispose();
      assert.deepEqual(left(await batchesOf(store, whole.id)), []);
    }
    assert.ok(listedTimes > 3);
  });

  test('C48 prepared members are published without running again', async () => {
    const whole = create(parts());
    await finish(whole);
    const batches = await batchesOf(whole.store, whole.id);
    const kinds = batches.map(({ entries }) => entries.map((line) => Object.keys(JSON.parse(line))[0]));
    const prepared = (batch) => batch.includes('turn-prepared/1') && !batch.includes('group-committed/1');
    const kept = batches.slice(0, kinds.findLastIndex(prepared) + 1);
    assert.deepEqual(left(kept), []);
    const { agents, selector } = parts();
    const roundtable = await load(whole.id, await storeOf(whole.id, kept), agents, selector);
    await finish(roundtable);
    assert.deepEqual(transcript(roundtable), transcript(whole));
    const { turns } = whole.snapshot();
    const [last] = turns.filter(({ participantId }) => participantId === 'a').slice(-1);
    assert.ok(!agents[0].ran.includes(last.id));
  });

  test('C48 a turn stored as settled without its checkpoint offers its outcome, and is settled with it', async () => {
    const whole = create(parts());
    await finish(whole);
    const batches = await batchesOf(whole.store, whole.id);
    const first = batches.findIndex(({ entries }) => entries.some((line) => line.startsWith('{"turn-settled/1"')));
    const store = await storeOf(whole.id, batches.slice(0, first + 1));
    const [turn] = await unsettled(whole.id, store);
    assert.deepEqual(turn.outcome, { kind: 'speak', content: 'a one' });
    assert.equal(turn.participantId, 'a');
    assert.ok(turn.groupId && turn.attemptId && turn.startedAt);
    const { agents, selector } = parts();
    const roundtable = await load(whole.id, store, agents, selector, reconciling);
    assert.ok(!JSON.stringify(roundtable.snapshot()).includes('a one'), 'an unpublished outcome is in no snapshot');
    const checkpoint = { version: 'v1', data: { turns: 1, asked: false } };
    await roundtable.reconcile({
      turnId: turn.turnId,
      expectedRevision: roundtable.snapshot().revision,
      by: 'operator',
      decision: { kind: 'settle', outcome: turn.outcome, checkpoint },
    });
    await finish(roundtable);
    assert.deepEqual(transcript(roundtable), transcript(whole));
    assert.deepEqual(agents[0].opened[0].checkpoint, checkpoint);
  });

  test('C48 until they are reconciled, everything else is refused and nobody is executed', async () => {
    const { id, store } = await died();
    const { agents, selector } = parts();
    const roundtable = await load(id, store, agents, selector, reconciling);
    const { revision: expectedRevision } = roundtable.snapshot();
    const [{ turnId }] = (await rejects(roundtable.run(), 'recovery-required')).turns;
    const input = { participantId: 'pia', inputId: 'i', expectedRevision, content: 'x' };
    await rejects(roundtable.submitInput(input), 'recovery-required', turnId);
    const answer = {
      requestId: 'q',
      responseId: 'r',
      expectedRevision,
      response: { kind: 'approval', approved: true },
    };
    await rejects(roundtable.resume(answer), 'recovery-required', turnId);
    await rejects(roundtable.withdraw({ requestId: 'q', expectedRevision, by: 'x', reason: '' }), 'recovery-required');
    assert.deepEqual(agents[0].ran, []);
  });

  test('C48 a participant that has taken part and left no checkpoint is refused, and nothing cures it', async () => {
    const plain = agent('a', async () => ({ kind: 'speak', content: 'once' }));
    const roundtable = create({ agents: [plain], selector: listed(speak('a'), speak('a')) }, { recovery: 'none' });
    await roundtable.run({ limits: { maxTurnsPerRun: 1 } });
    for (const extra of [{}, reconciling]) {
      const error = await rejects(
        load(roundtable.id, roundtable.store, [plain], listed(), extra),
        'recovery-required',
        '"a"',
      );
      assert.equal(error.turns, undefined);
    }
    assert.equal(plain.calls.filter(([call]) => call === 'open').length, 1, 'it is not rebuilt from the transcript');
    await finish(roundtable);
    const loaded = await load(roundtable.id, roundtable.store, [plain], listed());
    assert.equal((await loaded.run()).status, 'completed', 'what has ended needs nobody');
  });

  test('C48 a selector that was stopped is asked again, and its reservations stay', async () => {
    const stuck = deferred();
    const asked = deferred();
    const { agents, selector } = parts();
    const hanging = {
      ...selector.create({}),
      async select(_context, { services }) {
        await services.admitModelCall({ callId: 'c', providerId: 'p', modelId: 'm' });
        asked.resolve();
        return stuck.promise;
      },
    };
    const roundtable = create({ agents, selector }, { selector: hanging });
    roundtable.run().catch(() => {});
    await asked.promise;
    const store = await storeOf(roundtable.id, await batchesOf(roundtable.store, roundtable.id));
    stuck.resolve({ kind: 'finish', reason: 'enough' });
    const now = parts();
    const loaded = await load(roundtable.id, store, now.agents, now.selector);
    await finish(loaded);
    assert.equal(loaded.snapshot().usage[0].status, 'reserved');
    assert.equal(transcript(loaded).length, 7);
  });

  test('C40 execution records outlive the process, for the turn that wrote them', async () => {
    const stuck = deferred();
    const started = deferred();
    const record = { id: 'r1', executionId: 'e', sessionId: 's', kind: 'tool-intent', at: new Date(7) };
    const made = parts(async (_turn, { services }) => {
      assert.equal(services.journal.durable, true);
      await services.journal.append(record);
      started.resolve();
      await stuck.promise;
    });
    const dying = create(made);
    dying.run().catch(() => {});
    await started.promise;
    const { id } = dying;
    const store = await storeOf(id, await batchesOf(dying.store, id));
    stuck.resolve();
    const [{ turnId }] = await unsettled(id, store);
    const read = [];
    const { agents, selector } = parts(async (_turn, { services }) => read.push(await services.journal.read('e')));
    const roundtable = await load(id, store, agents, selector, reconciling);
    const { revision: expectedRevision } = roundtable.snapshot();
    await roundtable.reconcile({ turnId, expectedRevision, by: 'x', decision: { kind: 'retry' } });
    await finish(roundtable);
    assert.deepEqual(read[0], [record]);
    assert.deepEqual(read[1], []);
  });
});

describe('C49 reconciling', () => {
  const opened = async (decide, work) => {
    const { id, store } = await died();
    const [{ turnId }] = await unsettled(id, store);
    const made = parts(work);
    const events = [];
    const roundtable = await load(id, store, made.agents, made.selector, {
      ...reconciling,
      onEvent: (event) => void events.push(event),
    });
    const { revision: expectedRevision } = roundtable.snapshot();
    const input = { turnId, expectedRevision, by: 'operator', decision: decide };
    return { ...made, roundtable, input, events, store, id };
  };
  const checkpoint = { version: 'v1', data: { turns: 1, asked: false } };

  test('C49 retry: it runs again, under the same turn and another attempt', async () => {
    const { roundtable, input, agents, events, store, id } = await opened({ kind: 'retry' });
    const { revision } = await roundtable.reconcile(input);
    assert.equal(revision, input.expectedRevision + 1);
    const [entry] = (await batchesOf(store, id)).at(-1).entries.map((line) => JSON.parse(line)['reconciled/1']);
    assert.equal(entry.by, 'operator');
    assert.equal(entry.turnId, input.turnId);
    assert.deepEqual(entry.decision, { kind: 'retry' });
    await settled();
    assert.deepEqual(
      events.map(({ type }) => type),
      ['turn-stopped'],
    );
    await finish(roundtable);
    assert.equal(agents[0].ran[0], input.turnId);
    assert.equal(transcript(roundtable)[0], 'a: a one');
  });

  test('C49 settle: the result is published without running, and the private state goes on from what is given', async () => {
    const outcome = { kind: 'speak', content: 'it said' };
    const { roundtable, input, agents, events } = await opened({ kind: 'settle', outcome, checkpoint });
    await roundtable.reconcile(input);
    await settled();
    assert.deepEqual(
      events.map(({ type }) => type),
      ['prepared'],
    );
    assert.deepEqual(transcript(roundtable), [], 'the next run publishes it');
    await finish(roundtable);
    assert.equal(transcript(roundtable)[0], 'a: it said');
    assert.ok(!agents[0].ran.includes(input.turnId));
    assert.deepEqual(agents[0].opened[0].checkpoint, checkpoint);
  });

  test('C49 settle with a yield, and with a wait that is then answered', async () => {
    const yielded = await opened({ kind: 'settle', outcome: { kind: 'yield' }, checkpoint });
    await yielded.roundtable.reconcile(yielded.input);
    await finish(yielded.roundtable);
    assert.equal(transcript(yielded.roundtable).length, 6);
    const asked = { version: 'v1', data: { turns: 1, asked: true } };
    const outcome = waits(approval('may it?'));
    const waiting = await opened({ kind: 'settle', outcome, checkpoint: asked });
    await waiting.roundtable.reconcile(waiting.input);
    await settled();
    assert.deepEqual(
      waiting.events.map(({ type }) => type),
      ['requested'],
    );
    const result = await go(waiting.roundtable);
    assert.deepEqual(
      result.requests.map(({ id }) => id),
      ['may it?'],
    );
    await finish(waiting.roundtable);
    assert.equal(transcript(waiting.roundtable)[0], 'a: a two true');
  });

  test('C49 fail: the next run ends the conversation as failed', async () => {
    const { roundtable, input, agents } = await opened({ kind: 'fail', message: 'the power went' });
    await roundtable.reconcile(input);
    const result = await go(roundtable);
    assert.equal(result.status, 'failed');
    assert.ok(result.message.includes('the power went'));
    assert.deepEqual(agents[0].ran, []);
    assert.deepEqual(transcript(roundtable), []);
  });

  test('C49 the same decision again is the same receipt; another one, or another author, is a conflict', async () => {
    const { roundtable, input, agents, selector, store, id } = await opened({
      kind: 'settle',
      outcome: { kind: 'yield' },
      checkpoint,
    });
    const first = await roundtable.reconcile(input);
    assert.deepEqual(await roundtable.reconcile(input), first);
    assert.deepEqual(await roundtable.reconcile({ ...input, expectedRevision: 999 }), first);
    await rejects(roundtable.reconcile({ ...input, decision: { kind: 'retry' } }), 'conflict');
    await rejects(roundtable.reconcile({ ...input, by: 'somebody else' }), 'conflict');
    const other = await load(id, store, agents, selector);
    assert.deepEqual(await other.reconcile(input), first);
    await finish(roundtable);
    await rejects(roundtable.reconcile(input), 'conflict');
  });

  test('C49 a decision that does not fit is a conflict, a malformed one is refused naming the field', async () => {
    const speaking = { kind: 'speak', content: 'x' };
    const { roundtable, input } = await opened({ kind: 'retry' });
    for (const [change, part] of [
      [{ turnId: 'turn-x' }, 'turnId'],
      [{ expectedRevision: 0 }, 'expectedRevision'],
      [{ expectedRevision: input.expectedRevision + 1 }, 'expectedRevision'],
      [{ expectedRevision: -1 }, 'expectedRevision'],
      [{ decision: { kind: 'settle', outcome: speaking } }, 'checkpoint'],
      [{ decision: { kind: 'settle', outcome: speaking, checkpoint: { version: 'v9', data: 1 } } }, 'v9'],
      [{ decision: { kind: 'settle', outcome: { kind: 'failed', message: 'x' }, checkpoint } }, 'fail'],
      [{ decision: { kind: 'settle', outcome: waits(approval('w')) } }, 'checkpoint'],
      [{ decision: { kind: 'settle', outcome: waits(), checkpoint } }, 'requests'],
      [{ decision: { kind: 'settle', outcome: waits(approval(input.turnId)), checkpoint } }, input.turnId],
    ]) {
      await rejects(roundtable.reconcile({ ...input, ...change }), 'conflict', part);
    }
    for (const [change, part] of [
      [{ turnId: '' }, 'turnId'],
      [{ by: '' }, 'by'],
      [{ by: 'x'.repeat(513) }, 'by'],
      [{ by: undefined }, 'by'],
      [{ extra: 1 }, 'extra'],
      [{ decision: undefined }, 'decision'],
      [{ decision: { kind: 'forget' } }, 'decision.kind'],
      [{ decision: { kind: 'retry', more: 1 } }, 'decision.more'],
      [{ decision: { kind: 'fail' } }, 'decision.message'],
      [{ decision: { kind: 'fail', message: 'x'.repeat(8193) } }, 'decision.message'],
      [{ decision: { kind: 'settle' } }, 'outcome'],
      [{ decision: { kind: 'settle', outcome: { kind: 'speak' } } }, 'content'],
      [{ decision: { kind: 'settle', outcome: speaking, checkpoint: 5 } }, 'checkpoint'],
    ]) {
      await rejects(roundtable.reconcile({ ...input, ...change }), 'invalid-config', part);
    }
    await roundtable.reconcile(input);
  });

  test('C49 C36 an attempt that did not settle in time is reconciled by its own handle, with its late result', async () => {
    const release = deferred();
    const made = parts(async () => release.promise);
    const roundtable = create(made, { limits: { maxTurnsPerRun: 5, settleTimeoutMs: 10 } });
    const controller = new AbortController();
    const running = roundtable.run({ signal: controller.signal });
    await settled(20);
    controller.abort();
    assert.equal((await running).status, 'cancelled');
    let [turn] = (await rejects(roundtable.run(), 'recovery-required')).turns;
    assert.equal(turn.outcome, undefined);
    const before = roundtable.snapshot().revision;
    release.resolve();
    await settled(20);
    [turn] = (await rejects(roundtable.run(), 'recovery-required')).turns;
    assert.deepEqual(turn.outcome, { kind: 'speak', content: 'a one' });
    assert.deepEqual(transcript(roundtable), []);
    const decision = { kind: 'settle', outcome: turn.outcome, checkpoint };
    const input = { turnId: turn.turnId, by: 'operator', decision };
    await rejects(roundtable.reconcile({ ...input, expectedRevision: before }), 'conflict', 'expectedRevision');
    await roundtable.reconcile({ ...input, expectedRevision: roundtable.snapshot().revision });
    await finish(roundtable);
    assert.equal(transcript(roundtable)[0], 'a: a one');
    assert.equal(made.agents[0].opened.length, 2, 'it goes on in a session of its own');
  });

  test('C49 C36 a retry leaves the attempt that hangs to itself: what it brings later is nothing', async () => {
    const hangs = deferred();
    let first = true;
    const made = parts(async () => {
      if (first) {
        first = false;
        await hangs.promise;
      }
    });
    const roundtable = create(made, { limits: { maxTurnsPerRun: 20, settleTimeoutMs: 10 } });
    const controller = new AbortController();
    const running = roundtable.run({ signal: controller.signal });
    await settled(20);
    controller.abort();
    await running;
    const [{ turnId }] = (await rejects(roundtable.run(), 'recovery-required')).turns;
    const { revision: expectedRevision } = roundtable.snapshot();
    await roundtable.reconcile({ turnId, expectedRevision, by: 'x', decision: { kind: 'retry' } });
    await go(roundtable);
    hangs.resolve();
    await settled(20);
    await finish(roundtable);
    assert.deepEqual(transcript(roundtable).filter((line) => line === 'a: a one').length, 1);
  });

  test('C46 another host that is at work keeps a reconciliation out', async () => {
    const stuck = deferred();
    const started = deferred();
    const made = parts(async () => {
      started.resolve();
      await stuck.promise;
    });
    const roundtable = create(made);
    const running = roundtable.run();
    await started.promise;
    const now = parts();
    const other = await load(roundtable.id, roundtable.store, now.agents, now.selector, reconciling);
    const { revision: expectedRevision } = other.snapshot();
    const batches = await batchesOf(roundtable.store, roundtable.id);
    const [turnId] = left(batches);
    const input = { turnId, expectedRevision, by: 'x', decision: { kind: 'retry' } };
    await rejects(other.reconcile(input), 'busy');
    stuck.resolve();
    await running;
    await rejects(other.reconcile(input), 'conflict');
    assert.equal((await go(other)).status, 'waiting', 'it sees that nothing is unsettled any more');
  });

  test('C49 reconcile is refused before anything is stored, after the end, and by a disposed handle', async () => {
    const roundtable = create(parts());
    const input = { turnId: 't', expectedRevision: 0, by: 'x', decision: { kind: 'retry' } };
    await rejects(roundtable.reconcile(input), 'conflict');
    const ended = create({ agents: parts().agents, selector: listed() });
    await finish(ended);
    await rejects(ended.reconcile({ ...input, expectedRevision: ended.snapshot().revision }), 'conflict', 'ended');
    await ended.dispose();
    await rejects(ended.reconcile(input), 'disposed');
  });

  test('C33 a participant without checkpoints keeps its session: no retry while the attempt that hangs holds it', async () => {
    const hangs = deferred();
    let turns = 0;
    const a = agent('a', async () => {
      turns += 1;
      if (turns === 2) await hangs.promise;
      return { kind: 'speak', content: `turn ${turns}` };
    });
    const options = {
      limits: { maxTurnsPerRun: 9, settleTimeoutMs: 10 },
      recovery: 'none',
      selector: decisions(speak('a'), speak('a')),
    };
    const roundtable = create({ agents: [a], selector: listed() }, options);
    const controller = new AbortController();
    const running = roundtable.run({ signal: controller.signal });
    await settled(20);
    controller.abort();
    await running;
    const [{ turnId }] = (await rejects(roundtable.run(), 'recovery-required')).turns;
    const input = { turnId, expectedRevision: roundtable.snapshot().revision, by: 'x', decision: { kind: 'retry' } };
    await rejects(roundtable.reconcile(input), 'conflict', 'session');
    hangs.resolve();
    await settled(20);
    await roundtable.reconcile({ ...input, expectedRevision: roundtable.snapshot().revision });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(transcript(roundtable), ['a: turn 1', 'a: turn 3']);
    assert.equal(a.calls.filter(([call]) => call === 'open').length, 1);
  });
});
