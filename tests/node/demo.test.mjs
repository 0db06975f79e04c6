// The demo, run from a copy beside the packed package: twice the same bytes, and refused once its document changed.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const repository = fileURLToPath(new URL('../..', import.meta.url));
const lists = ['operations', 'security', 'editor', 'editor-approved', 'editor-denied'];
const logs = lists.map((id) => `demo/logs/${id}.jsonl`);

let folder;
before(async () => {
  // Beneath tests/node_modules, where the packed package is found.
  folder = await mkdtemp(join(repository, 'tests/node_modules/.demo-'));
  await copyDemo();
});
after(() => rm(folder, { recursive: true }));

async function copyDemo() {
  await rm(join(folder, 'demo'), { recursive: true, force: true });
  await cp(join(repository, 'demo'), join(folder, 'demo'), {
    recursive: true,
    filter: (path) => !path.endsWith('node_modules'),
  });
}

/** Runs a program of the copy, its standard input closed. */
function run(program, ...options) {
  return ended(
    spawn(process.execPath, [join(folder, 'demo', program), ...options], { stdio: ['ignore', 'pipe', 'pipe'] }),
  );
}

async function ended(child) {
  let stdout = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));
  const status = await new Promise((resolve) => child.on('close', resolve));
  return { status, stdout, stderr };
}

/** Without the times of day that the agents' private messages have, and the sums over them. */
async function journalLines() {
  const text = await readFile(join(folder, '.demo/journal.jsonl'), 'utf8');
  return text
    .replace(/"\$date":"[^"]*"|,"sum":"[^"]*"/g, '')
    .trimEnd()
    .split('\n');
}

test('C51: the demo prints the same bytes each time, and its journal has the same lines', async () => {
  const first = await run('main.mjs');
  assert.equal(first.status, 0, first.stderr);
  const journal = await journalLines();
  const second = await run('main.mjs');
  assert.equal(second.stdout, first.stdout);
  assert.deepEqual(await journalLines(), journal);

  const again = await run('main.mjs', '--again');
  assert.deepEqual([again.status, again.stdout], [0, first.stdout]);
  assert.match(again.stderr, /Again the same \d+ bytes/);
  // A pace changes nothing of what is printed; times are not on standard output.
  assert.equal((await run('main.mjs', '--pace', '1')).stdout, first.stdout);
  assert.match(first.stderr, /^Engine: \d+\.\d ms for 7 turns and 14 model calls/m);
});

test('the demo shows everyone, the tools they used, what it cost and where the journal went', async () => {
  const { stdout } = await run('main.mjs');
  const names = stdout.split('\n').filter((line) => /^(operations|security|editor|author)( yields)?$/.test(line));
  assert.deepEqual(names, ['operations', 'security', 'editor', 'operations', 'security yields', 'editor', 'author']);
  assert.match(stdout, /> read_section\("Secrets"\)/);
  assert.match(stdout, /^all +14 +\d+ +\d+ +\d+\.\d\d USD$/m);
  const [, entries] = /^Journal: (\d+) entries in \.demo\/journal\.jsonl$/m.exec(stdout);
  const lines = await journalLines();
  assert.equal(lines.length, Number(entries));
  assert.match(Object.keys(JSON.parse(lines[0]))[0], /^[a-z-]+\/1$/);
});

const kept = (name) => join(folder, '.demo', name);

test('A69 A70 the report is kept where that is approved, and not where it is denied', async () => {
  const approved = await run('main.mjs', '--approval', 'yes');
  assert.match(approved.stdout, /^\[editor asks leave to run save_report\]\n\n\[it may\]$/m);
  assert.match(approved.stdout, /> save_report\(\)/);
  assert.match(await readFile(kept('report.md'), 'utf8'), /^Report to the author\./);
  const denied = await run('main.mjs', '--approval', 'no');
  assert.equal(denied.status, 0, denied.stderr);
  assert.match(denied.stdout, /^\[it may not\]$/m);
  assert.doesNotMatch(denied.stdout, /> save_report\(\)/);
  await assert.rejects(readFile(kept('report.md')), { code: 'ENOENT' });
  const again = await run('main.mjs', '--again');
  assert.deepEqual([again.status, again.stdout], [0, denied.stdout]);
});

for (const [word, list] of [
  ['yes', 'editor-approved'],
  ['no', 'editor-denied'],
]) {
  test(`A76 a report that one program leaves to be approved is answered by another: ${word}`, async () => {
    const whole = await run('main.mjs', '--approval', word);
    const first = await run('main.mjs', '--approval', 'later');
    assert.equal(first.status, 0, first.stderr);
    await assert.rejects(readFile(kept('report.md')), { code: 'ENOENT' });
    const second = await run('main.mjs', '--answer', word);
    assert.equal(second.status, 0, second.stderr);
    const { SCRIPT } = await import(join(folder, 'demo/script.mjs'));
    assert.match(second.stdout, new RegExp(SCRIPT[list][0].says.slice(0, 30)));
    const table = /^participant[\s\S]*^all .*$/m;
    assert.equal(table.exec(second.stdout)[0], table.exec(whole.stdout)[0], 'the same calls, none twice');
    const third = await run('main.mjs', '--answer', word);
    assert.deepEqual([third.status, third.stdout], [1, '']);
    assert.match(third.stderr, /Nothing was left open/);
  });
}

test("the author's line is the one that was given, and --again takes it once more", async () => {
  const given = await run('main.mjs', '--line', 'No, and here is why.');
  assert.match(given.stdout, /^author\n {2}No, and here is why\.$/m);
  const again = await run('main.mjs', '--again');
  assert.deepEqual([again.status, again.stdout], [0, given.stdout]);

  await writeFile(join(folder, '.demo/transcript.txt'), 'something else');
  assert.equal((await run('main.mjs', '--again')).status, 1);
});

test("leave and the author's line are asked for on a terminal", { skip: process.platform !== 'linux' }, async () => {
  // util-linux's `script` gives the demo a terminal of its own.
  const command = `${process.execPath} ${join(folder, 'demo/main.mjs')} --pace 0`;
  const child = spawn('script', ['-qec', command, '/dev/null'], { stdio: ['pipe', 'pipe', 'pipe'] });
  child.stdout.on('data', (text) => {
    if (String(text).includes('yes, no or later')) child.stdin.write('no\n');
    if (String(text).includes('You are the author')) child.stdin.write('Typed by hand.\n');
  });
  const { status, stdout } = await ended(child);
  assert.equal(status, 0, stdout);
  assert.match(stdout.replaceAll('\r', ''), /^author\n {2}Typed by hand\.$/m);
  assert.match(stdout, /\[it may not\]/);
});

test('recording anew writes the logs that are shipped', async () => {
  const { status, stderr } = await run('record.mjs');
  assert.equal(status, 0, stderr);
  for (const path of logs) {
    assert.equal(await readFile(join(folder, path), 'utf8'), await readFile(join(repository, path), 'utf8'), path);
  }
});

test('a changed document fails the demo until it is recorded anew', async (t) => {
  t.after(copyDemo);
  const path = join(folder, 'demo/document.md');
  const text = await readFile(path, 'utf8');
  await writeFile(path, text.replace('for 12 hours', 'for 13 hours'));
  const changed = await run('main.mjs');
  assert.equal(changed.status, 1);
  assert.match(changed.stderr, /The review failed: .*call 3/);
  assert.match(changed.stderr, /node demo\/record\.mjs/);
  assert.doesNotMatch(changed.stdout, /^operations$/m, 'nothing of the failed group is published');

  assert.equal((await run('record.mjs')).status, 0);
  assert.equal((await run('main.mjs')).status, 0);
});

test('--help says what the demo takes, and anything else is refused', async () => {
  const { status, stdout } = await run('main.mjs', '--help');
  assert.equal(status, 0);
  for (const option of ['--approval', '--answer', '--line', '--again', '--pace'])
    assert.ok(stdout.includes(option), option);
  for (const wrong of [['--nothing'], ['--pace', 'slow'], ['--approval', 'maybe'], ['--answer', 'later'], ['words']]) {
    const { status, stderr } = await run('main.mjs', ...wrong);
    assert.equal(status, 2, wrong.join(' '));
    assert.match(stderr, /--help/);
  }
});
