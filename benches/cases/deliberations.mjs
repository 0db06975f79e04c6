// A sweep over a thousand open deliberations, of which few are due: what it costs in time and in appends.
import { createDeliberations } from '../../pkg/dist/index.js';
import { CountingStore } from '../lib/conversation.mjs';
import { timed } from '../lib/processor-time.mjs';
import { median } from '../lib/statistics.mjs';

const OPEN = 1_000;
const DUE = 50;
const PARTICIPANTS = 5;
const ROUNDS = 7;
const MINUTE = 60_000;
const START = Date.parse('2027-01-01T00:00:00Z');

/** @returns rows of results, and the milliseconds they come from */
export default async function deliberations() {
  const samples = { idle: [], due: [], fresh: [] };
  let appends;
  for (let round = 0; round < ROUNDS; round++) {
    const { d, host, store, time } = await opened();
    samples.idle.push(await timed(() => swept(d, 0)));
    const before = store.batches.length;
    if (round === 0 && before !== OPEN) throw new Error(`${before} appends to open`);
    time.now += 2 * MINUTE;
    samples.due.push(await timed(() => swept(d, DUE)));
    appends = store.batches.length - before;
    await d.dispose();
    // What a host does that was started anew.
    const other = host();
    time.now += 2 * MINUTE;
    samples.fresh.push(await timed(() => swept(other, DUE)));
    await other.dispose();
  }
  const rows = [
    { what: 'sweep 1,000 open deliberations, none due', value: median(samples.idle), unit: 'ms', most: 50 },
    { what: 'the same, 50 due, all members told', value: median(samples.due), unit: 'ms', most: 200 },
    { what: 'by a host that has none in memory', value: median(samples.fresh), unit: 'ms', most: 200 },
    { what: 'appends per deliberation that was due', value: appends / DUE, unit: '', most: 2 },
  ];
  return { rows, samples };
}

/** Fifty end after a minute, fifty after three, the others later. */
async function opened() {
  const store = new CountingStore();
  const time = { now: START };
  const host = () =>
    createDeliberations({
      store,
      clock: { now: () => time.now, setTimeout, clearTimeout },
      sweepIntervalMs: 0,
      notifier: async () => {},
    });
  const d = host();
  const participants = Array.from({ length: PARTICIPANTS }, (_, at) => `agent-${at}`);
  for (let n = 0; n < OPEN; n++) {
    const timeoutMinutes = n % 20 === 0 ? 1 : n % 20 === 10 ? 3 : 600;
    await d.create('facilitator', { topic: `Topic ${n}`, goal: 'Agree.', participants, timeoutMinutes });
  }
  return { d, host, store, time };
}

/** What the sweeper's timer does: expire, deliver, purge. */
async function swept(d, wanted) {
  const expired = await d.expireStale();
  await d.deliverPending();
  await d.purge();
  if (expired !== wanted) throw new Error(`${expired} expired`);
}
