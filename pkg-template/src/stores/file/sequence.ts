/**
 * The sequence of files in which a conversation is written. A folder of the conversation holds
 *
 *   <hash of the id>/<incarnation>/epoch-000001/000000.json   the state at the beginning of an epoch
 *                                               000001.json   what happened, one file each, without gaps
 *                                 /journal-….jsonl             the batches of the epochs before
 *                                 /snapshot-…                  the latest snapshot
 *
 * Whoever gives the next number to a file has written; everybody else finds the number taken, reads what
 * happened, and decides again. The last file of an epoch names the next epoch, or says that the
 * conversation was deleted; after it no number of that epoch can be taken. Only then the epoch's folder
 * is moved away as a whole, so that nobody ever sees a gap in it.
 */

import { existsSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { RoundtableError } from '../../errors.js';
import type { Claim, ConversationKind, RecordSummary } from '../../store-types.js';
import { discard, isCode, namesIn, quietly, smallTextOf, syncFolder, take } from './files.js';
import { damaged, type JournalIndex, parse } from './journal.js';

/** How often a reader begins again because others write, before it says so. */
export const ATTEMPTS = 1_000;

/** What is known of a conversation at one place in its sequence. */
export interface State {
  readonly conversationId: string;
  readonly kind: ConversationKind;
  readonly schemaVersion: 1;
  readonly revision: number;
  readonly summary: RecordSummary;
  readonly fence: number;
  readonly claim: Omit<Claim, 'conversationId'> | null;
  readonly snapshot: { readonly revision: number; readonly file: string } | null;
  /** The first batch that was not compacted. */
  readonly first: number;
  /** The file of older batches, how many bytes of it count, and the last revision in them. */
  readonly journal: { readonly file: string; readonly length: number; readonly through: number } | null;
}

/** What one file says. */
export type Happening =
  | { readonly claimed: Omit<Claim, 'conversationId'> }
  | { readonly released: number }
  | { readonly next: string; readonly from: string }
  | { readonly deleted: true }
  | (Pick<State, 'revision' | 'summary'> & { readonly operationId: string; readonly snapshot?: string });

/** A conversation as far as it was read. */
export interface View {
  /** The folder of this incarnation. */
  readonly folder: string;
  epoch: number;
  /** The last number that was read. */
  at: number;
  /** How much text this epoch's files hold, in UTF-16 units. */
  units: number;
  state: State;
  /** Operation ids of this epoch. */
  receipts: Map<string, number>;
  /** The number of the file of each batch of this epoch. */
  numbers: Map<number, number>;
  index: JournalIndex | undefined;
}

export function epochFolder(view: { folder: string; epoch: number }): string {
  return join(view.folder, `epoch-${String(view.epoch).padStart(6, '0')}`);
}

export function numbered(at: number): string {
  return `${String(at).padStart(6, '0')}.json`;
}

/** Reads a conversation from its files; `undefined` where there is none. */
export async function openView(home: string): Promise<View | undefined> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const incarnation = (await namesIn(home)).find((name) => /^[0-9a-f]{16}$/.test(name));
    if (incarnation === undefined) return undefined;
    const folder = join(home, incarnation);
    const epochs = (await namesIn(folder)).map((name) => Number(/^epoch-(\d{6,})$/.exec(name)?.[1] ?? 0));
    const epoch = Math.max(0, ...epochs);
    const written = await lastNumber(epochFolder({ folder, epoch }));
    const view = readEpoch(folder, epoch);
    if (view === undefined) {
      if (existsSync(epochFolder({ folder, epoch }))) throw damaged(numbered(0));
      continue; // moved away meanwhile
    }
    const found = await catchUp(view);
    if (found === 'deleted') return undefined;
    if (found !== 'read') continue;
    // Nobody leaves a gap, so what was listed before has been read.
    if (view.epoch === epoch && view.at < written) throw damaged(`${numbered(view.at + 1)}, which is missing`);
    return view;
  }
  throw tooBusy();
}

/**
 * Reads what happened since.
 * @returns `lost` where the view cannot be continued and the conversation must be opened anew
 */
export async function catchUp(view: View): Promise<'read' | 'deleted' | 'lost'> {
  for (;;) {
    const text = smallTextOf(join(epochFolder(view), numbered(view.at + 1)));
    // Nothing further, or the folder was moved away with all that is in it.
    if (text === undefined) return existsSync(epochFolder(view)) ? 'read' : 'lost';
    const happening = happeningOf(text, numbered(view.at + 1));
    if ('deleted' in happening) return 'deleted';
    if (!('next' in happening)) {
      apply(view, happening, text);
      continue;
    }
    await enterEpoch(view, happening);
    const next = readEpoch(view.folder, view.epoch + 1);
    if (next === undefined) return 'lost';
    const { index } = view;
    Object.assign(view, next);
    if (index !== undefined && index.file === view.state.journal?.file) view.index = index;
  }
}

/** Writes the next file of the sequence. @returns whether nobody else was faster */
export async function propose(view: View, happening: Happening, text = JSON.stringify(happening)): Promise<boolean> {
  if (!(await take(view.folder, epochFolder(view), numbered(view.at + 1), `${text}\n`))) return false;
  if (!('next' in happening || 'deleted' in happening)) apply(view, happening, text);
  return true;
}

/** Gives the prepared folder its name, which the writer of the happening may not have come to, and leaves the old one. */
export async function enterEpoch(view: View, { next, from }: { next: string; from: string }): Promise<void> {
  try {
    await rename(join(view.folder, from), join(view.folder, next));
    await syncFolder(view.folder);
  } catch (error) {
    if (!isCode(error, 'ENOENT')) throw error; // it has its name, or that epoch is over too
  }
  await quietly(discard(epochFolder(view), view.folder));
}

/** The text of a batch: the line that the journal will have, then what changes beside it. */
export function batchText(line: string, summary: RecordSummary, snapshot: string | undefined): string {
  return `${line}\n${JSON.stringify({ summary, snapshot })}`;
}

function happeningOf(text: string, what: string): Happening {
  const [line = '', beside = ''] = text.split('\n');
  const value = parse(line, what);
  if (typeof value !== 'object' || value === null) throw damaged(what);
  if (!('revision' in value)) return value as Happening;
  return { ...value, ...(parse(beside, what) as object) } as Happening;
}

function apply(view: View, happening: Happening, text: string): void {
  const { state } = view;
  view.at += 1;
  view.units += text.length;
  if ('claimed' in happening) {
    const { fence } = happening.claimed;
    if (fence !== state.fence && fence !== state.fence + 1) throw damaged(numbered(view.at));
    view.state = { ...state, claim: happening.claimed, fence: happening.claimed.fence };
  } else if ('released' in happening) {
    view.state = { ...state, claim: null };
  } else if ('revision' in happening) {
    const { revision, operationId, summary, snapshot } = happening;
    if (revision !== state.revision + 1) throw damaged(numbered(view.at));
    view.receipts.set(operationId, revision);
    view.numbers.set(revision, view.at);
    const latest = snapshot === undefined ? state.snapshot : { revision, file: snapshot };
    view.state = { ...state, revision, summary, snapshot: latest };
  } else {
    throw damaged(numbered(view.at));
  }
}

/** The last number that was taken in an epoch. */
async function lastNumber(epoch: string): Promise<number> {
  const numbers = (await namesIn(epoch)).map((name) => Number(/^(\d{6,})\.json$/.exec(name)?.[1] ?? 0));
  return Math.max(0, ...numbers);
}

function readEpoch(folder: string, epoch: number): View | undefined {
  const view = { folder, epoch, at: 0, units: 0, receipts: new Map(), numbers: new Map(), index: undefined };
  const text = smallTextOf(join(epochFolder(view), numbered(0)));
  if (text === undefined) return undefined;
  const state = parse(text, numbered(0)) as State;
  if (typeof state !== 'object' || state === null || typeof state.conversationId !== 'string') {
    throw damaged(numbered(0));
  }
  return { ...view, state };
}

export function tooBusy(): RoundtableError {
  return new RoundtableError('unavailable', 'other processes write so fast that this one found no gap');
}
