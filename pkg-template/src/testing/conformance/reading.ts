/** Reading, snapshots, compaction, deletion, and long conversations. */

import type { ConversationStore } from '../../store-types.js';
import { codeOf, equal, holds, refuses } from './checks.js';
import { batch, LONG, readAll, record, revisions, SHORT, summary, written } from './records.js';
import type { Rule } from './types.js';

export const reading: readonly Rule[] = [
  {
    title: 'C52 read gives batches after a revision, oldest first, whatever snapshots exist, in pages',
    async run({ store, another }) {
      await written(store, 6, 4);
      for (const handle of [store, await another()]) {
        const all = await handle.read('c', { after: 0 });
        equal(all?.revision, 6, 'the revision');
        equal(revisions(all), [1, 2, 3, 4, 5, 6], 'all batches');
        equal(revisions(await handle.read('c', { after: 4 })), [5, 6], 'those after 4');
        const page = await handle.read('c', { after: 1, limit: 2 });
        equal([page?.revision, revisions(page)], [6, [2, 3]], 'two after 1');
        equal(revisions(await handle.read('c', { after: 6 })), [], 'those after the last');
        equal(revisions(await handle.read('c', { after: 60 })), [], 'those after one that is not there yet');
      }
      for (const limit of [0, -1, 1.5, Number.NaN]) {
        await refuses(store.read('c', { after: 0, limit }), 'invalid-config', `limit ${limit}`);
      }
      for (const after of [-1, 1.5, Number.NaN]) {
        await refuses(store.read('c', { after }), 'invalid-config', `after ${after}`);
      }
    },
  },
  {
    title: 'C53 load gives the latest snapshot and the batches after it',
    async run({ store, another }) {
      await written(store, 6, 4);
      const loaded = await (await another()).load('c');
      equal(loaded?.snapshot, { revision: 4, state: 'state at 4' }, 'the snapshot');
      equal(revisions(loaded), [5, 6], 'the batches');
      await store.append(batch(undefined, 6, 'x7', { snapshot: '' }));
      equal((await store.load('c'))?.snapshot, { revision: 7, state: '' }, 'an empty snapshot');
      equal(revisions(await store.load('c')), [], 'no batches after it');
    },
  },
  {
    title: 'C53 a snapshot of an append that is refused or repeated is not kept',
    async run({ store }) {
      await written(store, 4);
      await refuses(store.append(batch(undefined, 1, 'y', { snapshot: 'wrong' })), 'conflict', 'append');
      await store.append(batch(undefined, 1, 'x2', { snapshot: 'wrong' }));
      const loaded = await store.load('c');
      equal([loaded?.snapshot, revisions(loaded)], [undefined, [1, 2, 3, 4]], 'load');
    },
  },
  {
    title: 'C53 compact removes only what a snapshot covers; earlier revisions are not-found then',
    async run({ store, another }) {
      await written(store, 6, 4);
      await refuses(store.compact('c', 6), 'conflict', 'compact beyond the snapshot');
      for (const before of [0, -1, 1.5, Number.NaN]) {
        await refuses(store.compact('c', before), 'invalid-config', `compact before ${before}`);
      }
      await store.compact('c', 4);
      for (const handle of [store, await another()]) {
        await refuses(handle.read('c', { after: 0 }), 'not-found', 'read of what was removed');
        await refuses(handle.read('c', { after: 2, limit: 1 }), 'not-found', 'read of the last that was removed');
        equal(revisions(await handle.read('c', { after: 3 })), [4, 5, 6], 'what is left');
        equal(revisions(await handle.load('c')), [5, 6], 'load');
        equal((await handle.load('c'))?.snapshot?.state, 'state at 4', 'the snapshot');
      }
      await store.compact('c', 2);
      equal(revisions(await store.read('c', { after: 3 })), [4, 5, 6], 'what is left after compacting less');
      await store.compact('c', 5);
      equal(
        revisions(await store.read('c', { after: 4 })),
        [5, 6],
        'what is left after compacting all that is covered',
      );
    },
  },
  {
    title: 'C45 operation ids of compacted batches keep their receipts',
    async run({ store, another }) {
      await written(store, 6, 6);
      await store.compact('c', 7);
      const other = await another();
      equal(await other.append(batch(undefined, 1, 'x2')), { revision: 2 }, 'the receipt of a removed batch');
      equal(await other.append(batch(undefined, 1, 'create')), { revision: 1 }, 'the receipt of create');
      equal(await other.append(batch(undefined, 6, 'x7')), { revision: 7 }, 'the next append');
      equal(revisions(await store.read('c', { after: 6 })), [7], 'the batches');
    },
  },
  {
    title: 'F compaction breaks no reader: it gets its batches or not-found',
    async run({ store, another }) {
      await written(store, 40, 40);
      const other = await another();
      const reader = async (): Promise<void> => {
        for (let after = 0; after < 40; ) {
          try {
            const page = await other.read('c', { after, limit: 3 });
            holds((page?.batches.length ?? 0) > 0, 'a reader gets the batches that are there');
            for (const one of page?.batches ?? []) {
              equal([one.revision, one.entries.length], [after + 1, 1], 'a batch that was read');
              after += 1;
            }
          } catch (error) {
            equal(codeOf(error), 'not-found', 'the code of a reader that comes too late');
            after += 1;
          }
        }
      };
      const compactor = async (): Promise<void> => {
        for (let before = 2; before <= 41; before += 3) await store.compact('c', before);
      };
      await Promise.all([reader(), reader(), compactor()]);
    },
  },
  {
    title: 'F delete needs no claim and is refused while one is held; nothing is left',
    async run({ store, another, elapse }) {
      await written(store, 6, 4);
      const other = await another();
      await store.claim('c', 'one', SHORT);
      await refuses(other.delete('c'), 'busy', 'delete while a claim is held');
      await elapse(2 * SHORT);
      await other.delete('c');
      for (const handle of [store, other]) {
        equal(await handle.load('c'), undefined, 'load');
        equal((await handle.list({})).items, [], 'list');
        await refuses(handle.append(batch(undefined, 6, 'x7')), 'not-found', 'append');
        await handle.delete('c');
      }
      await store.create(record('c', { entries: ['new'] }));
      const again = await other.load('c');
      equal([again?.revision, again?.snapshot], [1, undefined], 'one created under the same id');
      equal(again?.batches[0]?.entries, ['new'], 'its entries');
      equal(await other.append(batch(undefined, 1, 'x2')), { revision: 2 }, 'an operation id of the one before');
    },
  },
  {
    title: 'F ten thousand batches: all are there, for another handle too',
    async run({ store, another, batches }) {
      await store.create(record('c'));
      const claim = await store.claim('c', 'one', LONG);
      const entries = ['x'.repeat(500)];
      for (let revision = 1; revision < batches; revision++) {
        const snapshot = revision === batches - 10 ? { snapshot: 'late' } : {};
        await store.append(batch(claim, revision, `x${revision}`, { entries, ...snapshot }));
      }
      await checkLong(store, batches);
      await checkLong(await another(), batches);
    },
  },
];

async function checkLong(store: ConversationStore, batches: number): Promise<void> {
  const loaded = await store.load('c');
  equal([loaded?.revision, loaded?.snapshot?.revision, loaded?.batches.length], [batches, batches - 9, 9], 'load');
  const all = await readAll(store, 'c', 997);
  equal(all.length, batches, 'how many batches there are');
  all.forEach(({ revision, operationId }, i) => {
    equal([revision, operationId], [i + 1, i === 0 ? 'create' : `x${i}`], 'a batch');
  });
  equal((await store.list({})).items[0]?.summary, summary({ ...loaded?.summary }), 'the summary in a listing');
}
