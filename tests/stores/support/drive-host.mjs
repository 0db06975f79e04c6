// A host that drives a deliberation until it ends, and may kill itself at a write of its store.
//
//   node drive-host.mjs KIND FOLDER ID WRITE WHEN     at write 0: never; before or after it is handed to the store
//
// It prints how the drive ended.
import { createDeliberations, driveDeliberation } from 'agent-roundtable';
import { scriptedProvider } from 'agent-roundtable/testing';
import { openStore } from './durable-stores.mjs';

const [kind, folder, id, write, when] = process.argv.slice(2);
const { store, close } = await openStore(kind, folder);
const die = () => process.kill(process.pid, 'SIGKILL');

let writes = 0;
for (const name of ['create', 'append']) {
  const original = store[name].bind(store);
  store[name] = async (...args) => {
    const isLast = ++writes === Number(write);
    if (isLast && when === 'before') die();
    const receipt = await original(...args);
    if (isLast) die();
    return receipt;
  };
}

/** An agent that knows from its checkpoint alone how many turns it has had. */
function counting(agentId) {
  const openSession = async ({ checkpoint }) => {
    let turns = checkpoint?.data ?? 0;
    const session = {
      runTurn: async () => ({ kind: 'speak', content: `${agentId} ${++turns}` }),
      checkpoint: async () => ({ version: 'v1', data: turns }),
    };
    return { session, release: async () => {} };
  };
  const factory = { checkpointVersions: ['v1'], openSession };
  return { kind: 'agent', id: agentId, runtime: { id: agentId, version: '1' }, factory };
}

/** Goes on once, then resolves: by what it is shown, since another host knows nothing else. */
const decide = ([{ content }]) => {
  const isOver = content.includes('ana 2');
  const decision = isOver
    ? { action: 'resolve', outcome: 'Pull.', decision: 'approved' }
    : { action: 'go_on', message: 'Again.' };
  return { toolCalls: [{ name: 'facilitate', arguments: decision }] };
};
const provider = scriptedProvider({ replies: Array(9).fill(decide) });

const deliberations = createDeliberations({ store, notifier: async () => {}, sweepIntervalMs: 0 });
const result = await driveDeliberation(deliberations, id, {
  store,
  agents: [counting('ana'), counting('bo')],
  facilitator: { id: 'fac', createAgent: () => ({ provider, model: 'm' }) },
  recovery: 'durable',
  unsettled: 'retry',
  leaseMs: 1500,
});
console.log(JSON.stringify({ status: result.status, writes }));
await deliberations.dispose();
await close();
