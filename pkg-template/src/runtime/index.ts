/** Agent SDKs as participants. Import `agent-roundtable` too: it brings the engine. */

export { runtimeParticipant, type ForeignParticipantOptions } from './foreign.js';
export type {
  AgentRuntime,
  RuntimeContext,
  RuntimeModelCall,
  RuntimeResult,
  ToolApproval,
  ToolApprovalDecision,
} from './foreign-types.js';
