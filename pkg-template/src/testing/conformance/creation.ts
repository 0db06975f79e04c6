/** Creating, loading, and whose the values are. */

import { equal, holds, refuses, winners } from './checks.js';
import { batch, record, revisions, summary } from './records.js';
import type { Rule } from './types.js';

export const creation: readonly Rule[] = [
  {
    title: 'C46 create writes batch 1 under the operation id create, and load gives it back',
    async run({ store, another }) {
      equal(await store.create(record('c')), { revision: 1 }, 'the receipt of create');
      const expected = {
        conversationId: 'c',
        kind: 'roundtable',
        schemaVersion: 1,
        revision: 1,
        summary: summary(),
        batches: [{ revision: 1, operationId: 'create', entries: ['{"one":1}'] }],
      };
      equal(await store.load('c'), expected, 'load');
      equal(await (await another()).load('c'), expected, 'load by another handle');
    },
  },
  {
    title: 'C46 a second create is a conflict and changes nothing',
    async run({ store, another }) {
      await store.create(record('c'));
      const other = record('c', { kind: 'team', entries: ['other'] });
      await refuses(store.create(other), 'conflict', 'create of what exists');
      await refuses((await another()).create(other), 'conflict', 'create by another handle');
      equal((await store.load('c'))?.batches[0]?.entries, ['{"one":1}'], 'the entries');
    },
  },
  {
    title: 'C46 of creations at the same time exactly one succeeds, and its entries are what is stored',
    async run({ store, another }) {
      const other = await another();
      const calls = Array.from({ length: 20 }, async (_, n) => {
        await (n % 2 === 0 ? store : other).create(record('c', { entries: [`by ${n}`] }));
        return n;
      });
      const won = await winners(calls, ['conflict'], 'create');
      equal(won.length, 1, 'how many creations succeeded');
      equal((await other.load('c'))?.batches[0]?.entries, [`by ${won[0]}`], 'the entries');
    },
  },
  {
    title: 'C46 what does not exist loads and reads as undefined; claim, append and compact are not-found',
    async run({ store }) {
      equal(await store.load('c'), undefined, 'load');
      equal(await store.read('c', { after: 0 }), undefined, 'read');
      await refuses(store.claim('c', 'one', 1000), 'not-found', 'claim');
      await refuses(store.append(batch(undefined, 1, 'x')), 'not-found', 'append');
      await refuses(store.compact('c', 1), 'not-found', 'compact');
      await store.release({ conversationId: 'c', ownerId: 'one', fence: 1, expiresAt: 0 });
      await store.delete('c');
      equal(await store.list({}), { items: [] }, 'list');
    },
  },
  {
    title: 'C45 what was handed in and what was handed out can be changed without effect',
    async run({ store }) {
      const first = record('c', { entries: ['{"one":1}'], summary: summary({ members: ['a', 'b'] }) });
      await store.create(first);
      const given = batch(undefined, 1, 'x');
      await store.append(given);
      for (const { entries, summary: of } of [first, given]) {
        (entries as string[]).push('more');
        (of.members as string[]).push('z');
      }
      const loaded = await store.load('c');
      holds(loaded !== undefined, 'load finds what was created');
      for (const list of [loaded?.batches[1]?.entries, loaded?.summary.members, loaded?.batches]) {
        try {
          (list as unknown[]).length = 0;
        } catch {
          // Frozen is as good.
        }
      }
      const again = await store.load('c');
      equal(revisions(again), [1, 2], 'the batches');
      equal(again?.batches[0]?.entries, ['{"one":1}'], 'the entries of batch 1');
      equal(again?.batches[1]?.entries, ['{"x":1}'], 'the entries of batch 2');
      equal(again?.summary.members, ['a', 'b'], 'the members');
    },
  },
  {
    title: 'C45 a summary is kept whole, and the last one counts',
    async run({ store }) {
      const expiring = summary({ expiresAt: '2027-02-01T00:00:00.000Z', members: [] });
      await store.create(record('c', { kind: 'deliberation', summary: expiring }));
      equal((await store.load('c'))?.summary, expiring, 'the summary of create');
      const last = summary({ status: 'resolved', members: ['z', 'a'], updatedAt: '2027-01-03T00:00:00.000Z' });
      await store.append(batch(undefined, 1, 'x', { summary: last }));
      equal((await store.load('c'))?.summary, last, 'the summary of the last batch');
      equal((await store.list({})).items[0]?.summary, last, 'the summary in a listing');
    },
  },
];
