/** Being told of changes, where a store can tell. */

import { holds } from './checks.js';
import { batch, written } from './records.js';
import type { Rule } from './types.js';

/** How long a store may take to tell, in milliseconds. */
const PATIENCE_MS = 5000;

export const watching: readonly Rule[] = [
  {
    title: 'C52 a store that has watch tells of changes by any handle, until it is ended',
    async run({ store, another }) {
      await written(store, 1);
      if (store.watch === undefined) return;
      let told = 0;
      let other = 0;
      const end = store.watch('c', () => {
        told += 1;
      });
      const endOther = store.watch('d', () => {
        other += 1;
      });
      try {
        for (const [index, handle] of [store, await another()].entries()) {
          told = 0;
          await handle.append(batch(undefined, index + 1, `w${index}`));
          for (let waited = 0; told === 0 && waited < PATIENCE_MS; waited += 10) await pause(10);
          holds(told > 0, `an append by handle ${index} is told`);
          // One that has just begun to listen may tell everybody, since it may have missed something.
          if (index === 0) other = 0;
        }
        holds(other === 0, 'a change of another conversation is not told');
        end();
        // What was on its way may still arrive.
        await pause(100);
        told = 0;
        await store.append(batch(undefined, 3, 'w3'));
        await pause(100);
        holds(told === 0, 'nothing is told after the end');
      } finally {
        end();
        endOther();
      }
    },
  },
];

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
