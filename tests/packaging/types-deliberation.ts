// Compiled, never run: a consumer's use of deliberations.
import {
  createDeliberations,
  type Deliberation,
  DeliberationError,
  type DeliberationSummary,
  type DriveResult,
  agentParticipant,
  driveDeliberation,
  MemoryConversationStore,
  type Notice,
  positionTool,
} from 'agent-roundtable';
import { deliberationHandler, deliberationOpenApi } from 'agent-roundtable/http';
import { nodeListener } from 'agent-roundtable/node';

const deliberations = createDeliberations({
  store: new MemoryConversationStore(),
  notifier: async ({ kind, to, body }: Notice) => console.log(kind === 'invitation', to, body),
  directory: { has: (id) => id !== 'zoe' },
  limits: { maxClosed: 10 },
  onEvent: (event) => console.log(event.type === 'delivery-failed' ? event.idempotencyKey : event.error),
});

export async function hold(): Promise<string | null> {
  const { id, excludedParticipants = [] } = await deliberations.create('fac', {
    topic: 't',
    goal: 'g',
    participants: ['ana'],
  });
  const { threadLength } = await deliberations.speak('ana', id, { message: 'm', idempotencyKey: 'k' });
  const { items, nextCursor } = await deliberations.list('ana', { status: 'open', limit: threadLength });
  const first: DeliberationSummary | undefined = items[0];
  // @ts-expect-error: summaries have no thread
  console.log(first?.thread, nextCursor?.length, excludedParticipants.length);
  // @ts-expect-error: a decision is required
  await deliberations.resolve('fac', id, { outcome: 'o' });
  const session: Deliberation = await deliberations.resolve('fac', id, { outcome: 'o', decision: 'approved' });
  return session.outcome;
}

declare const options: import('agent-roundtable').AgentOptions;

export async function drive(id: string): Promise<string | undefined> {
  const tools = [positionTool(deliberations, id, 'ana')];
  const createAgent = () => ({ ...options, tools });
  const ana = agentParticipant({ id: 'ana', runtime: { id: 'r', version: '1' }, createAgent });
  const result: DriveResult = await driveDeliberation(deliberations, id, {
    store: new MemoryConversationStore(),
    agents: [ana],
    facilitator: { id: 'fac', createAgent: () => options, may: ['close'] },
    beforeRound: ({ number, session }) => console.log(number, session.thread.length),
    answer: ({ kind }) => (kind === 'approval' ? { kind, approved: true } : undefined),
  });
  // @ts-expect-error: only one that waits has requests
  console.log(result.requests);
  if (result.status === 'waiting') return result.requests[0]?.reason;
  return result.status === 'failed' ? result.code : result.session.closeReason;
}

export const handler = deliberationHandler(deliberations, {
  authenticate: async (request) => request.headers.get('x'),
});
export const listener = nodeListener(handler);
export const paths = Object.keys(deliberationOpenApi.paths);
export const told = (error: unknown): string | undefined =>
  error instanceof DeliberationError ? (error.reason ?? error.code) : undefined;
