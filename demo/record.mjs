// Records the replies of the demo's models anew: `node demo/record.mjs`. Runs the same review, but against
// the script that plays the models, and writes what was asked and said to demo/logs.
import { readFile, writeFile } from 'node:fs/promises';
import { MemoryConversationStore, recordProvider } from 'agent-roundtable';
import { LOGS } from './replies.mjs';
import { answer, createReview, DEFAULT_LINE } from './review.mjs';
import { scriptedProvider } from './script.mjs';

const here = new URL('.', import.meta.url);

const lines = Object.fromEntries(LOGS.map(({ id }) => [id, []]));
const providers = LOGS.map(({ id }) => {
  const write = (line) => lines[id].push(undated(line));
  return [id, recordProvider(scriptedProvider(id), { sessionId: `demo-${id}`, write })];
});
const table = createReview({
  document: await readFile(new URL('document.md', here), 'utf8'),
  providers: Object.fromEntries(providers),
  store: new MemoryConversationStore(),
  onEvent: () => {},
  onToolCall: () => {},
});

let result = await table.run();
if (result.status === 'waiting') {
  await answer(table, result.requests[0], DEFAULT_LINE);
  result = await table.run();
}
await table.dispose();
if (result.status !== 'completed') throw new Error(`the review ended ${result.status}: ${result.message ?? ''}`);

for (const { id, path } of LOGS) {
  await writeFile(new URL(path, here), lines[id].join(''));
  console.log(`demo/${path}: ${lines[id].length} lines`);
}

/** A line with one time for all that happened, so that recording the same again changes nothing. */
function undated(line) {
  const entry = JSON.parse(line, (key, value) => (key === 'timestamp' ? '2027-01-05T09:00:00.000Z' : value));
  return `${JSON.stringify(entry)}\n`;
}
