// Who may name whom, read from the sources.
import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const repository = fileURLToPath(new URL('../..', import.meta.url));

/** The modules of the crate from the innermost outwards; those of one line do not know of each other. */
const LAYERS = [
  ['value'],
  ['record'],
  ['conversation', 'policy', 'team', 'deliberation', 'replay'],
  ['runtime'],
  ['driver'],
  ['bindings'],
];
/** What is allowed beside that. */
const ALLOWED = [/^team -> (conversation|policy)$/, /^conversation -> policy$/];

async function sources(folder, ending) {
  const entries = await readdir(join(repository, folder), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith(ending));
  return Promise.all(
    files.map(async (entry) => {
      const path = join(entry.parentPath ?? entry.path, entry.name);
      return { path: relative(repository, path), text: await readFile(path, 'utf8') };
    }),
  );
}

const withoutComments = (text) => text.replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');

/** The modules of the crate that Rust code names by a path, in a `use` group or in an expression. */
function namedModules(text) {
  const code = withoutComments(text);
  const direct = [...code.matchAll(/\bcrate::(\w+)/g)].map((match) => match[1]);
  const grouped = [...code.matchAll(/\bcrate::\{([^;]*)\};/g)].flatMap((match) => match[1].match(/\b\w+\b/g) ?? []);
  // Relative paths are few, so each module on one counts.
  const relative = [...code.matchAll(/\bsuper::super::((?:super::)*)(\w+)/g)].map((match) => match[2]);
  const ofTests = [...code.matchAll(/\bagent_roundtable::(\w+)/g)].map((match) => match[1]);
  return new Set([...direct, ...grouped, ...relative, ...ofTests]);
}

/** What a TypeScript module imports from elsewhere, types left out. */
function imports(text) {
  const statements = withoutComments(text).matchAll(/\b(?:import|export)\s+(type\s+)?([^;]*?)\sfrom\s+'([^']+)'/g);
  return [...statements].filter(([, type]) => type === undefined).map(([, , , from]) => from);
}

test('A107 the ways in which one module names another are recognised', () => {
  for (const code of [
    'use crate::runtime::agent::X;',
    'crate::runtime::render::f()',
    'use crate::{record, runtime};',
    'super::super::runtime::f()',
  ])
    assert.ok(namedModules(code).has('runtime'), code);
  assert.equal(namedModules('// crate::runtime\nlet runtime = stored.runtime;').has('runtime'), false);
  assert.deepEqual(imports("import { a } from '../runtime/x.js';\nimport type { B } from '../runtime/y.js';"), [
    '../runtime/x.js',
  ]);
});

test('A107 conversation, policy, team, deliberation, record and replay never name the runtime; no inner module names an outer one', async () => {
  const depth = new Map(LAYERS.flatMap((names, level) => names.map((name) => [name, level])));
  const files = await sources('src', '.rs');
  const seen = new Set();
  for (const { path, text } of files) {
    const own = path.split('/')[1].replace(/\.rs$/, '');
    if (own === 'lib') continue;
    assert.ok(depth.has(own), `${path}: where does the module ${own} belong?`);
    seen.add(own);
    for (const other of namedModules(text)) {
      if (other === own || !depth.has(other)) continue;
      const isOuter = depth.get(other) >= depth.get(own) && !ALLOWED.some((rule) => rule.test(`${own} -> ${other}`));
      assert.ok(!isOuter, `${path} names ${other}`);
    }
  }
  for (const name of ['conversation', 'record', 'team', 'deliberation', 'replay', 'runtime'])
    assert.ok(seen.has(name), name);
});

test('A107 in the package conversations and replay take nothing but types from the runtime', async () => {
  const files = [
    ...(await sources('pkg-template/src/conversation', '.ts')),
    ...(await sources('pkg-template/src/replay', '.ts')),
  ];
  assert.ok(files.length > 20);
  for (const { path, text } of files)
    for (const from of imports(text)) assert.ok(!from.includes('/runtime/'), `${path} imports ${from}`);
});
