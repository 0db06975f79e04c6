/** What is on record of the tool calls of a foreign runtime: which were begun, and what came of them. */

import { messageOf } from '../conversation/thrown.js';
import { BadValue, codedText, describe, elements, isInstance, members } from '../values.js';
import { canonical } from './default-journal.js';
import { ExecutionError, RuntimeParticipantError } from './errors.js';
import type { ToolApproval } from './foreign-types.js';
import type { ReadAnswer } from './foreign-values.js';
import type { ExecutionJournal, ExecutionRecord } from './types.js';

/** How the id of a result ends whose tool was not run: the turn was stopped before. */
export const NOT_RUN = ':not-run';
/** How the id of a result ends that is the message of what the tool threw. */
export const FAILED = ':failed';

type Intent = ExecutionRecord & { kind: 'tool-intent' };
type Result = ExecutionRecord & { kind: 'tool-result' };

/** Calls by a key: begun, or what came of them. */
export type Deeds = Map<string, 'begun' | { readonly result: Result['result'] } | { readonly failure: string }>;

/** Tells calls apart by all that they are: models that number their calls anew in each reply use an id for several. */
export function actionKey({ toolCallId, toolName, arguments: args }: ToolApproval): string {
  return canonical([toolCallId, toolName, args]);
}

/**
 * Reads what a journal has of an execution.
 * @throws `EXECUTION_JOURNAL_FAILED`, and `EXECUTION_RECOVERY_INVALID` for records that are none or contradict each
 * other
 */
export async function readJournal(
  journal: ExecutionJournal,
  sessionId: string,
  executionId: string,
): Promise<readonly ExecutionRecord[]> {
  let records: unknown;
  try {
    records = (await journal.read?.(executionId)) ?? [];
  } catch (error) {
    const message = `the execution journal could not be read: ${messageOf(error)}`;
    throw new ExecutionError('EXECUTION_JOURNAL_FAILED', message, { cause: error });
  }
  try {
    return readRecords(records, sessionId, executionId);
  } catch (error) {
    if (isInstance(error, BadValue)) throw new ExecutionError('EXECUTION_RECOVERY_INVALID', error.message);
    throw error;
  }
}

/**
 * What is on record must be of this turn, and a request that has its answer there keeps it.
 * @throws `identity-mismatch`, `EXECUTION_RECOVERY_CONFLICT`
 */
export function refuseOthers(
  turnId: string,
  records: readonly ExecutionRecord[],
  answers: readonly Omit<ReadAnswer, 'action'>[],
): void {
  const [start] = records;
  if (start?.kind !== 'execution-start' || start.turnId !== turnId)
    throw new RuntimeParticipantError('identity-mismatch', 'the execution is of another turn');
  for (const record of records) {
    if (record.kind !== 'answer') continue;
    const answer = answers.find(({ requestId }) => requestId === record.requestId);
    if (answer === undefined) continue;
    const { responseId, approved, reason } = record;
    if (answer.responseId !== responseId || answer.approved !== approved || answer.reason !== reason)
      throw new ExecutionError('EXECUTION_RECOVERY_CONFLICT', 'the request has another answer on record');
  }
}

/**
 * The records. One that is there twice counts once.
 * @throws BadValue for what are none, or are another session's or execution's, or contradict each other
 */
function readRecords(value: unknown, sessionId: string, executionId: string): readonly ExecutionRecord[] {
  const texts = new Map<string, string>();
  const read: ExecutionRecord[] = [];
  for (const [index, record] of elements(value, 'records', Infinity).entries()) {
    const path = `records[${index}]`;
    const text = canonical(JSON.parse(codedText(record, path, 2)));
    const found = members(record, path);
    const id = textOf(found, 'id', path);
    if (texts.get(id) === text) continue;
    if (texts.has(id)) throw new BadValue(`${path}.id`, 'is that of another record');
    texts.set(id, text);
    if (textOf(found, 'executionId', path) !== executionId)
      throw new BadValue(`${path}.executionId`, 'is another execution');
    if (textOf(found, 'sessionId', path) !== sessionId) throw new BadValue(`${path}.sessionId`, 'is another session');
    const isFirst = read.length === 0;
    if (isFirst !== (textOf(found, 'kind', path) === 'execution-start'))
      throw new BadValue(`${path}.kind`, isFirst ? 'does not begin the execution' : 'begins it again');
    for (const key of NAMES[String(found.get('kind'))] ?? []) textOf(found, key, path);
    read.push(record as ExecutionRecord);
  }
  checkAnswers(read);
  deedsOf(read, false, ({ toolCallId }) => toolCallId);
  return read;
}

/** What records are told apart by. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  'execution-start': ['turnId'],
  'tool-intent': ['toolCallId', 'toolName', 'idempotencyKey'],
  'tool-result': ['toolCallId'],
  answer: ['requestId', 'responseId'],
};

function textOf(found: ReadonlyMap<string, unknown>, key: string, path: string): string {
  const value = found.get(key);
  if (typeof value === 'string') return value;
  throw new BadValue(`${path}.${key}`, `must be a string, not ${describe(value)}`);
}

function checkAnswers(records: readonly ExecutionRecord[]): void {
  const answers = records.filter((record) => record.kind === 'answer');
  if (new Set(answers.map(({ requestId }) => requestId)).size < answers.length)
    throw new BadValue('records', 'hold two answers to a request');
}

/**
 * What came of tool calls; where a host has said `retry`, what has no result was not begun.
 * @throws BadValue where a call has a result and was not begun, or has two
 */
export function deedsOf(
  records: readonly ExecutionRecord[],
  retried: boolean,
  keyOf: (intent: Intent) => string,
): Deeds {
  const deeds: Deeds = new Map();
  const begun = new Map<string, { readonly intent: Intent; isOver: boolean }>();
  for (const record of records) {
    if (record.kind === 'tool-intent') {
      const call = { intent: record, isOver: false };
      // The second where a runtime writes records of its own, whose ids are its own as well.
      begun.set(stem(record), call).set(record.toolCallId, call);
      if (!retried) deeds.set(keyOf(record), 'begun');
    } else if (record.kind === 'tool-result') {
      const call = begun.get(stem(record)) ?? begun.get(record.toolCallId);
      if (call === undefined) throw new BadValue('records', 'hold the result of a tool call that was not begun');
      if (call.isOver) throw new BadValue('records', 'hold two results of a tool call');
      call.isOver = true;
      const key = keyOf(call.intent);
      if (record.id.endsWith(NOT_RUN)) deeds.delete(key);
      else if (record.id.endsWith(FAILED)) deeds.set(key, { failure: String(record.result) });
      else deeds.set(key, { result: record.result });
    }
  }
  return deeds;
}

/** What the ids of a call's intent and result begin with. */
function stem({ id }: Intent | Result): string {
  return `stem ${id.slice(0, id.lastIndexOf(':'))}`;
}
