// The life of a conversation, step by step, as a process that is killed lives it and another one finishes it.
import { batch, record } from './records.mjs';

const LEASE = 60_000;

/**
 * @param base the revision that was there before, 0 where the conversation is to be created
 * @returns steps; each can be repeated, and gives what it gave the first time
 */
export function lifeOf(base) {
  let claim;
  const append = (revision, extra = {}) => ({
    name: `append ${revision}`,
    run: async (store) => {
      const appended = await store.append(batch(revision - 1, { claim, ...extra }));
      if (appended.revision !== revision) throw new Error(`landed at ${appended.revision}, not ${revision}`);
    },
  });
  const first = Math.max(base, 1);
  const create = { name: 'create', run: (store) => store.create(record('c')).catch(unless('conflict')) };
  return [
    ...(base === 0 ? [create] : []),
    {
      name: 'claim',
      run: async (store) => {
        claim = await store.claim('c', `process ${process.pid}`, LEASE);
      },
    },
    append(first + 1),
    append(first + 2, { snapshot: `state at ${first + 2}` }),
    append(first + 3),
    { name: 'compact', run: (store) => store.compact('c', first + 2) },
    {
      name: 'renew',
      run: async (store) => {
        claim = await store.renew(claim, LEASE);
      },
    },
    append(first + 4, { snapshot: `state at ${first + 4}` }),
    append(first + 5),
    { name: 'release', run: (store) => store.release(claim) },
  ];
}

/** The last revision of a life. */
export const END = (base) => Math.max(base, 1) + 5;

function unless(code) {
  return (error) => {
    if (error.code !== code) throw error;
  };
}
