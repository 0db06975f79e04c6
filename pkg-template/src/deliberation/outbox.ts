/** Delivers what sessions owe: notices, and their groups. What fails stays owed. */

import type { DeliberationHandle } from '../generated/bindings.js';
import type { Clock } from '../types.js';
import { deepFreeze } from '../values.js';
import { inProcessGroups } from './groups.js';
import type { Settings } from './options.js';
import { read, type Sessions } from './sessions.js';
import type { BackingGroup, DeliberationEvent, Notice } from './types.js';

/** How many items are tried at the same time. */
const PAGE = 64;
const FAILED = 'DELIVERY_FAILED';

interface Item {
  readonly item: number;
  readonly put?: BackingGroup;
  readonly delete?: { readonly id: string; readonly by: string; readonly idempotencyKey: string };
  readonly notice?: Notice;
}

/** Which items, see {@link Outbox.deliver}; by default all. */
export interface Wanted {
  readonly firstItem?: number;
  readonly endItem?: number;
  readonly until?: number;
  readonly isLatest?: boolean;
}

export class Outbox {
  readonly #sessions: Sessions;
  readonly #settings: Settings;
  readonly #groups;
  readonly #now: () => number;
  /** What this host is trying: `session item`. */
  readonly #underWay = new Set<string>();

  constructor(sessions: Sessions, settings: Settings, now: () => number) {
    this.#sessions = sessions;
    this.#settings = settings;
    this.#groups = settings.groups ?? inProcessGroups();
    this.#now = now;
  }

  /**
   * Tries what a session owes of the items from `firstItem` to before `endItem`, since `until` or longer;
   * gives how much of it was done. `isLatest`: also what other hosts added. Never rejects.
   */
  async deliver(id: string, wanted: Wanted): Promise<number> {
    const { firstItem = 0, endItem = Number.MAX_SAFE_INTEGER, until = Number.MAX_VALUE } = wanted;
    let { isLatest = false } = wanted;
    let done = 0;
    try {
      for (let next = firstItem; ; ) {
        const first = next;
        const work = (handle: DeliberationHandle): string => handle.work(first, endItem, until, PAGE, this.#now());
        const items = read<Item[]>(await this.#sessions.look(id, FAILED, work, isLatest), FAILED);
        isLatest = false;
        const last = items.at(-1);
        if (last === undefined) return done;
        next = last.item + 1;
        const settled = await this.#tryAll(id, items);
        if (settled.length === 0) continue;
        try {
          const numbers = Float64Array.from(settled);
          await this.#sessions.run(id, FAILED, (handle) => handle.settle(numbers, this.#now()));
          done += settled.length;
        } finally {
          for (const item of settled) this.#underWay.delete(`${id} ${item}`);
        }
      }
    } catch (error) {
      this.tell({ type: 'sweep-failed', deliberationId: id, error });
      return done;
    }
  }

  /** Tells the host's observer, whose own failures are its own. */
  tell(event: DeliberationEvent): void {
    try {
      this.#settings.onEvent?.(event);
    } catch {
      // It was told.
    }
  }

  /** Those that succeeded; they are under way until the journal says that they are done. */
  async #tryAll(id: string, items: readonly Item[]): Promise<number[]> {
    const own = items.filter(({ item }) => !this.#underWay.has(`${id} ${item}`));
    for (const { item } of own) this.#underWay.add(`${id} ${item}`);
    const tried = own.map(async (item) => {
      try {
        await within(this.#settings.deliveryTimeoutMs, this.#settings.clock, this.#try(id, item));
        return [item.item];
      } catch (error) {
        this.#underWay.delete(`${id} ${item.item}`);
        const { idempotencyKey = '' } = item.put ?? item.delete ?? item.notice ?? {};
        this.tell({ type: 'delivery-failed', deliberationId: id, idempotencyKey, error });
        return [];
      }
    });
    return (await Promise.all(tried)).flat();
  }

  async #try(id: string, item: Item): Promise<void> {
    if (item.put !== undefined) await this.#put(id, deepFreeze(item.put));
    else if (item.delete !== undefined) await this.#groups.delete(item.delete.id, item.delete.by);
    else if (item.notice !== undefined) await this.#settings.notifier(deepFreeze(item.notice));
  }

  /** Another host may have put the group before, closed the session and deleted the group again. */
  async #put(id: string, group: BackingGroup): Promise<void> {
    await this.#groups.put(group);
    const { status } = read<{ status: string }>(
      await this.#sessions.look(id, FAILED, (handle) => handle.listed()),
      FAILED,
    );
    if (status !== 'open') await this.#groups.delete(group.id, group.owner);
  }
}

function within<T>(ms: number, clock: Clock | undefined, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = (): void => reject(new Error(`no answer within ${ms} ms`));
    const timer = clock === undefined ? setTimeout(late, ms) : clock.setTimeout(late, ms);
    const stop = (): void => {
      if (clock === undefined) clearTimeout(timer as ReturnType<typeof setTimeout>);
      else clock.clearTimeout(timer);
    };
    work.finally(stop).then(resolve, reject);
  });
}
