// The ledger: every model call admitted before it is made, reported once, priced once.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RoundtableError } from 'agent-roundtable';
import {
  conversation,
  deferred,
  finish,
  journal,
  parallel,
  rejects,
  settled,
  speak,
} from './support/conversations.mjs';
import { cacheHit, call, metered, report, selecting, spoken, turn, usage } from './support/metering.mjs';

describe('C38 admission', () => {
  test('C38 is journaled as a reservation before it resolves', async () => {
    let roundtable;
    let written;
    const a = metered('a', async (_turn, { services }) => {
      await services.admitModelCall(call('c1'));
      written = (await journal(roundtable)).filter(([kind]) => kind === 'call-admitted/1');
      return spoken;
    });
    roundtable = conversation([a], { selector: selecting(speak('a')) });
    await roundtable.run();
    assert.equal(written.length, 1);
    assert.equal(written[0][1].callId, 'c1');
    const [record] = usage(roundtable);
    const [completed] = roundtable.snapshot().turns;
    assert.equal(record.status, 'reserved');
    assert.deepEqual(record.principal, { kind: 'participant', id: 'a' });
    assert.equal(record.turnId, completed.id);
    assert.equal(record.groupId, completed.groupId);
    assert.equal(record.conversationId, roundtable.id);
    assert.equal(record.runId, roundtable.events[0].runId);
    assert.equal(record.price, null);
    assert.ok(record.attemptId);
  });

  test('C38 is idempotent per call id; another identity under it is a conflict', async () => {
    const { roundtable } = await turn(async (services) => {
      await Promise.all([services.admitModelCall(call('c1')), services.admitModelCall(call('c1'))]);
      await services.admitModelCall(call('c1'));
      await rejects(services.admitModelCall(call('c1', 'other model')), 'conflict', 'callId');
    });
    assert.equal(usage(roundtable).length, 1);
  });

  test('C38 refuses malformed calls naming the field', async () => {
    await turn(async (services) => {
      for (const [bad, part] of [
        [undefined, 'call'],
        [{ ...call('c'), callId: '' }, 'callId'],
        [{ ...call('c'), providerId: 5 }, 'providerId'],
        [{ ...call('c'), modelId: 'x'.repeat(513) }, 'modelId'],
        [{ ...call('c'), extra: 1 }, 'extra'],
      ]) {
        await rejects(services.admitModelCall(bad), 'invalid-config', part);
      }
    });
  });

  test('C38 reservations are never refunded: a retried attempt pays again', async () => {
    const controller = new AbortController();
    let tries = 0;
    const a = metered('a', async (_turn, { services, signal }) => {
      tries += 1;
      await services.admitModelCall(call(`c${tries}`));
      if (tries === 2) return spoken;
      controller.abort();
      await new Promise((_, reject) => {
        if (signal.aborted) reject(signal.reason);
        signal.addEventListener('abort', () => reject(signal.reason));
      });
    });
    const roundtable = conversation([a], { selector: selecting(speak('a')) });
    await roundtable.run({ signal: controller.signal });
    await roundtable.run();
    assert.deepEqual(
      usage(roundtable).map(({ callId, status }) => [callId, status]),
      [
        ['c1', 'reserved'],
        ['c2', 'reserved'],
      ],
    );
  });
});

describe('C39 reports', () => {
  test('C39 settle the reservation', async () => {
    const tokens = { input: 10, output: 5, cacheRead: 2, cacheWrite: 0, reasoning: 1 };
    const raw = { id: 'resp_1', usage: { total: 15 } };
    const { roundtable } = await turn(async (services) => {
      await services.admitModelCall(call('c1'));
      await services.recordUsage(report('c1', { tokens, raw }));
    });
    const [record] = usage(roundtable);
    assert.equal(record.status, 'settled');
    assert.deepEqual(record.tokens, tokens);
    assert.deepEqual(record.raw, raw);
    assert.deepEqual([record.outcome, record.provenance, record.final], ['completed', 'reported', true]);
  });

  test('C39 an identical report is a no-op; a final report cannot be replaced, another can', async () => {
    const { roundtable } = await turn(async (services) => {
      await services.admitModelCall(call('c1'));
      await services.recordUsage(report('c1', { final: false, tokens: { input: 1 } }));
      await services.recordUsage(report('c1', { final: false, tokens: { input: 1 } }));
      await services.recordUsage(report('c1', { tokens: { input: 2 } }));
      await services.recordUsage(report('c1', { tokens: { input: 2 } }));
      await rejects(services.recordUsage(report('c1', { tokens: { input: 3 } })), 'conflict', 'final');
    });
    assert.deepEqual(usage(roundtable)[0].tokens, { input: 2 });
    const reports = (await journal(roundtable)).filter(([kind]) => kind === 'usage-reported/1');
    assert.equal(reports.length, 2);
  });

  test('C39 a report without admission is refused, except a cache hit, which brings its identity', async () => {
    const { roundtable } = await turn(async (services) => {
      await rejects(services.recordUsage(report('c1')), 'conflict', 'admitted');
      await rejects(services.recordUsage(report('c1', { outcome: 'cache-hit' })), 'conflict', 'providerId');
      await services.recordUsage(cacheHit('c1'));
      await services.recordUsage(cacheHit('c1'));
      await services.admitModelCall(call('c2'));
      await rejects(services.recordUsage(cacheHit('c2')), 'conflict');
      await rejects(services.recordUsage(report('c2', { providerId: 'acme', modelId: 'm' })), 'conflict');
    });
    assert.deepEqual(
      usage(roundtable).map(({ callId, outcome }) => [callId, outcome]),
      [
        ['c1', 'cache-hit'],
        ['c2', undefined],
      ],
    );
  });

  const MALFORMED = [
    [{ outcome: 'done' }, 'report.outcome'],
    [{ provenance: 'guessed' }, 'report.provenance'],
    [{ final: 'yes' }, 'report.final'],
    [{ final: undefined }, 'report.final'],
    [{ tokens: { input: -1 } }, 'report.tokens.input'],
    [{ tokens: { output: 1.5 } }, 'report.tokens.output'],
    [{ tokens: { cacheRead: Number.NaN } }, 'report.tokens.cacheRead'],
    [{ tokens: { cacheWrite: 2 ** 53 } }, 'report.tokens.cacheWrite'],
    [{ tokens: { reasoning: '5' } }, 'report.tokens.reasoning'],
    [{ tokens: { total: 5 } }, 'report.tokens.total'],
    [{ tokens: 5 }, 'report.tokens'],
    [{ raw: { when: new Date() } }, 'report.raw.when'],
    [{ callId: 5 }, 'report.callId'],
    [{ price: 1 }, 'report.price'],
  ];
  test('C39 refuses malformed reports naming the field', async () => {
    const { roundtable } = await turn(async (services) => {
      await services.admitModelCall(call('c1'));
      for (const [extra, part] of MALFORMED) {
        await rejects(services.recordUsage(report('c1', extra)), 'invalid-config', part);
      }
      await rejects(services.recordUsage(undefined), 'invalid-config', 'report');
    });
    assert.equal(usage(roundtable)[0].status, 'reserved');
  });

  test('a raw report of null is kept as null', async () => {
    const { roundtable } = await turn(async (services) => {
      await services.admitModelCall(call('c1'));
      await services.recordUsage(report('c1', { raw: null }));
    });
    assert.equal(usage(roundtable)[0].raw, null);
  });
});

describe('C40 services are bound to one principal and turn', () => {
  test('C40 nobody can report for another', async () => {
    const admitted = deferred();
    const a = metered('a', async (_turn, { services }) => {
      await services.admitModelCall(call('of a'));
      admitted.resolve();
      await settled();
      return spoken;
    });
    let refusals = 0;
    const b = metered('b', async (_turn, { services }) => {
      await admitted.promise;
      await rejects(services.admitModelCall(call('of a')), 'conflict');
      await rejects(services.recordUsage(report('of a')), 'conflict', 'another');
      refusals += 1;
      return spoken;
    });
    const roundtable = conversation([a, b], { selector: selecting(parallel('a', 'b')), maxConcurrentParticipants: 2 });
    const result = await roundtable.run();
    assert.equal(result.status, 'completed', result.message);
    assert.equal(refusals, 1);
  });

  test('C40 a late report after the run ended is saved without an event; a late admission is refused', async () => {
    let kept;
    const { roundtable } = await turn(async (services) => {
      kept = services;
      await services.admitModelCall(call('c1'));
    });
    await rejects(kept.admitModelCall(call('c2')), 'conflict', 'over');
    const events = roundtable.events.length;
    await kept.recordUsage(report('c1', { tokens: { input: 7 } }));
    assert.deepEqual(usage(roundtable)[0].tokens, { input: 7 });
    assert.equal(roundtable.events.length, events);
    assert.equal((await journal(roundtable)).at(-1)[0], 'usage-reported/1');
    assert.equal(roundtable.snapshot().revision, (await roundtable.store.load(roundtable.id)).revision);
    await kept.recordUsage(report('c1', { tokens: { input: 7 } }));
    await roundtable.dispose();
    await rejects(kept.recordUsage(report('c1')), 'disposed');
    await rejects(kept.admitModelCall(call('c3')), 'disposed');
  });

  test('C40 the selector has a principal of its own', async () => {
    const select = async (_context, { services }) => {
      await services.admitModelCall(call('s1'));
      await services.recordUsage(report('s1'));
      return finish();
    };
    const selector = { select, modelCalls: 'metered', reference: { id: 'chooser', version: '2' } };
    const roundtable = conversation([metered('a')], { selector });
    await roundtable.run();
    const [record] = usage(roundtable);
    assert.deepEqual(record.principal, { kind: 'selector', id: 'chooser' });
    assert.deepEqual([record.turnId, record.groupId], [null, null]);
  });
});

describe('C35 model-call limits', () => {
  const caller = (id, calls, refused = []) =>
    metered(id, async ({ attemptId }, { services }) => {
      for (let index = 0; index < calls; index++) {
        try {
          await services.admitModelCall(call(`${attemptId}-${index}`));
          await services.recordUsage(report(`${attemptId}-${index}`));
        } catch (error) {
          refused.push(error);
          throw new Error('the call was refused', { cause: error });
        }
      }
      return { kind: 'speak', content: id };
    });

  for (const [name, expected] of [
    ['maxModelCallsPerRun', [2, 4]],
    ['maxModelCallsPerConversation', [2, 2]],
    ['maxModelCallsPerParticipant', [2, 2]],
  ]) {
    test(`C35 ${name}: the refused call is not dispatched and the run ends limited`, async () => {
      const refused = [];
      const roundtable = conversation([caller('a', 3, refused)], {
        selector: selecting(speak('a'), speak('a')),
        limits: { maxTurnsPerRun: 9, [name]: 2 },
      });
      const result = await roundtable.run();
      assert.deepEqual({ ...result, revision: 0 }, { status: 'limited', reason: 'model-calls', revision: 0 });
      assert.equal(refused.length, 1);
      assert.ok(refused[0] instanceof RoundtableError);
      assert.equal(refused[0].code, 'model-call-limit');
      assert.ok(refused[0].message.includes(name));
      assert.equal(usage(roundtable).length, expected[0]);
      assert.equal((await roundtable.run()).reason, 'model-calls');
      assert.equal(usage(roundtable).length, expected[1]);
      assert.equal(roundtable.snapshot().status, 'open', 'the conversation goes on');
    });
  }

  test('C35 a raised cap lets the conversation go on', async () => {
    const roundtable = conversation([caller('a', 3)], {
      selector: selecting(speak('a')),
      limits: { maxTurnsPerRun: 9, maxModelCallsPerConversation: 2 },
    });
    await roundtable.run();
    assert.equal((await roundtable.run({ limits: { maxModelCallsPerConversation: 5 } })).status, 'completed');
  });

  test('C35 running work settles before the run ends limited', async () => {
    const both = deferred();
    const slow = metered('slow', async (_turn, { services }) => {
      await services.admitModelCall(call('slow call'));
      both.resolve();
      await settled(10);
      await services.recordUsage(report('slow call'));
      return { kind: 'speak', content: 'slow' };
    });
    const refused = metered('refused', async (_turn, { services }) => {
      await both.promise;
      await services.admitModelCall(call('one too many'));
      return spoken;
    });
    const roundtable = conversation([slow, refused], {
      selector: selecting(parallel('slow', 'refused')),
      maxConcurrentParticipants: 2,
      limits: { maxTurnsPerRun: 9, maxModelCallsPerConversation: 1 },
    });
    // A group larger than the allowance of a run is not started; this one is a cap of the conversation.
    assert.equal((await roundtable.run()).reason, 'model-calls');
    const settledTurns = (await journal(roundtable)).filter(([kind]) => kind === 'turn-settled/1');
    assert.deepEqual(
      settledTurns.map(([, { outcome }]) => outcome.content),
      ['slow'],
    );
    assert.equal(usage(roundtable)[0].status, 'settled');
  });

  test('C39 cache hits spend no allowance', async () => {
    const { result, roundtable } = await turn(
      async (services) => {
        for (let index = 0; index < 5; index++) await services.recordUsage(cacheHit(`h${index}`));
        await services.admitModelCall(call('c1'));
      },
      {
        limits: {
          maxTurnsPerRun: 2,
          maxModelCallsPerRun: 1,
          maxModelCallsPerConversation: 1,
          maxModelCallsPerParticipant: 1,
        },
      },
    );
    assert.equal(result.status, 'completed');
    assert.equal(usage(roundtable).length, 6);
  });

  test('maxTokensPerRun is checked before each dispatch against reported tokens', async () => {
    const spending = metered('a', async ({ turnId }, { services }) => {
      await services.admitModelCall(call(turnId));
      await services.recordUsage(report(turnId, { tokens: { input: 60, output: 40 } }));
      return spoken;
    });
    const roundtable = conversation([spending], { limits: { maxTurnsPerRun: 9, maxTokensPerRun: 150 } });
    assert.equal((await roundtable.run()).reason, 'tokens');
    assert.equal(roundtable.snapshot().messages.length, 2, 'the call in flight overran it');
  });
});

test('C18 one usage event for each change of the ledger, with the record as it is then', async () => {
  const { roundtable } = await turn(async (services) => {
    await services.admitModelCall(call('c1'));
    await services.recordUsage(report('c1'));
    await services.recordUsage(report('c1'));
  });
  const events = roundtable.events.filter(({ type }) => type === 'usage');
  assert.deepEqual(
    events.map(({ record }) => record.status),
    ['reserved', 'settled'],
  );
  for (const { revision, record } of events) assert.equal(record.revision, revision);
  assert.deepEqual(events[1].record, usage(roundtable)[0]);
});
