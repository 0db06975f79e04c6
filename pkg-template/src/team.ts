/** Teams, in every environment but workerd: importing this makes the engine ready. */

import './inline-module.js';

export * from './team/index.js';
