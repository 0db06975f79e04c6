// From a stored conversation to a handle with all its messages readable, with and without a snapshot.
import { loadRoundtable, MemoryConversationStore } from '../../pkg/dist/index.js';
import { agent, conversation, hostSelector } from '../lib/conversation.mjs';
import { median } from '../lib/statistics.mjs';

const IDS = ['ada', 'ben', 'cy'];
const SELECTOR = hostSelector(IDS);
const ROUNDS = 9;
const SIZES = [
  { turns: 1_000, most: { 'all batches': 20, snapshot: 20 } },
  { turns: 10_000, most: { 'all batches': 150, snapshot: 100 } },
];

/** @returns rows of results, and the milliseconds they come from */
export default async function load() {
  const rows = [];
  const samples = {};
  for (const { turns, most } of SIZES) {
    const store = await stored(turns);
    const stores = { 'all batches': withoutSnapshot(store), snapshot: store };
    for (const [name, from] of Object.entries(stores)) {
      const times = [];
      for (let round = -2; round < ROUNDS; round++) {
        const ms = await timed(from, turns);
        if (round >= 0) times.push(ms);
      }
      const what = `load ${turns.toLocaleString('en')} turns, ${name}`;
      samples[what] = times;
      rows.push({ what, value: median(times), unit: 'ms', most: most[name] });
    }
    const { snapshot, batches } = await store.load('bench');
    const what = `batches after the snapshot, ${turns.toLocaleString('en')} turns`;
    rows.push({ what, value: snapshot === undefined ? undefined : batches.length, unit: '', note: 'no snapshot' });
  }
  return { rows, samples };
}

async function stored(turns) {
  const store = new MemoryConversationStore();
  const table = conversation(participants(), turns, { selector: SELECTOR, store });
  await table.run();
  await table.dispose();
  return store;
}

/** Agents with a private state, without which nobody can be loaded. */
function participants() {
  const session = { checkpoint: async () => ({ version: '1', data: null }) };
  return IDS.map((id) => agent(id, { session, factory: { checkpointVersions: ['1'] } }));
}

/** The same store, which has the whole history and nothing else. */
function withoutSnapshot(store) {
  const bound = Object.fromEntries(
    ['create', 'read', 'claim', 'renew', 'release', 'append', 'list', 'compact', 'delete'].map((name) => [
      name,
      store[name].bind(store),
    ]),
  );
  const load = async (id) => {
    const { snapshot, ...record } = await store.load(id);
    return { ...record, batches: (await store.read(id, { after: 0 })).batches };
  };
  return { durability: store.durability, ...bound, load };
}

async function timed(store, turns) {
  globalThis.gc?.();
  const registry = {
    resolveParticipant: (reference) => ({ reference, factory: participants()[0].factory }),
    resolveSelector: (reference) => ({ reference, create: () => SELECTOR }),
  };
  const before = process.cpuUsage();
  const table = await loadRoundtable({ conversationId: 'bench', store, registry });
  const { messages } = table.snapshot();
  const { user, system } = process.cpuUsage(before);
  if (messages.length !== turns || messages[turns - 1].content.length !== 500) throw new Error('not all is there');
  await table.dispose();
  return (user + system) / 1000;
}
