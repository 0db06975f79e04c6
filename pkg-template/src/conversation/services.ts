/** What an attempt may ask of the record it runs under. */

import type { ExecutionRecord } from '../runtime/types.js';
import type { TurnServices } from '../types.js';
import { identifier, revive } from '../values.js';
import type { Attempt } from './attempts.js';
import { executionRecord, modelCall, usageReport } from './calls.js';
import { checked, type EngineHandle } from './engine-handle.js';

/** How the engine is asked; each question is answered under its ticket. */
interface Services {
  admit(ticket: number, attempt: string, call: string): void;
  report(ticket: number, attempt: string, report: string): void;
  record(ticket: number, attempt: string, record: string): void;
  records(attempt: string, execution: string): string;
  ask(): void;
  free(): void;
}

/** @param durable whether what an execution records outlives the process */
export function turnServices<H extends Services, P>(
  engine: EngineHandle<H, P>,
  attempt: Attempt,
  durable: boolean,
): TurnServices {
  const signal = (): AbortSignal => attempt.signal;
  return {
    admitModelCall: async (call) => {
      const request = checked(() => modelCall(call));
      await engine.ticket(signal, (handle, ticket) => handle.admit(ticket, attempt.id, request));
    },
    recordUsage: async (report) => {
      const request = checked(() => usageReport(report));
      await engine.ticket(signal, (handle, ticket) => handle.report(ticket, attempt.id, request));
    },
    journal: {
      durable,
      append: async (record) => {
        const line = checked(() => executionRecord(record));
        await engine.ticket(signal, (handle, ticket) => handle.record(ticket, attempt.id, line));
      },
      read: async (executionId) => {
        const id = checked(() => identifier(executionId, 'executionId'));
        const records = engine.read((handle) => handle.records(attempt.id, id));
        return revive(JSON.parse(records)) as ExecutionRecord[];
      },
    },
  };
}
