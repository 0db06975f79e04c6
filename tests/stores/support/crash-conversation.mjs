// One conversation with every phase: a parallel group, an approval, a question to a person, a host's
// selector, a spent limit of model calls. All it knows is in a store and in a list of effects, so that one
// process, or page, can begin it and another go on.
import { createRoundtable, externalParticipant, loadRoundtable } from 'agent-roundtable';

export const CONVERSATION = 'the conversation';
/** How long the claim of a process that is gone stands in the way, where nothing else ends it. */
const LEASE_MS = 1_500;

const AGENDA = [
  { kind: 'parallel', participantIds: ['ana', 'bo'] },
  undefined,
  { kind: 'speak', participantId: 'ana' },
  { kind: 'wait', participantId: 'pia', reason: 'What do you think?' },
  { kind: 'speak', participantId: 'bo' },
  { kind: 'finish', reason: 'said' },
];
const selection = { reference: { id: 'agenda', version: '1' }, modelCalls: 'none' };
const selector = { ...selection, select: ({ turns }) => AGENDA[turns.length] };

/**
 * Holds the conversation to its end.
 * @param {{append(effect: object): Promise<void>, read(): Promise<object[]>}} effects what agents did to the world
 */
export function hold(store, effects, leaseMs = LEASE_MS) {
  const table = createRoundtable({
    conversationId: CONVERSATION,
    participants: [...['ana', 'bo'].map((id) => agent(id, effects)), externalParticipant({ id: 'pia' })],
    selector,
    limits: { maxTurnsPerRun: 9, maxModelCallsPerRun: 1 },
    maxConcurrentParticipants: 2,
    recovery: 'durable',
    leaseMs,
    store,
  });
  return toItsEnd(table);
}

/** Loads the conversation, reconciles where it must, and goes on to the end. */
export async function recover(store, effects) {
  await unclaimed(store);
  const loaded = await load(store, effects).catch((error) => error);
  if (loaded.code === undefined) return { seen: 'finishes', ...(await toItsEnd(loaded)) };
  if (loaded.code !== 'recovery-required') throw loaded;

  const table = await load(store, effects, { unsettled: 'reconcile' });
  const performed = new Map((await effects.read()).map((effect) => [effect.turnId, effect]));
  for (const { turnId } of loaded.turns) {
    const decision = decide(performed.get(turnId));
    await table.reconcile({ turnId, expectedRevision: table.snapshot().revision, by: 'the test', decision });
  }
  return { seen: 'recovery-required', ...(await toItsEnd(table)) };
}

/** What a host knows of a turn that nobody saw settle: whether it has done anything. */
function decide(effect) {
  if (effect === undefined) return { kind: 'retry' };
  const { content, turns } = effect;
  const checkpoint = { version: '1', data: { turns } };
  return { kind: 'settle', outcome: { kind: 'speak', content }, checkpoint };
}

function load(store, effects, options) {
  const registry = {
    resolveParticipant: (reference) => ({ reference, factory: agent(reference.id, effects).factory }),
    resolveSelector: () => ({ ...selection, create: () => selector }),
  };
  return loadRoundtable({ conversationId: CONVERSATION, store, registry, ...options });
}

function agent(id, effects) {
  const openSession = async ({ checkpoint }) => ({
    session: session(id, checkpoint?.data.turns ?? 0, effects),
    release: async () => {},
  });
  const factory = { supportsContinuation: true, checkpointVersions: ['1'], modelCalls: 'metered', openSession };
  return { kind: 'agent', id, runtime: { id, version: '1' }, factory };
}

/** Each second turn of `ana` asks for approval, each second of `bo` calls a model twice. */
function session(id, done, effects) {
  let turns = done;
  const speak = async ({ turnId, context }) => {
    const content = `${id} has seen ${context.messages.length}`;
    await effects.append({ turnId, content, turns: turns + 1 });
    turns += 1;
    return { kind: 'speak', content };
  };
  return {
    async runTurn(turn, { services }) {
      if (turns % 2 === 1 && id === 'ana') {
        const request = { id: `${turn.attemptId}-ok`, kind: 'approval', reason: 'May I?', data: {} };
        return { kind: 'wait', requests: [request] };
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

/** Resolves when nobody holds the conversation. */
async function unclaimed(store) {
  for (;;) {
    const claim = await store.claim(CONVERSATION, 'the successor', LEASE_MS).catch((error) => error);
    if (claim.fence !== undefined) return store.release(claim);
    if (claim.code !== 'busy') throw claim;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/**
 * A store that ends its process at one of its writes: `landed`, before the engine hears of it;
 * `acknowledged`, at the next call of the store.
 */
export function deadly(inner, write, moment, die) {
  let writes = 0;
  let due = false;
  const guarded =
    (name) =>
    async (...args) => {
      if (due) await die();
      const receipt = await inner[name](...args);
      if ((name === 'create' || name === 'append') && ++writes === write) {
        if (moment === 'landed') await die();
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

/** The entries of each batch, with their kinds. */
export async function storedEntries(store) {
  const { batches } = await store.read(CONVERSATION, { after: 0 });
  return batches.map(({ entries }) =>
    entries.map((line) => {
      const [[kind, entry]] = Object.entries(JSON.parse(line));
      return { kind, entry };
    }),
  );
}
