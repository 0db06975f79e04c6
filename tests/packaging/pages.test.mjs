// Pages without a bundler: the main entry, the streaming entry, and a strict content security policy.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launchChromium, resultOf, serve } from '../support/chromium.mjs';
import { consumer } from './support/consumer.mjs';

const PACKAGE = '/node_modules/agent-roundtable/dist';
const program = (entry) => `import * as roundtable from '${PACKAGE}/${entry}.js';
  import { smoke } from './smoke.mjs';
  smoke(roundtable).then((result) => { globalThis.result = result; }, (error) => { globalThis.result = String(error); });`;
const page = (script) => `<!doctype html><title>consumer</title><script type="module" src="${script}"></script>`;

let project;
let browser;
before(async () => {
  const entries = ['index', 'web'];
  const files = entries.flatMap((e) => [
    [`${e}.html`, page(`${e}-main.js`)],
    [`${e}-main.js`, program(e)],
  ]);
  project = await consumer(Object.fromEntries(files));
  browser = await launchChromium();
});
after(async () => {
  await browser.close();
  await project.remove();
});

async function open(path, headers) {
  const server = await serve(project.folder, headers);
  try {
    return { result: await resultOf(browser, server.origin + path), requests: server.requests };
  } finally {
    await server.close();
  }
}

test('the main entry asks for no wasm file', async () => {
  const { result, requests } = await open('/index.html');
  assert.match(result, /^ok /);
  assert.ok(!requests.some((path) => path.endsWith('.wasm')));
});

test('the streaming entry asks for the wasm file and not for its inlined form', async () => {
  const { result, requests } = await open('/web.html');
  assert.match(result, /^ok /);
  assert.ok(requests.includes(`${PACKAGE}/engine.wasm`));
  assert.ok(!requests.some((path) => path.includes('base64')));
});

const policy = (script) => ({
  'content-security-policy': `default-src 'none'; connect-src 'self'; script-src ${script}`,
});

for (const entry of ['index', 'web']) {
  test(`a content security policy with 'wasm-unsafe-eval' is enough for ${entry}`, async () => {
    assert.match((await open(`/${entry}.html`, policy("'self' 'wasm-unsafe-eval'"))).result, /^ok /);
    assert.match((await open(`/${entry}.html`, policy("'self'"))).result, /Content Security Policy/);
  });
}
