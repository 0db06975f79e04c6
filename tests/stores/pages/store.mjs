// What the tests of the IndexedDB store reach in a page.
import { indexedDbStore } from 'agent-roundtable/browser';
import { storeConformance } from 'agent-roundtable/testing';

const rules = new Map();
let databases = 0;

function inDatabase() {
  databases += 1;
  const name = `rule ${databases} ${performance.timeOrigin}`;
  const stores = [indexedDbStore({ name })];
  const another = ({ clockSkewMs }) => {
    stores.push(indexedDbStore({ name, clock: { now: () => Date.now() + clockSkewMs } }));
    return stores.at(-1);
  };
  const dispose = async () => {
    for (const store of stores) await store.close();
    indexedDB.deleteDatabase(name);
  };
  return { store: stores[0], another, dispose };
}

storeConformance(inDatabase, { test: (title, run) => rules.set(title, run) });
globalThis.runRule = (title) => rules.get(title)();
globalThis.indexedDbStore = indexedDbStore;
globalThis.store = indexedDbStore({ name: 'shared' });
/** A call that gives its result, or the code and message of its error. */
globalThis.attempt = async (method, ...args) => {
  try {
    return await globalThis.store[method](...args);
  } catch (error) {
    return { code: error.code, message: error.message };
  }
};
globalThis.result = 'ready';
