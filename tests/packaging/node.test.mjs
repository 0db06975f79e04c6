// Node versions, through import and through require.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { consumer, run, tools } from './support/consumer.mjs';

const { version } = createRequire(import.meta.url)('../node_modules/agent-roundtable/package.json');
const programs = { system: process.execPath };
for (const major of [22, 24, 26]) programs[major] = join(tools, `node${major}/bin/node`);

let project;
before(async () => {
  project = await consumer({
    'main.mjs': `import * as roundtable from 'agent-roundtable';
      import { smoke } from './smoke.mjs';
      console.log(await smoke(roundtable));`,
    'main.cjs': `const roundtable = require('agent-roundtable');
      import('./smoke.mjs').then(({ smoke }) => smoke(roundtable)).then(console.log);`,
    'same.cjs': `const required = require('agent-roundtable');
      import('agent-roundtable').then((imported) => {
        const names = Object.keys(imported).filter((name) => imported[name] !== required[name]);
        console.log(names.length === 0 ? 'same' : names.join());
      });`,
    'team.cjs': `const { createTeam } = require('agent-roundtable');
      import('agent-roundtable/team').then((team) => {
        const root = require('agent-roundtable');
        const names = Object.keys(team).filter((name) => team[name] !== root[name]);
        console.log(typeof createTeam, Object.keys(team).length, names.length === 0 ? 'same' : names.join());
      });`,
  });
});
after(() => project.remove());

for (const [label, program] of Object.entries(programs)) {
  test(`Node ${label} through import`, async () => {
    assert.equal(await run(program, ['main.mjs'], project.folder), `ok ${version}`);
  });
  test(`Node ${label} through require`, async () => {
    assert.equal(await run(program, ['--no-warnings', 'main.cjs'], project.folder), `ok ${version}`);
  });
  test(`Node ${label}: import and require give the same objects`, async () => {
    assert.equal(await run(program, ['--no-warnings', 'same.cjs'], project.folder), 'same');
  });
  test(`Node ${label}: /team gives the objects of the root`, async () => {
    assert.equal(await run(program, ['--no-warnings', 'team.cjs'], project.folder), 'function 5 same');
  });
}
