// The declarations, as other projects' compilers see them, and publint on the tarball.
import assert from 'node:assert/strict';
import { readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { consumer, rootTools, run, tarball, tools, write } from './support/consumer.mjs';

const compilers = {
  'TypeScript 7': join(rootTools, 'typescript/bin/tsc'),
  'TypeScript 5': join(tools, 'typescript5/bin/tsc'),
};
const modes = {
  nodenext: { module: 'nodenext', lib: ['es2022'], types: ['node'] },
  bundler: { module: 'esnext', moduleResolution: 'bundler', lib: ['es2022', 'dom'], types: [] },
};

let project;
before(async () => {
  const types = await readFile(new URL('./types.ts', import.meta.url), 'utf8');
  const web = await readFile(new URL('./types-web.ts', import.meta.url), 'utf8');
  const entries = await readFile(new URL('./types-entries.ts', import.meta.url), 'utf8');
  const conversation = await readFile(new URL('./types-conversation.ts', import.meta.url), 'utf8');
  const session = await readFile(new URL('./types-session.ts', import.meta.url), 'utf8');
  const runtime = await readFile(new URL('./types-runtime.ts', import.meta.url), 'utf8');
  const deliberation = await readFile(new URL('./types-deliberation.ts', import.meta.url), 'utf8');
  const team = await readFile(new URL('./types-team.ts', import.meta.url), 'utf8');
  project = await consumer({
    'main.ts': types,
    'conversation.ts': conversation,
    'session.ts': session,
    'runtime.ts': runtime,
    'deliberation.ts': deliberation,
    'team.ts': team,
    'web.ts': web,
    'entries.ts': entries,
  });
  await symlink(join(rootTools, '@types'), join(project.folder, 'node_modules/@types'));
  await symlink(join(rootTools, 'undici-types'), join(project.folder, 'node_modules/undici-types'));
  for (const [mode, options] of Object.entries(modes)) {
    const compilerOptions = {
      ...options,
      target: 'es2022',
      strict: true,
      exactOptionalPropertyTypes: true,
      noEmit: true,
    };
    const everywhere = ['main.ts', 'conversation.ts', 'session.ts', 'runtime.ts', 'deliberation.ts', 'team.ts'];
    // `entries.ts` is for hosts whose compiler knows no page.
    const files = [...everywhere, mode === 'bundler' ? 'web.ts' : 'entries.ts'];
    await write(project.folder, { [`tsconfig.${mode}.json`]: JSON.stringify({ compilerOptions, files }) });
  }
});
after(() => project.remove());

for (const [label, compiler] of Object.entries(compilers)) {
  for (const mode of Object.keys(modes)) {
    test(`${label}, ${mode}`, async () => {
      await run(process.execPath, [compiler, '--project', `tsconfig.${mode}.json`], project.folder);
    });
  }
}

test('publint finds nothing', async () => {
  const { publint } = await import(pathToFileURL(join(tools, 'publint/src/index-node.js')));
  const bytes = await readFile(tarball);
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  const { messages } = await publint({ pack: { tarball: buffer }, level: 'warning', strict: true });
  assert.deepEqual(messages, []);
});
