// One conversation with every phase: a parallel group, an approval, a question to a person, a host's
// selector, a spent limit of model calls. Everything it needs is in a folder (or a database), so that one
// process can begin it and another go on:
//
//   node crash-program.mjs hold STORE FOLDER [APPEND landed|acknowledged]
//   node crash-program.mjs recover STORE FOLDER
//
// `hold` kills itself at the given append: `landed`, before the engine hears of it; `acknowledged`, at the
// next call of the store. `recover` loads the conversation, reconciles where it must, and goes on to the end.
import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createRoundtable, externalParticipant, loadRoundtable } from 'agent-roundtable';
import { CONVERSATION, openStore } from './durable-stores.mjs';

const [command, kind, folder, killAt, when] = process.argv.slice(2);
const effects = join(folder, 'effects');
const { store, close } = await openStore(kind, folder);

const selection = { reference: { id: 'agenda', version: '1' }, modelCalls: 'none' };
const selector = { ...selection, select: ({ turns }) => AGENDA[turns.length] };
const AGENDA = [
  { kind: 'parallel', participantIds: ['ana', 'bo'] },
  undefined,
  { kind: 'speak', participantId: 'ana' },
  { kind: 'wait', participantId: 'pia', reason: 'What do you think?' },
  { kind: 'speak', participantId: 'bo' },
  { kind: 'finish', reason: 'said' },
];

const agents = ['ana', 'bo'].map((id) => ({ kind: 'agent', id, runtime: { id, version: '1' }, factory: factory(id) }));

function factory(id) {
  return {
    supportsContinuation: true,
    checkpointVersions: ['1'],
    modelCalls: 'metered',
    openSession: async ({ checkpoint }) => ({
      session: session(id, checkpoint?.data.turns ?? 0),
      release: async () => {},
    }),
  };
}

/** Each second turn of `ana` asks for approval, each second of `bo` calls a model twice. */
function session(id, done) {
  let turns = done;
  const speak = async ({ turnId, context }) => {
    const content = `${id} has seen ${context.messages.length}`;
    await appendFile(effects, `${JSON.stringify({ turnId, content, turns: turns + 1 })}\n`);
    turns += 1;
    return { kind: 'speak', content };
  };
  return {
    async runTurn(turn, { services }) {
      if (turns % 2 === 1 && id === 'ana') {
        return {
          kind: 'wait',
          requests: [{ id: `${turn.attemptId}-ok`, kind: 'approval', reason: 'May I?', data: {} }],
        };
      }
      if (turns % 2 === 1) {
        await callModel(services, `${turn.attemptId}-1`);
        await callModel(services, `${turn.attemptId}-2`);
      }
      return speak(turn);
    },
    resumeTurn: speak,
    checkpoint: async () => ({ version: '1', data: { turns } }),
  };
}

async function callModel(services, callId) {
  await services.admitModelCall({ callId, providerId: 'p', modelId: 'm' });
  await services.recordUsage({ callId, outcome: 'completed', provenance: 'unknown', final: true });
}

/** Answers and runs on until there is an end. */
async function toItsEnd(table) {
  for (let result = await table.run(); ; ) {
    if (result.status === 'waiting') {
      for (const request of result.requests) await answer(table, request);
      result = await table.run();
    } else if (result.status === 'limited') {
      result = await table.run({ limits: { maxModelCallsPerRun: 9 } });
    } else {
      return { status: result.status, said: table.snapshot().messages.map((m) => `${m.participantId}: ${m.content}`) };
    }
  }
}

function answer(table, request) {
  const { revision } = table.snapshot();
  if (request.kind === 'approval') {
    const response = { kind: 'approval', approved: true };
    return table.resume({
      requestId: request.id,
      responseId: `to-${request.id}`,
      expectedRevision: revision,
      response,
    });
  }
  const [participantId, content] = [request.participantId, 'I agree.'];
  const input = { participantId, inputId: `to-${request.id}`, expectedRevision: revision, content };
  return table.submitInput({ ...input, replyToRequestId: request.id });
}

const load = (options) => {
  const registry = {
    resolveParticipant: (reference) => ({ reference, factory: factory(reference.id) }),
    resolveSelector: () => ({ ...selection, create: () => selector }),
  };
  return loadRoundtable({ conversationId: CONVERSATION, store, registry, ...options });
};

/** How long the claim of a process that is gone stands in the way. */
const LEASE_MS = 1_500;

async function hold() {
  const table = createRoundtable({
    conversationId: CONVERSATION,
    participants: [...agents, externalParticipant({ id: 'pia' })],
    selector,
    limits: { maxTurnsPerRun: 9, maxModelCallsPerRun: 1 },
    maxConcurrentParticipants: 2,
    recovery: 'durable',
    leaseMs: LEASE_MS,
    store: killAt === undefined ? store : deadly(store),
  });
  return toItsEnd(table);
}

async function recover() {
  await unclaimed();
  const loaded = await load().catch((error) => error);
  if (loaded.code === undefined) return { seen: 'finishes', ...(await toItsEnd(loaded)) };
  if (loaded.code !== 'recovery-required') throw loaded;
  const table = await load({ unsettled: 'reconcile' });
  const done = (await readFile(effects, 'utf8').catch(() => '')).split('\n').filter((line) => line !== '');
  const performed = new Map(done.map((line) => JSON.parse(line)).map((effect) => [effect.turnId, effect]));
  for (const { turnId } of loaded.turns) {
    const effect = performed.get(turnId);
    const decision =
      effect === undefined
        ? { kind: 'retry' }
        : {
            kind: 'settle',
            outcome: { kind: 'speak', content: effect.content },
            checkpoint: { version: '1', data: { turns: effect.turns } },
          };
    await table.reconcile({ turnId, expectedRevision: table.snapshot().revision, by: 'the test', decision });
  }
  return { seen: 'recovery-required', ...(await toItsEnd(table)) };
}

/** Resolves when nobody holds the conversation. */
async function unclaimed() {
  for (;;) {
    const claim = await store.claim(CONVERSATION, 'the successor', LEASE_MS).catch((error) => error);
    if (claim.fence !== undefined) return store.release(claim);
    if (claim.code !== 'busy') throw claim;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A store that ends its process at one of its writes. */
function deadly(inner) {
  let writes = 0;
  let due = false;
  const die = () => process.kill(process.pid, 'SIGKILL');
  const guarded =
    (name) =>
    async (...args) => {
      if (due) die();
      const receipt = await inner[name](...args);
      if ((name === 'create' || name === 'append') && ++writes === Number(killAt)) {
        if (when === 'landed') die();
        due = true;
        // Where the engine has nothing more to ask of the store.
        setTimeout(die, 200);
      }
      return receipt;
    };
  const names = ['create', 'load', 'read', 'claim', 'renew', 'release', 'append'];
  const { durability, identity } = inner;
  return { ...inner, durability, identity, ...Object.fromEntries(names.map((name) => [name, guarded(name)])) };
}

process.stdout.write(JSON.stringify(await { hold, recover }[command]()));
await close();
