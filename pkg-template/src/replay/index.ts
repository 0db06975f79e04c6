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
  type DecodeOptions,
  type HistoryEntry,
  type PayloadLimits,
  type PayloadSource,
  type RebuiltHistory,
  type SessionLogEntry,
  type SessionLogSource,
  type SyncPayloadSource,
} from './log.js';
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
