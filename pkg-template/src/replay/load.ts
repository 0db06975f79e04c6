/** Loads logs into the engine. Internal: the handles in here are no part of the package's types. */

import { currentEngine } from '../engine.js';
import type { LogLoaderHandle, SessionLogHandle } from '../generated/bindings.js';
import { SessionLogDecodeError, SessionLogPayloadResolutionError, outcome } from './errors.js';
import { isWellFormed } from '../values.js';
import { liveEntries } from './live.js';
import type { DecodeOptions, PayloadLimits, PayloadSource, SessionLogSource, SyncPayloadSource } from './sources.js';

/** Decoded logs by the lists of entries that stand for them. */
const decoded = new WeakMap<object, SessionLogHandle>();

/** The longest log that is given as bytes. */
export const MAX_LOG_BYTES = 1024 ** 3;

/** What a log beyond {@link MAX_LOG_BYTES} is refused with. */
export function logTooLong(): SessionLogDecodeError {
  const issues = [{ path: 'line 1', message: 'the log is longer than 1 GiB' }];
  const message = 'session log refused: INVALID_JSON at line 1: the log is longer than 1 GiB';
  return new SessionLogDecodeError('INVALID_JSON', message, { issues });
}

/** Notes that a list of entries stands for a decoded log: it need not cross again. */
export function remember(entries: object, log: SessionLogHandle): void {
  decoded.set(entries, log);
}

/** A log loaded from a source that may have to be awaited. */
export async function loadLog(source: SessionLogSource, options: PayloadLimits): Promise<SessionLogHandle> {
  if (typeof source !== 'object' || source === null || typeof source.readText !== 'function') {
    throw new TypeError('source must be an object with a readText function');
  }
  const payloads = source.externalPayloadSource;
  const loader = startText(await source.readText(), options, payloads);
  for (let need = nextNeed(loader); need !== undefined; need = nextNeed(loader)) {
    loader.supply(payloadBytes(need, await readPayload(payloads, need)));
  }
  return finished(loader);
}

/** A log from a list of entries: of this package without a second pass, or of the host. */
export function logOfEntries(entries: readonly unknown[], options: DecodeOptions): SessionLogHandle {
  const known = typeof entries === 'object' && entries !== null ? decoded.get(entries) : undefined;
  if (known !== undefined) {
    checkLimits(options);
    return known;
  }
  const { json, marks } = liveEntries(entries);
  const source = options.externalPayloadSource;
  const { engine } = currentEngine();
  return loadAtOnce(engine.loadLogEntries(json, marks, ...limits(options), source !== undefined), source);
}

/** The decoded log behind a list of entries, references in free values left alone. */
export function decodedLog(entries: readonly unknown[]): SessionLogHandle {
  const known = typeof entries === 'object' && entries !== null ? decoded.get(entries) : undefined;
  if (known !== undefined) return known;
  const { json, marks } = liveEntries(entries);
  return loadAtOnce(currentEngine().engine.decodeLogEntries(json, marks), undefined);
}

/** Begins to load a text. */
export function startText(
  text: string | Uint8Array,
  options: PayloadLimits,
  source: PayloadSource | undefined,
): LogLoaderHandle {
  const { engine } = currentEngine();
  return engine.loadLogBytes(utf8(text), ...limits(options), source !== undefined);
}

function utf8(text: string | Uint8Array): Uint8Array {
  if (text instanceof Uint8Array) {
    // A string cannot be that long, and more would not fit into the engine.
    if (text.length > MAX_LOG_BYTES) throw logTooLong();
    return text;
  }
  if (typeof text !== 'string') throw new TypeError('the text of a session log must be a string or bytes');
  if (!isWellFormed(text)) {
    const line = 1 + text.split('\n').findIndex((one) => !isWellFormed(one));
    const issues = [{ path: `line ${line}`, message: 'expected well-formed text, found a lone surrogate' }];
    const message = `session log refused: INVALID_JSON at line ${line}: ${issues[0]?.message}`;
    throw new SessionLogDecodeError('INVALID_JSON', message, { issues });
  }
  return new TextEncoder().encode(text);
}

/** A payload the loader asks for. */
interface Need {
  path: string;
  maxBytes: number;
}

function nextNeed(loader: LogLoaderHandle): Need | undefined {
  const told = loader.step();
  return told === undefined ? undefined : outcome<{ need: Need }>(told).need;
}

function finished(loader: LogLoaderHandle): SessionLogHandle {
  const log = loader.log();
  loader.free();
  if (log === undefined) throw new Error('the log ended without an outcome');
  return log;
}

/** Loads to the end with a source that answers at once. */
export function loadAtOnce(loader: LogLoaderHandle, source: SyncPayloadSource | undefined): SessionLogHandle {
  for (let need = nextNeed(loader); need !== undefined; need = nextNeed(loader)) {
    loader.supply(payloadBytes(need, readPayload(source, need)));
  }
  return finished(loader);
}

function readPayload<T>(source: { readBytes(path: string, max: number): T } | undefined, need: Need): T | undefined {
  try {
    const bytes = source?.readBytes(need.path, need.maxBytes);
    return bytes instanceof Promise ? (bytes.catch((cause: unknown) => unreadable(need, cause)) as T) : bytes;
  } catch (cause) {
    return unreadable(need, cause);
  }
}

function unreadable(need: Need, cause: unknown): never {
  if (cause instanceof SessionLogPayloadResolutionError) throw cause;
  const message = 'PAYLOAD_UNREADABLE: the payload source failed';
  throw new SessionLogPayloadResolutionError('PAYLOAD_UNREADABLE', message, { relativePath: need.path }, { cause });
}

function payloadBytes(need: Need, bytes: unknown): Uint8Array | undefined {
  if (bytes === undefined || bytes instanceof Uint8Array) return bytes;
  const metadata = { relativePath: need.path };
  if (typeof bytes === 'object' && bytes !== null && 'then' in bytes) {
    if (bytes instanceof Promise) bytes.catch(() => undefined);
    const message =
      'UNRESOLVED_REFERENCE: the payload source gave a promise; load with createReplayProviderFromSource or loadSessionLog';
    throw new SessionLogPayloadResolutionError('UNRESOLVED_REFERENCE', message, metadata);
  }
  const message = 'PAYLOAD_UNREADABLE: the payload source gave no Uint8Array';
  throw new SessionLogPayloadResolutionError('PAYLOAD_UNREADABLE', message, metadata);
}

/** The limits as the engine takes them, which refuses numbers that are none. */
function limits(options: PayloadLimits): [number | undefined, number | undefined] {
  const { maxExternalPayloadDepth, maxExternalPayloadTotalBytes } = options;
  for (const [name, value] of Object.entries({ maxExternalPayloadDepth, maxExternalPayloadTotalBytes })) {
    if (value !== undefined && typeof value !== 'number') {
      throw new SessionLogPayloadResolutionError(
        'INVALID_LIMIT',
        `INVALID_LIMIT: ${name} must be a safe integer, at least 0`,
      );
    }
  }
  return [maxExternalPayloadDepth, maxExternalPayloadTotalBytes];
}

/** Refuses bad limits where nothing is left to be limited by them. */
function checkLimits(options: PayloadLimits): void {
  const checked = limits(options);
  if (checked.some((limit) => limit !== undefined)) {
    loadAtOnce(currentEngine().engine.loadLogEntries('[]', new Float64Array(), ...checked, false), undefined);
  }
}
