/** What a turn of a runtime can be refused with. */

import type { JsonValue } from '../types.js';
import { isInstance } from '../values.js';

/** Why a runtime cannot take or continue a turn. */
export type RuntimeParticipantErrorCode =
  /** A tool asked to suspend the turn in a way this participant does not understand. */
  | 'unsupported-wait'
  /** An answer does not belong to what is waiting. */
  | 'identity-mismatch'
  /** A checkpoint is malformed, of another version, or of a runtime made differently. */
  | 'checkpoint-invalid'
  /** The records of a suspended execution are gone. */
  | 'journal-missing'
  /** A provider, tool or options object belongs to another open session. */
  | 'resource-reused';

/** Why a model's reply is no decision. */
export type SelectorDecisionErrorCode =
  /** Nobody takes part. */
  | 'no-candidates'
  /** The model did not call the tool to decide with. */
  | 'no-decision'
  /** It called it more than once. */
  | 'multiple-decisions'
  /** What it decided is ambiguous or malformed, or it could have decided by another tool. */
  | 'invalid-decision'
  /** It named someone who does not take part. */
  | 'unknown-participant';

/** Recognises errors of another copy of this package in the same process. */
const PARTICIPANT_ERROR = Symbol.for('agent-roundtable/RuntimeParticipantError');
const DECISION_ERROR = Symbol.for('agent-roundtable/SelectorDecisionError');
const SUSPENSION = Symbol.for('agent-roundtable/ToolSuspension');

/** A runtime refused a turn or a session. `instanceof` also holds for errors of another copy of this package. */
export class RuntimeParticipantError extends Error {
  readonly code: RuntimeParticipantErrorCode;

  constructor(code: RuntimeParticipantErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** A model gave no decision that can be used. `instanceof` also holds for errors of another copy of this package. */
export class SelectorDecisionError extends Error {
  readonly code: SelectorDecisionErrorCode;

  constructor(code: SelectorDecisionErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/**
 * Thrown by a tool that wants to suspend its turn. No participant of this package supports it, whatever
 * its `kind`: the turn fails with `unsupported-wait`. Approvals are asked for by a session's own gate.
 */
export class ToolSuspension extends Error {
  readonly kind: string;
  readonly reason: string;
  readonly data: JsonValue;

  constructor(request: { kind: string; reason: string; data: JsonValue }) {
    super(request.reason);
    this.kind = request.kind;
    this.reason = request.reason;
    this.data = request.data;
  }
}

for (const [kind, brand] of [
  [RuntimeParticipantError, PARTICIPANT_ERROR],
  [SelectorDecisionError, DECISION_ERROR],
  [ToolSuspension, SUSPENSION],
] as const) {
  Object.defineProperty(kind.prototype, brand, { value: true });
  Object.defineProperty(kind.prototype, 'name', { value: kind.name, configurable: true, writable: true });
  // Of a subclass, only its own instances are.
  Object.defineProperty(kind, Symbol.hasInstance, {
    value(this: unknown, value: unknown): boolean {
      return this === kind
        ? isBranded(value, brand)
        : Function.prototype[Symbol.hasInstance].call(this as never, value);
    },
  });
}

/**
 * A turn's execution failed for a reason that is neither the host's error nor a participant's refusal.
 * Not exported: hosts tell these errors apart by `code`.
 */
export class ExecutionError extends Error {
  constructor(
    readonly code: /** The journal, or the admission behind it, refused a record; `cause` says why. */
      | 'EXECUTION_JOURNAL_FAILED'
      /** A provider gave something that is no reply. */
      | 'EXECUTION_REPLY_INVALID'
      /** The turn's rendered input cannot be used. */
      | 'EXECUTION_INPUT_INVALID'
      /** The model went on calling tools beyond `maxRounds`. */
      | 'EXECUTION_ROUND_LIMIT'
      /** A tool was started and nobody knows what came of it; or an execution waits and is in the way. */
      | 'EXECUTION_RECOVERY_REQUIRED'
      /** An answer contradicts one on record. */
      | 'EXECUTION_RECOVERY_CONFLICT'
      /** The records are not those of this session's execution, or contradict each other. */
      | 'EXECUTION_RECOVERY_INVALID',
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = 'ExecutionError';
  }
}

/** Whether an error says that only a host can know what its turn did. */
export function isOutcomeUnknown(error: unknown): boolean {
  return isInstance(error, ExecutionError) && error.code === 'EXECUTION_RECOVERY_REQUIRED';
}

/** Whether an error says that a tool suspended its turn in a way that nobody can answer. */
export function isUnsupportedWait(error: unknown): boolean {
  return isInstance(error, RuntimeParticipantError) && error.code === 'unsupported-wait';
}

/**
 * A turn was aborted, and its journal had failed as well: `reason` is the signal's, `cause` the
 * journal's error. Named as abort errors are.
 */
export class AbortedWithFailure extends Error {
  constructor(
    readonly reason: unknown,
    journalError: ExecutionError,
  ) {
    super(`the turn was aborted, and ${journalError.message}`, { cause: journalError });
    this.name = 'AbortError';
  }
}

function isBranded(value: unknown, brand: symbol): boolean {
  return typeof value === 'object' && value !== null && brand in value;
}
