// The demo in a page: the same conversation, recordings and tools as `make demo`, shown while it happens.
// `?pace=0` shows the recorded text at once.
import { MemoryConversationStore, version } from 'agent-roundtable';
import { explain, LOGS, replayed } from '../demo/replies.mjs';
import { answer, createReview, decide, DEFAULT_LINE } from '../demo/review.mjs';
import { Pace, Stopwatch } from '../demo/timing.mjs';
import { COLUMNS, usageRows } from '../demo/usage-table.mjs';
import { formatted } from './format.js';
import { Transcript } from './transcript.js';

const DEMO = new URL('../demo/', import.meta.url);
const element = (id) => document.getElementById(id);
const start = element('start');
const status = element('status');

start.addEventListener('click', async () => {
  start.disabled = true;
  try {
    await review();
  } catch (error) {
    status.textContent = `This page could not go on: ${error.message}`;
    throw error;
  } finally {
    start.textContent = 'Run it again';
    start.disabled = false;
  }
});
showUsage([]);

async function review() {
  const milliseconds = new URLSearchParams(location.search).get('pace') ?? 45;
  const pace = new Pace(Number(milliseconds));
  const transcript = new Transcript(element('transcript'));
  const journal = new JournalSize(new MemoryConversationStore());
  const { providers, assertExhausted } = replayed(await fetchLogs());
  element('report').hidden = true;
  const table = await createReview({
    document: await fetchText('document.md'),
    providers: Object.fromEntries(Object.entries(providers).map(([id, provider]) => [id, pace.slow(provider)])),
    store: journal.store,
    async onEvent(event) {
      transcript.event(event);
      if (event.type === 'delta') return;
      if (event.type === 'usage') showUsage(table.snapshot().usage);
      await journal.update(event);
    },
    onToolCall: (participantId, call) => transcript.toolCall(participantId, call),
    saveReport: (text) => offer(element('report'), text, 'text/markdown'),
  });

  element('save').hidden = true;
  element('engine').textContent = `Version ${version()} is at work.`;
  status.textContent = 'The agents are at work.';
  const engine = new Stopwatch();
  let result = await engine.during(table.run());
  while (result.status === 'waiting') {
    const [request] = result.requests;
    if (request.kind === 'approval') {
      const approved = await decision(request);
      await engine.during(decide(table, request, approved));
    } else {
      const line = await authorsLine(request.reason);
      await engine.during(answer(table, request, line));
    }
    result = await engine.during(table.run());
  }
  if (result.status === 'completed') assertExhausted();
  status.textContent = result.status === 'completed' ? `Completed. ${result.reason}` : explain(result);

  const { turns, usage } = table.snapshot();
  element('engine').textContent =
    `Version ${version()} took ${(engine.ms - pace.paused).toFixed(1)} ms for ${turns.length} turns and ${usage.length} ` +
    'model calls, with tools, replay and the drawing of this page; the rest was pauses.';
  journal.offer(element('save'));
  await table.dispose();
}

/** Whether the person lets a tool run. */
function decision({ participantId, data }) {
  const form = element('approval');
  form.querySelector('p').textContent =
    `${participantId} asks leave to run ${data.toolName}, which keeps its report as a file.`;
  form.hidden = false;
  status.textContent = 'You are asked for leave.';
  form.querySelector('button').focus();
  return new Promise((resolve) => {
    form.addEventListener(
      'submit',
      (event) => {
        event.preventDefault();
        form.hidden = true;
        resolve(event.submitter.value === 'yes');
      },
      { once: true },
    );
  });
}

function authorsLine(question) {
  const form = element('answer');
  const line = element('line');
  form.querySelector('label').textContent = question;
  line.placeholder = DEFAULT_LINE;
  line.value = '';
  form.hidden = false;
  status.textContent = 'The author is asked.';
  line.focus();
  return new Promise((resolve) => {
    form.addEventListener(
      'submit',
      (event) => {
        event.preventDefault();
        form.hidden = true;
        resolve(line.value.trim() || DEFAULT_LINE);
      },
      { once: true },
    );
  });
}

function showUsage(records) {
  const table = element('usage');
  const rows = usageRows(records);
  const last = rows.pop();
  table.tHead.replaceChildren(tableRow(COLUMNS, () => 'th'));
  table.tBodies[0].replaceChildren(...rows.map((row) => tableRow(row, (i) => (i === 0 ? 'th' : 'td'))));
  table.tFoot.replaceChildren(tableRow(last, (i) => (i === 0 ? 'th' : 'td')));
}

function tableRow(cells, kind) {
  const row = document.createElement('tr');
  for (const [i, text] of cells.entries()) {
    const cell = document.createElement(kind(i));
    if (cell.tagName === 'TH') cell.scope = kind(1) === 'th' ? 'col' : 'row';
    cell.textContent = text;
    row.append(cell);
  }
  return row;
}

/** Reads what a store has kept, a batch once. */
class JournalSize {
  #lines = [];
  #bytes = 0;
  #revision = 0;

  constructor(store) {
    this.store = store;
  }

  async update({ conversationId }) {
    const kept = await this.store.read(conversationId, { after: this.#revision });
    for (const { revision, entries } of kept.batches) {
      if (revision <= this.#revision) continue;
      this.#revision = revision;
      this.#lines.push(...entries);
      for (const entry of entries) this.#bytes += new TextEncoder().encode(entry).length + 1;
    }
    const size = (this.#bytes / 1024).toFixed(1);
    element('journal').textContent = `${this.#lines.length} entries, ${size} KiB, revision ${this.#revision}`;
  }

  /** Lets a link save it. */
  offer(link) {
    offer(link, this.#lines.map((line) => `${line}\n`).join(''), 'application/x-ndjson');
  }
}

/** Lets a link save a text. */
function offer(link, text, type) {
  URL.revokeObjectURL(link.href);
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.hidden = false;
}

async function fetchLogs() {
  return Object.fromEntries(await Promise.all(LOGS.map(async ({ id, path }) => [id, await fetchText(path)])));
}

async function fetchText(path) {
  const response = await fetch(new URL(path, DEMO));
  if (!response.ok) throw new Error(`${path}: ${response.status} ${response.statusText}`);
  return response.text();
}

element('document').replaceChildren(...formatted(await fetchText('document.md')));
