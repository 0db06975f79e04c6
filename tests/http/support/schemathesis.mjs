// Runs schemathesis, as scripts/setup.sh installs it, on a description.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../.venv/bin/schemathesis', import.meta.url));
const LIMIT_MS = 300_000;

/**
 * Drives `origin` by the description as `caller`, with a fixed seed.
 * `config` is further lines of schemathesis.toml, `options` are of its command line.
 * @returns the exit code, 0 where nothing was found, and what it printed
 */
export async function schemathesis(t, { origin, description, caller, examples, config = '', options = [] }) {
  if (!existsSync(PROGRAM)) throw new Error('schemathesis is not installed: bash scripts/setup.sh http');
  const folder = await mkdtemp(join(tmpdir(), 'schemathesis-'));
  t.after(() => rm(folder, { recursive: true, force: true }));
  const settings = `
seed = 20270101
headers = { Authorization = "Bearer token-${caller}" }
generation = { max-examples = ${examples}, deterministic = true, database = "none" }
cache = { enabled = false }
request-timeout = 30
${config}`;
  await writeFile(join(folder, 'config.toml'), settings);
  await writeFile(join(folder, 'openapi.json'), JSON.stringify(description));
  const args = ['--no-color', '--config-file', 'config.toml', 'run', 'openapi.json', '--url', origin];
  const child = spawn(PROGRAM, [...args, '--suppress-health-check', 'all', ...options], {
    cwd: folder,
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1', COLUMNS: '120' },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: LIMIT_MS,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (output += text));
  const [code, signal] = await once(child, 'close');
  return { code: code ?? signal, output };
}
