// Stores with one fault each, made from a sound one, and the rule that each breaks.
import { RoundtableError } from 'agent-roundtable';

const pause = () => new Promise((resolve) => setImmediate(resolve));
const refusal = (code) => new RoundtableError(code, code);

/** The store with some methods replaced; a replacement gets the sound method and the arguments. */
function replacing(store, methods) {
  const names = ['create', 'load', 'read', 'claim', 'renew', 'release', 'append', 'list', 'compact', 'delete'];
  const sound = Object.fromEntries(names.map((name) => [name, store[name].bind(store)]));
  const replaced = { durability: 'memory', ...sound };
  for (const [name, method] of Object.entries(methods)) replaced[name] = async (...args) => method(sound, ...args);
  return replaced;
}

const broken = (fault, breaks, methods) => ({ fault, breaks, wrap: (store) => replacing(store, methods(store)) });

/** A store in which every text goes through a change on its way in. */
function changing(change) {
  const id = (sound, method) => (record) =>
    sound[method]({ ...record, conversationId: change(record.conversationId), entries: record.entries.map(change) });
  return () => ({
    create: (sound, record) => id(sound, 'create')(record),
    append: (sound, batch) => id(sound, 'append')({ ...batch, operationId: change(batch.operationId) }),
    load: (sound, conversationId) => sound.load(change(conversationId)),
    read: (sound, conversationId, options) => sound.read(change(conversationId), options),
    claim: (sound, conversationId, owner, lease) => sound.claim(change(conversationId), change(owner), lease),
    release: (sound, claim) => sound.release({ ...claim, conversationId: change(claim.conversationId) }),
    delete: (sound, conversationId) => sound.delete(change(conversationId)),
  });
}

/** The operation ids that were given a receipt, kept beside the store. */
function receipts() {
  const given = new Map();
  return {
    of: ({ conversationId, operationId }) => given.get(JSON.stringify([conversationId, operationId])),
    keep: ({ conversationId, operationId }, receipt) => {
      given.set(JSON.stringify([conversationId, operationId]), receipt);
      return receipt;
    },
  };
}

export const BROKEN = [
  {
    fault: 'tells of every conversation',
    breaks: 'has watch',
    wrap: (store) => Object.assign(replacing(store, {}), { watch: (_, changed) => store.watch('c', changed) }),
  },
  broken('stores the first batch under another operation id', 'create writes batch 1', () => ({
    load: async (sound, id) => {
      const found = await sound.load(id);
      return found && { ...found, batches: found.batches.map((one) => ({ ...one, operationId: 'x' })) };
    },
  })),
  broken('lets a second create replace the first', 'a second create is a conflict', () => ({
    create: async (sound, record) => {
      await sound.delete(record.conversationId);
      return sound.create(record);
    },
  })),
  broken('looks and writes in two steps when it creates', 'of creations at the same time', () => ({
    create: async (sound, record) => {
      if ((await sound.load(record.conversationId)) !== undefined) throw refusal('conflict');
      await pause();
      await sound.delete(record.conversationId);
      return sound.create(record);
    },
  })),
  broken('answers null for what does not exist', 'what does not exist', () => ({
    load: async (sound, id) => (await sound.load(id)) ?? null,
  })),
  broken('keeps the objects it is given', 'what was handed in', () => {
    const kept = new Map();
    return {
      append: (sound, batch) => {
        kept.set(batch.operationId, batch);
        return sound.append(batch);
      },
      load: async (sound, id) => {
        const found = await sound.load(id);
        if (found === undefined) return found;
        const entriesOf = (one) => kept.get(one.operationId)?.entries ?? one.entries;
        return { ...found, batches: found.batches.map((one) => ({ ...one, entries: entriesOf(one) })) };
      },
    };
  }),
  broken('forgets when a record expires', 'a summary is kept whole', () => ({
    create: (sound, { summary: { expiresAt, ...summary }, ...record }) => sound.create({ ...record, summary }),
  })),
  broken('lets an owner claim again', 'one owner at a time', () => {
    const held = new Map();
    return {
      claim: async (sound, id, owner, lease) => {
        if (held.get(id)?.ownerId === owner) await sound.release(held.get(id));
        held.set(id, await sound.claim(id, owner, lease));
        return held.get(id);
      },
    };
  }),
  broken('gives every claim', 'of claims at the same time', () => ({
    claim: async (sound, id, owner, lease) =>
      sound.claim(id, owner, lease).catch((error) => {
        if (error.code !== 'busy') throw error;
        return { conversationId: id, ownerId: owner, fence: 9, expiresAt: 1 };
      }),
  })),
  broken('gives every claim the same fence', 'the fence grows', () => ({
    claim: async (sound, ...args) => ({ ...(await sound.claim(...args)), fence: 1 }),
  })),
  broken('looks at nobody’s claim', 'a claim that was replaced', () => ({
    append: (sound, batch) => replaceClaim(sound, batch),
  })),
  broken('releases whoever holds the claim', 'a claim that was replaced', () => {
    const held = new Map();
    return {
      claim: async (sound, ...args) => {
        const claim = await sound.claim(...args);
        held.set(claim.conversationId, claim);
        return claim;
      },
      release: (sound, claim) => sound.release(held.get(claim.conversationId) ?? claim),
    };
  }),
  broken('compares fences and not owners', 'fence and owner are both compared', () => {
    const owners = new Map();
    const own = (claim) => ({ ...claim, ownerId: owners.get(claim.fence) ?? claim.ownerId });
    return {
      claim: async (sound, ...args) => {
        const claim = await sound.claim(...args);
        owners.set(claim.fence, claim.ownerId);
        return claim;
      },
      renew: (sound, claim, lease) => sound.renew(own(claim), lease),
    };
  }),
  {
    fault: 'believes the expiresAt it is handed',
    breaks: 'expiresAt of the claim that is handed in',
    wrap: (store, clock) =>
      replacing(store, {
        append: (sound, batch) => {
          if (batch.claim !== undefined && batch.claim.expiresAt <= clock.time) throw refusal('stale-claim');
          return sound.append(batch);
        },
      }),
  },
  broken('does not prolong when it renews', 'renew prolongs', () => ({
    renew: async (_, claim) => claim,
  })),
  {
    fault: 'revives an expired claim',
    breaks: 'renew never revives',
    wrap: (store, clock) => {
      const until = new Map();
      return replacing(store, {
        claim: async (sound, id, owner, lease) => {
          if ((until.get(id) ?? 0) > clock.time) throw refusal('busy');
          const claim = await sound.claim(id, owner, Number.MAX_SAFE_INTEGER - clock.time).catch((error) => {
            throw error;
          });
          until.set(id, clock.time + lease);
          return claim;
        },
      });
    },
  },
  broken('takes any number for a lease', 'a lease is a positive safe integer', () => ({
    claim: (sound, id, owner, lease) => sound.claim(id, owner, Number.isSafeInteger(lease) && lease > 0 ? lease : 1),
  })),
  {
    fault: 'gives a claim away after half of its lease',
    breaks: 'hosts whose clocks differ',
    wrap: (store, clock) => {
      const given = new Map();
      return replacing(store, {
        claim: async (sound, id, owner, lease) => {
          const last = given.get(id);
          if (last !== undefined && clock.time >= last.at + lease / 2) await sound.release(last.claim);
          const claim = await sound.claim(id, owner, lease);
          given.set(id, { claim, at: clock.time });
          return claim;
        },
      });
    },
  },
  broken('does not compare revisions', 'append needs the present revision', () => ({
    append: async (sound, batch) => {
      const found = await sound.load(batch.conversationId);
      return sound.append({ ...batch, expectedRevision: found?.revision ?? 0 });
    },
  })),
  broken('looks at the claim before the operation id', 'an operation id is looked up before', () => ({
    append: async (sound, batch) => {
      if (batch.claim !== undefined) await sound.renew(batch.claim, 400);
      return sound.append(batch);
    },
  })),
  broken('has one table of operation ids for all conversations', 'an operation id belongs to', () => {
    const known = receipts();
    const anywhere = ({ operationId }) => ({ conversationId: '', operationId });
    return {
      append: async (sound, batch) =>
        known.of(anywhere(batch)) ?? known.keep(anywhere(batch), await sound.append(batch)),
    };
  }),
  broken('knows no operation ids', 'a lost acknowledgement', () => {
    let count = 0;
    return { append: (sound, batch) => sound.append({ ...batch, operationId: `${batch.operationId}:${count++}` }) };
  }),
  broken('learns operation ids when an append is done', 'an append repeated while the first', () => {
    const known = receipts();
    return {
      append: async (sound, batch) => {
        const receipt = known.of(batch);
        if (receipt !== undefined) return receipt;
        await pause();
        const found = await sound.load(batch.conversationId);
        if (found !== undefined && found.revision !== batch.expectedRevision) throw refusal('conflict');
        return known.keep(batch, await sound.append(batch));
      },
    };
  }),
  broken('takes appends without a claim while one is held', 'without a claim an append lands', () => ({
    append: (sound, batch) => (batch.claim === undefined ? replaceClaim(sound, batch) : sound.append(batch)),
  })),
  broken('compares the revision and writes in two steps', 'of appends to one revision', () => ({
    append: async (sound, batch) => {
      const found = await sound.load(batch.conversationId);
      if (found !== undefined && found.revision !== batch.expectedRevision) return sound.append(batch);
      await pause();
      const now = await sound.load(batch.conversationId);
      return sound.append({ ...batch, expectedRevision: now?.revision ?? 0 });
    },
  })),
  broken('reads the revision and the batches at different times', 'concurrent calls of every kind', () => {
    let loads = 0;
    return {
      load: async (sound, id) => {
        const found = await sound.load(id);
        loads += 1;
        for (let i = loads % 4; i > 0; i--) await pause();
        return found && { ...found, revision: (await sound.read(id, { after: 0 })).revision };
      },
    };
  }),
  broken('says that appends in a hurry have landed', 'appends of one owner that do not wait', () => {
    let busy = 0;
    return {
      append: async (sound, batch) => {
        busy += 1;
        await pause();
        try {
          if (busy > 4 && batch.claim !== undefined) return { revision: batch.expectedRevision + 1 };
          return await sound.append(batch);
        } finally {
          busy -= 1;
        }
      },
    };
  }),
  broken('reads from the snapshot on', 'read gives batches after a revision', () => ({
    read: async (sound, id, options) => {
      const found = await sound.load(id);
      return sound.read(id, { ...options, after: Math.max(options.after, found?.snapshot?.revision ?? 0) });
    },
  })),
  broken('keeps no snapshots', 'load gives the latest snapshot', () => ({
    append: (sound, { snapshot, ...batch }) => sound.append(batch),
  })),
  broken('keeps snapshots of refused appends', 'a snapshot of an append that is refused', () => {
    const kept = new Map();
    return {
      append: (sound, batch) => {
        if (batch.snapshot !== undefined) kept.set(batch.conversationId, batch.snapshot);
        return sound.append(batch);
      },
      load: async (sound, id) => {
        const found = await sound.load(id);
        const state = kept.get(id);
        return found && state !== undefined ? { ...found, snapshot: { revision: found.revision, state } } : found;
      },
    };
  }),
  broken('compacts what no snapshot covers', 'compact removes only what', () => ({
    compact: (sound, id, before) =>
      sound.compact(id, before).catch((error) => {
        if (error.code !== 'conflict') throw error;
      }),
  })),
  broken('forgets the operation ids of removed batches', 'operation ids of compacted batches', () => {
    const from = new Map();
    return {
      compact: (sound, id, before) => {
        from.set(id, before);
        return sound.compact(id, before);
      },
      append: async (sound, batch) => {
        const receipt = await sound.append(batch);
        if (receipt.revision < (from.get(batch.conversationId) ?? 0)) throw refusal('conflict');
        return receipt;
      },
    };
  }),
  broken('reads what is left where batches were removed', 'compaction breaks no reader', () => ({
    read: async (sound, id, options) => {
      for (let after = options.after; ; after++) {
        try {
          return await sound.read(id, { ...options, after });
        } catch (error) {
          if (error.code !== 'not-found') throw error;
        }
      }
    },
  })),
  broken('deletes what is claimed', 'delete needs no claim', () => ({
    delete: async (sound, id) => {
      const found = await sound.claim(id, 'deleter', 1).catch(() => undefined);
      return found === undefined ? undefined : sound.release(found).then(() => sound.delete(id));
    },
  })),
  broken('loses a batch of many', 'ten thousand batches', () => ({
    read: async (sound, id, options) => {
      const found = await sound.read(id, options);
      return found && { ...found, batches: found.batches.filter(({ revision }) => revision !== 777) };
    },
  })),
  broken('lists the oldest first', 'list gives the newest', () => ({
    list: async (sound, query) => {
      const page = await sound.list(query);
      return { ...page, items: [...page.items].reverse() };
    },
  })),
  broken('lists by the members of the first batch', 'list selects by kind', () => ({
    append: async (sound, batch) => {
      const found = await sound.load(batch.conversationId);
      const members = found?.summary.members ?? batch.summary.members;
      return sound.append({ ...batch, summary: { ...batch.summary, members } });
    },
  })),
  broken('skips ties at the end of a page', 'list goes on after a cursor', () => ({
    list: async (sound, query) => {
      const page = await sound.list(query);
      if (page.nextCursor === undefined) return page;
      return { ...page, nextCursor: JSON.stringify([JSON.parse(page.nextCursor)[0], '\uffff']) };
    },
  })),
  broken('pages by position', 'list shows each conversation once', () => ({
    list: async (sound, { cursor, limit = 100, ...query }) => {
      const from = cursor === undefined ? 0 : Number(JSON.parse(cursor)[1]);
      const { items } = await sound.list({ ...query, limit: 1_000 });
      const more = items.length > from + limit ? { nextCursor: JSON.stringify(['', `${from + limit}`]) } : {};
      return { items: items.slice(from, from + limit), ...more };
    },
  })),
  broken('begins again at a cursor it does not know', 'list refuses a cursor', () => ({
    list: (sound, query) =>
      sound.list(query).catch((error) => {
        if (query.cursor === undefined) throw error;
        return sound.list({ ...query, cursor: undefined });
      }),
  })),
  broken(
    'ends text at U+0000',
    'hostile conversation ids',
    changing((text) => text.split('\0')[0]),
  ),
  broken('folds the case of ids', 'hostile operation ids', () => ({
    list: (sound, query) => sound.list({ ...query, ...(query.member && { member: query.member.toLowerCase() }) }),
  })),
  broken(
    'normalises text',
    'hostile conversation ids',
    changing((text) => text.normalize('NFC')),
  ),
  broken(
    'drops a byte order mark',
    'entries and snapshots come back',
    changing((text) => text.replace(/^\ufeff/, '')),
  ),
  broken(
    'cuts text at 64 kB',
    'entries of 1 MB',
    changing((text) => text.slice(0, 65_535)),
  ),
];

/** Appends under whatever claim is held. */
async function replaceClaim(sound, batch) {
  try {
    return await sound.append(batch);
  } catch (error) {
    if (error.code !== 'stale-claim' && error.code !== 'busy') throw error;
    return { revision: batch.expectedRevision + 1 };
  }
}
