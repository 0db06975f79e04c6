/** A store in memory: for tests, for conversations that need not outlive their process, and as a model. */

import type { Batch, Claim, ConversationKind, ConversationStore, RecordSummary, StoredRecord } from './store-types.js';
import {
  copySummary,
  frozenBatch,
  isSame,
  natural,
  newestFirst,
  nowOf,
  PAGE,
  positive,
  readCursor,
  refused,
} from './stores/shared.js';

interface Stored {
  readonly conversationId: string;
  readonly kind: ConversationKind;
  readonly schemaVersion: 1;
  revision: number;
  summary: RecordSummary;
  snapshot: { revision: number; state: string } | undefined;
  /** Those that were not compacted, oldest first and without gaps. */
  batches: Batch[];
  /** The receipt of every append there ever was. */
  readonly receipts: Map<string, number>;
  fence: number;
  claim: Claim | undefined;
}

/** Keeps conversations as long as the object lives. Every call is atomic. */
export class MemoryConversationStore implements ConversationStore {
  readonly durability = 'memory';
  readonly identity = 'memory';
  readonly #records = new Map<string, Stored>();
  readonly #watchers = new Map<string, Set<() => void>>();
  readonly #now: () => number;

  /** @param options `clock`: by whose time claims expire. Default: the environment's */
  constructor(options?: { clock?: { now(): number } }) {
    this.#now = nowOf(options?.clock);
  }

  async create(record: Parameters<ConversationStore['create']>[0]): Promise<{ revision: 1 }> {
    const { conversationId, kind, schemaVersion, entries, summary } = record;
    if (this.#records.has(conversationId)) throw refused('conflict', conversationId, 'exists');
    this.#records.set(conversationId, {
      conversationId,
      kind,
      schemaVersion,
      revision: 1,
      summary: copySummary(summary),
      snapshot: undefined,
      batches: [frozenBatch(1, 'create', entries)],
      receipts: new Map([['create', 1]]),
      fence: 0,
      claim: undefined,
    });
    return { revision: 1 };
  }

  async load(conversationId: string): Promise<StoredRecord | undefined> {
    const stored = this.#records.get(conversationId);
    if (stored === undefined) return undefined;
    const { kind, schemaVersion, revision, summary, snapshot } = stored;
    const after = snapshot?.revision ?? 0;
    return {
      conversationId,
      kind,
      schemaVersion,
      revision,
      summary: copySummary(summary),
      ...(snapshot === undefined ? {} : { snapshot: { ...snapshot } }),
      batches: stored.batches.filter((one) => one.revision > after),
    };
  }

  async read(
    conversationId: string,
    { after, limit }: { after: number; limit?: number },
  ): Promise<{ revision: number; batches: readonly Batch[] } | undefined> {
    const stored = this.#records.get(conversationId);
    if (stored === undefined) return undefined;
    const first = stored.batches[0]?.revision ?? stored.revision + 1;
    const start = natural(after, 'after') + 1 - first;
    if (start < 0) throw refused('not-found', conversationId, `has no batches before revision ${first} any more`);
    const end = limit === undefined ? undefined : start + positive(limit, 'limit');
    return { revision: stored.revision, batches: stored.batches.slice(start, end) };
  }

  async claim(conversationId: string, ownerId: string, leaseMs: number): Promise<Claim> {
    const stored = this.#get(conversationId);
    const lease = positive(leaseMs, 'leaseMs');
    if (this.#holder(stored) !== undefined) throw refused('busy', conversationId, 'is claimed by another owner');
    stored.fence += 1;
    stored.claim = { conversationId, ownerId, fence: stored.fence, expiresAt: this.#now() + lease };
    return { ...stored.claim };
  }

  async renew(claim: Claim, leaseMs: number): Promise<Claim> {
    const stored = this.#get(claim.conversationId);
    const lease = positive(leaseMs, 'leaseMs');
    const held = this.#held(stored, claim);
    stored.claim = { ...held, expiresAt: this.#now() + lease };
    return { ...stored.claim };
  }

  async release(claim: Claim): Promise<void> {
    const stored = this.#records.get(claim.conversationId);
    if (stored?.claim !== undefined && isSame(stored.claim, claim)) stored.claim = undefined;
  }

  async append(appended: Parameters<ConversationStore['append']>[0]): Promise<{ revision: number }> {
    const { conversationId, claim, expectedRevision, operationId, entries, summary, snapshot } = appended;
    const stored = this.#get(conversationId);
    const receipt = stored.receipts.get(operationId);
    if (receipt !== undefined) return { revision: receipt };
    if (claim !== undefined) this.#held(stored, claim);
    else if (this.#holder(stored) !== undefined) throw refused('busy', conversationId, 'is claimed');
    if (expectedRevision !== stored.revision) {
      throw refused('conflict', conversationId, `is at revision ${stored.revision}, not ${expectedRevision}`);
    }
    const revision = stored.revision + 1;
    stored.batches.push(frozenBatch(revision, operationId, entries));
    stored.receipts.set(operationId, revision);
    stored.revision = revision;
    stored.summary = copySummary(summary);
    if (snapshot !== undefined) stored.snapshot = { revision, state: snapshot };
    this.#tell(conversationId);
    return { revision };
  }

  async list(query: Parameters<ConversationStore['list']>[0] = {}): ReturnType<ConversationStore['list']> {
    const { kind, status, member, cursor, limit } = query;
    const size = limit === undefined ? PAGE : positive(limit, 'limit');
    const after = cursor === undefined ? undefined : readCursor(cursor);
    const matching = [...this.#records.values()]
      .filter(({ summary, ...stored }) => {
        return (
          (kind === undefined || stored.kind === kind) &&
          (status === undefined || summary.status === status) &&
          (member === undefined || summary.members.includes(member))
        );
      })
      .map((stored) => ({ stored, key: [stored.summary.createdAt, stored.conversationId] as const }))
      .filter(({ key }) => after === undefined || newestFirst(after, key) < 0)
      .sort((a, b) => newestFirst(a.key, b.key));
    const page = matching.slice(0, size);
    const last = page.at(-1);
    return {
      items: page.map(({ stored: { conversationId, kind: of, revision, summary } }) => {
        return { conversationId, kind: of, revision, summary: copySummary(summary) };
      }),
      ...(last === undefined || matching.length <= size ? {} : { nextCursor: JSON.stringify(last.key) }),
    };
  }

  async compact(conversationId: string, beforeRevision: number): Promise<void> {
    const stored = this.#get(conversationId);
    const covered = (stored.snapshot?.revision ?? 0) + 1;
    if (positive(beforeRevision, 'beforeRevision') > covered) {
      throw refused('conflict', conversationId, `has no snapshot that covers revision ${beforeRevision - 1}`);
    }
    stored.batches = stored.batches.filter((one) => one.revision >= beforeRevision);
  }

  async delete(conversationId: string): Promise<void> {
    const stored = this.#records.get(conversationId);
    if (stored === undefined) return;
    if (this.#holder(stored) !== undefined) throw refused('busy', conversationId, 'is claimed');
    this.#records.delete(conversationId);
    this.#tell(conversationId);
  }

  watch(conversationId: string, changed: () => void): () => void {
    const watchers = this.#watchers.get(conversationId) ?? new Set();
    this.#watchers.set(conversationId, watchers);
    // One of its own for each call, so that the same function may watch twice.
    const watcher = (): void => changed();
    watchers.add(watcher);
    return () => {
      watchers.delete(watcher);
      if (watchers.size === 0 && this.#watchers.get(conversationId) === watchers) this.#watchers.delete(conversationId);
    };
  }

  #tell(conversationId: string): void {
    for (const watcher of this.#watchers.get(conversationId) ?? []) watcher();
  }

  #get(conversationId: string): Stored {
    const stored = this.#records.get(conversationId);
    if (stored === undefined) throw refused('not-found', conversationId, 'does not exist');
    return stored;
  }

  #holder(stored: Stored): Claim | undefined {
    return stored.claim !== undefined && this.#now() < stored.claim.expiresAt ? stored.claim : undefined;
  }

  #held(stored: Stored, claim: Claim): Claim {
    const holder = this.#holder(stored);
    if (holder === undefined || !isSame(holder, claim)) {
      throw refused('stale-claim', stored.conversationId, `is not held under fence ${claim.fence} any more`);
    }
    return holder;
  }
}
