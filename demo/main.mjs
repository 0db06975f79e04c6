// The demo on a terminal: `make demo`, or `node demo/main.mjs --help`.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';
import { MemoryConversationStore } from 'agent-roundtable';
import { Printer } from './printer.mjs';
import { explain, LOGS, replayed } from './replies.mjs';
import { answer, createReview, DEFAULT_LINE } from './review.mjs';
import { Pace, Stopwatch } from './timing.mjs';
import { COLUMNS, usageRows } from './usage-table.mjs';

const HELP = `Three agents and a person review demo/document.md. The models' replies come from demo/logs, so no
account and no network are needed; everything else is the engine at work.

  node demo/main.mjs              asks for the author's line where there is a terminal
  node demo/main.mjs --line TEXT  takes that line
  node demo/main.mjs --again      takes the line of the last run, and fails unless it prints the same bytes
  node demo/main.mjs --pace MS    waits before each piece of text; default 40 on a terminal, else 0

The transcript goes to standard output, times to standard error, the journal to .demo/journal.jsonl.`;

const options = readOptions();
const here = new URL('.', import.meta.url);
const kept = new URL('../.demo/', here);
const last = { line: new URL('line.txt', kept), transcript: new URL('transcript.txt', kept) };

if (options.help) console.log(HELP);
else process.exitCode = await main();

async function main() {
  await mkdir(kept, { recursive: true });
  let printed = '';
  const printer = new Printer((text) => {
    printed += text;
    process.stdout.write(text);
  });
  const pace = new Pace(Number(options.pace ?? (process.stdout.isTTY && !options.again ? 40 : 0)));
  const providers = replayed(await readLogs());
  const store = new MemoryConversationStore();
  const table = createReview({
    document: await readFile(new URL('document.md', here), 'utf8'),
    providers: Object.fromEntries(Object.entries(providers).map(([id, provider]) => [id, pace.slow(provider)])),
    store,
    onEvent: (event) => printer.event(event),
    onToolCall: (participantId, call) => printer.toolCall(participantId, call),
  });

  printer.title('A review of demo/document.md');
  const engine = new Stopwatch();
  let result = await engine.during(table.run());
  if (result.status === 'waiting') {
    const [request] = result.requests;
    const line = await authorsLine();
    await engine.during(answer(table, request, line));
    await writeFile(last.line, line);
    result = await engine.during(table.run());
  }
  if (result.status !== 'completed') {
    console.error(result.status === 'failed' ? explain(result) : `The review ended ${result.status}.`);
    return 1;
  }
  for (const provider of Object.values(providers)) provider.assertExhausted();

  const { usage, turns, conversationId } = table.snapshot();
  printer.table(COLUMNS, usageRows(usage));
  const entries = await saveJournal(store, conversationId);
  printer.line(`Journal: ${entries} entries in .demo/journal.jsonl`);
  await table.dispose();

  console.error(`Engine: ${(engine.ms - pace.paused).toFixed(1)} ms for ${turns.length} turns and ${usage.length} \
model calls, the agents' tools and the replay of their replies included.`);
  return await compare(printed);
}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        help: { type: 'boolean', short: 'h' },
        line: { type: 'string' },
        again: { type: 'boolean' },
        pace: { type: 'string' },
      },
    });
    if (values.pace !== undefined && !/^\d{1,5}$/.test(values.pace)) throw new Error('--pace takes milliseconds');
    return values;
  } catch (error) {
    console.error(`${error.message}\nSee node demo/main.mjs --help`);
    process.exit(2);
  }
}

async function readLogs() {
  const texts = LOGS.map(async ({ id, path }) => [id, await readFile(new URL(path, here), 'utf8')]);
  return Object.fromEntries(await Promise.all(texts));
}

async function authorsLine() {
  if (options.line !== undefined) return options.line;
  if (options.again) return (await readIfThere(last.line)) ?? DEFAULT_LINE;
  if (!process.stdin.isTTY) return DEFAULT_LINE;
  // On standard error: what is asked is no part of the transcript.
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const closed = new Promise((resolve) => terminal.once('close', () => resolve('')));
  process.stderr.write('You are the author. Your answer, or Enter for the recorded one:\n');
  const typed = await Promise.race([terminal.question('> '), closed]);
  terminal.close();
  return typed.trim() || DEFAULT_LINE;
}

async function saveJournal(store, conversationId) {
  const { batches } = await store.read(conversationId, { after: 0 });
  const lines = batches.flatMap((batch) => batch.entries);
  await writeFile(new URL('journal.jsonl', kept), lines.map((line) => `${line}\n`).join(''));
  return lines.length;
}

async function compare(printed) {
  const before = await readIfThere(last.transcript);
  await writeFile(last.transcript, printed);
  if (!options.again || before === undefined) return 0;
  const same = printed === before;
  console.error(
    same ? `Again the same ${Buffer.byteLength(printed)} bytes.` : 'This is not what the last run printed.',
  );
  return same ? 0 : 1;
}

async function readIfThere(url) {
  try {
    return await readFile(url, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}
