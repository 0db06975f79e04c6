// What a program without the engine would write for the same conversation. It awaits the same callbacks
// with the same values, saves the same entries in the same batches on an array in memory, and makes text
// of each once. It checks, freezes, claims and recovers nothing: that is what the engine is paid for.

/**
 * Runs a conversation of `turns` turns.
 * @param {{participants: {id: string, runTurn: Function}[], select?: Function, onEvent?: Function}} host
 *   without `select` the participants speak in declared order, which is decided in the same batch
 * @returns {Promise<{batches: string[][], messages: object[]}>} what was saved and what was said
 */
export async function converse({ participants, select, onEvent }, turns) {
  const conversationId = 'bench';
  const batches = [];
  const messages = [];
  const completed = [];
  const cursors = new Map(participants.map(({ id }) => [id, 0]));
  const listed = participants.map(({ id }) => ({ id, kind: 'agent' }));
  const options = { signal: new AbortController().signal, onDelta: async () => {} };
  const runId = newId('run');
  let [entries, events] = [[], []];

  const append = async (batch) => batches.push(batch);
  const write = (kind, entry) => entries.push(JSON.stringify({ [kind]: entry }));
  const tell = (at, event) => {
    if (onEvent !== undefined) events.push({ conversationId, runId, at, revision: batches.length + 1, ...event });
  };
  const save = async () => {
    const [batch, news] = [entries, events];
    [entries, events] = [[], []];
    await append(batch);
    for (const event of news) await onEvent(event);
  };

  write('run-started/1', { runId, at: now() });
  tell(now(), { type: 'run-started' });
  for (let count = 0; count < turns; count++) {
    let selection = { kind: 'speak', participantId: participants[count % participants.length].id };
    if (select !== undefined) {
      write('selecting/1', { attemptId: newId('selection'), at: now() });
      await save();
      selection = await select(
        { participants: listed, messages, turns: completed, remainingTurns: turns - count },
        options,
      );
    }
    const { participantId } = selection;
    const [groupId, turnId, attemptId] = [newId('group'), newId('turn'), newId('attempt')];
    const startedAt = now();
    write('selected/1', { at: startedAt, selection });
    write('group-started/1', { groupId, at: startedAt, turnIds: [turnId] });
    write('turn-started/1', { turnId, attemptId, at: startedAt });
    const baseRevision = batches.length + 1;
    tell(startedAt, { type: 'selected', selection });
    tell(startedAt, { type: 'group-started', groupId, participantIds: [participantId], baseRevision });
    tell(startedAt, { type: 'turn-started', turnId, attemptId, participantId });
    await save();

    const fresh = messages.slice(cursors.get(participantId)).filter((m) => m.participantId !== participantId);
    cursors.set(participantId, messages.length);
    const turn = { conversationId, participantId, turnId, attemptId, groupId };
    const { runTurn } = participants.find(({ id }) => id === participantId);
    const outcome = await runTurn({ ...turn, context: { baseRevision, messages: fresh } }, options);

    const at = now();
    const message = { id: newId('message'), participantId, content: outcome.content, turnId, groupId };
    write('turn-settled/1', { turnId, at, outcome });
    write('turn-prepared/1', { turnId, at });
    write('group-committed/1', { groupId, at, messageIds: [message.id] });
    messages.push({ ...message, revision: batches.length + 1 });
    completed.push({ id: turnId, groupId, participantId, outcome: 'speak', startedAt, settledAt: at });
    tell(at, { type: 'prepared', groupId, turnId, participantId });
    tell(at, { type: 'published', groupId, messages: messages.slice(-1) });
  }
  write('run-ended/1', { runId, at: now(), outcome: { status: 'limited', reason: 'turns' } });
  await save();
  return { batches, messages };
}

const now = () => new Date().toISOString();
const newId = (kind) => `${kind}-${Math.random().toString(36).slice(2, 15).padEnd(13, '0')}`;
