// The examples of deliberations print what README.md says.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const repository = fileURLToPath(new URL('../..', import.meta.url));

for (const [title, name, heading] of [
  ['D7 the example resolves a deliberation over HTTP', 'deliberation', '## Deliberations'],
  ['the example of driven agents prints what the page says', 'discussion', '### Agents in a deliberation'],
]) {
  test(title, async (t) => {
    // Beneath tests/node_modules, where the packed package is found.
    const folder = await mkdtemp(join(repository, 'tests/node_modules/.deliberation-'));
    t.after(() => rm(folder, { recursive: true }));
    const program = join(folder, `${name}.mjs`);
    await copyFile(join(repository, `demo/${name}.mjs`), program);
    const { stdout } = await promisify(execFile)(process.execPath, [program]);
    const [, section] = (await readFile(join(repository, 'README.md'), 'utf8')).split(`${heading}\n`);
    assert.equal(stdout, section.split('```console\n')[1].split('```')[0]);
  });
}
