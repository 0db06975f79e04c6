// What each store does in a second, on this machine's disk: appends by one owner to one conversation, and to eight
// at the same time. And what a turn costs, in time and in bytes, as a conversation grows to 10,000 of them. Times are
// of the clock, since stores wait for disks and servers. A store whose driver or server is not there is left out.
import { MEASURED } from '../lib/store-hosts.mjs';
import { LENGTHS, TOGETHER } from '../lib/store-work.mjs';

/** @returns rows of results, and the milliseconds of single turns */
export default async function stores() {
  const rows = [];
  const samples = {};
  for (const [name, measured] of Object.entries(MEASURED)) {
    const found = await measured().then((one) => {
      samples[name] = one.times;
      return rowsOf(one);
    }, left);
    rows.push(...found.map((row) => ({ ...row, what: `${name}: ${row.what}` })));
  }
  return { rows, samples };
}

function rowsOf({ one, together, turn, whole, read, bytes }) {
  const [first, last] = [LENGTHS[0], LENGTHS.at(-1)].map(count);
  return [
    { what: 'appends to one conversation', value: one, unit: '/s' },
    { what: `appends to ${TOGETHER} at the same time`, value: together, unit: '/s' },
    ...turn.map((ms, index) => ({ what: `a turn after ${count(LENGTHS[index])}`, value: ms * 1000, unit: 'µs' })),
    { what: `a turn after ${last} / ${first}`, value: turn.at(-1) / turn[0], unit: '×', most: 1.3 },
    { what: `${last} turns in all, snapshots included`, value: whole / 1000, unit: 's' },
    { what: `read all their batches, nothing known`, value: read, unit: 'ms' },
    ...bytesOf('written', bytes),
    ...bytesOf('kept', bytes.slice(-1)),
  ];
}

/** For a turn of 500 B, snapshots included, which together are no longer than what they cover. */
function bytesOf(name, bytes) {
  return bytes
    .filter((each) => Number.isFinite(each[name]) && each.turns > LENGTHS[0])
    .map((each) => ({
      what: `${name} for each of ${count(each.turns)} turns of 500 B`,
      value: Math.round(each[name]),
      unit: 'B',
    }));
}

function left(error) {
  return [{ what: 'left out', note: error.message.split('\n')[0] }];
}

function count(number) {
  return number.toLocaleString('en');
}
