/** A store that fails where a test says so. */

import type { ConversationStore } from '../store-types.js';

/** One call of a store. */
export interface StoreCall {
  readonly method: Exclude<keyof ConversationStore, 'durability' | 'identity' | 'watch'>;
  /** How many calls of this method came before. */
  readonly index: number;
  readonly args: readonly unknown[];
}

/**
 * `before`: rejects without reaching the store; `after`: reaches it, then rejects, so that the
 * acknowledgement is lost; `hang`: reaches it and never settles; `answer`: reaches it and gives
 * something else. The error is by default one without a code, which leaves the outcome unknown.
 */
export type StoreFault =
  | { readonly when: 'before' | 'after'; readonly error?: unknown }
  | { readonly when: 'hang' }
  | { readonly when: 'answer'; readonly value: unknown };

const METHODS = ['create', 'load', 'read', 'claim', 'renew', 'release', 'append', 'list', 'compact', 'delete'] as const;

/**
 * The same store with faults.
 * @param fault asked before every call; `undefined` lets it pass
 */
export function faultyStore(
  store: ConversationStore,
  fault: (call: StoreCall) => StoreFault | undefined,
): ConversationStore {
  const { durability, identity } = store;
  const faulty: Record<string, unknown> = { durability, ...(identity === undefined ? {} : { identity }) };
  if (store.watch !== undefined) faulty['watch'] = store.watch.bind(store);
  for (const method of METHODS) {
    let calls = 0;
    const reach = store[method].bind(store) as (...args: unknown[]) => Promise<unknown>;
    faulty[method] = async (...args: unknown[]): Promise<unknown> => {
      const planned = fault({ method, index: calls++, args });
      if (planned === undefined) return reach(...args);
      if (planned.when === 'before') throw failure(planned.error, method);
      await reach(...args);
      if (planned.when === 'after') throw failure(planned.error, method);
      return planned.when === 'answer' ? planned.value : new Promise(() => {});
    };
  }
  return faulty as unknown as ConversationStore;
}

function failure(error: unknown, method: string): unknown {
  return error ?? new Error(`the connection broke during ${method}`);
}
