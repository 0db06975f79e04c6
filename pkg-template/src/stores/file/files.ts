/** Files that are whole or absent: written aside, made durable, then named. */

import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { link, open, readFile, readdir, rename, rm, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';

/** What lies aside for longer was left by a process that ended. */
const STALE_MS = 24 * 60 * 60_000;

/** A name that nobody else takes. */
export function fresh(prefix: string): string {
  return `${prefix}-${randomBytes(8).toString('hex')}`;
}

/** Writes a new file and makes its content durable; its name becomes so with its folder. */
export async function writeNew(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx');
  try {
    await file.writeFile(text, 'utf8');
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes the names in a folder durable. */
export async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return; // where folders cannot be opened
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/**
 * Gives a text the next name in a sequence, unless somebody took it or the folder is gone.
 * @param aside the folder in which it is written first
 * @returns whether it has the name now, durably
 */
export async function take(aside: string, folder: string, name: string, text: string): Promise<boolean> {
  const temporary = join(aside, fresh('tmp'));
  try {
    await writeNew(temporary, text);
    await link(temporary, join(folder, name));
  } catch (error) {
    if (isCode(error, 'EEXIST') || isCode(error, 'ENOENT')) return false;
    throw error;
  } finally {
    await quietly(unlink(temporary));
  }
  await syncFolder(folder).catch((error: unknown) => {
    if (!isCode(error, 'ENOENT')) throw error; // joined by another process already, which made it durable
  });
  return true;
}

/** A file's text; `undefined` where there is none. */
export async function textOf(path: string): Promise<string | undefined> {
  return absentAs(undefined, readFile(path, 'utf8'));
}

/** The names in a folder; none where there is no folder. */
export async function namesIn(path: string): Promise<string[]> {
  return absentAs([], readdir(path));
}

/** The same at once, for files that are small: many of them cost less than one wait each. */
export function smallTextOf(path: string): string | undefined {
  try {
    return existsSync(path) ? readFileSync(path, 'utf8') : undefined;
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Removes a folder at once for whoever looks, then its content. Does nothing where it is gone. */
export async function discard(path: string, trash: string): Promise<void> {
  const moved = join(trash, fresh('.trash'));
  const was = await absentAs(
    false,
    rename(path, moved).then(() => true),
  );
  if (was) await rm(moved, { recursive: true, force: true });
}

/** Removes what matches and was left long ago. */
export async function sweep(folder: string, isLeft: (name: string) => boolean): Promise<void> {
  for (const name of await namesIn(folder)) {
    if (!isLeft(name)) continue;
    const path = join(folder, name);
    const seen = await absentAs(undefined, stat(path));
    if (seen !== undefined && Date.now() - seen.mtimeMs > STALE_MS) await rm(path, { recursive: true, force: true });
  }
}

export function isCode(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}

/** What is tidied up may fail: it is tidied up the next time. */
export async function quietly(call: Promise<unknown>): Promise<void> {
  await call.catch(() => {});
}

async function absentAs<T, U>(absent: U, call: Promise<T>): Promise<T | U> {
  try {
    return await call;
  } catch (error) {
    if (isCode(error, 'ENOENT', 'ENOTDIR')) return absent;
    throw error;
  }
}
