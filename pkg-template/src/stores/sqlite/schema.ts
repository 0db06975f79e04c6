/** The tables. */

import { RoundtableError } from '../../errors.js';
import type { Database } from './driver.js';

const VERSION = 1;

/**
 * Texts are kept as JSON strings, which hold U+0000 and any other unit; keys are the UTF-16 units of a
 * text, so that they are compared as JavaScript compares. A batch that was compacted has no entries.
 */
const TABLES = `
  CREATE TABLE conversations (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    schema_version INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    first_revision INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    status TEXT NOT NULL,
    members TEXT NOT NULL,
    summary TEXT NOT NULL,
    fence INTEGER NOT NULL,
    owner TEXT,
    expires_at INTEGER,
    snapshot_revision INTEGER
  ) STRICT;
  CREATE INDEX newest_first ON conversations (created_at DESC, id);
  CREATE TABLE batches (
    conversation INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
    revision INTEGER NOT NULL,
    operation TEXT NOT NULL,
    entries TEXT,
    PRIMARY KEY (conversation, revision)
  ) STRICT;
  CREATE UNIQUE INDEX operations ON batches (conversation, operation);
  CREATE TABLE snapshots (
    conversation INTEGER PRIMARY KEY REFERENCES conversations ON DELETE CASCADE,
    state TEXT NOT NULL
  ) STRICT;
  CREATE TABLE members (
    member TEXT NOT NULL,
    conversation INTEGER NOT NULL REFERENCES conversations ON DELETE CASCADE,
    PRIMARY KEY (member, conversation)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX members_of ON members (conversation);
  PRAGMA user_version = ${VERSION};
`;

/** Makes the tables where they are missing; inside a transaction. */
export function setUp(database: Database): void {
  const { user_version: version } = database.prepare('PRAGMA user_version').get() as { user_version: number };
  if (version === VERSION) return;
  if (version !== 0) {
    throw new RoundtableError('invalid-config', `the database has version ${version} of the tables, not ${VERSION}`);
  }
  database.exec(TABLES);
}
