// A process of the crash matrix: what it is asked for is done on the store of a folder, and what came of it
// is printed as JSON.
//
//   node crash-program.mjs hold STORE FOLDER [WRITE landed|acknowledged]   kills itself at that write
//   node crash-program.mjs recover STORE FOLDER
import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { deadly, hold, recover } from './crash-conversation.mjs';
import { openStore } from './durable-stores.mjs';

const [command, kind, folder, write, moment] = process.argv.slice(2);
const path = join(folder, 'effects');
const effects = {
  append: (effect) => appendFile(path, `${JSON.stringify(effect)}\n`),
  read: async () => {
    const text = await readFile(path, 'utf8').catch(() => '');
    return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
  },
};
const { store, close } = await openStore(kind, folder);
const die = () => process.kill(process.pid, 'SIGKILL');
const commands = {
  hold: () => hold(write === undefined ? store : deadly(store, Number(write), moment, die), effects),
  recover: () => recover(store, effects),
};
process.stdout.write(JSON.stringify({ ...(await commands[command]()), effects: await effects.read() }));
await close();
