/** Appends: atomic, compared, idempotent. */

import { faultyStore } from '../faulty-store.js';
import { equal, holds, refuses, winners } from './checks.js';
import { batch, LONG, readAll, record, revisions, SHORT, written } from './records.js';
import type { Rule } from './types.js';

export const appends: readonly Rule[] = [
  {
    title: 'C45 append needs the present revision, adds one batch and one revision',
    async run({ store, another }) {
      await store.create(record('c'));
      const claim = await store.claim('c', 'one', LONG);
      equal(await store.append(batch(claim, 1, 'x', { entries: ['1', '2'] })), { revision: 2 }, 'the receipt');
      for (const stale of [0, 1, 3, -1, 1.5, Number.NaN]) {
        await refuses(store.append(batch(claim, stale, 'y')), 'conflict', `append to revision ${stale}`);
      }
      const loaded = await (await another()).load('c');
      equal(loaded?.revision, 2, 'the revision');
      equal(loaded?.batches[1], { revision: 2, operationId: 'x', entries: ['1', '2'] }, 'the batch');
      equal(loaded?.summary.status, 'waiting', 'the status');
    },
  },
  {
    title: 'C45 an operation id is looked up before claim and revision: repeated, it gives the first receipt',
    async run({ store, another, elapse }) {
      await store.create(record('c'));
      const claim = await store.claim('c', 'one', SHORT);
      await store.append(batch(undefined, 1, 'x', { claim }));
      await store.append(batch(undefined, 2, 'y', { claim }));
      await elapse(2 * SHORT);
      const other = await another();
      equal(await store.append(batch(claim, 1, 'x')), { revision: 2 }, 'under an expired claim');
      await other.claim('c', 'two', LONG);
      equal(await other.append(batch(claim, 1, 'x')), { revision: 2 }, 'under a replaced claim, by another handle');
      equal(await store.append(batch(undefined, 77, 'y')), { revision: 3 }, 'without a claim, at another revision');
      equal(await other.append(batch(undefined, 5, 'create')), { revision: 1 }, 'that of create');
      equal(revisions(await store.load('c')), [1, 2, 3], 'the batches');
      equal((await store.load('c'))?.batches[1]?.entries, ['{"x":1}'], 'the entries');
    },
  },
  {
    title: 'C45 an operation id belongs to one conversation',
    async run({ store }) {
      await store.create(record('c'));
      await store.create(record('d'));
      await store.append(batch(undefined, 1, 'x'));
      equal(await store.append(batch(undefined, 1, 'x', { conversationId: 'd' })), { revision: 2 }, 'in the other');
      await store.append(batch(undefined, 2, 'y'));
      equal(revisions(await store.load('d')), [1, 2], 'the batches of the other');
    },
  },
  {
    title: 'C45 a lost acknowledgement of create, append or release loses and repeats nothing',
    async run({ store, another }) {
      const lossy = faultyStore(store, () => ({ when: 'after', error: new Error('lost') }));
      const lost = async (call: Promise<unknown>): Promise<void> => {
        const seen = await call.then(() => undefined, String);
        equal(seen, 'Error: lost', 'the call that lost its acknowledgement');
      };
      await lost(lossy.create(record('c')));
      await refuses(store.create(record('c')), 'conflict', 'create repeated');
      const claim = await store.claim('c', 'one', LONG);
      for (let revision = 1; revision <= 5; revision++) {
        const appended = batch(claim, revision, `x${revision}`);
        await lost(lossy.append(appended));
        equal(await (await another()).append(appended), { revision: revision + 1 }, 'the receipt of the repetition');
        equal(await store.append(appended), { revision: revision + 1 }, 'the receipt once more');
      }
      await lost(lossy.release(claim));
      await store.release(claim);
      equal(revisions(await store.load('c')), [1, 2, 3, 4, 5, 6], 'the batches');
    },
  },
  {
    title: 'C45 an append repeated while the first is on its way gives one batch and equal receipts',
    async run({ store, another }) {
      await store.create(record('c'));
      const other = await another();
      const claim = await store.claim('c', 'one', LONG);
      for (let revision = 1; revision <= 5; revision++) {
        const appended = batch(claim, revision, `x${revision}`);
        const receipts = await Promise.all([store, other, store, other].map((one) => one.append(appended)));
        for (const receipt of receipts) equal(receipt, { revision: revision + 1 }, 'the receipt');
      }
      equal(revisions(await other.load('c')), [1, 2, 3, 4, 5, 6], 'the batches');
    },
  },
  {
    title: 'C45 without a claim an append lands where the revision matches and nobody holds one',
    async run({ store, another, elapse }) {
      await store.create(record('c'));
      const other = await another();
      equal(await store.append(batch(undefined, 1, 'x')), { revision: 2 }, 'the receipt');
      await refuses(store.append(batch(undefined, 1, 'y')), 'conflict', 'append to a stale revision');
      const claim = await other.claim('c', 'one', SHORT);
      await refuses(store.append(batch(undefined, 2, 'y')), 'busy', 'append while a claim is held');
      await elapse(2 * SHORT);
      equal(await store.append(batch(undefined, 2, 'y')), { revision: 3 }, 'append after the claim expired');
      await refuses(other.append(batch(claim, 3, 'z')), 'stale-claim', 'append under the expired claim');
      await store.release(await store.claim('c', 'two', LONG));
      equal(await other.append(batch(undefined, 3, 'z')), { revision: 4 }, 'append after a release');
    },
  },
  {
    title: 'C45 of appends to one revision at the same time exactly one lands',
    async run({ store, another }) {
      await store.create(record('c'));
      const other = await another();
      for (let revision = 1; revision <= 3; revision++) {
        const calls = Array.from({ length: 20 }, async (_, n) => {
          await (n % 2 === 0 ? store : other).append(batch(undefined, revision, `x${revision}-${n}`));
          return `x${revision}-${n}`;
        });
        const won = await winners(calls, ['conflict'], 'append');
        equal(won.length, 1, 'how many appends landed');
        equal((await other.load('c'))?.batches.at(-1)?.operationId, won[0], 'the batch that is stored');
      }
    },
  },
  {
    title: 'F concurrent calls of every kind on one handle leave one linear history',
    async run({ store, another }) {
      const ids = ['one', 'two', 'three'];
      const other = await another();
      for (const id of ids) await store.create(record(id));
      const landed = new Map(ids.map((id) => [id, new Set(['create'])]));
      const work = async (id: string, worker: number): Promise<void> => {
        const handle = worker % 2 === 0 ? store : other;
        for (let turn = 0; turn < 12; turn++) {
          const loaded = await handle.load(id);
          equal(
            revisions(loaded),
            Array.from({ length: loaded?.revision ?? 0 }, (_, i) => i + 1),
            'what load sees',
          );
          const operationId = `${worker}-${turn}`;
          const expectedRevision = loaded?.revision ?? 0;
          const appended = batch(undefined, expectedRevision, operationId, { conversationId: id });
          const [won] = await winners([handle.append(appended)], ['conflict', 'busy'], 'append');
          if (won !== undefined) landed.get(id)?.add(operationId);
          const [claim] = await winners([handle.claim(id, `${worker}`, LONG)], ['busy'], 'claim');
          if (claim !== undefined) await handle.release(claim);
          holds((await handle.list({})).items.length === ids.length, 'a listing shows every conversation');
        }
      };
      await Promise.all(ids.flatMap((id) => [0, 1, 2, 3].map((worker) => work(id, worker))));
      for (const id of ids) {
        const all = await readAll(other, id, 7);
        equal(
          all.map((one) => one.revision),
          all.map((_, i) => i + 1),
          'the revisions',
        );
        const operations = all.map((one) => one.operationId);
        equal([...operations].sort(), [...(landed.get(id) ?? [])].sort(), 'the operations that landed');
      }
    },
  },
  {
    title: 'F appends of one owner that do not wait for each other land in order or not at all',
    async run({ store }) {
      await written(store, 1);
      const claim = await store.claim('c', 'one', LONG);
      const calls = Array.from({ length: 10 }, (_, i) => store.append(batch(claim, i + 1, `x${i + 1}`)));
      const won = await winners(calls, ['conflict'], 'append');
      const stored = await readAll(store, 'c', 100);
      equal(stored.length, won.length + 1, 'how many batches there are');
      stored.slice(1).forEach(({ revision, operationId }) => {
        equal(operationId, `x${revision - 1}`, 'the operation of a revision');
      });
    },
  },
];
