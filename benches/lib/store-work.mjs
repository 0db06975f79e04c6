// What is done to a store in order to measure it, in this process or in a page.
import { agent, conversation, TEXT } from './conversation.mjs';
import { quartile, randomNumbers } from './statistics.mjs';

const APPENDS = 1_000;
export const TOGETHER = 8;
/** How long conversations are when the cost of a further turn is measured. */
export const LENGTHS = [100, 1_000, 10_000];
/** They take turns so often, so many turns at a time, so that what disturbs the machine disturbs all of them. */
const ROUNDS = 25;
const BLOCK = 10;

const SUMMARY = { status: 'open', members: ['a', 'b'], createdAt: '2027-01-01T00:00:00.000Z', updatedAt: '' };

/**
 * Appends by one owner to one conversation, and to several at the same time.
 * @param open gives a store and what closes it
 * @returns appends per second
 */
export async function throughput(open) {
  const { store, close } = await open();
  await appendAll(store, 'warm', 100);
  const one = (1_000 * APPENDS) / (await appendAll(store, 'one', APPENDS));
  const each = Math.ceil(APPENDS / TOGETHER);
  const start = performance.now();
  await Promise.all(Array.from({ length: TOGETHER }, (_, i) => appendAll(store, `together ${i}`, each)));
  const together = (1_000 * each * TOGETHER) / (performance.now() - start);
  await close();
  return { one, together };
}

async function appendAll(store, conversationId, count) {
  await store.create({ conversationId, kind: 'roundtable', schemaVersion: 1, entries: [TEXT], summary: SUMMARY });
  const claim = await store.claim(conversationId, 'bench', 600_000);
  const start = performance.now();
  for (let revision = 1; revision <= count; revision++) {
    const batch = { conversationId, claim, expectedRevision: revision, operationId: `x${revision}` };
    await store.append({ ...batch, entries: [TEXT], summary: SUMMARY });
  }
  const took = performance.now() - start;
  await store.release(claim);
  return took;
}

/**
 * Holds a conversation of each length, and then lets each go on.
 * @param written how many bytes the store has written and keeps so far, where that is known
 * @returns the milliseconds of a further turn at each length, the lower quartile of many, since what else the
 *   machine does only ever adds; for the longest conversation the milliseconds of all its turns, snapshots and
 *   whatever else the store does now and then included, and of reading it by one who knows nothing; and the bytes of
 *   each turn up to each length
 */
export async function growth(open, written = async () => ({})) {
  const { store, close } = await open();
  const tables = [];
  const bytes = [];
  const runTurn = speaker();
  let whole = 0;
  for (const length of LENGTHS) {
    const isLongest = length === LENGTHS.at(-1);
    const table = conversation(
      ['ada', 'ben', 'cy'].map((id) => agent(id, { runTurn })),
      1,
      { conversationId: `${length}`, store },
    );
    let done = 0;
    const before = await written();
    for (const stop of isLongest ? LENGTHS : [length]) {
      const start = performance.now();
      await goOn(table, stop - done);
      if (isLongest) whole += performance.now() - start;
      done = stop;
      if (isLongest) bytes.push(difference(before, await written(), stop));
    }
    tables.push(table);
  }
  const times = LENGTHS.map(() => []);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [index, table] of tables.entries()) {
      const start = performance.now();
      await goOn(table, BLOCK);
      times[index].push((performance.now() - start) / BLOCK);
    }
  }
  for (const table of tables) await table.dispose();
  await close();

  const again = await open();
  const start = performance.now();
  await again.store.read(`${LENGTHS.at(-1)}`, { after: 0 });
  const read = performance.now() - start;
  await again.close();
  return { turn: times.map(quartile), whole, read, bytes, times };
}

/** Says texts of 500 letters that differ, so that a store that compresses has little to gain. */
function speaker() {
  const letters = 'abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789';
  const next = randomNumbers(1);
  const all = Array.from({ length: 100_000 }, () => letters[next() % letters.length]).join('');
  let turns = 0;
  return async () => {
    const from = (turns++ * 509) % (all.length - 500);
    return { kind: 'speak', content: all.slice(from, from + 500) };
  };
}

async function goOn(table, turns) {
  const { status } = await table.run({ limits: { maxTurnsPerRun: turns } });
  if (status !== 'limited') throw new Error(`the conversation ended ${status}`);
}

function difference(before, after, turns) {
  const each = Object.keys(after).map((name) => [name, (after[name] - before[name]) / turns]);
  return { turns, ...Object.fromEntries(each) };
}
