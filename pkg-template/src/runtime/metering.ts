/** Metering: a journal whose records admit and report the model calls they speak of. */

import { callback, method, object } from '../conversation/options.js';
import { currentEngine } from '../engine.js';
import type { TurnServices, UsageReport } from '../types.js';
import { members } from '../values.js';
import { named } from './agent-options.js';
import type { ChatMessage, ChatMetadata, ExecutionJournal, ExecutionRecord } from './types.js';

/** What a turn has of services to meter with. */
export type MeteringServices = Pick<TurnServices, 'admitModelCall' | 'recordUsage'> &
  Partial<Pick<TurnServices, 'journal'>>;

interface Call {
  callId: string;
  providerId: string;
  modelId: string;
}

/**
 * Wraps a journal for one turn, so that each model call is admitted before its request is journaled
 * and reported, once and finally, after its response or failure is. A refused admission rejects the
 * append and nothing is journaled; an admission whose append then fails is reported as failed, so that
 * no reservation stays open. Other records, and `read`, pass through.
 *
 * Into the conversation's own journal (`services.journal`) a record goes together with its admission or
 * report, so that both are stored at once; the append resolves when both are.
 * @throws `invalid-config` for a journal or services without their functions
 */
export function meterJournal(journal: ExecutionJournal, services: MeteringServices): ExecutionJournal {
  checkJournal(journal);
  named(() => {
    for (const key of ['admitModelCall', 'recordUsage']) method(object(services, 'services'), key, 'services');
  });
  return metered(journal, services);
}

/** The same for a turn: its journal was looked at when its session opened. */
export function metered(journal: ExecutionJournal, services: MeteringServices): ExecutionJournal {
  const together = journal === services.journal;
  const admitted = new Map<string, Call>();
  // Asynchronous functions, because a host's may throw at once or return nothing.
  const write = async (record: ExecutionRecord): Promise<void> => journal.append(record);
  const tell = async (report: UsageReport): Promise<void> => services.recordUsage(report);

  const request = async (record: ExecutionRecord & { kind: 'model-request' }): Promise<void> => {
    const call = { callId: record.callId, providerId: record.providerId, modelId: record.modelId };
    const admission = services.admitModelCall({ ...call });
    const written = together ? write(record) : undefined;
    // Whichever is refused first, the other is not left unobserved.
    written?.catch(() => undefined);
    await admission;
    try {
      await (written ?? write(record));
    } catch (error) {
      await tell(report('failed', call)).catch(() => undefined);
      throw error;
    }
    admitted.set(call.callId, call);
  };

  // The call is over whether or not the journal takes note of it, so it is reported in either case.
  const settle = async (record: SettlingRecord, outcome: Outcome, reply?: ChatMessage): Promise<void> => {
    const call = admitted.get(record.callId) ?? { callId: record.callId, providerId: '', modelId: '' };
    admitted.delete(record.callId);
    const written = write(record);
    if (!together) await written.catch(() => undefined);
    const told = tell(report(outcome, call, reply));
    // A record that is refused is what goes wrong first.
    told.catch(() => undefined);
    await written;
    await told;
  };

  const append = async (record: ExecutionRecord): Promise<void> => {
    switch (record.kind) {
      case 'model-request':
        return request(record);
      case 'model-response':
        return settle(record, 'completed', record.response);
      case 'model-failure':
        return settle(record, record.cancelled === true ? 'cancelled' : 'failed');
      case 'model-cache-hit':
        await write(record);
        return tell(report('cache-hit', record, record.response));
      default:
        return write(record);
    }
  };

  const read = journal.read?.bind(journal);
  return read === undefined ? { append } : { append, read };
}

/** @throws `invalid-config` for what is no journal, naming what it lacks */
export function checkJournal(journal: ExecutionJournal): void {
  named(() => {
    const given = object(journal, 'journal');
    method(given, 'append', 'journal');
    callback(given, 'read', 'journal.');
  });
}

type SettlingRecord = ExecutionRecord & { kind: 'model-response' | 'model-failure' };
type Outcome = UsageReport['outcome'];

function report(outcome: Outcome, call: Call, reply?: ChatMessage): UsageReport {
  const { callId, providerId, modelId } = call;
  const text = currentEngine().engine.callReport(
    outcome,
    JSON.stringify({ callId, providerId, modelId }),
    usageJson(reply),
  );
  return JSON.parse(text) as UsageReport;
}

const COUNTS = [
  'inputTokens',
  'outputTokens',
  'totalTokens',
  'cacheReadTokens',
  'cacheWriteTokens',
  'reasoningTokens',
] as const;
const WORDS = ['usageProvenance', 'providerId', 'modelId'] as const;

/** Metadata without counts that JSON has no text for: one that went wrong costs nobody the reply. */
export function withFiniteCounts(metadata: object, path: string): ChatMetadata {
  const found = members(metadata, path);
  const odd = COUNTS.filter((key) => typeof found.get(key) === 'number' && !Number.isFinite(found.get(key)));
  if (odd.length === 0) return metadata as ChatMetadata;
  for (const key of odd) found.delete(key);
  return Object.fromEntries(found);
}

// Members of another type count as absent, as do numbers that JSON has no text for.
function usageJson(reply: ChatMessage | undefined): string {
  const metadata: Readonly<Record<string, unknown>> = reply?.metadata ?? {};
  const usage: Record<string, unknown> = {};
  for (const key of COUNTS) if (typeof metadata[key] === 'number') usage[key] = metadata[key];
  for (const key of WORDS) if (typeof metadata[key] === 'string') usage[key] = metadata[key];
  return JSON.stringify(usage);
}
