// The demo on a terminal: `make demo`, or `node demo/main.mjs --help`.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { fileStore } from 'agent-roundtable/node';
import { Printer } from './printer.mjs';
import { explain, LOGS, replayed } from './replies.mjs';
import { answer, createReview, decide, DEFAULT_LINE, loadReview } from './review.mjs';
import { Pace, Stopwatch } from './timing.mjs';
import { COLUMNS, usageRows } from './usage-table.mjs';

const HELP = `Three agents and a person review demo/document.md. The models' replies come from demo/logs, so no
account and no network are needed; everything else is the engine at work.

  node demo/main.mjs                 asks for decision and line where there is a terminal
  node demo/main.mjs --approval yes  lets the editor keep its report as .demo/report.md; no: does not;
                                     later: leaves the question open and ends
  node demo/main.mjs --answer yes    a second program answers what was left open, and goes on; or no
  node demo/main.mjs --line TEXT     takes that line from the author
  node demo/main.mjs --again         decides as the last run did, and fails unless it prints the same bytes
  node demo/main.mjs --pace MS       waits before each piece of text; default 40 on a terminal, else 0

The transcript goes to standard output, times to standard error, the conversation to .demo/store, its journal to
.demo/journal.jsonl.`;

const DECISIONS = ['yes', 'no', 'later'];
const options = readOptions();
const here = new URL('.', import.meta.url);
const kept = new URL('../.demo/', here);
const last = {
  approval: new URL('approval.txt', kept),
  line: new URL('line.txt', kept),
  transcript: new URL('transcript.txt', kept),
};
const report = new URL('report.md', kept);

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
  const { providers, assertExhausted } = replayed(await readLogs());
  const store = fileStore({ directory: fileURLToPath(new URL('store', kept)) });
  const setting = {
    document: await readFile(new URL('document.md', here), 'utf8'),
    providers: Object.fromEntries(Object.entries(providers).map(([id, provider]) => [id, pace.slow(provider)])),
    store,
    onEvent: (event) => printer.event(event),
    onToolCall: (participantId, call) => printer.toolCall(participantId, call),
    saveReport: (text) => writeFile(report, `${text}\n`),
  };

  const goesOn = options.answer !== undefined;
  const table = goesOn ? await loadOpen(setting) : await createReview(setting);
  if (table === undefined) return 1;
  printer.title(goesOn ? 'The review of demo/document.md goes on' : 'A review of demo/document.md');
  if (!goesOn) await rm(report, { force: true });
  const engine = new Stopwatch();
  let result = await engine.during(table.run());
  while (result.status === 'waiting') {
    const [request] = result.requests;
    if (request.kind === 'approval') {
      const decision = await approval(request);
      if (decision === 'later') return leaveOpen(printer, table);
      await writeFile(last.approval, decision);
      printer.note(decision === 'yes' ? 'it may' : 'it may not');
      await engine.during(decide(table, request, decision === 'yes'));
    } else {
      const line = await authorsLine();
      await engine.during(answer(table, request, line));
      await writeFile(last.line, line);
    }
    result = await engine.during(table.run());
  }
  if (result.status !== 'completed') {
    console.error(result.status === 'failed' ? explain(result) : `The review ended ${result.status}.`);
    return 1;
  }
  assertExhausted();

  const { usage, turns, conversationId } = table.snapshot();
  printer.table(COLUMNS, usageRows(usage));
  const entries = await saveJournal(store, conversationId);
  printer.line(`Journal: ${entries} entries in .demo/journal.jsonl`);
  if ((await readIfThere(report)) !== undefined) printer.line('Report: .demo/report.md');
  await table.dispose();

  console.error(`Engine: ${(engine.ms - pace.paused).toFixed(1)} ms for ${turns.length} turns and ${usage.length} \
model calls${goesOn ? ', those of the first program among them' : ''}, the agents' tools, the replay of their replies and the files of the store included.`);
  return goesOn ? 0 : await compare(printed);
}

/** Ends this program; another one answers. */
async function leaveOpen(printer, table) {
  await table.dispose();
  printer.line('The question stays open. Answer it with: node demo/main.mjs --answer yes (or no)');
  return 0;
}

/** The review that waits for a decision, if there is one. */
async function loadOpen(setting) {
  const table = await loadReview(setting).catch((error) => {
    if (error.code !== 'not-found') throw error;
  });
  if (table?.snapshot().requests.some(({ kind }) => kind === 'approval')) return table;
  await table?.dispose();
  console.error('Nothing was left open: begin with node demo/main.mjs --approval later');
  return undefined;
}

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        help: { type: 'boolean', short: 'h' },
        line: { type: 'string' },
        again: { type: 'boolean' },
        approval: { type: 'string' },
        answer: { type: 'string' },
        pace: { type: 'string' },
      },
    });
    if (values.pace !== undefined && !/^\d{1,5}$/.test(values.pace)) throw new Error('--pace takes milliseconds');
    const known = { approval: DECISIONS, answer: DECISIONS.slice(0, 2) };
    for (const [option, words] of Object.entries(known)) {
      const given = values[option];
      if (given !== undefined && !words.includes(given)) throw new Error(`--${option} takes ${words.join(', ')}`);
    }
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

/** Whether the editor may keep its report: `yes`, `no`, or `later`, for another program to say. */
async function approval({ participantId, data }) {
  const given = options.answer ?? options.approval;
  if (given !== undefined) return given;
  if (options.again) return (await readIfThere(last.approval)) ?? 'yes';
  if (!process.stdin.isTTY) return 'yes';
  const typed = await ask(`May ${participantId} run ${data.toolName}, which writes .demo/report.md? yes, no or later:`);
  return DECISIONS.find((word) => typed !== '' && word.startsWith(typed.toLowerCase())) ?? 'yes';
}

async function authorsLine() {
  if (options.line !== undefined) return options.line;
  if (options.again) return (await readIfThere(last.line)) ?? DEFAULT_LINE;
  if (!process.stdin.isTTY) return DEFAULT_LINE;
  return (await ask('You are the author. Your answer, or Enter for the recorded one:')) || DEFAULT_LINE;
}

/** What is typed on the terminal. The question goes to standard error: it is no part of the transcript. */
async function ask(question) {
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const closed = new Promise((resolve) => terminal.once('close', () => resolve('')));
  process.stderr.write(`${question}\n`);
  const typed = await Promise.race([terminal.question('> '), closed]);
  terminal.close();
  return typed.trim();
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
