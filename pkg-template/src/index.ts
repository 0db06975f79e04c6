/** The package in every environment but workerd: importing it makes it ready. */

import './inline-module.js';

export * from './api.js';

/** Does nothing: importing this entry made the engine ready. There so that code can serve every entry. */
export async function init(): Promise<void> {}
