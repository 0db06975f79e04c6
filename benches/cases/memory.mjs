// Whether conversations that were disposed of leave anything behind.

const CYCLES = 10_000;
/** Until then, pools and caches may fill. */
const SETTLED = 2_000;

/** @returns rows of results, and what was in use after every 1,000 cycles */
export default async function memory() {
  const memories = watchMemories();
  const { agent, hold } = await import('../lib/conversation.mjs');
  const participants = ['ada', 'ben', 'cy'].map((id) => agent(id));
  const samples = [];
  for (let cycle = 1; cycle <= CYCLES; cycle++) {
    await hold(participants, 3);
    if (cycle % 1_000 === 0) samples.push({ cycle, ...(await inUse(memories)) });
  }
  const [settled, last] = [samples.find(({ cycle }) => cycle === SETTLED), samples.at(-1)];
  const grown = (part) => (last[part] - settled[part]) / (CYCLES - SETTLED);
  return {
    rows: [
      { what: 'JavaScript heap kept per create/dispose', value: grown('heap'), unit: 'B', most: 16 },
      { what: 'engine memory grown per create/dispose', value: grown('wasm'), unit: 'B', most: 0 },
      { what: 'engine memory after 10,000 of them', value: last.wasm / 1e6, unit: 'MB' },
    ],
    samples,
  };
}

/** The memories of all modules instantiated from now on. */
function watchMemories() {
  const memories = [];
  const { Instance } = WebAssembly;
  WebAssembly.Instance = new Proxy(Instance, {
    construct(target, args) {
      const instance = new target(...args);
      memories.push(...Object.values(instance.exports).filter((it) => it instanceof WebAssembly.Memory));
      return instance;
    },
  });
  return memories;
}

async function inUse(memories) {
  // Finalisers run between tasks.
  for (let pass = 0; pass < 3; pass++) {
    globalThis.gc();
    await new Promise((resolve) => setImmediate(resolve));
  }
  const wasm = memories.reduce((sum, { buffer }) => sum + buffer.byteLength, 0);
  return { heap: process.memoryUsage().heapUsed, wasm };
}
