// C51: recorded traces give the same effects in Chromium as they gave natively.
import assert from 'node:assert/strict';
import { symlink } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { consumer } from '../packaging/support/consumer.mjs';
import { launchChromium, resultOf, serve } from '../support/chromium.mjs';
import { folder, overAll, recorded } from './support/traces.mjs';

const PACKAGE = '/node_modules/agent-roundtable/dist';
const program = `import '${PACKAGE}/index.js';
  import { replayTrace } from '${PACKAGE}/testing/index.js';
  const read = async (file) => (await fetch('/traces/' + file)).text();
  const hashes = {};
  for (const file of Object.keys(JSON.parse(await read('hashes.json')).traces)) hashes[file] = replayTrace(await read(file));
  globalThis.result = JSON.stringify(hashes);`;

let project;
let browser;
before(async () => {
  const page = '<!doctype html><title>traces</title><script type="module" src="main.js"></script>';
  project = await consumer({ 'index.html': page, 'main.js': program });
  await symlink(folder, `${project.folder}/traces`);
  browser = await launchChromium();
});
after(async () => {
  await browser.close();
  await project.remove();
});

test('C51 at least 100 recorded traces give one hash over all effects, native and in Chromium', async () => {
  const { all, traces } = recorded();
  const server = await serve(project.folder);
  try {
    const hashes = JSON.parse(await resultOf(browser, `${server.origin}/`));
    assert.deepEqual(hashes, traces);
    assert.equal(overAll(hashes, Object.keys(traces)), all);
  } finally {
    await server.close();
  }
});
