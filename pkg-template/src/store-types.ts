/** The storage port: a store keeps lines and claims, and never looks inside a line. */

/**
 * Where conversations are kept. `storeConformance` of `agent-roundtable/testing` tries a store on every
 * rule of this page. A rejection whose `code` is `conflict` (revision or existence),
 * `busy`, `stale-claim` or `not-found` says that nothing was written; after any other the outcome is
 * unknown, and an append is repeated under the same operation id.
 */
export interface ConversationStore {
  readonly durability: 'memory' | 'durable';
  /** What tells two stores apart, such as `postgres:<schema>`; no credentials. */
  readonly identity?: string;
  /**
   * Writes batch 1, operation id `create`.
   * @throws `conflict` where the record exists
   */
  create(record: {
    conversationId: string;
    kind: ConversationKind;
    schemaVersion: 1;
    entries: readonly string[];
    summary: RecordSummary;
  }): Promise<{ revision: 1 }>;
  /** The latest snapshot, if any, and the batches after it. */
  load(conversationId: string): Promise<StoredRecord | undefined>;
  /**
   * Batches after a revision, oldest first, whatever snapshots exist; at most `limit` of them.
   * @throws `not-found` where they were removed by `compact`
   */
  read(
    conversationId: string,
    options: { after: number; limit?: number },
  ): Promise<{ revision: number; batches: readonly Batch[] } | undefined>;
  /**
   * Takes exclusive ownership for `leaseMs`. The fence grows with each claim.
   * @throws `busy` while another owner's claim is unexpired, `not-found`
   */
  claim(conversationId: string, ownerId: string, leaseMs: number): Promise<Claim>;
  /**
   * Prolongs a claim that is still held; never revives one that expired or was replaced.
   * @throws `stale-claim`
   */
  renew(claim: Claim, leaseMs: number): Promise<Claim>;
  /** Gives a claim back; does nothing where it is not held any more. */
  release(claim: Claim): Promise<void>;
  /**
   * Appends one batch, atomically. Idempotent per operation id, which is looked up before claim and
   * revision: repeated, it gives the first receipt. Without a claim it lands where the revision
   * matches and nobody holds an unexpired claim. `snapshot` is the state after this batch.
   * @throws `conflict`, `busy`, `stale-claim`, `not-found`
   */
  append(batch: {
    conversationId: string;
    claim?: Claim;
    expectedRevision: number;
    operationId: string;
    entries: readonly string[];
    summary: RecordSummary;
    snapshot?: string;
  }): Promise<{ revision: number }>;
  /** Newest `createdAt` first, then by id in the order of UTF-16 units. A cursor stays valid while others write. */
  list(query: {
    kind?: ConversationKind;
    status?: RecordStatus;
    /** Only those this member takes part in. */
    member?: string;
    /** From the previous page. */
    cursor?: string;
    /** At most this many. */
    limit?: number;
  }): Promise<{
    items: readonly { conversationId: string; kind: string; revision: number; summary: RecordSummary }[];
    nextCursor?: string;
  }>;
  /**
   * Removes batches before a revision that a snapshot covers; the only call that does. Reading them
   * afterwards is `not-found`.
   */
  compact(conversationId: string, beforeRevision: number): Promise<void>;
  /**
   * Removes a record; needs no claim.
   * @throws `busy` while a claim is held
   */
  delete(conversationId: string): Promise<void>;
  /**
   * Optional. Calls `changed` soon after a batch landed or the record was deleted, whoever did it; it may
   * miss some and may call for nothing. Gives what ends it. Never throws, and `changed` never does.
   */
  watch?(conversationId: string, changed: () => void): () => void;
}

export type ConversationKind = 'roundtable' | 'team' | 'deliberation';

export type RecordStatus = 'open' | 'waiting' | 'completed' | 'failed' | 'recovery-required' | 'resolved' | 'expired';

/** One committed batch of journal lines. */
export interface Batch {
  revision: number;
  operationId: string;
  entries: readonly string[];
}

/** What a store has of a conversation. */
export interface StoredRecord {
  conversationId: string;
  kind: string;
  schemaVersion: number;
  revision: number;
  summary: RecordSummary;
  snapshot?: { revision: number; state: string };
  /** Those after the snapshot, or all. */
  batches: readonly Batch[];
}

/** Exclusive, expiring, fenced ownership. `expiresAt` is informative, in the store's epoch milliseconds. */
export interface Claim {
  conversationId: string;
  ownerId: string;
  fence: number;
  expiresAt: number;
}

/** What listings show. Times are ISO 8601. */
export interface RecordSummary {
  status: RecordStatus;
  members: readonly string[];
  createdAt: string;
  updatedAt: string;
  expiresAt?: string;
}
