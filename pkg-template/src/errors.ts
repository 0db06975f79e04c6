/** The errors that calls reject with. */

import type { UnsettledTurn } from './types.js';

/** What went wrong, for code to act on. */
export type RoundtableErrorCode =
  /** An option or argument is missing, of the wrong type or out of bounds. */
  | 'invalid-config'
  /** A selector decided something that no run could do. */
  | 'invalid-selection'
  /** Another call, or another host, is at work. */
  | 'busy'
  /** The call does not fit the state: a stale revision, a used id, an existing record. */
  | 'conflict'
  /** The handle was disposed. */
  | 'disposed'
  /** The claim was lost to another host. */
  | 'stale-claim'
  /** A turn is stored as running that no process saw settle. */
  | 'recovery-required'
  /** A model-call or token limit is spent. */
  | 'model-call-limit'
  /** The stored journal does not fold. */
  | 'invalid-record'
  /** There is no such conversation, request or call. */
  | 'not-found'
  /** The store did not say whether it wrote, a consumer fell behind, or a session could not be opened or released. */
  | 'unavailable'
  /** A fault of the engine. */
  | 'internal';

/** Recognises errors of another copy of this package in the same process. */
const BRAND = Symbol.for('agent-roundtable/RoundtableError');

/** A refused call. `instanceof` also holds for errors of another copy of this package. */
export class RoundtableError extends Error {
  readonly code: RoundtableErrorCode;
  /** With `recovery-required`: the turns that must be reconciled. */
  declare readonly turns?: readonly UnsettledTurn[];

  constructor(code: RoundtableErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Several sessions could not be released: an AggregateError that is a {@link RoundtableError} as well. */
export class ReleaseError extends AggregateError {
  readonly code = 'unavailable' satisfies RoundtableErrorCode;

  /** @param failures what the factories threw, one for each session */
  constructor(failures: readonly unknown[], messages: readonly string[]) {
    const sessions = messages.length === 1 ? 'a session' : `${messages.length} sessions`;
    super(failures, `${sessions} could not be released: ${messages.join('; ')}`);
  }
}

// A subclass keeps the ordinary meaning of `instanceof`.
function isRoundtableError(this: unknown, value: unknown): boolean {
  if (this !== RoundtableError) return Function.prototype[Symbol.hasInstance].call(this as typeof Error, value);
  try {
    return typeof value === 'object' && value !== null && BRAND in value;
  } catch {
    // A proxy that refuses the question.
    return false;
  }
}

Object.defineProperty(RoundtableError, Symbol.hasInstance, { value: isRoundtableError });
for (const kind of [RoundtableError, ReleaseError]) {
  Object.defineProperty(kind.prototype, BRAND, { value: true });
  Object.defineProperty(kind.prototype, 'name', { value: 'RoundtableError', configurable: true, writable: true });
}
