// The example of two hosts on one PostgreSQL does what README.md says.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { skip, startPostgres, variablesOf } from '../../scripts/lib/postgres-server.mjs';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const demo = join(repository, 'demo/hosts.mjs');

let section;
before(async () => {
  const readme = await readFile(join(repository, 'README.md'), 'utf8');
  section = readme.split('## Where conversations live')[1].split('\n## ')[0];
});

test('C46 C47 C52 two hosts share a conversation: one is killed, the other goes on', { skip }, async (t) => {
  const server = await startPostgres();
  t.after(() => server.remove());
  // Beneath tests/node_modules, where the packed package is found.
  const folder = await mkdtemp(join(repository, 'tests/node_modules/.hosts-'));
  t.after(() => rm(folder, { recursive: true }));
  const program = join(folder, 'hosts.mjs');
  await copyFile(demo, program);
  const env = { ...process.env, ...variablesOf(server.config) };
  const { stdout } = await promisify(execFile)(process.execPath, [program], { env });

  const [, printed] = section.split('```console\n$ make hosts\n');
  const expected = printed.split('```')[0].trim().split('\n');
  const lines = stdout.trim().split('\n');
  // What two processes print at the same time has no order.
  for (const speaker of ['host one ', 'host two ']) {
    const of = (all) => all.filter((line) => line.startsWith(speaker));
    assert.deepEqual(of(lines), of(expected), stdout);
  }
  assert.equal(lines.length, expected.length, stdout);
  assert.equal(lines.at(-1), expected.at(-1));
});

test('what README.md shows of it is its code', async () => {
  const shown = [...section.matchAll(/^```javascript\n([\s\S]*?)^```$/gm)];
  const code = await readFile(demo, 'utf8');
  assert.equal(shown.length, 3);
  for (const [, excerpt] of shown) assert.ok(code.includes(excerpt), excerpt);
});
