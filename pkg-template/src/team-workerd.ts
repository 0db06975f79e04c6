/** Teams on Cloudflare Workers. */

import './workerd.js';

export * from './team/index.js';
