// Loaded with `node --import`: every `import` of the package then goes through `require()`, so that one
// suite proves both ways in.
import { register } from 'node:module';

register('./via-require-hooks.mjs', import.meta.url);
