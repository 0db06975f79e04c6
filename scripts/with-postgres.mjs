// Runs a program beside a PostgreSQL server of its own, which is removed afterwards:
//
//   node scripts/with-postgres.mjs PROGRAM [ARGUMENTS]
//
// The program finds it by the variables that every client of PostgreSQL reads.
import { spawn } from 'node:child_process';
import { skip, startPostgres, variablesOf } from './lib/postgres-server.mjs';

if (skip) throw new Error(skip);
const server = await startPostgres();
const program = spawn(process.execPath, process.argv.slice(2), {
  env: { ...process.env, ...variablesOf(server.config) },
  stdio: 'inherit',
});
// A key that interrupts reaches the program too: the server goes when that has ended.
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => program.kill(signal));
process.exitCode = await new Promise((resolve) => program.once('exit', (code) => resolve(code ?? 1)));
await server.remove();
