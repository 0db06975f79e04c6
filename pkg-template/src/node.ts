/** What needs Node: files. */

import './inline-module.js';

export {
  createReplayProviderFromNodeLogFile,
  createSessionLogWriter,
  type SessionLogWriter,
  type SessionLogWriterOptions,
} from './replay/node-log.js';
export { nodePayloadSource } from './replay/node-payloads.js';
