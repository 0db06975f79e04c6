// Engine time per turn over the length of a conversation, beside a hand-written loop.
import { converse } from '../handwritten.mjs';
import { compete, ratio } from '../lib/contest.mjs';
import { agent, hold, hostSelector, speak } from '../lib/conversation.mjs';
import { median } from '../lib/statistics.mjs';

const IDS = ['ada', 'ben', 'cy'];
const AGENTS = IDS.map((id) => agent(id));
const SPEAKERS = IDS.map((id) => ({ id, runTurn: speak }));
const SELECTOR = hostSelector(IDS);
const onEvent = async () => {};

/** Ways to hold a conversation of so many turns. */
export const contestants = {
  'engine, selector and observer': (turns) => hold(AGENTS, turns, { selector: SELECTOR, onEvent }),
  'by hand, selector and observer': (turns) =>
    converse({ participants: SPEAKERS, select: SELECTOR.select, onEvent }, turns),
  'engine, built-in policy': (turns) => hold(AGENTS, turns),
  'by hand, built-in policy': (turns) => converse({ participants: SPEAKERS }, turns),
};
const PAIRS = ['selector and observer', 'built-in policy'];

/** How long the conversations are, and how often each is held. The first warms up the machine code too. */
const HEATS = [
  { argument: 100, warmUp: 30, rounds: 41 },
  { argument: 1_000, warmUp: 1, rounds: 15 },
  { argument: 10_000, warmUp: 1, rounds: 5 },
];

/** @returns rows of results, and the milliseconds they come from */
export default async function turns() {
  const results = await compete(import.meta.url, HEATS);
  const perTurn = (heat, name) => (median(results[heat][name].cpu) * 1000) / HEATS[heat].argument;
  const rows = HEATS.flatMap(({ argument: count }, heat) => {
    const length = `${count.toLocaleString('en')} turns`;
    const times = Object.keys(contestants).map((name) => ({
      what: `${name}, ${length}`,
      value: perTurn(heat, name),
      unit: 'µs/turn',
      ...(name.startsWith('engine') ? { most: 100 } : {}),
    }));
    const ratios = PAIRS.map((pair) => ({
      what: `engine / by hand, ${pair}, ${length}`,
      value: ratio(results[heat][`engine, ${pair}`], results[heat][`by hand, ${pair}`]),
      unit: '×',
      most: 3,
    }));
    return [...times, ...ratios];
  });
  for (const pair of PAIRS) {
    const value = perTurn(2, `engine, ${pair}`) / perTurn(0, `engine, ${pair}`);
    rows.push({ what: `engine, ${pair}: 10,000 turns / 100 turns`, value, unit: '×', most: 1.3 });
  }
  const samples = Object.fromEntries(HEATS.map(({ argument }, heat) => [argument, results[heat]]));
  return { rows, samples };
}
