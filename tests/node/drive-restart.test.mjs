// A driven deliberation whose host dies: another one goes on from the stores, and nothing is lost or doubled.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { createDeliberations, driveDeliberation, readConversation } from 'agent-roundtable';
import { faultyStore, scriptedProvider } from 'agent-roundtable/testing';
import { request, stores, table } from './support/deliberations.mjs';
import { APPROVE } from './support/drive.mjs';

const WRITES = ['create', 'append'];
const SAID = ['pat: Hello.', 'ana: ana 1', 'bo: bo 1', 'fac: Again.', 'ana: ana 2', 'bo: bo 2'];

/** An agent that knows from its checkpoint alone how many turns it has had. */
function counting(id) {
  const openSession = async ({ checkpoint }) => {
    let turns = checkpoint?.data ?? 0;
    const session = {
      runTurn: async () => ({ kind: 'speak', content: `${id} ${++turns}` }),
      checkpoint: async () => ({ version: 'v1', data: turns }),
    };
    return { session, release: async () => {} };
  };
  return { kind: 'agent', id, runtime: { id, version: '1' }, factory: { checkpointVersions: ['v1'], openSession } };
}

/** Goes on once, then resolves: by what it is shown, since another host knows nothing else. */
function deciding() {
  const answer = ([{ content }]) => {
    const decision = content.includes('ana 2') ? APPROVE : { action: 'go_on', message: 'Again.' };
    return { toolCalls: [{ name: 'facilitate', arguments: decision }] };
  };
  const provider = scriptedProvider({ replies: Array(9).fill(answer) });
  return { id: 'fac', createAgent: () => ({ provider, model: 'm' }) };
}

/** A host on this store: its own deliberations and agents. */
async function host({ clock, groups, notifier }, { store, isDead }, id) {
  const d = createDeliberations({ store, clock, groups, notifier, sweepIntervalMs: 0 });
  const agents = [counting('ana'), counting('bo')];
  let ended;
  const recovery = store.durability === 'durable' ? 'durable' : 'none';
  const options = { store, clock, agents, facilitator: deciding(), recovery, unsettled: 'retry' };
  const running = driveDeliberation(d, id, options)
    .catch((error) => error)
    .finally(() => {
      ended = true;
    });
  // A store that does not answer is asked again, later.
  while (ended !== true) await (isDead() ? clock.advance(2000) : setImmediate());
  return { result: await running, d };
}

async function session(t, makeStore) {
  const set = await table(t, makeStore);
  const { id } = await set.d.create('fac', request({ participants: ['ana', 'bo', 'pat'], timeoutMinutes: 10_080 }));
  await set.d.speak('pat', id, { message: 'Hello.' });
  return { ...set, notifier: async () => {}, id };
}

/** Writes of one host reach the store up to the nth; `after` lets the nth through, and its answer is lost. */
function dying(store, nth, when) {
  let writes = 0;
  const made = faultyStore(store, ({ method }) => {
    if (writes >= nth) return { when: 'before' };
    if (!WRITES.includes(method) || ++writes < nth) return undefined;
    return { when };
  });
  return { store: made, isDead: () => writes >= nth };
}

async function checked(set, { result }) {
  const { id, store, d } = set;
  assert.equal(result.status, 'resolved', String(result.stack ?? result.status));
  assert.equal(result.session.outcome, 'Pull.');
  const { thread } = await d.get('pat', id);
  assert.deepEqual(
    thread.map(({ from, message }) => `${from}: ${message}`),
    SAID,
  );
  const { messages } = await readConversation({ store, conversationId: `${id}/discussion` });
  const talk = messages.filter(({ participantId }) => participantId !== 'fac');
  assert.deepEqual(
    talk.map(({ participantId, content }) => `${participantId}: ${content}`),
    SAID.filter((one) => !one.startsWith('fac')),
  );
}

for (const when of ['before', 'after']) {
  test(`a host that dies at any write, ${when} it lands, is followed by one that ends as it would have`, async (t) => {
    let deaths = 0;
    for (let nth = 1; ; nth++) {
      const set = await session(t, stores.memory);
      const mortal = dying(set.store, nth, when);
      const first = await host(set, mortal, set.id);
      if (!mortal.isDead()) {
        await checked(set, first);
        break;
      }
      deaths += 1;
      // Its claim lasts a while.
      await set.clock.advance(31_000);
      await checked(set, await host(set, { store: set.store, isDead: () => false }, set.id));
    }
    assert.ok(deaths > 20, `${deaths} deaths`);
  });
}

for (const [label, makeStore] of Object.entries(stores)) {
  test(`host after host dies, each after a few writes, and the session ends as it would have (${label})`, async (t) => {
    const set = await session(t, makeStore);
    for (let hosts = 1; ; hosts++) {
      assert.ok(hosts < 30, 'no host gets anywhere');
      const mortal = dying(set.store, 12, hosts % 2 === 0 ? 'before' : 'after');
      const ended = await host(set, mortal, set.id);
      await set.clock.advance(31_000);
      if (mortal.isDead()) continue;
      assert.ok(hosts > 2, `${hosts} hosts`);
      await checked(set, ended);
      break;
    }
  });
}
