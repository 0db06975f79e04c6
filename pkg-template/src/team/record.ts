/** A team's record, read without taking part in it. */

import { RoundtableError } from '../errors.js';
import type { Batch, ConversationStore } from '../store-types.js';
import { describe, elements, identifier } from '../values.js';
import { checked } from '../conversation/engine-handle.js';
import { TeamError } from './errors.js';
import { readableStore } from './options.js';

/** The JSON of a team's batches, batch 1 first. @throws RoundtableError `not-found`, TeamError `STORED_GRAPH_MISMATCH` */
export async function readRecord(store: ConversationStore, runId: string): Promise<string> {
  const id = checked(() => identifier(runId, 'runId'));
  const record = await readableStore(store).load(id);
  if (record === undefined) throw new RoundtableError('not-found', `the store has no run ${JSON.stringify(id)}`);
  if (record.kind !== 'team' || record.schemaVersion !== 1) {
    const message = `the record is a ${record.kind} of version ${record.schemaVersion}, not a team of version 1`;
    throw new TeamError('STORED_GRAPH_MISMATCH', message, [{ code: 'STORED_GRAPH_MISMATCH', path: '', message }]);
  }
  const batches: Batch[] = [];
  let latest = record.revision;
  while (batches.length < latest) {
    const found = await store.read(id, { after: batches.length });
    const page = found?.batches ?? [];
    if (found === undefined || page.length === 0) {
      throw new RoundtableError('not-found', 'the store no longer has the whole record');
    }
    latest = found.revision;
    batches.push(...page);
  }
  const checkedBatches = checked(() =>
    elements(batches, 'store: batches', Number.MAX_SAFE_INTEGER).map((batch) => {
      const { revision, operationId, entries } = batch as Batch;
      return { revision, operationId, entries: [...entries].map(line) };
    }),
  );
  return JSON.stringify(checkedBatches);
}

function line(entry: unknown): string {
  if (typeof entry === 'string') return entry;
  throw new RoundtableError('invalid-record', `a line of the record must be a string, not ${describe(entry)}`);
}
