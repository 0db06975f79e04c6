// From nothing to the first call, in a Node process that has just started: processor time, as elsewhere,
// which counts the threads that compile beside it too, and time on the clock.
import { execFileSync } from 'node:child_process';
import { median } from '../lib/statistics.mjs';

const ENTRY = new URL('../../pkg/dist/index.js', import.meta.url);
const ROUNDS = 41;

const PROGRAM = `
  const [start, before] = [performance.now(), process.cpuUsage()];
  const { createRoundtable } = await import(${JSON.stringify(ENTRY)});
  const runtime = { id: 'bench', version: '1' };
  const participants = [{ kind: 'agent', id: 'ada', runtime, factory: { openSession() {} } }];
  createRoundtable({ conversationId: 'bench', participants, limits: { maxTurnsPerRun: 1 } });
  const [wall, used] = [performance.now() - start, process.cpuUsage(before)];
  console.log(JSON.stringify({ wall, cpu: (used.user + used.system) / 1000 }));
`;

/** @returns rows of results, and the milliseconds they come from */
export default async function start() {
  const times = Array.from({ length: ROUNDS }, () => {
    return JSON.parse(execFileSync(process.execPath, ['--input-type=module', '--eval', PROGRAM], { encoding: 'utf8' }));
  });
  const middle = (kind) => median(times.map((time) => time[kind]));
  const rows = [
    { what: 'import to first call in Node', value: middle('cpu'), unit: 'ms', most: 25 },
    { what: 'the same on the clock', value: middle('wall'), unit: 'ms' },
    { what: 'the same on the clock, fastest', value: Math.min(...times.map(({ wall }) => wall)), unit: 'ms' },
  ];
  return { rows, samples: times };
}
