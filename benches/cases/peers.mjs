// For orientation: two speakers in turn, held by other libraries as their documentation does it, each
// keeping after every turn what it can go on from. They promise different things, so nothing is judged.
import { compete } from '../lib/contest.mjs';
import { agent, hold, hostSelector, TEXT } from '../lib/conversation.mjs';
import { median } from '../lib/statistics.mjs';

const TURNS = 200;
const SPEAKERS = ['ada', 'ben'];
const HEAT = { argument: TURNS, warmUp: 5, rounds: 11 };

/** A journal entry for each step, a selector and an observer of the host's. */
async function roundtable(turns) {
  const agents = SPEAKERS.map((id) => agent(id));
  await hold(agents, turns, { selector: hostSelector(SPEAKERS), onEvent: async () => {} });
}

/** A graph of two nodes over a list of messages, with a checkpoint in memory after every step. */
async function langgraph(turns) {
  const { Annotation, END, MemorySaver, START, StateGraph } = await import('@langchain/langgraph');
  const messages = Annotation({ reducer: (all, fresh) => all.concat(fresh), default: () => [] });
  const speak = (id) => async () => ({ messages: [{ participantId: id, content: TEXT }] });
  const next = ({ messages }) => (messages.length >= turns ? END : SPEAKERS[messages.length % 2]);
  const graph = new StateGraph(Annotation.Root({ messages })).addEdge(START, SPEAKERS[0]);
  for (const id of SPEAKERS) graph.addNode(id, speak(id)).addConditionalEdges(id, next, [...SPEAKERS, END]);
  const app = graph.compile({ checkpointer: new MemorySaver() });
  const options = { configurable: { thread_id: 'bench' }, recursionLimit: turns + 1 };
  const state = await app.invoke({ messages: [] }, options);
  expect(state.messages.length, turns);
}

/** A machine of one state for each speaker; its snapshot is made text after every turn. */
async function xstate(turns) {
  const { assign, createActor, fromPromise, setup, toPromise } = await import('xstate');
  const messages = [];
  const lines = [];
  const speak = fromPromise(async ({ input }) => messages.push({ participantId: input, content: TEXT }));
  const isOver = ({ context }) => context.turn + 1 >= turns;
  const count = assign({ turn: ({ context }) => context.turn + 1 });
  const state = (id, other) => ({
    invoke: {
      src: 'speak',
      input: id,
      onDone: [
        { guard: 'isOver', target: 'over', actions: count },
        { target: other, actions: count },
      ],
    },
  });
  const [first, second] = SPEAKERS;
  const machine = setup({ actors: { speak }, guards: { isOver } }).createMachine({
    initial: first,
    context: { turn: 0 },
    states: { [first]: state(first, second), [second]: state(second, first), over: { type: 'final' } },
  });
  const actor = createActor(machine);
  actor.subscribe(() => lines.push(JSON.stringify(actor.getPersistedSnapshot())));
  actor.start();
  await toPromise(actor);
  expect(messages.length, turns);
}

/** The library's call of a model for each turn, given what was said so far; one line kept for each reply. */
async function aiSdk(turns) {
  const { generateText } = await import('ai');
  const { MockLanguageModelV3 } = await import('ai/test');
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: 1, text: 1, reasoning: undefined },
  };
  const finishReason = { unified: 'stop', raw: undefined };
  const reply = { finishReason, usage, content: [{ type: 'text', text: TEXT }], warnings: [] };
  const model = new MockLanguageModelV3({ doGenerate: async () => reply });
  const histories = SPEAKERS.map(() => [{ role: 'user', content: 'Begin.' }]);
  const lines = [];
  for (let turn = 0; turn < turns; turn++) {
    const [own, other] = [histories[turn % 2], histories[(turn + 1) % 2]];
    const { text } = await generateText({ model, messages: own });
    own.push({ role: 'assistant', content: text });
    other.push({ role: 'user', content: text });
    lines.push(JSON.stringify({ participantId: SPEAKERS[turn % 2], content: text }));
  }
  expect(lines.length, turns);
}

function expect(found, turns) {
  if (found !== turns) throw new Error(`${found} turns in place of ${turns}`);
}

const LIBRARIES = {
  'agent-roundtable, journal': roundtable,
  'LangGraph.js, MemorySaver': langgraph,
  'XState, persisted snapshot': xstate,
  'AI SDK generateText, no state kept': aiSdk,
};
const unavailable = {};
for (const [name, hold] of Object.entries(LIBRARIES)) {
  try {
    await hold(2);
  } catch (error) {
    unavailable[name] = `skipped: ${error.message.split('\n')[0]}`;
  }
}

/** The libraries that are installed and work here. */
export const contestants = Object.fromEntries(Object.entries(LIBRARIES).filter(([name]) => !(name in unavailable)));

/** @returns rows of results, and the milliseconds they come from */
export default async function peers() {
  const [samples] = await compete(import.meta.url, [HEAT]);
  const rows = Object.keys(LIBRARIES).map((name) =>
    name in unavailable
      ? { what: name, note: unavailable[name] }
      : { what: `${name}, ${TURNS} turns`, value: (median(samples[name].cpu) * 1000) / TURNS, unit: 'µs/turn' },
  );
  return { rows, samples };
}
