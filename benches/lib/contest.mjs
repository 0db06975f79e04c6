// Compares functions of one module. Each runs in a process of its own, so that none pays for what another
// left behind, and they take turns, so that whatever disturbs the machine disturbs all of them.
//
// What counts is processor time, all threads of the process included: unlike the time on the clock it
// does not grow when other programs want the machine.
import { fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { median } from './statistics.mjs';

/**
 * @param {string} module URL of a module whose export `contestants` maps names to functions of one argument
 * @param {{argument: unknown, warmUp: number, rounds: number}[]} heats one after the other, in the same processes
 * @returns {Promise<{[name: string]: {cpu: number[], wall: number[]}}[]>} for each heat, the milliseconds
 *   of each of its rounds
 */
export async function compete(module, heats) {
  const { contestants } = await import(module);
  const names = Object.keys(contestants);
  const workers = await Promise.all(names.map((name) => start(module, name)));
  try {
    const results = [];
    for (const { argument, warmUp, rounds } of heats) {
      const times = Object.fromEntries(names.map((name) => [name, { cpu: [], wall: [] }]));
      for (let round = 0; round < warmUp + rounds; round++) {
        for (let turn = 0; turn < names.length; turn++) {
          const index = (turn + round) % names.length;
          const { cpu, wall } = await ask(workers[index], argument);
          if (round < warmUp) continue;
          times[names[index]].cpu.push(cpu);
          times[names[index]].wall.push(wall);
        }
      }
      results.push(times);
    }
    return results;
  } finally {
    for (const worker of workers) worker.disconnect();
  }
}

/** The median over rounds of one contestant's processor time divided by another's in the same round. */
export function ratio(times, others) {
  return median(times.cpu.map((time, round) => time / others.cpu[round]));
}

async function start(module, name) {
  const program = fileURLToPath(new URL('worker.mjs', import.meta.url));
  const worker = fork(program, [module, name], { execArgv: ['--expose-gc'] });
  await answer(worker);
  return worker;
}

function ask(worker, argument) {
  worker.send(argument);
  return answer(worker);
}

function answer(worker) {
  return new Promise((resolve, reject) => {
    const ended = (code) => reject(new Error(`a measured process ended with code ${code}`));
    worker.once('exit', ended);
    worker.once('message', (message) => {
      worker.off('exit', ended);
      resolve(message);
    });
  });
}
