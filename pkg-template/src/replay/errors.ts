/** The errors of session logs and their replay. */

/** What kind of defect a log has. */
export type SessionLogDecodeErrorCode = 'INVALID_JSON' | 'UNSUPPORTED_VERSION' | 'INVALID_EVENT';

/** One thing that is wrong, and where; never the value itself. */
export interface SessionLogIssue {
  /** `line N`, `[i]`, `entries` or `entry`, then `.key` and `[index]`. */
  path: string;
  message: string;
}

/** A log that does not decode. Every issue is listed, up to 1,000; the message names the first. */
export class SessionLogDecodeError extends Error {
  readonly code: SessionLogDecodeErrorCode;
  readonly issues: SessionLogIssue[];
  /** The first unsupported version, with `UNSUPPORTED_VERSION`. */
  declare readonly schemaVersion?: number;

  constructor(
    code: SessionLogDecodeErrorCode,
    message: string,
    details: { issues: SessionLogIssue[]; schemaVersion?: number | undefined; cause?: unknown },
  ) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined);
    this.code = code;
    this.issues = details.issues;
    if (details.schemaVersion !== undefined) this.schemaVersion = details.schemaVersion;
  }
}

/** Why a reference to an external payload could not be resolved. */
export type SessionLogPayloadResolutionErrorCode =
  | 'INVALID_REFERENCE'
  | 'MAX_DEPTH_EXCEEDED'
  | 'UNRESOLVED_REFERENCE'
  | 'CIRCULAR_REFERENCE'
  | 'PAYLOAD_NOT_FOUND'
  | 'MAX_TOTAL_BYTES_EXCEEDED'
  | 'BYTE_LENGTH_MISMATCH'
  | 'SHA256_MISMATCH'
  | 'INVALID_JSON'
  | 'INVALID_LIMIT'
  | 'OUTSIDE_ROOT'
  | 'PAYLOAD_UNREADABLE'
  | 'STABLE_PAYLOAD_READ_UNAVAILABLE';

/** What a {@link SessionLogPayloadResolutionError} knows besides its code. */
export interface PayloadResolutionMetadata {
  /** The path as the reference gives it. */
  relativePath?: string;
  /** The same as a path of the host. */
  resolvedPath?: string;
  /** How many references stand above the one that failed. */
  depth?: number;
  /** What was expected: a limit, a length, a digest. */
  expected?: number | string;
  /** What was there instead. */
  actual?: number | string;
}

/** A reference to an external payload that could not be resolved. */
export class SessionLogPayloadResolutionError extends Error {
  readonly code: SessionLogPayloadResolutionErrorCode;
  readonly metadata: PayloadResolutionMetadata;

  constructor(
    code: SessionLogPayloadResolutionErrorCode,
    message: string,
    metadata: PayloadResolutionMetadata = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.code = code;
    this.metadata = metadata;
  }
}

/** Why a replay has no answer. */
export type ReplayErrorCode =
  /** Every recorded response was used. */
  | 'LOG_EXHAUSTED'
  /** The request is not the recorded one; the cursor has not moved. */
  | 'REQUEST_MISMATCH'
  /** There is no file at the path. */
  | 'LOG_NOT_FOUND'
  /** `assertExhausted` found responses that were not used. */
  | 'LOG_NOT_EXHAUSTED';

/** What a {@link ReplayError} knows besides its code. */
export interface ReplayErrorDetails {
  /** The number of the call, counted from 1. */
  call?: number;
  /** How many responses the log holds. */
  total?: number;
  /** How many were not used. */
  remaining?: number;
  /** Where the recorded and the live request first differ; `request` where none was recorded. */
  path?: string;
  /** The SHA-256 digest of the recorded request's comparable part; absent where none was recorded. */
  expected?: string;
  /** The SHA-256 digest of the live request's comparable part. */
  actual?: string;
}

/** A call that a replay cannot answer, or a log that is not there. */
export class ReplayError extends Error {
  readonly code: ReplayErrorCode;
  declare readonly call?: number;
  declare readonly total?: number;
  declare readonly remaining?: number;
  declare readonly path?: string;
  declare readonly expected?: string;
  declare readonly actual?: string;

  constructor(code: ReplayErrorCode, message: string, details: ReplayErrorDetails = {}, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    Object.assign(this, details);
  }
}

/** Each of these recognises errors of another copy of this package in the same process. */
for (const kind of [SessionLogDecodeError, SessionLogPayloadResolutionError, ReplayError]) {
  const name = kind.name;
  const brand = Symbol.for(`agent-roundtable/${name}`);
  Object.defineProperty(kind.prototype, brand, { value: true });
  Object.defineProperty(kind.prototype, 'name', { value: name, configurable: true, writable: true });
  Object.defineProperty(kind, Symbol.hasInstance, {
    value(this: unknown, value: unknown): boolean {
      if (this !== kind) return Function.prototype[Symbol.hasInstance].call(this as () => void, value);
      return typeof value === 'object' && value !== null && brand in value;
    },
  });
}

/** A failure as the engine tells it. */
interface Failure {
  decode?: {
    code: SessionLogDecodeErrorCode;
    message: string;
    issues: SessionLogIssue[];
    schemaVersion?: number;
    cause?: string;
  };
  payload?: {
    code: SessionLogPayloadResolutionErrorCode;
    message: string;
    metadata: PayloadResolutionMetadata;
    cause?: string;
  };
  replay?: { code: ReplayErrorCode; message: string } & ReplayErrorDetails;
}

/** The outcome of an engine call, or its failure thrown as the error it is. */
export function outcome<T>(json: string): T {
  const told = JSON.parse(json) as Failure;
  const { decode, payload, replay } = told;
  if (decode !== undefined) {
    const { code, message, issues, schemaVersion, cause } = decode;
    const details = cause === undefined ? {} : { cause: new SyntaxError(cause) };
    throw new SessionLogDecodeError(code, message, { issues, schemaVersion, ...details });
  }
  if (payload !== undefined) {
    const { code, message, metadata, cause } = payload;
    const options = cause === undefined ? undefined : { cause: new SyntaxError(cause) };
    throw new SessionLogPayloadResolutionError(code, message, metadata, options);
  }
  if (replay !== undefined) {
    const { code, message, ...details } = replay;
    throw new ReplayError(code, message, details);
  }
  return told as T;
}
