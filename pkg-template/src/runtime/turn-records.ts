/** What a turn writes down in its execution journal, and what earlier attempts of it wrote there. */

import { messageOf } from '../conversation/thrown.js';
import { BadValue, codedText, elements, isInstance } from '../values.js';
import type { Agent } from './agent-options.js';
import { ExecutionError } from './errors.js';
import { messageFrom } from './history.js';
import type { ExecutionJournal, ExecutionRecord } from './types.js';
import type { LoopRecord } from './wire.js';

/** Whose records they are. */
export interface RecordOwner {
  readonly agent: Pick<Agent, 'providerName' | 'model'>;
  readonly sessionId: string;
  /** The execution, until an earlier one is gone on with. */
  readonly executionId: string;
}

export class TurnRecords {
  readonly #journal: ExecutionJournal;
  readonly #owner: RecordOwner;
  #executionId: string;
  #written: Promise<unknown> = Promise.resolve();
  #error: ExecutionError | undefined;

  /** @param journal the host's, or the conversation's own */
  constructor(journal: ExecutionJournal, owner: RecordOwner) {
    this.#journal = journal;
    this.#owner = owner;
    this.#executionId = owner.executionId;
  }

  /** Resolves when every record so far is journaled or was refused. */
  get written(): Promise<unknown> {
    return this.#written;
  }

  /** Why the journal refused a record, the first time it did. */
  get error(): ExecutionError | undefined {
    return this.#error;
  }

  /** From now on records belong to this execution. */
  goOnWith(executionId: string): void {
    this.#executionId = executionId;
  }

  /** The records of an execution. @throws `EXECUTION_JOURNAL_FAILED`, `EXECUTION_RECOVERY_INVALID` */
  async of(executionId: string): Promise<readonly unknown[]> {
    let records: unknown;
    try {
      records = (await this.#journal.read?.(executionId)) ?? [];
    } catch (error) {
      const message = `the execution journal could not be read: ${messageOf(error)}`;
      throw new ExecutionError('EXECUTION_JOURNAL_FAILED', message, { cause: error });
    }
    return valid(() => elements(records, 'records', Infinity));
  }

  /** Journals a record and waits for it and all before it, which are on their way at the same time. */
  async append(callId: string, record: LoopRecord): Promise<void> {
    const before = this.#written;
    let refused = false;
    const append = this.#journal.append(this.#whole(record)).catch((error: unknown) => {
      refused = true;
      this.#refused(error);
    });
    await before;
    await append;
    if (!refused && this.#error !== undefined && record.kind === 'model-request') {
      // The call was admitted and will not be made.
      const id = `${callId}:failure`;
      const message = 'an earlier record was refused';
      this.write({ id, kind: 'model-failure', callId, message, cancelled: true });
    }
  }

  /** Journals a record; what comes after it waits. */
  write(record: LoopRecord): void {
    const append = this.#journal.append(this.#whole(record)).catch((error: unknown) => this.#refused(error));
    this.#written = Promise.all([this.#written, append]);
  }

  #refused(error: unknown): void {
    const message = `the execution journal refused a record: ${messageOf(error)}`;
    this.#error ??= new ExecutionError('EXECUTION_JOURNAL_FAILED', message, { cause: error });
  }

  #whole(record: LoopRecord): ExecutionRecord {
    const { agent, sessionId } = this.#owner;
    const whose = { executionId: this.#executionId, sessionId };
    const identity = { providerId: agent.providerName, modelId: agent.model };
    switch (record.kind) {
      case 'model-request':
        return { ...record, ...whose, ...identity };
      case 'model-response':
        return { ...record, ...whose, kind: record.kind, response: messageFrom(record.response) };
      case 'model-cache-hit':
        return { ...record, ...whose, ...identity, kind: record.kind, response: messageFrom(record.response) };
      default:
        return { ...record, ...whose };
    }
  }
}

/** Records as the engine reads them. @throws `EXECUTION_RECOVERY_INVALID` */
export function codedRecords(records: readonly unknown[]): string {
  return valid(() => codedText(records, 'records', 3));
}

/** Whether a record says that a tool was about to run. */
export function isIntent(record: unknown): boolean {
  return typeof record === 'object' && record !== null && 'kind' in record && record.kind === 'tool-intent';
}

function valid<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw isInstance(error, BadValue) ? new ExecutionError('EXECUTION_RECOVERY_INVALID', error.message) : error;
  }
}
