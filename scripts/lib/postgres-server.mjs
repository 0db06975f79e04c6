// A PostgreSQL server of its own: a new cluster in a temporary folder, run as another user where this is root.
import { execFile, spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { chown, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const bin = binaries();

/** Why tests of PostgreSQL are left out, if they are. */
export const skip = bin === undefined && 'there is no PostgreSQL server on this machine (see scripts/setup.sh)';

/**
 * Starts a server on a free port.
 * @returns what `pg` needs to connect, and how to stop, kill and start it again
 */
export async function startPostgres() {
  const user = await otherUser();
  const folder = await mkdtemp(join(tmpdir(), 'postgres-'));
  if (user.uid !== undefined) await chown(folder, user.uid, user.gid);
  const data = join(folder, 'data');
  const options = { ...user, cwd: folder, env: { ...process.env, LC_ALL: 'C' } };
  await run(join(bin, 'initdb'), ['-D', data, '-U', 'tester', '-A', 'trust', '-E', 'UTF8', '--no-sync'], options);
  const port = await freePort();
  const config = { host: '127.0.0.1', port, user: 'tester', database: 'postgres' };
  let child;

  const start = async () => {
    const args = ['-D', data, '-p', `${port}`, '-k', folder, '-h', '127.0.0.1', '-c', 'max_connections=100'];
    child = spawn(join(bin, 'postgres'), args, { ...options, stdio: 'ignore' });
    for (let attempt = 0; attempt < 200; attempt++) {
      const isReady = await run(join(bin, 'pg_isready'), ['-h', '127.0.0.1', '-p', `${port}`]).then(
        () => true,
        () => false,
      );
      if (isReady) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error('the server did not start');
  };
  /** `SIGINT`: ends connections and shuts down; `SIGQUIT`: at once, and recovers when it starts again. */
  const stop = async (signal = 'SIGINT') => {
    if (child === undefined || child.exitCode !== null) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.kill(signal);
    await exited;
  };
  const remove = async () => {
    await stop('SIGQUIT');
    await rm(folder, { recursive: true, force: true });
  };
  await start();
  return { config, start, stop, remove };
}

/** The same as `config`, as variables of a program's environment. */
export function variablesOf({ host, port, user, database }) {
  return { PGHOST: host, PGPORT: `${port}`, PGUSER: user, PGDATABASE: database };
}

function binaries() {
  const versions = '/usr/lib/postgresql';
  const installed = existsSync(versions) ? readdirSync(versions).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [
    ...installed.map((version) => join(versions, version, 'bin')),
    ...(process.env.PATH ?? '').split(':'),
  ];
  return folders.find((folder) => existsSync(join(folder, 'initdb')) && existsSync(join(folder, 'postgres')));
}

/** The server refuses to run as root. */
async function otherUser() {
  if (process.getuid?.() !== 0) return {};
  for (const name of ['postgres', 'nobody']) {
    const ids = await Promise.all(['-u', '-g'].map((flag) => run('id', [flag, name]))).catch(() => undefined);
    if (ids !== undefined) return { uid: Number(ids[0].stdout), gid: Number(ids[1].stdout) };
  }
  throw new Error('there is no user but root to run the server');
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
