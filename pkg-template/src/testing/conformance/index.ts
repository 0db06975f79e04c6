/** The rules of the storage port, to be run against any store. */

import { appends } from './appends.js';
import { claims } from './claims.js';
import { contents } from './contents.js';
import { creation } from './creation.js';
import { listing } from './listing.js';
import { reading } from './reading.js';
import { watching } from './watching.js';
import type { ConformanceOptions, MakeStore, Rule, RuleContext, StoreUnderTest } from './types.js';

export type { ConformanceOptions, MakeStore, StoreUnderTest } from './types.js';

const RULES: readonly Rule[] = [...creation, ...claims, ...appends, ...reading, ...listing, ...contents, ...watching];

/**
 * Registers one test for each rule that a store must keep. Every rule gets a store of its own.
 * @param makeStore makes an empty store, or a {@link StoreUnderTest} with what the rules need to reach it
 *   from several handles, to let time pass, and to take it down
 */
export function storeConformance(makeStore: MakeStore, options: ConformanceOptions): void {
  const { test, batches = 10_000 } = options;
  for (const { title, run } of RULES) {
    test(title, async () => {
      const made = await makeStore();
      const under: StoreUnderTest = 'store' in made ? made : { store: made };
      try {
        await run(contextOf(under, batches));
      } finally {
        await under.dispose?.();
      }
    });
  }
}

function contextOf(under: StoreUnderTest, batches: number): RuleContext {
  const { store } = under;
  return {
    store,
    batches,
    another: async (clockSkewMs = 0) => (await under.another?.({ clockSkewMs })) ?? store,
    elapse: async (ms) => {
      if (under.elapse !== undefined) await under.elapse(ms);
      else await new Promise((resolve) => setTimeout(resolve, ms));
    },
  };
}
