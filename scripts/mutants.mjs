// `make mutants`: breaks the core in small ways and sees whether a test notices (cargo-mutants).
//
// SAMPLE=200 mutants, drawn by SEED=1 from all of the folders below; prints those that no test noticed,
// and fails when they are more than one in ten of those that compile. JOBS=2 run at a time.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const FOLDERS = ['src/conversation', 'src/record', 'src/runtime', 'src/replay'];
const MOST_SURVIVING = 0.1;

const root = fileURLToPath(new URL('..', import.meta.url));
const sampleSize = Number(process.env.SAMPLE ?? 200);
const seed = Number(process.env.SEED ?? 1);
const jobs = process.env.JOBS ?? '2';

const cargo = withTool();
const files = FOLDERS.filter((folder) => existsSync(root + folder)).flatMap((folder) => [
  '--file',
  `${folder}/**/*.rs`,
]);
const all = JSON.parse(mutants(['--list', '--json', ...files], 'pipe').stdout).map((mutant) => mutant.name);
const sample = draw(all, sampleSize, seed);
console.log(`${sample.length} of ${all.length} mutants, seed ${seed}, ${jobs} at a time`);

const output = `${root}target/mutants`;
rmSync(output, { recursive: true, force: true });
mkdirSync(output, { recursive: true });
const exactly = sample.flatMap((name) => ['--re', `^${name.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')}$`]);
const limits = ['--jobs', jobs, '--minimum-test-timeout', '60', '--output', output];
const run = mutants([...files, ...exactly, ...limits, '--no-times', '--colors', 'never'], 'inherit');

const outcomes = readOutcomes(`${output}/mutants.out/outcomes.json`, run.status);
// cargo-mutants also runs every mutant that deletes a field, whatever `--re` says: only drawn ones count.
const drawn = new Set(sample);
const of = (summary) => outcomes.filter((o) => o.summary === summary && drawn.has(o.scenario.Mutant.name));
const missed = of('MissedMutant');
const noticed = of('CaughtMutant').length + of('Timeout').length;
const rate = missed.length / Math.max(1, missed.length + noticed);
console.log(
  `\n${noticed} noticed, ${missed.length} survived (${(100 * rate).toFixed(1)} %), ${of('Unviable').length} did not compile`,
);
for (const { scenario } of missed) console.log(`  survived: ${scenario.Mutant.name}`);
process.exitCode = rate > MOST_SURVIVING || missed.length + noticed === 0 ? 1 : 0;

/** cargo-mutants from the cache, made ready first. */
function withTool() {
  const options = { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] };
  const setUp = spawnSync('bash', ['scripts/setup.sh', 'mutants', '--env'], options);
  if (setUp.status !== 0) process.exit(1);
  const path = /^PATH=(.*)$/m.exec(setUp.stdout)[1];
  return { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28, env: { ...process.env, PATH: path, SIM_SEEDS: '400' } };
}

function mutants(args, stdout) {
  const run = spawnSync('cargo', ['mutants', '--package', 'agent-roundtable', ...args], {
    ...cargo,
    stdio: ['ignore', stdout, 'inherit'],
  });
  if (run.error !== undefined) throw run.error;
  return run;
}

function readOutcomes(path, status) {
  // Survivors and timeouts have exit codes of their own (2, 3); anything else is a failure to run.
  if (![0, 2, 3].includes(status)) {
    console.log(`cargo-mutants failed with ${status}: do the tests pass without mutants?`);
    process.exit(1);
  }
  return JSON.parse(readFileSync(path, 'utf8')).outcomes.filter((outcome) => outcome.scenario.Mutant !== undefined);
}

/** `count` of `items`, the same ones for the same seed (mulberry32, partial Fisher-Yates). */
function draw(items, count, from) {
  const pool = [...items];
  let state = from >>> 0;
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  const taken = Math.min(count, pool.length);
  for (let i = 0; i < taken; i += 1) {
    const j = i + Math.floor(random() * (pool.length - i));
    [pool[i], pool[j]] = [pool[j], pool[i]];
  }
  return pool.slice(0, taken);
}
