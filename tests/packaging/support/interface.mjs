// The names of the public interface by entry.
export const INTERFACE = {
  'agent-roundtable': [
    // Conversations
    'createRoundtable loadRoundtable externalParticipant roundRobin RoundtableError summarizeUsage init version',
    'JsonValue RuntimeReference ParticipantCheckpoint SharedMessage ParticipantTurn ParticipantOutcome',
    'ParticipantExecutionOptions ParticipantSession ParticipantLease ParticipantFactory AgentParticipant',
    'ExternalParticipant ParticipantDefinition ParticipantRequest ConversationRequest RequestResponse',
    'ParticipantResponse Selection CompletedTurn SelectionContext TurnSelector RoundtableOptions RoundtableRegistry',
    'SelectorRegistration Roundtable RunResult RoundtableEvent TurnServices UsageReport UsageRecord Money PricePolicy',
    'SettledUsageRecord ConversationSnapshot Clock',
    'readConversation followConversation forkRoundtable exportTranscript',
    // Storage
    'MemoryConversationStore ConversationStore Batch StoredRecord Claim RecordSummary',
    // Runtimes
    'sessionParticipant agentParticipant agentSelector renderSharedIncrement meterJournal ToolSuspension',
    'RuntimeParticipantError SelectorDecisionError',
    'ChatMessage ChatProvider ChatOptions Tool ToolSchema JsonSchema Permissions AgentOptions SessionOptions',
    'ExecutionJournal ExecutionRecord',
    // Replay
    'decodeSessionLog loadSessionLog validateSessionLog rebuildHistory createReplayProvider',
    'createReplayProviderFromSource recordProvider SessionLogDecodeError SessionLogPayloadResolutionError ReplayError',
    'SessionLogEntry ReplayProvider SyncPayloadSource PayloadSource',
    // Teams
    'createTeam loadTeam compileTeam renderTeamRooms TeamError',
    'TeamDefinition TeamTurnInput TeamTurnResult TeamMessage TeamMember Team TeamOutcome TeamResult',
    // Deliberations
    'createDeliberations DeliberationError Deliberations Deliberation DeliberationSummary Notifier',
  ].join(' '),
  'agent-roundtable/node':
    'fileStore sqliteStore createSessionLogWriter nodePayloadSource createReplayProviderFromNodeLogFile projectTeamRooms',
  'agent-roundtable/runtime': 'runtimeParticipant AgentRuntime RuntimeContext RuntimeResult',
  'agent-roundtable/team': [
    'createTeam loadTeam compileTeam renderTeamRooms TeamError',
    'TeamDefinition TeamTurnInput TeamTurnResult TeamMessage TeamMember Team TeamOutcome TeamResult',
  ].join(' '),
  'agent-roundtable/browser': 'indexedDbStore',
  'agent-roundtable/postgres': 'postgresStore',
  'agent-roundtable/http': 'deliberationHandler',
  'agent-roundtable/testing': 'scriptedProvider scriptedParticipant virtualClock faultyStore storeConformance',
  'agent-roundtable/ai-sdk': 'aiSdkProvider',
  'agent-roundtable/mcp': 'mcpTools',
  'agent-roundtable/opentelemetry': 'traceEvents',
};
