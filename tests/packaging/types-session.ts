// Compiled, never run: a consumer's sessions.
import {
  type AgentParticipant,
  type ExecutionJournal,
  type ExecutionRecord,
  type Permissions,
  sessionParticipant,
  type SessionOptions,
} from 'agent-roundtable';

const rules: Permissions = { allow: ['read*'], ask: ['write'], deny: ['*secret*'], default: 'deny' };
const options = (base: SessionOptions): SessionOptions => ({
  ...base,
  permissions: async () => rules,
  decide: ({ toolName, arguments: given, toolCallId }) =>
    toolName === 'read' && given !== null && toolCallId !== '' ? 'allow' : 'ask',
  environment: '/home/ana',
});
const records: ExecutionRecord[] = [];
const journal: ExecutionJournal = {
  durable: true,
  append: async (record) => void records.push(record),
  read: async (executionId) => records.filter((record) => record.executionId === executionId),
};
const session = (base: SessionOptions): AgentParticipant =>
  sessionParticipant({
    id: 'ana',
    runtime: { id: 'ana', version: '1' },
    createSessionOptions: ({ restoring, participantId }) =>
      options({ ...base, model: `${restoring} ${participantId}` }),
    journal: (sessionId: string) => (sessionId === '' ? { append: journal.append } : journal),
    render: ({ turn, firstTurn }) => `${firstTurn} ${turn.turnId}`,
    onEvent: ({ type, changed }) => console.log(type, changed),
  });
// @ts-expect-error: no such verdict
const wrong: Permissions = { default: 'maybe' };
// @ts-expect-error: a session needs its options
const missing = sessionParticipant({ id: 'ana', runtime: { id: 'ana', version: '1' } });
const reason = (record: ExecutionRecord): string | undefined => (record.kind === 'answer' ? record.reason : undefined);

export { missing, reason, session, wrong };
