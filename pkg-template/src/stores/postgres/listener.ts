/** Tells watchers of what any host wrote, through LISTEN and NOTIFY on one connection. */

import type { PostgresClient, PostgresPool } from './pool.js';

/** Between attempts to connect again, in milliseconds; doubled up to the last. */
const [FIRST_PAUSE, LAST_PAUSE] = [100, 5_000];

/** Holds a connection of the pool as long as there is a watcher. */
export class Listener {
  readonly #pool: PostgresPool;
  readonly #channel: string;
  readonly #watchers = new Map<string, Set<() => void>>();
  #client: PostgresClient | undefined;
  #isConnecting = false;

  constructor(pool: PostgresPool, channel: string) {
    this.#pool = pool;
    this.#channel = channel;
  }

  /** @param topic the payload of the notifications that are meant */
  watch(topic: string, changed: () => void): () => void {
    const call = (): void => changed(); // of its own, so that the same function can watch twice
    const watchers = this.#watchers.get(topic) ?? new Set();
    this.#watchers.set(topic, watchers.add(call));
    void this.#connect();
    return () => {
      watchers.delete(call);
      if (watchers.size === 0 && this.#watchers.get(topic) === watchers) this.#watchers.delete(topic);
      if (this.#watchers.size === 0) this.#leave(false);
    };
  }

  async #connect(): Promise<void> {
    if (this.#client !== undefined || this.#isConnecting) return;
    this.#isConnecting = true;
    for (let pause = FIRST_PAUSE; this.#watchers.size > 0; pause = Math.min(2 * pause, LAST_PAUSE)) {
      try {
        const client = await this.#pool.connect();
        this.#client = client;
        client.on('notification', ({ payload }) => this.#tell(payload));
        for (const event of ['error', 'end'] as const) client.on(event, () => this.#lost(client));
        await client.query(`LISTEN ${this.#channel}`);
        if (this.#client === client) break;
      } catch {
        this.#leave(true);
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
    this.#isConnecting = false;
    if (this.#watchers.size === 0) this.#leave(false);
    // What was written before the connection stood was not told.
    else for (const topic of this.#watchers.keys()) this.#tell(topic);
  }

  #tell(topic: string | undefined): void {
    for (const call of this.#watchers.get(topic ?? '') ?? []) call();
  }

  #lost(client: PostgresClient): void {
    if (this.#client !== client) return;
    this.#leave(true);
    if (this.#watchers.size > 0) void this.#connect();
  }

  /** Gives the connection back; one that listened is closed, so that nobody else gets its notifications. */
  #leave(isLost: boolean): void {
    if (this.#isConnecting && !isLost) return; // which notices it
    const client = this.#client;
    this.#client = undefined;
    client?.release(true);
  }
}
