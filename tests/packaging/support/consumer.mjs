// A project that installed the packed tarball, as a user's would.
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const here = fileURLToPath(new URL('..', import.meta.url));
const root = fileURLToPath(new URL('../../..', import.meta.url));

export const tarball = join(root, 'dist/agent-roundtable.tgz');
/** Where the hosts and bundlers of tests/packaging/package.json are. */
export const tools = join(here, 'node_modules');
/** Where the development tools of the repository are. */
export const rootTools = join(root, 'node_modules');

/**
 * Installs the tarball into a new folder, with the smoke program and the given files beside it.
 * @returns {Promise<{folder: string, remove(): Promise<void>}>}
 */
export async function consumer(files = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'consumer-'));
  await cp(join(here, 'smoke.mjs'), join(folder, 'smoke.mjs'));
  await write(folder, { 'package.json': '{"name":"consumer","private":true,"type":"module"}', ...files });
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', '--silent', tarball], folder);
  return { folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

/** Writes files given as name to text. */
export async function write(folder, files) {
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
}

/** Runs a program; what it printed on standard output, trimmed. Rejects with its output when it fails. */
export async function run(program, args, cwd, env = {}) {
  const options = { cwd, env: { ...process.env, ...env }, timeout: 120_000, maxBuffer: 64 << 20 };
  try {
    const { stdout } = await promisify(execFile)(program, args, options);
    return stdout.trim();
  } catch (error) {
    throw new Error(`${program} ${args.join(' ')}: ${error.message}\n${error.stdout}`);
  }
}
