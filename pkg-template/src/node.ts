/** What needs Node: files, and stores in them. */

import './inline-module.js';

export { nodeListener } from './http/node-listener.js';
export {
  createReplayProviderFromNodeLogFile,
  createSessionLogWriter,
  type SessionLogWriter,
  type SessionLogWriterOptions,
} from './replay/node-log.js';
export { nodePayloadSource } from './replay/node-payloads.js';
export { type FileStoreOptions, fileStore } from './stores/file/index.js';
export { type ProjectedRooms, type ProjectTeamRoomsOptions, projectTeamRooms } from './team/project.js';
export { type SqliteStore, type SqliteStoreOptions, sqliteStore } from './stores/sqlite/index.js';
