// The engine behind the package: ready on import, one instance for all entries, and replaced after a trap.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { instanceCount, trapNextCall } from './support/traps.mjs';
import { init, version } from 'agent-roundtable';
import * as web from 'agent-roundtable/web';

const manifest = createRequire(import.meta.url)('agent-roundtable/package.json');

test('importing the package makes it ready', async () => {
  assert.equal(version(), manifest.version);
  await init();
  await init();
});

test('the web entry shares the instance of the main entry', async () => {
  await web.init();
  assert.equal(web.version(), manifest.version);
});

test('the wasm file is exported', async () => {
  const path = createRequire(import.meta.url).resolve('agent-roundtable/engine.wasm');
  assert.ok(WebAssembly.validate(await readFile(path)));
});

test('a trap costs that instance and nothing else: the next call gets a new one', () => {
  assert.equal(version(), manifest.version);
  const before = instanceCount();
  trapNextCall('version');
  assert.throws(version, { name: 'EngineLostError', message: /unreachable/ });
  assert.equal(version(), manifest.version);
  assert.equal(instanceCount(), before + 1);
});
