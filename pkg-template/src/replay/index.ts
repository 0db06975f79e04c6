/** Session logs and their replay, as the package exports them. */

export {
  ReplayError,
  SessionLogDecodeError,
  SessionLogPayloadResolutionError,
  type PayloadResolutionMetadata,
  type ReplayErrorCode,
  type ReplayErrorDetails,
  type SessionLogDecodeErrorCode,
  type SessionLogIssue,
  type SessionLogPayloadResolutionErrorCode,
} from './errors.js';
export {
  decodeSessionLog,
  loadSessionLog,
  rebuildHistory,
  validateSessionLog,
  type CompletenessIssue,
  type HistoryEntry,
  type RebuiltHistory,
  type SessionLogEntry,
} from './log.js';
export type {
  DecodeOptions,
  PayloadLimits,
  PayloadSource,
  SessionLogSource,
  SyncPayloadSource,
} from './sources.js';
export {
  createReplayProvider,
  createReplayProviderFromSource,
  type GenerationRequest,
  type GenerationResponse,
  type ReplayOptions,
  type ReplayProvider,
  type ReplayProviderOptions,
  type ReplaySourceOptions,
} from './provider.js';
export { recordProvider, type RecordOptions } from './record.js';
