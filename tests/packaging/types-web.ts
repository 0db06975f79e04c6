// Compiled, never run: the streaming entry takes what a page has at hand.
import { init, version } from 'agent-roundtable/web';

export async function start(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  await init();
  await init(fetch('/engine.wasm'));
  await init(new URL('https://example.com/engine.wasm'));
  await init(bytes);
  await init({ module: await WebAssembly.compile(bytes) });
  // @ts-expect-error: a number is no source
  await init(7);
  return version();
}
