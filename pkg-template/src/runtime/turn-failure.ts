/** What a turn that has no outcome throws. */

import { RoundtableError } from '../errors.js';
import { AbortedWithFailure, ExecutionError, RuntimeParticipantError, SelectorDecisionError } from './errors.js';
import type { LoopEffect } from './wire.js';

/** What went wrong outside of the engine: the engine knows only that it did. */
export interface Causes {
  /** Why the turn was stopped. */
  readonly abortReason: unknown;
  /** Why the journal refused a record. */
  readonly journal: ExecutionError | undefined;
  /** What the observer of the streamed text threw. */
  readonly sink: unknown;
  /** What the provider or the permission policy threw. */
  readonly host: unknown;
}

/** The error of a turn that failed. */
export function failureOf(effect: LoopEffect & { kind: 'fail' }, causes: Causes): unknown {
  const { code, message } = effect;
  switch (code) {
    case 'aborted':
      return causes.journal === undefined
        ? causes.abortReason
        : new AbortedWithFailure(causes.abortReason, causes.journal);
    case 'delta-failed':
      return causes.sink;
    case 'journal-failed':
      return causes.journal;
    case 'model-failed':
    case 'permission-failed':
      return causes.host;
    case 'invalid-reply':
      return new ExecutionError('EXECUTION_REPLY_INVALID', message);
    case 'invalid-input':
      return new ExecutionError('EXECUTION_INPUT_INVALID', message);
    case 'round-limit':
      return new ExecutionError('EXECUTION_ROUND_LIMIT', message);
    case 'recovery-required':
      return new ExecutionError('EXECUTION_RECOVERY_REQUIRED', message);
    case 'recovery-conflict':
      return new ExecutionError('EXECUTION_RECOVERY_CONFLICT', message);
    case 'recovery-invalid':
      return new ExecutionError('EXECUTION_RECOVERY_INVALID', message);
    case 'unsupported-wait':
    case 'identity-mismatch':
    case 'journal-missing':
      return new RuntimeParticipantError(code, message);
    case 'busy':
      return new RoundtableError('busy', message);
    default:
      return new SelectorDecisionError(code, message);
  }
}
