/** The engine's agent loop, as it is told of what happened and as it says what to do. */

import type { AgentHandle } from '../generated/bindings.js';
import type { JsonValue, ParticipantRequest, Selection } from '../types.js';
import type { SelectorDecisionErrorCode } from './errors.js';
import type { ExecutionRecord } from './types.js';

/** What the engine is told. `reply` is coded JSON text and is put in as it is. */
export type LoopInput =
  | { kind: 'start'; turnId: string; attemptId: string; input: string; at: number }
  | ({ kind: 'resume'; recordsText: string; responsesText: string; retried: boolean; at: number } & ResumedTurn)
  | ({ kind: 'continue'; recordsText: string; retried: boolean; at: number } & StoppedTurn)
  | { kind: 'permitted'; callId: string; verdicts: readonly string[]; at: number }
  | { kind: 'cache-answered' | 'model-replied'; callId: string; replyText: string | undefined }
  | { kind: 'cache-failed' | 'append-refused' | 'permission-failed'; callId: string }
  | { kind: 'appended'; callId: string; at: number }
  | { kind: 'model-failed'; callId: string; message: string }
  | { kind: 'tool-returned'; callId: string; index: number; at: number; resultText: string }
  | { kind: 'tool-failed' | 'tool-result-invalid'; callId: string; index: number; at: number; message: string }
  | { kind: 'tool-suspended'; callId: string; index: number; at: number }
  | { kind: 'flushed' | 'delta-failed' | 'aborted' };

/** Which turn is continued, and as which attempt. */
export interface ResumedTurn {
  conversationId: string;
  participantId: string;
  turnId: string;
  groupId: string;
  attemptId: string;
}

/** Which turn that was stopped is continued, as which attempt, and the attempt that began it. */
export interface StoppedTurn {
  turnId: string;
  attemptId: string;
  executionId: string;
}

/** What the host is to do. Messages and responses are coded. */
export type LoopEffect =
  | { kind: 'extend'; messages: readonly unknown[] }
  | { kind: 'ask-cache' | 'call-model'; callId: string; offerTools: boolean }
  | { kind: 'append'; callId: string; record: LoopRecord }
  | { kind: 'record'; record: LoopRecord }
  | { kind: 'sync'; callId: string }
  | { kind: 'permit'; callId: string; calls: readonly PermitCall[] }
  | { kind: 'run-tools'; runs: readonly ToolRun[] }
  | { kind: 'flush' }
  | { kind: 'yield' }
  | { kind: 'speak'; content: string }
  | { kind: 'wait'; requests: ParticipantRequest[] }
  | { kind: 'decide'; selection: Selection }
  | { kind: 'call'; arguments: { [key: string]: JsonValue } }
  | { kind: 'fail'; code: FailureCode; message: string };

/** A record without what the host knows: whose execution it is, and the provider and model. */
export type LoopRecord = { id: string } & (
  | { kind: 'model-request'; callId: string }
  | { kind: 'model-response' | 'model-cache-hit'; callId: string; response: unknown }
  | WrittenRecord
);

/** A record whose members are as they are journaled. */
type WrittenRecord = Without<
  Exclude<ExecutionRecord, { kind: 'model-request' | 'model-response' | 'model-cache-hit' }>,
  'executionId' | 'sessionId'
>;
type Without<Record, Key extends string> = Record extends unknown ? Omit<Record, Key> : never;

/** A tool call that the policy is read for. */
export interface PermitCall {
  toolName: string;
  toolCallId: string;
  arguments: JsonValue;
}

/** One tool to run. */
export interface ToolRun {
  callId: string;
  index: number;
  /** Its position among the agent's tools. */
  tool: number;
  toolCallId: string;
  arguments: JsonValue;
  idempotencyKey: string;
}

/** Why a turn has no outcome. */
export type FailureCode =
  | 'aborted'
  | 'delta-failed'
  | 'journal-failed'
  | 'model-failed'
  | 'invalid-reply'
  | 'invalid-input'
  | 'unsupported-wait'
  | 'round-limit'
  | 'busy'
  | 'permission-failed'
  | 'identity-mismatch'
  | 'journal-missing'
  | 'recovery-required'
  | 'recovery-conflict'
  | 'recovery-invalid'
  | Exclude<SelectorDecisionErrorCode, 'no-candidates'>;

/** Tells the engine what happened and returns what to do. */
export function tell(agent: AgentHandle, input: LoopInput): LoopEffect[] {
  return JSON.parse(agent.handle(inputText(input))) as LoopEffect[];
}

function inputText(input: LoopInput): string {
  if ('replyText' in input) {
    const { replyText, ...rest } = input;
    return withMember(rest, 'reply', replyText ?? 'null');
  }
  if ('resultText' in input) {
    const { resultText, ...rest } = input;
    return withMember(rest, 'result', resultText);
  }
  if ('responsesText' in input) {
    const { recordsText, responsesText, ...rest } = input;
    return withMember(rest, 'records', `${recordsText},"responses":${responsesText}`);
  }
  if ('recordsText' in input) {
    const { recordsText, ...rest } = input;
    return withMember(rest, 'records', recordsText);
  }
  return JSON.stringify(input);
}

// The text of a value that was already written is not parsed only to be written again.
function withMember(input: object, key: string, text: string): string {
  return `${JSON.stringify(input).slice(0, -1)},"${key}":${text}}`;
}
