// Runs one contestant, again and again, in a process of its own: see contest.mjs.
import { performance } from 'node:perf_hooks';

const [module, name] = process.argv.slice(2);
const { contestants } = await import(module);

process.on('message', async (argument) => {
  globalThis.gc?.();
  const [start, before] = [performance.now(), process.cpuUsage()];
  await contestants[name](argument);
  const [wall, used] = [performance.now() - start, process.cpuUsage(before)];
  process.send({ wall, cpu: (used.user + used.system) / 1000 });
});
process.send('ready');
