// Parallel groups: how many appends, and how long.
import { agent, conversation, CountingStore } from '../lib/conversation.mjs';
import { median } from '../lib/statistics.mjs';

const ROUNDS = 41;
const WARM_UP = 60;

/** @returns rows of results */
export default async function groups() {
  const rows = [];
  for (const size of [8, 64]) {
    const runs = [];
    for (let round = -WARM_UP; round < ROUNDS; round++) runs.push(await group(size));
    const cpu = median(runs.slice(WARM_UP).map((run) => run.cpu));
    const target = size === 8 ? { most: 8 } : {};
    rows.push({ what: `group of ${size}: appends in all`, value: runs[0].appends, unit: '', ...target });
    rows.push({ what: `group of ${size}: time`, value: cpu * 1000, unit: 'µs' });
    rows.push({ what: `group of ${size}: time per member`, value: (cpu * 1000) / size, unit: 'µs' });
  }
  return { rows };
}

/** One group of instant members that keep checkpoints, from the first decision to the last. */
async function group(size) {
  const store = new CountingStore();
  const factory = { checkpointVersions: ['1'] };
  const checkpoint = async () => ({ version: '1', data: null });
  const participants = Array.from({ length: size }, (_, index) =>
    agent(`member-${index}`, { session: { checkpoint }, factory }),
  );
  const participantIds = participants.map(({ id }) => id);
  const select = ({ turns }) =>
    turns.length === 0 ? { kind: 'parallel', participantIds } : { kind: 'finish', reason: 'enough' };
  const selector = { reference: { id: 'bench', version: '1' }, select };
  const table = conversation(participants, size + 1, { store, selector, maxConcurrentParticipants: size });
  const before = process.cpuUsage();
  const result = await table.run();
  const { user, system } = process.cpuUsage(before);
  if (result.status !== 'completed') throw new Error(JSON.stringify(result));
  await table.dispose();
  return { appends: store.batches.length, cpu: (user + system) / 1000 };
}
