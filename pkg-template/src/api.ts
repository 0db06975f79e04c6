/** What the package exports, whichever entry is imported. */

import { currentEngine } from './engine.js';

export { createDeliberations } from './deliberation/create.js';
export { DeliberationError, type DeliberationErrorCode } from './deliberation/errors.js';
export type * from './deliberation/types.js';
export { driveDeliberation, positionTool } from './drive/index.js';
export type * from './drive/types.js';
export { RoundtableError, type RoundtableErrorCode } from './errors.js';
export { followConversation, type FollowOptions } from './inspection/follow.js';
export { type ForkOptions, forkRoundtable } from './inspection/fork.js';
export { readConversation } from './inspection/read.js';
export { exportTranscript } from './inspection/transcript.js';
export { MemoryConversationStore } from './memory-store.js';
export * from './replay/index.js';
export { roundRobin } from './round-robin.js';
export { createRoundtable, externalParticipant, loadRoundtable } from './roundtable.js';
export {
  type AgentContext,
  agentParticipant,
  type AgentParticipantOptions,
  type RuntimeParticipantOptions,
} from './runtime/agent.js';
export type { ConstructionChange } from './runtime/agent-session.js';
export {
  RuntimeParticipantError,
  type RuntimeParticipantErrorCode,
  SelectorDecisionError,
  type SelectorDecisionErrorCode,
  ToolSuspension,
} from './runtime/errors.js';
export { meterJournal } from './runtime/metering.js';
export { type Render, renderSharedIncrement } from './runtime/render.js';
export { type AgentSelector, agentSelector, type AgentSelectorOptions } from './runtime/selector.js';
export { sessionParticipant, type SessionParticipantOptions } from './runtime/session.js';
export type {
  AgentOptions,
  ChatMessage,
  ChatMetadata,
  ChatOptions,
  ChatProvider,
  ChatToolCall,
  ExecutionJournal,
  ExecutionRecord,
  JsonSchema,
  Permissions,
  SessionOptions,
  Tool,
  ToolSchema,
} from './runtime/types.js';
export type * from './store-types.js';
export * from './team/index.js';
export type * from './types.js';
export { summarizeUsage, type UsageSummary } from './usage.js';

/** The version of the engine, as in package.json. */
export function version(): string {
  return currentEngine().engine.version();
}
