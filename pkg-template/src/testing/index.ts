/** What helps to test conversations: scripts, time and faults that a test controls. */

export { type ConformanceOptions, type MakeStore, type StoreUnderTest, storeConformance } from './conformance/index.js';
export { clearDefaultJournal, forgetDefaultJournal, openDefaultJournal } from '../runtime/default-journal.js';
export { type InProcessGroups, inProcessGroups } from '../deliberation/groups.js';
export { faultyStore, type StoreCall, type StoreFault } from './faulty-store.js';
export {
  type ParticipantScript,
  type ScriptMoment,
  type ScriptStep,
  scriptedParticipant,
} from './scripted-participant.js';
export {
  type ScriptedCall,
  type ScriptedProvider,
  type ScriptedReply,
  type ScriptedToolCall,
  scriptedProvider,
} from './scripted-provider.js';
export { replayTrace } from './trace.js';
export { type VirtualClock, virtualClock } from './virtual-clock.js';
