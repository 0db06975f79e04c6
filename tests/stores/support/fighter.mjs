// A process that appends to conversations that other processes append to as well.
//
//   node fighter.mjs '{"where":…,"owner":"one","ids":["c"],"appends":30}'
import { openStore } from './opening.mjs';
import { batch } from './records.mjs';

const { where, owner, ids, appends } = JSON.parse(process.argv[2]);
const { store, close } = await openStore(where);
const refusals = {};
const pause = () => new Promise((resolve) => setTimeout(resolve, Math.random() * 4));

/** What a call gives; `undefined` where it was refused with one of the codes. */
async function unless(codes, call) {
  try {
    return await call;
  } catch (error) {
    if (!codes.includes(error.code)) throw error;
    refusals[error.code] = (refusals[error.code] ?? 0) + 1;
    if (error.code === 'busy') await pause();
    return undefined;
  }
}

await Promise.all(
  ids.map(async (conversationId) => {
    for (let n = 0; n < appends; ) {
      const operation = { conversationId, operationId: `${owner} ${n}`, entries: [`${owner} ${n}`] };
      if (n % 3 === 2) {
        // Without a claim, where nobody holds one.
        const { revision } = await store.load(conversationId);
        if ((await unless(['conflict', 'busy'], store.append(batch(revision, operation)))) !== undefined) n += 1;
        continue;
      }
      const claim = await unless(['busy'], store.claim(conversationId, owner, 30_000));
      if (claim === undefined) continue;
      const { revision } = await store.load(conversationId);
      await store.append(batch(revision, { ...operation, claim }));
      n += 1;
      await store.release(claim);
    }
  }),
);
await close();
console.log(JSON.stringify(refusals));
