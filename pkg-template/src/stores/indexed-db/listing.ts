/** A page of a listing: newest first, and ids in order among those of one time. */

import type { ConversationStore } from '../../store-types.js';
import { type Key, PAGE, positive, readCursor } from '../shared.js';
import type { StoredConversation, Transaction } from './schema.js';

type Query = Parameters<ConversationStore['list']>[0];
type Page = Awaited<ReturnType<ConversationStore['list']>>;

/** Checks a query; gives what reads its page. */
export function pageOf(query: Query): (transaction: Transaction<'readonly'>) => Promise<Page> {
  const { kind, status, member, cursor, limit } = query;
  const size = limit === undefined ? PAGE : positive(limit, 'limit');
  const after = cursor === undefined ? undefined : readCursor(cursor);
  const isWanted = ({ kind: of, summary }: StoredConversation): boolean =>
    (kind === undefined || of === kind) &&
    (status === undefined || summary.status === status) &&
    (member === undefined || summary.members.includes(member));

  return async (transaction) => {
    const found: StoredConversation[] = [];
    for await (const conversation of newestFirst(transaction, after)) {
      if (isWanted(conversation)) found.push(conversation);
      if (found.length > size) break;
    }
    const items = found.slice(0, size).map(({ conversationId, kind: of, revision, summary }) => {
      return { conversationId, kind: of, revision, summary };
    });
    const last = items.at(-1);
    if (last === undefined || found.length <= size) return { items };
    return { items, nextCursor: JSON.stringify([last.summary.createdAt, last.conversationId]) };
  };
}

/** From the latest time back; a walk through one time goes forward. */
async function* newestFirst(transaction: Transaction<'readonly'>, after: Key | undefined) {
  const index = transaction.objectStore('conversations').index('newest');
  let time: string | undefined = after?.[0];
  // After the cursor's id; then, in every earlier time, from its first id on.
  let range = after === undefined ? undefined : IDBKeyRange.bound(after, [after[0], []], true);
  for (;;) {
    if (range !== undefined) {
      for (let at = await index.openCursor(range); at !== null; at = await at.continue()) yield at.value;
    }
    const before = time === undefined ? undefined : IDBKeyRange.upperBound([time], true);
    const latest = await index.openKeyCursor(before, 'prev');
    if (latest === null) return;
    time = latest.key[0];
    range = IDBKeyRange.bound([time], [time, []]);
  }
}
