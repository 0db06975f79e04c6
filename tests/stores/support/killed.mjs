// A process that lives the life of a conversation and kills itself at a given call of its files or database.
//
//   node killed.mjs '{"where":…,"base":0,"at":17,"moment":"before"}'
//
// What is done is written to standard output at once: one line for each step, and at the end the number of calls.
import fs from 'node:fs';
import fsPromises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { lifeOf } from './life.mjs';

const { where, base, at, moment } = JSON.parse(process.argv[2]);
const write = fs.writeSync;
const say = (line) => write(1, `${line}\n`);
const die = () => process.kill(process.pid, 'SIGKILL');

let calls = 0;
let isWatching = false;
/** Counts the calls of a method, and dies at the one that was asked for. */
function watch(object, name) {
  const original = object[name];
  object[name] = function watched(...args) {
    if (!isWatching) return original.apply(this, args);
    calls += 1;
    const isLast = calls === at;
    if (isLast && moment === 'before') die();
    const result = original.apply(this, args);
    if (!isLast) return result;
    // What was begun may have happened or not.
    if (typeof result?.then !== 'function') die();
    setImmediate(die);
    return new Promise(() => {});
  };
}

if (where.kind === 'file') {
  for (const name of ['link', 'mkdir', 'open', 'rename', 'rm', 'rmdir', 'unlink']) watch(fsPromises, name);
  const probe = await fsPromises.open(process.argv[1], 'r');
  const handle = Object.getPrototypeOf(probe);
  await probe.close();
  for (const name of ['write', 'writeFile', 'sync']) watch(handle, name);
  syncBuiltinESMExports();
} else if (where.kind === 'sqlite') {
  const { Database } = await import('./sqlite-driver.mjs');
  const probe = new Database(':memory:');
  watch(Database.prototype, 'exec');
  for (const name of ['run', 'get', 'all']) watch(Object.getPrototypeOf(probe.prepare('SELECT 1')), name);
  probe.close();
} else {
  const { default: pg } = await import('pg');
  watch(pg.Client.prototype, 'query');
}

const { openStore } = await import('./opening.mjs');
const { store, close } = await openStore(where);
isWatching = true;
for (const { name, run } of lifeOf(base)) {
  await run(store);
  say(name);
}
isWatching = false;
say(calls);
await close();
