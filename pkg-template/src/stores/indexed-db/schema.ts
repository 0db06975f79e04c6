/** The object stores. */

import { type DBSchema, type IDBPDatabase, type IDBPTransaction, openDB, type StoreNames } from 'idb';
import type { ConversationKind, RecordSummary } from '../../store-types.js';

/** A conversation without its batches. */
export interface StoredConversation {
  conversationId: string;
  kind: ConversationKind;
  schemaVersion: 1;
  revision: number;
  /** The first batch that was not compacted. */
  first: number;
  summary: RecordSummary;
  fence: number;
  claim: { ownerId: string; expiresAt: number } | null;
  snapshotRevision: number | null;
}

/** A batch; one that was compacted has no entries, and keeps its operation id. */
export interface StoredBatch {
  conversationId: string;
  revision: number;
  operationId: string;
  entries?: readonly string[];
}

export interface Schema extends DBSchema {
  conversations: { key: string; value: StoredConversation; indexes: { newest: [string, string] } };
  batches: { key: [string, number]; value: StoredBatch; indexes: { operations: [string, string] } };
  snapshots: { key: string; value: { conversationId: string; state: string } };
}

export type Database = IDBPDatabase<Schema>;
export type Names = StoreNames<Schema>[];
export type Transaction<Mode extends IDBTransactionMode> = IDBPTransaction<Schema, Names, Mode>;

export const ALL: Names = ['conversations', 'batches', 'snapshots'];

/** @param gone called when the browser, or another version of the page, takes the connection away */
export async function openDatabase(name: string, gone: () => void): Promise<Database> {
  const database = await openDB<Schema>(name, 1, {
    upgrade(opened) {
      const conversations = opened.createObjectStore('conversations', { keyPath: 'conversationId' });
      conversations.createIndex('newest', ['summary.createdAt', 'conversationId']);
      const batches = opened.createObjectStore('batches', { keyPath: ['conversationId', 'revision'] });
      batches.createIndex('operations', ['conversationId', 'operationId'], { unique: true });
      opened.createObjectStore('snapshots', { keyPath: 'conversationId' });
    },
    blocking: (_current, _blocked, event) => {
      gone();
      (event.target as IDBDatabase | null)?.close();
    },
    terminated: gone,
  });
  return database;
}
