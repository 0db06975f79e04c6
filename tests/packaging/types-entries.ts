// Compiled, never run: every entry without an optional peer, where the compiler has no declarations of pages.
import * as root from 'agent-roundtable';
import * as http from 'agent-roundtable/http';
import * as mcp from 'agent-roundtable/mcp';
import * as node from 'agent-roundtable/node';
import * as runtime from 'agent-roundtable/runtime';
import * as team from 'agent-roundtable/team';
import * as testing from 'agent-roundtable/testing';
import { type EngineSource, init } from 'agent-roundtable/web';

export const entries = { root, http, mcp, node, runtime, team, testing };

export async function start(bytes: Uint8Array, module: object): Promise<void> {
  const sources: EngineSource[] = ['/engine.wasm', new URL('https://example.com/engine.wasm'), bytes, { module }];
  for (const source of sources) await init(source);
  await init(fetch('/engine.wasm'));
  // @ts-expect-error: a number is no source
  await init(7);
}
