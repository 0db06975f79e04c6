/** The package on Cloudflare Workers, which compile modules at deployment and forbid it at run time. */

import module from './engine.wasm';
import { provideModule } from './engine.js';

provideModule(() => module);

export * from './api.js';

/** Does nothing: importing this entry made the engine ready. There so that code can serve every entry. */
export async function init(): Promise<void> {}
