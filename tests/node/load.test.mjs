// Loading: a stored conversation bound to what a registry gives, and gone on with.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  createRoundtable,
  externalParticipant,
  forkRoundtable,
  loadRoundtable,
  MemoryConversationStore,
  roundRobin,
} from 'agent-roundtable';
import { parallel, refuses, rejects, speak, transcript, wait } from './support/conversations.mjs';
import { sealed } from './support/sealed.mjs';
import {
  asksLeave,
  asksPerson,
  batchesOf,
  durable,
  finish,
  go,
  listed,
  load,
  registry,
  steady,
  storeOf,
} from './support/stored.mjs';

let count = 0;

/** The parts of a conversation of every phase, made anew for each process. */
function parts() {
  const a = steady('a', ['a one', { asks: [asksLeave], after: 'a two' }, 'a three']);
  const b = steady('b', ['b one', { asks: [asksPerson('pia'), asksLeave], after: 'b two' }, '']);
  const selector = listed(speak('a'), parallel('b', 'a'), wait('pia', 'what now?'), parallel('a', 'b'), speak('b'));
  return { agents: [a, b], selector };
}

function create({ agents, selector }, extra = {}) {
  count += 1;
  const options = {
    conversationId: `stored-${count}`,
    purpose: 'to last',
    participants: [...agents, externalParticipant({ id: 'pia', description: 'a person' })],
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

/** One turn of `a` has been published; another process may go on. */
async function stored(extra = {}) {
  const made = parts();
  const roundtable = create(made, extra);
  await roundtable.run({ limits: { maxTurnsPerRun: 1 } });
  await roundtable.dispose();
  return { ...made, id: roundtable.id, store: roundtable.store, before: roundtable.snapshot };
}

describe('C48 loading', () => {
  test('C48 a conversation goes on in another handle with its cursors, private states and selector', async () => {
    const { id, store } = await stored();
    const { agents, selector } = parts();
    const roundtable = await load(id, store, agents, selector);
    assert.deepEqual(transcript(roundtable), ['a: a one']);
    const snapshot = roundtable.snapshot();
    assert.equal(snapshot.purpose, 'to last');
    assert.equal(snapshot.turns.length, 1);
    assert.deepEqual(snapshot.participants.at(-1), { id: 'pia', kind: 'external', description: 'a person' });
    assert.equal((await go(roundtable)).status, 'waiting');
    assert.deepEqual(agents[0].opened[0].checkpoint, { version: 'v1', data: { turns: 1, asked: false } });
    assert.deepEqual(selector.created, [{ version: 's1', data: 1 }]);
    await finish(roundtable);
    assert.equal(transcript(roundtable).at(-1), 'b: b two so be it true');
  });

  test('C48 the delivery cursors survive: nothing is shown twice and nothing is left out', async () => {
    const shown = (made) => {
      const seen = [];
      for (const agent of made.agents) {
        const { openSession } = agent.factory;
        agent.factory.openSession = async (context) => {
          const lease = await openSession(context);
          const { runTurn } = lease.session;
          lease.session.runTurn = (turn, options) => {
            seen.push([agent.id, turn.context.messages.map(({ content }) => content)]);
            return runTurn(turn, options);
          };
          return lease;
        };
      }
      return seen;
    };
    const whole = parts();
    const expected = shown(whole);
    await finish(create(whole));
    const seen = [];
    let made = parts();
    seen.push(shown(made));
    let roundtable = create(made);
    for (;;) {
      const result = await roundtable.run({ limits: { maxTurnsPerRun: 2 } });
      if (result.status === 'waiting') await finish(roundtable);
      await roundtable.dispose();
      if (result.status === 'completed' || result.status === 'waiting') break;
      made = parts();
      seen.push(shown(made));
      roundtable = await load(roundtable.id, roundtable.store, made.agents, made.selector).then((loaded) =>
        Object.assign(loaded, { id: roundtable.id, store: roundtable.store }),
      );
    }
    const counted = (list) => list.map((entry) => JSON.stringify(entry)).sort();
    assert.ok(seen.length > 1);
    assert.deepEqual(counted(seen.flat()), counted(expected));
  });

  test('C51 ids go on in their sequence: none is used twice', async () => {
    const { id, store } = await stored();
    const { agents, selector } = parts();
    const roundtable = await load(id, store, agents, selector);
    await finish(await roundtable);
    const { messages, turns } = roundtable.snapshot();
    const ids = [...messages.map((message) => message.id), ...turns.map((turn) => turn.id)];
    assert.equal(new Set(ids).size, ids.length);
    assert.ok(ids.length > 10);
  });

  test('C10 the built-in policy is found without the registry, at its place in the round', async () => {
    const made = parts();
    const roundtable = create(made, { selector: roundRobin(), participants: made.agents });
    await roundtable.run({ limits: { maxTurnsPerRun: 1 } });
    const loaded = await load(roundtable.id, roundtable.store, parts().agents, undefined);
    await loaded.run({ limits: { maxTurnsPerRun: 1 } });
    assert.deepEqual(
      loaded.snapshot().turns.map((turn) => turn.participantId),
      ['a', 'b'],
    );
  });

  test('C46 loading writes nothing and claims nothing', async () => {
    const { id, store, agents, selector } = await stored();
    const before = await store.load(id);
    const quiet = { ...store, claim: () => assert.fail('claimed'), append: () => assert.fail('appended') };
    const loaded = await load(id, quiet, agents, selector);
    assert.deepEqual(await store.load(id), before);
    await loaded.dispose();
    assert.deepEqual(await store.load(id), before);
  });

  test('C46 a loaded handle that another has overtaken catches up before it acts, its selector too', async () => {
    const { id, store } = await stored();
    const [one, other] = [parts(), parts()];
    const slow = await load(id, store, one.agents, one.selector);
    const quick = await load(id, store, other.agents, other.selector);
    await go(quick);
    assert.equal((await go(slow)).status, 'waiting');
    assert.deepEqual(slow.snapshot().requests, quick.snapshot().requests);
    await finish(quick);
    assert.equal((await go(slow)).status, 'completed');
    assert.deepEqual(transcript(slow), transcript(quick));
    const { id: third, store: kept } = await stored();
    const [late, early] = [parts(), parts()];
    const behind = await load(third, kept, late.agents, late.selector);
    const ahead = await load(third, kept, early.agents, early.selector);
    let result = await go(ahead);
    for (const request of result.requests) {
      const response =
        request.kind === 'approval' ? { kind: 'approval', approved: true } : { kind: 'input', content: 'y' };
      const { revision: expectedRevision } = ahead.snapshot();
      await ahead.resume({ requestId: request.id, responseId: request.id, expectedRevision, response });
    }
    result = await go(ahead);
    assert.equal(result.requests[0].reason, 'what now?');
    await finish(behind);
    assert.deepEqual(
      late.selector.created.map((checkpoint) => checkpoint.data),
      [1, 3],
    );
    assert.equal(transcript(behind).length, 7);
  });

  test('C48 a conversation that has ended is loaded with its last word', async () => {
    const made = parts();
    const roundtable = create(made);
    const last = await finish(roundtable);
    const loaded = await load(roundtable.id, roundtable.store, made.agents, made.selector);
    assert.deepEqual(await loaded.run(), { ...last, revision: loaded.snapshot().revision });
    assert.equal(loaded.snapshot().status, 'completed');
    assert.deepEqual(loaded.snapshot().messages, roundtable.snapshot().messages);
  });

  test('C46 an unknown conversation is not-found, a store that fails unavailable', async () => {
    await rejects(load('nobody knows', durable(), []), 'not-found', 'nobody knows');
    const cause = new Error('the cable is out');
    const broken = durable(undefined, { load: async () => Promise.reject(cause) });
    assert.equal((await rejects(load('x', broken, []), 'unavailable')).cause, cause);
    for (const bad of [7, {}, { kind: 'roundtable', schemaVersion: 1, revision: 1 }]) {
      const odd = durable(undefined, { load: async () => bad });
      const error = await load('x', odd, []).catch((reason) => reason);
      assert.ok(['invalid-record', 'unavailable'].includes(error.code), error.message);
    }
  });

  test('C43 a record of another kind, version, conversation or revision is refused', async () => {
    const { id, store, agents, selector } = await stored();
    for (const change of [{ kind: 'team' }, { schemaVersion: 2 }, { revision: 99 }]) {
      const other = { ...store, load: async () => ({ ...(await store.load(id)), ...change }) };
      await rejects(load(id, other, agents, selector), 'invalid-record');
    }
    const swapped = { ...store, load: async () => store.load(id) };
    await rejects(load('another id', swapped, agents, selector), 'invalid-record', 'another conversation');
  });

  test('C1 malformed options are refused naming the option', async () => {
    const { id: conversationId, store, agents, selector } = await stored();
    const good = { conversationId, store, registry: registry(agents, selector) };
    for (const [change, part] of [
      [{ conversationId: '' }, 'conversationId'],
      [{ store: undefined }, 'store'],
      [{ store: { ...store, load: undefined } }, 'store.load'],
      [{ store: { ...store, append: 5 } }, 'store.append'],
      [{ registry: undefined }, 'registry'],
      [{ registry: {} }, 'registry.resolveParticipant'],
      [{ registry: { ...good.registry, migrate: 'no' } }, 'registry.migrate'],
      [{ unsettled: 'maybe' }, 'unsettled'],
      [{ onEvent: 'no' }, 'onEvent'],
      [{ clock: {} }, 'clock'],
      [{ pricing: { version: 'p' } }, 'pricing.cost'],
    ]) {
      await rejects(loadRoundtable({ ...good, ...change }), 'invalid-config', part);
    }
    await rejects(loadRoundtable(undefined), 'invalid-config', 'options');
  });
});

describe('C52a loading a fork', () => {
  test('C52a a fork goes on from its copy, and every session is told where it came from', async () => {
    const { id, store } = await stored();
    const forked = await forkRoundtable({ store, conversationId: id, newConversationId: `${id} again` });
    const { agents, selector } = parts();
    const roundtable = await load(forked.conversationId, store, agents, selector);
    await finish(roundtable);
    assert.equal(transcript(roundtable).length, 7);
    const { forkedFrom, checkpoint, conversationId } = agents[0].opened[0];
    assert.equal(forkedFrom.conversationId, id);
    assert.equal(conversationId, `${id} again`);
    assert.deepEqual(checkpoint.data, { turns: 1, asked: false });
    const original = parts();
    const loaded = await load(id, store, original.agents, original.selector);
    await finish(loaded);
    assert.equal(original.agents[0].opened[0].forkedFrom, undefined);
    const ids = (conversation) =>
      conversation
        .snapshot()
        .messages.slice(1)
        .map((message) => message.id);
    assert.equal(
      ids(loaded).some((known) => ids(roundtable).includes(known)),
      false,
    );
  });
});

describe('C47 binding', () => {
  const mismatch = async (change, ...named) => {
    const { id, store } = await stored(change.options);
    const made = parts();
    await change.before?.(made);
    const extra = change.extra?.(made) ?? {};
    return rejects(
      load(id, change.store?.(store) ?? store, made.agents, made.selector, extra),
      'invalid-config',
      ...named,
    );
  };

  test('C47 a runtime of another id or version is refused by name', async () => {
    await mismatch({ before: ({ agents }) => (agents[1].runtime.version = '2') }, '"b"', '"2"', '"1"');
    const renamed = ({ agents, selector }) => ({
      registry: {
        ...registry(agents, selector),
        resolveParticipant: ({ id }) => ({ reference: { id: `${id}!`, version: '1' }, factory: agents[0].factory }),
      },
    });
    await mismatch({ extra: renamed }, '"a"', 'runtime-of-a!');
  });

  test('C47 what the registry throws, leaves out or misshapes is refused by name', async () => {
    const giving = (resolveParticipant) => ({
      extra: ({ agents, selector }) => ({ registry: { ...registry(agents, selector), resolveParticipant } }),
    });
    const cause = new Error('who?');
    const error = await mismatch(
      giving(() => {
        throw cause;
      }),
      '"a"',
      'who?',
    );
    assert.equal(error.cause, cause);
    await mismatch(
      giving(() => undefined),
      '"a"',
    );
    await mismatch(
      giving(({ id, version }) => ({ reference: { id, version } })),
      '"a"',
      'factory',
    );
    await mismatch(
      giving(({ id, version }) => ({ reference: { id, version }, factory: {} })),
      '"a"',
      'openSession',
    );
    await mismatch(
      giving((reference) => ({ reference: { ...reference, version: 5 }, factory: { openSession() {} } })),
      'version',
    );
  });

  test('C47 a saved checkpoint version that is not listed any more is refused', async () => {
    await mismatch({ before: ({ agents }) => (agents[0].factory.checkpointVersions = ['v2']) }, '"a"', 'v1');
  });

  test('C47 a parked wait needs continuation', async () => {
    const made = parts();
    const roundtable = create(made);
    assert.equal((await go(roundtable)).status, 'waiting');
    const now = parts();
    now.agents[0].factory.supportsContinuation = false;
    await rejects(
      load(roundtable.id, roundtable.store, now.agents, now.selector),
      'invalid-config',
      '"a"',
      'continuation',
    );
  });

  test('F C47 a participant that is missing while its wait is open is an error; the wait stays', async () => {
    const made = parts();
    const roundtable = create(made);
    const { requests } = await go(roundtable);
    assert.ok(requests.length > 0);
    const { revision } = roundtable.snapshot();
    await roundtable.dispose();
    const now = parts();
    const found = registry(now.agents, now.selector);
    for (const agent of now.agents) {
      const resolveParticipant = (reference) =>
        reference.id === agent.runtime.id ? undefined : found.resolveParticipant(reference);
      const extra = { registry: { ...found, resolveParticipant } };
      await rejects(
        load(roundtable.id, roundtable.store, now.agents, now.selector, extra),
        'invalid-config',
        `"${agent.id}"`,
      );
    }
    const loaded = await load(roundtable.id, roundtable.store, now.agents, now.selector);
    assert.deepEqual(loaded.snapshot().requests, requests);
    assert.equal(loaded.snapshot().revision, revision);
    await loaded.dispose();
  });

  test('C47 another declaration of model calls is refused', async () => {
    const made = parts();
    for (const agent of made.agents) agent.factory.modelCalls = 'metered';
    const roundtable = create(made);
    await roundtable.run({ limits: { maxTurnsPerRun: 1 } });
    const now = parts();
    now.agents[0].factory.modelCalls = 'none';
    await rejects(
      load(roundtable.id, roundtable.store, now.agents, now.selector),
      'invalid-config',
      '"a"',
      'modelCalls',
    );
  });

  test('C47 the selector is found under its reference, with its checkpoint version', async () => {
    const { id, store } = await stored();
    for (const [change, ...named] of [
      [{ reference: { id: 'listed', version: '2' } }, 'selector', '"2"', '"1"'],
      [{ reference: { id: 'other', version: '1' } }, 'selector', 'other'],
      [{ reference: undefined }, 'selector', 'reference'],
      [{ checkpointVersions: ['s2'] }, 'selector', 's1'],
      [{ checkpointVersions: undefined }, 'selector', 's1'],
      [{ create: undefined }, 'selector', 'create'],
      [{ create: () => ({}) }, 'selector.select'],
      [{ create: () => roundRobin() }, 'selector'],
      [
        {
          create: () => {
            throw new Error('no state');
          },
        },
        'selector.create',
        'no state',
      ],
    ]) {
      const { agents, selector } = parts();
      await rejects(load(id, store, agents, { ...selector, ...change }), 'invalid-config', ...named);
    }
    await rejects(load(id, store, parts().agents, undefined), 'invalid-config', 'resolveSelector');
  });

  test('C47 a selector without a reference cannot be found again', async () => {
    const made = parts();
    const selector = { ...made.selector.create({}), reference: undefined };
    const roundtable = create(made, { selector, recovery: 'none' });
    await roundtable.run({ limits: { maxTurnsPerRun: 1 } });
    await rejects(load(roundtable.id, roundtable.store, made.agents, made.selector), 'invalid-config', 'selector');
  });

  test('C47 a selector that declares other model calls is refused', async () => {
    const made = parts();
    const roundtable = create(made, { selector: { ...made.selector.create({}), modelCalls: 'metered' } });
    await roundtable.run({ limits: { maxTurnsPerRun: 1 } });
    await rejects(
      load(roundtable.id, roundtable.store, made.agents, made.selector),
      'invalid-config',
      'selector',
      'modelCalls',
    );
  });

  test('C47 the price policy has the stored version, and none where none is stored', async () => {
    const pricing = { version: 'p1', cost: () => null };
    await mismatch({ extra: () => ({ pricing }) }, 'pricing', 'p1', 'none');
    const made = parts();
    for (const agent of made.agents) agent.factory.modelCalls = 'none';
    const selector = { ...made.selector.create({}), modelCalls: 'none' };
    const roundtable = create(made, { pricing, selector });
    await roundtable.run({ limits: { maxTurnsPerRun: 1 } });
    const { id, store } = roundtable;
    await rejects(load(id, store, made.agents, made.selector), 'invalid-config', 'pricing', 'p1');
    const other = { pricing: { ...pricing, version: 'p2' } };
    await rejects(load(id, store, made.agents, made.selector, other), 'invalid-config', 'pricing', 'p1', 'p2');
  });

  test('C47 another context policy is refused', async () => {
    const { id, store, agents, selector } = await stored();
    const batches = (await batchesOf(store, id)).map((batch) => ({
      ...batch,
      entries: batch.entries.map((line) =>
        sealed(line.replace('"roundtable/increments","version":"1"', '"roundtable/increments","version":"2"')),
      ),
    }));
    await rejects(load(id, await storeOf(id, batches), agents, selector), 'invalid-config', 'context policy', '"2"');
  });

  test('C4 durable recovery is kept: by the store, and by every factory', async () => {
    await mismatch({ store: (store) => ({ ...store, durability: 'memory' }) }, 'durability');
    await mismatch({ before: ({ agents }) => (agents[1].factory.checkpointVersions = []) }, 'checkpointVersions');
    const made = parts();
    refuses(() => create(made, { store: new MemoryConversationStore() }), 'invalid-config', 'durability');
    refuses(() => create(made, { selector: { select() {} } }), 'invalid-config', 'selector.reference');
    made.agents[0].factory.checkpointVersions = [];
    refuses(() => create(made), 'invalid-config', 'checkpointVersions');
  });

  test('C47 migrate bridges a version: asked with the saved state, journaled, and not asked again', async () => {
    const { id, store } = await stored();
    const asked = [];
    const moved = () => {
      const made = parts();
      for (const agent of made.agents) {
        agent.runtime.version = '2';
        agent.factory.checkpointVersions = ['v2'];
        const { openSession } = agent.factory;
        agent.factory.openSession = async (context) => {
          const lease = await openSession(context);
          const { checkpoint } = lease.session;
          lease.session.checkpoint = async () => ({ ...(await checkpoint()), version: 'v2' });
          return lease;
        };
      }
      const migrate = async (context) => {
        asked.push(context);
        return { version: 'v2', data: context.checkpoint.data };
      };
      return { ...made, extra: { registry: registry(made.agents, made.selector, { migrate }) } };
    };
    const first = moved();
    const roundtable = await load(id, store, first.agents, first.selector, first.extra);
    assert.deepEqual(asked, [
      {
        participantId: 'a',
        from: { id: 'runtime-of-a', version: '1' },
        to: { id: 'runtime-of-a', version: '2' },
        checkpoint: { version: 'v1', data: { turns: 1, asked: false } },
      },
    ]);
    assert.equal((await go(roundtable)).status, 'waiting');
    assert.deepEqual(first.agents[0].opened[0].checkpoint, { version: 'v2', data: { turns: 1, asked: false } });
    await roundtable.dispose();
    const old = parts();
    await rejects(load(id, store, old.agents, old.selector), 'invalid-config', '"a"');
    const again = moved();
    const loaded = await load(id, store, again.agents, again.selector, again.extra);
    assert.equal(asked.length, 1);
    assert.equal((await finish(loaded)).status, 'completed');
  });

  test('C47 a migration that gives no checkpoint, or another version, is refused', async () => {
    const { id, store } = await stored();
    for (const [migrate, part] of [
      [() => undefined, 'checkpoint'],
      [() => ({ version: 'v9', data: 1 }), 'v9'],
      [
        () => {
          throw new Error('too old');
        },
        'too old',
      ],
    ]) {
      const { agents, selector } = parts();
      agents[0].runtime.version = '2';
      const extra = { registry: registry(agents, selector, { migrate }) };
      await rejects(load(id, store, agents, selector, extra), 'invalid-config', '"a"', part);
    }
    const { agents, selector } = parts();
    agents[0].runtime.id = 'runtime-of-a';
    const extra = {
      registry: registry(agents, selector, {
        migrate: () => assert.fail('another id is no other version'),
        resolveParticipant: () => ({ reference: { id: 'x', version: '1' }, factory: agents[0].factory }),
      }),
    };
    await rejects(load(id, store, agents, selector, extra), 'invalid-config', '"a"');
  });

  test('C47 a handle whose conversation was migrated elsewhere does not go on', async () => {
    const { id, store } = await stored();
    const old = parts();
    const behind = await load(id, store, old.agents, old.selector);
    const { agents, selector } = parts();
    agents[0].runtime.version = '2';
    const migrate = ({ checkpoint }) => checkpoint;
    const ahead = await load(id, store, agents, selector, { registry: registry(agents, selector, { migrate }) });
    await go(ahead);
    await rejects(behind.run(), 'conflict', '"a"');
  });
});
