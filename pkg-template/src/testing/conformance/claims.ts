/** Claims: one owner, fences, expiry. */

import type { Claim } from '../../store-types.js';
import { equal, holds, refuses, winners } from './checks.js';
import { batch, LONG, record, SHORT } from './records.js';
import type { Rule } from './types.js';

const BAD_LEASES = [0, -1, 1.5, Number.NaN, 2 ** 53, Number.POSITIVE_INFINITY, undefined as unknown as number];

export const claims: readonly Rule[] = [
  {
    title: 'C46 claim: one owner at a time, the same owner included; released, it is free at once',
    async run({ store, another }) {
      await store.create(record('c'));
      const other = await another();
      const claim = await store.claim('c', 'one', LONG);
      equal(Object.keys(claim).sort(), ['conversationId', 'expiresAt', 'fence', 'ownerId'], 'the members of a claim');
      equal([claim.conversationId, claim.ownerId, claim.fence], ['c', 'one', 1], 'the claim');
      holds(Number.isFinite(claim.expiresAt), 'expiresAt is a finite number');
      await refuses(other.claim('c', 'two', LONG), 'busy', 'a claim by another owner');
      await refuses(store.claim('c', 'one', LONG), 'busy', 'a claim by the same owner');
      await store.release(claim);
      equal((await other.claim('c', 'two', LONG)).ownerId, 'two', 'the next owner');
    },
  },
  {
    title: 'C46 claim: of claims at the same time exactly one succeeds',
    async run({ store, another }) {
      await store.create(record('c'));
      const other = await another();
      const calls = Array.from({ length: 20 }, (_, n) => (n % 2 === 0 ? store : other).claim('c', `${n}`, LONG));
      equal((await winners(calls, ['busy'], 'claim')).length, 1, 'how many claims succeeded');
    },
  },
  {
    title: 'C46 claim: the fence grows with each claim, through release and expiry',
    async run({ store, another, elapse }) {
      await store.create(record('c'));
      const other = await another();
      await store.release(await store.claim('c', 'one', LONG));
      const second = await other.claim('c', 'two', SHORT);
      equal(second.fence, 2, 'the fence of the second claim');
      await elapse(2 * SHORT);
      equal((await store.claim('c', 'three', LONG)).fence, 3, 'the fence of the third claim');
    },
  },
  {
    title: 'C46 claim: a claim that was replaced can neither append nor renew nor release',
    async run({ store, another, elapse }) {
      await store.create(record('c'));
      const old = await store.claim('c', 'one', SHORT);
      await elapse(2 * SHORT);
      const other = await another();
      const held = await other.claim('c', 'two', LONG);
      await refuses(store.append(batch(old, 1, 'x')), 'stale-claim', 'append under a replaced claim');
      await refuses(store.renew(old, LONG), 'stale-claim', 'renew of a replaced claim');
      await store.release(old);
      await refuses(store.claim('c', 'three', LONG), 'busy', 'a claim after a release by who holds nothing');
      equal(await other.append(batch(held, 1, 'y')), { revision: 2 }, 'append under the held claim');
    },
  },
  {
    title: 'C46 claim: fence and owner are both compared',
    async run({ store }) {
      await store.create(record('c'));
      const claim = await store.claim('c', 'one', LONG);
      for (const forged of [
        { ...claim, fence: 0 },
        { ...claim, fence: 9 },
        { ...claim, ownerId: 'two' },
      ]) {
        await refuses(store.append(batch(forged, 1, 'x')), 'stale-claim', 'append under a forged claim');
        await refuses(store.renew(forged, LONG), 'stale-claim', 'renew of a forged claim');
        await store.release(forged);
      }
      equal(await store.append(batch(claim, 1, 'x')), { revision: 2 }, 'append under the claim');
    },
  },
  {
    title: 'C46 claim: expiresAt of the claim that is handed in is not looked at',
    async run({ store }) {
      await store.create(record('c'));
      const claim = await store.claim('c', 'one', LONG);
      equal(await store.append(batch({ ...claim, expiresAt: 0 }, 1, 'x')), { revision: 2 }, 'append');
      equal((await store.renew({ ...claim, expiresAt: 0 }, LONG)).fence, claim.fence, 'renew');
    },
  },
  {
    title: 'C46 renew prolongs a held claim, and keeps its fence',
    async run({ store, another, elapse }) {
      await store.create(record('c'));
      const claim = await store.claim('c', 'one', 4 * SHORT);
      const renewed = await store.renew(claim, LONG);
      equal({ ...renewed, expiresAt: 0 }, { ...claim, expiresAt: 0 }, 'the renewed claim');
      holds(renewed.expiresAt > claim.expiresAt, 'the renewed claim expires later');
      await elapse(5 * SHORT);
      await refuses((await another()).claim('c', 'two', LONG), 'busy', 'a claim while a renewed one is held');
      equal(await store.append(batch(claim, 1, 'x')), { revision: 2 }, 'append under a renewed claim');
    },
  },
  {
    title: 'C46 renew never revives a claim that expired or was released',
    async run({ store, elapse }) {
      await store.create(record('c'));
      const expired = await store.claim('c', 'one', SHORT);
      await elapse(2 * SHORT);
      await refuses(store.renew(expired, LONG), 'stale-claim', 'renew of an expired claim');
      await refuses(store.append(batch(expired, 1, 'x')), 'stale-claim', 'append under an expired claim');
      const released = await store.claim('c', 'one', LONG);
      await store.release(released);
      await refuses(store.renew(released, LONG), 'stale-claim', 'renew of a released claim');
      await refuses(store.append(batch(released, 1, 'x')), 'stale-claim', 'append under a released claim');
      await store.release(released);
    },
  },
  {
    title: 'C46 a lease is a positive safe integer',
    async run({ store }) {
      await store.create(record('c'));
      for (const lease of BAD_LEASES) {
        await refuses(store.claim('c', 'one', lease), 'invalid-config', `claim for ${lease}`);
      }
      const claim = await store.claim('c', 'one', Number.MAX_SAFE_INTEGER);
      for (const lease of BAD_LEASES) await refuses(store.renew(claim, lease), 'invalid-config', `renew for ${lease}`);
    },
  },
  {
    title: 'C2a hosts whose clocks differ by less than a third of the lease never own it both',
    async run({ store, another, elapse }) {
      const lease = 2000;
      const [ahead, behind] = [await another(lease / 4), await another(-lease / 4)];
      for (const [id, owner, rival] of [
        ['one', store, ahead],
        ['two', behind, store],
      ] as const) {
        await store.create(record(id));
        // An owner trusts its claim for two thirds of the lease at most, by its own clock.
        const claim = await owner.claim(id, 'owner', lease);
        await refuses(rival.claim(id, 'rival', lease), 'busy', 'a claim at once');
        await elapse(lease / 2);
        await refuses(rival.claim(id, 'rival', lease), 'busy', 'a claim while the owner trusts its own');
        await owner.append(batch(claim, 1, 'x', { conversationId: id }));
        await elapse(lease);
        const next: Claim = await rival.claim(id, 'rival', lease);
        equal(next.fence, 2, 'the fence of the next owner');
        const late = batch(claim, 2, 'y', { conversationId: id });
        await refuses(owner.append(late), 'stale-claim', 'append of the owner before');
        equal(await rival.append({ ...late, claim: next }), { revision: 3 }, 'append of the next owner');
      }
    },
  },
];
