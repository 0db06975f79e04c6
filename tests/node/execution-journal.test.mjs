// What a turn's executions write down: kept with the conversation, private, read back by the same turn.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  agent,
  approval,
  conversation,
  decisions,
  journal,
  rejects,
  settled,
  speak,
  waiter,
  waits,
} from './support/conversations.mjs';
import { call, metered, selecting, spoken, turn } from './support/metering.mjs';

const record = (id, extra = {}) => ({ id, executionId: 'e', sessionId: 's', kind: 'tool-result', ...extra });
const recorded = async (roundtable) =>
  (await journal(roundtable)).filter(([kind]) => kind === 'execution-recorded/1').map(([, fields]) => fields);

describe('C44 execution records', () => {
  test('C44 a record is stored before its append resolves, and read back in order by execution', async () => {
    let roundtable;
    let stored;
    const a = agent('a', async (_turn, { services }) => {
      assert.equal(services.journal.durable, false);
      await services.journal.append(record('1'));
      stored = await recorded(roundtable);
      await services.journal.append(record('2', { executionId: 'other' }));
      await services.journal.append(record('3', { result: [null, 1.5, 'x', { y: true }] }));
      assert.deepEqual(await services.journal.read('e'), [
        record('1'),
        record('3', { result: [null, 1.5, 'x', { y: true }] }),
      ]);
      assert.deepEqual(await services.journal.read('other'), [record('2', { executionId: 'other' })]);
      assert.deepEqual(await services.journal.read('none'), []);
      return spoken;
    });
    roundtable = conversation([a], { selector: decisions(speak('a')) });
    await roundtable.run();
    assert.equal(stored.length, 1);
    assert.deepEqual(stored[0].record, record('1'));
    assert.ok(stored[0].attemptId && stored[0].at);
  });

  test('C44 a record and an admission asked for at the same moment leave in one batch', async () => {
    const { roundtable } = await turn(async (services) => {
      await Promise.all([services.admitModelCall(call('c1')), services.journal.append(record('1'))]);
    });
    const { batches } = await roundtable.store.read(roundtable.id, { after: 0 });
    const kinds = batches.map(({ entries }) => entries.map((line) => Object.keys(JSON.parse(line))[0]));
    const together = kinds.filter((batch) => batch.includes('execution-recorded/1'));
    assert.deepEqual(together, [['call-admitted/1', 'execution-recorded/1']]);
  });

  test('C44 the same record again changes nothing; other content under its id is a conflict', async () => {
    const { roundtable } = await turn(async ({ journal: own }) => {
      await own.append(record('1', { a: 1, b: 2 }));
      await own.append({ b: 2, ...record('1', { a: 1 }) });
      await Promise.all([own.append(record('2')), own.append(record('2'))]);
      await rejects(own.append(record('1', { a: 2, b: 2 })), 'conflict', 'record.id');
      await rejects(own.append(record('1', { executionId: 'other' })), 'conflict', 'record.id');
      assert.equal((await own.read('e')).length, 2);
    });
    assert.equal((await recorded(roundtable)).length, 2);
  });

  test('C44 dates come back as dates, and data that looks like their coding stays data', async () => {
    const response = {
      id: 'm',
      timestamp: new Date(1.8e12),
      metadata: { at: [new Date(0)], $date: 'plain', tag: { $date: 'x' }, escape: { $escaped: { $date: 'y' } } },
      ['__proto__']: { polluted: true },
    };
    const given = record('1', { response });
    await turn(async ({ journal: own }) => {
      await own.append(given);
      const [kept] = await own.read('e');
      assert.deepEqual(kept, given);
      assert.ok(kept.response.timestamp instanceof Date);
      kept.response.metadata.at.push('mine');
      assert.deepEqual(await own.read('e'), [given], 'every reader has its own copy');
    });
  });

  test('C44 the ids, the shape and the length of a record are checked, naming what is wrong', async () => {
    await turn(async ({ journal: own }) => {
      for (const [bad, ...parts] of [
        [undefined, 'record'],
        [[record('1')], 'record'],
        [{ id: '1' }, 'record.executionId'],
        [{ executionId: 'e' }, 'record.id'],
        [record(''), 'record.id', '512'],
        [record('x'.repeat(513)), 'record.id', '512'],
        [record('1', { executionId: 7 }), 'record.executionId'],
        [record('\ud800'), 'record.id', 'surrogate'],
        [record('1', { n: Number.NaN }), 'record.n'],
        [record('1', { m: new Map() }), 'record.m'],
        [record('1', { at: new Date(Number.NaN) }), 'record.at'],
      ]) {
        await rejects(own.append(bad), 'invalid-config', ...parts);
      }
      await rejects(own.append(record('1', { long: 'x'.repeat(8 * 1024 * 1024) })), 'conflict', '8388608');
      await own.append(record('x'.repeat(512)));
      for (const bad of [undefined, '', 5]) await rejects(own.read(bad), 'invalid-config', 'executionId');
      assert.equal((await own.read('e')).length, 1);
    });
  });

  test('C40 only the running attempt records: a late record is a conflict, and so is a late reading', async () => {
    let late;
    const { roundtable } = await turn(async ({ journal: own }) => {
      late = own;
      await own.append(record('1'));
    });
    await rejects(late.append(record('2')), 'conflict');
    await rejects(late.append(record('1')), 'conflict');
    await rejects(late.read('e'), 'conflict');
    await roundtable.dispose();
    await rejects(late.append(record('3')), 'disposed');
    await rejects(late.read('e'), 'disposed');
  });

  test("C32 a stopped attempt records until it returns; later it is given the signal's reason", async () => {
    const reason = new Error('enough');
    const controller = new AbortController();
    let own;
    const a = agent('a', async (_turn, { signal, services }) => {
      own = services.journal;
      await own.append(record('1'));
      controller.abort(reason);
      assert.ok(signal.aborted);
      await own.append(record('2'));
      throw signal.reason;
    });
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    assert.equal((await roundtable.run({ signal: controller.signal })).status, 'cancelled');
    assert.equal((await recorded(roundtable)).length, 2);
    await rejects(own.append(record('3')), 'conflict');
  });

  test('C32 the records of a stopped attempt are there for the next one', async () => {
    const controller = new AbortController();
    const seen = [];
    const a = agent('a', async ({ attemptId }, { signal, services }) => {
      seen.push([attemptId, (await services.journal.read('e')).map(({ id }) => id)]);
      if (seen.length > 1) return spoken;
      await services.journal.append(record('1'));
      controller.abort();
      throw signal.reason;
    });
    const roundtable = conversation([a], { selector: decisions(speak('a')) });
    await roundtable.run({ signal: controller.signal });
    await roundtable.run();
    assert.deepEqual(
      seen.map(([, ids]) => ids),
      [[], ['1']],
    );
    assert.notEqual(seen[0][0], seen[1][0]);
  });

  test('C26 records survive a wait, and are dropped when the turn is prepared', async () => {
    const ids = [];
    const note = async (services) => ids.push((await services.journal.read('e')).map(({ id }) => id));
    const a = waiter(
      'a',
      async (_turn, _responses, { services }) => {
        await services.journal.append(record('1'));
        return waits(approval('may I'));
      },
      async (_turn, _responses, { services }) => {
        await note(services);
        await services.journal.append(record('2'));
        await note(services);
        return spoken;
      },
      async (_turn, _responses, { services }) => {
        await note(services);
        await services.journal.append(record('1', { other: true }));
        return spoken;
      },
    );
    const roundtable = conversation([a], { selector: decisions(speak('a'), speak('a')) });
    const { requests, revision } = await roundtable.run();
    await roundtable.resume({
      requestId: requests[0].id,
      responseId: 'r',
      expectedRevision: revision,
      response: { kind: 'approval', approved: true },
    });
    assert.equal((await roundtable.run()).status, 'completed');
    assert.deepEqual(ids, [['1'], ['1', '2'], []]);
  });

  test('C45 a record that the store does not take rejects with what the store said', async () => {
    let down = false;
    let refusal;
    const a = agent('a', async (_turn, { services }) => {
      down = true;
      refusal = await services.journal.append(record('1')).catch((error) => error);
      return spoken;
    });
    const roundtable = conversation([a], { selector: decisions(speak('a')), clock: instantly() });
    const { append } = roundtable.store;
    roundtable.store.append = async function (...args) {
      if (down) throw new Error('the disk is full');
      return append.apply(this, args);
    };
    // The conversation took the store's functions when it was made.
    const other = conversation([a], { selector: decisions(speak('a')), store: roundtable.store, clock: instantly() });
    await rejects(other.run(), 'unavailable', 'the disk is full');
    assert.equal(refusal.code, 'unavailable');
    down = false;
    assert.equal((await other.run()).status, 'completed');
  });

  test('C11 a selector has no execution to record', async () => {
    let refusal;
    const selector = {
      async select(_context, { services }) {
        refusal ??= await services.journal.append(record('1')).catch((error) => error);
        return { kind: 'finish', reason: 'done' };
      },
    };
    const roundtable = conversation([agent('a')], { selector });
    await roundtable.run();
    assert.equal(refusal.code, 'conflict');
  });

  test('C54 no event, snapshot or selector shows a record', async () => {
    const canary = 'canary-7c1';
    const contexts = [];
    const selector = {
      ...selecting(),
      select(context) {
        contexts.push(JSON.stringify(context));
        return contexts.length > 2 ? { kind: 'finish', reason: 'done' } : speak('a');
      },
    };
    const a = metered('a', async (_turn, { services }) => {
      await services.journal.append(record(`${canary}-id`, { executionId: `${canary}-e`, secret: canary }));
      return spoken;
    });
    const roundtable = conversation([a], { selector });
    await roundtable.run();
    await settled();
    const past = [];
    const stream = Object.getPrototypeOf(roundtable).events.call(roundtable, { afterRevision: 0 });
    for await (const event of stream) {
      past.push(event);
      if (event.type === 'run-ended') break;
    }
    const shown = JSON.stringify([roundtable.events, past, roundtable.snapshot(), contexts]);
    assert.ok(!shown.includes(canary));
    assert.equal((await recorded(roundtable)).length, 2);
  });
});

/** A clock whose timers fire at once. */
function instantly() {
  let now = 1.8e12;
  return {
    now: () => now,
    setTimeout(callback, delay) {
      return setTimeout(() => {
        now += delay;
        callback();
      }, 0);
    },
    clearTimeout,
  };
}
