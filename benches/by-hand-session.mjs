// What a program without the engine would write for a turn of an agent with one tool: it renders the same
// input, makes the same two model calls, runs the same tool, saves the same entries in as many batches,
// each made text once, and keeps the same history. It checks, meters, freezes and recovers nothing.

/**
 * Runs `turns` turns of one agent.
 * @param {{provider: object, model: string, tool: object}} host
 * @returns {Promise<{batches: string[][], messages: object[]}>} what was saved and what was said
 */
export async function agentLoop({ provider, model, tool }, turns) {
  const { name, description, parameters } = tool;
  const tools = [{ name, description, parameters }];
  const signal = new AbortController().signal;
  const [batches, messages, history] = [[], [], []];
  let [entries, unsaved] = [[], []];

  const write = (kind, entry) => entries.push(JSON.stringify({ [kind]: entry }));
  const save = async () => {
    batches.push(entries);
    entries = [];
  };
  const remember = (message) => {
    history.push(message);
    unsaved.push(message);
  };
  const message = (role, content, more) => ({
    id: newId(),
    role,
    content,
    timestamp: new Date(),
    state: 'complete',
    ...more,
  });

  for (let count = 0; count < turns; count++) {
    const [groupId, turnId, attemptId, at] = [newId(), newId(), newId(), now()];
    write('selected/1', { at, selection: { kind: 'speak', participantId: 'ada' } });
    write('group-started/1', { groupId, at, turnIds: [turnId] });
    write('turn-started/1', { turnId, attemptId, at });
    await save();
    remember(message('user', 'There are no new messages.'));
    const call = async (number) => {
      const callId = `${attemptId}:${number}`;
      write('call-admitted/1', { callId, attemptId, at: now(), providerId: provider.name, modelId: model });
      await save();
      const reply = await provider.chat(history, { model, tools, signal, callId });
      const { inputTokens: input, outputTokens: output } = reply.metadata;
      write('usage-reported/1', { callId, attemptId, at: now(), outcome: 'completed', tokens: { input, output } });
      await save();
      remember(reply);
      return reply;
    };
    let reply = await call(0);
    for (let number = 1; reply.toolCalls !== undefined; number++) {
      for (const { id, function: asked } of reply.toolCalls) {
        const context = { signal, toolCallId: id, idempotencyKey: `${turnId}:${number}` };
        const result = await tool.execute(JSON.parse(asked.arguments), context);
        remember(message('tool', JSON.stringify(result), { toolCallId: id, name: asked.name }));
      }
      reply = await call(number);
    }
    const content = reply.content.trim();
    write('turn-settled/1', { turnId, at: now(), outcome: { kind: 'speak', content } });
    await save();
    write('turn-prepared/1', { turnId, at: now(), checkpoint: { version: '1', data: null, append: unsaved } });
    unsaved = [];
    const id = newId();
    write('group-committed/1', { groupId, at: now(), messageIds: [id] });
    messages.push({ id, participantId: 'ada', content, turnId, groupId });
  }
  await save();
  return { batches, messages };
}

const now = () => new Date().toISOString();
const newId = () => Math.random().toString(36).slice(2, 15).padEnd(13, '0');
