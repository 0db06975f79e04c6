// A large team over ten thousand messages: what a turn costs early and late, what it costs the store, and how
// long the record takes to come back.
import { createTeam, loadTeam, renderTeamRooms } from '../../pkg/dist/index.js';
import { CountingStore, TEXT } from '../lib/conversation.mjs';
import { cpuMs, timed } from '../lib/processor-time.mjs';
import { median } from '../lib/statistics.mjs';

const MEMBERS = 50;
const MESSAGES = 10_000;
const ROUNDS = 5;
/** How many turns are timed at either end; those before them are left to the machine code. */
const WINDOW = 1_000;
const EARLY = 500;

// Members stand in ten rows of five; each row and each column of every second row is a room.
const id = (member) => `member-${member}`;
const IDS = Array.from({ length: MEMBERS }, (_, member) => id(member));
const WAYS = [
  { room: (member) => `row-${Math.floor(member / 5)}`, next: (member) => member - (member % 5) + ((member + 1) % 5) },
  { room: (member) => `column-${member % 10}`, next: (member) => (member + 10) % MEMBERS },
];
const ROOMS = WAYS.flatMap(({ room }) => {
  const names = new Set(IDS.map((_, member) => room(member)));
  return [...names].map((name) => ({ id: name, members: IDS.filter((_, member) => room(member) === name) }));
});

/** @returns rows of results, and the milliseconds they come from */
export default async function teams() {
  const one = await held(1, 2_000);
  const samples = { early: [], late: [], load: [], render: [] };
  let five;
  for (let round = 0; round < ROUNDS; round++) {
    five = await held(5, MESSAGES);
    samples.early.push(five.early);
    samples.late.push(five.late);
    samples.load.push(await timed(() => loaded(five.store)));
    samples.render.push(await timed(() => rendered(five.store)));
  }
  const { batches } = five.store;
  const bytes = (from, to) => batches.slice(from, to).reduce((sum, batch) => sum + batch, 0);
  const tenth = Math.floor(batches.length / 10);
  const ratios = samples.late.map((late, round) => late / samples.early[round]);
  const rows = [
    { what: 'turns 501 to 1,500 of 10,000', value: median(samples.early), unit: 'µs/turn', most: 200 },
    { what: 'turns 9,001 to 10,000', value: median(samples.late), unit: 'µs/turn', most: 200 },
    { what: 'late / early', value: median(ratios), unit: '×', most: 1.3 },
    { what: 'written per turn of 500 B', value: bytes(0) / MESSAGES, unit: 'B', most: 2_000 },
    { what: 'the same, last tenth / first tenth', value: bytes(-tenth) / bytes(0, tenth), unit: '×', most: 1.05 },
    { what: 'appends per turn, one turn at a time', value: one.store.batches.length / 2_000, unit: '', most: 3 },
    { what: 'appends per turn, five turns at a time', value: batches.length / MESSAGES, unit: '', most: 3 },
    { what: 'load 10,000 messages', value: median(samples.load), unit: 'ms', most: 300 },
    { what: 'render their 20 rooms', value: median(samples.render), unit: 'ms', most: 300 },
  ];
  return { rows, samples };
}

/** A run of so many messages, so many members at a time, with the time of a turn at either end. */
async function held(concurrency, messages) {
  globalThis.gc?.();
  const store = new CountingStore();
  const times = [];
  const team = createTeam({
    runId: 'bench',
    definition: definition(concurrency),
    members: members(concurrency, messages, () => times.push(cpuMs())),
    store,
    leaseMs: 600_000, // members that answer at once leave timers no time
  });
  const outcome = await team.run();
  await team.dispose();
  if (outcome.status !== 'completed' || times.length !== messages) throw new Error(`${times.length} turns`);
  const perTurn = (from) => ((times[from + WINDOW - 1] - times[from]) * 1_000) / (WINDOW - 1);
  return { store, early: perTurn(EARLY), late: perTurn(messages - WINDOW) };
}

function definition(concurrency) {
  const starts = new Set(Array.from({ length: concurrency }, (_, at) => id(at * 10)));
  return {
    id: 'bench',
    definitionVersion: 1,
    data: {
      task: 'Pass it on.',
      globalConcurrency: concurrency,
      maxTurnsPerMember: MESSAGES,
      communication: { tailMessages: 10, rooms: ROOMS },
    },
    nodes: IDS.map((name) => ({
      id: name,
      data: { role: 'runner', brief: 'Be quick.', initialTurn: starts.has(name) },
    })),
    edges: [],
  };
}

/** All of a batch pass the word on in the same way, so that no two reach the same member. */
function members(concurrency, messages, called) {
  const member = (at) => async () => {
    const turn = called() - 1;
    const { room, next } = WAYS[Math.floor(turn / concurrency) % 2];
    const mentions = turn < messages - concurrency ? [id(next(at))] : [];
    return { summary: 'done', posts: [{ roomId: room(at), text: TEXT, mentions }] };
  };
  return Object.fromEntries(IDS.map((name, at) => [name, member(at)]));
}

async function loaded(store) {
  const idle = () => ({ summary: 'not asked' });
  const team = await loadTeam({ runId: 'bench', members: Object.fromEntries(IDS.map((name) => [name, idle])), store });
  const { messages } = team.snapshot();
  if (messages.length !== MESSAGES || messages[MESSAGES - 1].text !== TEXT) throw new Error('not all is there');
  await team.dispose();
}

async function rendered(store) {
  const { rooms } = await renderTeamRooms({ runId: 'bench', store });
  const lines = rooms.reduce((sum, { text }) => sum + text.split('\n').length - 1, 0);
  if (rooms.length !== 20 || lines !== MESSAGES) throw new Error(`${lines} lines in ${rooms.length} rooms`);
}
