// What a turn of a permission-gated session with one tool round costs beside a hand-written loop.
import { sessionParticipant } from '../../pkg/dist/index.js';
import { agentLoop } from '../by-hand-session.mjs';
import { compete, ratio } from '../lib/contest.mjs';
import { CountingStore, hold, TEXT } from '../lib/conversation.mjs';
import { median } from '../lib/statistics.mjs';

const MODEL = 'bench';

/** Ways to run so many turns; every one of them is a tool call and then 500 bytes of words. */
export const contestants = {
  engine: (turns) => hold([session()], turns),
  'by hand': (turns) => agentLoop({ provider: scripted(), model: MODEL, tool: lookUp() }, turns),
};

const HEATS = [
  { argument: 100, warmUp: 15, rounds: 21 },
  { argument: 1_000, warmUp: 1, rounds: 7 },
];

/** @returns rows of results, and the milliseconds they come from */
export default async function sessions() {
  const results = await compete(import.meta.url, HEATS);
  const rows = HEATS.flatMap(({ argument: count }, heat) => {
    const length = `${count.toLocaleString('en')} turns`;
    const times = Object.keys(contestants).map((name) => ({
      what: `${name}, turn with one tool round, ${length}`,
      value: (median(results[heat][name].cpu) * 1000) / count,
      unit: 'µs/turn',
    }));
    const value = ratio(results[heat].engine, results[heat]['by hand']);
    return [...times, { what: `engine / by hand, ${length}`, value, unit: '×' }];
  });
  for (const recovery of ['none', 'durable']) {
    const { appends, bytes } = await written(recovery);
    rows.push({ what: `appends per turn, recovery '${recovery}'`, value: appends, unit: '' });
    rows.push({ what: `written per turn, recovery '${recovery}'`, value: bytes, unit: 'B' });
  }
  return { rows, samples: Object.fromEntries(HEATS.map(({ argument }, heat) => [argument, results[heat]])) };
}

/** What a turn costs the store; with `durable` the execution's records are kept in the conversation. */
async function written(recovery) {
  const turns = 100;
  const store = new CountingStore();
  Object.defineProperty(store, 'durability', { value: 'durable' });
  await hold([session()], turns, { store, recovery });
  const bytes = store.batches.reduce((sum, batch) => sum + batch, 0);
  return { appends: store.batches.length / turns, bytes: bytes / turns };
}

function session() {
  const createSessionOptions = () => ({
    provider: scripted(),
    model: MODEL,
    tools: [lookUp()],
    permissions: { allow: ['look_*'] },
  });
  return sessionParticipant({ id: 'ada', runtime: { id: 'bench', version: '1' }, createSessionOptions });
}

/** Asks for the tool once, then speaks, turn after turn. */
function scripted() {
  let calls = 0;
  return {
    name: 'bench',
    async chat() {
      const asks = calls++ % 2 === 0;
      return {
        id: `reply-${calls}`,
        role: 'assistant',
        content: asks ? null : TEXT,
        timestamp: new Date(),
        state: 'complete',
        metadata: { inputTokens: 100, outputTokens: 100, usageProvenance: 'complete' },
        ...(asks ? { toolCalls: [call(calls)] } : {}),
      };
    },
  };
}

function call(number) {
  const asked = { name: 'look_up', arguments: JSON.stringify({ word: `word ${number}` }) };
  return { id: `call-${number}`, type: 'function', function: asked };
}

function lookUp() {
  return {
    name: 'look_up',
    description: 'Looks a word up.',
    parameters: { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] },
    execute: async ({ word }) => ({ word, found: true }),
  };
}
