// How much a user downloads.
import { measure } from '../../scripts/size.mjs';

/** @returns rows of results */
export default async function size() {
  const sizes = Object.fromEntries((await measure()).map((part) => [part.name, part]));
  const kB = (what, bytes, most) => ({
    what,
    value: bytes / 1000,
    unit: 'kB',
    ...(most === undefined ? {} : { most }),
  });
  const { 'engine.wasm': wasm, shell, 'bundle with inlined wasm': bundle } = sizes;
  return {
    rows: [
      kB('engine.wasm, raw', wasm.raw),
      kB('engine.wasm, gzip', wasm.gzip),
      kB('engine.wasm, brotli', wasm.brotli, 150),
      kB('TypeScript shell, minified, gzip', shell.gzip, 30),
      kB('all in one file, minified, brotli', bundle.brotli),
    ],
  };
}
