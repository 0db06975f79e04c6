/** Conversations in files, for the processes of one machine. */

import { createHash } from 'node:crypto';
import { mkdir, rename, rmdir, unlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { RoundtableError } from '../../errors.js';
import type { Batch, Claim, ConversationStore, StoredRecord } from '../../store-types.js';
import {
  checkId,
  isSame,
  type Key,
  natural,
  newestFirst,
  nowOf,
  PAGE,
  positive,
  readCursor,
  refused,
} from '../shared.js';
import { discard, fresh, isCode, namesIn, quietly, sweep, syncFolder, textOf, writeNew } from './files.js';
import { damaged, lineOf } from './journal.js';
import { beginEpoch, indexOf, isLong, readBatches } from './joining.js';
import {
  ATTEMPTS,
  batchText,
  catchUp,
  epochFolder,
  type Happening,
  numbered,
  openView,
  propose,
  type State,
  tooBusy,
  type View,
} from './sequence.js';

export interface FileStoreOptions {
  /** Where the conversations are; it is made where it is missing. On a local file system with hard links. */
  directory: string;
  /** By whose time claims expire. Default: the machine's. */
  clock?: { now(): number };
}

/** How many conversations are remembered between calls. */
const REMEMBERED = 256;

/**
 * Keeps each conversation in a folder of its own, named by a hash of its id. Every write is in its file
 * and durable before it is acknowledged. Any number of processes of one machine share a directory.
 */
export function fileStore(options: FileStoreOptions): ConversationStore {
  const { directory, clock } = options;
  if (typeof directory !== 'string' || directory === '') {
    throw new RoundtableError('invalid-config', 'directory must be a path');
  }
  return new FileStore(resolve(directory), nowOf(clock));
}

class FileStore implements ConversationStore {
  readonly durability = 'durable';
  readonly identity: string;
  readonly #directory: string;
  readonly #now: () => number;
  /** What was read of conversations, the one used last at the end. */
  readonly #views = new Map<string, View>();
  /** The last call on each conversation: the next one waits for it. */
  readonly #calls = new Map<string, Promise<unknown>>();
  #isSwept = false;

  constructor(directory: string, now: () => number) {
    this.#directory = directory;
    this.identity = `file:${directory}`;
    this.#now = now;
  }

  async create(record: Parameters<ConversationStore['create']>[0]): Promise<{ revision: 1 }> {
    const { conversationId, kind, schemaVersion, entries, summary } = record;
    const home = this.#homeOf(conversationId);
    const base = { conversationId, kind, schemaVersion, revision: 0, summary, fence: 0, claim: null };
    const state: State = { ...base, snapshot: null, first: 1, journal: null };
    const text = batchText(lineOf(1, 'create', entries), summary, undefined);
    return this.#alone(home, async () => {
      const aside = join(this.#directory, fresh('.tmp'));
      const epoch = epochFolder({ folder: join(aside, fresh('').slice(1)), epoch: 1 });
      await mkdir(epoch, { recursive: true });
      if (!this.#isSwept) await sweep(this.#directory, (name) => /^\.(tmp|trash)-/.test(name));
      this.#isSwept = true;
      try {
        await writeNew(join(epoch, numbered(0)), `${JSON.stringify(state)}\n`);
        await writeNew(join(epoch, numbered(1)), `${text}\n`);
        for (const folder of [epoch, join(epoch, '..'), aside]) await syncFolder(folder);
        await this.#place(aside, home, conversationId);
        return { revision: 1 };
      } finally {
        await quietly(discard(aside, this.#directory));
      }
    });
  }

  async load(conversationId: string): Promise<StoredRecord | undefined> {
    let missing: string | undefined;
    return this.#reading(conversationId, async (view) => {
      const { kind, schemaVersion, revision, summary, snapshot } = view.state;
      const state = snapshot === null ? undefined : await textOf(join(view.folder, snapshot.file));
      if (snapshot !== null && state === undefined) {
        if (missing === snapshot.file) throw damaged(missing);
        missing = snapshot.file; // replaced by a later one meanwhile
        return undefined;
      }
      const batches = await readBatches(view, (snapshot?.revision ?? 0) + 1, revision);
      const latest = snapshot === null ? {} : { snapshot: { revision: snapshot.revision, state: state ?? '' } };
      return { conversationId, kind, schemaVersion, revision, summary: ownSummary(summary), ...latest, batches };
    });
  }

  async read(
    conversationId: string,
    { after, limit }: { after: number; limit?: number },
  ): Promise<{ revision: number; batches: readonly Batch[] } | undefined> {
    const from = natural(after, 'after') + 1;
    const size = limit === undefined ? Number.MAX_SAFE_INTEGER : positive(limit, 'limit');
    return this.#reading(conversationId, async (view) => {
      const { revision, first } = view.state;
      if (from < first) throw refused('not-found', conversationId, `has no batches before revision ${first} any more`);
      return { revision, batches: await readBatches(view, from, Math.min(revision, from + size - 1)) };
    });
  }

  async claim(conversationId: string, ownerId: string, leaseMs: number): Promise<Claim> {
    const lease = positive(leaseMs, 'leaseMs');
    checkId(ownerId, 'ownerId');
    return this.#writing(conversationId, (view) => {
      if (this.#holder(view) !== undefined) throw refused('busy', conversationId, 'is claimed by another owner');
      const claimed = { ownerId, fence: view.state.fence + 1, expiresAt: this.#now() + lease };
      return [{ claimed }, { conversationId, ...claimed }];
    });
  }

  async renew(claim: Claim, leaseMs: number): Promise<Claim> {
    const lease = positive(leaseMs, 'leaseMs');
    const { conversationId, ownerId, fence } = claim;
    return this.#writing(conversationId, (view) => {
      this.#mustHold(view, claim);
      const claimed = { ownerId, fence, expiresAt: this.#now() + lease };
      return [{ claimed }, { conversationId, ...claimed }];
    });
  }

  async release(claim: Claim): Promise<void> {
    const { conversationId, fence } = claim;
    try {
      await this.#writing(conversationId, ({ state }) => {
        const isHeld = state.claim !== null && isSame({ conversationId, ...state.claim }, claim);
        return [isHeld ? { released: fence } : undefined, undefined];
      });
    } catch (error) {
      if (!isCode(error, 'not-found')) throw error;
    }
  }

  async append(batch: Parameters<ConversationStore['append']>[0]): Promise<{ revision: number }> {
    const { conversationId, claim, expectedRevision, operationId, summary, snapshot } = batch;
    checkId(operationId, 'operationId');
    const entries = [...batch.entries];
    const beside = ownSummary(summary);
    let replaced: string | undefined;
    const receipt = await this.#writing<{ revision: number }>(conversationId, async (view) => {
      const before = view.receipts.get(operationId) ?? (await indexOf(view)).receipts.get(operationId);
      if (before !== undefined) return [undefined, { revision: before }];
      if (claim !== undefined) this.#mustHold(view, claim);
      else if (this.#holder(view) !== undefined) throw refused('busy', conversationId, 'is claimed');
      const { revision: last } = view.state;
      if (expectedRevision !== last) {
        throw refused('conflict', conversationId, `is at revision ${last}, not ${expectedRevision}`);
      }
      const revision = last + 1;
      const file = snapshot === undefined ? undefined : await writeSnapshot(view, snapshot);
      const old = view.state.snapshot?.file;
      replaced = file === undefined || old === undefined ? undefined : join(view.folder, old);
      const happening = { revision, operationId, summary: beside, ...(file === undefined ? {} : { snapshot: file }) };
      return [happening, { revision }, batchText(lineOf(revision, operationId, entries), beside, file)];
    });
    if (replaced !== undefined) await quietly(unlink(replaced));
    return receipt;
  }

  async list(query: Parameters<ConversationStore['list']>[0] = {}): ReturnType<ConversationStore['list']> {
    const { kind, status, member, cursor, limit } = query;
    const size = limit === undefined ? PAGE : positive(limit, 'limit');
    const after = cursor === undefined ? undefined : readCursor(cursor);
    const found: { key: Key; state: State }[] = [];
    const homes = await this.#guarded(() => namesIn(this.#directory));
    for (const name of homes.filter((one) => /^[0-9a-f]{64}$/.test(one))) {
      const home = join(this.#directory, name);
      const state = await this.#alone(home, async () => (await this.#viewOf(home))?.state);
      if (state === undefined) continue;
      const key = [state.summary.createdAt, state.conversationId] as const;
      const isWanted =
        (kind === undefined || state.kind === kind) &&
        (status === undefined || state.summary.status === status) &&
        (member === undefined || state.summary.members.includes(member)) &&
        (after === undefined || newestFirst(after, key) < 0);
      if (isWanted) found.push({ key, state });
    }
    found.sort((a, b) => newestFirst(a.key, b.key));
    const page = found.slice(0, size);
    const last = page.at(-1);
    return {
      items: page.map(({ state }) => {
        const { conversationId, kind: of, revision, summary } = state;
        return { conversationId, kind: of, revision, summary: ownSummary(summary) };
      }),
      ...(last === undefined || found.length <= size ? {} : { nextCursor: JSON.stringify(last.key) }),
    };
  }

  async compact(conversationId: string, beforeRevision: number): Promise<void> {
    positive(beforeRevision, 'beforeRevision');
    const home = this.#homeOf(conversationId);
    await this.#alone(home, async () => {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const view = await this.#viewOf(home);
        if (view === undefined) throw refused('not-found', conversationId, 'does not exist');
        const covered = (view.state.snapshot?.revision ?? 0) + 1;
        if (beforeRevision > covered) {
          throw refused('conflict', conversationId, `has no snapshot that covers revision ${beforeRevision - 1}`);
        }
        if (beforeRevision <= view.state.first) return;
        const old = view.state.journal?.file;
        if (!(await this.#begin(view, beforeRevision))) continue;
        if (old !== undefined && old !== view.state.journal?.file) await quietly(unlink(join(view.folder, old)));
        return;
      }
      throw tooBusy();
    });
  }

  async delete(conversationId: string): Promise<void> {
    const home = this.#homeOf(conversationId);
    try {
      await this.#writing(conversationId, (view) => {
        if (this.#holder(view) !== undefined) throw refused('busy', conversationId, 'is claimed');
        return [{ deleted: true }, undefined];
      });
    } catch (error) {
      if (!isCode(error, 'not-found')) throw error;
    }
    await this.#alone(home, () => this.#clear(home));
  }

  /** Where a conversation is, whatever its id holds. */
  #homeOf(conversationId: string): string {
    const hash = createHash('sha256').update(checkId(conversationId, 'conversationId'), 'utf8').digest('hex');
    return join(this.#directory, hash);
  }

  /** Gives a prepared folder the conversation's name, which fails where the name holds anything. */
  async #place(aside: string, home: string, conversationId: string): Promise<void> {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      try {
        await rename(aside, home);
        await syncFolder(this.#directory);
        return;
      } catch (error) {
        if (!isCode(error, 'ENOTEMPTY', 'EEXIST', 'EPERM')) throw error;
      }
      if ((await this.#viewOf(home)) !== undefined) throw refused('conflict', conversationId, 'exists');
      await this.#clear(home);
    }
    throw tooBusy();
  }

  /** Moves away what a deletion left. */
  async #clear(home: string): Promise<void> {
    if ((await this.#viewOf(home)) !== undefined) return;
    this.#views.delete(home);
    for (const incarnation of await namesIn(home)) await discard(join(home, incarnation), this.#directory);
    await quietly(rmdir(home));
  }

  /** A call that reads. It begins again where files were moved away meanwhile. */
  async #reading<T>(conversationId: string, read: (view: View) => Promise<T | undefined>): Promise<T | undefined> {
    const home = this.#homeOf(conversationId);
    return this.#alone(home, async () => {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const view = await this.#viewOf(home);
        if (view === undefined) return undefined;
        try {
          const found = await read(view);
          if (found !== undefined) return found;
        } catch (error) {
          if (!isCode(error, 'ENOENT')) throw error;
        }
      }
      throw tooBusy();
    });
  }

  /** A call that writes one file: decided on what was read, and decided again where somebody was faster. */
  async #writing<T>(conversationId: string, decide: (view: View) => Decision<T> | Promise<Decision<T>>): Promise<T> {
    const home = this.#homeOf(conversationId);
    return this.#alone(home, async () => {
      for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
        const view = await this.#viewOf(home);
        if (view === undefined) throw refused('not-found', conversationId, 'does not exist');
        try {
          const [happening, result, text] = await decide(view);
          if (happening === undefined) return result;
          if (!(await propose(view, happening, text))) continue;
          if ('deleted' in happening) this.#views.delete(home);
          else if (isLong(view)) await quietly(this.#begin(view, view.state.first));
          return result;
        } catch (error) {
          if (!isCode(error, 'ENOENT')) throw error;
        }
      }
      throw tooBusy();
    });
  }

  async #begin(view: View, first: number): Promise<boolean> {
    try {
      return await beginEpoch(view, first);
    } catch (error) {
      if (isCode(error, 'ENOENT', 'EEXIST')) return false;
      throw error;
    }
  }

  /** What is known of a conversation, up to date; `undefined` where there is none. */
  async #viewOf(home: string): Promise<View | undefined> {
    let view = this.#views.get(home);
    if (view !== undefined) {
      this.#views.delete(home);
      const found = await catchUp(view);
      if (found === 'lost') view = undefined;
      if (found === 'deleted') return undefined;
    }
    view ??= await openView(home);
    if (view === undefined) return undefined;
    this.#views.set(home, view);
    for (const oldest of this.#views.keys()) {
      if (this.#views.size <= REMEMBERED) break;
      this.#views.delete(oldest);
    }
    return view;
  }

  #holder({ state }: View): Claim | undefined {
    const { claim, conversationId } = state;
    return claim !== null && this.#now() < claim.expiresAt ? { conversationId, ...claim } : undefined;
  }

  #mustHold(view: View, claim: Claim): void {
    const holder = this.#holder(view);
    if (holder === undefined || !isSame(holder, claim)) {
      throw refused('stale-claim', claim.conversationId, `is not held under fence ${claim.fence} any more`);
    }
  }

  /** Calls of this handle on one conversation come one after the other. */
  async #alone<T>(home: string, call: () => Promise<T>): Promise<T> {
    const before = this.#calls.get(home) ?? Promise.resolve();
    const turn = before.then(() => this.#guarded(call));
    const settled = turn.catch(() => {});
    this.#calls.set(home, settled);
    try {
      return await turn;
    } finally {
      if (this.#calls.get(home) === settled) this.#calls.delete(home);
    }
  }

  /** Gives errors of the file system the code that says that the outcome is unknown. */
  async #guarded<T>(call: () => Promise<T>): Promise<T> {
    try {
      return await call();
    } catch (error) {
      if (error instanceof RoundtableError) throw error;
      const what = error instanceof Error ? error.message : String(error);
      throw new RoundtableError('unavailable', `the file store failed: ${what}`, { cause: error });
    }
  }
}

/** What to write, the result, and the text where it is not the happening's own. */
type Decision<T> = readonly [happening: Happening | undefined, result: T, text?: string];

/** Nothing names it until the batch is there; one that stays unnamed is swept. */
async function writeSnapshot({ folder }: View, text: string): Promise<string> {
  const file = fresh('snapshot');
  await writeNew(join(folder, file), text);
  await syncFolder(folder);
  return file;
}

function ownSummary(summary: State['summary']): State['summary'] {
  return { ...summary, members: [...summary.members] };
}
