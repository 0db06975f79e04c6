/**
 * Web Locks that are held for the time of a claim. A claim is held as long as its lock is: a tab that is
 * closed or killed frees it at once, and one whose timers are throttled keeps it, since what ends a
 * lease is a timer of its own.
 */

/** Longer delays than this overflow. */
const LONGEST_DELAY = 2 ** 31 - 1;
/** What a timer may be late before the tab counts as throttled, and what a renewal that is late too then gets. */
const GRACE_MS = 1_000;

interface Held {
  readonly fence: number;
  readonly free: () => void;
  timer: ReturnType<typeof setTimeout> | undefined;
}

export class ClaimLocks {
  readonly #prefix: string;
  readonly #held = new Map<string, Held>();

  constructor(database: string) {
    this.#prefix = `agent-roundtable/${database}/`;
  }

  /** Whether the environment has locks; insecure pages have none. */
  get areThere(): boolean {
    return globalThis.navigator?.locks !== undefined;
  }

  /** Takes the lock, if nobody has it. @returns what frees it */
  take(conversationId: string): Promise<(() => void) | undefined> {
    if (!this.areThere) return Promise.resolve(() => {});
    return new Promise((resolve, reject) => {
      const hold = (lock: Lock | null): Promise<void> | undefined => {
        if (lock !== null) return new Promise<void>((free) => resolve(free));
        resolve(undefined);
        return undefined;
      };
      navigator.locks.request(this.#prefix + conversationId, { ifAvailable: true }, hold).catch(reject);
    });
  }

  /** Keeps a lock for a lease. */
  keep(conversationId: string, fence: number, free: () => void, leaseMs: number): void {
    this.drop(conversationId);
    const held: Held = { fence, free, timer: undefined };
    this.#held.set(conversationId, held);
    this.#arm(conversationId, held, leaseMs);
  }

  /** Begins a lease anew; at once, so that no timer comes in between. @returns whether this handle holds it */
  prolong(conversationId: string, fence: number, leaseMs: number): boolean {
    const held = this.#held.get(conversationId);
    if (held === undefined || held.fence !== fence) return false;
    clearTimeout(held.timer);
    this.#arm(conversationId, held, leaseMs);
    return true;
  }

  isOwn(conversationId: string, fence: number): boolean {
    return this.#held.get(conversationId)?.fence === fence;
  }

  /** Frees a lock of this handle. */
  drop(conversationId: string, fence?: number): void {
    const held = this.#held.get(conversationId);
    if (held === undefined || (fence !== undefined && held.fence !== fence)) return;
    clearTimeout(held.timer);
    this.#held.delete(conversationId);
    held.free();
  }

  dropAll(): void {
    for (const conversationId of [...this.#held.keys()]) this.drop(conversationId);
  }

  /** Whether any tab holds it. */
  async isHeld(conversationId: string): Promise<boolean> {
    if (this.#held.has(conversationId)) return true;
    const { held = [] } = await navigator.locks.query();
    return held.some(({ name }) => name === this.#prefix + conversationId);
  }

  #arm(conversationId: string, held: Held, leaseMs: number): void {
    const delay = Math.min(leaseMs, LONGEST_DELAY);
    const due = performance.now() + delay;
    held.timer = setTimeout(() => {
      if (leaseMs > delay) return this.#arm(conversationId, held, leaseMs - delay);
      if (performance.now() > due + GRACE_MS) return this.#arm(conversationId, held, GRACE_MS);
      this.drop(conversationId, held.fence);
    }, delay);
  }
}
