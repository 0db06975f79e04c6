/** Moves the batches of an epoch into the journal file and begins the next epoch. */

import { mkdir, rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Batch } from '../../store-types.js';
import { fresh, quietly, smallTextOf, sweep, syncFolder, writeNew } from './files.js';
import {
  batchOf,
  damaged,
  emptyIndex,
  extendIndex,
  type JournalIndex,
  lineOf,
  readLines,
  writeLines,
} from './journal.js';
import { enterEpoch, epochFolder, numbered, propose, type State, type View } from './sequence.js';

/** Files of an epoch, or text in them in UTF-16 units, before its batches are joined. */
const [JOIN_FILES, JOIN_UNITS] = [256, 4 << 20];

/** Whether the epoch has become long. Joining that failed, as on a full disk, is not tried with every file. */
export function isLong({ at, units }: View): boolean {
  return at % JOIN_FILES === 0 || units > JOIN_UNITS;
}

/** The index of the journal file, read as far as the state goes. */
export async function indexOf(view: View): Promise<JournalIndex> {
  const { journal } = view.state;
  view.index ??= emptyIndex(journal?.file ?? '');
  if (journal !== null) await extendIndex(view.index, join(view.folder, journal.file), journal.length);
  return view.index;
}

/** Some revisions, both included; those that were compacted are not to be asked for. */
export async function readBatches(view: View, from: number, to: number): Promise<Batch[]> {
  const { journal } = view.state;
  const through = journal?.through ?? 0;
  const lines: string[] = [];
  if (journal !== null && from <= through) {
    const index = await indexOf(view);
    lines.push(...(await readLines(index, join(view.folder, journal.file), from, Math.min(to, through))));
  }
  for (let revision = Math.max(from, through + 1); revision <= to; revision++) lines.push(lineAt(view, revision));
  return lines.map((line, i) => batchOf(line, `batch ${from + i}`));
}

/**
 * Joins the batches so far, without the entries of those before `first`.
 * @returns whether nobody else was faster
 */
export async function beginEpoch(view: View, first: number): Promise<boolean> {
  const { folder, state } = view;
  const rewritten = first > state.first && state.journal !== null;
  const lines: string[] = [];
  const through = state.journal?.through ?? 0;
  if (rewritten) {
    const index = await indexOf(view);
    const old = await readLines(index, join(folder, state.journal?.file ?? ''), 1, through);
    lines.push(...old);
  }
  for (let revision = through + 1; revision <= state.revision; revision++) lines.push(lineAt(view, revision));
  const from = rewritten ? 1 : through + 1;
  const kept = lines.map((line, i) => (from + i < first ? withoutEntries(line, from + i) : line));

  const isNew = rewritten || state.journal === null;
  const file = isNew ? `${fresh('journal')}.jsonl` : (state.journal?.file ?? '');
  const length = await writeLines(join(folder, file), isNew ? 0 : (state.journal?.length ?? 0), kept);
  const begun = await beginWith(view, { ...state, first, journal: { file, length, through: state.revision } });
  if (begun) await quietly(tidy(view));
  else if (isNew) await quietly(unlink(join(folder, file)));
  return begun;
}

/** Prepares the next epoch's folder aside, and closes this epoch with its name. */
async function beginWith(view: View, state: State): Promise<boolean> {
  const { folder, index } = view;
  const from = fresh('tmp');
  await mkdir(join(folder, from));
  await writeNew(join(folder, from, numbered(0)), `${JSON.stringify(state)}\n`);
  await syncFolder(join(folder, from));
  await syncFolder(folder); // the journal's name, before anything relies on it
  const next = { folder, epoch: view.epoch + 1 };
  const happening = { next: epochFolder(next).slice(folder.length + 1), from };
  if (!(await propose(view, happening))) {
    await quietly(rm(join(folder, from), { recursive: true, force: true }));
    return false;
  }
  await enterEpoch(view, happening);
  Object.assign(view, { ...next, at: 0, units: 0, state, receipts: new Map(), numbers: new Map() });
  view.index = index !== undefined && index.file === state.journal?.file ? index : undefined;
  return true;
}

function lineAt(view: View, revision: number): string {
  const number = view.numbers.get(revision);
  if (number === undefined) throw damaged(`batch ${revision}`);
  const text = smallTextOf(join(epochFolder(view), numbered(number)));
  if (text === undefined) throw Object.assign(new Error('the epoch is over'), { code: 'ENOENT' });
  return text.slice(0, text.indexOf('\n'));
}

function withoutEntries(line: string, revision: number): string {
  const { operationId } = JSON.parse(line) as { operationId: string };
  return lineOf(revision, operationId);
}

/** Removes what earlier epochs and processes that were killed left. */
async function tidy({ folder, state }: View): Promise<void> {
  const used = [state.journal?.file, state.snapshot?.file];
  await sweep(folder, (name) => /^(tmp|journal|snapshot|\.trash)-/.test(name) && !used.includes(name));
}
