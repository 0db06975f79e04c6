/** The error that calls on deliberations reject with. */

/** What went wrong, for code to act on; the HTTP handler maps each to one status. */
export type DeliberationErrorCode =
  /** A field is missing, of the wrong type or out of bounds (400). */
  | 'invalid'
  /** The caller is no identity (401). */
  | 'unauthenticated'
  /** The caller may not do this (403). */
  | 'forbidden'
  /** There is no such session (404). */
  | 'not-found'
  /** The session is closed, full, or at another version (409). */
  | 'conflict'
  /** The directory did not answer, the store was contended too long, or the object was disposed (503). */
  | 'unavailable'
  /** The store failed or holds something else, or the engine stopped (500). */
  | 'internal';

/** A refused call. */
export class DeliberationError extends Error {
  override readonly name = 'DeliberationError';
  readonly code: DeliberationErrorCode;
  /** What was refused, in capitals, such as `TOPIC_TOO_LONG` or `SPEAK_FAILED`. */
  declare readonly reason?: string;
  /** The field that is wrong, as the JavaScript interface names it. */
  declare readonly field?: string;

  constructor(
    code: DeliberationErrorCode,
    message: string,
    more: { reason?: string; field?: string; cause?: unknown } = {},
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause });
    this.code = code;
    if (more.reason !== undefined) this.reason = more.reason;
    if (more.field !== undefined) this.field = more.field;
  }
}
