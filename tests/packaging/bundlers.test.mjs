// Bundlers without any configuration, and what they made in Chromium.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import * as esbuild from 'esbuild';
import { launchChromium, resultOf, serve } from '../support/chromium.mjs';
import { consumer, run, tools, write } from './support/consumer.mjs';

const program = `import * as roundtable from 'agent-roundtable';
  import { smoke } from './smoke.mjs';
  smoke(roundtable).then((result) => { globalThis.result = result; }, (error) => { globalThis.result = String(error); });`;
const page = (script) => `<!doctype html><title>consumer</title><script type="module" src="${script}"></script>`;

let project;
let browser;
before(async () => {
  project = await consumer({ 'main.js': program });
  browser = await launchChromium();
});
after(async () => {
  await browser.close();
  await project.remove();
});

async function inChromium(folder) {
  const server = await serve(folder);
  try {
    assert.match(await resultOf(browser, server.origin), /^ok /);
  } finally {
    await server.close();
  }
}

test('esbuild', async () => {
  const out = join(project.folder, 'esbuild');
  const options = { absWorkingDir: project.folder, entryPoints: ['main.js'], bundle: true, logLevel: 'error' };
  await esbuild.build({ ...options, format: 'esm', outfile: join(out, 'main.js') });
  await write(out, { 'index.html': page('main.js') });
  await inChromium(out);
});

test('webpack', async () => {
  const { default: webpack } = await import(pathToFileURL(join(tools, 'webpack/lib/index.js')));
  const output = join(project.folder, 'webpack');
  const config = { mode: 'production', context: project.folder, entry: './main.js', output: { path: output } };
  await new Promise((resolve, reject) => {
    webpack(config, (error, stats) => {
      if (error ?? stats.hasErrors()) reject(error ?? new Error(stats.toString()));
      else resolve();
    });
  });
  await write(output, { 'index.html': page('main.js') });
  await inChromium(output);
});

test('Vite, built', async () => {
  await write(project.folder, { 'index.html': page('/main.js') });
  await run(process.execPath, [join(tools, 'vite/bin/vite.js'), 'build', '--outDir', 'vite'], project.folder);
  await inChromium(join(project.folder, 'vite'));
});

test('Vite, development server', async () => {
  await write(project.folder, { 'index.html': page('/main.js') });
  const { createServer } = await import(pathToFileURL(join(tools, 'vite/dist/node/index.js')));
  const server = await createServer({
    root: project.folder,
    logLevel: 'error',
    server: { host: '127.0.0.1', port: 0 },
  });
  try {
    await server.listen();
    assert.match(await resultOf(browser, `http://127.0.0.1:${server.httpServer.address().port}/`), /^ok /);
  } finally {
    await server.close();
  }
});
