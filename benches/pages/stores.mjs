// The page in which the store of browsers is measured.
import { indexedDbStore } from '../../pkg/dist/browser.js';
import { growth, throughput } from '../lib/store-work.mjs';

const open = async () => {
  const store = indexedDbStore({ name: 'bench' });
  return { store, close: () => store.close() };
};
globalThis.measure = {
  throughput: () => throughput(open),
  growth: () => growth(open, () => globalThis.written()),
};
globalThis.result = 'ready';
