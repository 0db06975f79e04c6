// What a declaration file exports.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** `{ values, types }`, two sets of names, followed through re-exports. */
export async function declared(file) {
  const text = (await readFile(file, 'utf8')).replace(/\/\*[\s\S]*?\*\/|\/\/.*/g, '');
  const found = { values: new Set(), types: new Set() };
  for (const [, isType, names, from] of text.matchAll(/^export (type )?(\*|\{[^}]*\}) from '([^']+)';/gm)) {
    const inner = await declared(join(dirname(file), from.replace(/\.js$/, '.d.ts')));
    if (names === '*') {
      for (const name of inner.types) found.types.add(name);
      for (const name of inner.values) (isType ? found.types : found.values).add(name);
      continue;
    }
    for (const item of names.slice(1, -1).split(',')) {
      const [, inlineType, name] = /^\s*(type )?(\w+)\s*$/.exec(item) ?? [];
      if (name === undefined) continue;
      const isValue = isType === undefined && inlineType === undefined;
      assert.ok(inner.values.has(name) || inner.types.has(name), `${file}: ${from} declares no ${name}`);
      (isValue ? found.values : found.types).add(name);
    }
  }
  for (const [, name] of text.matchAll(/^export declare (?:const|function|(?:abstract )?class) (\w+)/gm))
    found.values.add(name);
  for (const [, name] of text.matchAll(/^export (?:declare )?(?:interface|type) (\w+)/gm)) found.types.add(name);
  return found;
}
