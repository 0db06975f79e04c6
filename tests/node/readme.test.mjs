// The README keeps its word: its examples print what it says, its links lead somewhere, and the tests that it
// names for a guarantee are there.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const readme = await readFile(join(repository, 'README.md'), 'utf8');
const npmPage = await readFile(join(repository, 'pkg-template/README.md'), 'utf8');

const blocks = (text, language) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, 'gm'))].map((m) => m[1]);

for (const [name, text] of Object.entries({ 'README.md': readme, 'pkg-template/README.md': npmPage })) {
  test(`A109 A110 the examples of ${name} run and print what is written beneath them`, async (t) => {
    const folder = await mkdtemp(join(repository, 'tests/node_modules/.readme-'));
    t.after(() => rm(folder, { recursive: true }));
    const examples = [...text.matchAll(/^```js\n([\s\S]*?)^```\n+```text\n([\s\S]*?)^```$/gm)];
    assert.equal(examples.length, blocks(text, 'js').length, 'each example has its output beneath it');
    for (const [index, [, example, output]] of examples.entries()) {
      const file = join(folder, `example-${index}.mjs`);
      await writeFile(file, example);
      // The options of this process: a suite that goes through `require` has its examples do so too.
      const { stdout } = await promisify(execFile)(process.execPath, [...loaders(), file]);
      assert.equal(stdout, output);
    }
  });
}

for (const name of ['team', 'approval'])
  test(`make ${name} runs an example of the README`, async () => {
    const demo = await readFile(join(repository, `demo/${name}.mjs`), 'utf8');
    assert.ok(blocks(readme, 'js').includes(demo));
  });

function loaders() {
  const at = process.execArgv.indexOf('--import');
  return at < 0 ? [] : ['--import', new URL(process.execArgv[at + 1], `file://${repository}`).href];
}

test('both pages show the same example', () => {
  assert.deepEqual(blocks(npmPage, 'js'), blocks(readme, 'js'));
});

test('the npm page lists every entry of the package', async () => {
  const manifest = JSON.parse(await readFile(join(repository, 'pkg-template/package.json'), 'utf8'));
  const entries = Object.keys(manifest.exports).filter((entry) => entry !== './package.json');
  for (const entry of entries) assert.match(npmPage, new RegExp(`^\\| \`agent-roundtable${entry.slice(1)}\` \\|`, 'm'));
});

test('every link of README.md leads to a file', () => {
  const links = [...readme.matchAll(/\]\((?!https?:|#)([^)]+)\)/g)].map((m) => m[1]);
  assert.ok(links.length > 20);
  for (const link of links) assert.ok(existsSync(join(repository, link)), link);
});

test('each guarantee names tests that exist', async () => {
  const [, table] = readme.split(/^## What it guarantees$/m);
  const rows = table
    .split(/^## /m)[0]
    .split('\n')
    .filter((line) => /^\| (?!guarantee)/.test(line));
  assert.ok(rows.length >= 10);
  for (const row of rows) {
    const links = [...row.matchAll(/\[([^\]]+)\]\(([^)]+)\)/g)];
    assert.ok(links.length > 0, row);
    for (const [, rules, path] of links) {
      const source = await readFile(join(repository, path), 'utf8');
      for (const rule of rules.split(', ')) assert.ok(hasTest(source, rule), `${path} has no test of ${rule}`);
    }
  }
});

/** `C16` as `fn c16_...` in Rust or at the front of a title in JavaScript; any other word somewhere in a title. */
function hasTest(source, rule) {
  const [, letters, digits] = /^([A-Z])(\d+)$/.exec(rule) ?? [];
  if (!letters) return new RegExp(`^\\s*test\\(.*\\b${rule}`, 'm').test(source);
  const rust = new RegExp(`fn (?:[a-z]\\d+_)*${letters.toLowerCase()}0*${digits}_`);
  return rust.test(source) || new RegExp(`^\\s*test\\(.(?:[A-Z]\\d+[ ,:]+)*${letters}${digits}\\b`, 'm').test(source);
}
