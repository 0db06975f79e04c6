/** Ids and contents that stores are known to lose or to confuse. */

import { equal, holds } from './checks.js';
import { batch, listAll, LONG, record, revisions, summary } from './records.js';
import type { Rule } from './types.js';

/** Well-formed text with code points of all seventeen planes, controls and non-characters among them. */
function everyPlane(): string {
  const points = [0, 1, 8, 9, 10, 13, 0x1a, 0x1b, 0x22, 0x27, 0x5c, 0x7f, 0x85, 0x2028, 0x2029, 0xd7ff, 0xe000];
  points.push(0xfdd0, 0xfeff, 0xfffd, 0xfffe, 0xffff);
  for (let plane = 1; plane <= 16; plane++) points.push(plane << 16, (plane << 16) + 0x1234, (plane << 16) + 0xffff);
  return points.map((point) => String.fromCodePoint(point)).join('');
}

const IDS = [
  '\0',
  'a\0b',
  'a',
  'A',
  'a ',
  ' a',
  'a.',
  '.',
  '..',
  '../../escaped',
  '/',
  '/etc/escaped',
  'a/b',
  'a\\b',
  'C:\\escaped',
  'CON',
  'nul.txt',
  '~',
  '$HOME',
  '%00',
  '%2e%2e%2f',
  '*',
  '?',
  "'; DROP TABLE conversations; --",
  '"',
  'null',
  'undefined',
  '0',
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '{"$date":0}',
  '\n',
  '\r\n',
  '\u2028',
  '\u00e9',
  'e\u0301',
  '\ufb01',
  '\ufeffa',
  '\uffff',
  '👩‍👩‍👧',
  '𝒂',
  'x'.repeat(300),
  `${'x'.repeat(299)}y`,
  '語'.repeat(512),
  '\u0001'.repeat(512),
  '😀'.repeat(256),
  everyPlane(),
];

export const contents: readonly Rule[] = [
  {
    title: 'F hostile conversation ids are kept apart, listed in order, and deleted one by one',
    async run({ store, another }) {
      for (const [i, id] of IDS.entries()) {
        await store.create(record(id, { entries: [`entry ${i}`] }));
        await store.append(batch(undefined, 1, `op ${i}`, { conversationId: id, snapshot: `state ${i}` }));
      }
      const other = await another();
      const expected = [...IDS].sort(byUnits);
      equal(await listAll(other, {}), expected, 'the listing');
      equal(await listAll(other, { limit: 1 }), expected, 'the listing in pages of one');
      for (const [i, id] of IDS.entries()) {
        const loaded = await other.load(id);
        equal([loaded?.conversationId, loaded?.snapshot?.state], [id, `state ${i}`], 'load');
        equal((await other.read(id, { after: 0 }))?.batches[0]?.entries, [`entry ${i}`], 'the entries');
        const claim = await other.claim(id, 'one', LONG);
        equal(claim.conversationId, id, 'the id of a claim');
        await other.release(claim);
      }
      for (const [i, id] of IDS.entries()) {
        await store.delete(id);
        equal(await store.load(id), undefined, 'load of one that was deleted');
        const next = IDS[i + 1];
        if (next !== undefined) holds((await store.load(next)) !== undefined, 'the others stay');
      }
      equal(await listAll(other, {}), [], 'the listing at the end');
    },
  },
  {
    title: 'F hostile operation ids, owner ids and members are compared whole',
    async run({ store }) {
      await store.create(record('c'));
      const members = IDS.slice();
      for (const [i, id] of IDS.entries()) {
        const claim = await store.claim('c', id, LONG);
        equal(claim.ownerId, id, 'the owner');
        const appended = batch(claim, i + 1, id, { summary: summary({ members }) });
        equal(await store.append(appended), { revision: i + 2 }, 'the receipt');
        equal(await store.append(appended), { revision: i + 2 }, 'the receipt of a repetition');
        await store.release(claim);
      }
      const loaded = await store.load('c');
      equal(
        loaded?.batches.slice(1).map((one) => one.operationId),
        IDS,
        'the operation ids',
      );
      equal(loaded?.summary.members, IDS, 'the members');
      for (const id of IDS) equal(await listAll(store, { member: id }), ['c'], 'the listing by a member');
      equal(await listAll(store, { member: 'b' }), [], 'the listing by no member');
    },
  },
  {
    title: 'F entries and snapshots come back unit for unit: every plane, U+0000, line ends, empty text',
    async run({ store, another }) {
      const entries = [everyPlane(), '', '\0', '\n', '\r\n', ' ', '\ufeff', '__proto__', '{"$escaped":{}}', '\\u0000'];
      for (let plane = 0; plane <= 16; plane++) entries.push(plane16(plane));
      await store.create(record('c', { entries }));
      await store.append(batch(undefined, 1, 'x', { entries, snapshot: entries.join('') }));
      await store.append(batch(undefined, 2, 'y', { entries: [] }));
      const other = await another();
      for (const handle of [store, other]) {
        const found = await handle.read('c', { after: 0 });
        equal(revisions(found), [1, 2, 3], 'the batches');
        equal([found?.batches[0]?.entries, found?.batches[1]?.entries], [entries, entries], 'the entries');
        equal(found?.batches[2]?.entries, [], 'a batch without entries');
        equal((await handle.load('c'))?.snapshot?.state, entries.join(''), 'the snapshot');
      }
    },
  },
  {
    title: 'F entries of 1 MB and more come back whole',
    async run({ store, another }) {
      const large = ['x'.repeat(1 << 20), '語😀\0'.repeat(1 << 18), '\\"\u0001'.repeat(1 << 18)];
      await store.create(record('c', { entries: large }));
      await store.append(batch(undefined, 1, 'x', { entries: large, snapshot: large.join('') }));
      const other = await another();
      equal((await other.read('c', { after: 1 }))?.batches[0]?.entries, large, 'the entries');
      equal((await other.load('c'))?.snapshot?.state, large.join(''), 'the snapshot');
    },
  },
];

/** A sample of the characters of one plane, surrogates excepted. */
function plane16(plane: number): string {
  let text = '';
  for (let at = plane << 16; at < (plane + 1) << 16; at += 61) {
    if (at < 0xd800 || at > 0xdfff) text += String.fromCodePoint(at);
  }
  return text;
}

function byUnits(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
