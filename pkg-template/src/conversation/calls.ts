/** The arguments of a host's calls, checked and written as the requests the engine reads. */

import type { Roundtable, UsageReport } from '../types.js';
import {
  BadValue,
  codedText,
  describe,
  exactly,
  identifier,
  jsonText,
  MAX_CONTENT,
  MAX_TEXT,
  members,
  only,
  text,
} from '../values.js';
import { checkCheckpoint, checkOutcome } from './outcomes.js';

type Argument<Call extends keyof Roundtable> = Roundtable[Call] extends (input: infer Input) => unknown ? Input : never;

/** @throws BadValue naming the member that is wrong */
export function submitInputRequest(input: Argument<'submitInput'>): string {
  const required = ['participantId', 'inputId', 'expectedRevision', 'content'];
  const given = exactly(input, 'input', required, ['replyToRequestId', 'by']);
  return JSON.stringify({
    'submit-input': {
      participantId: identifier(given.get('participantId'), 'participantId'),
      inputId: identifier(given.get('inputId'), 'inputId'),
      expectedRevision: revision(given.get('expectedRevision')),
      content: text(given.get('content'), 'content', MAX_CONTENT),
      replyTo: given.has('replyToRequestId')
        ? identifier(given.get('replyToRequestId'), 'replyToRequestId')
        : undefined,
      by: given.has('by') ? identifier(given.get('by'), 'by') : undefined,
    },
  });
}

/** @throws BadValue naming the member that is wrong */
export function resumeRequest(input: Argument<'resume'>): string {
  const given = exactly(input, 'input', ['requestId', 'responseId', 'expectedRevision', 'response'], ['by']);
  const requestId = JSON.stringify(identifier(given.get('requestId'), 'requestId'));
  const responseId = JSON.stringify(identifier(given.get('responseId'), 'responseId'));
  const expected = revision(given.get('expectedRevision'));
  const response = readResponse(given.get('response'));
  const by = given.has('by') ? `,"by":${JSON.stringify(identifier(given.get('by'), 'by'))}` : '';
  const fields = `"requestId":${requestId},"responseId":${responseId},"expectedRevision":${expected}`;
  return `{"resume":{${fields},"response":${response}${by}}}`;
}

/** @throws BadValue naming the member that is wrong */
export function withdrawRequest(input: Argument<'withdraw'>): string {
  const given = exactly(input, 'input', ['requestId', 'expectedRevision', 'by', 'reason']);
  return JSON.stringify({
    withdraw: {
      requestId: identifier(given.get('requestId'), 'requestId'),
      expectedRevision: revision(given.get('expectedRevision')),
      by: identifier(given.get('by'), 'by'),
      reason: text(given.get('reason'), 'reason', MAX_TEXT),
    },
  });
}

/** @throws BadValue naming the member that is wrong */
export function reconcileRequest(input: Argument<'reconcile'>): string {
  const given = exactly(input, 'input', ['turnId', 'expectedRevision', 'by', 'decision']);
  const turnId = JSON.stringify(identifier(given.get('turnId'), 'turnId'));
  const by = JSON.stringify(identifier(given.get('by'), 'by'));
  const fields = `"turnId":${turnId},"expectedRevision":${revision(given.get('expectedRevision'))},"by":${by}`;
  return `{"reconcile":{${fields},"decision":${readDecision(given.get('decision'))}}}`;
}

function readDecision(value: unknown): string {
  const found = members(value, 'decision');
  const kind = found.get('kind');
  switch (kind) {
    case 'retry':
      only(found, 'decision', ['kind']);
      return '{"kind":"retry"}';
    case 'fail': {
      only(found, 'decision', ['kind', 'message']);
      return JSON.stringify({ kind, message: text(found.get('message'), 'decision.message', MAX_TEXT) });
    }
    case 'settle': {
      only(found, 'decision', ['kind', 'outcome'], ['checkpoint']);
      const outcome = checkOutcome(found.get('outcome'));
      const settled = 'json' in outcome ? outcome.json : JSON.stringify({ kind: 'speak', content: outcome.content });
      const checkpoint = found.has('checkpoint') ? `,"checkpoint":${checkCheckpoint(found.get('checkpoint'))}` : '';
      return `{"kind":"settle","outcome":${settled}${checkpoint}}`;
    }
    default:
      throw new BadValue('decision.kind', "must be 'retry', 'settle' or 'fail'");
  }
}

/** @throws BadValue naming the member that is wrong */
export function modelCall(call: unknown): string {
  const given = exactly(call, 'call', ['callId', 'providerId', 'modelId']);
  return JSON.stringify({
    callId: identifier(given.get('callId'), 'call.callId'),
    providerId: identifier(given.get('providerId'), 'call.providerId'),
    modelId: identifier(given.get('modelId'), 'call.modelId'),
  });
}

/** A line of an execution's journal, its dates coded. @throws BadValue naming the member that is wrong */
export function executionRecord(record: unknown): string {
  const given = members(record, 'record');
  for (const key of ['id', 'executionId']) identifier(given.get(key), `record.${key}`);
  return codedText(record, 'record', 2); // the record, and a message in it
}

const OUTCOMES: readonly UsageReport['outcome'][] = ['completed', 'failed', 'cancelled', 'cache-hit'];
const PROVENANCES: readonly UsageReport['provenance'][] = ['reported', 'partial', 'estimated', 'unknown'];
const TOKENS = ['input', 'output', 'cacheRead', 'cacheWrite', 'reasoning'];

/** @throws BadValue naming the member that is wrong */
export function usageReport(report: unknown): string {
  const optional = ['tokens', 'raw', 'providerId', 'modelId'];
  const given = exactly(report, 'report', ['callId', 'outcome', 'provenance', 'final'], optional);
  const parts = [
    `"callId":${JSON.stringify(identifier(given.get('callId'), 'report.callId'))}`,
    `"outcome":${JSON.stringify(choice(given.get('outcome'), 'report.outcome', OUTCOMES))}`,
    `"provenance":${JSON.stringify(choice(given.get('provenance'), 'report.provenance', PROVENANCES))}`,
    `"final":${flag(given.get('final'), 'report.final')}`,
  ];
  if (given.has('tokens')) parts.push(`"tokens":${JSON.stringify(readTokens(given.get('tokens')))}`);
  if (given.has('raw')) parts.push(`"raw":${jsonText(given.get('raw'), 'report.raw')}`);
  for (const key of ['providerId', 'modelId']) {
    if (given.has(key)) parts.push(`"${key}":${JSON.stringify(identifier(given.get(key), `report.${key}`))}`);
  }
  return `{${parts.join(',')}}`;
}

function readTokens(value: unknown): { [kind: string]: number } {
  const counts: { [kind: string]: number } = {};
  for (const [kind, count] of exactly(value, 'report.tokens', [], TOKENS)) {
    counts[kind] = safeInteger(count, `report.tokens.${kind}`);
  }
  return counts;
}

/** @throws BadValue naming the member that is wrong */
export function readResponse(value: unknown): string {
  const kind = members(value, 'response').get('kind');
  switch (kind) {
    case 'input':
      return members(value, 'response').has('declined') ? readDeclined(value) : readSaid(value);
    case 'approval': {
      const given = exactly(value, 'response', ['kind', 'approved'], ['reason']);
      const approved = flag(given.get('approved'), 'response.approved');
      return JSON.stringify({ kind, approved, reason: optionalText(given, 'reason', 'response.reason') });
    }
    case 'reconciliation': {
      const given = exactly(value, 'response', ['kind', 'data']);
      return `{"kind":"reconciliation","data":${jsonText(given.get('data'), 'response.data')}}`;
    }
    default:
      throw new BadValue('response.kind', "must be 'input', 'approval' or 'reconciliation'");
  }
}

function readSaid(value: unknown): string {
  const given = exactly(value, 'response', ['kind', 'content']);
  return JSON.stringify({ kind: 'input', content: text(given.get('content'), 'response.content', MAX_CONTENT) });
}

function readDeclined(value: unknown): string {
  const given = exactly(value, 'response', ['kind', 'declined'], ['reason']);
  if (given.get('declined') !== true) throw new BadValue('response.declined', 'must be true');
  return JSON.stringify({ kind: 'input', declined: true, reason: optionalText(given, 'reason', 'response.reason') });
}

function optionalText(given: Map<string, unknown>, key: string, path = key): string | undefined {
  return given.has(key) ? text(given.get(key), path, MAX_TEXT) : undefined;
}

// A number that no conversation can have is stale rather than malformed.
export function revision(value: unknown): number {
  if (typeof value === 'number' && !(Number.isSafeInteger(value) && value >= 0)) {
    throw new BadValue('expectedRevision', `is ${value}, which is no revision`, 'conflict');
  }
  return safeInteger(value, 'expectedRevision');
}

export function safeInteger(value: unknown, path: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw new BadValue(path, `must be an integer from 0 to ${Number.MAX_SAFE_INTEGER}, not ${describe(value)}`);
}

function flag(value: unknown, path: string): boolean {
  if (typeof value === 'boolean') return value;
  throw new BadValue(path, `must be a boolean, not ${describe(value)}`);
}

function choice<T extends string>(value: unknown, path: string, words: readonly T[]): T {
  const word = words.find((candidate) => candidate === value);
  if (word === undefined) throw new BadValue(path, `must be ${words.join(', ')}`);
  return word;
}
