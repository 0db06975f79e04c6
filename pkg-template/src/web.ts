/** The package with its wasm in a file of its own, compiled while it streams in: await `init()` first. */

import { hasModule, provideModule } from './engine.js';

export * from './api.js';

/**
 * Where the wasm comes from: an address, a response, its bytes, or a compiled `WebAssembly.Module`. (The module is
 * in an object because it has no members, so that every value would fit; TypeScript declares it for pages only.)
 */
export type EngineSource =
  | string
  | URL
  | Request
  | Response
  | ArrayBuffer
  | ArrayBufferView
  | { readonly module: object };

let pending: Promise<void> | undefined;

/**
 * Fetches and compiles the engine; by default the `engine.wasm` beside this file. Idempotent: later
 * calls wait for the first, and one that failed can be repeated.
 * @throws TypeError where the file cannot be fetched, WebAssembly.CompileError where it is not wasm
 */
export async function init(source?: EngineSource | Promise<EngineSource>): Promise<void> {
  if (hasModule()) return;
  pending ??= load(source).finally(() => {
    pending = undefined;
  });
  await pending;
}

async function load(given: EngineSource | Promise<EngineSource> | undefined): Promise<void> {
  const source = (await given) ?? new URL('./engine.wasm', import.meta.url);
  const module = await compile(source);
  provideModule(() => module);
}

async function compile(source: EngineSource): Promise<object> {
  if (typeof source === 'object' && 'module' in source) return source.module;
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return WebAssembly.compile(source as BufferSource);
  const response = source instanceof Response ? source : await fetch(source);
  if (!response.ok) throw new TypeError(`${response.url} answered ${response.status}`);
  const typed = response.headers.get('content-type')?.startsWith('application/wasm') ?? false;
  return typed ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}
