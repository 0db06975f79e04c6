/** A conversation's public state, read from its journal. */

import { checked } from '../conversation/engine-handle.js';
import type { ConversationStore } from '../store-types.js';
import type { ConversationSnapshot } from '../types.js';
import { deepFreeze, exactly } from '../values.js';
import { positiveRevision, readSource, StoredJournal } from './stored-journal.js';

/**
 * The public state of a stored conversation at its last revision, or at an earlier one; of the same shape as
 * `Roundtable.snapshot()`, and frozen. It reads and nothing else: no claim is taken, and a host that works on
 * the conversation meanwhile is not disturbed.
 * @throws RoundtableError `not-found` for a conversation or revision that there is not, or not any more;
 *   `invalid-record` naming the entry that does not fold; `invalid-config`; the store's own, or `unavailable`
 */
export async function readConversation(options: {
  store: ConversationStore;
  conversationId: string;
  /** Default: the last. */
  atRevision?: number;
}): Promise<ConversationSnapshot> {
  const { store, conversationId, atRevision } = checked(() => {
    const given = exactly(options, 'options', ['store', 'conversationId'], ['atRevision']);
    const at = given.get('atRevision');
    return { ...readSource(given), atRevision: at === undefined ? undefined : positiveRevision(at, 'atRevision') };
  });
  const journal = await StoredJournal.upTo(store, conversationId, atRevision);
  try {
    return deepFreeze(JSON.parse(journal.read((reader) => reader.snapshot())) as ConversationSnapshot);
  } finally {
    journal.close();
  }
}
