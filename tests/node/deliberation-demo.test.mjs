// The example of a deliberation over HTTP prints what README.md says.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const repository = fileURLToPath(new URL('../..', import.meta.url));

test('D7 the example resolves a deliberation over HTTP', async (t) => {
  // Beneath tests/node_modules, where the packed package is found.
  const folder = await mkdtemp(join(repository, 'tests/node_modules/.deliberation-'));
  t.after(() => rm(folder, { recursive: true }));
  const program = join(folder, 'deliberation.mjs');
  await copyFile(join(repository, 'demo/deliberation.mjs'), program);
  const { stdout } = await promisify(execFile)(process.execPath, [program]);
  const [, section] = (await readFile(join(repository, 'README.md'), 'utf8')).split('## Deliberations');
  assert.equal(stdout, section.split('```console\n')[1].split('```')[0]);
});
