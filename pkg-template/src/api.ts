/** What the package exports, whichever entry is imported. */

import { currentEngine } from './engine.js';

export { RoundtableError, type RoundtableErrorCode } from './errors.js';
export { MemoryConversationStore } from './memory-store.js';
export { roundRobin } from './round-robin.js';
export { createRoundtable, externalParticipant } from './roundtable.js';
export type * from './store-types.js';
export type * from './types.js';
export { summarizeUsage, type UsageSummary } from './usage.js';

/** The version of the engine, as in package.json. */
export function version(): string {
  return currentEngine().engine.version();
}
