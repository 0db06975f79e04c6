/** Listings: order, filters, cursors. */

import type { ConversationStore } from '../../store-types.js';
import { equal, holds, refuses } from './checks.js';
import { batch, listAll, record, summary } from './records.js';
import type { Rule } from './types.js';

const at = (day: number) => summary({ createdAt: `2027-01-0${day}T00:00:00.000Z` });

async function listed(store: ConversationStore): Promise<void> {
  await store.create(record('old', { summary: at(1) }));
  await store.create(record('b', { summary: at(2), kind: 'team' }));
  await store.create(record('a', { summary: at(2) }));
  await store.create(record('new', { summary: { ...at(3), status: 'completed', members: ['z'] } }));
}

export const listing: readonly Rule[] = [
  {
    title: 'F list gives the newest createdAt first, then by id',
    async run({ store, another }) {
      await listed(store);
      const page = await (await another()).list({});
      equal(
        page.items.map((item) => item.conversationId),
        ['new', 'a', 'b', 'old'],
        'the ids',
      );
      equal(page.nextCursor, undefined, 'the cursor of the last page');
      equal(page.items[2], { conversationId: 'b', kind: 'team', revision: 1, summary: at(2) }, 'an item');
    },
  },
  {
    title: 'F list selects by kind, status and member, as they are now',
    async run({ store }) {
      await listed(store);
      equal(await listAll(store, { kind: 'team' }), ['b'], 'by kind');
      equal(await listAll(store, { kind: 'deliberation' }), [], 'by a kind that none has');
      equal(await listAll(store, { status: 'completed' }), ['new'], 'by status');
      equal(await listAll(store, { member: 'a' }), ['a', 'b', 'old'], 'by member');
      equal(await listAll(store, { member: 'a', limit: 1 }), ['a', 'b', 'old'], 'by member, in pages of one');
      equal(await listAll(store, { member: 'a', status: 'completed' }), [], 'by member and status');
      const changed = { conversationId: 'old', summary: { ...at(1), status: 'failed', members: ['z'] } } as const;
      await store.append(batch(undefined, 1, 'x', changed));
      equal(await listAll(store, { member: 'z' }), ['new', 'old'], 'by a member that came later');
      equal(await listAll(store, { member: 'a' }), ['a', 'b'], 'by a member that left');
      equal(await listAll(store, { status: 'failed' }), ['old'], 'by a status that came later');
      equal((await store.list({ status: 'failed' })).items[0]?.revision, 2, 'the revision');
    },
  },
  {
    title: 'F list goes on after a cursor, through ties in createdAt, page by page',
    async run({ store }) {
      const ids = Array.from({ length: 23 }, (_, i) => `id ${String(i).padStart(2, '0')}`);
      for (const id of [...ids].reverse()) await store.create(record(id, { summary: at(2) }));
      await store.create(record('first', { summary: at(3) }));
      await store.create(record('last', { summary: at(1) }));
      for (const limit of [1, 2, 5, 24, 25, 26]) {
        equal(await listAll(store, { limit }), ['first', ...ids, 'last'], `in pages of ${limit}`);
      }
      holds((await store.list({ limit: 25 })).nextCursor === undefined, 'a full last page has no cursor');
    },
  },
  {
    title: 'F list shows each conversation once that was there all the time, while others are written',
    async run({ store, another }) {
      const ids = Array.from({ length: 20 }, (_, i) => `id ${String(i).padStart(2, '0')}`);
      const other = await another();
      for (const id of ids) await store.create(record(id, { summary: at(2) }));
      let count = 0;
      const write = async (): Promise<void> => {
        count += 1;
        await Promise.all([
          other.create(record(`newer ${count}`, { summary: at(3) })),
          other.create(record(`id 05 tie ${count}`, { summary: at(2) })),
          other.create(record(`older ${count}`, { summary: at(1) })),
          other.append(batch(undefined, count, `x${count}`, { conversationId: 'id 10', summary: at(2) })),
          store.delete(`newer ${count - 1}`),
        ]);
      };
      const seen = await listAll(store, { limit: 3 }, write);
      equal(
        seen.filter((id) => ids.includes(id)),
        ids,
        'those that were there all the time',
      );
      equal(new Set(seen).size, seen.length, 'how many are shown once');
    },
  },
  {
    title: 'F list refuses a cursor that no listing gave, and a limit that is no count',
    async run({ store }) {
      await listed(store);
      for (const cursor of ['', 'x', '[]', '[1,2]', '{}', 'null']) {
        await refuses(store.list({ cursor }), 'invalid-config', `the cursor ${cursor}`);
      }
      for (const limit of [0, -1, 1.5, Number.NaN]) {
        await refuses(store.list({ limit }), 'invalid-config', `the limit ${limit}`);
      }
    },
  },
];
