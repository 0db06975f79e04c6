// Another process with the deliberations of a store. Messages name what to do, and each is answered with its result.
//
//   node deliberation-host.mjs KIND FOLDER
import { createDeliberations } from 'agent-roundtable';
import { openStore } from './durable-stores.mjs';

const [kind, folder] = process.argv.slice(2);
const { store, close } = await openStore(kind, folder);
let now = 0;
let notices = [];
const d = createDeliberations({
  store,
  clock: { now: () => now, setTimeout, clearTimeout },
  sweepIntervalMs: 0,
  notifier: async ({ kind, to, deliberationId }) => {
    notices.push({ kind, to, deliberationId });
  },
});

const tasks = {
  /** @returns lengths of the thread, or codes of refusals */
  speak: ({ id, caller, messages }) =>
    Promise.all(
      messages.map((message) =>
        d.speak(caller, id, { message }).then(
          ({ threadLength }) => threadLength,
          ({ code }) => code,
        ),
      ),
    ),
  expire: () => d.expireStale(),
  async end() {
    await d.dispose();
    await close();
  },
};

process.on('message', async ({ task, at, ...input }) => {
  now = at;
  const result = await tasks[task](input);
  process.send({ result, notices });
  notices = [];
  if (task === 'end') process.disconnect();
});
process.send('ready');
