// A page of the crash matrix: see ../support/crash-conversation.mjs. It cannot kill itself; it stands still
// and says so, and the test closes it.
import { indexedDbStore } from 'agent-roundtable/browser';
import { deadly, hold, recover, storedEntries } from '../support/crash-conversation.mjs';

/** Long, since a tab in the background is slow; closing it ends its claim. */
const LEASE_MS = 60_000;
const name = new URLSearchParams(location.search).get('name');
const store = indexedDbStore({ name });
const effects = {
  append: async (effect) => localStorage.setItem(name, JSON.stringify([...read(), effect])),
  read: async () => read(),
};
const read = () => JSON.parse(localStorage.getItem(name) ?? '[]');
const die = () => {
  globalThis.dead = true;
  return new Promise(() => {});
};
globalThis.hold = async (write, moment) => {
  const end = await hold(write === undefined ? store : deadly(store, write, moment, die), effects, LEASE_MS);
  return { ...end, effects: read() };
};
globalThis.recover = async () => ({ ...(await recover(store, effects)), effects: read() });
globalThis.stored = () => storedEntries(store);
globalThis.result = 'ready';
