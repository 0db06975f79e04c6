/** Conversations in the browser. Needs the package `idb`. */

export { type IndexedDbStore, type IndexedDbStoreOptions, indexedDbStore } from './stores/indexed-db/index.js';
