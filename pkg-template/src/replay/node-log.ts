/** Session logs in files: replaying one, and writing one. */

// The default export, so that a host that replaces a function of the module replaces it here too.
import fs from 'node:fs';
import path from 'node:path';
import { currentEngine } from '../engine.js';
import { ReplayError, outcome } from './errors.js';
import { live } from './live.js';
import { logTooLong, MAX_LOG_BYTES } from './load.js';
import { nodePayloadSource } from './node-payloads.js';
import { createReplayProviderFromSource, type ReplayProvider, type ReplaySourceOptions } from './provider.js';

/**
 * Makes a provider from a log file. What it reads: that file, and regular files beneath its directory that
 * are reached over no link. It writes nothing, and trusts nothing more by having been given a path.
 * @throws TypeError where the path is blank
 * @throws ReplayError `LOG_NOT_FOUND` where there is no file
 * @throws SessionLogDecodeError, SessionLogPayloadResolutionError
 */
export async function createReplayProviderFromNodeLogFile(
  file: string,
  options: ReplaySourceOptions = {},
): Promise<ReplayProvider> {
  if (typeof file !== 'string' || file.trim() === '') throw new TypeError('path must be a path that is not blank');
  const externalPayloadSource = nodePayloadSource(path.dirname(path.resolve(file)));
  return await createReplayProviderFromSource({ readText: () => readLog(file), externalPayloadSource }, options);
}

async function readLog(file: string): Promise<Uint8Array> {
  // Without waiting for a writer, where the path is that of a pipe.
  const { O_NONBLOCK, O_RDONLY } = fs.constants;
  const handle = await fs.promises.open(file, O_RDONLY | (O_NONBLOCK ?? 0)).catch((cause: NodeJS.ErrnoException) => {
    if (cause.code !== 'ENOENT') throw cause;
    throw new ReplayError('LOG_NOT_FOUND', `there is no session log at ${file}`, {}, { cause });
  });
  try {
    const stat = await handle.stat();
    if (!stat.isFile()) throw new ReplayError('LOG_NOT_FOUND', `there is no regular file at ${file}`, {});
    if (stat.size > MAX_LOG_BYTES) throw logTooLong();
    return await handle.readFile();
  } finally {
    await handle.close();
  }
}

/** Options of {@link createSessionLogWriter}. */
export interface SessionLogWriterOptions {
  /** Made if it is not there. */
  directory: string;
  /** 1 to 128 of `A-Za-z0-9._-`, the first a letter or digit. The log is `<sessionId>.jsonl`. */
  sessionId: string;
  /** Is told what could not be written; by default a process warning is emitted. A session is not failed by its log. */
  onError?(error: unknown): void;
}

/** Appends the events of one session to its log. Nothing throws. */
export interface SessionLogWriter {
  /** Where the log is. */
  readonly path: string;
  /**
   * Writes one event before it returns; streamed text (`text_delta`) waits for the next other event, for
   * 64 KiB of it, or for `flush`. Secrets are left out, values longer than 32,768 bytes go into files of
   * their own beneath `<sessionId>.payloads`, and an entry that would not decode is reported instead.
   */
  log(event: string, payload: Record<string, unknown>): void;
  /** Writes what waits. */
  flush(): void;
}

/** Makes a writer. @throws TypeError where the directory is blank or the session id cannot name a file */
export function createSessionLogWriter(options: SessionLogWriterOptions): SessionLogWriter {
  const { directory, sessionId } = options;
  if (typeof directory !== 'string' || directory.trim() === '') {
    throw new TypeError('directory must be a path that is not blank');
  }
  const writer = typeof sessionId === 'string' ? currentEngine().engine.openLogWriter(sessionId) : undefined;
  if (writer === undefined) {
    throw new TypeError('sessionId must be 1 to 128 of A-Z a-z 0-9 . _ -, and begin with a letter or digit');
  }
  const reporting = (what: string, action: () => void): void => {
    try {
      action();
    } catch (error) {
      if (options.onError !== undefined) options.onError(error);
      else
        process.emitWarning(
          `session log ${sessionId}: ${what} failed: ${error instanceof Error ? error.message : error}`,
        );
    }
  };
  const file = path.join(directory, `${sessionId}.jsonl`);
  const append = (text: string): void => {
    if (text !== '') fs.appendFileSync(file, text, { mode: 0o600 });
  };
  reporting('making the directory', () => fs.mkdirSync(directory, { recursive: true, mode: 0o700 }));
  return {
    path: file,
    log: (event, payload) =>
      reporting('a write', () => {
        const { json, marks } = live(payload);
        const told = writer.log(event, json, marks, Date.now());
        const plan = outcome<{ sidecars: { path: string; text: string }[]; text: string }>(told);
        for (const sidecar of plan.sidecars) writeSidecar(path.join(directory, sidecar.path), sidecar.text);
        append(plan.text);
      }),
    flush: () => reporting('a flush', () => append(writer.flush())),
  };
}

/** Its name is its digest, so a file that is there already holds the same. */
function writeSidecar(file: string, text: string): void {
  fs.mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  if (fs.existsSync(file)) return;
  // Under another name first: a crash must not leave half a file under a digest.
  const unfinished = `${file}.${process.pid}.tmp`;
  fs.writeFileSync(unfinished, text, { mode: 0o600 });
  fs.renameSync(unfinished, file);
}
