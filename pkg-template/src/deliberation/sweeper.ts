/** What time asks for: deadlines, reminders, deliveries that failed, and the end of retention. */

import type { ConversationStore, RecordStatus, RecordSummary } from '../store-types.js';
import type { Outbox } from './outbox.js';
import type { Settings } from './options.js';
import type { Sessions } from './sessions.js';

/** Listed among the members of every session that owes something; no agent has an id that begins with a space. */
const OUTBOX_MEMBER = ' outbox';
/** A sweep leaves what is younger to the host that owes it, which is trying it now. */
const GRACE_MS = 30_000;
const PAGE = 100;
const FAILED = 'SWEEP_FAILED';

interface Listed {
  readonly conversationId: string;
  readonly summary: RecordSummary;
}

export class Sweeper {
  readonly #sessions: Sessions;
  readonly #outbox: Outbox;
  readonly #settings: Settings;
  readonly #store: ConversationStore;
  readonly #now: () => number;
  #timer: unknown;
  #isStopped = false;
  /** The sweep that is under way. */
  sweeping: Promise<void> | undefined;

  constructor(sessions: Sessions, outbox: Outbox, settings: Settings, now: () => number) {
    this.#sessions = sessions;
    this.#outbox = outbox;
    this.#settings = settings;
    this.#store = settings.store;
    this.#now = now;
  }

  start(): void {
    const { clock, sweepIntervalMs } = this.#settings;
    if (sweepIntervalMs === 0 || this.#isStopped) return;
    const sweep = (): void => {
      // The next one is timed from the end of this one: they never overlap.
      this.sweeping = this.#sweep().finally(() => {
        this.sweeping = undefined;
        this.start();
      });
    };
    if (clock !== undefined) {
      this.#timer = clock.setTimeout(sweep, sweepIntervalMs);
      return;
    }
    const timer: unknown = setTimeout(sweep, sweepIntervalMs);
    this.#timer = timer;
    // A program that has nothing else to do may end.
    (timer as { unref?(): void }).unref?.();
  }

  stop(): void {
    this.#isStopped = true;
    const { clock } = this.#settings;
    if (clock !== undefined) clock.clearTimeout(this.#timer);
    else clearTimeout(this.#timer as ReturnType<typeof setTimeout>);
  }

  /** Expires and reminds; gives how many were expired by this call. */
  async expire(filter: { member?: string }): Promise<number> {
    let expired = 0;
    let due: string[] = [];
    const flush = async (): Promise<void> => {
      for (const count of await Promise.all(due.map((id) => this.#expireOne(id)))) expired += count;
      due = [];
    };
    for await (const { conversationId, summary } of this.records({ status: 'open', ...filter })) {
      if (Date.parse(summary.expiresAt ?? '') <= this.#now()) due.push(conversationId);
      if (due.length >= PAGE) await flush();
    }
    await flush();
    return expired;
  }

  /** Tries what is owed since `until` or longer. */
  async deliver(until = Number.MAX_VALUE): Promise<number> {
    let done = 0;
    for await (const { conversationId } of this.records({ member: OUTBOX_MEMBER })) {
      done += await this.#outbox.deliver(conversationId, { isLatest: true, until });
    }
    return done;
  }

  async purge(): Promise<number> {
    const { retentionMs, maxClosed } = this.#settings.limits;
    const closed: { id: string; at: number; owes: boolean }[] = [];
    for (const status of ['resolved', 'expired'] as const) {
      for await (const { conversationId: id, summary } of this.records({ status })) {
        const at = Date.parse(summary.expiresAt ?? summary.updatedAt);
        closed.push({ id, at, owes: summary.members.includes(OUTBOX_MEMBER) });
      }
    }
    closed.sort((a, b) => b.at - a.at);
    const oldest = this.#now() - retentionMs;
    const old = closed.filter(({ at, owes }, index) => index >= maxClosed || (at < oldest && !owes));
    let purged = 0;
    for (const { id } of old) {
      try {
        await this.#sessions.delete(id, FAILED);
        purged += 1;
      } catch (error) {
        this.#outbox.tell({ type: 'sweep-failed', deliberationId: id, error });
      }
    }
    return purged;
  }

  /** The records of deliberations, page by page. */
  async *records(query: { status?: RecordStatus; member?: string }): AsyncGenerator<Listed> {
    let cursor: string | undefined;
    do {
      const more = cursor === undefined ? {} : { cursor };
      const page = await this.#store.list({ kind: 'deliberation', limit: PAGE, ...query, ...more });
      yield* page.items;
      cursor = page.nextCursor;
    } while (cursor !== undefined);
  }

  /** 1 where this call expired the session. One that fails does not keep the others. */
  async #expireOne(id: string): Promise<number> {
    try {
      const swept = await this.#sessions.run(id, FAILED, (handle) => handle.sweep(this.#now()));
      if (swept.entries.length === 0) return 0;
      await this.#outbox.deliver(id, swept);
      return swept.summary.status === 'expired' ? 1 : 0;
    } catch (error) {
      this.#outbox.tell({ type: 'sweep-failed', deliberationId: id, error });
      return 0;
    }
  }

  async #sweep(): Promise<void> {
    const parts = [() => this.expire({}), () => this.deliver(this.#now() - GRACE_MS), () => this.purge()];
    for (const part of parts) {
      if (this.#isStopped) return;
      try {
        await part();
      } catch (error) {
        this.#outbox.tell({ type: 'sweep-failed', error });
      }
    }
  }
}
