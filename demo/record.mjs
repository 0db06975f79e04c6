// Records the replies of the demo's models anew: `node demo/record.mjs`. Runs the same review, once for each
// decision on the report, but against the script that plays the models, and writes what was asked and said to
// demo/logs.
import { readFile, writeFile } from 'node:fs/promises';
import { MemoryConversationStore, recordProvider } from 'agent-roundtable';
import { byAgent, LOGS } from './replies.mjs';
import { answer, createReview, decide, DEFAULT_LINE } from './review.mjs';
import { scriptedProvider } from './script.mjs';

const here = new URL('.', import.meta.url);
const document = await readFile(new URL('document.md', here), 'utf8');

const lines = {};
for (const approved of [false, true]) {
  // A list that this review does not reach keeps what the other one said.
  for (const [id, recorded] of Object.entries(await recordReview(approved))) {
    if (recorded.length > 0) lines[id] = recorded;
  }
}
for (const { id, path } of LOGS) {
  await writeFile(new URL(path, here), lines[id].join(''));
  console.log(`demo/${path}: ${lines[id].length} lines`);
}

async function recordReview(approved) {
  const recorded = Object.fromEntries(LOGS.map(({ id }) => [id, []]));
  const lists = LOGS.map(({ id }) => {
    const write = (line) => recorded[id].push(undated(line));
    return [id, recordProvider(scriptedProvider(id), { sessionId: `demo-${id}`, write })];
  });
  const table = await createReview({
    document,
    providers: byAgent(Object.fromEntries(lists)),
    store: new MemoryConversationStore(),
    onEvent: () => {},
    onToolCall: () => {},
    saveReport: () => {},
  });
  let result = await table.run();
  while (result.status === 'waiting') {
    const [request] = result.requests;
    await (request.kind === 'approval' ? decide(table, request, approved) : answer(table, request, DEFAULT_LINE));
    result = await table.run();
  }
  await table.dispose();
  if (result.status !== 'completed') throw new Error(`the review ended ${result.status}: ${result.message ?? ''}`);
  return recorded;
}

/** A line with one time for all that happened, so that recording the same again changes nothing. */
function undated(line) {
  const entry = JSON.parse(line, (key, value) => (key === 'timestamp' ? '2027-01-05T09:00:00.000Z' : value));
  return `${JSON.stringify(entry)}\n`;
}
