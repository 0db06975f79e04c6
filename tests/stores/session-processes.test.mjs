// Approvals across processes: real ones, killed with SIGKILL, and two that act at the same moment.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('support/approval-program.mjs', import.meta.url));
const RACES = 200;

test('A76 F a process is killed while an approval is parked; another answers it and the tool runs once', async (t) => {
  const folder = await temporary(t);
  const first = start(t, folder);
  assert.equal((await first.ask('ask c')).status, 'waiting');
  await first.kill();
  const second = start(t, folder);
  const end = await second.ask('approve c');
  assert.deepEqual(end, { status: 'completed', said: ['The tool said {"filed":true}'] });
  assert.equal((await effects(folder, 'c')).length, 1);
});

for (const once of [false, true]) {
  const whose = once ? 'only a host that says `retry` repeats it' : 'an idempotent one runs again under its key';
  test(`C48 F a process is killed while a tool runs; the next must reconcile, and then ${whose}`, async (t) => {
    const folder = await temporary(t);
    const env = once ? { ONCE: '1' } : {};
    const first = start(t, folder, { HANG: '1', ...env });
    assert.equal((await first.ask('ask c')).status, 'waiting');
    assert.deepEqual(await first.ask('approve c'), { running: true });
    await first.kill();
    const second = start(t, folder, env);
    assert.equal((await second.ask('approve c')).code, 'recovery-required');
    assert.equal((await effects(folder, 'c')).length, 1, 'refusing runs nothing');
    if (once) {
      assert.equal((await second.ask('settle c')).status, 'completed');
      assert.equal((await effects(folder, 'c')).length, 1, 'the host knew what had come of it');
      return;
    }
    const { status } = await second.ask('finish c');
    const keys = (await effects(folder, 'c')).map((line) => line.split(' ')[0]);
    assert.deepEqual([status, keys.length, new Set(keys).size], ['completed', 2, 1]);
  });
}

for (const gate of ['ask', 'allow']) {
  test(`C31 F a run is cancelled while its tool runs, gate ${gate}; another process goes on with its result`, async (t) => {
    const folder = await temporary(t);
    const env = { ONCE: '1', GATE: gate, SLOW: '1' };
    const first = start(t, folder, env);
    if (gate === 'ask') assert.equal((await first.ask('ask c')).status, 'waiting');
    assert.deepEqual(await first.ask(`${gate === 'ask' ? 'approve' : 'ask'} c`), { running: true });
    assert.deepEqual(await first.ask('cancel c'), { status: 'cancelled', said: [] });
    await first.kill();
    const second = start(t, folder, env);
    const end = await second.ask('continue c');
    assert.deepEqual(end, { status: 'completed', said: ['The tool said {"filed":true}'] });
    assert.equal((await effects(folder, 'c')).length, 1);
  });

  test(`C48 C49 F a process is killed while a tool runs, gate ${gate}: a retry repeats that tool alone`, async (t) => {
    const folder = await temporary(t);
    const env = { ONCE: '1', GATE: gate };
    const first = start(t, folder, { ...env, HANG: '1' });
    if (gate === 'ask') assert.equal((await first.ask('ask c')).status, 'waiting');
    assert.deepEqual(await first.ask(`${gate === 'ask' ? 'approve' : 'ask'} c`), { running: true });
    await first.kill();
    const second = start(t, folder, env);
    assert.equal((await second.ask('finish c')).status, 'completed');
    const keys = (await effects(folder, 'c')).map((line) => line.split(' ')[0]);
    assert.deepEqual([keys.length, new Set(keys).size], [2, 1]);
  });
}

test(`F two processes answer one parked approval at the same moment, ${RACES} times: one effect each`, async (t) => {
  const folder = await temporary(t);
  const rivals = [start(t, folder), start(t, folder)];
  const seen = { won: 0, lost: new Map() };
  for (let race = 0; race < RACES; race++) {
    const conversation = `race-${race}`;
    assert.equal((await rivals[race % 2].ask(`ask ${conversation}`)).status, 'waiting');
    const ends = await Promise.all(rivals.map((rival) => rival.ask(`approve ${conversation}`)));
    if (!ends.some(({ status }) => status === 'completed')) {
      // Each may have stood in the other's way; whoever comes next finishes.
      assert.equal((await rivals[0].ask(`approve ${conversation}`)).status, 'completed');
    }
    for (const { status, code } of ends) {
      if (status === 'completed') seen.won++;
      else seen.lost.set(code, (seen.lost.get(code) ?? 0) + 1);
    }
    assert.equal((await effects(folder, conversation)).length, 1, JSON.stringify(ends));
  }
  t.diagnostic(`completed ${seen.won}, refused ${JSON.stringify([...seen.lost])}`);
  // Whoever loads while the other runs the turn cannot know that it is not left behind: recovery-required.
  const refusals = ['busy', 'conflict', 'stale-claim', 'recovery-required'];
  for (const code of seen.lost.keys()) assert.ok(refusals.includes(code), code);
});

async function temporary(t) {
  const folder = await mkdtemp(join(tmpdir(), 'approvals-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** The program as a process of its own; `ask` sends one command and takes the next answer. */
function start(t, folder, env = {}) {
  const child = spawn(process.execPath, [...process.execArgv, PROGRAM, folder], {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const kill = () => {
    child.kill('SIGKILL');
    return exited;
  };
  t.after(kill);
  return {
    kill,
    async ask(command) {
      child.stdin.write(`${command}\n`);
      const { value, done } = await lines.next();
      assert.equal(done, false, `the program ended at ${command}`);
      return JSON.parse(value);
    },
  };
}

async function effects(folder, conversation) {
  const text = await readFile(join(folder, 'effects', conversation), 'utf8').catch(() => '');
  return text.split('\n').filter((line) => line !== '');
}
