// Conversations to measure: instant participants over a store that counts.
import { createRoundtable, MemoryConversationStore } from '../../pkg/dist/index.js';

/** A text of 500 bytes, as every turn says it. */
export const TEXT = 'The quick brown fox jumps over the lazy dog; pack my box. '.repeat(9).slice(0, 500);

const REFERENCE = { id: 'bench', version: '1' };

/** An agent that answers at once. `runTurn` and `session` replace or add to what its sessions can do. */
export function agent(id, { runTurn = speak, session = {}, factory = {} } = {}) {
  const openSession = async () => ({ session: { runTurn, ...session }, release: async () => {} });
  return { kind: 'agent', id, runtime: REFERENCE, factory: { openSession, ...factory } };
}

/** Says {@link TEXT}. */
export async function speak() {
  return { kind: 'speak', content: TEXT };
}

/** A selector of the host's: the participant after the one who spoke last. */
export function hostSelector(ids) {
  const next = new Map(ids.map((id, index) => [id, ids[(index + 1) % ids.length]]));
  const select = ({ turns }) => ({
    kind: 'speak',
    participantId: next.get(turns[turns.length - 1]?.participantId) ?? ids[0],
  });
  return { reference: REFERENCE, select };
}

/** A conversation of these participants that ends after `turns` turns. */
export function conversation(participants, turns, options = {}) {
  return createRoundtable({ conversationId: 'bench', participants, limits: { maxTurnsPerRun: turns }, ...options });
}

/** Holds a conversation to its end and disposes of it. @throws where it ends in another way */
export async function hold(participants, turns, options) {
  const table = conversation(participants, turns, options);
  const result = await table.run();
  if (result.status !== 'limited' && result.status !== 'completed') throw new Error(JSON.stringify(result));
  await table.dispose();
}

/** A memory store that keeps what it was given to append: the number of UTF-8 bytes of each batch. */
export class CountingStore extends MemoryConversationStore {
  batches = [];

  append(batch) {
    const bytes = batch.entries.reduce((sum, entry) => sum + Buffer.byteLength(entry) + 1, 0);
    this.batches.push(bytes);
    return super.append(batch);
  }
}
