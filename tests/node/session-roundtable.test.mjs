// Sessions inside conversations, through the package alone: waits, restarts from the store, limits, forks.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createRoundtable, forkRoundtable, loadRoundtable, roundRobin, sessionParticipant } from 'agent-roundtable';
import { calling, deferred, reply, settle, unhandled } from './support/agent.mjs';
import { noting } from './support/session.mjs';
import { batchesOf, durable, registry, storeOf } from './support/stored.mjs';

let count = 0;

/** A model that goes on from what it is shown, in whichever process: it writes once, then says so. */
const writer = (messages) => {
  const results = messages.filter(({ role }) => role === 'tool');
  return results.length === 0 ? calling(['t1', 'write', { path: 'a' }]) : reply(`done: ${results.at(-1).content}`);
};

/** One process: participants and the tool they share nothing but the world through. */
function process_({ model = writer, world = [], extra = {}, id = 'ana', ...participant } = {}) {
  const made = [];
  const agent = sessionParticipant({
    id,
    runtime: { id: `runtime-of-${id}`, version: '1' },
    createSessionOptions: () => {
      const replies = (messages) => model(messages);
      const provider = { name: 'p', requests: [], chat: async (messages) => replies(messages) };
      const write = noting('write', (_args, context) => {
        world.push(context.idempotencyKey);
        return 'written';
      });
      const options = { provider, model: 'm', tools: [write], ...extra };
      made.push(options);
      return options;
    },
    ...participant,
  });
  return { agent, world, made };
}

function create(agents, extra = {}) {
  const conversationId = `sessions-${count++}`;
  const store = extra.store ?? durable();
  const roundtable = createRoundtable({
    conversationId,
    participants: agents,
    limits: { maxTurnsPerRun: 1 },
    store,
    ...extra,
  });
  return Object.assign(roundtable, { id: conversationId, store });
}

const load = (id, store, { agent }, extra = {}) =>
  loadRoundtable({ conversationId: id, store, registry: registry([agent]), ...extra });

async function answerAll(roundtable, { requests }, approved = true, extra = {}) {
  for (const request of requests) {
    const { revision: expectedRevision } = roundtable.snapshot();
    const response = { kind: 'approval', approved, ...extra };
    await roundtable.resume({ requestId: request.id, responseId: `to ${request.id}`, expectedRevision, response });
  }
}

const words = (roundtable) => roundtable.snapshot().messages.map(({ content }) => content);

describe('in one process', () => {
  test('A68 A69 a run waits for an approval, and the next one publishes; the effect happens once', async () => {
    const made = process_();
    const table = create([made.agent], { store: undefined, recovery: 'none' });
    const waiting = await table.run();
    assert.equal(waiting.status, 'waiting');
    const [request] = waiting.requests;
    assert.deepEqual([request.kind, request.memberId, request.data.toolName], ['approval', 'ana', 'write']);
    assert.deepEqual(made.world, []);
    assert.deepEqual((await table.run()).requests, waiting.requests, 'waiting lists what is open');
    await answerAll(table, waiting);
    assert.equal((await table.run()).status, 'limited');
    assert.deepEqual(words(table), ['done: written']);
    assert.equal(made.world.length, 1);
    await table.dispose();
  });

  test('A76 F a parked wait is taken over by a second handle while the first is still there', async () => {
    const made = process_();
    const first = create([made.agent]);
    const waiting = await first.run();
    const second = await load(first.id, first.store, made);
    await answerAll(second, waiting);
    assert.equal((await second.run()).status, 'limited');
    assert.deepEqual(words(second), ['done: written']);
    assert.equal(made.world.length, 1);
    await second.dispose();
    // The first one catches up, in a session opened from what the second left.
    assert.equal((await first.run()).status, 'limited');
    assert.equal(words(first)[0], 'done: written');
    await first.dispose();
  });

  test('A58 two conversations of one id and one seed, in two stores, know nothing of each other', async () => {
    const conversationId = `sessions-${count++}`;
    const made = ['one', 'two'].map((said) => {
      const model = (messages) => {
        const results = messages.filter(({ role }) => role === 'tool');
        return results.length === 0 ? calling(['t1', 'write', { path: said }]) : reply(`${said} done`);
      };
      return process_({ model });
    });
    const tables = made.map(({ agent }) => create([agent], { conversationId, seed: 'the same' }));
    const waiting = await Promise.all(tables.map((table) => table.run()));
    assert.deepEqual(
      waiting.map(({ requests: [{ data }] }) => data.arguments),
      [{ path: 'one' }, { path: 'two' }],
    );
    for (const [index, table] of tables.entries()) {
      await answerAll(table, waiting[index]);
      await table.run();
    }
    assert.deepEqual(tables.map(words), [['one done'], ['two done']]);
    await Promise.all(tables.map((table) => table.dispose()));
    assert.deepEqual(
      made.map(({ world }) => world.length),
      [1, 1],
    );
  });

  test('A76 a parked wait is found again where its record is reached through another store object, or copied', async () => {
    for (const move of [durable, async (store, id) => storeOf(id, await batchesOf(store, id))]) {
      const made = process_();
      const table = create([made.agent]);
      const waiting = await table.run();
      await table.dispose();
      const again = await load(table.id, await move(table.store, table.id), made);
      await answerAll(again, waiting);
      await again.run();
      assert.deepEqual([words(again), made.world.length], [['done: written'], 1]);
      await again.dispose();
    }
  });

  test('A70 C30b denied with a reason, or withdrawn: the model is told, nothing runs', async () => {
    for (const withdrawn of [false, true]) {
      const made = process_();
      const table = create([made.agent]);
      const waiting = await table.run();
      const [{ id: requestId }] = waiting.requests;
      const { revision: expectedRevision } = table.snapshot();
      if (withdrawn) await table.withdraw({ requestId, expectedRevision, by: 'host', reason: 'too late' });
      else await answerAll(table, waiting, false, { reason: 'too late' });
      await table.run();
      assert.match(words(table)[0], /denied.*too late/);
      assert.deepEqual(made.world, []);
      await table.dispose();
    }
  });

  test('A65 two sessions of a group are both called before either replies', async () => {
    const both = deferred();
    let called = 0;
    const model = async () => {
      if (++called === 2) both.resolve();
      await both.promise;
      return reply('met');
    };
    const agents = ['ana', 'bo'].map((id) => process_({ id, model }).agent);
    const selector = { select: () => ({ kind: 'parallel', participantIds: ['ana', 'bo'] }) };
    const table = create(agents, { selector, maxConcurrentParticipants: 2, limits: { maxTurnsPerRun: 2 } });
    await table.run();
    assert.deepEqual(words(table), ['met', 'met']);
    await table.dispose();
  });

  test('A66 a limit of one call and a tool round: limited, and the next run goes on', async () => {
    const made = process_({ extra: { permissions: { allow: ['*'] } } });
    const table = create([made.agent], { limits: { maxTurnsPerRun: 1, maxModelCallsPerRun: 1 } });
    const result = await table.run();
    assert.deepEqual([result.status, result.reason], ['limited', 'model-calls']);
    assert.equal(table.snapshot().usage.length, 1);
    await table.run({ limits: { maxTurnsPerRun: 1, maxModelCallsPerRun: 5 } });
    assert.deepEqual(words(table), ['done: written']);
    await table.dispose();
  });

  test('A66 a continued turn that meets the limit keeps what its tool did', async () => {
    for (const recovery of ['none', 'durable']) {
      const made = process_();
      const table = create([made.agent], { recovery });
      await answerAll(table, await table.run());
      const limits = { maxTurnsPerRun: 1, maxModelCallsPerConversation: 1 };
      assert.deepEqual((await table.run({ limits })).reason, 'model-calls');
      assert.equal(made.world.length, 1);
      await table.run({ limits: { maxTurnsPerRun: 1, maxModelCallsPerConversation: 9 } });
      assert.deepEqual(words(table), ['done: written'], recovery);
      assert.equal(made.world.length, 1);
      await table.dispose();
    }
  });

  test('A79 a slow event handler, cancelled mid-delta: the run is cancelled, nothing is unhandled', async () => {
    const stream = async function* () {
      for (const text of ['one ', 'two ', 'three ']) yield reply(text, { state: 'interrupted' });
      yield reply('');
    };
    // Also one that fails when nobody waits for it any more.
    for (const end of [() => undefined, () => Promise.reject(new Error('too late'))]) {
      const controller = new AbortController();
      const told = [];
      const onEvent = async (event) => {
        if (event.type !== 'delta') return;
        told.push(event);
        controller.abort();
        await settle();
        await end();
      };
      const seen = await unhandled(async () => {
        const table = create([process_({ extra: { provider: { name: 'p', chatStream: stream } } }).agent], { onEvent });
        assert.equal((await table.run({ signal: controller.signal })).status, 'cancelled');
        await settle();
        await table.dispose();
      });
      assert.deepEqual([seen, told.length], [[], 1]);
    }
  });

  test('C32 a continued turn that is cancelled is continued by the next run with the same answers', async () => {
    for (const recovery of ['none', 'durable']) {
      const controller = new AbortController();
      let calls = 0;
      const model = (messages) => {
        if (++calls !== 2) return writer(messages);
        controller.abort();
        return new Promise(() => {});
      };
      const made = process_({ model });
      const table = create([made.agent], { recovery });
      await answerAll(table, await table.run());
      assert.equal((await table.run({ signal: controller.signal })).status, 'cancelled');
      assert.equal((await table.run()).status, 'limited');
      assert.deepEqual(words(table), ['done: written'], recovery);
      assert.equal(made.world.length, 1);
      await table.dispose();
    }
  });

  test('F no event, snapshot or transcript holds arguments of a call that needed no approval, or its result', async () => {
    const events = [];
    const canaries = (messages) =>
      messages.some(({ role }) => role === 'tool') ? reply('public') : calling(['t', 'write', { canary: 'CANARY' }]);
    const extra = { permissions: { allow: ['*'] }, systemMessage: 'CANARY' };
    const table = create([process_({ model: canaries, extra }).agent], {
      recovery: 'durable',
      onEvent: (event) => void events.push(event),
    });
    await table.run();
    assert.ok(!JSON.stringify([events, table.snapshot()]).includes('CANARY'));
    await table.dispose();
  });
});

describe('a run that is cancelled while a tool runs', () => {
  const once = {
    reference: { id: 'once', version: '1' },
    select: ({ turns }) =>
      turns.length === 0 ? { kind: 'speak', participantId: 'ana' } : { kind: 'finish', reason: '' },
  };

  /** A session whose tool ends when the test says so; `gated` asks first. Running until the tool does. */
  async function working({ gated, recovery, idempotent = false, limits = {}, store }) {
    const finish = deferred();
    const began = deferred();
    const world = [];
    const tools = () => [
      noting(
        'write',
        (_args, context) => {
          world.push(context.idempotencyKey);
          began.resolve();
          return world.length === 1 ? finish.promise : 'written again';
        },
        { idempotent },
      ),
    ];
    const participant = sessionParticipant({
      id: 'ana',
      runtime: { id: 'runtime-of-ana', version: '1' },
      createSessionOptions: () => ({
        provider: { name: 'p', chat: async (messages) => writer(messages) },
        model: 'm',
        tools: tools(),
        permissions: gated ? { ask: ['*'] } : { allow: ['*'] },
      }),
    });
    const table = create([participant], {
      recovery,
      limits: { maxTurnsPerRun: 1, ...limits },
      selector: once,
      ...(store ? { store } : {}),
    });
    if (gated) await answerAll(table, await table.run());
    const controller = new AbortController();
    const running = table.run({ signal: controller.signal });
    await began.promise;
    return { table, controller, running, finish, world, agent: participant };
  }

  const each = [true, false].flatMap((gated) => ['durable', 'none'].map((recovery) => ({ gated, recovery })));
  const named = ({ gated, recovery }) => `${gated ? 'an approved' : 'an allowed'} tool, recovery ${recovery}`;

  for (const kind of each) {
    test(`C31 C32 it is awaited, and its result is used by the next run: ${named(kind)}`, async () => {
      const { table, controller, running, finish, world } = await working(kind);
      controller.abort();
      let over = false;
      void running.then(() => (over = true));
      await settle();
      assert.equal(over, false);
      finish.resolve('written late');
      assert.equal((await running).status, 'cancelled');
      assert.deepEqual(words(table), []);
      await table.run();
      assert.deepEqual([words(table), world.length], [['done: written late'], 1]);
      await table.dispose();
    });

    test(`C36 C49 beyond settleTimeoutMs it is the host that decides: ${named(kind)}`, async () => {
      for (const decision of ['retry', 'settle', 'fail']) {
        const made = await working({ ...kind, limits: { settleTimeoutMs: 20 } });
        const { table, controller, running, world } = made;
        controller.abort();
        assert.equal((await running).status, 'cancelled');
        assert.equal(table.snapshot().status, 'recovery-required');
        const refused = await table.run().catch((error) => error);
        assert.equal(refused.code, 'recovery-required');
        const [{ turnId }] = refused.turns;
        const { revision: expectedRevision } = table.snapshot();
        const decisions = {
          retry: { kind: 'retry' },
          settle: {
            kind: 'settle',
            outcome: { kind: 'speak', content: 'it was written' },
            checkpoint: { version: 'session/1', data: null },
          },
          fail: { kind: 'fail', message: 'lost' },
        };
        await table.reconcile({ turnId, expectedRevision, by: 'host', decision: decisions[decision] });
        const { status } = await table.run();
        if (decision === 'retry') assert.deepEqual([words(table), world.length], [['done: written again'], 2]);
        if (decision === 'settle') assert.deepEqual([words(table)[0], world.length], ['it was written', 1]);
        if (decision === 'fail') assert.deepEqual([status, world.length], ['failed', 1]);
        await table.dispose();
      }
    });
  }

  test('C32 a tool that may run twice is not waited for, and runs again under its key', async () => {
    for (const gated of [true, false]) {
      const made = await working({ gated, recovery: 'durable', idempotent: true });
      const { table, controller, running, finish, world } = made;
      controller.abort();
      await settle();
      // Too late: by now the run has ended without it.
      finish.resolve('waited for');
      assert.equal((await running).status, 'cancelled');
      await table.run();
      assert.deepEqual([words(table), world.length, new Set(world).size], [['done: written again'], 2, 1]);
      await table.dispose();
    }
  });

  test('C45 a result that the store did not take leaves the turn to the host, and no effect is repeated', async () => {
    for (const gated of [true, false]) {
      const kept = durable();
      let broken = false;
      const append = async (batch) => {
        if (broken) throw new Error('disk full');
        return kept.append(batch);
      };
      const made = await working({ gated, recovery: 'durable', store: { ...kept, append } });
      broken = true;
      made.finish.resolve('written');
      const failed = await made.running.catch((error) => error);
      assert.equal(failed.code, 'unavailable');
      broken = false;
      const refused = await made.table.run().catch((error) => error);
      assert.equal(refused.code, 'recovery-required', refused.stack);
      assert.match(refused.turns[0].error, /write/);
      assert.equal(made.world.length, 1);
      const { revision: expectedRevision } = made.table.snapshot();
      const decision = { kind: 'retry' };
      await made.table.reconcile({ turnId: refused.turns[0].turnId, expectedRevision, by: 'host', decision });
      await made.table.run();
      assert.deepEqual([words(made.table), made.world.length], [['done: written again'], 2]);
      await made.table.dispose();
    }
  });
});

describe('across a restart', () => {
  /** A conversation that is parked, and its store as another process finds it. */
  async function parked(options = {}) {
    const made = process_(options);
    const table = create([made.agent], { recovery: 'durable' });
    const waiting = await table.run();
    await table.dispose();
    return { ...made, id: table.id, store: table.store, waiting };
  }

  test('A76 a parked approval is answered and finished from the store alone', async () => {
    const { id, store, waiting, world } = await parked();
    const fresh = process_({ world });
    const table = await load(id, store, fresh);
    assert.deepEqual(table.snapshot().requests, waiting.requests, 'open waits are known without running');
    await answerAll(table, waiting);
    await table.run();
    assert.deepEqual(words(table), ['done: written']);
    assert.equal(world.length, 1);
    await table.dispose();
  });

  test('A76 without a durable journal the same process still finishes it', async () => {
    const made = process_();
    const table = create([made.agent]);
    const waiting = await table.run();
    await table.dispose();
    const again = await load(table.id, table.store, process_({ world: made.world }));
    await answerAll(again, waiting);
    await again.run();
    assert.deepEqual(words(again), ['done: written']);
    assert.equal(made.world.length, 1);
    await again.dispose();
  });

  test('K11 a runtime that is made differently is refused while something waits', async () => {
    const { id, store, waiting, world } = await parked();
    const table = await load(id, store, process_({ world, extra: { systemMessage: 'new' } }));
    await answerAll(table, waiting);
    await assert.rejects(table.run(), (error) => {
      assert.deepEqual([error.code, error.cause.code], ['unavailable', 'checkpoint-invalid']);
      assert.match(error.message, /systemMessage/);
      return true;
    });
    assert.deepEqual(world, []);
    await table.dispose();
    // The host mends its options; nothing is lost.
    const mended = await load(id, store, process_({ world }));
    await mended.run();
    assert.deepEqual([words(mended), world.length], [['done: written'], 1]);
    await mended.dispose();
  });

  test('C50 killed after any batch: continued with one effect, or recovery-required', async () => {
    // The effects at the time of each batch, of a turn with a wait and a second approval after it.
    const twice = (messages) => {
      const results = messages.filter(({ role }) => role === 'tool').length;
      return results < 2 ? calling([`t${results}`, 'write', { n: results }]) : reply('done');
    };
    const world = [];
    const made = process_({ model: twice, world });
    const effects = [];
    const store = durable();
    const watched = { ...store, append: async (batch) => store.append(batch).finally(() => effects.push([...world])) };
    const table = create([made.agent], { recovery: 'durable', store: watched, limits: { maxTurnsPerRun: 9 } });
    for (let result = await table.run(); result.status === 'waiting'; result = await table.run()) {
      await answerAll(table, result);
      if (table.snapshot().messages.length > 0) break;
    }
    await table.dispose();
    const batches = await batchesOf(store, table.id);
    assert.deepEqual(effects.at(-1).length, 2);

    const ends = { continued: 0, recovery: 0, retried: 0 };
    for (let cut = 1; cut <= batches.length; cut++) {
      const happened = [...(effects[cut - 2] ?? [])];
      const left = await storeOf(table.id, batches.slice(0, cut));
      const fresh = process_({ model: twice, world: [...happened] });
      let handle;
      let recovered = false;
      try {
        handle = await load(table.id, left, fresh);
        ends.continued++;
      } catch (error) {
        assert.equal(error.code, 'recovery-required', `batch ${cut}: ${error.message}`);
        ends.recovery++;
        recovered = true;
        handle = await load(table.id, left, fresh, { unsettled: 'reconcile' });
        const [turn] = error.turns;
        const { revision: expectedRevision } = handle.snapshot();
        await handle.reconcile({
          turnId: turn.turnId ?? turn.id ?? turn,
          expectedRevision,
          by: 'host',
          decision: { kind: 'retry' },
        });
        ends.retried++;
      }
      let result = await handle.run({ limits: { maxTurnsPerRun: 1 } });
      for (let step = 0; step < 5 && result.status === 'waiting'; step++) {
        await answerAll(handle, result);
        result = await handle.run({ limits: { maxTurnsPerRun: 1 } });
      }
      assert.equal(words(handle)[0], 'done', `batch ${cut}`);
      const seen = new Set(fresh.world);
      assert.equal(seen.size, 2, `batch ${cut}`);
      // A host that says `retry` without looking repeats the one effect whose result was lost, and no other.
      const most = recovered ? 3 : 2;
      assert.ok(fresh.world.length <= most, `batch ${cut}: ${fresh.world}`);
      await handle.dispose();
    }
    assert.ok(ends.continued >= 3 && ends.recovery >= 3, JSON.stringify(ends));
  });

  test('C44 start, admission and request leave in one batch, and so do a reply and its report', async () => {
    const made = process_({ extra: { permissions: { allow: ['*'] } } });
    const table = create([made.agent], { recovery: 'durable' });
    await table.run();
    const kinds = (await batchesOf(table.store, table.id)).map(({ entries }) =>
      entries.map((line) => {
        const [[kind, fields]] = Object.entries(JSON.parse(line));
        return kind === 'execution-recorded/1' ? fields.record.kind : kind.split('/')[0];
      }),
    );
    const turn = kinds.filter((batch) => batch.some((kind) => /^(execution|model|tool|call|usage)/.test(kind)));
    assert.deepEqual(turn, [
      ['execution-start', 'call-admitted', 'model-request'],
      ['model-response', 'usage-reported'],
      ['tool-intent'],
      ['tool-result', 'call-admitted', 'model-request'],
      ['model-response', 'usage-reported'],
    ]);
    await table.dispose();
  });

  test('F two hosts load one parked approval: exactly one acts, and the effect happens once', async () => {
    for (let round = 0; round < 20; round++) {
      const { id, store, waiting, world } = await parked();
      const hosts = await Promise.all(['one', 'two'].map((name) => load(id, store, process_({ world }), { name })));
      const [{ id: requestId }] = waiting.requests;
      const act = async (host) => {
        const { revision: expectedRevision } = host.snapshot();
        const response = { kind: 'approval', approved: true };
        await host.resume({ requestId, responseId: 'yes', expectedRevision, response });
        return host.run();
      };
      const results = await Promise.allSettled(hosts.map(act));
      for (const { status, reason } of results)
        if (status === 'rejected') assert.ok(['busy', 'conflict', 'stale-claim'].includes(reason.code), reason.stack);
      const finished = await load(id, store, process_({ world }), { unsettled: 'reconcile' });
      if (finished.snapshot().messages.length === 0) await finished.run();
      assert.deepEqual(words(finished), ['done: written']);
      assert.equal(world.length, 1);
      await Promise.all([...hosts, finished].map((host) => host.dispose()));
    }
  });

  test('C52a a fork takes over the history under a session of its own', async () => {
    const model = (messages) => reply(`shown ${messages.length}`);
    const made = process_({ model });
    const table = create([made.agent], { recovery: 'durable', selector: roundRobin() });
    await table.run();
    await table.dispose();
    const newConversationId = `${table.id}-fork`;
    await forkRoundtable({ store: table.store, conversationId: table.id, newConversationId });
    for (const id of [newConversationId, table.id]) {
      const handle = await load(id, table.store, process_({ model }));
      await handle.run({ limits: { maxTurnsPerRun: 1 } });
      assert.deepEqual(words(handle), ['shown 1', 'shown 3'], id);
      await handle.dispose();
    }
  });
});
