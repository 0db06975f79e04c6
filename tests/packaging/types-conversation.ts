// Compiled, never run: a consumer's use of conversations.
import {
  createRoundtable,
  exportTranscript,
  externalParticipant,
  followConversation,
  forkRoundtable,
  MemoryConversationStore,
  readConversation,
  RoundtableError,
  roundRobin,
  summarizeUsage,
  type AgentParticipant,
  type Clock,
  type ConversationSnapshot,
  type ConversationStore,
  type JsonValue,
  type ParticipantOutcome,
  type PricePolicy,
  type Roundtable,
  type RoundtableEvent,
  type RunResult,
  type Selection,
  type TurnSelector,
  type UsageRecord,
} from 'agent-roundtable';
import { faultyStore, scriptedParticipant, scriptedProvider, virtualClock } from 'agent-roundtable/testing';

const agent: AgentParticipant = {
  kind: 'agent',
  id: 'ana',
  runtime: { id: 'mine', version: '1' },
  factory: {
    modelCalls: 'metered',
    async openSession({ conversationId, participantId, checkpoint }) {
      const restored: JsonValue | undefined = checkpoint?.data;
      return {
        session: {
          async runTurn(turn, { signal, onDelta, services }): Promise<ParticipantOutcome> {
            signal.throwIfAborted();
            await services.admitModelCall({ callId: turn.attemptId, providerId: 'p', modelId: 'm' });
            await onDelta(`${conversationId} ${participantId} ${String(restored)}`);
            await services.recordUsage({
              callId: turn.attemptId,
              outcome: 'completed',
              provenance: 'reported',
              final: true,
            });
            return { kind: 'speak', content: turn.context.messages.map(({ content }) => content).join() };
          },
        },
        release: async () => {},
      };
    },
  },
};

const selector: TurnSelector = {
  select: ({ turns, remainingTurns }): Selection =>
    turns.length > remainingTurns ? { kind: 'finish', reason: 'enough' } : { kind: 'speak', participantId: 'ana' },
};
const pricing: PricePolicy = {
  version: '1',
  cost: (record) => (record.tokens?.input === undefined ? null : { currency: 'EUR', minorUnits: '1' }),
};
const clock: Clock = virtualClock();
const store: ConversationStore = faultyStore(new MemoryConversationStore({ clock }), ({ method }) =>
  method === 'append' ? { when: 'after' } : undefined,
);

export async function use(): Promise<string> {
  await using roundtable: Roundtable = createRoundtable({
    conversationId: 'c',
    participants: [agent, externalParticipant({ id: 'pia' }), scriptedParticipant({ id: 's', steps: ['hello'] })],
    selector,
    limits: { maxTurnsPerRun: 3 },
    store,
    pricing,
    clock,
    onEvent: (event: RoundtableEvent) => void event.type,
  });
  const result: RunResult = await roundtable.run({ signal: AbortSignal.timeout(1000), limits: { maxTurnsPerRun: 5 } });
  switch (result.status) {
    case 'completed':
    case 'limited':
      return result.reason;
    case 'waiting': {
      const [request] = result.requests;
      if (request?.kind === 'approval') {
        const response = { kind: 'approval', approved: true } as const;
        await roundtable.resume({
          requestId: request.id,
          responseId: 'r',
          expectedRevision: result.revision,
          response,
        });
        const data: JsonValue = request.data;
        return JSON.stringify(data);
      }
      // @ts-expect-error: an input request has no data
      return String(request?.data);
    }
    case 'failed':
      return result.code ?? result.message;
    case 'cancelled':
      return 'cancelled';
  }
}

export async function follow(roundtable: Roundtable): Promise<void> {
  for await (const event of roundtable.events({ afterRevision: 0 })) {
    if (event.type === 'delta') console.log(event.index, event.text);
    else if (event.type === 'published') console.log(event.revision, event.messages[0]?.content);
    // @ts-expect-error: only deltas have text
    else console.log(event.text);
  }
  const snapshot: ConversationSnapshot = roundtable.snapshot();
  // @ts-expect-error: a snapshot is frozen
  snapshot.revision = 5;
  const usage: readonly UsageRecord[] = snapshot.usage;
  console.log(summarizeUsage(usage).cost[0]?.minorUnits);
}

export async function lookOn(store: ConversationStore, signal: AbortSignal): Promise<string> {
  const snapshot: ConversationSnapshot = await readConversation({ store, conversationId: 'c', atRevision: 3 });
  for await (const event of followConversation({ store, conversationId: 'c', afterRevision: 3, signal })) {
    const revision: number = event.revision;
    // @ts-expect-error: a follower is told no deltas
    if (event.type === 'delta') console.log(revision);
  }
  const fork = await forkRoundtable({ store, conversationId: 'c', newConversationId: 'd' });
  // @ts-expect-error: not a format
  exportTranscript(snapshot, 'html');
  return exportTranscript(snapshot, 'markdown') + fork.conversationId;
}

export function told(error: unknown): string {
  return error instanceof RoundtableError ? error.code : 'something else';
}

// @ts-expect-error: maxTurnsPerRun is required
export const unlimited = createRoundtable({ conversationId: 'c', participants: [agent], limits: {} });
// @ts-expect-error: not a kind of selection
export const wrong: Selection = { kind: 'shout' };
export const provider = scriptedProvider({ replies: ['a', { toolCalls: [{ name: 't' }] }], stream: 3 });
export const wrapped: TurnSelector = {
  ...roundRobin(),
  select: (context, options) => roundRobin().select(context, options),
};
