// Runs the parts of `make test` in lanes and reports.
import { spawn } from 'node:child_process';
import { createWriteStream, mkdirSync, readFileSync } from 'node:fs';
import { countTests, sumUp, tallyRules } from './counts.mjs';

const LIMIT_MS = 30 * 60_000;

/** @returns {Promise<boolean>} whether anything failed */
export async function runParts(parts, { root, environments }) {
  const start = Date.now();
  const logs = `${root}target/test-logs/`;
  mkdirSync(logs, { recursive: true });
  const done = new Map();
  for (const part of parts) done.set(part.name, Promise.withResolvers?.() ?? deferred());

  const results = [];
  const lanes = [...new Set(parts.map((part) => part.lane))];
  await Promise.all(
    lanes.map(async (lane) => {
      for (const part of parts.filter((p) => p.lane === lane)) {
        const before = await Promise.all((part.after ?? []).map((name) => done.get(name).promise));
        const result = before.every((r) => r.ok)
          ? await runPart(part, { root, environments, logs })
          : skipped(part, before);
        results.push(result);
        report(result);
        done.get(part.name).resolve(result);
      }
    }),
  );
  return printSummary(results, Date.now() - start);
}

async function runPart(part, { root, environments, logs }) {
  const log = `${logs}${part.name.replace(/[^A-Za-z0-9]+/g, '-')}.log`;
  const start = Date.now();
  const status = await new Promise((resolve) => {
    const [program, ...args] = part.command.split(' ').filter(Boolean);
    const output = createWriteStream(log);
    // A group of its own, so that what it started can be ended with it.
    const child = spawn(program, args, {
      cwd: root,
      env: { ...process.env, ...environments[part.env] },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
    });
    const timer = setTimeout(() => process.kill(-child.pid, 'SIGKILL'), LIMIT_MS);
    child.stdout.pipe(output, { end: false });
    child.stderr.pipe(output, { end: false });
    const finish = (code) => {
      clearTimeout(timer);
      output.end(() => resolve(code));
    };
    child.on('error', (error) => output.write(`${error.message}\n`, () => finish(1)));
    child.on('close', (code, signal) => finish(code ?? signal));
  });
  const text = readFileSync(log, 'utf8');
  const counts = countTests(text);
  const ok = status === 0 && counts.failed === 0;
  // A part without tests of its own, or one that failed outside of them, counts as one.
  if (counts.passed + counts.failed === 0 || (!ok && counts.failed === 0)) counts[ok ? 'passed' : 'failed'] += 1;
  return { name: part.name, ok, status, seconds: (Date.now() - start) / 1000, log, text, ...counts };
}

function skipped(part, before) {
  const text = `not run: ${before
    .filter((r) => !r.ok)
    .map((r) => r.name)
    .join(', ')} failed`;
  return { name: part.name, ok: false, status: 'skipped', seconds: 0, log: '', text, passed: 0, failed: 1, names: [] };
}

function report(result) {
  const mark = result.ok ? 'ok    ' : 'FAILED';
  console.log(
    `${mark} ${result.name.padEnd(34)} ${result.seconds.toFixed(1).padStart(7)} s  ${result.passed} passed, ${result.failed} failed in it`,
  );
  if (result.ok) return;
  console.log(`       exit ${result.status}; whole output: ${result.log}`);
  console.log(tail(result.text).replace(/^/gm, '       | '));
}

/** The lines around failures, and the end. */
function tail(text) {
  const lines = text.trimEnd().split('\n');
  const telling = /^\s*not ok|FAILED|panicked at|^error|Error:/;
  const kept = new Set();
  let found = 0;
  lines.forEach((line, i) => {
    if (telling.test(line) && found++ < 12) for (let j = i; j < i + 14; j += 1) kept.add(j);
  });
  for (let i = Math.max(0, lines.length - 25); i < lines.length; i += 1) kept.add(i);
  return lines.filter((_, i) => kept.has(i)).join('\n');
}

function printSummary(results, elapsedMs) {
  console.log('\nSlowest parts');
  for (const r of [...results].sort((a, b) => b.seconds - a.seconds).slice(0, 10))
    console.log(`  ${r.seconds.toFixed(1).padStart(7)} s  ${r.name}`);
  console.log('\nTests that name a rule');
  for (const { area, rules, tests } of tallyRules(results.flatMap((r) => r.names)))
    console.log(`  ${area.padEnd(4)} ${String(rules).padStart(4)} rules  ${String(tests).padStart(5)} tests`);
  const { passed, failed } = sumUp(results);
  console.log(`\n${results.length} parts in ${(elapsedMs / 1000).toFixed(0)} s`);
  for (const r of results.filter((x) => !x.ok)) console.log(`FAILED ${r.name}`);
  console.log(`${passed} passed, ${failed} failed`);
  return failed > 0;
}

function deferred() {
  let resolve;
  const promise = new Promise((r) => {
    resolve = r;
  });
  return { promise, resolve };
}
