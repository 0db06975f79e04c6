// `make bench`: measures the built package and says whether it holds its targets.
//
//   node benches/run.mjs              every case
//   node benches/run.mjs turns size   some of them
//
// Each case runs in a process of its own. The table goes to standard output; everything measured, with
// the single samples, to benches/results.json.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { fileURLToPath } from 'node:url';

const CASES = [
  'turns',
  'writes',
  'load',
  'stores',
  'groups',
  'sessions',
  'teams',
  'deliberations',
  'decode',
  'size',
  'start',
  'memory',
  'peers',
];
const folder = fileURLToPath(new URL('.', import.meta.url));
const wanted = process.argv.slice(2);
const unknown = wanted.find((name) => !CASES.includes(name));
if (unknown !== undefined) throw new Error(`there is no case ${unknown}; there are ${CASES.join(', ')}`);

const machine = { cpu: cpus()[0]?.model, cores: cpus().length, node: process.version, load: loadavg()[0] };
console.log(`${machine.cores} × ${machine.cpu}, Node ${machine.node}, load ${machine.load.toFixed(1)}`);
console.log('Times are processor time of the whole process, unless they say otherwise.');

const cases = {};
for (const name of CASES.filter((one) => wanted.length === 0 || wanted.includes(one))) {
  console.log(`\n${name}`);
  cases[name] = measure(name);
  for (const row of cases[name].rows) console.log(line(row));
}
const { version } = JSON.parse(readFileSync(`${folder}../pkg/package.json`, 'utf8'));
writeFileSync(`${folder}results.json`, `${JSON.stringify({ version, machine, cases }, null, 1)}\n`);

const judged = Object.values(cases).flatMap(({ rows }) => rows.filter((row) => isMet(row) !== undefined));
const missed = judged.filter((row) => isMet(row) === false);
console.log(`\n${judged.length - missed.length} of ${judged.length} targets met; all numbers: benches/results.json`);

function measure(name) {
  const program = `
    const { default: run } = await import(${JSON.stringify(new URL(`cases/${name}.mjs`, import.meta.url))});
    process.stdout.write(JSON.stringify(await run()));
  `;
  const options = { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'inherit'] };
  return JSON.parse(execFileSync(process.execPath, ['--expose-gc', '--input-type=module', '--eval', program], options));
}

function line(row) {
  const { what, value, unit, note, most, least } = row;
  if (value === undefined) return `  ${what.padEnd(58)} ${note}`;
  const target = most === undefined ? (least === undefined ? '' : `≥ ${least}`) : `≤ ${most}`;
  const verdict = { true: 'met', false: 'MISSED' }[isMet(row)] ?? '';
  return `  ${what.padEnd(58)}${number(value).padStart(10)} ${unit.padEnd(9)}${target.padStart(8)}  ${verdict}`.trimEnd();
}

/** Whether a row holds its target; undefined where it has none. */
function isMet({ value, most, least }) {
  if (value === undefined || (most === undefined && least === undefined)) return undefined;
  return most === undefined ? value >= least : value <= most;
}

function number(value) {
  if (Number.isInteger(value)) return value.toLocaleString('en');
  return value.toFixed(Math.abs(value) < 10 ? 2 : 1);
}
