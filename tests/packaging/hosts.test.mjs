// Hosts that are neither Node nor a browser.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import * as esbuild from 'esbuild';
import { consumer, run, tools, write } from './support/consumer.mjs';

let project;
before(async () => {
  project = await consumer({
    'main.mjs': `import * as roundtable from 'agent-roundtable';
      import { smoke } from './smoke.mjs';
      console.log(await smoke(roundtable));`,
    'worker.mjs': `import * as roundtable from 'agent-roundtable';
      import { createTeam } from 'agent-roundtable/team';
      import { smoke } from './smoke.mjs';
      if (createTeam !== roundtable.createTeam) throw new Error('/team is another copy');
      export default { async fetch() { return new Response(await smoke(roundtable)); } };`,
  });
});
after(() => project.remove());

test('Deno', async () => {
  const args = ['run', '--quiet', '--node-modules-dir=manual', '--no-config', '--no-prompt', 'main.mjs'];
  const env = { DENO_NO_UPDATE_CHECK: '1', DENO_DIR: join(project.folder, 'deno') };
  assert.match(await run(join(tools, '.bin/deno'), args, project.folder, env), /^ok /);
});

test('Bun', async () => {
  assert.match(await run(join(tools, '.bin/bun'), ['main.mjs'], project.folder), /^ok /);
});

test('Bun, built', async () => {
  await run(join(tools, '.bin/bun'), ['build', 'main.mjs', '--target=node', '--outfile=built.mjs'], project.folder);
  assert.match(await run(process.execPath, ['built.mjs'], project.folder), /^ok /);
});

// As deployment tools do it: the script is bundled under the `workerd` condition, the wasm stays a module.
test('workerd, whose entry imports the wasm as a module', async () => {
  await esbuild.build({
    absWorkingDir: project.folder,
    entryPoints: ['worker.mjs'],
    bundle: true,
    format: 'esm',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['*.wasm'],
    outfile: join(project.folder, 'worker.js'),
    logLevel: 'error',
  });
  const wasm = join(project.folder, 'node_modules/agent-roundtable/dist/engine.wasm');
  await copyFile(wasm, join(project.folder, 'engine.wasm'));
  await write(project.folder, { 'config.capnp': WORKERD });
  assert.match(await askWorkerd(), /^ok /);
});

const WORKERD = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .worker)],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [
    (name = "worker.js", esModule = embed "worker.js"),
    (name = "engine.wasm", wasm = embed "engine.wasm"),
  ],
  compatibilityDate = "2024-09-01",
);`;

/** Starts workerd on a free port, asks once, ends it. */
async function askWorkerd() {
  const args = ['serve', 'config.capnp', '--control-fd=3'];
  const child = spawn(join(tools, '.bin/workerd'), args, {
    cwd: project.folder,
    stdio: ['ignore', 'inherit', 'inherit', 'pipe'],
  });
  try {
    const port = await new Promise((resolve, reject) => {
      let text = '';
      child.on('error', reject);
      child.on('exit', (code) => reject(new Error(`workerd ended with ${code}`)));
      child.stdio[3].on('data', (data) => {
        text += data;
        const listening = /"event":"listen".*?"port":(\d+)/.exec(text);
        if (listening) resolve(listening[1]);
      });
    });
    return await (await fetch(`http://127.0.0.1:${port}/`)).text();
  } finally {
    child.removeAllListeners('exit');
    child.kill('SIGKILL');
  }
}
