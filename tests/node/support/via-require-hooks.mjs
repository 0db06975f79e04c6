// Module hooks for via-require.mjs: `agent-roundtable...` becomes a small module that requires it.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const SCHEME = 'via-require:';

export async function resolve(specifier, context, next) {
  const ours = /^agent-roundtable($|\/)/.test(specifier) && context.parentURL?.startsWith('file:');
  if (!ours) return next(specifier, context);
  const url = SCHEME + encodeURIComponent(JSON.stringify([specifier, context.parentURL]));
  return { url, format: 'module', shortCircuit: true };
}

export async function load(url, context, next) {
  if (!url.startsWith(SCHEME)) return next(url, context);
  const [specifier, parent] = JSON.parse(decodeURIComponent(url.slice(SCHEME.length)));
  const file = pathToFileURL(createRequire(parent).resolve(specifier));
  const names = Object.keys(await import(file.href)).filter((name) => name !== 'default');
  const source = `import { createRequire } from 'node:module';
    const loaded = createRequire(${JSON.stringify(parent)})(${JSON.stringify(specifier)});
    ${names.map((name) => `export const ${name} = loaded.${name};`).join('\n')}
    export default loaded.default;`;
  return { format: 'module', source, shortCircuit: true };
}
