/** The file of older batches: one line each, from revision 1 on, appended and never changed. */

import { open } from 'node:fs/promises';
import { RoundtableError } from '../../errors.js';
import type { Batch } from '../../store-types.js';
import { storedBatch } from '../shared.js';

const CHUNK = 1 << 20;
/** Holds the revision and the operation id of any line. */
const HEAD = 8192;
const LINE_HEAD = /^\{"revision":(\d+),"operationId":("(?:[^"\\]|\\.)*")/;

/** Where the lines of a journal file begin, and which operation has which revision. */
export interface JournalIndex {
  readonly file: string;
  /** One for each line, and the end of the last. */
  readonly offsets: number[];
  readonly receipts: Map<string, number>;
}

export function emptyIndex(file: string): JournalIndex {
  return { file, offsets: [0], receipts: new Map() };
}

/** The line of a batch, without its end. A batch that was compacted keeps its line, and no entries. */
export function lineOf(revision: number, operationId: string, entries?: readonly string[]): string {
  return JSON.stringify({ revision, operationId, entries });
}

export function batchOf(line: string, what: string): Batch {
  const value = parse(line, what);
  const { revision, operationId, entries } = value as Partial<Batch>;
  if (typeof revision !== 'number' || typeof operationId !== 'string' || !Array.isArray(entries)) throw damaged(what);
  return storedBatch(revision, operationId, entries as string[]);
}

/** Reads on from where an index ends to a length in bytes. */
export async function extendIndex(index: JournalIndex, path: string, length: number): Promise<void> {
  let at = index.offsets.at(-1) ?? 0;
  if (at >= length) return;
  const file = await open(path, 'r');
  try {
    let rest = Buffer.alloc(0);
    for (let next = at; next < length; ) {
      const chunk = Buffer.alloc(Math.min(CHUNK, length - next));
      const { bytesRead } = await file.read(chunk, 0, chunk.length, next);
      if (bytesRead === 0) throw damaged(index.file);
      next += bytesRead;
      rest = Buffer.concat([rest, chunk.subarray(0, bytesRead)]);
      let start = 0;
      for (let end = rest.indexOf(10); end !== -1; end = rest.indexOf(10, start)) {
        noteLine(index, rest.subarray(start, end));
        at += end + 1 - start;
        index.offsets.push(at);
        start = end + 1;
      }
      rest = rest.subarray(start);
    }
    if (rest.length > 0) throw damaged(index.file);
  } finally {
    await file.close();
  }
}

function noteLine(index: JournalIndex, line: Buffer): void {
  const head = LINE_HEAD.exec(line.subarray(0, HEAD).toString('utf8'));
  const revision = Number(head?.[1]);
  if (head === null || revision !== index.offsets.length) throw damaged(`${index.file}, line ${index.offsets.length}`);
  index.receipts.set(JSON.parse(head[2] as string) as string, revision);
}

/** The lines of some revisions, both included. */
export async function readLines(index: JournalIndex, path: string, from: number, to: number): Promise<string[]> {
  const [start, end] = [index.offsets[from - 1] ?? 0, index.offsets[to] ?? 0];
  if (to < from) return [];
  const bytes = Buffer.alloc(end - start);
  const file = await open(path, 'r');
  try {
    for (let at = 0; at < bytes.length; ) {
      const { bytesRead } = await file.read(bytes, at, bytes.length - at, start + at);
      if (bytesRead === 0) throw damaged(index.file);
      at += bytesRead;
    }
  } finally {
    await file.close();
  }
  return bytes.subarray(0, -1).toString('utf8').split('\n');
}

/**
 * Writes lines at the end that was agreed on. Two processes that do it at the same time write the same
 * bytes to the same place, and what one that was killed left half done is written again.
 * @returns the new length
 */
export async function writeLines(path: string, at: number, lines: readonly string[]): Promise<number> {
  const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''), 'utf8');
  const file = await open(path, at === 0 ? 'wx' : 'r+');
  try {
    for (let done = 0; done < bytes.length; ) {
      const { bytesWritten } = await file.write(bytes, done, bytes.length - done, at + done);
      done += bytesWritten;
    }
    await file.sync();
  } finally {
    await file.close();
  }
  return at + bytes.length;
}

export function parse(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw damaged(what, error);
  }
}

export function damaged(what: string, cause?: unknown): RoundtableError {
  return new RoundtableError('invalid-record', `a file of the store is damaged: ${what}`, { cause });
}
