// A program that holds a conversation in which an agent's tool needs an approval. Its state is a folder:
// the store, and one line in effects/<conversation> for each time the tool ran. It takes one command a
// line on standard input, `<command> <conversation>`, and says what came of it on standard output, in JSON.
//
//   ask      begins the conversation and runs it until it waits
//   approve  loads it, answers yes and runs it to its end
//   continue loads it and runs it to its end
//   finish   loads it, has every unsettled turn tried again, and runs it to its end
//   settle   loads it, says what came of every unsettled turn, and runs it to its end
//   cancel   stops the run that is at work, whose own answer follows
//
// With HANG set the tool hangs after its effect, with SLOW it ends after its signal; with ONCE set it is not said to
// be idempotent; with GATE=allow nobody is asked.
import { appendFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { createRoundtable, loadRoundtable, sessionParticipant } from 'agent-roundtable';
import { fileStore, sqliteStore } from 'agent-roundtable/node';

const [folder, kind = 'file'] = process.argv.slice(2);
await mkdir(join(folder, 'effects'), { recursive: true });
const store = { file: () => fileStore({ directory: folder }), sqlite: () => sqliteStore({ path: join(folder, 'db') }) };
const kept = store[kind]();

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

function participant(conversation) {
  return sessionParticipant({
    id: 'clerk',
    runtime: { id: 'clerk', version: '1' },
    createSessionOptions: () => ({
      provider: provider(),
      model: 'm',
      tools: [filing(conversation)],
      permissions: { [process.env.GATE ?? 'ask']: ['*'] },
    }),
  });
}

/** Asks for the tool, and reports once it has its result. */
function provider() {
  return {
    name: 'clerk',
    async chat(messages, { callId }) {
      const done = messages.at(-1).role === 'tool';
      const asked = { name: 'file_note', arguments: '{"text":"agreed"}' };
      return {
        id: `reply-to-${callId}`,
        role: 'assistant',
        content: done ? `The tool said ${messages.at(-1).content}` : null,
        timestamp: new Date(),
        state: 'complete',
        ...(done ? {} : { toolCalls: [{ id: 'the-call', type: 'function', function: asked }] }),
      };
    },
  };
}

function filing(conversation) {
  return {
    name: 'file_note',
    description: 'Files a note.',
    parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    idempotent: process.env.ONCE === undefined,
    async execute({ text }, { idempotencyKey, signal }) {
      await appendFile(join(folder, 'effects', conversation), `${idempotencyKey} ${text}\n`);
      if (process.env.HANG === undefined && process.env.SLOW === undefined) return { filed: true };
      say({ running: true });
      return new Promise((resolve) => {
        const late = () => setTimeout(resolve, 50, { filed: true });
        if (process.env.SLOW !== undefined) signal.addEventListener('abort', late);
      });
    },
  };
}

let running = new AbortController();
const run = (table) => {
  running = new AbortController();
  return table.run({ signal: running.signal });
};

const commands = {
  async ask(conversationId) {
    const table = createRoundtable({
      conversationId,
      participants: [participant(conversationId)],
      selector: { reference: { id: 'once', version: '1' }, select: once },
      limits: { maxTurnsPerRun: 2 },
      store: kept,
      recovery: 'durable',
      leaseMs: 3_000, // a process that gets no time for as long loses its claim
    });
    return told(table, await run(table));
  },
  async approve(conversationId) {
    const table = await load(conversationId);
    const { requests, revision } = table.snapshot();
    const open = requests.find((request) => request.kind === 'approval');
    const [requestId, responseId] = [open?.id ?? 'none', `yes-to-${conversationId}`];
    await table.resume({
      requestId,
      responseId,
      expectedRevision: revision,
      response: { kind: 'approval', approved: true },
    });
    return told(table, await run(table));
  },
  async continue(conversationId) {
    const table = await load(conversationId);
    return told(table, await run(table));
  },
  finish: (conversationId) => reconcile(conversationId, { kind: 'retry' }),
  settle(conversationId) {
    const outcome = { kind: 'speak', content: 'It is filed.' };
    return reconcile(conversationId, { kind: 'settle', outcome });
  },
  async cancel() {
    running.abort();
  },
};

async function reconcile(conversationId, decision) {
  const { turns } = await load(conversationId).catch((error) => error);
  const table = await load(conversationId, { unsettled: 'reconcile' });
  for (const { turnId } of turns) {
    const expectedRevision = table.snapshot().revision;
    await unlessBusy(() => table.reconcile({ turnId, expectedRevision, by: 'a test', decision }));
  }
  return told(table, await run(table));
}

/** Again and again while a process that is gone has the claim. */
async function unlessBusy(call) {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (error.code !== 'busy') throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

async function load(conversationId, options) {
  const selection = { reference: { id: 'once', version: '1' } };
  const resolveSelector = () => ({ ...selection, create: () => ({ ...selection, select: once }) });
  const resolveParticipant = (reference) => ({ reference, factory: participant(conversationId).factory });
  return loadRoundtable({ conversationId, store: kept, registry: { resolveParticipant, resolveSelector }, ...options });
}

function once({ turns }) {
  return turns.length === 0 ? { kind: 'speak', participantId: 'clerk' } : { kind: 'finish', reason: 'filed' };
}

async function told(table, result) {
  const { messages } = table.snapshot();
  await table.dispose();
  return { status: result.status, message: result.message, said: messages.map(({ content }) => content) };
}

for await (const line of createInterface({ input: process.stdin })) {
  const [command, conversation] = line.split(' ');
  // Not awaited: a run that is at work may be cancelled.
  void commands[command](conversation).then(
    (answer) => answer && say(answer),
    (error) => say({ code: error.code ?? String(error), message: error.message }),
  );
}
