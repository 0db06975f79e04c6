// Sizes of what was built, as a table. The shell is what a bundler keeps of the main entry, minified,
// without the inlined module and without what the entry loads by need.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const dist = fileURLToPath(new URL('../pkg/dist/', import.meta.url));

/** @returns {Promise<{name: string, raw: number, gzip: number, brotli: number}[]>} sizes in bytes */
export async function measure() {
  return [
    sizes('engine.wasm', readFileSync(`${dist}engine.wasm`)),
    sizes('shell', await bundled('index.js', ['./generated/module-base64.js'])),
    sizes('bundle with inlined wasm', await bundled('index.js', [])),
  ];
}

async function bundled(entry, external) {
  const options = { bundle: true, minify: true, format: 'esm', write: false, external, logLevel: 'error' };
  const split = { splitting: true, metafile: true, outdir: 'out', absWorkingDir: dist };
  const result = await build({ ...options, ...split, entryPoints: [dist + entry], plugins: [keepOut(external)] });
  const { outputs } = result.metafile;
  const first = Object.keys(outputs).find((name) => outputs[name].entryPoint === entry);
  const wanted = new Set([first]);
  // A set that grows while it is walked: what was added is walked too.
  for (const name of wanted) {
    for (const { path, kind } of outputs[name].imports)
      if (kind === 'import-statement' && outputs[path]) wanted.add(path);
  }
  return Buffer.concat(
    [...wanted].map((name) => result.outputFiles.find((file) => file.path === dist + name).contents),
  );
}

function keepOut(paths) {
  const setup = (b) =>
    b.onResolve({ filter: /module-base64/ }, (a) =>
      paths.includes(a.path) ? { path: a.path, external: true } : undefined,
    );
  return { name: 'keep-out', setup };
}

function sizes(name, bytes) {
  return {
    name,
    raw: bytes.length,
    gzip: gzipSync(bytes, { level: 9 }).length,
    brotli: brotliCompressSync(bytes).length,
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const kb = (n) => (n / 1000).toFixed(1).padStart(9);
  console.log(`${'kB'.padEnd(26)}      raw     gzip   brotli`);
  for (const s of await measure()) console.log(`${s.name.padEnd(24)}${kb(s.raw)}${kb(s.gzip)}${kb(s.brotli)}`);
}
