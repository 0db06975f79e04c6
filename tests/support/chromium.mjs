// Chromium and a local server, for every test that needs a page.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { chromium } from 'playwright-core';

const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.css': 'text/css',
  '.json': 'application/json',
  '.wasm': 'application/wasm',
};

/** The installed Chromium, quiet and without a network of its own. */
export const CHROMIUM = {
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  headless: true,
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
};

export function launchChromium() {
  return chromium.launch(CHROMIUM);
}

/**
 * Serves a folder on a free port of this machine.
 * @returns {Promise<{origin: string, requests: string[], close(): Promise<void>}>} requests: the paths asked for
 */
export async function serve(folder, headers = {}) {
  const requests = [];
  const server = createServer(async (request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://localhost').pathname));
    requests.push(path);
    try {
      const body = await readFile(join(folder, path === '/' ? 'index.html' : path));
      const type = TYPES[extname(path === '/' ? 'index.html' : path)] ?? 'application/octet-stream';
      response.writeHead(200, { 'content-type': type, ...headers }).end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => new Promise((resolve) => server.close(resolve).closeAllConnections());
  return { origin: `http://127.0.0.1:${server.address().port}`, requests, close };
}

/** Opens a page and waits until its script has set `globalThis.result`; errors of the page become the result. */
export async function resultOf(browser, url) {
  const page = await browser.newPage();
  try {
    const failed = new Promise((resolve) => {
      page.on('pageerror', (error) => resolve(`error: ${error.message}`));
    });
    await page.goto(url);
    const finished = page.waitForFunction(() => globalThis.result, undefined, { timeout: 20_000 });
    return await Promise.race([finished.then((handle) => handle.jsonValue()), failed]);
  } finally {
    await page.close();
  }
}
