// `make test`: every check of the project, with times, counts and one last line that tells the result.
//
//   node scripts/test.mjs                 all parts
//   node scripts/test.mjs lint            the parts with that tag or name, and what they come after
//   node scripts/test.mjs --list          their names and tags
//
// Two lanes run side by side, one for each core: `rust` compiles most of the time, `package` waits for
// browsers and other hosts most of the time. A part starts when the parts named in `after` have passed.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { runParts } from './lib/run-parts.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const chromedriver = process.env.CHROMEDRIVER ?? '/usr/bin/chromedriver';
const wasmPack = `wasm-pack test --headless --chrome --chromedriver ${chromedriver} --mode no-install tests/wasm`;
// Named by its program, so that a Debian toolchain first on PATH is found; `cargo clippy` asks rustup's.
const clippyWasm = 'cargo-clippy clippy --target wasm32-unknown-unknown --target-dir target --locked';

// `setup` is the part of scripts/setup.sh that it needs beyond `build`; `env` names an environment below.
const parts = [
  { name: 'format', tags: ['lint'], lane: 'rust', command: 'cargo fmt --all --check' },
  {
    name: 'clippy',
    tags: ['lint'],
    lane: 'rust',
    command: 'cargo clippy --locked --workspace --all-targets -- -D warnings',
  },
  {
    name: 'clippy wasm32',
    tags: ['lint'],
    lane: 'rust',
    env: 'wasm',
    command: `${clippyWasm} --package agent-roundtable --package wasm-tests --lib -- -D warnings`,
  },
  { name: 'rust tests', tags: ['unit'], lane: 'rust', command: 'cargo test --locked --no-fail-fast' },
  { name: 'wasm-pack in Chromium', tags: ['wasm-test'], lane: 'rust', env: 'wasm', setup: 'test', command: wasmPack },
  { name: 'biome', tags: ['lint'], lane: 'package', command: 'node_modules/.bin/biome ci --error-on-warnings' },
  { name: 'build', tags: [], lane: 'package', env: 'xtask', command: 'cargo xtask build' },
  ...nodeSuites(),
  ...testFiles('tests/stores').map((file) => ({ ...onPackage('stores', file), setup: 'stores' })),
  ...[22, 26].map((version) => ownSqlite(version)),
  ...testFiles('tests/http').map((file) => onPackage('http', file)),
  ...testFiles('tests/packaging').map((file) => onPackage('consumers', file)),
  ...testFiles('tests/sdk').map((file) => onPackage('sdk', file)),
  {
    name: 'install the demo',
    tags: ['browser'],
    lane: 'package',
    after: ['build'],
    command: 'npm install --prefix demo --offline --no-package-lock --no-audit --no-fund',
  },
  // The simulator records the traces while `rust tests` runs.
  ...testFiles('tests/traces').map((file) => onPackage('traces', file, ['build', 'rust tests'])),
  ...testFiles('tests/browser').map((file) => onPackage('browser', file, ['install the demo'])),
];

function onPackage(tag, file, after = ['build']) {
  const name = `${tag}: ${file.replace(/^.*\/|\.test\.mjs$/g, '')}`;
  return { name, tags: [tag], lane: 'package', after, setup: 'test', command: nodeTest('node', file) };
}

/** The SQLite store on the SQLite of a Node that has one. */
function ownSqlite(version) {
  const file = 'tests/stores/sqlite.test.mjs';
  return {
    ...onPackage('stores', file),
    name: `stores: sqlite of node ${version}`,
    command: nodeTest(nodeOf(version), file),
  };
}

function nodeOf(version) {
  return version === 'system' ? 'node' : `tests/packaging/node_modules/node${version}/bin/node`;
}

/** The API suite on the packed package: each Node version, through import and through require. */
function nodeSuites() {
  const all = testFiles('tests/node').join(' ');
  const versions = ['system', 22, 24, 26];
  return versions.flatMap((version) =>
    ['import', 'require'].map((via) => {
      const system = version === 'system';
      const options = via === 'require' ? '--import ./tests/node/support/via-require.mjs' : '';
      const tags = system && via === 'import' ? ['node', 'node-matrix'] : ['node-matrix'];
      const setup = system ? 'build' : 'test';
      const command = nodeTest(`${nodeOf(version)} ${options}`, all);
      return { name: `node ${version}, ${via}`, tags, lane: 'package', after: ['build'], setup, command };
    }),
  );
}

function nodeTest(program, files) {
  return `${program} --test --test-reporter=tap ${files}`;
}

function testFiles(folder) {
  if (!existsSync(root + folder)) return [];
  const names = readdirSync(root + folder).filter((f) => f.endsWith('.test.mjs'));
  return names.sort().map((f) => `${folder}/${f}`);
}

const wanted = process.argv.slice(2);
if (wanted[0] === '--list') {
  for (const part of parts) console.log(part.name, part.tags.length > 0 ? `[${part.tags.join(', ')}]` : '');
  process.exit(0);
}
const chosen = choose(wanted);
const setup = ['test', 'stores'].find((name) => chosen.some((part) => part.setup === name)) ?? 'build';
const wasmEnvironment = setUp(setup);
const failed = await runParts(chosen, {
  root,
  environments: { wasm: wasmEnvironment, xtask: { CARGO_TARGET_DIR: cacheFolder('xtask') } },
});
process.exitCode = failed ? 1 : 0;

function choose(names) {
  if (names.length === 0) return parts;
  const picked = new Set(parts.filter((part) => names.some((n) => part.name === n || part.tags.includes(n))));
  if (picked.size === 0) throw new Error(`no part has the name or tag ${names.join(', ')}; see --list`);
  // A set that grows while it is walked: what was added is walked too.
  for (const part of picked) for (const name of part.after ?? []) picked.add(parts.find((p) => p.name === name));
  return parts.filter((part) => picked.has(part));
}

function setUp(part) {
  const options = { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] };
  const { status, stdout } = spawnSync('bash', ['scripts/setup.sh', part, '--env'], options);
  if (status !== 0) {
    console.log('FAILED set-up\n0 passed, 1 failed');
    process.exit(1);
  }
  return Object.fromEntries(stdout.trim().split('\n').map(nameAndValue));
}

function nameAndValue(line) {
  const at = line.indexOf('=');
  return [line.slice(0, at), line.slice(at + 1)];
}

function cacheFolder(name) {
  return `${process.env.XDG_CACHE_HOME || `${process.env.HOME}/.cache`}/agent-roundtable/${name}`;
}
