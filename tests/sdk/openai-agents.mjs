// The OpenAI Agents SDK as a participant's runtime: all that is needed to bring it into a conversation.
import { Runner, RunState, user } from '@openai/agents-core';

/**
 * A runtime over an agent of the SDK. `makeAgent` is given `metered`, for the agent's model, and `once`, for
 * what its tools execute.
 */
export function openaiRuntime(makeAgent, { environment, resources } = {}) {
  // A session runs one turn at a time.
  let context;
  const metered = (model, providerId, modelId) => ({
    getResponse: (request) =>
      context.modelCall(
        { providerId, modelId },
        () => model.getResponse(request),
        ({ usage }) => counts(usage),
      ),
    getStreamedResponse: (request) =>
      context.modelStream(
        { providerId, modelId },
        () => model.getStreamedResponse(request),
        ({ response }) => counts(response?.usage),
      ),
  });
  const once =
    (execute) =>
    (args, _runContext, { toolCall }) =>
      context.toolCall({ toolCallId: toolCall.callId, toolName: toolCall.name, arguments: args }, () => execute(args));

  const agent = makeAgent({ metered, once });
  const runner = new Runner({ tracingDisabled: true });
  const perform = async (given) => {
    const run = await runner.run(agent, given, { stream: true, signal: context.signal });
    for await (const text of run.toTextStream()) await context.onDelta(text);
    await run.completed;
    if (run.interruptions.length > 0)
      return { interruptions: run.interruptions.map(approval), state: JSON.parse(run.state.toString()) };
    const newItems = JSON.parse(JSON.stringify(run.history)).slice(context.history.length);
    return { finalOutput: run.finalOutput ?? null, newItems };
  };
  return {
    environment,
    resources,
    run(input, given) {
      context = given;
      return perform([...context.history, user(input)]);
    },
    async resume(saved, decisions, given) {
      context = given;
      const state = await RunState.fromString(agent, JSON.stringify(saved));
      for (const item of state.getInterruptions()) {
        const decision = decisions.find(({ toolCallId }) => toolCallId === item.rawItem.callId);
        if (decision.approved) state.approve(item);
        else state.reject(item, { message: `denied: ${decision.reason ?? 'no reason given'}` });
      }
      return perform(state);
    },
  };
}

const approval = (item) => ({
  toolCallId: item.rawItem.callId,
  toolName: item.name,
  arguments: JSON.parse(item.arguments),
});

const counts = (usage) =>
  usage && { inputTokens: usage.inputTokens, outputTokens: usage.outputTokens, usageProvenance: 'complete' };
