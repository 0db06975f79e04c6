// The durable stores that tests of whole processes run on, by name, each in a folder of its own.
import { join } from 'node:path';
import { fileStore, sqliteStore } from 'agent-roundtable/node';

export const CONVERSATION = 'the conversation';

export const STORES = ['file', 'sqlite'];

/** @returns the store and what closes it */
export async function openStore(kind, folder) {
  switch (kind) {
    case 'file':
      return { store: fileStore({ directory: join(folder, 'store') }), close: async () => {} };
    case 'sqlite': {
      const store = sqliteStore({ path: join(folder, 'store.db') });
      return { store, close: async () => store.close?.() };
    }
    default:
      throw new Error(`there is no store ${kind}`);
  }
}
