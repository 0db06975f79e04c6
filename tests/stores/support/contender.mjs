// One of several processes that fight for the same conversations on one PostgreSQL:
//
//   node contender.mjs SEED SECONDS CONVERSATIONS
//
// Takes one conversation after the other at random, loads or creates it, and either says something as the
// person or runs a turn. At the end it prints, in JSON, what it was told had happened.
import { createRoundtable, externalParticipant, loadRoundtable } from 'agent-roundtable';
import { postgresStore } from 'agent-roundtable/postgres';
import pg from 'pg';

const [seed, seconds, conversations] = process.argv.slice(2).map(Number);
const pool = new pg.Pool({ ...JSON.parse(process.env.POSTGRES), max: 2 });
const store = postgresStore({ pool, schema: 'contest' });

const done = { inputs: [], turns: [], refused: {}, failed: [] };
/** What a host must be prepared for where others are at work. */
const REFUSALS = ['busy', 'conflict', 'stale-claim', 'recovery-required'];

const selection = { reference: { id: 'ana-speaks', version: '1' }, modelCalls: 'none' };
const selector = { ...selection, select: () => ({ kind: 'speak', participantId: 'ana' }) };
let conversationId;
const factory = {
  checkpointVersions: ['1'],
  openSession: async ({ checkpoint }) => ({ session: session(checkpoint?.data ?? 0), release: async () => {} }),
};
const ana = { kind: 'agent', id: 'ana', runtime: { id: 'ana', version: '1' }, factory };

function session(said) {
  let count = said;
  return {
    async runTurn({ turnId, context }) {
      done.turns.push(`${conversationId} ${turnId}`);
      count += 1;
      return { kind: 'speak', content: `${count}: ${context.messages.length} new` };
    },
    checkpoint: async () => ({ version: '1', data: count }),
  };
}

const registry = {
  resolveParticipant: (reference) => ({ reference, factory }),
  resolveSelector: () => ({ ...selection, create: () => selector }),
};

function create() {
  return createRoundtable({
    conversationId,
    participants: [ana, externalParticipant({ id: 'pia' })],
    selector,
    limits: { maxTurnsPerRun: 1 },
    recovery: 'durable',
    store,
  });
}

async function open() {
  try {
    return await loadRoundtable({ conversationId, store, registry });
  } catch (error) {
    if (error.code === 'not-found') return create();
    throw error;
  }
}

async function act(step) {
  const table = await open();
  try {
    if (random() < 0.5) {
      const inputId = `${seed}-${step}`;
      const expectedRevision = table.snapshot().revision;
      await table.submitInput({ participantId: 'pia', inputId, expectedRevision, content: `input ${inputId}` });
      done.inputs.push(`${conversationId} ${inputId}`);
    } else {
      const result = await table.run();
      if (result.status !== 'limited') done.failed.push(result);
    }
  } finally {
    await table.dispose();
  }
}

// mulberry32
let state = seed + 1;
function random() {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = Math.imul(state ^ (state >>> 15), state | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}

const end = Date.now() + seconds * 1000;
for (let step = 0; Date.now() < end; step++) {
  conversationId = `contested-${Math.floor(random() * conversations)}`;
  try {
    await act(step);
  } catch (error) {
    if (!REFUSALS.includes(error.code)) throw error;
    done.refused[error.code] = (done.refused[error.code] ?? 0) + 1;
  }
}
await pool.end();
process.stdout.write(JSON.stringify(done));
