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
  await teamUp(roundtable);
  return `ok ${roundtable.version()}`;
}

/** A question, its answer and the end of a team. */
async function teamUp({ createTeam, loadTeam, renderTeamRooms, MemoryConversationStore }) {
  const store = new MemoryConversationStore();
  const post = (text, to) => [{ roomId: 'desk', text, mentions: [to] }];
  const members = {
    ada: ({ messages }) =>
      messages.length === 0 ? { summary: 'asked', posts: post('tea ☕?', 'bob') } : { summary: 'tea' },
    bob: async () => ({ summary: 'answered', posts: post('yes', 'ada') }),
  };
  const ended = await createTeam({ runId: 'smoke', definition: TEAM, members, store }).run();
  check(ended.status === 'completed', `the team ended as ${ended.status}`);
  const again = await loadTeam({ runId: 'smoke', members, store });
  check(again.snapshot().output.agents[0].result.summary === 'tea', 'the stored team has another result');
  await again.dispose();
  const { rooms } = await renderTeamRooms({ runId: 'smoke', store });
  const text = 'ada [team/ada/1/0] @bob: tea ☕?\nbob [team/bob/1/0] @ada: yes\n';
  check(rooms[0].text === text, `the room is ${rooms[0].text}`);
}

const TEAM = {
  id: 'smoke',
  definitionVersion: 1,
  data: {
    task: 'Choose a drink.',
    globalConcurrency: 1,
    maxTurnsPerMember: 2,
    communication: { tailMessages: 5, rooms: [{ id: 'desk', members: ['ada', 'bob'] }] },
  },
  nodes: [
    { id: 'ada', data: { role: 'host', brief: '' } },
    { id: 'bob', data: { role: 'guest', brief: '', initialTurn: false } },
  ],
  edges: [],
};

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
