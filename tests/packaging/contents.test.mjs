// What is in the tarball, and how large it is.
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { measure } from '../../scripts/size.mjs';
import { consumer } from './support/consumer.mjs';

const list = new URL('./contents.txt', import.meta.url);
const repository = fileURLToPath(new URL('../..', import.meta.url));

let project;
let installed;
let files;
before(async () => {
  project = await consumer();
  installed = join(project.folder, 'node_modules/agent-roundtable');
  const entries = await readdir(installed, { recursive: true, withFileTypes: true });
  files = entries
    .filter((e) => e.isFile())
    .map((e) => relative(installed, join(e.parentPath ?? e.path, e.name)))
    .sort();
});
after(() => project.remove());

// UPDATE_CONTENTS=1 writes the list anew; the difference is then reviewed with the commit.
test('the tarball holds the listed files and no others', async () => {
  const text = `${files.join('\n')}\n`;
  if (process.env.UPDATE_CONTENTS) await writeFile(list, text);
  assert.equal(text, await readFile(list, 'utf8'));
});

test('there is one wasm file and one inlined form', () => {
  assert.equal(files.filter((name) => name.endsWith('.wasm')).length, 1);
  assert.equal(files.filter((name) => name.includes('base64') && name.endsWith('.js')).length, 1);
});

test('no file names the machine it was built on', async () => {
  const paths = [repository.replace(/\/$/, ''), process.env.HOME ?? '/root'];
  for (const name of files) {
    const text = await readFile(join(installed, name), 'latin1');
    for (const path of paths) assert.ok(path === '/' || !text.includes(`${path}/`), `${name} names ${path}`);
  }
});

test('no public declaration uses any', async () => {
  for (const name of files.filter((f) => f.endsWith('.d.ts') && !f.includes('generated/'))) {
    const code = (await readFile(join(installed, name), 'utf8')).replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');
    assert.doesNotMatch(code, /[:<,(|]\s*any\b/, name);
  }
});

// The design asks for 150 kB of wasm; ARCHITECTURE.md says what stands in the way. This keeps it from growing.
test('the sizes hold: wasm 280 kB brotli, shell 36.4 kB gzip', async () => {
  const sizes = Object.fromEntries((await measure()).map((s) => [s.name, s]));
  assert.ok(sizes['engine.wasm'].brotli <= 280_000, `engine.wasm: ${sizes['engine.wasm'].brotli} bytes brotli`);
  assert.ok(sizes.shell.gzip <= 36_400, `shell: ${sizes.shell.gzip} bytes gzip`);
});
