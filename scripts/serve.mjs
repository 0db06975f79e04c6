// Serves the browser demo: `make www`, or `node scripts/serve.mjs [port]`. Only what the page needs is served.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = new URL('..', import.meta.url);
const FOLDERS = ['www', 'demo', 'pkg'];
const TYPES = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.md': 'text/markdown; charset=utf-8',
  '.jsonl': 'application/x-ndjson',
  '.wasm': 'application/wasm',
};

/**
 * @param {number} port 0 for a free one
 * @returns {Promise<import('node:http').Server>} listening on this machine's loopback address
 */
export async function serveDemo(port) {
  const server = createServer(respond);
  await new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', resolve));
  return server;
}

async function respond(request, response) {
  // A URL's path has no `..` left.
  const { pathname, search } = new URL(request.url, 'http://localhost');
  if (pathname === '/') return response.writeHead(302, { location: `/www/${search}` }).end();
  const path = pathname.endsWith('/') ? `${pathname}index.html` : pathname;
  const type = TYPES[extname(path)];
  const served = FOLDERS.some((folder) => path.startsWith(`/${folder}/`)) && !/%2f|%5c|node_modules/i.test(path);
  try {
    if (!served || type === undefined) throw new Error('not served');
    const body = await readFile(new URL(`.${path}`, ROOT));
    response.writeHead(200, { 'content-type': type, 'cache-control': 'no-cache' }).end(body);
  } catch {
    response.writeHead(404, { 'content-type': 'text/plain' }).end('not found');
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const server = await serveDemo(Number(process.argv[2] ?? 8080));
  console.log(`The demo: http://127.0.0.1:${server.address().port}/   (Ctrl-C ends it)`);
}
