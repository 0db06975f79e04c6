/** What the package exports, whichever entry is imported. */

import { currentEngine } from './engine.js';

/** The version of the engine, as in package.json. */
export function version(): string {
  return currentEngine().engine.version();
}
