// Compiled, never run: a consumer's use of selectors and foreign runtimes.
import {
  agentSelector,
  createRoundtable,
  SelectorDecisionError,
  type AgentParticipant,
  type ChatProvider,
  type SelectorRegistration,
  type TurnSelector,
} from 'agent-roundtable';
import { aiSdkProvider, type AiSdkModel } from 'agent-roundtable/ai-sdk';
import {
  runtimeParticipant,
  type AgentRuntime,
  type RuntimeContext,
  type RuntimeResult,
} from 'agent-roundtable/runtime';

declare const provider: ChatProvider;
declare const languageModel: AiSdkModel;
export const sdkProvider: ChatProvider = aiSdkProvider(languageModel);
declare const reply: { text: string; tokens: number };

const selector = agentSelector({
  reference: { id: 'chair', version: '1' },
  createAgent: () => ({ provider, model: 'm' }),
  maxParallel: 2,
});
export const registration: SelectorRegistration = selector.registration;
export const asSelector: TurnSelector = selector;

class Runtime implements AgentRuntime {
  async run(input: string, { history, modelCall, toolCall, signal }: RuntimeContext): Promise<RuntimeResult> {
    signal.throwIfAborted();
    const call = { providerId: 'p', modelId: 'm' };
    const { text } = await modelCall(
      call,
      () => reply,
      ({ tokens }) => ({ outputTokens: tokens }),
    );
    const result = await toolCall({ toolCallId: 't', toolName: 'look', arguments: {} }, () => 1);
    if (history.length > 5) return { interruptions: [{ toolCallId: 't', toolName: 'x', arguments: null }], state: 1 };
    return { finalOutput: text, newItems: [input, result] };
  }
}

const agent: AgentParticipant = runtimeParticipant({
  id: 'sdk',
  runtime: { id: 'sdk', version: '1' },
  createRuntime: () => new Runtime(),
});
export const roundtable = createRoundtable({
  conversationId: 'c',
  participants: [agent],
  selector,
  limits: { maxTurnsPerRun: 1 },
});

export function told(error: unknown): string {
  // @ts-expect-error: not a code
  if (error instanceof SelectorDecisionError && error.code === 'spent') return '';
  return error instanceof SelectorDecisionError ? error.code : '';
}
