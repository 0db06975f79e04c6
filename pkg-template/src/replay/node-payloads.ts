/** Reads payload files beneath one directory, following no link on the way. */

// The default export, so that a host that replaces a function of the module replaces it here too.
import fs from 'node:fs';
import path from 'node:path';
import {
  SessionLogPayloadResolutionError,
  type PayloadResolutionMetadata,
  type SessionLogPayloadResolutionErrorCode,
} from './errors.js';
import type { SyncPayloadSource } from './sources.js';

/**
 * A source of the regular files beneath `root`. The directory is opened without following a link at its
 * end, then each segment of a path by the handle of the one before: no link and no `..` leads out, and a
 * file that is replaced after it was opened is still read as it was. Linux only.
 * @throws TypeError where `root` is blank
 */
export function nodePayloadSource(root: string): SyncPayloadSource {
  if (typeof root !== 'string' || root.trim() === '') throw new TypeError('root must be a path that is not blank');
  // Resolved once, and without a slash at its end, which would follow a link there.
  const directory = path.resolve(root);
  return { readBytes: (relativePath, maxBytes) => new Read(directory, relativePath).bytes(maxBytes) };
}

/** One read: where it starts, where it should end, and the handles it holds. */
class Read {
  readonly #root: string;
  readonly #relativePath: string;
  readonly #handles: number[] = [];

  constructor(root: string, relativePath: string) {
    this.#root = root;
    this.#relativePath = relativePath;
  }

  bytes(maxBytes: number): Uint8Array | undefined {
    const segments = this.#segments();
    const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = fs.constants;
    if (process.platform !== 'linux' || !O_NOFOLLOW || !O_DIRECTORY || !fs.existsSync('/proc/self/fd')) {
      throw this.#refusal('STABLE_PAYLOAD_READ_UNAVAILABLE', 'this host cannot read files without following links');
    }
    try {
      let place = this.#open(this.#root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 'the root');
      const name = segments.pop() ?? '';
      for (const segment of segments) {
        const inner = this.#openIn(place, segment, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (inner === undefined) return undefined;
        place = inner;
      }
      // Without blocking: a pipe has no end to wait for.
      const file = this.#openIn(place, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
      return file === undefined ? undefined : this.#read(file, maxBytes);
    } finally {
      for (const handle of this.#handles.splice(0)) fs.closeSync(handle);
    }
  }

  /** The segments of the path; refuses what would not stay beneath the root. */
  #segments(): string[] {
    const given = this.#relativePath;
    const segments = given.split(/[/\\]/);
    if (path.posix.isAbsolute(given) || path.win32.isAbsolute(given) || /^[A-Za-z]:/.test(given)) {
      throw this.#refusal('OUTSIDE_ROOT', 'the path is absolute');
    }
    if (given.includes('\0') || segments.some((segment) => segment === '.' || segment === '..')) {
      throw this.#refusal('OUTSIDE_ROOT', 'the path has a segment that leads elsewhere');
    }
    return segments.filter((segment) => segment !== '');
  }

  #openIn(place: number, segment: string, flags: number): number | undefined {
    try {
      return this.#open(`/proc/self/fd/${place}/${segment}`, flags, 'a part of the path');
    } catch (error) {
      const cause = error instanceof Error ? error.cause : undefined;
      if (errno(cause) === 'ENOENT') return undefined;
      throw error;
    }
  }

  #open(file: string, flags: number, what: string): number {
    try {
      const handle = fs.openSync(file, flags);
      this.#handles.push(handle);
      return handle;
    } catch (cause) {
      if (['ELOOP', 'ENOTDIR', 'ENXIO'].includes(errno(cause))) {
        throw this.#refusal('OUTSIDE_ROOT', `${what} is a link or of another kind than it must be`, {}, cause);
      }
      throw this.#refusal('PAYLOAD_UNREADABLE', `${what} cannot be opened`, {}, cause);
    }
  }

  #read(handle: number, maxBytes: number): Uint8Array {
    const before = this.#io(() => fs.fstatSync(handle));
    if (!before.isFile()) throw this.#refusal('OUTSIDE_ROOT', 'the payload is no regular file');
    if (before.size > maxBytes) {
      const sizes = { expected: maxBytes, actual: before.size };
      throw this.#refusal('MAX_TOTAL_BYTES_EXCEEDED', 'the payload is larger than what is left of the budget', sizes);
    }
    // One byte more than it should have tells whether it grew.
    const buffer = new Uint8Array(before.size + 1);
    let length = 0;
    for (let read = -1; read !== 0 && length < buffer.length; length += read) {
      read = this.#io(() => fs.readSync(handle, buffer, length, buffer.length - length, length));
    }
    const after = this.#io(() => fs.fstatSync(handle));
    if (length !== before.size || after.size !== before.size || after.mtimeMs !== before.mtimeMs) {
      throw this.#refusal('PAYLOAD_UNREADABLE', 'the payload changed while it was read');
    }
    return buffer.subarray(0, length);
  }

  #io<T>(call: () => T): T {
    try {
      return call();
    } catch (cause) {
      throw this.#refusal('PAYLOAD_UNREADABLE', 'the payload cannot be read', {}, cause);
    }
  }

  #refusal(
    code: SessionLogPayloadResolutionErrorCode,
    message: string,
    metadata: PayloadResolutionMetadata = {},
    cause?: unknown,
  ): SessionLogPayloadResolutionError {
    const relativePath = this.#relativePath;
    const known = { relativePath, resolvedPath: path.resolve(this.#root, relativePath), ...metadata };
    const options = cause === undefined ? undefined : { cause };
    return new SessionLogPayloadResolutionError(code, `${code}: ${message}`, known, options);
  }
}

function errno(error: unknown): string {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : '';
}
