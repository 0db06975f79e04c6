// The smallest program that proves the package works where it runs: every host and bundler runs this one.

/** @returns {Promise<string>} 'ok' and the version; throws otherwise */
export async function smoke(roundtable) {
  await roundtable.init();
  const streamed = [];
  const conversation = roundtable.createRoundtable({
    conversationId: 'smoke',
    participants: [speaker('ada'), speaker('bob'), roundtable.externalParticipant({ id: 'eve' })],
    selector: selectInOrder([
      { kind: 'parallel', participantIds: ['bob', 'ada'] },
      { kind: 'wait', participantId: 'eve', reason: 'a word from her' },
      { kind: 'finish', reason: 'done' },
    ]),
    limits: { maxTurnsPerRun: 10 },
    onEvent: (event) => {
      if (event.type === 'delta') streamed.push(event.text);
    },
  });
  const waiting = await conversation.run();
  check(waiting.status === 'waiting', `the first run ended as ${waiting.status}`);
  const [request] = waiting.requests;
  const input = { participantId: 'eve', inputId: 'one', content: 'eve ☕', replyToRequestId: request.id };
  await conversation.submitInput({ ...input, expectedRevision: waiting.revision });
  const ended = await conversation.run();
  check(ended.status === 'completed' && ended.reason === 'done', `the second run ended as ${ended.status}`);
  const texts = conversation.snapshot().messages.map((message) => message.content);
  check(texts.join() === 'bob speaks,ada speaks,eve ☕', `the transcript is ${texts.join()}`);
  check(streamed.length === 2, `${streamed.length} deltas came`);
  await conversation.dispose();
  return `ok ${roundtable.version()}`;
}

function speaker(id) {
  const session = {
    async runTurn(_turn, { onDelta }) {
      await onDelta(`${id} `);
      return { kind: 'speak', content: `${id} speaks` };
    },
  };
  const factory = { openSession: async () => ({ session, release: async () => {} }) };
  return { kind: 'agent', id, runtime: { id: 'smoke', version: '1' }, factory };
}

function selectInOrder(selections) {
  const left = [...selections];
  return { select: () => left.shift() };
}

function check(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}
